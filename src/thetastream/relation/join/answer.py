"""From questions to rows of the answer: pairs are found in images, checked, and gathered.

    questions ─ join_images ─► candidates ─ other conditions ─► matches ─ gather ─► record batches

A semi join outputs a stream row at its first match. ``alone`` outputs the rows of left and anti
joins that have matched nothing after all their questions were answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes
from thetastream.relation.disk.clock import Clock
from thetastream.relation.join.kernels.leaves import join_images
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.metrics import RelationCounters
from thetastream.side import How, Side

_ROWS = 1024


class Gatherable(Protocol):
    """Stream rows that can be gathered."""

    def take(self, name: str, ids: Array) -> pa.Array:
        """Values of a column of some rows."""


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Stream rows, their boxes, and which of them have matched (updated in place)."""

    values: Gatherable
    boxes: RelationBoxes
    matched: NDArray[np.bool_]


class Answers:
    """Builds record batches of bounded size.

    A batch belongs to the caller and does not count against the budget. It has at most
    ``batch_rows`` rows, and at most a 32nd of the budget in bytes, or 1,024 rows.
    """

    def __init__(
        self,
        matching: Matching,
        counters: RelationCounters,
        clock: Clock,
        budget: int,
        batch_rows: int,
    ) -> None:
        width = sum(value_bytes(field.type) for field in matching.schema)
        limit = min(batch_rows, max(_ROWS, budget // 32 // max(1, width)))
        self._matching = matching
        self._layout = matching.layout
        self._counters = counters
        self._clock = clock
        self._room = [np.empty(limit, np.int64) for _ in range(3)]
        self._limit = limit
        how = matching.how
        self._tracks = how.tracks(Side.LEFT)
        self._keeps = how.keeps(Side.LEFT)
        self._pairs = how.pairs
        self._once = int(not how.pairs and matching.is_settled)
        self._ranged = int(matching.ranged)
        self._right = [name for side, name in matching.origin if side is Side.RIGHT]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that pairs are written to."""
        return sum(room.nbytes for room in self._room)

    def pairs(
        self, stream: StreamRows, questions: Array, bases: Array, buffer: Bytes
    ) -> Iterator[pa.RecordBatch]:
        """Answer questions; ``bases[i]`` is the byte at which the image of question i begins."""
        boxes = stream.boxes
        words = buffer.view(np.int64)
        at = bases >> 3
        cursor = np.array([0, -1])
        while cursor[0] < questions.size:
            count = join_images(
                words,
                self._layout.keys_at >> 3,
                self._ranged,
                questions,
                at,
                boxes.lows,
                boxes.highs,
                boxes.least,
                boxes.most,
                self._once,
                cursor,
                *self._room,
            )
            if count:
                matched, places, slots = (array[:count] for array in self._room)
                batch = self._answer(stream, matched // boxes.pieces, places << 3, slots, buffer)
                if batch is not None:
                    yield batch
                del batch  # its memory may serve the next one

    def _answer(
        self, stream: StreamRows, rows: Array, places: Array, slots: Array, buffer: Bytes
    ) -> pa.RecordBatch | None:
        """Check candidates and gather those that match."""
        matching, counters = self._matching, self._counters
        counters.candidates += rows.size
        if not matching.is_settled:
            keep = matching.check(
                lambda name: stream.values.take(name, rows),
                lambda name: self._layout.take(buffer, places, slots, [name])[0],
                rows.size,
            )
            rows, places, slots = rows[keep], places[keep], slots[keep]
        self._clock.charge(pairs=rows.size)
        if self._tracks:
            fresh = self._newly_matched(stream.matched, rows)
            if matching.how is How.SEMI:
                return self._batch(stream, fresh, None)
        if matching.how is How.ANTI or not rows.size:
            return None
        counters.matches += rows.size
        return self._batch(stream, rows, (places, slots, buffer))

    @staticmethod
    def _newly_matched(matched: NDArray[np.bool_], rows: Array) -> Array:
        """The rows that had not matched before; marks them as matched."""
        fresh = rows[~matched[rows]]
        if fresh.size:
            fresh = np.unique(fresh)
            matched[fresh] = True
        return fresh

    def undecided(self, stream: StreamRows, questions: Array) -> Array:
        """The questions still open: one match decides a semi or anti join."""
        if self._pairs:
            return questions
        rows = (questions & 0xFFFFFFFF) // stream.boxes.pieces
        open_ones: Array = questions[~stream.matched[rows]]
        return open_ones

    def alone(self, stream: StreamRows, rows: Array) -> Iterator[pa.RecordBatch]:
        """Output the unmatched rows of left and anti joins, once their questions are answered."""
        if not self._keeps:
            return
        rows = rows[~stream.matched[rows]]
        for start in range(0, rows.size, self._limit):
            batch = self._batch(stream, rows[start : start + self._limit], None)
            if batch is not None:
                yield batch

    def _batch(
        self, stream: StreamRows, rows: Array, stored: tuple[Array, Array, Bytes] | None
    ) -> pa.RecordBatch | None:
        if not rows.size:
            return None
        matching = self._matching
        right: list[pa.Array] = []
        if stored is not None and self._right:
            places, slots, buffer = stored
            right = self._layout.take(buffer, places, slots, self._right)
        arrays = []
        for at, (side, name) in enumerate(matching.origin):
            if side is Side.LEFT:
                arrays.append(stream.values.take(name, rows))
            elif stored is None:
                arrays.append(pa.nulls(rows.size, matching.schema.field(at).type))
            else:
                arrays.append(right.pop(0))
        self._counters.output_rows += rows.size
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.size, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=matching.schema)


def value_bytes(kind: pa.DataType) -> int:
    """Approximate bytes of a value."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 32
