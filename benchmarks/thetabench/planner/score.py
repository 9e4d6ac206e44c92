"""What the planner must reach, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean, median

from thetabench.planner.result import Choice, PlannerResult, choices
from thetabench.score import Score


def scores(results: Sequence[PlannerResult]) -> list[Score]:
    """The measures of a result file, in the order of the requirements."""
    found = choices(results)
    if not found:
        return []
    return [*_chosen(found), _planning(found), _estimated(found)]


def _chosen(found: Sequence[Choice]) -> list[Score]:
    measure = "best tactic's rate over that of auto"
    worst = max(found, key=lambda choice: choice.ratio)
    other = [choice.ratio for choice in found if not choice.same]
    remark = f"{len(found)} cells; another layout than the best in {len(other)}"
    if other:
        remark += f", geometric mean of those {geometric_mean(other):.3g}"
    cell = f"{worst.auto.workload}, window {worst.auto.window:,}, batch {worst.auto.batch:,}"
    mean = geometric_mean([choice.ratio for choice in found])
    return [
        Score(f"{measure}, worst cell", worst.ratio, "", 1.25, 1.10, more=False, remark=cell),
        Score(f"{measure}, geometric mean", mean, "", 1.07, 1.03, more=False, remark=remark),
    ]


def _planning(found: Sequence[Choice]) -> Score:
    """The mean over cells; nothing where the join does not tell what planning takes."""
    shares = [100 * choice.auto.plan_share for choice in found]
    mean = sum(shares) / len(shares)
    return Score(
        "time lost to planning, share of a push",
        mean or None,
        "%",
        2.0,
        1.0,
        more=False,
        remark=f"mean over cells; largest {max(shares):.3g} %" if mean else "",
    )


def _estimated(found: Sequence[Choice]) -> Score:
    """A factor in either direction counts the same."""
    factors = [choice.estimate for choice in found]
    off = median(max(factor, 1 / factor) for factor in factors)
    remark = f"estimate over measured: {min(factors):.2g} to {max(factors):.2g}, " + (
        f"median {median(factors):.2g}"
    )
    measure = "estimate and measured cost apart, median over cells"
    return Score(measure, off, "×", 1.5, 1.2, more=False, remark=remark)
