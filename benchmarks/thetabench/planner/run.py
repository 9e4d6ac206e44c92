"""Runs cells: every tactic over the same pushes, in turns, every answer compared.

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

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import thetastream as ts
from thetabench.contestant import PHASES
from thetabench.digest import Digest, VerificationError, mix, verify
from thetabench.feed import Feed
from thetabench.machine import provenance
from thetabench.planner.result import AUTO, PlannerResult
from thetabench.planner.trial import WARM, WORK, Trial
from thetabench.planner.workloads import Columns, Made, Workload, chosen
from thetastream._jit.compiling import warm
from thetastream.errors import DataError, PredicateError
from thetastream.side import Side

WINDOWS = (1 << 14, 1 << 17, 1 << 20)
BATCHES = (1 << 8, 1 << 11, 1 << 13, 1 << 15)
QUICK = ((1 << 17, 1 << 13),)
TURNS = 5
SLOW = 4.0
_PART = 12  # turns that replace a window
_LEAST = 1 << 15  # rows of a side in a turn
_FEWEST = 4  # pushes of a side in a turn
_MOST_PAIRS = 1 << 26  # of a cell
_SPLIT = 4  # batches that a window has at least
_GRACE = 0.25  # seconds by which everyone may be slower
_SCANNED = 1 << 14  # rows of a window that a nested loop is tried on, and that are checked by one
_CHECKED = 1 << 13  # fresh rows that are
_PIECE = 64
_VARIANTS = {
    1: ("ordered/b-tree", "panjoin/bi-sort"),
    2: ("ordered/sorted-runs", "ordered/zoned-runs", "spo-join/po-join"),
}
_FAMILIES = ("runs", "trees", "subwindows", "permuted", "ordered")
_SLOW_NOW = f"more than {SLOW:g} times slower than the fastest"
_SLOW_BEFORE = f"{_SLOW_NOW} in a smaller window"
_PACKAGES = ("thetastream", "numba", "numpy", "pyarrow")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One workload at one window and one batch size."""

    workload: Workload
    window: int
    batch: int

    @property
    def label(self) -> str:
        """A short name for progress lines and messages."""
        return f"{self.workload.name} window {self.window:,} batch {self.batch:,}"

    @property
    def pushes(self) -> int:
        """Timed pushes of one side in one turn."""
        rows = max(_LEAST, self.window / _PART)
        rows = min(rows, _MOST_PAIRS / TURNS / len(Side) / self.workload.rate)
        return max(_FEWEST, math.ceil(rows / self.batch))

    def made(self) -> Made:
        """The rows of all pushes."""
        rows = (WARM + TURNS * self.pushes) * self.batch
        return self.workload.made(self.window, self.window + rows)


def cells(
    names: Sequence[str] = (),
    windows: Sequence[int] = (),
    batches: Sequence[int] = (),
    *,
    quick: bool = False,
) -> list[Cell]:
    """The cells of a grid: all, or those asked for; a batch is at most a quarter of its window."""
    sizes = [
        (window, batch)
        for window in windows or WINDOWS
        for batch in batches or BATCHES
        if batch <= window // _SPLIT
    ]
    if quick and not windows and not batches:
        sizes = list(QUICK)
    if not sizes:
        raise DataError(
            f"there is no cell with windows {list(windows)} and batches {list(batches)}: a window "
            f"has {_SPLIT} batches at least. Use larger windows or smaller batches."
        )
    return [Cell(workload, *size) for workload in chosen(names) for size in sizes]


def contestants(predicate: str, window: int) -> list[str]:
    """Tactics to try, ``auto`` first: all, and some structures that their names leave open."""
    terms = len(ts.Predicate.parse(predicate).terms)
    named = [name for name in ts.tactics() if name != "nested-loop" or window <= _SCANNED]
    return [*named, *_VARIANTS.get(terms, ())]


def run(
    grid: Sequence[Cell], tactics: Sequence[str] = (), *, progress: Progress = lambda step: None
) -> Iterator[list[PlannerResult]]:
    """Yield the results of one cell after the other; ``tactics`` are tried beside ``auto``."""
    progress("compiling")
    pa.set_cpu_count(1)
    warm("data", "boxes", "plan", "index", *(f"index.{family}" for family in _FAMILIES))
    slow: dict[tuple[str, int], set[str]] = {}
    for cell in grid:
        race = _Race(cell, tactics, slow.setdefault((cell.workload.name, cell.batch), set()))
        yield race.results(progress)
        gc.collect()


