"""Stream rows that wait for a read: the stream buffer and the inverted index (SSIJ, Section IV-A).

Rows are numbered from 0 in the order in which they came; what they ask (boxes) and whether they
have matched stands beside them. Questions, ``leaf << 32 | box``, are the inverted index: sorted,
they give for each leaf the boxes that wait for it. Values of fixed width lie in memory that is
taken as it is used and given back when the rows leave, so the bytes counted are the bytes held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.data.rows import (
    ChunkView,
    ColumnView,
    FixedView,
    RowsView,
    gatherable,
    is_fixed,
    raw_values,
)
from thetastream.relation.disk.device import aligned, release
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.memory import Memory
from thetastream.side import Side

_LEAST = 1 << 12


class _Values:
    """Numbers that are added at the end and forgotten all at once."""

    __slots__ = ("_memory", "_room", "count", "dtype")

    def __init__(self, dtype: np.dtype[np.generic]) -> None:
        self.dtype = dtype
        self._memory = np.empty(0, np.uint8)
        self._room: NDArray[np.generic] = self._memory.view(dtype)
        self.count = 0

    def append(self, values: NDArray[np.generic]) -> None:
        end = self.count + values.size
        if end > self._room.size:
            self._grow(end)
        self._room[self.count : end] = values
        self.count = end

    def _grow(self, needed: int) -> None:
        # Room that was never written is address space, not memory.
        size = max(_LEAST, 2 * needed)
        memory = aligned(size * self.dtype.itemsize)
        room = memory.view(self.dtype)
        room[: self.count] = self._room[: self.count]
        self._memory, self._room = memory, room

    @property
    def values(self) -> NDArray[np.generic]:
        return self._room[: self.count]

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize

    def clear(self) -> None:
        if self.nbytes:
            release(self._memory, 0, self._memory.size)
        self.count = 0


class _FixedColumn:
    """Values of 1, 2, 4 or 8 bytes; which are NULL is noted from the first NULL on."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values = _Values(self._dtype(kind.bit_width // 8))
        self._valid: _Values | None = None

    @staticmethod
    def _dtype(width: int) -> np.dtype[np.generic]:
        return np.dtype(f"u{width}")

    def _raw(self, array: pa.Array) -> NDArray[np.generic]:
        return raw_values(array)

    def append(self, array: pa.Array) -> None:
        before = self._values.count
        self._values.append(self._raw(array))
        if self._valid is None and array.null_count:
            self._valid = _Values(np.dtype(np.bool_))
            self._valid.append(np.ones(before, np.bool_))
        if self._valid is not None:
            self._valid.append(np.asarray(array.is_valid().to_numpy(zero_copy_only=False)))

    def words(self) -> Array:
        """Values of 8 bytes, as numbers."""
        return self._values.values.view(np.int64)

    def view(self) -> ColumnView:
        valid = None if self._valid is None else self._valid.values
        return FixedView(self._kind, self._values.values, valid, 0)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)

    def clear(self) -> None:
        self._values.clear()
        if self._valid is not None:
            self._valid.clear()
        self._valid = None


class _WideColumn(_FixedColumn):
    """Values of any other fixed number of bytes, such as decimals and binary values of one size."""

    @staticmethod
    def _dtype(width: int) -> np.dtype[np.generic]:
        return np.dtype((np.void, width))

    def _raw(self, array: pa.Array) -> NDArray[np.generic]:
        data = np.frombuffer(array.buffers()[1] or b"", self._values.dtype)
        return data[array.offset : array.offset + len(array)]

    def view(self) -> ColumnView:
        valid = None if self._valid is None else self._valid.values
        return _WideView(self._kind, self._values.values, valid)


class _WideView:
    """Gathers values of many bytes."""

    def __init__(
        self,
        kind: pa.DataType,
        values: NDArray[np.generic],
        valid: NDArray[np.generic] | None,
    ) -> None:
        self._kind = kind
        self._values = values
        self._valid = valid

    def take(self, ids: Array) -> pa.Array:
        bitmap = None
        if self._valid is not None:
            valid = self._valid[ids].astype(np.bool_)
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
        taken = pa.py_buffer(self._values[ids].view(np.uint8))
        return pa.Array.from_buffers(self._kind, len(ids), [bitmap, taken])


class _ChunkColumn:
    """Arrow chunks, for all other types."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._chunks: list[pa.Array] = []
        self._starts = [0]
        self.nbytes = 0

    def append(self, array: pa.Array) -> None:
        self._chunks.append(gatherable(array))
        self._starts.append(self._starts[-1] + len(array))
        self.nbytes += array.nbytes
        if len(self._chunks) == 32:  # few chunks are gathered from faster
            self._chunks = [pa.concat_arrays(self._chunks)]
            self._starts = [0, self._starts[-1]]

    def words(self) -> Array:
        raise AssertionError("values of 8 bytes only")

    def view(self) -> ColumnView:
        if not self._chunks:
            return ChunkView(self._kind, [gatherable(pa.nulls(0, self._kind))], [0])
        return ChunkView(self._kind, tuple(self._chunks), tuple(self._starts[:-1]))

    def clear(self) -> None:
        self._chunks = []
        self._starts = [0]
        self.nbytes = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that arrived together: how many of them there are, and when that was."""

    rows: int
    arrived: float


