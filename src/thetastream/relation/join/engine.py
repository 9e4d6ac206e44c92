"""The parts of a join with a relation, and the phases that use them.

    rows that arrived ─ sort, look up ─┬─ leaf is cached ────────────────────────► answer
        (online.py)                    └─ leaf is on disk ─ wait ─┐
                        answer ◄─ join ◄─ read by the best plan ◄─┘  when enough rows wait
                                           (joining.py)

The engine decides which phase is due (``pace``), passes it the parts it needs, and takes its answer
piece by piece, so that a long answer is never in memory. Each part keeps its own state and records
its bytes in ``memory``; the phases do not know the engine.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from thetastream.metrics import Timer
from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.disk.readplan import Planner
from thetastream.relation.files.intervals import end_bytes
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.answer import Answers, value_bytes
from thetastream.relation.join.arrivals import Arrivals, ArrivedRows
from thetastream.relation.join.cache import BlockCache, Policy
from thetastream.relation.join.joining import Reading, join_phase
from thetastream.relation.join.leaf_index import LeafIndex
from thetastream.relation.join.matching import Matching
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import RelationCounters
from thetastream.relation.join.online import online_phase
from thetastream.relation.join.pace import Pace
from thetastream.relation.join.waiting import StreamBuffer
from thetastream.relation.join.workspace import Workspace
from thetastream.relation.pacing.tuning import Tuner
from thetastream.relation.store import Relation

Steps = Generator[pa.RecordBatch | None, None, None]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a join, and what it is measured with."""

    policy: Policy
    plan: Planner
    deadline: float | None
    """Seconds."""
    thresholds: Mapping[str, int]
    """The thresholds that the user has fixed."""
    batch_rows: int
    costs: Costs
    clock: Clock
    counters: RelationCounters


@dataclass(frozen=True, slots=True)
class _Phase:
    """A phase under way, and the time it takes."""

    steps: Steps
    timer: Timer
    is_online: bool = False


