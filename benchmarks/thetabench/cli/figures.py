"""What ``thetastream bench`` does for a paper, or for an experiment of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from thetabench.figure import Sizes
    from thetabench.line import Line
    from thetabench.paper import Paper


def names(figures: Sequence[str]) -> list[str]:
    """Read ``--figure 9c --figure 10a,10b``.

    >>> names(["9c", "10a, 10b"])
    ['9c', '10a', '10b']
    """
    return [name.strip() for text in figures for name in text.split(",")]


def bench_figures(
    paper: Paper, figures: Sequence[str], sizes: Sizes, output: Path, *, plots: bool
) -> None:
    """Measure, write the result file, show the scores.

    A wrong answer ends it with exit code 1. What failed has a line, and exit code 1 at the end.
    """
    from rich.console import Console

    from thetabench.cli.progress import counted
    from thetabench.cli.scores import score_table
    from thetabench.digest import VerificationError

    console = Console()
    cells = paper.cells(names(figures), sizes)
    stem = paper.name if sizes.scale == 1 else f"{paper.name}-scale-{sizes.scale:g}"
    path = output / f"{stem}.csv"
    old = paper.read(path) if path.exists() else []
    new: list[Line] = []
    try:
        for lines in counted(console, len(cells), lambda say: paper.run(cells, sizes, say)):
            for text in _texts(paper, lines):
                console.print(text, highlight=False, soft_wrap=True)
            new += lines
            paper.write(path, paper.together(old, new))  # so that a run that is ended keeps it
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if not paper.grid:
        for made in paper.derived.values():
            if text := made(new):
                console.print(text, highlight=False, soft_wrap=True)
    if paper.goals:
        console.print(score_table("what must be reached", paper.scores(new)))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.plots import plot

        shown = paper.together(old, new) if paper.grid else new
        for file in plot(paper, shown, output, stem):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    _warn(new)


def _warn(lines: Sequence[Line]) -> None:
    """Say what had to share the processor, and what failed."""
    busy = sum(line.busy for line in lines)
    if busy:
        typer.echo(
            f"warning: the machine was busy with other work during {busy} of {len(lines)} "
            "measurements; their ratios are not reliable",
            err=True,
        )
    failed = [line for line in lines if line.status == "failed"]
    for line in failed:
        typer.echo(f"error: {line.contestant} failed: {line.reason}", err=True)
    if failed:
        raise typer.Exit(1)


def list_papers(console: Console) -> None:
    """Say which experiments there are, and which figures or workloads each has."""
    from thetabench.papers import PAPERS
    from thetabench.papers import paper as paper_of

    for name, about in PAPERS.items():
        console.print(f"[bold]{name}[/]  {about}", highlight=False)
        paper = paper_of(name)
        for figure in paper.figures.values():
            text = f"  --{paper.called} {figure.name:16}{figure.about}"
            console.print(text, highlight=False, soft_wrap=True)


def _texts(paper: Paper, lines: Sequence[Line]) -> Iterator[str]:
    """A cell in one line, or in one per contestant."""
    if paper.told:
        yield paper.told(lines)
    else:
        yield from (_text(paper, line) for line in lines)


def _text(paper: Paper, line: Line) -> str:
    from thetabench.figure import tick

    figure = paper.figures[line.figure]
    where = f"{line.figure}: {line.contestant}, {line.axis} {tick(figure, line)}"
    if not line.ran:
        return f"{where}: {line.status}: {line.reason}"
    shown = [
        f"{paper.measures[column].title} {paper.measures[column].text(getattr(line, column))}"
        for column in figure.measures
        if getattr(line, column)
    ]
    verified = ["answers verified"] if line.verified else []
    return f"{where}: {', '.join([*shown, *verified])}"
