"""Rows that a relation does not take: NULL, text and ends of intervals that cannot be keys.

Every function here counts, so that a message can say how many rows are wrong. Builds and changes
refuse the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream._jit.arrays import Array, Mask
from thetastream.data.batch import in_python, plain, to_keys
from thetastream.errors import DataError, RelationError
from thetastream.relation.files.sampling import falls
from thetastream.relation.image.coding import is_wide
from thetastream.relation.image.key import KeyColumns
from thetastream.relation.image.layout import LeafLayout
from thetastream.schema import KeyKind, common_domain, kind_of, value_type

# --- NULL ---------------------------------------------------------------------------------------


def null_in_front(name: str, rows: int) -> str:
    """The message about NULLs in an equality column."""
    return (
        f"NULL is in {name} in {rows:,} rows, which is compared by equality, so that nothing could "
        "match them: put a value in its place, or leave such rows out of the source"
    )


def refuse_null_ends(layout: LeafLayout, rows: int, columns: Mapping[str, int]) -> None:
    """RelationError for rows with NULL ends, unless the user has said what NULL means."""
    key = layout.columns
    for name in key.equal:
        if columns[name]:
            raise RelationError(null_in_front(name, columns[name]))
    if not rows or not key.is_interval or key.open_ends is not None:
        return
    counts = ", ".join(f"{name} in {columns[name]:,}" for name in key.ordered if columns[name])
    if counts:
        raise RelationError(
            f"{rows:,} rows have an interval without an end: NULL is in {counts}. Pass "
            "open_ends=True if NULL means that it has no end (or no beginning), or open_ends=False "
            "to leave such rows out"
        )


# --- Text and addresses -------------------------------------------------------------------------


def refuse_text(batch: pa.RecordBatch, layout: LeafLayout) -> None:
    """DataError if a string of the key is not UTF-8, or an interval has ends of two lengths."""
    for name in layout.columns.names:
        if _is_text(value_type(batch.schema.field(name).type)):
            try:
                plain(batch.column(name)).validate(full=True)
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"key column {name!r} has a string that is not UTF-8 ({error}); store such "
                    "values as binary"
                ) from None
    key = layout.columns
    if has_binary_ends(batch.schema, key):
        low, high = (_lengths(batch.column(name)) for name in key.ordered)
        if count := pc.sum(pc.not_equal(low, high)).as_py():
            raise DataError(
                f"{count:,} rows have ends of different lengths in {key.ordered[0]} and "
                f"{key.ordered[1]}, such as an IPv4 and an IPv6 address, between which nothing "
                "lies; store both kinds in relations of their own"
            )


def has_binary_ends(schema: pa.Schema, key: KeyColumns) -> bool:
    """Whether the ends of intervals are binary, such as addresses."""
    kind = value_type(schema.field(key.ordered[0]).type)
    return key.is_interval and kind_of(kind) is KeyKind.BYTES and not _is_text(kind)


def count_lengths(values: pa.Array) -> Counter[int]:
    """How many binary values have which length; NULLs are left out."""
    counts = _lengths(values).drop_null().value_counts()
    pairs = zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)
    return Counter(dict(pairs))


def _lengths(values: pa.Array) -> pa.Array:
    return pc.binary_length(plain(values).cast(pa.large_binary()))


def refuse_lengths(lengths: Mapping[int, int], name: str, note: str = "") -> None:
    """DataError if ends of intervals have several lengths; ``lengths`` counts rows by length."""
    if len(lengths) > 1:
        shown = ", ".join(f"{bytes_:,} bytes in {lengths[bytes_]:,}" for bytes_ in sorted(lengths))
        raise DataError(
            f"{name} has values of different lengths: {shown} rows, such as IPv4 and IPv6 "
            f"addresses, between which nothing lies{note}; store both kinds in relations of their "
            "own"
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))


# --- Empty intervals ----------------------------------------------------------------------------


def empty_intervals(
    batch: pa.RecordBatch, layout: LeafLayout, keys: Array, his: Array | None, valid: Mask | None
) -> Mask | None:
    """The rows whose ``lo`` is above their ``hi``; None if the key is not an interval."""
    if his is None:
        return None
    if layout.domain != layout.high_domain or any(layout.codings):
        low, high = (plain(batch.column(name)) for name in layout.key)  # such as seconds and days
        domain = common_domain(low.type, high.type, "interval")
        if domain.kind is KeyKind.BYTES or any(is_wide(kind) for kind in (low.type, high.type)):
            empty = falls(low, high)
        else:
            empty = to_keys(low, domain)[0] > to_keys(high, domain)[0]
    else:
        empty = keys > his
    if layout.columns.open_ends:
        for name in layout.key:
            if batch.column(name).null_count:
                empty &= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return empty if valid is None else empty & valid


def interval_text(batch: pa.RecordBatch, layout: LeafLayout, empty: Mask) -> str:
    """The first of some intervals, for messages."""
    place = pa.array(np.flatnonzero(empty)[:1])
    ends = (in_python(plain(batch.column(name)).take(place))[0] for name in layout.key)
    return ", ".join(f"{name} = {end!r}" for name, end in zip(layout.key, ends, strict=True))


def empty_refused(rows: int, first: str, note: str) -> RelationError:
    """The error for intervals that end before they begin."""
    return RelationError(
        f"{rows:,} intervals end before they begin, such as {first}{note}. Correct them, or build "
        "the relation with keep_empty=True to keep such rows, which contain no point"
    )
