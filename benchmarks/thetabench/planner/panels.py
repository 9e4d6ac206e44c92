"""Plots of the planner's benchmark, each of all cells.

One is a map: how much faster the best tactic was than ``auto``, and which it was. The other shows
what was estimated over what was measured, for every tactic.
"""

from __future__ import annotations

from typing import Any

from thetabench.figure import Lines
from thetabench.planner.choice import choices
from thetabench.planner.trial import AUTO
from thetabench.plots import COLOURS, power_text

_MUST, _WORST = 1.25, 1.5  # of the colours
_DARK = 1.38  # ratios whose colour needs white text


def draw_map(panel: Any, lines: Lines) -> None:
    """The ratio and the best tactic of every cell."""
    cells = {(c.auto.figure, (c.auto.window, int(c.auto.place))): c for c in choices(lines)}
    workloads = list(dict.fromkeys(workload for workload, _ in cells))
    sizes = sorted({size for _, size in cells})
    panel.figure.set_size_inches(2.6 + len(sizes), 1.6 + 0.42 * len(workloads))
    ratios = [[float("nan")] * len(sizes) for _ in workloads]
    for (workload, size), choice in cells.items():
        place, ratio = (sizes.index(size), workloads.index(workload)), choice.ratio
        ratios[place[1]][place[0]] = ratio
        name = "" if choice.best.contestant == AUTO else f"\n{choice.best.contestant}"
        panel.text(
            *place,
            f"{ratio:.2f}{name}",
            weight="bold" if ratio > _MUST else "normal",
            color="white" if ratio > _DARK else "black",
            ha="center",
            va="center",
            fontsize=5.5,
        )
    colours = {"cmap": "OrRd", "vmin": 1.0, "vmax": _WORST}
    panel.imshow(ratios, aspect="auto", zorder=1, **colours)  # above the lines of the grid
    panel.set_yticks(range(len(workloads)), workloads)
    labels = [f"{power_text(window)}\n{power_text(batch)}" for window, batch in sizes]
    panel.set_xticks(range(len(sizes)), labels)
    panel.set_xlabel("window, batch")
    panel.set_title("best tactic's rate over that of auto, and the best tactic", fontsize=9)


def draw_costs(panel: Any, lines: Lines) -> None:
    """Estimated over measured cost, by family of layouts."""
    ends = [line.measured_ns for line in lines] + [line.estimate_ns for line in lines]
    panel.plot([min(ends), max(ends)], [min(ends), max(ends)], color="#999999", linewidth=0.8)
    families: dict[str, list[Any]] = {}
    for line in lines:
        families.setdefault(line.left_layout.partition(":")[0], []).append(line)
    for number, (family, own) in enumerate(families.items()):
        panel.scatter(
            [line.measured_ns for line in own],
            [line.estimate_ns for line in own],
            label=family,
            s=9,
            marker="os^v"[number // len(COLOURS) % 4],
            color=COLOURS[number % len(COLOURS)],
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("measured ns per row")
    panel.set_ylabel("estimated ns per row")
    panel.set_title("what a layout costs", fontsize=9)
