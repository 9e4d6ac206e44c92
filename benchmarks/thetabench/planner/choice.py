"""What ``auto`` chose, beside the best tactic: the scores and the tables of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, geometric_mean, median

from thetabench.figure import Lines, power
from thetabench.grid import by_cell, cell_label
from thetabench.line import Line
from thetabench.planner.trial import AUTO
from thetabench.score import Score
from thetabench.tables import row


@dataclass(frozen=True)
class Choice:
    """A cell: what ``auto`` did and what the fastest tactic did, which may be ``auto``."""

    auto: Line
    best: Line

    @property
    def ratio(self) -> float:
        """The best tactic's rate over that of ``auto``: 1 at least."""
        return float(self.best.tuples_per_s / self.auto.tuples_per_s)

    @property
    def same(self) -> bool:
        """Whether both have the same layouts, so that the ratio is the noise of the measurement."""
        return layouts(self.auto) == layouts(self.best)

    @property
    def estimate(self) -> float:
        """Estimated over measured cost of what ``auto`` chose."""
        return float(self.auto.estimate_ns / self.auto.measured_ns)


def layouts(line: Line) -> tuple[str, str]:
    """The layouts of both sides."""
    return line.left_layout, line.right_layout


def choices(lines: Lines) -> list[Choice]:
    """Cell by cell; cells that ``auto`` did not run in are left out."""
    ran = [line for line in lines if line.ran]
    return [
        Choice(auto, max(own, key=lambda line: line.tuples_per_s))
        for own in by_cell(ran).values()
        for auto in own
        if auto.contestant == AUTO
    ]


def scores(lines: Lines) -> list[Score]:
    """The measures of a result file, in the order of the requirements."""
    cells = choices(lines)
    if not cells:
        return []
    rate = "best tactic's rate over that of auto"
    worst = max(cells, key=lambda choice: choice.ratio)
    auto = worst.auto
    where = f"{auto.figure}, window {auto.window:,}, batch {auto.place:,.0f}"
    other = [choice.ratio for choice in cells if not choice.same]
    remark = f"{len(cells)} cells; another layout than the best in {len(other)}"
    if other:
        remark += f", geometric mean of those {geometric_mean(other):.3g}"
    mean = geometric_mean([choice.ratio for choice in cells])
    shares = [100 * choice.auto.plan_share for choice in cells]
    factors = [choice.estimate for choice in cells]
    off = median(max(factor, 1 / factor) for factor in factors)  # the same in either direction
    spread = f"{min(factors):.2g} to {max(factors):.2g}, median {median(factors):.2g}"
    return [
        Score(f"{rate}, worst cell", worst.ratio, "", 1.25, 1.10, False, where),
        Score(f"{rate}, geometric mean", mean, "", 1.07, 1.03, False, remark),
        Score("time lost to planning, share of a push", fmean(shares) or None, "%", 2.0, 1.0,
              False, f"mean over cells; largest {max(shares):.3g} %" if any(shares) else ""),
        Score("estimate and measured cost apart, median over cells", off, "×", 1.5, 1.2,
              False, f"estimate over measured: {spread}"),
    ]  # fmt: skip


# --- What is shown -------------------------------------------------------------------------------


def table(lines: Lines) -> str:
    """A row per cell."""
    head = ["workload", "window", "batch", "best tactic", "", "auto", "", "best / auto"]
    head += ["auto: estimated ns", "measured ns"]
    rows = [row(head), "|---|--:|--:|---|--:|---|--:|--:|--:|--:|"]
    for choice in choices(lines):
        auto, best, ratio = choice.auto, choice.best, f"{choice.ratio:.2f}"
        structures = dict.fromkeys(layout.partition(":")[0] for layout in layouts(auto))
        rows.append(row([
            auto.figure, power(auto.window), power(auto.place),
            best.contestant, f"{best.tuples_per_s / 1e6:.3g}",
            ", ".join(structures), f"{auto.tuples_per_s / 1e6:.3g}",
            ratio if choice.same else f"**{ratio}**",
            f"{auto.estimate_ns:.0f}", f"{auto.measured_ns:.0f}",
        ]))  # fmt: skip
    note = "Million rows per second. **Bold**: another layout than the best."
    return "\n".join([*rows, "", note])


def note(lines: Lines) -> str:
    """How much was measured, and how much of it on a busy machine."""
    ran = [line for line in lines if line.ran]
    return (
        f"{len(choices(lines))} cells, {len(ran)} measurements; during "
        f"{sum(line.busy for line in ran)} of them the machine was busy with other work. "
    )


def told(lines: Lines) -> str:
    """A cell in a line: ``auto`` beside the others, fastest first."""
    (choice,), (cell,) = choices(lines), by_cell(lines)
    ran = sorted((line for line in lines if line.ran), key=lambda line: -line.tuples_per_s)
    speeds = ", ".join(f"{line.contestant} {line.tuples_per_s / 1e6:.3g}" for line in ran)
    return (
        f"{cell_label(*cell)}: best / auto {choice.ratio:.2f}; M rows/s: {speeds}; answers verified"
    )
