"""What the joins that SSIJ is compared with share: ``RelationJoin``, driving another engine.

``MeshJoin`` and ``IndexNestedLoop`` check, accept and count rows as ``RelationJoin`` does, since
they inherit from it. Their engines read the relation in the same way, count the same things and
charge the same costs, so that a comparison is about the algorithm. They do not know deadlines
(SSIJ, Section IV-F).

Rows wait in an input buffer until a *phase* takes them: a generator that yields the answer piece by
piece. Before a phase begins after an update of the relation, rows that met a part of it meet the
rest as it was, and then the snapshot is changed; so every row sees one state of the relation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetabench.rivals import kernels
from thetastream._jit.compiling import prepare
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.rows import check_gatherable
from thetastream.plan.explanation import Explanation
from thetastream.relation.disk.clock import Costs
from thetastream.relation.disk.size import show_size
from thetastream.relation.files.scan import damaged
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.answer import Answers
from thetastream.relation.join.arrivals import Arrivals, ArrivedRows
from thetastream.relation.join.engine import Settings
from thetastream.relation.join.join import RelationJoin
from thetastream.relation.join.matching import Matching, RelationBoxes
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.waiting import Segment
from thetastream.relation.store import Relation
from thetastream.side import How

Phase: TypeAlias = Iterator[pa.RecordBatch | None]
_INPUT_SHARE = 32  # of the budget, one part is for rows that arrived
_PARTS = ("budget", "index", "work", "arrived", "waiting", "cached", "peak")


class Baseline(RelationJoin):
    """A join of a stream with a relation, without deadlines; ``options`` are ``RelationJoin``'s.

    The costs of the device are those it claims, unless they are given.
    """

    _make_engine: Callable[..., BaselineEngine]

    def __init__(
        self,
        relation: Relation,
        on: str | Predicate | Expression,
        memory: str | int = "64 MB",
        how: str | How = "inner",
        **options: Any,
    ) -> None:
        prepare(kernels)
        with relation.snapshot() as snapshot:
            claimed = Costs(snapshot.device.seek, snapshot.device.transfer)
        super().__init__(relation, on, memory, None, how, **{"costs": claimed, **options})

    def _bind(self, schema: pa.Schema) -> Any:
        check_gatherable(schema, "left")
        layout = self._first.layout
        matching = Matching(self._on, schema, layout, self._how, self._suffix, self._names)
        engine: Any = self._make_engine(
            self._relation, self._first, matching, self._memory, self._settings
        )
        self._engine, self._schema = engine, schema
        return engine

    def _taken(self, rows: pa.RecordBatch | pa.Table) -> tuple[Any, pa.RecordBatch]:
        engine: Any
        engine, batch = super()._taken(rows)
        engine.start(batch)
        return engine, batch

    def explain(self, *, verbose: bool = False) -> Explanation:
        """The algorithm with the parameters that were chosen, and the use of memory."""
        engine: Any = self._engine
        known = engine is not None and engine.is_started
        facts: dict[str, Any] = {
            "join": f"{self._how.value} on {self._on}",
            "algorithm": engine.summary if known else "not known yet: push rows",
            "memory": {name: show_size(getattr(self._memory, name)) for name in _PARTS},
        }
        return Explanation.of(facts, verbose=verbose)


@dataclass(eq=False)
class BaselineEngine(ABC):
    """What ``RelationJoin`` drives. A subclass holds rows and the relation as it likes."""

    relation: Relation
    snapshot: Snapshot
    matching: Matching
    memory: Memory
    settings: Settings

    has_enough: ClassVar[bool] = False
    has_failed: ClassVar[bool] = False
    due: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        budget, batch_rows = self.memory.budget, self.settings.batch_rows
        self.costs, self.clock = self.settings.costs, self.settings.clock
        self.counters = self.settings.counters
        self.arrivals = Arrivals(self.memory)
        self.answers = Answers(self.matching, self.counters, self.clock, budget, batch_rows)
        self.cache: Any = SimpleNamespace(count=0)
        """Nothing is cached, unless a subclass does."""
        self.buffer: NDArray[np.uint8] = np.empty(0, np.uint8)
        """What :meth:`read` reads into."""
        self.input_bytes = budget // _INPUT_SHARE
        self.row_bytes = 0.0
        """Bytes of the columns of a row that are held; known from the first rows on."""
        self.is_started = False
        self._running: Phase | None = None
        self._full = False

    # --- What a subclass does -------------------------------------------------------------------

    @abstractmethod
    def attach(self) -> None:
        """Begin to work with the snapshot; no row is held."""

    @abstractmethod
    def next_phase(self, forced: bool) -> Phase | None:
        """What is due; with ``forced`` also what could wait for more rows."""

    @property
    def held_rows(self) -> int:
        """Rows that have met a part of the relation and are not done."""
        return 0

    @property
    def ready_rows(self) -> int:
        """Rows that were taken from the input buffer and have met nothing yet."""
        return 0

    def forget(self) -> None:  # noqa: B027  (not every engine holds rows)
        """Drop all rows that are held."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The algorithm and its parameters."""

    # --- The stream -----------------------------------------------------------------------------

    def start(self, batch: pa.RecordBatch) -> None:
        """Attach to the relation when the first rows come: they say how large rows are."""
        if batch.num_rows and not self.is_started:
            held = batch.select(self.matching.held_columns())
            self.row_bytes = held.nbytes / batch.num_rows
            self.attach()
            self.is_started = True

    @property
    def rows(self) -> int:
        """Rows that arrived and are not done."""
        inside = self.ready_rows + self.held_rows if self.is_started else 0
        return self.arrivals.rows + inside

    def slice_rows(self, batch: pa.RecordBatch) -> int:
        """Rows to accept at a time."""
        width: int = max(1, batch.nbytes // max(1, batch.num_rows))
        return max(1, self.input_bytes // 2 // width)

    def offer(self, batch: pa.RecordBatch, arrived: float) -> bool:
        """Add rows to the input buffer; False if there is no room."""
        if self.arrivals.rows and self.memory.arrived + batch.nbytes > self.input_bytes:
            self._full = True
            return False
        if batch.num_rows:
            self.arrivals.append(batch, arrived)
        return True

    def step(self, flushing: bool) -> list[pa.RecordBatch] | None:
        """Do one piece of due work and return its part of the answer; None: nothing is due."""
        if self._running is None:
            self._running = self._due(flushing or self._full)
            if self._running is None:
                return None
        try:
            piece = next(self._running)
        except StopIteration:
            self._running = None
            return []
        except BaseException:
            self._running = None
            raise
        return [] if piece is None else [piece]

    def _due(self, forced: bool) -> Phase | None:
        if not self.is_started:
            return None
        if self.is_outdated and not self.held_rows:
            before, self.snapshot = self.snapshot, self.relation.snapshot()
            before.close()
            self.attach()
        return self.next_phase(forced)

    @property
    def is_outdated(self) -> bool:
        """Whether rows must not be taken from the input before those held are done."""
        return self.relation.has_changed_since(self.snapshot)

    def clear(self) -> None:
        """Drop all rows and the rest of their answer."""
        self._running = None
        self._full = False
        self.arrivals.clear()
        if self.is_started:
            self.forget()

    def check(self) -> None:
        """Assert the invariants of the input buffer."""
        self.arrivals.check()

    # --- What phases have in common -------------------------------------------------------------

    def take(self, wanted: int) -> tuple[ArrivedRows, RelationBoxes]:
        """The first rows of the input buffer, ``wanted`` at most, and what they ask for."""
        self._full = False
        arrived, counters = self.arrivals.take(wanted), self.counters
        boxes = self.matching.boxes(arrived.batch)
        counters.online_phases += 1
        counters.null_keys += boxes.null_keys
        counters.nan_keys += boxes.nan_keys
        return arrived, boxes

    def read(self, start: int, count: int, blocks: Array) -> Array:
        """Read blocks by one seek; where the leaves that begin at ``blocks`` lie in the buffer."""
        counters, layout = self.counters, self.snapshot.layout
        with counters.timed("io"):
            self.snapshot.read(np.array([start]), np.array([count]), self.buffer)
        counters.seeks += 1
        counters.blocks_read += count
        self.clock.charge(blocks=blocks.size)
        bases = (blocks - start) * layout.block_bytes
        wrong = layout.verify(self.buffer, bases, blocks)
        if wrong >= 0:
            raise damaged(int(blocks[wrong]))
        return bases

    def done(self, segments: list[Segment]) -> None:
        """Count how long rows waited for the last of their answer."""
        now = self.clock.now()
        for segment in segments:
            self.counters.latencies.add(now - segment.arrived, segment.rows)
