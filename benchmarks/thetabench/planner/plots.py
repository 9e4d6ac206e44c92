"""Plots of the planner's benchmark: ``python -m thetabench.planner.plots FILE``.

One is a map of all cells: how much faster the best tactic was than ``auto``, and which it was. The
other shows what was estimated over what was measured, for every tactic.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.contestant import optional
from thetabench.figure import power
from thetabench.planner.result import AUTO, Choice, PlannerResult, choices, read
from thetabench.plots import COLOURS

_MUST, _WORST = 1.25, 1.5  # of the colours
_DARK = 1.38  # ratios whose colour needs white text


def plot(results: Sequence[PlannerResult], folder: Path, name: str) -> list[Path]:
    """Draw the results into ``folder``; give the files written."""
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    folder.mkdir(parents=True, exist_ok=True)
    found = choices(results)
    if not found:
        return []
    rows = len({choice.auto.workload for choice in found})
    columns = len({_size(choice) for choice in found})
    sizes = {"": (2.6 + 1.0 * columns, 1.6 + 0.42 * rows), "-cost": (5.2, 4.4)}
    files = []
    for part, draw in (("", lambda panel: _map(panel, found)), ("-cost", _costs(results))):
        with matplotlib.rc_context({"font.size": 8}):
            figure = figure_class(figsize=sizes[part], layout="constrained")
            draw(figure.subplots())
            files.append(folder / f"{name}{part}.png")
            figure.savefig(files[-1], dpi=150)
    return files


def _size(choice: Choice) -> tuple[int, int]:
    return choice.auto.window, choice.auto.batch


def _map(panel: Any, found: Sequence[Choice]) -> None:
    workloads = list(dict.fromkeys(choice.auto.workload for choice in found))
    sizes = sorted({_size(choice) for choice in found})
    ratios = [[float("nan")] * len(sizes) for _ in workloads]
    for choice in found:
        row, column = workloads.index(choice.auto.workload), sizes.index(_size(choice))
        ratios[row][column] = choice.ratio
        name = "" if choice.best.contestant == AUTO else f"\n{choice.best.contestant}"
        weight = "bold" if choice.ratio > _MUST else "normal"
        text = f"{choice.ratio:.2f}{name}"
        colour = "white" if choice.ratio > _DARK else "black"
        place = {"ha": "center", "va": "center", "fontsize": 5.5}
        panel.text(column, row, text, weight=weight, color=colour, **place)
    panel.imshow(ratios, aspect="auto", cmap="OrRd", vmin=1.0, vmax=_WORST)
    panel.set_yticks(range(len(workloads)), workloads)
    labels = [f"{_math(window)}\n{_math(batch)}" for window, batch in sizes]
    panel.set_xticks(range(len(sizes)), labels)
    panel.set_xlabel("window, batch")
    panel.set_title("best tactic's rate over that of auto, and the best tactic", fontsize=9)


def _costs(results: Sequence[PlannerResult]) -> Any:
    def draw(panel: Any) -> None:
        ran = [result for result in results if result.ran]
        ends = [result.measured_ns for result in ran] + [result.estimate_ns for result in ran]
        line = [min(ends), max(ends)]
        panel.plot(line, line, color="#999999", linewidth=0.8)
        families = list(dict.fromkeys(r.left_layout.partition(":")[0] for r in ran))
        for number, family in enumerate(families):
            own = [r for r in ran if r.left_layout.partition(":")[0] == family]
            panel.scatter(
                [result.measured_ns for result in own],
                [result.estimate_ns for result in own],
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
        panel.legend(frameon=False, fontsize=6)

    return draw


def _math(number: int) -> str:
    """Write powers of two as such.

    >>> _math(1024)
    '2$^{10}$'
    """
    base, _, exponent = power(number).partition("^")
    return f"{base}$^{{{exponent}}}$" if exponent else base


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    for path in plot(read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
