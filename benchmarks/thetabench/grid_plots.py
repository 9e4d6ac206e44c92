"""Plots of a result file: ``python -m thetabench.grid_plots benchmarks/results/foundation.csv``.

One figure per workload, one panel per window: rows per second over the batch size, both axes
logarithmic, one line per contestant. Colours are those of Okabe and Ito, which colour-blind readers
can tell apart; every line has its own marker too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.contestant import optional
from thetabench.peers import HOME
from thetabench.plots import COLOURS, MARKERS, legend
from thetabench.result import Result, read

_FORMATS = ("png", "svg")


def plot(results: Sequence[Result], folder: Path, name: str) -> list[Path]:
    """Draw the results into ``folder``; give the files written."""
    ran = [result for result in results if result.ran]
    contestants = list(dict.fromkeys(result.contestant for result in ran))
    contestants.sort(key=lambda contestant: not contestant.startswith(HOME))
    files = []
    for workload in dict.fromkeys(result.workload for result in ran):
        own = [result for result in ran if result.workload == workload]
        files += _figure(own, contestants, folder / f"{name}-{workload.lower()}")
    return files


def _figure(results: Sequence[Result], contestants: Sequence[str], stem: Path) -> list[Path]:
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    figure_class = optional("matplotlib.figure").Figure
    windows = sorted({result.window for result in results})
    with matplotlib.rc_context({"svg.hashsalt": "thetastream", "font.size": 9}):
        figure = figure_class(figsize=(1.6 + 3.4 * len(windows), 4.2), layout="constrained")
        panels = figure.subplots(1, len(windows), sharey=True, squeeze=False)[0]
        for panel, window in zip(panels, windows, strict=True):
            own = [result for result in results if result.window == window]
            _panel(panel, own, contestants, f"window {_power(window)} rows")
        panels[0].set_ylabel("rows per second")
        handles, labels = legend(panels)
        figure.legend(handles, labels, loc="outside right upper", frameon=False)
        first = results[0]
        figure.suptitle(f"{first.workload}: {_shape(first.predicate)}", fontsize=10)
        files = []
        for kind in _FORMATS:
            path = stem.with_name(f"{stem.name}.{kind}")
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(path, dpi=150, metadata=metadata)
            files.append(path)
    return files


def _panel(panel: Any, results: Sequence[Result], contestants: Sequence[str], title: str) -> None:
    for place, contestant in enumerate(contestants):
        points = sorted((r.batch, r.tuples_per_s) for r in results if r.contestant == contestant)
        if points:
            home = contestant.startswith(HOME)
            panel.plot(
                [batch for batch, _ in points],
                [speed for _, speed in points],
                label=contestant,
                color=COLOURS[place % len(COLOURS)],
                marker=MARKERS[place % len(MARKERS)],
                linewidth=2.4 if home else 1.3,
                markersize=6 if home else 5,
                zorder=3 if home else 2,
            )
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    batches = sorted({result.batch for result in results})
    panel.set_xticks(batches, [_power(batch) for batch in batches])
    panel.minorticks_off()
    panel.set_xlabel("rows per push")
    panel.set_title(title, fontsize=9)
    panel.grid(True, which="major", color="#dddddd", linewidth=0.6)


def _power(number: int) -> str:
    """Write powers of two as such.

    >>> _power(1024), _power(50_000)
    ('2$^{10}$', '50,000')
    """
    exponent = number.bit_length() - 1
    return f"2$^{{{exponent}}}$" if number == 1 << exponent else f"{number:,}"


def _shape(predicate: str) -> str:
    """Give the predicate with widths as ``d``: they differ between windows."""
    words = ["d" if word.isdigit() else word for word in predicate.split()]
    return " ".join(words)


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")],
    output: Annotated[Path | None, typer.Option(help="Folder; default: beside the file.")] = None,
) -> None:
    """Draw the plots of a result file."""
    folder = output or file.parent
    folder.mkdir(parents=True, exist_ok=True)
    for path in plot(read(file), folder, file.stem):
        typer.echo(path)


if __name__ == "__main__":
    typer.run(main)
