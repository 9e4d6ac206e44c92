"""Index nested loops: each stream row is looked up, and the leaves it asks for are fetched.

What a database does without any of SSIJ's ideas (SSIJ, Sections II and VI-C): leaves go through a
buffer pool of the budget that forgets the one not used for longest. Two ways:

- per row (``batched=False``): row by row, in the order of arrival; a leaf that is not in the pool
  is read at once, by itself;
- per batch (``batched=True``): the questions of a batch are put in the order of the leaves first,
  so each leaf is fetched once per batch, and leaves that lie directly one behind the other are
  fetched by one read. Gaps are not read over, and no row waits for another batch.

Looking up and joining is compiled and done for many rows at once; which leaf is read when, and
which one is forgotten, is exactly as if rows were taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.rivals.baseline import Baseline, Phase, verified
from thetabench.rivals.kernels.buffer_pool import admit, oldest_use, walk
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.order import argsorted
from thetastream.data.rows import BatchView
from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.disk.device import aligned
from thetastream.relation.disk.size import show_size
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.kernels.leaves import ZONE, ask, zones_of
from thetastream.relation.join.waiting import Segment
from thetastream.relation.store import Relation
from thetastream.side import How

_NONE = np.empty(0, np.int64)
_ROW_BYTES = 80  # of a row that is looked up: bounds, order, leaves, mark, one question
_QUESTION_BYTES = 24
_PER_SLOT = 24  # leaf, last use, two links
_PER_LEAF = 4
_READ_BLOCKS = 64  # that a batch fetches at once, at most


class IndexNestedLoop(Baseline):
    """Join a stream with a relation by index nested loops; see the module.

    ``batch_rows`` bounds the batches, and so does the memory: a sixteenth of it is for them. The
    other parameters are those of ``RelationJoin``. Nothing waits between two phases, so rows of a
    phase whose read fails are gone: this is for comparisons.
    """

    def __init__(
        self,
        relation: Relation,
        on: str | Predicate | Expression,
        memory: str | int = "64 MB",
        how: str | How = "inner",
        *,
        batched: bool = False,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_rows: int = 65_536,
        clock: Clock | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._batched = batched
        super().__init__(
            relation, on, memory, how, suffix=suffix, columns=columns, schema=schema,
            batch_rows=batch_rows, clock=clock, costs=costs,
        )  # fmt: skip

    def _attach(self, snapshot: Snapshot, row_bytes: float) -> None:
        fences, memory = snapshot.fences, self._memory
        share = memory.budget // 16
        self._rows = max(1, min(self._batch_rows, share // 2 // _ROW_BYTES))
        self._room = np.empty(max(64, min(65_536, share // 2 // _QUESTION_BYTES)), np.int64)
        self._greatest = self._zones = _NONE
        if self._matching.ranged and fences.greatest is not None:
            self._greatest = np.array(fences.greatest)  # kernels take what may be written to
            self._zones = np.empty(-(-len(fences) // ZONE), np.int64)
            zones_of(self._greatest, self._zones)
        memory.index = fences.nbytes + _PER_LEAF * len(fences) + self._zones.nbytes
        widest = 1 if fences.spans is None else int(fences.spans.max(initial=1))
        block = snapshot.layout.block_bytes
        reads = min(_READ_BLOCKS, memory.budget // 32 // block) if self._batched else 1
        self._reads = max(1, reads)
        self._buffer = aligned(max(self._reads, widest) * block)
        memory.work = share + self._buffer.nbytes + self._answers.nbytes
        room = memory.budget - memory.index - memory.work - self._input_bytes
        slots = min(room // (block + _PER_SLOT), len(fences))
        if slots < min(1, len(fences)):
            raise RelationError(
                f"memory={show_size(memory.budget)} is too small: the index of the relation takes "
                f"{show_size(memory.index)}, and rows and a block must fit besides; give "
                f"{show_size(memory.budget + block + _PER_SLOT - room)} at least"
            )
        self._blocks = fences.blocks if fences.moved or fences.spans is not None else None
        self._pool = _Pool(max(1, slots), len(fences), block)
        self._now = 0
        memory.cached = 0

    # --- Phases ---------------------------------------------------------------------------------

    def _next(self, forced: bool) -> Phase | None:
        least = self._rows if self._batched and not forced else 1
        if self._input.rows >= least:
            return self._looked_up(*self._arrivals(self._rows))
        return None

    def _looked_up(
        self, batch: pa.RecordBatch, segments: list[Segment]
    ) -> Iterator[pa.RecordBatch | None]:
        """Look rows up and join them with their leaves."""
        counters = self._counters
        counters.online_phases += 1
        boxes = self._matching.boxes(batch)
        counters.null_keys += boxes.null_keys
        counters.nan_keys += boxes.nan_keys
        self._clock.charge(rows=batch.num_rows)
        asking = argsorted(boxes.lows)[0] if self._batched else np.arange(boxes.lows.size)
        first, stop = self._snapshot.fences.ranges(boxes.lows[asking], boxes.highs[asking])
        stream = StreamRows(BatchView(batch), boxes, np.zeros(batch.num_rows, np.bool_))
        cursor = np.array([0, -1])
        while cursor[0] < asking.size:
            count = ask(
                asking, first, stop, int(self._zones.size > 0), boxes.least, self._greatest,
                self._zones, cursor, self._room,
            )  # fmt: skip
            questions = self._room[:count]
            if self._batched:
                questions.sort()
            yield from self._answered(stream, self._open(stream, questions))
        yield from self._answers.alone(stream, np.arange(batch.num_rows))
        self._done(segments)
        self._memory.cached = self._pool.count * self._pool.block_bytes
        self._memory.note()
        yield None

    def _open(self, stream: StreamRows, questions: Array) -> Array:
        """Questions that may still change the answer: one match decides semi and anti joins."""
        if self._how.pairs:
            return questions
        decided: NDArray[np.bool_] = stream.matched[(questions & 0xFFFFFFFF) // stream.boxes.pieces]
        return questions[~decided]

    def _answered(self, stream: StreamRows, questions: Array) -> Iterator[pa.RecordBatch]:
        """Fetch the leaves of questions one after the other; join when one must be forgotten."""
        pool, places = self._pool, np.empty(questions.size, np.int64)
        joined = at = fetched = 0
        while True:
            at = pool.walk(questions, at, self._now, places)
            if at == questions.size:
                break
            leaves = self._wanted(questions, at)
            fetched += leaves.size
            wide = self._fetch(leaves)
            if wide:
                same = int(np.searchsorted(questions[at:] >> 32 != leaves[0], True))
                same = same if self._batched else 1
                yield from self._joined(stream, questions, places, joined, at)
                yield from self._answers.pairs(
                    stream, questions[at : at + same], np.zeros(same, np.int64), self._buffer
                )
                joined = at = at + same
                continue
            if pool.would_forget(leaves.size) >= self._now + joined:
                yield from self._joined(stream, questions, places, joined, at)
                joined = at
            pool.put(leaves, self._buffer)
        yield from self._joined(stream, questions, places, joined, at)
        self._now += questions.size
        self._counters.misses += fetched
        self._counters.hits += questions.size - fetched

    def _joined(
        self, stream: StreamRows, questions: Array, places: Array, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        if start < stop:
            pool = self._pool
            bases = places[start:stop] * pool.block_bytes
            yield from self._answers.pairs(stream, questions[start:stop], bases, pool.arena)

    def _wanted(self, questions: Array, at: int) -> Array:
        """The leaf that is missing, and in a batch those to be fetched with it."""
        leaf = int(questions[at] >> 32)
        fences, pool = self._snapshot.fences, self._pool
        if self._reads == 1 or fences.spans is not None:
            return np.array([leaf])
        limit = min(self._reads, pool.capacity, len(fences) - leaf)
        asked = questions[at : at + 64 * limit] >> 32
        next_ones = np.arange(leaf, leaf + limit)
        there = np.zeros(limit, np.bool_)
        there[asked[asked < leaf + limit] - leaf] = True
        there &= pool.slots[leaf : leaf + limit] < 0
        if self._blocks is not None:
            blocks = self._blocks[next_ones]
            there &= blocks == blocks[0] + np.arange(limit)
        count = limit if there.all() else int(np.argmin(there))
        return next_ones[:count]

    def _fetch(self, leaves: Array) -> bool:
        """Read leaves that lie one behind the other; whether it is one that no slot can hold."""
        snapshot, counters = self._snapshot, self._counters
        blocks = leaves if self._blocks is None else self._blocks[leaves]
        span = 1 if snapshot.fences.spans is None else int(snapshot.fences.spans[leaves[0]])
        count = max(span, leaves.size)
        with counters.timed("io"):
            snapshot.read(blocks[:1], np.array([count]), self._buffer)
        counters.seeks += 1
        counters.blocks_read += count
        self._clock.charge(blocks=leaves.size)
        bases = (blocks - blocks[0]) * snapshot.layout.block_bytes
        verified(snapshot, self._buffer, bases, blocks)
        return span > 1

    # --- What it holds --------------------------------------------------------------------------

    @property
    def _held_rows(self) -> int:
        return 0

    def _forget(self) -> None:
        """Nothing is held between phases."""

    @property
    def pool_blocks(self) -> int:
        """Blocks that the buffer pool takes; 0 before the first row."""
        return self._pool.capacity if self._started else 0

    def _facts(self) -> dict[str, Any]:
        way = "per batch, in the order of the leaves" if self._batched else "per row"
        return {
            "algorithm": f"index nested loops, {way}",
            "parameters": {
                "rows looked up at once": f"{self._rows:,}",
                "buffer pool": f"{self._pool.capacity:,} blocks, least recently used goes first",
                "fetched by one read": f"{self._reads:,} blocks at most",
            },
        }


class _Pool:
    """Blocks in slots; the one not used for longest goes first. All O(1)."""

    def __init__(self, capacity: int, leaves: int, block_bytes: int) -> None:
        self.capacity, self.block_bytes = capacity, block_bytes
        self.arena = aligned(capacity * block_bytes)
        self.slots = np.full(leaves, -1, np.int32)
        self.count = 0
        self._leaves = np.full(capacity, -1, np.int64)
        self._used = np.full(capacity, -1, np.int64)
        self._newer = np.full(capacity + 1, capacity, np.int32)
        self._older = np.full(capacity + 1, capacity, np.int32)

    def walk(self, questions: Array, start: int, now: int, places: Array) -> int:
        """See the kernel."""
        return walk(questions, start, now, self.slots, self._newer, self._older, self._used, places)

    def would_forget(self, count: int) -> int:
        """The latest use of the slots that so many new leaves would take; -1: none."""
        gone = self.count + count - self.capacity
        return -1 if gone <= 0 else oldest_use(gone, self._newer, self._used)

    def put(self, leaves: Array, images: NDArray[np.uint8]) -> None:
        """Copy leaves, one behind the other in ``images``, into slots."""
        size = self.block_bytes
        for at, leaf in enumerate(leaves.tolist()):
            free = self.count if self.count < self.capacity else -1
            slot = admit(leaf, free, self.slots, self._leaves, self._newer, self._older)
            self.count += free >= 0
            self.arena[slot * size : (slot + 1) * size] = images[at * size : (at + 1) * size]
