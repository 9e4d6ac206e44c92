"""Stream rows that MeshJoin holds while the relation passes by.

The rows lie in a ring of *batches*, one for each step of a circle over the relation, with room for
the same number of rows each. Row ``i`` of batch ``t`` has the number ``t × room + i`` while it is
held. What the paper has as a hash table and a queue of pointers is here, per box that a row
asks: its bounds, the leaves it can meet, and a place in the order of these (``kernels/mesh``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from thetabench.arrays import Array, Flags
from thetabench.rivals.kernels.mesh import meet
from thetastream.data.rows import ChunkView, FixedView, gatherable, is_fixed, raw_values
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.waiting import Segment

_ENTRY = 16  # of a box: its number, first leaf, behind the last one, running maximum


def held_bytes(matching: Matching, pieces: int) -> int:
    """Bytes of a held row beside its columns."""
    bounds = 8 * (1 + (not matching.is_point) + 2 * matching.ranged)
    return 1 + pieces * (bounds + _ENTRY)


class Held:
    """``steps`` batches of at most ``room`` rows; see the module.

    Putting a batch costs O(rows log rows); meeting leaves two binary searches per batch and O(1)
    per question.
    """

    def __init__(self, matching: Matching, steps: int, room: int, pieces: int) -> None:
        self.steps, self.room, self._pieces = steps, room, pieces
        self._ranged = int(matching.ranged)
        rows, boxes = steps * room, steps * room * pieces
        self._columns: dict[str, _Column] = {}
        for name in matching.held_columns():
            kind = matching.stream.field(name).type
            made = _FixedColumn if is_fixed(kind) else _ChunkColumn
            self._columns[name] = made(kind, steps, room)
        lows = np.ones(boxes, np.int64)
        highs = lows if matching.is_point else np.zeros(boxes, np.int64)
        least, most = (np.zeros(boxes * self._ranged, np.int64) for _ in range(2))
        self._boxes = RelationBoxes(lows, highs, least, most, pieces)
        shape = (steps, room * pieces)
        self._first, self._stop, self._reach, self._box = (
            np.zeros(shape, np.int32) for _ in range(4)
        )
        self._asking = np.zeros(steps, np.int64)
        self._counts = np.zeros(steps, np.int64)
        self._segments: list[list[Segment]] = [[] for _ in range(steps)]
        self.stream = StreamRows(self, self._boxes, np.zeros(rows, np.bool_))
        """The rows, as the answer is made from them."""
        self.rows = 0

    def put(
        self,
        batch: int,
        rows: pa.RecordBatch,
        boxes: RelationBoxes,
        first: Array,
        stop: Array,
        segments: list[Segment],
    ) -> None:
        """Hold rows as batch ``batch``, which is empty; their boxes ask for ``[first, stop)``."""
        assert not self._counts[batch] and rows.num_rows <= self.room
        start, size = batch * self.room, rows.num_rows
        for name, column in self._columns.items():
            column.put(batch, rows.column(name))
        self.stream.matched[start : start + size] = False
        at, count = start * self._pieces, size * self._pieces
        asking = np.flatnonzero(stop > first)
        if self._boxes.highs is self._boxes.lows and boxes.highs is not boxes.lows:
            self._part_bounds(boxes, asking)
        held = self._boxes
        held.lows[at : at + count] = boxes.lows
        if held.highs is not held.lows:
            held.highs[at : at + count] = boxes.highs
        if self._ranged:
            held.least[at : at + count], held.most[at : at + count] = boxes.least, boxes.most
        asking = asking[np.argsort(first[asking], kind="stable")]
        many = asking.size
        self._first[batch, :many], self._stop[batch, :many] = first[asking], stop[asking]
        np.maximum.accumulate(self._stop[batch, :many], out=self._reach[batch, :many])
        self._box[batch, :many] = at + asking
        self._asking[batch], self._counts[batch] = many, size
        self._segments[batch] = segments
        self.rows += size

    def _part_bounds(self, boxes: RelationBoxes, asking: Array) -> None:
        """Keep upper bounds apart from lower ones once a point of the stream is several keys."""
        if np.array_equal(boxes.lows[asking], boxes.highs[asking]):
            return
        held = self._boxes
        self._boxes = RelationBoxes(
            held.lows, held.lows.copy(), held.least, held.most, self._pieces
        )
        self.stream = StreamRows(self, self._boxes, self.stream.matched)

    def numbers(self, batch: int) -> Array:
        """The numbers of a batch's rows."""
        start = batch * self.room
        return np.arange(start, start + self._counts[batch])

    def drop(self, batch: int) -> list[Segment]:
        """Forget a batch; returns when its rows came."""
        self.rows -= int(self._counts[batch])
        self._asking[batch] = self._counts[batch] = 0
        for column in self._columns.values():
            column.drop(batch)
        segments, self._segments[batch] = self._segments[batch], []
        return segments

    def clear(self) -> None:
        """Forget all rows."""
        for batch in np.flatnonzero(self._counts):
            self.drop(int(batch))

    def questions(self, begin: int, end: int, greatest: Array, room: Array) -> Iterator[Array]:
        """Questions of all rows to the leaves ``[begin, end)``; as many at a time as fit."""
        cursor = np.array([0, -1, -1])
        while cursor[0] < self.steps:
            count = meet(
                self._first, self._stop, self._reach, self._box, self._asking, begin, end,
                int(greatest.size > 0), self._boxes.least, greatest, cursor, room,
            )  # fmt: skip
            if count:
                yield room[:count]

    def take(self, name: str, ids: Array) -> pa.Array:
        """Values of a column of some rows."""
        return self._columns[name].take(ids)

    @property
    def nbytes(self) -> int:
        """Bytes held; room for rows that are not there counts, except in columns of any width."""
        tables = 4 * self._first.nbytes + self._boxes.nbytes + self.stream.matched.nbytes
        return tables + sum(column.nbytes for column in self._columns.values())


