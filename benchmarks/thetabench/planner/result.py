"""One line of ``planner.csv``: what one tactic did in one cell.

The columns of the other result files mean the same here, but ``tuples_per_s`` is by processor time
and there is no peak memory: all tactics of a cell share a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thetabench.result import Result, read_lines, write_lines

AUTO = "auto"


@dataclass(frozen=True)
class PlannerResult(Result):
    """What one tactic did in one cell, and what the planner had expected."""

    left_layout: str = ""
    """Structure and first column of the left window, as ``explain()`` says at the end."""
    right_layout: str = ""
    replans: int = 0
    """Moves to another layout, those before the clock started included."""
    estimate_ns: float = 0.0
    """Nanoseconds per row by ``explain()``, mean of both sides."""
    measured_ns: float = 0.0
    """The same work as measured: sort, probe, insert and merge seconds of ``metrics()``."""
    estimate_candidates: float = 0.0
    """Candidates per row by ``explain()``, mean of both sides."""
    plan_share: float = 0.0
    """Part of the time that went into planning; 0 where ``metrics()`` does not tell."""

    @property
    def layouts(self) -> tuple[str, str]:
        """The layouts of both sides."""
        return self.left_layout, self.right_layout


@dataclass(frozen=True)
class Choice:
    """A cell: what ``auto`` did and what the fastest tactic did, which may be ``auto``."""

    auto: PlannerResult
    best: PlannerResult

    @property
    def ratio(self) -> float:
        """The best tactic's rate over that of ``auto``: 1 at least."""
        return self.best.tuples_per_s / self.auto.tuples_per_s

    @property
    def same(self) -> bool:
        """Whether both have the same layouts, so that the ratio is the noise of the measurement."""
        return self.auto.layouts == self.best.layouts

    @property
    def estimate(self) -> float:
        """Estimated over measured cost of what ``auto`` chose."""
        return self.auto.estimate_ns / self.auto.measured_ns


def choices(results: Sequence[PlannerResult]) -> list[Choice]:
    """Cell by cell; cells that ``auto`` did not run in are left out."""
    cells: dict[tuple[str, int, int], list[PlannerResult]] = {}
    for result in results:
        if result.ran:
            cells.setdefault(result.cell, []).append(result)
    return [
        Choice(auto, max(found, key=lambda result: result.tuples_per_s))
        for found in cells.values()
        for auto in found
        if auto.contestant == AUTO
    ]


def write(path: Path, results: Sequence[PlannerResult]) -> None:
    """Write a result file; an older one of the same name is replaced."""
    write_lines(path, PlannerResult, results)


def read(path: Path) -> list[PlannerResult]:
    """Read a result file."""
    maker = "thetastream bench planner"
    return read_lines(path, PlannerResult, maker, "a file of the planner's benchmark")


def together(
    old: Sequence[PlannerResult], new: Sequence[PlannerResult], order: Sequence[str]
) -> list[PlannerResult]:
    """Old lines of cells without new ones, and the new lines, in the order of the workloads."""
    again = {result.cell for result in new}
    kept = [result for result in old if result.cell not in again and result.workload in order]
    return sorted(
        [*kept, *new], key=lambda found: (order.index(found.workload), found.window, found.batch)
    )
