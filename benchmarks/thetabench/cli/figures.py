"""What ``thetastream bench`` does for the figures of a paper, whichever paper it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from thetabench.figure import Line, Paper

__all__ = ["BUSY", "bench_figures", "list_figures", "names"]

BUSY = 0.9
"""Processor seconds per second below which one thread had to wait."""

R = TypeVar("R", bound="Line")
Say = Callable[[str], None]


def names(figures: Sequence[str]) -> list[str]:
    """Read ``--figure 9c --figure 10a,10b``.

    >>> names(["9c", "10a, 10b"])
    ['9c', '10a', '10b']
    """
    return [name.strip() for text in figures for name in text.split(",")]


def bench_figures(
    paper: Paper[R],
    cells: int,
    run: Callable[[Say], Iterator[list[R]]],
    *,
    scale: float,
    output: Path,
    plots: bool,
    waited: Callable[[R], bool],
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1.

    ``run`` gives the results of one cell after the other; ``waited`` says whether a line is that of
    one thread that did not have a processor to itself.
    """
    from rich.console import Console

    from thetabench.cli.progress import counted
    from thetabench.cli.scores import score_table
    from thetabench.runner import VerificationError

    console = Console()
    name = paper.name if scale == 1 else f"{paper.name}-scale-{scale:g}"
    path = output / f"{name}.csv"
    old = paper.read(path) if path.exists() else []
    new: list[R] = []
    try:
        for results in counted(console, cells, run):
            for result in results:
                console.print(_line(paper, result), highlight=False, soft_wrap=True)
            new += results
            paper.write(path, paper.together(old, new))  # so that a run that is ended keeps it
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    for made in paper.derived.values():
        if text := made(new):
            console.print(text, highlight=False, soft_wrap=True)
    console.print(score_table("what must be reached", paper.scores(new)))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.figure_plots import plot

        for file in plot(paper, new, output, name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    busy = sum(waited(result) for result in new)
    if busy:
        typer.echo(
            f"warning: the machine was busy with other work during {busy} of {len(new)} "
            "measurements; their ratios are not reliable",
            err=True,
        )


def list_figures(console: Console, paper: Paper[R]) -> None:
    """Say which figures there are."""
    for figure in paper.figures.values():
        console.print(f"  --figure {figure.name:10}{figure.about}", highlight=False)


def _line(paper: Paper[R], result: R) -> str:
    from thetabench.figure import tick

    figure = paper.figures[result.figure]
    where = f"{result.figure}: {result.contestant}, {result.axis} {tick(figure, result)}"
    if not result.ran:
        return f"{where}: {result.status}: {result.reason}"
    shown = [
        f"{paper.measures[column].title} {paper.measures[column].text(getattr(result, column))}"
        for column in figure.measures
        if getattr(result, column)
    ]
    verified = ["answers verified"] if result.verified else []
    return f"{where}: {', '.join([*shown, *verified])}"