class _FixedColumn:
    """Values of 1, 2, 4 or 8 bytes in one array."""

    def __init__(self, kind: pa.DataType, steps: int, room: int) -> None:
        self._kind, self._room = kind, room
        self._values = np.zeros(steps * room, np.dtype(f"u{kind.bit_width // 8}"))
        self._valid: Flags | None = None

    def put(self, batch: int, values: pa.Array) -> None:
        place = slice(batch * self._room, batch * self._room + len(values))
        self._values[place] = raw_values(values)
        if self._valid is None and values.null_count:
            self._valid = np.ones(self._values.size, np.bool_)
        if self._valid is not None:
            self._valid[place] = values.is_valid().to_numpy(zero_copy_only=False)

    def drop(self, batch: int) -> None:
        """Nothing to give back."""

    def take(self, ids: Array) -> pa.Array:
        return FixedView(self._kind, self._values, self._valid, 0).take(ids)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)


class _ChunkColumn:
    """One Arrow array per batch, for all other types."""

    def __init__(self, kind: pa.DataType, steps: int, room: int) -> None:
        self._kind = kind
        self._none = gatherable(pa.nulls(0, kind))
        self._chunks = [self._none] * steps
        self._starts = range(0, steps * room, room)
        self.nbytes = 0

    def put(self, batch: int, values: pa.Array) -> None:
        whole = pa.array(np.arange(len(values)))
        chunk = gatherable(values).take(whole)  # the batch it came in may be large
        self._chunks[batch] = chunk
        self.nbytes += chunk.nbytes

    def drop(self, batch: int) -> None:
        self.nbytes -= self._chunks[batch].nbytes
        self._chunks[batch] = self._none

    def take(self, ids: Array) -> pa.Array:
        return ChunkView(self._kind, self._chunks, self._starts).take(ids)


_Column = _FixedColumn | _ChunkColumn
