"""The join phase: the leaves of waiting rows are read by a plan and joined (SSIJ, Algorithm 2).

The inverted index is sorted once, which makes the questions to a leaf adjacent; their number is the
utility of the leaf. Leaves are planned and read some thousands at a time, in disk order. Answered
questions are removed at the end, or if a read fails: the rows of the failed read keep waiting, and
nothing is output twice.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.disk.reader import BlockReader
from thetastream.relation.disk.readplan import Planner
from thetastream.relation.files.scan import damaged
from thetastream.relation.join.answer import Answers
from thetastream.relation.join.cache import BlockCache
from thetastream.relation.join.kernels.leaves import next_leaves
from thetastream.relation.join.leaf_index import LeafIndex
from thetastream.relation.join.metrics import RelationCounters
from thetastream.relation.join.waiting import StreamBuffer
from thetastream.relation.join.workspace import Workspace


def join_phase(
    index: LeafIndex,
    waiting: StreamBuffer,
    cache: BlockCache,
    answers: Answers,
    reading: Reading,
    max_scan: int,
) -> Generator[pa.RecordBatch | None, None, int]:
    """Join all waiting rows; yields None after each group of reads. Returns the leaves read."""
    questions = waiting.questions
    questions.sort()
    keeping = cache.plan_phase(questions)
    stream = waiting.stream()
    inverted = _Inverted(questions, reading.work.leaves)
    count = 0
    try:
        for leaves in inverted.parts():
            count += leaves.size
            with closing(reading.groups(index, leaves, max_scan)) as groups:
                for group in groups:
                    asked, bases, uses = inverted.questions_to(group)
                    yield from answers.pairs(stream, asked, bases, group.buffer)
                    inverted.close(group)
                    keep = np.flatnonzero(keeping.chosen(uses) & group.single)
                    cache.put(
                        leaves[group.which[keep]], group.buffer, group.offsets[keep], uses[keep]
                    )
                    yield None
    except BaseException:
        waiting.forget_answered(inverted.left())
        raise
    yield from answers.alone(stream, np.arange(waiting.rows))
    return count


@dataclass(frozen=True, slots=True)
class Images:
    """Leaves that were read together; valid until the next group is requested."""

    which: Array
    """Their positions among the leaves to read."""
    buffer: NDArray[np.uint8]
    offsets: Array
    """Where in the buffer the image of each begins."""
    single: NDArray[np.bool_]
    """Which of them have one block, so that they fit into a slot of the cache."""


class _Inverted:
    """The inverted index, sorted by leaf, and which questions are still open."""

    def __init__(self, questions: Array, limit: int) -> None:
        self._questions = questions
        self._limit = limit
        self._starts = np.zeros(1, np.int64)
        self._open = np.zeros(0, np.bool_)  # leaves of this part not joined yet

    def parts(self) -> Iterator[Array]:
        """The leaves of the questions, ascending, ``limit`` at a time."""
        leaves, starts = np.empty(self._limit, np.int64), np.empty(self._limit + 1, np.int64)
        at = 0
        while at < self._questions.size:
            count = next_leaves(self._questions, at, leaves, starts)
            self._starts = starts[: count + 1]
            self._open = np.ones(count, np.bool_)
            yield leaves[:count]
            at = int(starts[count])
        self._starts, self._open = np.array([at]), np.zeros(0, np.bool_)

    def questions_to(self, images: Images) -> tuple[Array, Array, Array]:
        """Questions to leaves of this part, the places of their images, and uses per leaf."""
        starts = self._starts[images.which]
        sizes = self._starts[images.which + 1] - starts
        ends = np.cumsum(sizes)
        places = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(ends[-1]))
        return self._questions[places], np.repeat(images.offsets, sizes), sizes

    def close(self, images: Images) -> None:
        """Mark the questions to these leaves as answered."""
        self._open[images.which] = False

    def left(self) -> Array:
        """The questions that are still open."""
        here = np.repeat(self._open, np.diff(self._starts))
        first = int(self._starts[0])
        part = self._questions[first : first + here.size][here]
        return np.concatenate([part, self._questions[int(self._starts[-1]) :]])


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads leaves by a plan, group by group, into buffers of the workspace."""

    plan: Planner
    costs: Costs
    work: Workspace
    clock: Clock
    counters: RelationCounters

    def groups(
        self, index: LeafIndex, leaves: Array, max_scan: int
    ) -> Generator[Images, None, None]:
        """Plan and read leaves, ascending; RelationError if one is damaged."""
        counters, fences = self.counters, index.fences
        with counters.timed("plan"):
            blocks = fences.blocks_of(leaves)
            spans = None if fences.spans is None else fences.spans[leaves]
            order = None
            if blocks.size > 1 and np.any(blocks[1:] < blocks[:-1]):  # leaves were split
                order = np.argsort(blocks)
                blocks = blocks[order]
                spans = None if spans is None else spans[order]
            plan = self.plan(blocks, spans, self.costs.seek, self.costs.transfer, max_scan)
        counters.seeks += len(plan)
        counters.blocks_read += plan.blocks_read
        counters.blocks_wasted += plan.wasted
        work, layout, io = self.work, index.snapshot.layout, counters.timed("io")
        with BlockReader(index.snapshot, plan, work.read_blocks, buffers=work.buffers) as reader:
            while True:
                with io:
                    group = next(reader, None)
                if group is None:
                    return
                wanted = slice(group.first, group.stop)
                wrong = layout.verify(group.buffer, group.offsets, blocks[wanted])
                if wrong >= 0:
                    raise damaged(int(blocks[wanted][wrong]))
                which = np.arange(group.first, group.stop) if order is None else order[wanted]
                single = np.ones(which.size, np.bool_) if spans is None else spans[wanted] == 1
                self.clock.charge(blocks=which.size)
                yield Images(which, group.buffer, group.offsets, single)
