"""Plots of the Spark benchmark: ``python -m thetabench.spark.plots spark.csv``.

``spark-contestants``: rows per second of everyone on W1. ``spark-scaling``: ``theta_join`` over
window sizes and over numbers of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.contestant import optional
from thetabench.figure import Lines
from thetabench.spark.lines import read
from thetabench.spark.plan import COMPARED, HOME

_HOME, _OTHER = "#0072B2", "#999999"  # of Okabe and Ito, as in the other plots
_FORMATS = ("png", "svg")


def plot(lines: Lines, folder: Path, name: str = "spark") -> list[Path]:
    """Draw the lines into ``folder``; returns the files written."""
    ran = [line for line in lines if line.ran]
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    compared = [line for line in ran if line.figure in COMPARED]
    if compared:
        files += _drawn(folder / f"{name}-contestants", compared, _bars)
    parts = ("join", "windows", "partitions")
    scaled = [line for line in ran if line.contestant == HOME and line.figure in parts]
    if len(scaled) > 1:
        files += _drawn(folder / f"{name}-scaling", scaled, _scaling)
    return files


def _drawn(stem: Path, lines: Lines, draw: Callable[[Any, Lines], None]) -> list[Path]:
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    files = []
    with matplotlib.rc_context({"svg.hashsalt": "thetastream", "font.size": 9}):
        figure = figure_class(figsize=(8.0, 3.6), layout="constrained")
        draw(figure, lines)
        for kind in _FORMATS:
            path = stem.with_name(f"{stem.name}.{kind}")
            figure.savefig(path, dpi=150, metadata={"Date": None} if kind == "svg" else {})
            files.append(path)
    return files


def _bars(figure: Any, lines: Lines) -> None:
    """One panel per size of micro-batches, one bar per contestant, logarithmic."""
    batches = sorted({line.batch for line in lines})
    names = list(dict.fromkeys(line.contestant for line in lines))
    panels = figure.subplots(1, len(batches), sharex=True, squeeze=False)[0]
    for panel, batch in zip(panels, batches, strict=True):
        speeds = {line.contestant: line.tuples_per_s for line in lines if line.batch == batch}
        shown = [name for name in names if name in speeds][::-1]
        colours = [_HOME if name == HOME else _OTHER for name in shown]
        bars = panel.barh(shown, [speeds[name] for name in shown], color=colours)
        panel.bar_label(bars, [f"{speeds[name]:,.0f}" for name in shown], padding=3)
        panel.set_xscale("log")
        panel.margins(x=0.25)
        panel.set_xlabel("rows per second")
        panel.set_title(f"micro-batches of {batch:,} rows", fontsize=9)
    title = f"Spark, W1: band join, window {lines[0].window:,} rows per side"
    figure.suptitle(title, fontsize=10)


def _scaling(figure: Any, lines: Lines) -> None:
    """Points of the series' size of micro-batches: others have no series."""
    series = [line for line in lines if line.figure != "join"]
    batch = (series or lines)[0].batch
    main = [line for line in lines if line.figure == "join" and line.batch == batch]
    panels = figure.subplots(1, 2, sharey=True)
    windows, partitions = (
        [*main, *(line for line in series if line.figure == part)]
        for part in ("windows", "partitions")
    )
    _series(panels[0], windows, "window", 10, "rows per side in the window")
    _series(panels[1], partitions, "partitions", 2, "partitions")
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("rows per second")
    title = f"theta_join on W1, micro-batches of {batch:,} rows; bars: slowest, fastest"
    figure.suptitle(title, fontsize=10)


def _series(panel: Any, lines: Lines, column: str, base: int, label: str) -> None:
    own = sorted(lines, key=lambda line: (getattr(line, column), line.tuples_per_s))
    places = [getattr(line, column) for line in own]
    speeds = [line.tuples_per_s for line in own]
    spread = [
        [line.tuples_per_s - line.tuples_per_s_low for line in own],
        [line.tuples_per_s_high - line.tuples_per_s for line in own],
    ]
    panel.errorbar(places, speeds, yerr=spread, color=_HOME, marker="o", capsize=3)
    panel.set_xscale("log", base=base)
    panel.set_xticks(places, [f"{place:,}" for place in places])
    panel.minorticks_off()
    panel.set_xlabel(label)
    panel.grid(True, color="#dddddd", linewidth=0.6)


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    for path in plot(read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
