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

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.arrays import Array
from thetabench.rivals.baseline import Baseline, Phase, verified
from thetabench.rivals.circle import Circle
from thetabench.rivals.held import Held, held_bytes
from thetastream.errors import RelationError
from thetastream.relation.disk.clock import Costs, SimulatedClock
from thetastream.relation.disk.device import aligned
from thetastream.relation.disk.size import show_size
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.matching import RelationBoxes
from thetastream.relation.join.waiting import Segment

_NONE = np.empty(0, np.int64)
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
    """Rows that will enter next, with what they ask: looked up many at a time."""

    rows: pa.RecordBatch
    boxes: RelationBoxes
    first: Array
    stop: Array
    segments: deque[Segment]
    at: int = 0

    @property
    def left(self) -> int:
        return int(self.rows.num_rows) - self.at


class MeshJoin(Baseline):
    """Join a stream with a relation by reading the relation in a circle; see the module.

    The parameters are those of ``RelationJoin``; there are no deadlines. ``flush`` goes on until
    all rows have met the whole relation.
    """

    _ready: _Ready | None = None

    def _attach(self, snapshot: Snapshot, row_bytes: float) -> None:
        layout, fences = snapshot.layout, snapshot.fences
        self._pieces = self._matching.boxes(_no_rows(self._matching.stream)).pieces
        if row_bytes:
            self._columns_bytes = row_bytes
        self._row = self._columns_bytes + held_bytes(self._matching, self._pieces)
        self._room = np.empty(max(256, min(_QUESTIONS, self._memory.budget >> 10)), np.int64)
        accounted = isinstance(self._clock, SimulatedClock)
        self._shape = best_shape(
            self._memory.budget - self._answers.nbytes - self._room.nbytes,
            max(fences.end, 1),
            layout.block_bytes,
            self._row,
            self._costs,
            step_seconds=0.0 if accounted else _STEP_SECONDS,
            widest=1 if fences.spans is None else int(fences.spans.max()),
        )
        self._circle = Circle(fences, self._shape.blocks)
        # Where leaves are wide or lie apart, a circle has more steps than it has blocks / b.
        steps = max(self._circle.steps, 1)
        rows = max(1, self._shape.rows * self._shape.steps // steps)
        self._held = Held(self._matching, steps, rows, self._pieces)
        self._greatest = _NONE
        if self._matching.ranged and fences.greatest is not None:
            self._greatest = np.array(fences.greatest)  # kernels take what may be written to
        self._buffer = aligned(self._circle.largest * layout.block_bytes)
        self._input_bytes = max(int(rows * self._row), layout.block_bytes)
        self._at = 0
        self._entered = False
        self._memory.work = self._buffer.nbytes + self._answers.nbytes + self._room.nbytes
        ready, self._ready = self._ready, None
        if ready is not None:  # looked up in what was the relation before
            self._prepare(ready.rows.slice(ready.at), list(ready.segments))
        self._account()

    def _account(self) -> None:
        self._memory.waiting = self._held.nbytes
        self._memory.note()

    # --- Steps ----------------------------------------------------------------------------------

    def _next(self, forced: bool) -> Phase | None:
        enters = not self._is_outdated and (
            self._input.rows + self._ready_rows >= (1 if forced else self._held.room)
        )
        if enters or (self._held.rows and (forced or self._is_outdated)):
            return self._step(enters)
        return None

    def _step(self, enters: bool) -> Iterator[pa.RecordBatch | None]:
        """Dismiss a batch, let one in, read the next blocks and join them with all rows held."""
        held, at = self._held, self._at
        if not self._entered:
            # The batch that entered at this place of the circle has met everything.
            yield from self._answers.alone(held.stream, held.numbers(at))
            self._done(held.drop(at))
            if enters:
                self._enter(at)
            self._entered = True
        if held.rows:
            self._counters.join_phases += 1
            yield from self._passed(at)
        self._at = (at + 1) % held.steps
        self._entered = False
        yield None

    def _enter(self, at: int) -> None:
        counters = self._counters
        if self._ready is None:
            with counters.timed("online"):
                counters.online_phases += 1
                batch, segments = self._arrivals(max(self._held.room, _AT_ONCE))
                boxes = self._prepare(batch, segments)
                counters.null_keys += boxes.null_keys
                counters.nan_keys += boxes.nan_keys
        ready = self._ready
        assert ready is not None
        size = min(self._held.room, ready.left)
        self._clock.charge(rows=size)
        part = slice(ready.at * self._pieces, (ready.at + size) * self._pieces)
        boxes = ready.boxes
        asked = RelationBoxes(
            boxes.lows[part], boxes.highs[part], boxes.least[part], boxes.most[part], self._pieces
        )
        rows = ready.rows.slice(ready.at, size)
        first, stop = ready.first[part], ready.stop[part]
        self._held.put(at, rows, asked, first, stop, _cut(ready.segments, size))
        ready.at += size
        if not ready.left:
            self._ready = None
        self._account()

    def _prepare(self, batch: pa.RecordBatch, segments: list[Segment]) -> RelationBoxes:
        boxes = self._matching.boxes(batch)
        first, stop = self._snapshot.fences.ranges(boxes.lows, boxes.highs)
        self._ready = _Ready(batch, boxes, first, stop, deque(segments))
        return boxes

    def _passed(self, at: int) -> Iterator[pa.RecordBatch]:
        """Read the blocks of a step and join them with the rows held."""
        counters, circle = self._counters, self._circle
        block_bytes = self._snapshot.layout.block_bytes
        start, count = circle.span(at)
        with counters.timed("io"):
            self._snapshot.read(np.array([start]), np.array([count]), self._buffer)
        counters.seeks += 1
        counters.blocks_read += count
        self._clock.charge(blocks=count)
        leaves, blocks = circle.leaves(at)
        bases = (blocks - start) * block_bytes
        verified(self._snapshot, self._buffer, bases, blocks)
        asked = 0
        for begin, end in circle.runs(at):
            for questions in self._held.questions(begin, end, self._greatest, self._room):
                asked += questions.size
                places = bases[np.searchsorted(leaves, questions >> 32)]
                yield from self._answers.pairs(self._held.stream, questions, places, self._buffer)
        counters.misses += asked

    # --- What it holds --------------------------------------------------------------------------

    @property
    def _held_rows(self) -> int:
        return self._held.rows

    @property
    def _ready_rows(self) -> int:
        return 0 if self._ready is None else self._ready.left

    def _forget(self) -> None:
        self._held.clear()
        self._ready = None
        self._entered = False

    @property
    def shape(self) -> Shape | None:
        """The parameters that were chosen; None before the first row."""
        return self._shape if self._started else None

    def _facts(self) -> dict[str, Any]:
        shape, held = self._shape, self._held
        return {
            "algorithm": "MeshJoin: the relation is read in a circle",
            "parameters": {
                "step": f"{shape.blocks:,} blocks are read and {held.room:,} rows taken",
                "circle": f"{held.steps:,} steps; {held.steps * held.room:,} rows are held",
                "row": f"{self._row:.0f} bytes with what is needed to find it",
                "why": f"of all numbers of blocks per step this promises most: {shape.rate:,.0f} "
                "rows per second.",
            },
        }


def _cut(segments: deque[Segment], rows: int) -> list[Segment]:
    """Take the first rows from segments."""
    taken: list[Segment] = []
    while rows > 0:
        segment = segments.popleft()
        if segment.rows > rows:
            segments.appendleft(Segment(segment.rows - rows, segment.arrived))
            segment = Segment(rows, segment.arrived)
        taken.append(segment)
        rows -= segment.rows
    return taken


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
