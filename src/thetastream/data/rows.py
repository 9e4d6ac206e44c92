"""The rows of one stream: payload stored once, appended at the end, released at the front.

Rows are numbered by arrival. Columns of fixed width, strings and binary live in flat NumPy arrays
that slide and are copied now and then. All other Arrow types (nested, dictionaries, …) live in
Arrow chunks whose sizes are kept geometric, so that a gather visits few of them.

    ids      100 … 163 │ 164 … 171 │ 172 173          expire(164) drops the first chunk
    chunks       64    │     8     │    2

A *view* is a cheap snapshot: rows appended or expired later do not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream.data.batch import valid_mask
from thetastream.data.byte_columns import BytesColumn, BytesView
from thetastream.data.kernels.pairs import gather
from thetastream.data.memory import has_bytes, shared
from thetastream.errors import SchemaError
from thetastream.side import Side

_LEAST = 1024
_CHUNK_RATIO = 4


class Ring:
    """A flat array of rows ``first .. first + len``: grows at the end, shrinks at the front.

    Appending is O(1) amortised; at most half of the array is unused. Readable rows are never
    changed, so a slice taken earlier stays valid. The exception is ``values[...] = …`` by the
    owner, which is meant to be seen.
    """

    __slots__ = ("_buffer", "_head", "first", "size")

    def __init__(self, dtype: np.dtype[np.generic] | type[np.generic], first: int = 0) -> None:
        self._buffer: NDArray[np.generic] = np.empty(0, dtype)
        self._head = 0
        self.first = first
        self.size = 0

    def append(self, values: NDArray[np.generic]) -> None:
        """Add rows at the end."""
        end = self._head + self.size
        if end + len(values) > len(self._buffer):
            self._move(self.size + len(values))
            end = self._head + self.size
        self._buffer[end : end + len(values)] = values
        self.size += len(values)

    def expire(self, before: int) -> None:
        """Drop rows below ``before``; release memory if most of it is unused."""
        gone = min(max(before - self.first, 0), self.size)
        self._head += gone
        self.first += gone
        self.size -= gone
        if len(self._buffer) > 4 * max(self.size, _LEAST):
            self._move(self.size)

    def clear(self) -> None:
        """Drop all rows; the next one is row 0."""
        self._head = self.first = self.size = 0

    def _move(self, needed: int) -> None:
        moved = self._allocated(needed)
        moved[: self.size] = self.values
        self._buffer = moved
        self._head = 0

    def _allocated(self, needed: int) -> NDArray[np.generic]:
        """An array for at least ``needed`` rows."""
        return np.empty(max(needed + needed // 2, _LEAST), self._buffer.dtype)

    @property
    def values(self) -> NDArray[Any]:
        """All rows, as a view."""
        return self._buffer[self._head : self._head + self.size]

    @property
    def nbytes(self) -> int:
        """Allocated bytes, including room to grow."""
        return self._buffer.nbytes


class ColumnView(Protocol):
    """A snapshot of a column that can be gathered from."""

    def take(self, ids: Array) -> pa.Array:
        """The values of the rows, in the order of ``ids``."""


class Room:
    """One array for all columns of a batch, which then lie in huge pages.

    NumPy asks for huge pages from 4 MiB on. A page of 4 KiB takes longer to come by than to fill.
    """

    __slots__ = ("_block", "_used")

    def __init__(self, nbytes: int) -> None:
        self._block = np.empty(nbytes, np.uint8)
        self._used = 0

    @classmethod
    def of(cls, schema: pa.Schema, length: int) -> Room | None:
        """Room for the fixed-width columns of a batch; None if it would bring nothing."""
        sizes = [field.type.bit_width // 8 * length for field in schema if is_fixed(field.type)]
        if not sizes or max(sizes) >= _HUGE or sum(sizes) < _HUGE:
            return None
        return cls(sum(sizes) + _ALIGNED * len(sizes))

    def empty(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array of any values."""
        start, end = self._used, self._used + count * kind.itemsize
        self._used = -(-end // _ALIGNED) * _ALIGNED
        return self._block[start:end].view(kind)


_HUGE = 1 << 22  # bytes
_ALIGNED = 64


@dataclass(frozen=True, slots=True, eq=False)
class FixedView:
    """Fixed-width values in a writable NumPy array; row ``first`` is at position 0.

    Values of other widths than 1, 2, 4 and 8 bytes, such as decimals, have a void type.
    """

    kind: pa.DataType
    values: NDArray[Any]
    valid: Mask | None
    first: int

    def take(self, ids: Array, room: Room | None = None) -> pa.Array:
        if self.values.dtype.kind == "V":
            taken = self.values[ids - self.first].view(np.uint8)
        else:
            kind = self.values.dtype
            taken = np.empty(len(ids), kind) if room is None else room.empty(len(ids), kind)
            gather(self.values, ids, self.first, taken)
        bitmap = None
        if self.valid is not None:
            valid = self.valid.take(ids - self.first)
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(self.kind, len(ids), [bitmap, pa.py_buffer(taken)])


@dataclass(frozen=True, slots=True, eq=False)
class ChunkView:
    """Arrow chunks; ``starts[i]`` is the id of the first row of chunk ``i``."""

    kind: pa.DataType
    chunks: Sequence[pa.Array]
    starts: Sequence[int]

    def take(self, ids: Array) -> pa.Array:
        taken = self._taken(ids)
        return taken if taken.type.equals(self.kind) else taken.cast(self.kind)

    def _taken(self, ids: Array) -> pa.Array:
        if len(self.chunks) == 1:
            return self.chunks[0].take(pa.array(ids - self.starts[0]))
        owner = np.searchsorted(self.starts, ids, side="right") - 1
        order = np.argsort(owner, kind="stable")
        edges = np.searchsorted(owner[order], np.arange(len(self.chunks) + 1))
        parts = [
            chunk.take(pa.array(ids[order[edges[i] : edges[i + 1]]] - self.starts[i]))
            for i, chunk in enumerate(self.chunks)
            if edges[i] < edges[i + 1]
        ]
        if not parts:
            return self.chunks[0][:0]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return concatenated(parts).take(pa.array(back))


def concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays; their dictionaries are unified."""
    if len(arrays) == 1:
        return arrays[0]
    if pat.is_dictionary(arrays[0].type):
        whole = pa.chunked_array(arrays).unify_dictionaries()
        return pa.concat_arrays(whole.chunks)
    return pa.concat_arrays(arrays)


def is_fixed(kind: pa.DataType) -> bool:
    """Whether values are plain numbers of 1, 2, 4 or 8 bytes."""
    temporal = pat.is_temporal(kind) and not pat.is_interval(kind)
    return bool(pat.is_integer(kind) or pat.is_floating(kind) or temporal)


class _FixedColumn:
    """A fixed-width column of a growing and shrinking stream; validity from the first NULL on."""

    def __init__(self, kind: pa.DataType, first: int, ring: type[Ring]) -> None:
        self._kind = kind
        self._ring = ring
        self.values = ring(_raw_dtype(kind), first)
        self._valid: Ring | None = None

    def append(self, array: pa.Array) -> None:
        if array.null_count and self._valid is None:
            self._valid = self._ring(np.bool_, self.values.first)
            self._valid.append(np.ones(self.values.size, np.bool_))
        if self._valid is not None:
            self._valid.append(array.is_valid().to_numpy(zero_copy_only=False))
        self.values.append(raw_values(array))

    def expire(self, before: int) -> None:
        self.values.expire(before)
        if self._valid is not None:
            self._valid.expire(before)

    def view(self) -> ColumnView:
        valid = None if self._valid is None else self._valid.values
        return FixedView(self._kind, self.values.values, valid, self.values.first)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (self._valid.nbytes if self._valid is not None else 0)

    def clear(self) -> None:
        self.values.clear()
        self._valid = None


class _ChunkColumn:
    """A column of any Arrow type, in chunks of geometric size."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._kind = kind
        self._chunks: list[pa.Array] = []
        self._starts: list[int] = []
        self._next = first

    def append(self, array: pa.Array) -> None:
        if not len(array):
            return
        self._chunks.append(gatherable(array))
        self._starts.append(self._next)
        self._next += len(array)
        while len(self._chunks) > 1 and self._mergeable():
            newer, older = self._chunks.pop(), self._chunks.pop()
            self._starts.pop()
            self._chunks.append(concatenated([older, newer]))

    def _mergeable(self) -> bool:
        """Neighbours of like size are merged, but a chunk never outgrows a quarter of the rows."""
        older, newer = len(self._chunks[-2]), len(self._chunks[-1])
        rows = self._next - self._starts[0]
        return older <= _CHUNK_RATIO * newer and (older + newer) * 4 <= max(rows, 4 * _LEAST)

    def expire(self, before: int) -> None:
        while self._chunks and self._starts[0] + len(self._chunks[0]) <= before:
            del self._chunks[0], self._starts[0]

    def view(self) -> ColumnView:
        if not self._chunks:
            return ChunkView(self._kind, [gatherable(pa.nulls(0, self._kind))], [self._next])
        return ChunkView(self._kind, tuple(self._chunks), tuple(self._starts))

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    def clear(self) -> None:
        self.expire(self._next)
        self._next = 0


class RowsView:
    """A snapshot of rows; ``take`` is the one function that gathers payload."""

    __slots__ = ("_columns",)

    def __init__(self, columns: dict[str, ColumnView]) -> None:
        self._columns = columns

    def take(self, name: str, ids: Array, room: Room | None = None) -> pa.Array:
        """Values of column ``name`` of the rows ``ids``, in that order; in ``room`` if they fit."""
        column = self._columns[name]
        return column.take(ids, room) if isinstance(column, FixedView) else column.take(ids)

    def as_bytes(self, name: str) -> BytesView | None:
        """A column of strings or binary as bytes; None for other columns."""
        column = self._columns[name]
        return column if isinstance(column, BytesView) else None


class BatchView(RowsView):
    """A record batch as rows ``0 … n``; a column is wrapped on first use."""

    __slots__ = ("_batch", "_bytes")

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__({})
        self._batch = batch
        self._bytes: dict[str, BytesView] = {}

    def take(self, name: str, ids: Array, room: Room | None = None) -> pa.Array:
        if name not in self._columns:
            array = self._batch.column(name)
            valid = valid_mask(array) if array.null_count else None
            self._columns[name] = (
                FixedView(array.type, shared_values(array), valid, 0)
                if is_fixed(array.type)
                else ChunkView(array.type, [gatherable(array)], [0])
            )
        return super().take(name, ids, room)

    def as_bytes(self, name: str) -> BytesView | None:
        array = self._batch.column(name)
        if name not in self._bytes and has_bytes(array.type):
            self._bytes[name] = BytesView.of(array)
        return self._bytes.get(name)


class NumberView(RowsView):
    """Rows as arrival numbers: entries of an array that begins at id ``first``, or ids + it."""

    __slots__ = ("_first", "_numbers")

    def __init__(self, first: int = 0, numbers: Array | None = None) -> None:
        super().__init__({})
        self._first = first
        self._numbers = numbers

    def of(self, ids: Array) -> Array:
        """The arrival numbers of rows."""
        return ids + self._first if self._numbers is None else self._numbers[ids - self._first]

    def take(self, name: str, ids: Array, room: Room | None = None) -> pa.Array:
        """The arrival numbers of rows, for any column name."""
        return pa.array(self.of(ids))


class Rows:
    """The payload of one stream.

    Types for which ``flat`` is true live in arrays of ``ring``, and so do strings and binary,
    unless ``chunked``. Columns of strings that are ``ordered`` also keep their first eight bytes.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        first: int = 0,
        *,
        ring: type[Ring] = Ring,
        flat: Callable[[pa.DataType], bool] = is_fixed,
        chunked: bool = False,
        ordered: Collection[str] = (),
    ) -> None:
        self._columns: dict[str, _FixedColumn | BytesColumn | _ChunkColumn] = {}
        for name in columns:
            kind = schema.field(name).type
            if flat(kind):
                self._columns[name] = _FixedColumn(kind, first, ring)
            elif has_bytes(kind) and not chunked:
                self._columns[name] = BytesColumn(kind, first, ring, ordered=name in ordered)
            else:
                self._columns[name] = _ChunkColumn(kind, first)
        self.first = self.next = first

    @property
    def columns(self) -> list[str]:
        """Names of the stored columns."""
        return list(self._columns)

    def append(self, batch: pa.RecordBatch, count: int | None = None) -> None:
        """Store rows under the ids ``next …``; pass their ``count`` if there may be no column."""
        for name, column in self._columns.items():
            column.append(batch.column(name))
        self.next += batch.num_rows if count is None else count

    def expire(self, before: int) -> None:
        """Drop rows below ``before``."""
        if before > self.first:
            self.first = min(before, self.next)
            for column in self._columns.values():
                column.expire(self.first)

    def clear(self) -> None:
        """Drop all rows; the next one is row 0."""
        for column in self._columns.values():
            column.clear()
        self.first = self.next = 0

    def raw(self, name: str) -> NDArray[Any]:
        """The stored values of a fixed-width column, as a view."""
        column = self._columns[name]
        assert isinstance(column, _FixedColumn)
        return column.values.values

    def view(self) -> RowsView:
        """A snapshot of all columns."""
        return RowsView({name: column.view() for name, column in self._columns.items()})

    def __len__(self) -> int:
        return self.next - self.first

    @property
    def nbytes(self) -> int:
        """Bytes of stored payload."""
        return sum(column.nbytes for column in self._columns.values())


def gathered(
    schema: pa.Schema,
    origin: Sequence[tuple[Side, str]],
    taken: Mapping[Side, tuple[RowsView, Array]],
    length: int,
) -> pa.RecordBatch:
    """Gather one record batch: each column from the rows of its side, NULLs if there are none."""
    room = Room.of(schema, length)
    arrays = [
        taken[side][0].take(name, taken[side][1], room)
        if side in taken
        else pa.nulls(length, schema.field(at).type)
        for at, (side, name) in enumerate(origin)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def gatherable(array: pa.Array) -> pa.Array:
    """Cast string views to strings, which Arrow can gather from."""
    if pat.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pat.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def check_gatherable(schema: pa.Schema, side: str) -> None:
    """Raise SchemaError for a payload type that Arrow cannot gather rows of."""
    for field in schema:
        try:
            gatherable(pa.nulls(0, field.type)).take(pa.array([], pa.int64()))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise SchemaError(
                f"column {field.name!r} of the {side} side has type {field.type}, of which Arrow "
                "cannot gather rows; cast it to a type that is not a view or run-end encoded"
            ) from None


def raw_values(array: pa.Array) -> NDArray[np.generic]:
    """The bytes of a fixed-width array, as unsigned integers if possible; arbitrary for NULLs."""
    data = np.frombuffer(array.buffers()[1] or b"", _raw_dtype(array.type))
    return data[array.offset : array.offset + len(array)]


def shared_values(array: pa.Array) -> NDArray[np.generic]:
    """The same without a copy; only read it."""
    return shared(raw_values(array), array)


def _raw_dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    width = kind.bit_width // 8
    return np.dtype(f"u{width}" if width in (1, 2, 4, 8) else (np.void, width))
