"""Plots of the Spark benchmark: ``python -m thetabench.spark.plots spark.csv``.

``spark-contestants``: rows per second of everyone on W1. ``spark-scaling``: ``theta_join`` over
window sizes and over numbers of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.contestant import optional
from thetabench.spark.plan import HOME
from thetabench.spark.result import SparkResult, read

_HOME, _OTHER = "#0072B2", "#999999"  # of Okabe and Ito, as in the other plots
_FORMATS = ("png", "svg")


def plot(results: Sequence[SparkResult], folder: Path, name: str = "spark") -> list[Path]:
    """Draw the results into ``folder``; give the files written."""
    ran = [result for result in results if result.ran]
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    compared = [r for r in ran if r.part in ("join", "bucketed", "empty")]
    if compared:
        files += _drawn(folder / f"{name}-contestants", lambda figure: _bars(figure, compared))
    lines = [r for r in ran if r.contestant == HOME and r.part in ("join", "windows", "partitions")]
    if len(lines) > 1:
        files += _drawn(folder / f"{name}-scaling", lambda figure: _scaling(figure, lines))
    return files


def _drawn(stem: Path, draw: Callable[[Any], None]) -> list[Path]:
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    files = []
    with matplotlib.rc_context({"svg.hashsalt": "thetastream", "font.size": 9}):
        figure = figure_class(figsize=(8.0, 3.6), layout="constrained")
        draw(figure)
        for kind in _FORMATS:
            path = stem.with_name(f"{stem.name}.{kind}")
            figure.savefig(path, dpi=150, metadata={"Date": None} if kind == "svg" else {})
            files.append(path)
    return files


def _bars(figure: Any, results: Sequence[SparkResult]) -> None:
    """One panel per size of micro-batches, one bar per contestant, logarithmic."""
    batches = sorted({result.batch for result in results})
    names = list(dict.fromkeys(result.contestant for result in results))
    panels = figure.subplots(1, len(batches), sharex=True, squeeze=False)[0]
    for panel, batch in zip(panels, batches, strict=True):
        speeds = {r.contestant: r.tuples_per_s for r in results if r.batch == batch}
        shown = [name for name in names if name in speeds][::-1]
        colours = [_HOME if name == HOME else _OTHER for name in shown]
        bars = panel.barh(shown, [speeds[name] for name in shown], color=colours)
        panel.bar_label(bars, [f"{speeds[name]:,.0f}" for name in shown], padding=3)
        panel.set_xscale("log")
        panel.margins(x=0.25)
        panel.set_xlabel("rows per second")
        panel.set_title(f"micro-batches of {batch:,} rows", fontsize=9)
    first = results[0]
    figure.suptitle(f"Spark, W1: band join, window {first.window:,} rows per side", fontsize=10)


def _scaling(figure: Any, results: Sequence[SparkResult]) -> None:
    """Points of the most common size of micro-batches: others have no series."""
    series = [r for r in results if r.part != "join"]
    batch = series[0].batch if series else results[0].batch
    main = [r for r in results if r.part == "join" and r.batch == batch]
    panels = figure.subplots(1, 2, sharey=True)
    for panel, part, name, label in (
        (panels[0], "windows", "window", "rows per side in the window"),
        (panels[1], "partitions", "partitions", "partitions"),
    ):
        points = sorted(
            (getattr(r, name), r.tuples_per_s, r.tuples_per_s_low, r.tuples_per_s_high)
            for r in [*main, *(r for r in series if r.part == part)]
        )
        places = [point[0] for point in points]
        speeds = [point[1] for point in points]
        spread = [[p[1] - p[2] for p in points], [p[3] - p[1] for p in points]]
        panel.errorbar(places, speeds, yerr=spread, color=_HOME, marker="o", capsize=3)
        panel.set_xscale("log", base=10 if part == "windows" else 2)
        panel.set_xticks(places, [f"{place:,}" for place in places])
        panel.minorticks_off()
        panel.set_xlabel(label)
        panel.grid(True, color="#dddddd", linewidth=0.6)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("rows per second")
    title = f"theta_join on W1, micro-batches of {batch:,} rows; bars: slowest, fastest"
    figure.suptitle(title, fontsize=10)


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    for path in plot(read(file), output or file.parent, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
