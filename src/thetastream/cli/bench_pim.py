"""``thetastream bench pim``: the experiments of the PIM-Tree paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thetastream.bench.pim.plan import Cell, Sizes
    from thetastream.bench.pim.result import PimResult

__all__ = ["ABOUT", "bench_pim", "list_figures"]

ABOUT = "the figures of the PIM-Tree paper (about 20 minutes; --figure for some)"
_BUSY = 0.9  # processor seconds per second below which one thread had to wait


def bench_pim(
    *, figures: Sequence[str], scale: float, seconds: float | None, output: Path, plots: bool
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1."""
    from rich.console import Console

    from thetastream.bench.pim import result as files
    from thetastream.bench.pim.figures import cells
    from thetastream.bench.pim.plan import Sizes
    from thetastream.bench.runner import VerificationError

    console = Console()
    sizes = Sizes.of(scale, seconds)
    found = cells([name.strip() for text in figures for name in text.split(",")], sizes)
    name = "pim" if scale == 1 else f"pim-scale-{scale:g}"
    path = output / f"{name}.csv"
    old = files.read(path) if path.exists() else []
    new: list[PimResult] = []
    try:
        for results in _measured(console, found, sizes):
            new += results
            files.write(path, files.together(old, new))  # so that a run that is ended keeps it
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    console.print(_scores(new))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetastream.bench.pim.plots import plot

        for file in plot(new, output, name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    busy = [r for r in new if r.seconds and not r.threads and r.cpu_share < _BUSY]
    if busy:
        typer.echo(
            f"warning: the machine was busy with other work during {len(busy)} of {len(new)} "
            "measurements; their ratios are not reliable",
            err=True,
        )


def list_figures(console: Console) -> None:
    """Say which figures there are."""
    from thetastream.bench.pim.figures import FIGURES

    for figure in FIGURES.values():
        console.print(f"  --figure {figure.name:6}{figure.about}", highlight=False)


def _measured(console: Console, found: list[Cell], sizes: Sizes) -> Iterator[list[PimResult]]:
    """Run everything, with a line for what is done and a live one for what is going on."""
    from thetastream.bench.pim.run import run
    from thetastream.cli.progress import counted

    for results in counted(console, len(found), lambda say: run(found, sizes, progress=say)):
        for result in results:
            console.print(_line(result), highlight=False, soft_wrap=True)
        yield results


def _line(result: PimResult) -> str:
    from thetastream.bench.pim.figures import FIGURES
    from thetastream.bench.pim.measure import MEASURES
    from thetastream.bench.pim.plan import power

    where = f"{result.figure}: {result.contestant}, {result.axis} {power(result.place)}"
    if not result.ran:
        return f"{where}: {result.status}: {result.reason}"
    shown = [
        f"{MEASURES[column].title} {MEASURES[column].text(getattr(result, column))}"
        for column in FIGURES[result.figure].measures
        if getattr(result, column)
    ]
    verified = ["answers verified"] if result.verified else []
    return f"{where}: {', '.join([*shown, *verified])}"


def _scores(results: Sequence[PimResult]) -> Table:
    from thetastream.bench.pim.score import scores
    from thetastream.cli.tables import score_table

    return score_table("what must be reached", scores(results))