class _Race:
    """All tactics of a cell; those that turn out to be too slow are added to ``slow``."""

    def __init__(self, cell: Cell, tactics: Sequence[str], slow: set[str]) -> None:
        self._cell = cell
        self._made = cell.made()
        self._feed = self._made.feed(cell.window, cell.batch)
        self._slow = slow
        self._trials: list[Trial] = []
        self._absent: dict[str, str] = {}
        wanted = contestants(self._made.predicate, cell.window)
        self._tactics = list(dict.fromkeys([AUTO, *tactics])) if tactics else wanted

    def results(self, progress: Progress) -> list[PlannerResult]:
        """Run, verify, and only then say what was measured."""
        label, trials = self._cell.label, self._trials
        for tactic in self._tactics:
            progress(f"{label}: filling {tactic}")
            self._enter(tactic)
        for turn in range(TURNS):
            first = turn % len(trials)
            for trial in trials[first:] + trials[:first]:
                progress(f"{trial.name}: turn {turn + 1}")
                done = [other.cpu for other in trials if other.rates]
                limit = math.inf if turn or not done else _limit(done)
                if not trial.turn(len(Side) * self._cell.pushes, limit):
                    self._drop(trial.tactic)
            fastest = max(trial.rates[0] for trial in trials)
            for trial in list(trials):
                if trial.rates[0] < fastest / SLOW and trial.tactic != AUTO:
                    self._drop(trial.tactic)
        progress(f"{label}: checking answers")
        self._verify(trials)
        absent = [
            PlannerResult(**self._about(tactic), status="not run", reason=reason)
            for tactic, reason in self._absent.items()
        ]
        return [*map(self._line, trials), *absent]

    def _enter(self, tactic: str) -> None:
        """Fill the window of a tactic, unless it is known to be slow, or cannot serve."""
        if tactic in self._slow:
            self._absent[tactic] = _SLOW_BEFORE
            return
        try:
            trial = Trial(tactic, self._feed, self._cell.label)
        except PredicateError:
            return
        self._trials.append(trial)
        others = [other.warming for other in self._trials[:-1]]
        if not trial.fill(_limit(others) if others else math.inf):
            self._drop(tactic)

    def _drop(self, tactic: str) -> None:
        self._trials[:] = [trial for trial in self._trials if trial.tactic != tactic]
        self._slow.add(tactic)
        self._absent[tactic] = _SLOW_NOW

    def _verify(self, trials: Sequence[Trial]) -> None:
        right = trials[0].digests
        if self._cell.window <= _SCANNED:
            checked = max(1, min(len(right), _CHECKED // self._cell.batch))
            found = [truth(self._made, self._feed, push) for push in range(checked)]
            verify(trials[0].name, trials[0].digests[:checked], found)
        for trial in trials[1:]:
            _agree(trial, trials[0])

    # --- Numbers --------------------------------------------------------------------------------

    def _line(self, trial: Trial) -> PlannerResult:
        per_tuple = 1e9 * trial.cpu / trial.tuples
        phases: dict[str, Any] = {f"ns_{name}": trial.phase(name) for name in PHASES}
        total = Digest(0, 0)
        for found in trial.digests:
            total += found
        return PlannerResult(
            **self._about(trial.tactic),
            **trial.plan(),
            **phases,
            status="ok",
            tuples_per_s=median(trial.rates),
            tuples_per_s_low=min(trial.rates),
            tuples_per_s_high=max(trial.rates),
            repetitions=len(trial.rates),
            ns_per_tuple=per_tuple,
            ns_other=max(per_tuple - sum(phases.values()), 0.0),
            p50_s=float(np.quantile(trial.times, 0.5)),
            p99_s=float(np.quantile(trial.times, 0.99)),
            max_s=max(trial.times),
            index_bytes=trial.nbytes,
            pushes=len(trial.times),
            rows=trial.tuples,
            seconds=trial.seconds,
            cpu_share=trial.cpu / trial.seconds,
            checked_pushes=len(trial.digests),
            matches=total.matches,
            checksum=f"{total.checksum:016x}",
            verified=True,
            measured_ns=sum(trial.phase(name) for name in WORK),
            plan_share=trial.phase("plan") / per_tuple,
        )

    def _about(self, tactic: str) -> dict[str, Any]:
        return {
            "experiment": "planner",
            "workload": self._cell.workload.name,
            "predicate": self._made.predicate,
            "window": self._cell.window,
            "batch": self._cell.batch,
            "contestant": tactic,
            **provenance(_PACKAGES),
        }


def _limit(seconds: Sequence[float]) -> float:
    """How long a tactic may take, when others took so long."""
    return SLOW * min(seconds) + _GRACE


def _agree(trial: Trial, first: Trial) -> None:
    """Raise unless two tactics gave the same answers."""
    for push, (found, expected) in enumerate(zip(trial.digests, first.digests, strict=True)):
        if found != expected:
            raise VerificationError(
                f"{trial.name} gave another answer than {first.tactic} in push {push}: "
                f"{found.matches:,} matches with checksum {found.checksum:016x}, not "
                f"{expected.matches:,} with {expected.checksum:016x}. No result was written for "
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
