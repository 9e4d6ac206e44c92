"""Plots of a result file: ``python -m thetastream.bench.pim.plots benchmarks/results/pim.csv``.

One picture per figure: its measures over its axis, one line per contestant. Measures that add up
are stacked bars; contestants at a single place are bars too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetastream.bench.contestant import optional
from thetastream.bench.pim.figures import FIGURES
from thetastream.bench.pim.measure import MEASURES
from thetastream.bench.pim.plan import Figure, power
from thetastream.bench.pim.result import PimResult, read
from thetastream.bench.plots import COLOURS, MARKERS, legend

__all__ = ["plot"]

_WIDE = 30  # a spread of values above which the vertical axis is logarithmic


def plot(results: Sequence[PimResult], folder: Path, name: str = "pim") -> list[Path]:
    """Draw every figure that has results into ``folder``; give the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for figure in FIGURES.values():
        own = [result for result in results if result.figure == figure.name and result.ran]
        if own:
            files.append(_drawn(folder / f"{name}-{figure.name}.png", figure, own))
    return files


def _drawn(path: Path, figure: Figure, results: Sequence[PimResult]) -> Path:
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    shown = _panels(figure, results)
    with matplotlib.rc_context({"font.size": 9}):
        drawing = figure_class(figsize=(2.6 + 3.6 * len(shown), 3.6), layout="constrained")
        panels = drawing.subplots(1, len(shown), squeeze=False)[0]
        for panel, draw in zip(panels, shown, strict=True):
            draw(panel)
            panel.grid(True, axis="y", color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
        handles, labels = legend(panels)
        drawing.legend(handles, labels, loc="outside right center", frameon=False)
        drawing.suptitle(_math(_title(figure, results)), fontsize=10)
        drawing.savefig(path, dpi=150)
    return path


def _title(figure: Figure, results: Sequence[PimResult]) -> str:
    windows = {result.window for result in results}
    where = f", w = {power(windows.pop())}" if len(windows) == 1 else ""
    number = f"Figure {figure.name}" if figure.name[0].isdigit() else figure.name
    return f"{number}: {figure.about}{where}"


def _panels(figure: Figure, results: Sequence[PimResult]) -> list[Callable[[Any], None]]:
    """What to draw, panel by panel."""
    if figure.name == "cost":
        return [lambda panel: _scatter(panel, results)]
    if figure.stacked:
        return [lambda panel: _stacks(panel, figure, results)]
    few = len({result.place for result in results}) == 1
    return [
        lambda panel, column=column: (  # type: ignore[misc]
            _bars(panel, column, results) if few else _lines(panel, figure, column, results)
        )
        for column in figure.measures
    ]


def _lines(panel: Any, figure: Figure, column: str, results: Sequence[PimResult]) -> None:
    measure = MEASURES[column]
    for number, label in enumerate(dict.fromkeys(result.contestant for result in results)):
        points = sorted(
            (r.place, getattr(r, column) * measure.factor) for r in results if r.contestant == label
        )
        panel.plot(
            [place for place, _ in points],
            [value for _, value in points],
            label=_math(label),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="-" if number < len(COLOURS) else "--",
        )
    places = {result.place: _tick(figure, result) for result in results}
    if figure.logarithmic and min(places) > 0:
        panel.set_xscale("log", base=2)
    panel.set_xticks(list(places), [_math(text) for text in places.values()])
    panel.minorticks_off()
    panel.set_xlabel(figure.axis)
    panel.set_ylabel(measure.title)
    values = [value for r in results if (value := getattr(r, column)) > 0]
    if values and max(values) > _WIDE * min(values):
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)


def _bars(panel: Any, column: str, results: Sequence[PimResult]) -> None:
    measure = MEASURES[column]
    labels = [_math(result.contestant) for result in results]
    values = [getattr(result, column) * measure.factor for result in results]
    bars = panel.bar(labels, values, color=[COLOURS[n % len(COLOURS)] for n in range(len(labels))])
    panel.bar_label(bars, [measure.text(getattr(result, column)) for result in results])
    panel.set_ylabel(measure.title)


def _stacks(panel: Any, figure: Figure, results: Sequence[PimResult]) -> None:
    labels = [_math(f"{result.contestant}\n{power(result.place)}") for result in results]
    below = [0.0] * len(results)
    for number, column in enumerate(figure.measures):
        values = [getattr(result, column) for result in results]
        colour = COLOURS[1 + number % (len(COLOURS) - 1)]
        panel.bar(labels, values, bottom=below, color=colour, label=MEASURES[column].title)
        below = [low + value for low, value in zip(below, values, strict=True)]
    panel.tick_params(axis="x", labelsize=7)
    panel.set_ylabel("ns per tuple")


def _scatter(panel: Any, results: Sequence[PimResult]) -> None:
    """Predicted over measured cost, one marker per structure, one point per window."""
    plain = [result for result in results if not result.ns_search]
    for number, name in enumerate(dict.fromkeys(result.structure for result in plain)):
        own = [result for result in plain if result.structure == name]
        panel.plot(
            [result.ns_per_tuple for result in own],
            [result.predicted_ns for result in own],
            label=name,
            color=COLOURS[number],
            marker=MARKERS[number],
        )
    ends = [min(r.ns_per_tuple for r in plain), max(r.ns_per_tuple for r in plain)]
    panel.plot(ends, ends, color="#bbbbbb", linestyle=":", label="exact")
    panel.set_xlabel("measured ns per tuple")
    panel.set_ylabel("predicted ns per tuple")


def _tick(figure: Figure, result: PimResult) -> str:
    return result.distribution if figure.axis == "distribution" else power(result.place)


def _math(text: str) -> str:
    """Write powers of two as such.

    >>> _math("w = 2^20")
    'w = 2$^{20}$'
    """
    return re.sub(r"2\^(-?\d+)", r"2$^{\1}$", text)


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    for path in plot(read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
