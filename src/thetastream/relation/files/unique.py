"""Which rows are the same row: the columns of a key, compared by value.

Leaves are in the order of one int64 key per row. Other columns of a unique key, and keys that are
not exact (strings), are compared by their values, among rows of the same int64 key only.

Cost: nothing for rows with a key of their own; a few passes over the columns of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream.data.batch import in_python, to_keys
from thetastream.errors import OptionError, RelationError, SchemaError, suggest
from thetastream.relation.files.sorting import KeyedRows, joined_chunks
from thetastream.schema import KeyKind, common_domain

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RowKey:
    """The columns by which rows are found; ``exact``: equal int64 keys mean equal values."""

    names: tuple[str, ...]
    exact: bool

    def numbers(self, *chunks: KeyedRows) -> list[Array]:
        """A number per row; rows of any of the chunks with the same values have the same."""
        if self.exact:
            return [chunk.keys for chunk in chunks]
        columns = zip(
            *(chunk.batch.select(list(self.names)).columns for chunk in chunks), strict=True
        )
        both = value_numbers([pa.concat_arrays(parts) for parts in columns])
        return np.split(both, np.cumsum([len(chunk) for chunk in chunks])[:-1])

    def among(self, rows: KeyedRows, wanted: KeyedRows) -> Mask:
        """Which rows have the values of one of the ``wanted``, which are in key order."""
        mask = _contains(wanted.keys, rows.keys)
        if self.exact or not mask.any():
            return mask
        places = np.flatnonzero(mask)
        candidates = rows.take(places)
        first = int(np.searchsorted(wanted.keys, candidates.keys.min(), "left"))
        stop = int(np.searchsorted(wanted.keys, candidates.keys.max(), "right"))
        found, asked = self.numbers(candidates, wanted.slice(first, stop))
        mask[places] = np.isin(found, asked)
        return mask

    def missing(self, wanted: KeyedRows, present: Sequence[KeyedRows]) -> Mask:
        """Which of the ``wanted`` are not among rows that are present, which are in any order."""
        if not present or not len(wanted):
            return np.ones(len(wanted), np.bool_)
        asked, present_numbers = self.numbers(wanted, joined_chunks(present))
        return ~np.isin(asked, present_numbers)

    def repeated(self, rows: KeyedRows) -> tuple[Array, Array]:
        """The first row of each value that several rows have, and their number."""
        (numbers,) = self.numbers(rows)
        _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        several = counts > 1
        return first[several], counts[several]

    def text(self, rows: KeyedRows, places: Array, counts: Array | None = None) -> str:
        """Some values of the key, for messages: ``region = 'EU', valid_from = 3 (2 times)``."""
        shown = places[:_SHOWN]
        more = f" and {len(places) - _SHOWN:,} others" if len(places) > _SHOWN else ""
        columns = [in_python(rows.batch.column(name).take(pa.array(shown))) for name in self.names]
        if len(self.names) == 1 and counts is None:
            return f"{self.names[0]} = {', '.join(map(repr, columns[0]))}{more}"
        texts = []
        for at, values in enumerate(zip(*columns, strict=True)):
            pairs = zip(self.names, values, strict=True)
            times = "" if counts is None else f" ({counts[at]:,} times)"
            texts.append(", ".join(f"{name} = {value!r}" for name, value in pairs) + times)
        return "; ".join(texts) + more


class UniqueCheck:
    """Passes rows in key order on, and refuses values that several of them share."""

    def __init__(self, key: RowKey) -> None:
        self._key = key
        self._tail: list[KeyedRows] = []  # rows of the last int64 key so far
        self._found: list[tuple[KeyedRows, Array]] = []
        self._values = self._rows = 0

    def passed(self, chunks: Iterable[KeyedRows]) -> Iterator[KeyedRows]:
        """The same chunks; a RelationError after the last one names values that are repeated."""
        for chunk in chunks:
            if len(chunk):
                self._add(chunk)
            yield chunk
        self._close()
        if self._values:
            rows = joined_chunks([rows for rows, _ in self._found])
            counts = np.concatenate([counts for _, counts in self._found])
            extra = f" and {self._values - _SHOWN:,} others" if self._values > _SHOWN else ""
            shown = self._key.text(rows, np.arange(len(rows)), counts)
            raise RelationError(
                f"unique=({', '.join(map(repr, self._key.names))}) is not unique: {self._values:,} "
                f"values are in {self._rows:,} rows: {shown}{extra}. Remove the other rows, or "
                "name more columns"
            )

    def _add(self, chunk: KeyedRows) -> None:
        last = chunk.keys[-1]
        if self._tail and self._tail[0].keys[0] != chunk.keys[0]:
            self._close()
        start = int(np.searchsorted(chunk.keys, last))
        if self._tail and start:
            stop = int(np.searchsorted(chunk.keys, chunk.keys[0], "right"))
            self._tail.append(chunk.slice(0, stop))
            self._close()
            self._look(chunk.slice(stop, start))
        else:
            self._look(chunk.slice(0, start))
        self._tail.append(self._narrow(chunk.slice(start, len(chunk))))

    def _close(self) -> None:
        tail, self._tail = self._tail, []
        if sum(map(len, tail)) > 1:
            self._look(joined_chunks([self._narrow(rows) for rows in tail]))

    def _look(self, rows: KeyedRows) -> None:
        """Count repeated values among complete groups of rows with the same int64 key."""
        again = rows.keys[1:] == rows.keys[:-1]
        if not again.any():
            return
        grouped = np.zeros(len(rows), np.bool_)
        grouped[1:] = again
        grouped[:-1] |= again
        some = self._narrow(rows).take(np.flatnonzero(grouped))
        first, counts = self._key.repeated(some)
        self._values += len(first)
        self._rows += int(counts.sum())
        kept = _SHOWN - sum(len(rows) for rows, _ in self._found)
        if kept > 0 and len(first):
            self._found.append((some.take(first[:kept]), counts[:kept]))

    def _narrow(self, rows: KeyedRows) -> KeyedRows:
        return KeyedRows(rows.batch.select(list(self._key.names)), rows.keys)


def read_unique(
    unique: str | Sequence[str] | None, schema: pa.Schema, needed: Sequence[str]
) -> tuple[str, ...]:
    """The columns of a unique key; an error if they do not include those of the order."""
    if unique is None:
        return ()
    names = (unique,) if isinstance(unique, str) else tuple(unique)
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"unique must be a column name, or several; got {unique!r}")
    if len(set(names)) < len(names):
        raise OptionError(f"unique names a column twice: {', '.join(names)}")
    for name in names:
        if name not in schema.names:
            raise SchemaError(
                f"there is no column {name!r} for unique; the schema has "
                f"{', '.join(schema.names)}.{suggest(name, schema.names)}"
            )
        kind = schema.field(name).type
        common_domain(kind, kind, f"column {name!r} of unique")
    lacking = [name for name in needed if name not in names]
    if lacking:
        raise OptionError(
            f"unique must include the columns by which the relation is sorted, so that its rows "
            f"are found without reading all: add {', '.join(map(repr, lacking))} to "
            f"unique=({', '.join(map(repr, names))}), or sort by other columns"
        )
    return names


def value_numbers(columns: Sequence[pa.Array]) -> Array:
    """Equal numbers for rows with equal values in all columns."""
    return _combined([_numbered(column) for column in columns])


def _numbered(values: pa.Array) -> Array:
    """Equal numbers for equal values of a column; NULL equals NULL, NaN equals NaN."""
    domain = common_domain(values.type, values.type, "unique")
    if domain.kind is KeyKind.BYTES or pat.is_decimal(values.type):
        indices = values.dictionary_encode().indices
        return np.array(indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    keys, valid = to_keys(values, domain)
    if valid is None:
        return keys
    numbers = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    numbers[~valid] = -1
    return numbers


def _combined(columns: Sequence[Array]) -> Array:
    """One number per row for the numbers of several columns."""
    both = columns[0]
    for column in columns[1:]:
        first = np.unique(both, return_inverse=True)[1].astype(np.int64)
        values, second = np.unique(column, return_inverse=True)
        both = first * np.int64(len(values)) + second
    return both


def _contains(ascending: Array, keys: Array) -> NDArray[np.bool_]:
    """Where keys are among others, which ascend."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    mask: Mask = ascending[places] == keys
    return mask
