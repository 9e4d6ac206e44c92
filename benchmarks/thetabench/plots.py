"""Plots of a paper's figures: ``python -m thetabench.plots NAME [FILE] [--output FOLDER]``.

There is one kind of plot per kind of figure: a line per contestant over the figure's axis, bars for
contestants at a single place, stacked bars for measures that add up, or the paper's own panel. The
lines of a grid's workload have a panel per window. Colours are those of Okabe and Ito, which
colour-blind readers can tell apart; every line has its own marker too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.contestant import optional
from thetabench.figure import Figure, Lines, power, tick
from thetabench.paper import Paper
from thetabench.papers import paper as paper_of
from thetabench.score import only

COLOURS = (
    "#000000",
    "#E69F00",
    "#D55E00",
    "#56B4E9",
    "#0072B2",
    "#009E73",
    "#CC79A7",
    "#999999",
)
MARKERS = "osDv^<>P"
Draw = Callable[[Any], None]
_LETTERS = 50  # of the names of bars, above which they are written aslant
_WIDE = 30  # a spread of values above which the vertical axis is logarithmic


def plot(paper: Paper, results: Lines, folder: Path, name: str) -> list[Path]:
    """Draw every figure that has results into ``folder``; returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    ran = [result for result in results if result.ran]
    files = []
    for figure in paper.figures.values():
        own = [result for result in ran if result.figure == figure.name]
        if own and figure.measures:
            number = f"Figure {figure.name}" if figure.name[0].isdigit() else figure.name
            title = f"{number}: {figure.about}{paper.where(own)}"
            stem = f"{name}-{figure.name.lower()}"
            files += _drawn(paper, folder, stem, _panels(paper, figure, own), title)
    for part, draw in paper.panels.items():
        if ran and part not in paper.figures:
            stem = f"{name}-{part}" if part else name
            files += _drawn(paper, folder, stem, [("", _with(draw, ran))])
    return files


def _drawn(
    paper: Paper, folder: Path, stem: str, shown: Sequence[tuple[str, Draw]], title: str = ""
) -> list[Path]:
    """Draw panels beside each other; those with titles share the vertical axis."""
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    shared = any(name for name, _ in shown)
    with matplotlib.rc_context({"font.size": 9, "svg.hashsalt": "thetastream"}):
        drawing = figure_class(figsize=(2.6 + 3.6 * len(shown), 3.6), layout="constrained")
        panels = drawing.subplots(1, len(shown), squeeze=False, sharey=shared)[0]
        for panel, (name, draw) in zip(panels, shown, strict=True):
            draw(panel)
            panel.grid(True, axis="y", color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
            if shared:
                panel.set_title(_math(name), fontsize=9)
                panel.label_outer()
        handles, labels = legend(panels)
        drawing.legend(handles, labels, loc="outside right center", frameon=False)
        drawing.suptitle(_math(title), fontsize=10)
        files = [folder / f"{stem}.{kind}" for kind in paper.formats]
        for file in files:  # without a date, so that the same results make the same file
            drawing.savefig(file, dpi=150, metadata={"Date": None} if "svg" in file.name else {})
    return files


def _with(draw: Callable[..., None], *values: Any) -> Draw:
    return lambda panel: draw(panel, *values)


def _panels(paper: Paper, figure: Figure[Any], lines: Lines) -> list[tuple[str, Draw]]:
    """What to draw, panel by panel, under which titles."""
    if figure.name in paper.panels:
        return [("", _with(paper.panels[figure.name], lines))]
    if figure.stacked:
        return [("", _with(_stacks, paper, figure, lines))]
    few = len({line.place for line in lines}) == 1
    draw = _bars if few else _lines
    parts = {"": lines}
    if split := figure.split:
        values = sorted({getattr(line, split) for line in lines})
        parts = {f"{split} {power(v)}": only(**{split: v})(lines) for v in values}
    return [
        (title, _with(draw, paper, figure, column, own, lines))
        for column in figure.measures
        for title, own in parts.items()
    ]


def _lines(
    panel: Any, paper: Paper, figure: Figure[Any], column: str, lines: Lines, beside: Lines
) -> None:
    """A line per contestant; colours and scales are those of all panels ``beside`` this one."""
    measure = paper.measures[column]
    shown = {line.contestant for line in beside if getattr(line, column)}
    for number, label in enumerate(dict.fromkeys(line.contestant for line in beside)):
        own = [line for line in lines if line.contestant == label]
        if not own or label not in shown:
            continue  # a measure that this contestant does not have
        points = sorted((line.place, getattr(line, column) * measure.factor) for line in own)
        panel.plot(
            [place for place, _ in points],
            [value for _, value in points],
            label=_math(label),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="-" if number < len(COLOURS) else "--",
        )
    places = {line.place: tick(figure, line) for line in beside}
    if figure.logarithmic and min(places) > 0:
        panel.set_xscale("log", base=2)
    panel.set_xticks(list(places), [_math(text) for text in places.values()])
    panel.minorticks_off()
    panel.set_xlabel(figure.axis)
    panel.set_ylabel(measure.title)
    values = [getattr(line, column) for line in beside if line.contestant in shown]
    if values and max(values) > _WIDE * min(values) > 0:
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)


def _bars(
    panel: Any, paper: Paper, figure: Figure[Any], column: str, lines: Lines, beside: Lines
) -> None:
    measure = paper.measures[column]
    labels = [_math(line.contestant) for line in lines]
    values = [getattr(line, column) * measure.factor for line in lines]
    bars = panel.bar(labels, values, color=[COLOURS[n % len(COLOURS)] for n in range(len(labels))])
    panel.bar_label(bars, [measure.text(getattr(line, column)) for line in lines])
    if sum(map(len, labels)) > _LETTERS:
        panel.set_xticks(range(len(labels)), labels, rotation=25, ha="right")
    panel.set_ylabel(measure.title)


def _stacks(panel: Any, paper: Paper, figure: Figure[Any], results: Lines) -> None:
    labels = [_math(f"{result.contestant}\n{power(result.place)}") for result in results]
    below = [0.0] * len(results)
    for number, column in enumerate(figure.measures):
        values = [getattr(result, column) for result in results]
        colour = COLOURS[1 + number % (len(COLOURS) - 1)]
        panel.bar(labels, values, bottom=below, color=colour, label=paper.measures[column].title)
        below = [low + value for low, value in zip(below, values, strict=True)]
    panel.tick_params(axis="x", labelsize=7)
    panel.set_ylabel("ns per tuple")


def _math(text: str) -> str:
    """Write powers of two as such.

    >>> _math("w = 2^20")
    'w = 2$^{20}$'
    """
    return re.sub(r"2\^(-?\d+)", r"2$^{\1}$", text)


def power_text(number: float) -> str:
    """Write a number, powers of two as such.

    >>> power_text(1024)
    '2$^{10}$'
    """
    return _math(power(number))


def legend(panels: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Handles and labels of all panels, each label once."""
    once: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            once.setdefault(label, handle)
    return list(once.values()), list(once)


def main(
    name: Annotated[str, typer.Argument(help="A paper, as in `thetastream bench --list`.")],
    file: Annotated[Path | None, typer.Argument(help="A result file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    paper, file = paper_of(name), file or Path(f"benchmarks/results/{name}.csv")
    for path in plot(paper, paper.read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
