"""MeshJoin: the relation is read in a circle, and stream rows stay until all of it has passed.

The algorithm that SSIJ is compared with (Polyzotis et al., "Supporting streaming updates in an
active data warehouse", ICDE 2007, and TKDE 2008; SSIJ, Sections I and V). A *step* reads the next
``b`` blocks by one sequential read, takes ``w`` new stream rows, joins the blocks with all rows
that are held, and dismisses the ``w`` oldest, which have now met the whole relation::

    steps of the circle      0    1    2    3  │ 0    1    2
    batch that enters        A    B    C    D  │ E    F    G       N / b steps, as many batches
    batch that leaves                          │ A    B    C

Every read serves all rows that are held, whatever they ask for: neither an index nor skew is used.

**Parameters.** With N blocks of B bytes, rows of v bytes and a memory of M, all ``b`` are tried:

    w(b) = (M - b B) / ((⌈N / b⌉ + 1) v)   the blocks of a step, a batch per step, and one arriving
    rate(b) = w / (S + b (T + c_block) + w c_row + c_step)         stream rows per second

and the one with the highest rate is taken. v is the row's columns and, as the paper's queue of
pointers and hash table with its fudge factor of 1.2, what is needed to find it: here 25 bytes per
row with one key (key, place in the order of the batch, leaves, mark). A 64th of the budget is for
the answer. Leaves are known by their fences, which say what a leaf that passes can hold; the
paper's algorithm has none, so they do not count for the budget.

Exact for equality, the paper's case, and for everything else that ``RelationJoin`` can do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thetabench.arrays import Array
from thetabench.rivals.baseline import Baseline, BaselineEngine, Phase
from thetabench.rivals.circle import Circle
from thetabench.rivals.held import Held, held_bytes
from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Costs, SimulatedClock
from thetastream.relation.disk.device import aligned
from thetastream.relation.disk.size import show_size
from thetastream.relation.join.arrivals import ArrivedRows
from thetastream.relation.join.matching import RelationBoxes

_STEP_SECONDS = 3e-4  # of a step on a real device, whatever it joins
_QUESTIONS = 1 << 14
_AT_ONCE = 256  # rows that are looked up together, or a batch


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of the algorithm."""

    blocks: int
    """Read per step: b."""
    rows: int
    """Taken and dismissed per step: w."""
    steps: int
    """Of a circle."""
    rate: float
    """Rows per second that the costs promise."""


