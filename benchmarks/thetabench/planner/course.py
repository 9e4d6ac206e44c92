"""Cells of the planner's benchmark: every tactic over the same pushes, every answer compared.

The tactics of a cell take turns: each does the first part of the pushes, then each the second, so
that a slow minute of the machine hits everyone. Another one begins each time, as who begins finds
the rows in no cache; ``auto`` begins the first. A tactic that needs more than `SLOW` times as long
as the fastest so far is dropped in its first turn or before it, and not tried in larger windows.

A rate is rows by processor seconds, as one thread does all the work and other processes then
disturb less; it is that of the median turn. Merges are rare and large, so a turn is at least as
long as the longest interval between merges of sorted runs, a twelfth of the window.

All tactics must give the same answer, push by push, in number and checksum. In small windows a
nested loop answers the first pushes too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.contestant import Unavailable
from thetabench.digest import Digest, VerificationError, mix, verify
from thetabench.feed import Feed
from thetabench.figure import Contestant, Sizes
from thetabench.grid import GridCell
from thetabench.planner.trial import SLOW_BEFORE, WARM, Field, Pushing
from thetabench.planner.workloads import WORKLOADS, Columns, Made
from thetabench.race import Course, Say, Trial, Values
from thetastream._jit.compiling import warm
from thetastream.errors import PredicateError
from thetastream.side import Side

TURNS = 5
SCANNED = 1 << 14
"""Rows of a window that a nested loop is tried on, and that is checked by one."""
_PART = 12  # turns that replace a window
_LEAST = 1 << 15  # rows of a side in a turn
_FEWEST = 4  # pushes of a side in a turn
_MOST_PAIRS = 1 << 26  # of a cell
_CHECKED = 1 << 13  # fresh rows that are checked by a nested loop
_PIECE = 64
_FAMILIES = ("runs", "trees", "subwindows", "permuted", "ordered")


def pushes(cell: GridCell) -> int:
    """Timed pushes of one side in one turn."""
    rows = max(_LEAST, cell.window / _PART)
    rows = min(rows, _MOST_PAIRS / TURNS / len(Side) / WORKLOADS[cell.figure].rate)
    return max(_FEWEST, math.ceil(rows / cell.batch))


class PlannerCourse(Course[GridCell, Contestant]):
    """The rows and the tactics of the present cell, and what was too slow in smaller windows."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.turns = TURNS
        pa.set_cpu_count(1)
        warm("data", "boxes", "plan", "index", *(f"index.{family}" for family in _FAMILIES))
        self._slow: dict[tuple[str, int], set[str]] = {}

    def prepare(self, cell: GridCell) -> None:
        count = pushes(cell)
        rows = cell.window + (WARM + TURNS * count) * cell.batch
        self._made = WORKLOADS[cell.figure].made(cell.window, rows, self.sizes.seed)
        feed = self._made.feed(cell.window, cell.batch)
        slow = self._slow.setdefault((cell.figure, cell.batch), set())
        self._field = Field(cell.label, feed, count, slow)

    def enter(self, cell: GridCell, who: Contestant, say: Say) -> Pushing | None:
        """Fill the window of a tactic, unless it is known to be slow; None if it cannot serve."""
        if who.label in self._field.slow:
            raise Unavailable(SLOW_BEFORE)
        try:
            trial = Pushing(who, self._field)
        except PredicateError:
            return None
        trial.fill()
        return trial

    def order(self, trials: Sequence[Trial[Contestant]], turn: int) -> list[Trial[Contestant]]:
        first = (turn - 1) % len(trials)
        return [*trials[first:], *trials[:first]]

    def about(self, cell: GridCell, who: Contestant) -> Values:
        predicate = self._made.predicate
        return {"experiment": "planner", "window": cell.window, "predicate": predicate}

    def packages(self, cell: GridCell, who: Contestant) -> Sequence[str]:
        return ("pyarrow",)

    def check(self, cell: GridCell, trials: Sequence[Any]) -> None:
        first, *others = trials
        if cell.window <= SCANNED:
            checked = max(1, min(len(first.digests), _CHECKED // cell.batch))
            right = [truth(self._made, self._field.feed, push) for push in range(checked)]
            verify(first.name, first.digests[:checked], right)
        for trial in others:
            _agree(trial, first)
        self._field.trials.clear()  # so that their windows do not outlive the cell


def _agree(trial: Pushing, first: Pushing) -> None:
    """Raise unless two tactics gave the same answers."""
    for push, (own, right) in enumerate(zip(trial.digests, first.digests, strict=True)):
        if own != right:
            raise VerificationError(
                f"{trial.name} gave another answer than {first.who.label} in push {push}: "
                f"{own.matches:,} matches with checksum {own.checksum:016x}, not "
                f"{right.matches:,} with {right.checksum:016x}. No result was written for "
                "this cell."
            )


def truth(made: Made, feed: Feed, push: int) -> Digest:
    """The right answer of a push, by a nested loop."""
    side, start = feed.side(push), feed.start(push)
    seen = feed.filled + (push + 1) // len(Side) * feed.batch
    columns = {Side.LEFT: made.left, Side.RIGHT: made.right}
    stored = _cut(columns[side.other], seen - feed.query.window, seen)
    total = Digest(0, 0)
    for first in range(start, start + feed.batch, _PIECE):
        fresh = _cut(columns[side], first, min(first + _PIECE, start + feed.batch))
        rows = {name: values[:, None] for name, values in fresh.items()}
        pair = (rows, stored) if side is Side.LEFT else (stored, rows)
        at, ids = np.nonzero(made.holds(*pair))
        at, ids = at + first, ids + seen - feed.query.window
        one, other = (at, ids) if side is Side.LEFT else (ids, at)
        total += Digest(at.size, int(mix(one, other).sum(dtype=np.uint64)))
    return total


def _cut(columns: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in columns.items()}