class StreamBuffer:
    """The stream buffer and its inverted index; what they hold is noted as ``memory.waiting``."""

    def __init__(self, matching: Matching, memory: Memory) -> None:
        self._memory = memory
        schema = matching.stream
        self._columns: dict[str, _FixedColumn | _ChunkColumn] = {}
        for name in matching.held_columns():
            kind = schema.field(name).type
            self._columns[name] = _column(kind)
        self.names = list(self._columns)
        """Columns that are kept."""
        word = np.dtype(np.int64)
        self._bounds = {name: _Values(word) for name in ("lows", "highs", "least", "most")}
        self._questions = _Values(word)
        self._matched = _Values(np.dtype(np.bool_))
        self._tracks = matching.how.tracks(Side.LEFT)
        self._key = matching.key_column  # its values are the lower bounds, not stored twice
        self._point = True
        self._pieces = 1
        self.rows = 0
        self.row_bytes = 0.0
        """Bytes of a row and its questions, on average, when they left last; 0: not known."""
        self.segments: list[Segment] = []

    def append(
        self,
        batch: pa.RecordBatch,
        boxes: RelationBoxes,
        questions: Array,
        matched: NDArray[np.bool_],
        segments: list[Segment],
    ) -> None:
        """Take in rows: their boxes and open questions, whether they matched, when they came."""
        self._pieces = boxes.pieces
        for name, column in self._columns.items():
            column.append(batch.column(name))
        if self._key is None:
            self._add_bounds(boxes)
        if self._tracks:
            self._matched.append(matched)
        self._questions.append(questions)
        self.rows += matched.size
        self.segments += segments
        self._note()

    def _add_bounds(self, boxes: RelationBoxes) -> None:
        if self._point and boxes.highs is not boxes.lows:
            self._point = False
            self._bounds["highs"].append(self._bounds["lows"].values)
        self._bounds["lows"].append(boxes.lows)
        if not self._point:
            self._bounds["highs"].append(boxes.highs)
        self._bounds["least"].append(boxes.least)
        self._bounds["most"].append(boxes.most)

    @property
    def questions(self) -> Array:
        """The inverted index, as it is; may be sorted in place."""
        return self._questions.values  # type: ignore[return-value]

    def forget_answered(self, unanswered: Array) -> None:
        """Leave only questions that were not answered."""
        self._questions.clear()
        self._questions.append(unanswered)
        self._note()

    def _boxes(self) -> RelationBoxes:
        lows, highs, least, most = (column.values for column in self._bounds.values())
        if self._key is not None:
            lows = self._columns[self._key].words()
        if self._point:
            highs = lows
        return RelationBoxes(lows, highs, least, most, self._pieces)  # type: ignore[arg-type]

    @property
    def oldest(self) -> float:
        """When the first of the rows came."""
        return min(segment.arrived for segment in self.segments)

    @property
    def leaves_at_most(self) -> int:
        """No more leaves than questions are waited for."""
        return self._questions.count

    def stream(self) -> StreamRows:
        """All rows as they are now, as the answer is made from them."""
        views = {name: column.view() for name, column in self._columns.items()}
        return StreamRows(RowsView(views), self._boxes(), self._matched.values)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Bytes held for the rows and their questions."""
        parts = [*self._columns.values(), *self._bounds.values(), self._questions, self._matched]
        return sum(part.nbytes for part in parts)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more rows."""
        return self._memory.is_full

    def _note(self) -> None:
        self._memory.waiting = self.nbytes
        self._memory.note()

    def clear(self) -> list[Segment]:
        """Forget all rows and give the memory back; gives when they came."""
        if self.rows:
            self.row_bytes = self.nbytes / self.rows
        for part in [
            *self._columns.values(),
            *self._bounds.values(),
            self._questions,
            self._matched,
        ]:
            part.clear()
        self._point = True
        self.rows = 0
        segments, self.segments = self.segments, []
        self._note()
        return segments

    def check(self) -> None:
        """Assert that rows and bytes are counted right."""
        assert self._memory.waiting == self.nbytes
        assert self.rows == sum(segment.rows for segment in self.segments)


def _column(kind: pa.DataType) -> _FixedColumn | _ChunkColumn:
    if is_fixed(kind):
        return _FixedColumn(kind)
    wide = pat.is_fixed_size_binary(kind) or pat.is_decimal128(kind) or pat.is_decimal256(kind)
    return _WideColumn(kind) if wide and kind.bit_width else _ChunkColumn(kind)