def best_shape(
    memory: int,
    blocks: int,
    block_bytes: int,
    row_bytes: float,
    costs: Costs,
    *,
    step_seconds: float = 0.0,
    widest: int = 1,
) -> Shape:
    """The parameters with the highest rate; all ``b`` are tried. See the module. O(memory / block).

    A step holds the ``widest`` leaf at least.

    >>> best_shape(1_600_000, 20_000, 8192, 80.0, Costs(8.5e-3, 5.5e-5))
    Shape(blocks=80, rows=47, steps=250, rate=3548.9107864235284)
    """
    b = np.arange(widest, max(widest, min(blocks, memory // block_bytes)) + 1)
    steps = np.maximum(-(-blocks // b), 1)
    w = (memory - b * block_bytes) // ((steps + 1) * row_bytes)
    seconds = costs.seek + b * (costs.transfer + costs.block) + w * costs.row + step_seconds
    rate = np.where(w >= 1, w / seconds, 0.0)
    at = int(np.argmax(rate))
    if not rate[at]:
        least = float((b * block_bytes + (steps + 1) * row_bytes).min())
        raise RelationError(
            f"memory={show_size(memory)} is too small for MeshJoin: with "
            f"{blocks:,} blocks of {show_size(block_bytes)} and rows of {row_bytes:.0f} bytes it "
            f"needs {show_size(least)} at least; give more, or use RelationJoin"
        )
    return Shape(int(b[at]), int(w[at]), int(steps[at]), float(rate[at]))


@dataclass(slots=True)
class _Ready:
    """Rows that will enter next, with the leaves they ask for: looked up many at a time."""

    arrived: ArrivedRows
    boxes: RelationBoxes
    first: Array
    stop: Array
    at: int

    @property
    def left(self) -> int:
        return int(self.arrived.batch.num_rows) - self.at


class MeshEngine(BaselineEngine):
    """Steps over the relation, and the rows that meet it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ready: _Ready | None = None

    def attach(self) -> None:
        fences, memory, answers = self.snapshot.fences, self.memory, self.answers
        block_bytes = self.snapshot.layout.block_bytes
        none = pa.RecordBatch.from_pylist([], schema=self.matching.stream)
        pieces = self._pieces = self.matching.boxes(none).pieces
        self._row = self.row_bytes + held_bytes(self.matching, pieces)
        self._room = np.empty(max(256, min(_QUESTIONS, memory.budget >> 10)), np.int64)
        accounted = isinstance(self.clock, SimulatedClock)
        self.shape = best_shape(
            memory.budget - answers.nbytes - self._room.nbytes,
            max(fences.end, 1),
            block_bytes,
            self._row,
            self.costs,
            step_seconds=0.0 if accounted else _STEP_SECONDS,
            widest=int(fences.all_spans.max(initial=1)),
        )
        self._circle = Circle(fences, self.shape.blocks)
        # Where leaves are wide or lie apart, a circle has more steps than it has blocks / b.
        steps = max(self._circle.steps, 1)
        rows = max(1, self.shape.rows * self.shape.steps // steps)
        self._held = Held(self.matching, steps, rows, pieces)
        self._greatest = np.empty(0, np.int64)
        if self.matching.ranged and fences.greatest is not None:
            self._greatest = np.array(fences.greatest)  # kernels take writable arrays
        self.buffer = aligned(self._circle.largest * block_bytes)
        self.input_bytes = max(int(rows * self._row), block_bytes)
        self._at = 0
        self._entered = False
        memory.work = self.buffer.nbytes + answers.nbytes + self._room.nbytes
        if self._ready is not None:  # looked up in what was the relation before
            self._prepare(self._ready.arrived, self._ready.boxes, self._ready.at)
        self._account()

    def _account(self) -> None:
        self.memory.waiting = self._held.nbytes
        self.memory.note()

    # --- Steps ----------------------------------------------------------------------------------

    def next_phase(self, forced: bool) -> Phase | None:
        outdated = self.is_outdated
        least = 1 if forced else self._held.room
        enters = not outdated and self.arrivals.rows + self.ready_rows >= least
        if enters or (self._held.rows and (forced or outdated)):
            return self._step(enters)
        return None

    def _step(self, enters: bool) -> Phase:
        """Dismiss a batch, let one in, read the next blocks and join them with all rows held."""
        held, at = self._held, self._at
        if not self._entered:
            # The batch that entered at this place of the circle has met everything.
            yield from self.answers.alone(held.stream, held.numbers(at))
            self.done(held.drop(at))
            if enters:
                self._enter(at)
            self._entered = True
        if held.rows and self._circle.steps:
            self.counters.join_phases += 1
            yield from self._passed(at)
        self._at = (at + 1) % held.steps
        self._entered = False
        yield None

    def _enter(self, at: int) -> None:
        ready = self._ready
        if ready is None:
            with self.counters.timed("online"):
                ready = self._prepare(*self.take(max(self._held.room, _AT_ONCE)))
        first, size = ready.at, min(self._held.room, ready.left)
        self.clock.charge(rows=size)
        places = np.arange(first * self._pieces, (first + size) * self._pieces)
        segments = ready.arrived.segments_of(np.arange(first, first + size))
        self._held.put(
            at, ready.arrived.batch.slice(first, size), ready.boxes.take(places),
            ready.first[places], ready.stop[places], segments,
        )  # fmt: skip
        ready.at += size
        if not ready.left:
            self._ready = None
        self._account()

    def _prepare(self, arrived: ArrivedRows, boxes: RelationBoxes, at: int = 0) -> _Ready:
        first, stop = self.snapshot.fences.ranges(boxes.lows, boxes.highs)
        self._ready = _Ready(arrived, boxes, first, stop, at)
        return self._ready

    def _passed(self, at: int) -> Iterator[pa.RecordBatch]:
        """Read the blocks of a step and join them with the rows held."""
        circle, held = self._circle, self._held
        leaves, blocks = circle.leaves(at)
        bases = self.read(*circle.span(at), blocks)
        asked = 0
        for begin, end in circle.runs(at):
            for questions in held.questions(begin, end, self._greatest, self._room):
                asked += questions.size
                places = bases[np.searchsorted(leaves, questions >> 32)]
                yield from self.answers.pairs(held.stream, questions, places, self.buffer)
        self.counters.misses += asked

    # --- What it holds --------------------------------------------------------------------------

    @property
    def held_rows(self) -> int:
        return self._held.rows

    @property
    def ready_rows(self) -> int:
        return 0 if self._ready is None else self._ready.left

    def forget(self) -> None:
        self._held.clear()
        self._ready = None
        self._entered = False

    @property
    def summary(self) -> str:
        shape, held = self.shape, self._held
        return (
            f"MeshJoin: the relation is read in a circle of {held.steps:,} steps. A step reads "
            f"{shape.blocks:,} blocks and takes {held.room:,} rows of {self._row:.0f} bytes each, "
            f"which promises most of all numbers of blocks: {shape.rate:,.0f} rows per second"
        )


class MeshJoin(Baseline):
    """Join a stream with a relation by reading the relation in a circle; see the module.

    The parameters are those of ``RelationJoin``; there are no deadlines. ``flush`` goes on until
    all rows have met the whole relation.
    """

    _make_engine = MeshEngine
