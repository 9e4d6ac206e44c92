"""Strings and binary that cannot be keys: not UTF-8, or ends of intervals that do not compare."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream.data.batch import plain
from thetastream.errors import DataError
from thetastream.relation.image.layout import LeafLayout
from thetastream.schema import KeyKind, kind_of, value_type


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
    kinds = [value_type(batch.schema.field(name).type) for name in key.ordered]
    if key.is_interval and kind_of(kinds[0]) is KeyKind.BYTES and not _is_text(kinds[0]):
        low, high = (plain(batch.column(name)).cast(pa.large_binary()) for name in key.ordered)
        differ = pc.not_equal(pc.binary_length(low), pc.binary_length(high))
        if count := pc.sum(differ).as_py():
            raise DataError(
                f"{count:,} rows have ends of different lengths in {key.ordered[0]} and "
                f"{key.ordered[1]}, such as an IPv4 and an IPv6 address, between which nothing "
                "lies; store both kinds in relations of their own"
            )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))