class RelationEngine:
    """A join of a relation with a stream of known columns; it owns the snapshot."""

    def __init__(
        self,
        relation: Relation,
        snapshot: Snapshot,
        matching: Matching,
        memory: Memory,
        settings: Settings,
    ) -> None:
        costs, clock, counters = settings.costs, settings.clock, settings.counters
        self._relation = relation
        self.matching = matching
        self.memory = memory
        self.costs = costs
        self._policy = settings.policy
        self._clock = clock
        self._counters = counters
        self.arrivals = Arrivals(memory)
        self.waiting = StreamBuffer(matching, memory)
        self.answers = Answers(matching, counters, clock, memory.budget, settings.batch_rows)
        self._attach(snapshot)
        block_bytes = snapshot.layout.block_bytes
        row_bytes = sum(value_bytes(field.type) for field in matching.stream)
        memory.require(block_bytes, row_bytes)
        lanes = 2 if snapshot.device.background else 1
        self.work = Workspace(memory, block_bytes, row_bytes, self.answers.nbytes, lanes)
        tuner = Tuner(
            memory.budget,
            memory.index + self.work.fixed_bytes,
            block_bytes,
            max(1, self.index.leaves),
            costs.seek,
            costs.transfer,
            row_bytes=row_bytes,
            buffers=lanes,
        )
        self.pace = Pace(tuner, settings.thresholds, settings.deadline, costs, clock, counters)
        self._reading = Reading(settings.plan, costs, self.work, clock, counters)
        self._running: list[_Phase] = []  # the last one is active; an earlier one waits for it
        self._pressed = False  # there was no room for arriving rows
        self.has_failed = False
        """Whether a look-up failed after it had answered some of its rows, which are lost."""
        self._tune()

    # --- The stream -----------------------------------------------------------------------------

    @property
    def has_enough(self) -> bool:
        """Whether an online phase is due: more rows would only shrink the cache."""
        return self.arrivals.rows >= self.pace.thresholds.input_rows

    @property
    def rows(self) -> int:
        """Rows in the input buffer and waiting rows."""
        return self.arrivals.rows + self.waiting.rows

    def slice_rows(self, batch: pa.RecordBatch) -> int:
        """Rows to accept at a time: those of an online phase, or fewer if they are large."""
        width: int = max(1, batch.nbytes // max(1, batch.num_rows))
        most = self.memory.for_rows // 8 // width
        return max(1, min(most, self.pace.thresholds.input_rows))

    def offer(self, batch: pa.RecordBatch, arrived: float) -> bool:
        """Add rows to the input buffer; False if there is no room, even without the cache."""
        if not batch.num_rows:
            return True
        self._pressed = not self.cache.make_room(batch.nbytes)
        if not self._pressed:
            self.arrivals.append(batch, arrived)
        return not self._pressed

    def step(self, flushing: bool) -> list[pa.RecordBatch] | None:
        """Do one piece of due work and return its part of the answer; None: nothing is due.

        ``flushing`` joins rows without waiting for more.
        """
        phase = self._under_way(flushing)
        if phase is None:
            return None
        try:
            with phase.timer:
                piece = next(phase.steps)
        except StopIteration:
            self._running.pop()
            return []
        except BaseException:
            self._running.pop()
            self.has_failed = phase.is_online
            raise
        return [] if piece is None else [piece]

    def clear(self) -> None:
        """Drop all rows and the rest of their answer."""
        while self._running:
            self._running.pop().steps.close()
        self.arrivals.clear()
        self.waiting.clear()
        self._pressed = self.has_failed = False

    # --- Phases ---------------------------------------------------------------------------------

    def _under_way(self, flushing: bool) -> _Phase | None:
        """The active phase; started, if one is due."""
        if not self._running:
            due = self._next_phase(flushing)
            if due is None:
                return None
            self._running.append(due)
        if self._running[-1].is_online and self.memory.is_full and self.waiting.rows:
            self._running.append(self._begin_join())
        return self._running[-1]

    def _next_phase(self, flushing: bool) -> _Phase | None:
        """The phase that is due, if any (SSIJ, Sections IV-B and IV-F)."""
        arrivals, waiting, leaves = self.arrivals, self.waiting, self.index.leaves
        if self._relation.has_changed_since(self.snapshot):
            if waiting.rows:
                return self._begin_join()
            self._renew()
        hurry = flushing or self._pressed or self.pace.is_due(arrivals, waiting, leaves)
        crowded = self.pace.is_crowded(waiting, self.memory, leaves)
        if arrivals.rows and (hurry or (self.has_enough and not crowded)):
            arrived = arrivals.take(self.pace.thresholds.input_rows)
            return _Phase(self._look_up(arrived), self._counters.timed("online"), is_online=True)
        if waiting.rows and (hurry or crowded):
            return self._begin_join()
        return None

    def _begin_join(self) -> _Phase:
        return _Phase(self._join(), self._counters.timed("join"))

    def _look_up(self, arrived: ArrivedRows) -> Steps:
        counters = self._counters
        counters.online_phases += 1
        boxes = self.matching.boxes(arrived.batch)
        counters.null_keys += boxes.null_keys
        counters.nan_keys += boxes.nan_keys
        self._clock.charge(rows=arrived.batch.num_rows)
        yield from online_phase(
            arrived,
            boxes,
            self.index,
            self.cache,
            self.waiting,
            self.answers,
            self.pace,
            self.work.questions,
        )

    def _join(self) -> Steps:
        began = self._clock.now()
        self._counters.join_phases += 1
        leaves = yield from join_phase(
            self.index,
            self.waiting,
            self.cache,
            self.answers,
            self._reading,
            self.pace.thresholds.max_scan,
        )
        self.cache.age()
        self.pace.done(self.waiting.clear())
        self.pace.has_read(leaves, self._clock.now() - began, self.memory.arrived)
        self._tune()

    def _tune(self) -> None:
        """Choose thresholds for the next cycle, based on the previous ones."""
        self.pace.tune(self.work, self.memory.index, self.waiting.row_bytes)
        self.cache.make_room(0)

    @property
    def due(self) -> float | None:
        """Seconds until work must start; None if no row is under a deadline."""
        moment = self.pace.begin(self.arrivals, self.waiting, self.index.leaves)
        return None if moment is None else max(0.0, moment - self._clock.now())

    # --- States of the relation -----------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The state of the relation in use."""
        return self.index.snapshot

    def _attach(self, snapshot: Snapshot) -> None:
        """Use this state of the relation from now on, with an empty cache."""
        self.index = LeafIndex(snapshot, self.matching.ranged)
        block_bytes, leaves = snapshot.layout.block_bytes, self.index.leaves
        self.cache = BlockCache(block_bytes, leaves, self._policy, self.memory, self._counters)
        self.memory.index = self.index.nbytes + self.cache.fixed_bytes

    def _renew(self) -> None:
        """Switch to the current state of the relation; unchanged blocks stay cached.

        The old snapshot is still open meanwhile, so the journal between both exists.
        """
        assert not self.waiting.rows
        before, snapshot = self.index, self._relation.snapshot()
        generations = {index.state.current.generation for index in (before.snapshot, snapshot)}
        if len(generations) > 1:
            try:
                self.matching.follow(snapshot.layout, end_bytes(snapshot))
            except BaseException:
                snapshot.close()
                raise
        if len(generations) > 1 or len(snapshot.fences) > 2 * max(1, before.leaves):
            self._attach(snapshot)
        else:
            blocks = before.fences.blocks_of(self.cache.leaves_held)
            self.index = LeafIndex(snapshot, self.matching.ranged)
            leaves = self.index.leaves_in(blocks, before.snapshot.version)
            self.cache.rename(leaves, self.index.leaves)
            self.memory.index = self.index.nbytes + self.cache.fixed_bytes
        before.snapshot.close()
        self._tune()

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self.arrivals.check()
        self.waiting.check()
        self.cache.check()
        assert self.memory.held <= self.memory.budget * 1.05, "above the budget"
