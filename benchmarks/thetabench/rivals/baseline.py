"""What the joins that SSIJ is compared with share: rows in, rows out, budget, counters.

``MeshJoin`` and ``IndexNestedLoop`` have the surface of ``RelationJoin`` and read the relation in
the same way, count the same things and charge the same costs, so that a comparison is about the
algorithm. They do not know deadlines (SSIJ, Section IV-F).

Rows wait in an input buffer until a *phase* takes them: a generator that gives the answer piece by
piece. Before a phase begins after an update of the relation, rows that met a part of it meet the
rest as it was, and then the snapshot is changed; so every row sees one state of the relation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.rivals import kernels
from thetastream._jit.compiling import prepare
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import conform
from thetastream.data.rows import check_gatherable
from thetastream.errors import RelationError, StateError
from thetastream.interrupt import uninterrupted
from thetastream.plan.choice import Explanation
from thetastream.relation.disk.clock import Clock, Costs, RealClock
from thetastream.relation.disk.size import read_size, show_size
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.answer import Answers
from thetastream.relation.join.arrivals import Arrivals
from thetastream.relation.join.matching import Matching
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import RelationCounters, RelationMetrics
from thetastream.relation.join.waiting import Segment
from thetastream.relation.store import Relation
from thetastream.side import How

Rows: TypeAlias = pa.RecordBatch | pa.Table
Phase: TypeAlias = Iterator[pa.RecordBatch | None]
_INPUT_SHARE = 32  # of the budget, one part is for rows that arrived


class Baseline(ABC):
    """A join of a stream with a relation, without deadlines.

    A subclass holds rows and the relation as it likes; it says what is due (``_next``), what it
    holds, and how it starts on a snapshot.
    """

    def __init__(
        self,
        relation: Relation,
        on: str | Predicate | Expression,
        memory: str | int = "64 MB",
        how: str | How = "inner",
        *,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_rows: int = 65_536,
        clock: Clock | None = None,
        costs: Costs | None = None,
    ) -> None:
        prepare(kernels)
        self._relation = relation
        self._on = Predicate.of(on)
        self._how = How.of(how)
        self._suffix, self._names, self._batch_rows = suffix, columns, batch_rows
        self._clock: Clock = RealClock() if clock is None else clock
        self._memory = Memory(read_size(memory))
        self._counters = RelationCounters()
        self._input = Arrivals(self._memory)
        self._outside: deque[tuple[pa.RecordBatch, float]] = deque()
        self._running: Phase | None = None
        self._flushing = self._full = self._closed = False
        self._started = False
        self._input_bytes = self._memory.budget // _INPUT_SHARE
        self._snapshot = relation.snapshot()
        device = self._snapshot.device
        self._costs = Costs(device.seek, device.transfer) if costs is None else costs
        self._schema: pa.Schema | None = None
        self._matching: Matching
        self._answers: Answers
        if schema is not None:
            self._bind(schema)

    def _bind(self, schema: pa.Schema) -> None:
        check_gatherable(schema, "left")
        self._matching = Matching(
            self._on, schema, self._snapshot.layout, self._how, self._suffix, self._names
        )
        self._answers = Answers(
            self._matching, self._counters, self._clock, self._memory.budget, self._batch_rows
        )
        self._schema = schema

    # --- What a subclass does -------------------------------------------------------------------

    @abstractmethod
    def _attach(self, snapshot: Snapshot, row_bytes: float) -> None:
        """Begin to work with a state of the relation; nothing is held. Rows are about so large."""

    @abstractmethod
    def _next(self, forced: bool) -> Phase | None:
        """What is due; with ``forced`` also what could wait for more rows."""

    @property
    @abstractmethod
    def _held_rows(self) -> int:
        """Rows that have met a part of the relation and are not done."""

    @property
    def _ready_rows(self) -> int:
        """Rows that were taken from the input buffer and have met nothing yet."""
        return 0

    @abstractmethod
    def _forget(self) -> None:
        """Drop all rows that are held."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What there is to explain."""

    # --- The stream -----------------------------------------------------------------------------

    def push(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Take stream rows in, and give the rows of the answer that are due."""
        batch = self._taken(rows)
        self._counters.rows += batch.num_rows
        now = self._clock.now()
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        step = max(1, self._input_bytes // 2 // width)
        for start in range(0, batch.num_rows, step):
            self._outside.append((batch.slice(start, step), now))
        return self._work()

    def offer(self, rows: Rows) -> bool:
        """Take stream rows into the input buffer, without any work; False if there is no room."""
        batch = self._taken(rows)
        taken = self._offered(batch, self._clock.now())
        self._counters.rows += batch.num_rows if taken else 0
        return taken

    def step(self) -> list[pa.RecordBatch] | None:
        """Do one piece of work that is due and give its part of the answer; None: nothing is."""
        self._refuse_if_closed()
        return self._stepped(self._flushing or self._full)

    def _stepped(self, forced: bool) -> list[pa.RecordBatch] | None:
        with uninterrupted():
            if self._running is None:
                self._running = self._due(forced)
                if self._running is None:
                    return None
            try:
                found = next(self._running)
            except StopIteration:
                self._running = None
                return []
            except BaseException:
                self._running = None
                raise
        return [] if found is None else [found]

    def poll(self) -> Iterator[pa.RecordBatch]:
        """Do what is due now."""
        self._refuse_if_closed()
        return self._work()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Join everything that waits. More rows may be pushed afterwards."""
        self._refuse_if_closed()
        self._flushing = True
        return self._work()

    def reset(self) -> None:
        """Forget all rows that have arrived or wait, and what is left of their answer."""
        self._running = None
        self._outside.clear()
        self._input.clear()
        self._flushing = self._full = False
        if self._started:
            self._forget()

    def close(self) -> None:
        """Give memory and the snapshot back; rows that wait are forgotten."""
        if not self._closed:
            self.reset()
            self._closed = True
            self._snapshot.close()

    def __enter__(self) -> Baseline:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def due(self) -> float | None:
        """Never: there are no deadlines here."""
        return None

    def _taken(self, rows: Rows) -> pa.RecordBatch:
        """Rows of the agreed schema, whose keys are keys; or an error, and nothing has changed."""
        self._refuse_if_closed()
        batch = conform(rows, self._schema, "left")
        if self._schema is None:
            self._bind(batch.schema)
        self._matching.boxes(batch)
        if batch.num_rows and not self._started:
            self._attach(self._snapshot, self._row_bytes(batch))
            self._started = True
        return batch

    def _row_bytes(self, batch: pa.RecordBatch) -> float:
        """Bytes of the columns of a row that are held."""
        held = batch.select(self._matching.held_columns())
        return float(held.nbytes / max(1, batch.num_rows))

    def _offered(self, batch: pa.RecordBatch, arrived: float) -> bool:
        if self._input.rows and self._memory.arrived + batch.nbytes > self._input_bytes:
            self._full = True
            return False
        if batch.num_rows:
            self._input.append(batch, arrived)
        return True

    def _work(self) -> Iterator[pa.RecordBatch]:
        """Everything that is due, rows that were pushed included."""
        while True:
            while self._outside and self._offered(*self._outside[0]):
                self._outside.popleft()
            found = self._stepped(self._flushing or bool(self._outside))
            if found is None:
                break
            yield from found
        self._flushing = False

    def _due(self, forced: bool) -> Phase | None:
        if not self._started:
            return None
        if self._relation.version != self._snapshot.version:
            if self._held_rows:
                return self._next(forced)
            snapshot = self._relation.snapshot()
            self._snapshot.close()
            self._snapshot = snapshot
            self._attach(snapshot, 0.0)
        return self._next(forced)

    @property
    def _is_outdated(self) -> bool:
        """Whether rows must not be taken from the input before those held are done."""
        return self._relation.version != self._snapshot.version

    def _arrivals(self, wanted: int) -> tuple[pa.RecordBatch, list[Segment]]:
        """The first rows of the input buffer, ``wanted`` at most, and when they came."""
        self._full = False
        arrived = self._input.take(wanted)
        return arrived.batch, arrived.segments

    def _done(self, segments: list[Segment]) -> None:
        now = self._clock.now()
        for segment in segments:
            self._counters.latencies.add(now - segment.arrived, segment.rows)

    # --- What it does ---------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer; StateError before the schema of the stream is known."""
        if self._schema is None:
            raise StateError("push rows first, or give schema=: the stream's columns are not known")
        return self._matching.schema

    def explain(self) -> Explanation:
        """Which parameters were chosen, and who holds which memory."""
        facts: dict[str, Any] = {"join": f"{self._how.value} on {self._on}"}
        if not self._started:
            facts["stream"] = "not known yet: push rows"
            return Explanation.of(facts)
        memory = self._memory
        facts |= self._facts()
        facts["memory"] = {
            "budget": show_size(memory.budget),
            "index": show_size(memory.index),
            "work": show_size(memory.work),
            "rows that arrived": show_size(memory.arrived),
            "rows that are held": show_size(memory.waiting),
            "cached blocks": show_size(memory.cached),
            "most held": show_size(memory.peak),
        }
        return Explanation.of(facts)

    def metrics(self) -> RelationMetrics:
        """Counts so far."""
        memory = self._memory
        return self._counters.snapshot(
            cached_blocks=memory.cached // self._snapshot.layout.block_bytes,
            waiting_rows=self._input.rows + self._inside_rows,
            memory_bytes=memory.held,
            peak_bytes=memory.peak,
            budget_bytes=memory.budget,
            index_bytes=memory.index,
            version=self._snapshot.version,
        )

    @property
    def _inside_rows(self) -> int:
        return self._ready_rows + self._held_rows if self._started else 0

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StateError(f"the join is closed; make a new {type(self).__name__}")


def verified(snapshot: Snapshot, buffer: NDArray[np.uint8], bases: Array, blocks: Array) -> None:
    """RelationError for a block that is damaged."""
    wrong = snapshot.layout.verify(buffer, bases, blocks)
    if wrong >= 0:
        raise RelationError(
            f"block {int(blocks[wrong])} of the relation is damaged: its checksum does not hold. "
            "Restore the relation from its source with Relation.build"
        )
