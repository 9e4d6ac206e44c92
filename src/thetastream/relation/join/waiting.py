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
from thetastream.data.rows import Ring, Rows, is_fixed
from thetastream.relation.disk.device import aligned, release
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.memory import Memory
from thetastream.side import Side

_LEAST = 1 << 12


class _Held(Ring):
    """Rows that are dropped as a whole. Memory that was never written is only address space."""

    __slots__ = ()

    def _allocated(self, needed: int) -> NDArray[np.generic]:
        dtype = self._buffer.dtype
        return aligned(max(_LEAST, 2 * needed) * dtype.itemsize).view(dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.values.nbytes

    def clear(self) -> None:
        """Drop all rows and release their memory, but keep the address space."""
        if self.nbytes:
            release(self._buffer.view(np.uint8), 0, self._buffer.nbytes)
        super().clear()


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that arrived together: their number and the time."""

    rows: int
    arrived: float


class StreamBuffer:
    """The stream buffer and its inverted index; their bytes are ``memory.waiting``."""

    def __init__(self, matching: Matching, memory: Memory) -> None:
        self._memory = memory
        self.names = matching.held_columns()
        """Stored columns."""
        self._payload = Rows(
            matching.stream, self.names, ring=_Held, flat=_has_fixed_width, chunked=True
        )
        self._bounds = {name: _Held(np.int64) for name in ("lows", "highs", "least", "most")}
        self._questions = _Held(np.int64)
        self._matched = _Held(np.bool_)
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
        self._payload.append(batch, matched.size)
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
        return self._questions.values

    def forget_answered(self, unanswered: Array) -> None:
        """Keep only the questions that were not answered."""
        self._questions.clear()
        self._questions.append(unanswered)
        self._note()

    def _boxes(self) -> RelationBoxes:
        lows, highs, least, most = (column.values for column in self._bounds.values())
        if self._key is not None:
            lows = self._payload.raw(self._key).view(np.int64)
        if self._point:
            highs = lows
        return RelationBoxes(lows, highs, least, most, self._pieces)

    @property
    def oldest(self) -> float:
        """When the first of the rows arrived."""
        return min(segment.arrived for segment in self.segments)

    @property
    def leaves_at_most(self) -> int:
        """Upper bound on the number of leaves asked for."""
        return self._questions.size

    def stream(self) -> StreamRows:
        """A view of all rows, from which the answer is built."""
        return StreamRows(self._payload.view(), self._boxes(), self._matched.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their questions."""
        return sum(part.nbytes for part in self._parts)

    @property
    def _parts(self) -> list[Rows | _Held]:
        return [self._payload, *self._bounds.values(), self._questions, self._matched]

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
