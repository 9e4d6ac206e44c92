"""``RelationJoin``: every stream row enriched from a table on disk, within a budget and a deadline.

    pending     rows arrive in the input buffer until there are enough, or one must hurry
    online      they are looked up; what cached blocks answer is given, the others wait (online.py)
    join        enough rows wait, or one must hurry: their blocks are read and joined (joining.py)

Rows that were pushed are never lost: what is due is done when an iterator of ``push``, ``poll`` or
``flush`` is read, and an iterator that is not read to its end leaves the rest to the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.compiling import prepare
from thetastream.boxes import kernels as box_kernels
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data import kernels as data_kernels
from thetastream.data.batch import conform
from thetastream.data.rows import check_gatherable
from thetastream.duration import Interval
from thetastream.errors import RelationError, StateError, suggest
from thetastream.interrupt import uninterrupted
from thetastream.plan.choice import Explanation
from thetastream.relation.disk import kernels as disk_kernels
from thetastream.relation.disk.calibrate import at_start
from thetastream.relation.disk.clock import Clock, Costs, RealClock
from thetastream.relation.disk.readplan import PLANS, Planner
from thetastream.relation.disk.size import read_size
from thetastream.relation.join import kernels
from thetastream.relation.join.arrivals import Arrivals
from thetastream.relation.join.cache import Policy
from thetastream.relation.join.engine import Engine, Listener
from thetastream.relation.join.explanation import explained
from thetastream.relation.join.joining import join_phase
from thetastream.relation.join.matching import Matching
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import Counters, RelationMetrics
from thetastream.relation.join.online import online_phase
from thetastream.relation.join.urgency import Urgency
from thetastream.relation.pacing.tuning import Thresholds, Tuner
from thetastream.relation.store import Relation
from thetastream.side import How

__all__ = ["RelationJoin"]


@dataclass(frozen=True, slots=True)
class _Phase:
    """A phase under way."""

    steps: Generator[pa.RecordBatch | None, None, None]
    is_online: bool = False


class RelationJoin:
    """Join a stream with a relation.

    ``on`` compares the stream (``l``) with the relation (``r``), its key among others. ``memory``
    bounds everything the join holds. ``deadline`` is how long a row may wait for its answer: call
    ``poll()`` when ``due`` says so. ``how`` is inner, left, semi or anti.

    Thresholds choose themselves; ``input_rows``, ``stream_rows`` and ``max_scan`` fix them.
    ``costs`` are those of the device; without them it is measured for a moment.
    ``cache`` (utility, lru, none), ``split`` (a fixed share of the memory for cached blocks) and
    ``plan`` (optimal, greedy, single, …) are for comparisons.
    """

    def __init__(
        self,
        relation: Relation,
        on: str | Predicate | Expression,
        memory: str | int = "64 MB",
        deadline: str | timedelta | Interval | None = None,
        how: str | How = "inner",
        *,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_rows: int = 65_536,
        cache: str | Policy = "utility",
        split: float | None = None,
        plan: str = "optimal",
        input_rows: int | None = None,
        stream_rows: int | None = None,
        max_scan: int | None = None,
        clock: Clock | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._relation = relation
        self._on = Predicate.of(on)
        self._how = How.of(how)
        self._suffix = suffix
        self._names = columns
        self._batch_rows = _positive("batch_rows", batch_rows)
        self._policy = Policy.of(cache)
        self._planner = _planner(plan)
        self._clock: Clock = RealClock() if clock is None else clock
        self._memory = Memory(read_size(memory), _share(split))
        self._fixed = {
            name: _positive(name, value)
            for name, value in (
                ("input_rows", input_rows),
                ("stream_rows", stream_rows),
                ("max_scan", max_scan),
            )
            if value is not None
        }
        self._counters = Counters()
        self._arrivals = Arrivals(self._memory)
        self._outside: deque[tuple[pa.RecordBatch, float]] = deque()  # pushed, not offered yet
        self._running: list[_Phase] = []  # the last one works; one before it waits for it
        self._flushing = False
        self._backlog = 0.0  # bytes of rows that come during a join phase,
        self._incoming = 0.0  # and how many per second
        self._pressed = False  # there was no room for rows that came
        self._closed = self._failed = False
        prepare(data_kernels, box_kernels, disk_kernels, kernels)
        self._engine: Engine | None = None
        self._schema: pa.Schema | None = None
        self._snapshot = relation.snapshot()
        try:
            device = self._snapshot.device
            self._costs = at_start(device, relation.blocks) if costs is None else costs
            self._urgency = Urgency(deadline, self._costs, self._clock, self._counters)
            if schema is not None:
                self._bind(schema)
        except BaseException:
            self._snapshot.close()
            raise

    def _bind(self, schema: pa.Schema) -> Engine:
        check_gatherable(schema, "left")
        matching = Matching(
            self._on, schema, self._snapshot.layout, self._how, self._suffix, self._names
        )
        self._schema = schema
        listener = Listener(self._asked, self._answered, self._urgency.done, self._has_read)
        memory = self._memory
        engine = Engine(
            self._snapshot,
            matching,
            memory,
            self._policy,
            self._clock,
            self._counters,
            listener,
            self._planner,
            self._costs,
            self._batch_rows,
        )
        memory.require(self._snapshot.layout.block_bytes, engine.row_bytes)
        self._tuner = Tuner(
            memory.budget,
            memory.index + engine.work_bytes,
            self._snapshot.layout.block_bytes,
            max(1, len(engine.fences.firsts)),
            self._costs.seek,
            self._costs.transfer,
            row_bytes=engine.row_bytes,
            buffers=engine.scan_buffers,
        )
        self._engine = engine
        self._tune()
        return engine

    # --- The stream -----------------------------------------------------------------------------

    def push(self, rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        """Take stream rows in, and give the rows of the answer that are due.

        Rows are taken in at once, and checked; the work is done as the iterator is read.
        """
        batch = self._taken(rows)
        self._counters.rows += batch.num_rows
        now = self._clock.now()
        step = self._slice_rows(batch)
        for start in range(0, batch.num_rows, step):
            self._outside.append((batch.slice(start, step), now))
        return self._work()

    def offer(self, rows: pa.RecordBatch | pa.Table) -> bool:
        """Take stream rows into the input buffer, without any work; False if there is no room."""
        batch = self._taken(rows)
        taken = self._offered(batch, self._clock.now())
        self._counters.rows += batch.num_rows if taken else 0
        return taken

    def step(self) -> list[pa.RecordBatch] | None:
        """Do one piece of work that is due and give its part of the answer; None: nothing is due.

        A piece is one online phase's part of the answer, or one group of reads.
        """
        self._refuse_if_closed()
        with uninterrupted():
            phase = self._under_way()
            if phase is None:
                return None
            try:
                with self._counters.timed("online" if phase.is_online else "join"):
                    found = next(phase.steps)
            except StopIteration:
                self._running.pop()
                return []
            except BaseException:
                self._running.pop()
                self._flushing = False
                self._failed = phase.is_online  # rows of its batch were answered in part
                raise
        return [] if found is None else [found]

    def poll(self) -> Iterator[pa.RecordBatch]:
        """Do what is due now, deadlines above all."""
        self._refuse_if_closed()
        return self._work()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Join everything that waits. More rows may be pushed afterwards."""
        self._refuse_if_closed()
        self._flushing = True
        return self._work()

    def reset(self) -> None:
        """Forget all rows that have arrived or wait, and what is left of their answer."""
        while self._running:
            self._running.pop().steps.close()
        self._outside.clear()
        self._arrivals.clear()
        self._flushing = self._pressed = self._failed = False
        if self._engine is not None:
            self._engine.waiting.clear()
            self._engine.account()

    def close(self) -> None:
        """Give memory and the snapshot back; rows that wait are forgotten."""
        if not self._closed:
            self.reset()
            self._closed = True
            self._snapshot.close()

    def __enter__(self) -> RelationJoin:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _taken(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """Rows of the agreed schema, whose keys are keys; or an error, and nothing has changed."""
        self._refuse_if_closed()
        batch = conform(rows, self._schema, "left")
        engine = self._engine or self._bind(batch.schema)
        if not engine.matching.takes_any_row:
            engine.matching.boxes(batch)
        return batch

    def _slice_rows(self, batch: pa.RecordBatch) -> int:
        """Rows that are taken in at a time: those of an online phase, if they are not too large."""
        assert self._engine is not None
        width: int = max(1, batch.nbytes // max(1, batch.num_rows))
        most = self._memory.for_rows // 8 // width
        return max(1, min(most, self._engine.thresholds.input_rows))

    def _offered(self, batch: pa.RecordBatch, arrived: float) -> bool:
        if not batch.num_rows:
            return True
        assert self._engine is not None
        self._pressed = not self._engine.make_room(batch.nbytes)
        if not self._pressed:
            self._arrivals.append(batch, arrived)
        return not self._pressed

    def _work(self) -> Iterator[pa.RecordBatch]:
        """Everything that is due, rows that were pushed included."""
        while True:
            while self._outside and not self._has_enough and self._offered(*self._outside[0]):
                self._outside.popleft()
            found = self.step()
            if found is None:
                if not self._outside:
                    break
                # Nobody waits, and there is no room: these rows are larger than the budget.
                self._arrivals.append(*self._outside.popleft())
                continue
            yield from found
        self._flushing = False

    @property
    def _has_enough(self) -> bool:
        """Whether an online phase is due: more rows would only take room from the cache."""
        assert self._engine is not None
        return self._arrivals.rows >= self._engine.thresholds.input_rows

    # --- Phases ---------------------------------------------------------------------------------

    def _under_way(self) -> _Phase | None:
        """The phase that works now; begun, if one is due."""
        engine = self._engine
        if engine is None:
            return None
        if not self._running:
            due = self._next_phase(engine)
            if due is None:
                return None
            self._running.append(due)
        if self._running[-1].is_online and engine.is_full and engine.waiting.rows:
            self._running.append(_Phase(join_phase(engine)))
        return self._running[-1]

    def _next_phase(self, engine: Engine) -> _Phase | None:
        """What is due, if anything (SSIJ, Sections IV-B and IV-F)."""
        waiting = engine.waiting.rows
        if self._is_outdated(engine):
            if waiting:
                return _Phase(join_phase(engine))
            self._renew(engine)
        hurry = self._flushing or self._pressed or self._urgency.is_due(engine, self._arrivals)
        crowded = waiting >= engine.thresholds.stream_rows or self._is_filling(engine)
        if self._arrivals.rows and (hurry or (self._has_enough and not crowded)):
            return self._online(engine)
        if waiting and (hurry or crowded):
            return _Phase(join_phase(engine))
        return None

    def _online(self, engine: Engine) -> _Phase:
        arrived = self._arrivals.take(engine.thresholds.input_rows)
        return _Phase(online_phase(engine, arrived), is_online=True)

    def _is_outdated(self, engine: Engine) -> bool:
        state = engine.snapshot.state
        now = self._relation.generation, self._relation.version
        return now != (state.current.generation, state.version)

    def _renew(self, engine: Engine) -> None:
        """Work with the relation as it is now."""
        snapshot = self._relation.snapshot()
        engine.renew(snapshot)
        self._snapshot.close()
        self._snapshot = snapshot
        self._tune()

    def _tune(self) -> None:
        """Choose thresholds for the next cycle, from what the last ones have shown."""
        engine = self._engine
        assert engine is not None
        self._tuner.fixed = self._memory.index + engine.work_bytes + int(self._backlog)
        found = self._tuner.thresholds(
            engine.row_bytes + engine.work_per_row, engine.waiting.row_bytes
        )
        chosen = {
            "input_rows": found.input_rows,
            "stream_rows": found.stream_rows,
            "max_scan": found.max_scan,
            **self._fixed,
        }
        engine.use(Thresholds(**chosen, why=found.why))

    def _is_filling(self, engine: Engine) -> bool:
        """Whether memory would be full before a join phase that begins now is over.

        Judged by how fast rows came during the last ones, and how long they took.
        """
        waiting = engine.waiting
        if not self._incoming or waiting.rows < engine.thresholds.stream_rows >> 3:
            return False
        leaves = min(waiting.leaves_at_most, len(engine.fences.firsts))
        coming = self._incoming * self._urgency.model.estimate(leaves)
        return self._memory.rows + coming >= self._memory.for_rows

    def _asked(self, leaves: NDArray[np.int64], rows: int) -> None:
        self._tuner.see(leaves, rows)

    def _answered(self, hits: float, done: float) -> None:
        self._tuner.answered(hits, done)

    def _has_read(self, leaves: int, seconds: float) -> None:
        """A join phase is over: it took so long, and so many rows came meanwhile.

        Nobody waits now, so there is room for whatever thresholds are chosen.
        """
        self._urgency.model.observe(leaves, seconds)
        came = float(self._memory.arrived)
        self._backlog = max(0.9 * self._backlog, came)
        self._incoming = max(0.9 * self._incoming, came / seconds if seconds > 0 else 0.0)
        self._tune()

    @property
    def due(self) -> float | None:
        """Seconds until ``poll()`` must be called; None when no row is under a deadline."""
        if self._engine is None:
            return None
        moment = self._urgency.begin(self._engine, self._arrivals)
        return None if moment is None else max(0.0, moment - self._clock.now())

    # --- What it does ---------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer; StateError before the schema of the stream is known."""
        if self._engine is None:
            raise StateError("push rows first, or give schema=: the stream's columns are not known")
        return self._engine.matching.schema

    def explain(self) -> Explanation:
        """Thresholds and why, who holds which memory, what the plan and the cache do."""
        return explained(self._engine, self._memory, self._relation, self._on, self._how)

    def metrics(self) -> RelationMetrics:
        """Counts so far."""
        engine, memory = self._engine, self._memory
        return self._counters.snapshot(
            cached_blocks=0 if engine is None else engine.cache.count,
            evictions=0 if engine is None else engine.cache.evictions,
            waiting_rows=self._waiting_rows,
            memory_bytes=memory.held,
            peak_bytes=memory.peak,
            budget_bytes=memory.budget,
            index_bytes=memory.index,
            version=self._snapshot.version,
        )

    @property
    def _waiting_rows(self) -> int:
        outside: int = sum(batch.num_rows for batch, _ in self._outside)
        waiting = 0 if self._engine is None else self._engine.waiting.rows
        return outside + self._arrivals.rows + waiting

    def check(self) -> None:
        """Assert the invariants of the parts."""
        if self._engine is not None:
            self._engine.cache.check()
            assert self._memory.held <= self._memory.budget * 1.05, "above the budget"
            self._arrivals.check()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StateError("the join is closed; make a new RelationJoin")
        if self._failed:
            raise StateError(
                "an earlier look-up failed half-way, so that answers would be missing; make a new "
                "RelationJoin, and push the rows again from where it failed"
            )


def _planner(name: str) -> Planner:
    if name not in PLANS:
        raise RelationError(
            f"plan must be one of {', '.join(PLANS)}; got {name!r}.{suggest(str(name), PLANS)}"
        )
    return PLANS[name]


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RelationError(f"{name} must be a whole number of at least 1; got {value!r}")
    return value


def _share(split: float | None) -> float | None:
    if split is not None and not 0 <= split < 1:
        raise RelationError(f"split is the share of the cache, 0 ≤ split < 1; got {split!r}")
    return split
