"""``RelationJoin``: enriches stream rows from a table on disk, within a budget and a deadline.

    pending     rows collect in the input buffer until there are enough, or a deadline is near
    online      they are looked up; cached blocks answer some, the others wait (online.py)
    join        enough rows wait, or a deadline is near: read and join their blocks (joining.py)

Pushed rows are never lost: reading an iterator of ``push``, ``poll`` or ``flush`` does the work
that is due, and an iterator that is not read to its end leaves the rest to the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from thetastream._jit.compiling import prepare
from thetastream.boxes import kernels as box_kernels
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data import kernels as data_kernels
from thetastream.data.batch import conform
from thetastream.data.results import Streamed
from thetastream.data.rows import check_gatherable
from thetastream.display.facts import Facts, Shown
from thetastream.duration import Interval
from thetastream.errors import OptionError, StateError
from thetastream.interrupt import uninterrupted
from thetastream.options.checks import read_columns, read_count, read_number, read_text, unknown
from thetastream.plan.explanation import Explanation
from thetastream.relation.disk import kernels as disk_kernels
from thetastream.relation.disk.calibrate import at_start
from thetastream.relation.disk.clock import Clock, Costs, RealClock
from thetastream.relation.disk.readplan import PLANS, Planner
from thetastream.relation.disk.size import read_size
from thetastream.relation.files.intervals import end_bytes
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join import kernels
from thetastream.relation.join.cache import Policy
from thetastream.relation.join.engine import RelationEngine, Settings
from thetastream.relation.join.explanation import explained
from thetastream.relation.join.matching import Matching, check_against, read_mode
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import RelationCounters, RelationMetrics
from thetastream.relation.join.pace import read_deadline
from thetastream.relation.store import Relation
from thetastream.side import How


class RelationJoin(Shown):
    """Join a stream with a relation.

    ``on`` compares the stream (``l``) with the relation (``r``), including its key. ``memory``
    bounds everything the join holds. ``deadline`` is how long a row may wait for its answer: call
    ``poll()`` within ``due`` seconds. ``how`` is inner, left, semi or anti.

    Thresholds are chosen automatically; ``input_rows``, ``stream_rows`` and ``max_scan`` fix them.
    ``costs`` are those of the device; without them it is measured briefly.
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
        self._how = read_mode(how)
        self._suffix = read_text("suffix", suffix)
        self._names = read_columns(columns)
        self._clock: Clock = RealClock() if clock is None else clock
        self._memory = Memory(read_size(memory), _share(split))
        self._counters = RelationCounters()
        fixed = {"input_rows": input_rows, "stream_rows": stream_rows, "max_scan": max_scan}
        policy, planner = Policy.of(cache), _planner(plan)
        batch_rows = read_count("batch_rows", batch_rows)
        thresholds = {name: read_count(name, n) for name, n in fixed.items() if n is not None}
        self._outside: deque[tuple[pa.RecordBatch, float]] = deque()  # pushed, not offered yet
        self._flushing = self._closed = False
        prepare(data_kernels, box_kernels, disk_kernels, kernels)
        self._engine: RelationEngine | None = None
        self._schema: pa.Schema | None = None
        self._first = relation.snapshot()
        try:
            check_against(self._on, self._first.layout)
            costs = at_start(self._first.device, relation.blocks) if costs is None else costs
            limit = read_deadline(deadline, costs)
            measured = (costs, self._clock, self._counters)
            self._settings = Settings(policy, planner, limit, thresholds, batch_rows, *measured)
            if schema is not None:
                self._bind(schema)
        except BaseException:
            self._first.close()
            raise

    def _bind(self, schema: pa.Schema) -> RelationEngine:
        check_gatherable(schema, "left")
        layout = self._first.layout
        ends = end_bytes(self._first)
        matching = Matching(self._on, schema, layout, self._how, self._suffix, self._names, ends)
        self._engine = RelationEngine(
            self._relation, self._first, matching, self._memory, self._settings
        )
        self._schema = schema
        return self._engine

    # --- The stream -----------------------------------------------------------------------------

    def push(self, rows: Any) -> Streamed:
        """Add stream rows, a frame of any kind, and return the rows of the answer that are due.

        Rows are checked and accepted at once; reading the result does the work.
        """
        engine, batch = self._taken(rows)
        self._counters.rows += batch.num_rows
        now = self._clock.now()
        step = engine.slice_rows(batch)
        for start in range(0, batch.num_rows, step):
            self._outside.append((batch.slice(start, step), now))
        return self._answer()

    def offer(self, rows: Any) -> bool:
        """Add stream rows to the input buffer, without any work; False if there is no room."""
        engine, batch = self._taken(rows)
        taken = engine.offer(batch, self._clock.now())
        self._counters.rows += batch.num_rows if taken else 0
        return taken

    def step(self) -> list[pa.RecordBatch] | None:
        """Do one piece of due work and return its part of the answer; None: nothing is due.

        A piece is one online phase's part of the answer, or one group of reads.
        """
        self._refuse_if_closed()
        if self._engine is None:
            return None
        with uninterrupted():
            try:
                return self._engine.step(self._flushing)
            except BaseException:
                self._flushing = False
                raise

    def poll(self) -> Streamed:
        """Do the work that is due now, deadlines first."""
        self._refuse_if_closed()
        return self._answer()

    def flush(self) -> Streamed:
        """Join all waiting rows. More rows may be pushed afterwards."""
        self._refuse_if_closed()
        self._flushing = True
        return self._answer()

    def reset(self) -> None:
        """Drop all rows and the rest of their answer."""
        self._outside.clear()
        self._flushing = False
        if self._engine is not None:
            self._engine.clear()

    def close(self) -> None:
        """Release memory and the snapshot; waiting rows are dropped."""
        if not self._closed:
            self.reset()
            self._closed = True
            self._snapshot.close()

    def __enter__(self) -> RelationJoin:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _taken(self, rows: Any) -> tuple[RelationEngine, pa.RecordBatch]:
        """Rows of the agreed schema with valid keys; an error changes nothing."""
        self._refuse_if_closed()
        batch = conform(rows, self._schema, "left")
        engine = self._engine or self._bind(batch.schema)
        engine.matching.verify(batch)
        return engine, batch

    def _answer(self) -> Streamed:
        return Streamed(lambda: self.schema, self._work())

    def _work(self) -> Iterator[pa.RecordBatch]:
        """Do all work that is due, including rows that were pushed."""
        outside, engine = self._outside, self._engine
        while engine is not None:
            while outside and not engine.has_enough and engine.offer(*outside[0]):
                outside.popleft()
            pieces = self.step()
            if pieces is not None:
                while pieces:
                    yield pieces.pop()  # and keep no reference
            elif outside:
                # No row waits and there is no room: these rows are larger than the budget.
                engine.arrivals.append(*outside.popleft())
            else:
                break
        self._flushing = False

    @property
    def due(self) -> float | None:
        """Seconds until ``poll()`` must be called; None if no row is under a deadline."""
        return None if self._engine is None else self._engine.due

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer; StateError before the schema of the stream is known."""
        if self._engine is None:
            raise StateError("push rows first, or pass schema=: the stream's columns are not known")
        return self._engine.matching.schema

    def explain(self, *, verbose: bool = False) -> Explanation:
        """The thresholds and why, the use of memory, the device, the cache; a line for each.

        ``verbose`` gives every fact a line of its own.
        """
        facts = (self._engine, self._memory, self._relation, self._on, self._how)
        return explained(*facts, verbose=verbose)

    def metrics(self) -> RelationMetrics:
        """Counts so far."""
        engine, memory = self._engine, self._memory
        inside = 0 if engine is None else engine.rows
        return self._counters.snapshot(
            cached_blocks=0 if engine is None else engine.cache.count,
            waiting_rows=inside + sum(batch.num_rows for batch, _ in self._outside),
            memory_bytes=memory.held,
            peak_bytes=memory.peak,
            budget_bytes=memory.budget,
            index_bytes=memory.index,
            version=self._snapshot.version,
        )

    @property
    def _snapshot(self) -> Snapshot:
        return self._first if self._engine is None else self._engine.snapshot

    def _shown(self) -> tuple[str, Facts]:
        metrics = self.metrics()
        facts = {
            "relation": self._relation.path,
            "how": self._how.value,
            "rows in": metrics.rows,
            "rows waiting": metrics.waiting_rows,
            "matches": metrics.matches,
        }
        return f"{type(self).__name__} on {self._on}", facts

    def check(self) -> None:
        """Assert the invariants of the parts."""
        if self._engine is not None:
            self._engine.check()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StateError("the join is closed; make a new RelationJoin")
        if self._engine is not None and self._engine.has_failed:
            raise StateError(
                "an earlier look-up failed halfway, so that answers would be missing; make a new "
                "RelationJoin and push the rows again from where it failed"
            )


def _planner(name: str) -> Planner:
    if not isinstance(name, str) or name not in PLANS:
        raise unknown("plan", name, PLANS)
    return PLANS[name]


def _share(split: float | None) -> float | None:
    if split is not None and not 0 <= read_number("split", split) < 1:
        raise OptionError(f"split is the share of the cache, 0 ≤ split < 1; got {split!r}")
    return split
