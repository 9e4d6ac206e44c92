"""The join phase: what waiting rows ask for is read by a plan and joined (SSIJ, Algorithm 2).

The inverted index is sorted once; from then on the questions to a leaf lie side by side, and their
number is the utility of the leaf. Leaves are planned and read some thousands at a time, in the
order in which they lie on disk. Questions that were answered are forgotten at the end, or when a
read fails: what the failed read was for goes on waiting, and nothing is given twice.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.errors import RelationError
from thetastream.relation.disk.reader import Group, Reader
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.cache import Keeping
from thetastream.relation.join.engine import Engine
from thetastream.relation.join.kernels.leaves import next_leaves

__all__ = ["join_phase"]

Array = NDArray[np.int64]


def join_phase(engine: Engine) -> Generator[pa.RecordBatch | None, None, None]:
    """Join all waiting rows; None after each group of reads. Afterwards nobody waits."""
    waiting, counters = engine.waiting, engine.counters
    began = engine.clock.now()
    counters.join_phases += 1
    questions = waiting.questions
    questions.sort()
    with counters.timed("plan"):
        engine.account()
        room = engine.memory.for_cache // engine.cache.slot_bytes
        keeping = engine.cache.plan_phase(questions, room)
    stream = StreamRows(waiting, waiting.boxes(), waiting.matched)
    phase = _Phase(engine, stream, questions, keeping)
    try:
        yield from phase.run()
    except BaseException:
        waiting.forget_answered(phase.unanswered())
        raise
    yield from engine.answers.alone(stream, np.arange(waiting.rows))
    segments = waiting.segments
    waiting.clear()
    engine.cache.age()
    engine.account()
    engine.listener.done(segments)
    engine.listener.read(phase.leaves, engine.clock.now() - began)


class _Phase:
    """One join phase under way."""

    def __init__(
        self, engine: Engine, stream: StreamRows, questions: Array, keeping: Keeping
    ) -> None:
        self._engine = engine
        self._stream = stream
        self._questions = questions
        self._keeping = keeping
        self._starts = np.zeros(1, np.int64)
        self._open = np.zeros(0, np.bool_)  # leaves of this part that were not joined yet
        self.leaves = 0

    def run(self) -> Iterator[pa.RecordBatch | None]:
        limit = self._engine.segment
        leaves, starts = np.empty(limit, np.int64), np.empty(limit + 1, np.int64)
        at = 0
        while at < self._questions.size:
            count = next_leaves(self._questions, at, leaves, starts)
            self._starts = starts[: count + 1]
            self._open = np.ones(count, np.bool_)
            self.leaves += count
            yield from self._read(leaves[:count])
            at = int(starts[count])
        self._starts, self._open = np.array([at]), np.zeros(0, np.bool_)

    def unanswered(self) -> Array:
        """Questions that are still to be answered."""
        sizes = np.diff(self._starts)
        here = np.repeat(self._open, sizes)
        first = int(self._starts[0])
        part = self._questions[first : first + here.size][here]
        return np.concatenate([part, self._questions[int(self._starts[-1]) :]])

    def _read(self, leaves: Array) -> Iterator[pa.RecordBatch | None]:
        """Plan and read some leaves, ascending; join each group as it comes."""
        engine, counters = self._engine, self._engine.counters
        snapshot, fences = engine.snapshot, engine.fences
        with counters.timed("plan"):
            blocks = fences.blocks[leaves]
            order = None
            if blocks.size > 1 and np.any(blocks[1:] < blocks[:-1]):  # leaves were split
                order = np.argsort(blocks)
                blocks = blocks[order]
            spans = None if fences.spans is None else fences.spans[leaves]
            if spans is not None and order is not None:
                spans = spans[order]
            costs, scan = engine.costs, engine.thresholds.max_scan
            made = engine.plan(blocks, spans, costs.seek, costs.transfer, scan)
        counters.seeks += len(made)
        counters.blocks_read += made.blocks_read
        counters.blocks_wasted += made.wasted
        reader = Reader(snapshot, made, engine.read_blocks, buffers=engine.buffers)
        try:
            groups = iter(reader)
            while True:
                with counters.timed("io"):
                    group = next(groups, None)
                if group is None:
                    return
                wanted = np.arange(group.first, group.stop)
                which = wanted if order is None else order[wanted]
                yield from self._join(group, leaves[which], which, blocks[wanted])
                yield None
        finally:
            reader.close()

    def _join(
        self, group: Group, leaves: Array, which: Array, blocks: Array
    ) -> Iterator[pa.RecordBatch]:
        engine = self._engine
        wrong = engine.snapshot.layout.verify(group.buffer, group.offsets, blocks)
        if wrong >= 0:
            raise RelationError(
                f"block {int(blocks[wrong])} of the relation is damaged: its checksum does not "
                "hold. Restore the relation from its source with Relation.build; "
                "`thetastream relation check` lists all damaged blocks"
            )
        starts, sizes = self._starts[which], self._starts[which + 1] - self._starts[which]
        engine.clock.charge(blocks=leaves.size)
        questions, bases = self._asked(starts, sizes, group.offsets)
        yield from engine.answers.pairs(self._stream, questions, bases, group.buffer)
        self._open[which] = False
        self._keep(leaves, sizes, group)

    def _asked(self, starts: Array, sizes: Array, offsets: Array) -> tuple[Array, Array]:
        """The questions to some leaves, one after the other, and where the images lie."""
        ends = np.cumsum(sizes)
        places = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]))
        return self._questions[places], np.repeat(offsets, sizes)

    def _keep(self, leaves: Array, uses: Array, group: Group) -> None:
        """Copy to the cache what will stay, as far as rows that came meanwhile leave room."""
        engine = self._engine
        keep = self._keeping.chosen(uses)
        if engine.fences.spans is not None:
            keep &= engine.fences.spans[leaves] == 1
        chosen = np.flatnonzero(keep)
        if chosen.size:
            engine.account()
            room = engine.memory.for_cache // engine.cache.slot_bytes - engine.cache.count
            chosen = chosen[: max(0, room)]
            engine.cache.put(leaves[chosen], group.buffer, group.offsets[chosen], uses[chosen])
            engine.account()
