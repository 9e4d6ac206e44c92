"""Stream rows that wait for a read: the stream buffer and the inverted index (SSIJ, Section IV-A).

Rows are numbered from 0 in order of arrival, and stored with their boxes and whether they have
matched. Questions, ``leaf << 32 | box``, are the inverted index: sorted, they list for each leaf
the boxes that wait for it. Values of fixed width lie in memory that is allocated as it is used and
released when the rows leave, so the bytes counted are the bytes held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.data.rows import ChunkView, ColumnView, FixedView, RowsView, gatherable, is_fixed
from thetastream.relation.disk.device import aligned, release
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.memory import Memory
from thetastream.side import Side

_LEAST = 1 << 12


class _Values:
    """A growing array that is emptied as a whole."""

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
        # Memory that was never written is only address space.
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
    """Values of a fixed number of bytes; validity is stored from the first NULL on."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind, width = kind, kind.bit_width // 8
        self._values = _Values(np.dtype(f"u{width}" if is_fixed(kind) else (np.void, width)))
        self._valid: _Values | None = None

    def append(self, array: pa.Array) -> None:
        before, first = self._values.count, array.offset
        data = np.frombuffer(array.buffers()[1] or b"", self._values.dtype)
        self._values.append(data[first : first + len(array)])
        if self._valid is None and array.null_count:
            self._valid = _Values(np.dtype(np.bool_))
            self._valid.append(np.ones(before, np.bool_))
        if self._valid is not None:
            self._valid.append(np.asarray(array.is_valid().to_numpy(zero_copy_only=False)))

    def words(self) -> Array:
        """Values of 8 bytes as numbers."""
        return self._values.values.view(np.int64)

    def view(self) -> ColumnView:
        values, valid = self._values.values, None if self._valid is None else self._valid.values
        if is_fixed(self._kind):
            return FixedView(self._kind, values, valid, 0)  # type: ignore[arg-type]
        return _WideView(self._kind, values, valid)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)

    def clear(self) -> None:
        self._values.clear()
        if self._valid is not None:
            self._valid.clear()
        self._valid = None


@dataclass(frozen=True, slots=True)
class _WideView:
    """Gathers values of other widths than 1, 2, 4 and 8 bytes, such as decimals."""

    kind: pa.DataType
    values: NDArray[np.generic]
    valid: NDArray[np.generic] | None

    def take(self, ids: Array) -> pa.Array:
        bitmap = None
        if self.valid is not None:
            valid = self.valid[ids].astype(np.bool_)
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
        taken = pa.py_buffer(self.values[ids].view(np.uint8))
        return pa.Array.from_buffers(self.kind, len(ids), [bitmap, taken])


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
        if len(self._chunks) == 32:  # gathering from few chunks is faster
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
    """Rows that arrived together: their number and the time."""

    rows: int
    arrived: float


class StreamBuffer:
    """The stream buffer and its inverted index; their bytes are ``memory.waiting``."""

    def __init__(self, matching: Matching, memory: Memory) -> None:
        self._memory = memory
        schema = matching.stream
        self._columns: dict[str, _FixedColumn | _ChunkColumn] = {}
        for name in matching.held_columns():
            kind = schema.field(name).type
            column = _FixedColumn if _has_fixed_width(kind) else _ChunkColumn
            self._columns[name] = column(kind)
        self.names = list(self._columns)
        """Stored columns."""
        word = np.dtype(np.int64)
        self._bounds = {name: _Values(word) for name in ("lows", "highs", "least", "most")}
        self._questions = _Values(word)
        self._matched = _Values(np.dtype(np.bool_))
        self._tracks = matching.how.tracks(Side.LEFT)
        self._key = matching.key_column  # its values are the lower bounds, and not stored twice
        self._point = True
        self._pieces = 1
        self.rows = 0
        self.row_bytes = 0.0
        """Average bytes of a row and its questions in the last phase; 0: unknown."""
        self.segments: list[Segment] = []

    def append(
        self,
        batch: pa.RecordBatch,
        boxes: RelationBoxes,
        questions: Array,
        matched: NDArray[np.bool_],
        segments: list[Segment],
    ) -> None:
        """Add rows: their boxes and open questions, whether they matched, when they arrived."""
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
        """The inverted index; may be sorted in place."""
        return self._questions.values  # type: ignore[return-value]

    def forget_answered(self, unanswered: Array) -> None:
        """Keep only the questions that were not answered."""
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
        """When the first of the rows arrived."""
        return min(segment.arrived for segment in self.segments)

    @property
    def leaves_at_most(self) -> int:
        """Upper bound on the number of leaves asked for."""
        return self._questions.count

    def stream(self) -> StreamRows:
        """A view of all rows, from which the answer is built."""
        views = {name: column.view() for name, column in self._columns.items()}
        return StreamRows(RowsView(views), self._boxes(), self._matched.values)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their questions."""
        return sum(part.nbytes for part in self._parts)

    @property
    def _parts(self) -> list[_FixedColumn | _ChunkColumn | _Values]:
        return [*self._columns.values(), *self._bounds.values(), self._questions, self._matched]

    @property
    def is_full(self) -> bool:
        """Whether memory is full."""
        return self._memory.is_full

    def _note(self) -> None:
        self._memory.waiting = self.nbytes
        self._memory.note()

    def clear(self) -> list[Segment]:
        """Drop all rows and release their memory; return when they arrived."""
        if self.rows:
            self.row_bytes = self.nbytes / self.rows
        for part in self._parts:
            part.clear()
        self._point = True
        self.rows = 0
        segments, self.segments = self.segments, []
        self._note()
        return segments

    def check(self) -> None:
        """Assert that rows and bytes are counted correctly."""
        assert self._memory.waiting == self.nbytes
        assert self.rows == sum(segment.rows for segment in self.segments)


def _has_fixed_width(kind: pa.DataType) -> bool:
    wide = pat.is_fixed_size_binary(kind) or pat.is_decimal128(kind) or pat.is_decimal256(kind)
    return is_fixed(kind) or bool(wide and kind.bit_width)
