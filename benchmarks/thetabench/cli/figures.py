"""What ``thetastream bench`` does for the figures of a paper, whichever paper it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from thetabench.line import Line
    from thetabench.paper import Paper


def names(figures: Sequence[str]) -> list[str]:
    """Read ``--figure 9c --figure 10a,10b``.

    >>> names(["9c", "10a, 10b"])
    ['9c', '10a', '10b']
    """
    return [name.strip() for text in figures for name in text.split(",")]


def bench_figures(
    name: str,
    *,
    figures: Sequence[str],
    scale: float,
    seconds: float | None,
    output: Path,
    plots: bool,
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1."""
    from rich.console import Console

    from thetabench.cli.progress import counted
    from thetabench.cli.scores import score_table
    from thetabench.digest import VerificationError
    from thetabench.figure import Sizes
    from thetabench.papers import paper as paper_of

    console, paper = Console(), paper_of(name)
    sizes = Sizes.of(scale, seconds, paper.seconds)
    cells = paper.cells(names(figures), sizes)
    stem = name if scale == 1 else f"{name}-scale-{scale:g}"
    path = output / f"{stem}.csv"
    old = paper.read(path) if path.exists() else []
    new: list[Line] = []
    try:
        for lines in counted(console, len(cells), lambda say: paper.run(cells, sizes, say)):
            for line in lines:
                console.print(_text(paper, line), highlight=False, soft_wrap=True)
            new += lines
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
        from thetabench.plots import plot

        for file in plot(paper, new, output, stem):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    warn_if_busy(sum(paper.busy(line) for line in new), len(new))


def warn_if_busy(busy: int, lines: int) -> None:
    """Say that measurements had to share the processor, if some had."""
    if busy:
        typer.echo(
            f"warning: the machine was busy with other work during {busy} of {lines} "
            "measurements; their ratios are not reliable",
            err=True,
        )


def list_papers(console: Console) -> None:
    """Say which papers there are, and which figures each has."""
    from thetabench.papers import PAPERS
    from thetabench.papers import paper as paper_of

    for name, about in PAPERS.items():
        console.print(f"[bold]{name}[/]  {about}", highlight=False)
        for figure in paper_of(name).figures.values():
            console.print(f"  --figure {figure.name:10}{figure.about}", highlight=False)


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
