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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.rivals.baseline import Baseline, BaselineEngine, Phase
from thetabench.rivals.kernels.buffer_pool import admit, oldest_use, walk
from thetastream.data.order import argsorted
from thetastream.data.rows import BatchView
from thetastream.errors import RelationError
from thetastream.relation.disk.device import aligned
from thetastream.relation.disk.size import show_size
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.leaf_index import LeafIndex

_ROW_BYTES = 80  # of a row that is looked up: bounds, order, leaves, mark, one question
_QUESTION_BYTES = 24
_PER_SLOT = 24  # leaf, last use, two links
_PER_LEAF = 4
_READ_BLOCKS = 64  # that a batch fetches at once, at most


@dataclass(eq=False)
class NestedEngine(BaselineEngine):
    """Look-ups, and the buffer pool that leaves go through."""

    batched: bool

    def attach(self) -> None:
        memory, block = self.memory, self.snapshot.layout.block_bytes
        index = self._index = LeafIndex(self.snapshot, self.matching.ranged)
        share = memory.budget // 16
        self._rows = max(1, min(self.settings.batch_rows, share // 2 // _ROW_BYTES))
        self._most = max(64, min(65_536, share // 2 // _QUESTION_BYTES))
        memory.index = index.nbytes + _PER_LEAF * index.leaves
        reads = min(_READ_BLOCKS, memory.budget // 32 // block) if self.batched else 1
        self._reads = max(1, reads)
        widest = int(index.fences.all_spans.max(initial=1))
        self.buffer = aligned(max(self._reads, widest) * block)
        memory.work = share + self.buffer.nbytes + self.answers.nbytes
        room = memory.budget - memory.index - memory.work - self.input_bytes
        slots = min(room // (block + _PER_SLOT), index.leaves)
        if slots < min(1, index.leaves):
            raise RelationError(
                f"memory={show_size(memory.budget)} is too small: the index of the relation takes "
                f"{show_size(memory.index)}, and rows and a block must fit besides; use at least "
                f"{show_size(memory.budget + block + _PER_SLOT - room)}"
            )
        self.cache = _Pool(max(1, slots), index.leaves, block)
        self._now = 0
        memory.cached = 0

    # --- Phases ---------------------------------------------------------------------------------

    def next_phase(self, forced: bool) -> Phase | None:
        least = self._rows if self.batched and not forced else 1
        return self._looked_up() if self.arrivals.rows >= least else None

    def _looked_up(self) -> Phase:
        """Look rows up and join them with their leaves."""
        arrived, boxes = self.take(self._rows)
        batch = arrived.batch
        self.clock.charge(rows=batch.num_rows)
        stream = StreamRows(BatchView(batch), boxes, np.zeros(batch.num_rows, np.bool_))
        asking = argsorted(boxes.lows)[0] if self.batched else np.arange(boxes.lows.size)
        first, stop = self._index.fences.ranges(boxes.lows[asking], boxes.highs[asking])
        total, begin, before = np.cumsum(stop - first), 0, 0
        while begin < asking.size:  # as many boxes as have no more questions than there is room
            end = max(begin + 1, int(np.searchsorted(total, before + self._most, side="right")))
            part, begin, before = slice(begin, end), end, int(total[end - 1])
            questions = self._index.questions(boxes, asking[part], first[part], stop[part])
            if self.batched:
                questions.sort()
            yield from self._answered(stream, self.answers.undecided(stream, questions))
        yield from self.answers.alone(stream, np.arange(batch.num_rows))
        self.done(arrived.segments)
        self.memory.cached = self.cache.count * self.cache.block_bytes
        self.memory.note()
        yield None

    def _answered(self, stream: StreamRows, questions: Array) -> Iterator[pa.RecordBatch]:
        """Fetch the leaves of questions one after the other; join when one must be forgotten."""
        pool, places = self.cache, np.empty(questions.size, np.int64)
        joined = at = fetched = 0
        while True:
            at = pool.walk(questions, at, self._now, places)
            if at == questions.size:
                break
            leaves = self._wanted(questions, at)
            fetched += leaves.size
            if self._fetch(leaves) > 1:  # no slot can hold it
                same = int(np.searchsorted(questions[at:] >> 32 != leaves[0], True))
                same = same if self.batched else 1
                yield from self._joined(stream, questions, places, joined, at)
                yield from self.answers.pairs(
                    stream, questions[at : at + same], np.zeros(same, np.int64), self.buffer
                )
                joined = at = at + same
                continue
            if pool.would_forget(leaves.size) >= self._now + joined:
                yield from self._joined(stream, questions, places, joined, at)
                joined = at
            pool.put(leaves, self.buffer)
        yield from self._joined(stream, questions, places, joined, at)
        self._now += questions.size
        self.counters.misses += fetched
        self.counters.hits += questions.size - fetched

    def _joined(
        self, stream: StreamRows, questions: Array, places: Array, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        if start < stop:
            bases = places[start:stop] * self.cache.block_bytes
            yield from self.answers.pairs(stream, questions[start:stop], bases, self.cache.arena)

    def _wanted(self, questions: Array, at: int) -> Array:
        """The leaf that is missing, and in a batch those to be fetched with it."""
        leaf = int(questions[at] >> 32)
        fences, pool = self._index.fences, self.cache
        if self._reads == 1 or fences.spans is not None:
            return np.array([leaf])
        limit = min(self._reads, pool.capacity, len(fences) - leaf)
        asked = questions[at : at + 64 * limit] >> 32
        next_ones = np.arange(leaf, leaf + limit)
        there = np.zeros(limit, np.bool_)
        there[asked[asked < leaf + limit] - leaf] = True
        there &= pool.slots[leaf : leaf + limit] < 0
        blocks = fences.blocks_of(next_ones)
        there &= blocks == blocks[0] + np.arange(limit)
        count = limit if there.all() else int(np.argmin(there))
        return next_ones[:count]

    def _fetch(self, leaves: Array) -> int:
        """Read leaves that lie one behind the other; how many blocks the first one has."""
        fences = self._index.fences
        blocks = fences.blocks_of(leaves)
        span = 1 if fences.spans is None else int(fences.spans[leaves[0]])
        self.read(int(blocks[0]), max(span, leaves.size), blocks)
        return span

    @property
    def summary(self) -> str:
        way = "per batch, in the order of the leaves" if self.batched else "per row"
        return (
            f"index nested loops, {way}: {self._rows:,} rows are looked up at once, and at most "
            f"{self._reads:,} blocks fetched by one read, into a pool of {self.cache.capacity:,}"
        )


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
        """The latest use of the slots that ``count`` new leaves would take; -1: none."""
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


class IndexNestedLoop(Baseline):
    """Join a stream with a relation by index nested loops; see the module.

    ``batch_rows`` bounds the batches, and so does the memory: a sixteenth of it is for them. The
    other parameters are those of ``RelationJoin``. Nothing waits between two phases, so rows of a
    phase whose read fails are gone: this is for comparisons.
    """

    def __init__(self, *given: Any, batched: bool = False, **options: Any) -> None:
        self._make_engine = partial(NestedEngine, batched=batched)
        super().__init__(*given, **options)
