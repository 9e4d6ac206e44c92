"""The tables of a paper's result file, written into a page.

Every figure has two marks in the page, and the scores have; between them stands what was measured,
and the plot when there is one. A figure without results keeps what it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from thetabench.figure import Figure, Line, Paper, tick
from thetabench.table import insert
from thetastream.errors import DataError

__all__ = ["SCORES", "command", "filled", "marks", "written"]

SCORES = "scores"

R = TypeVar("R", bound=Line)


def marks(paper: str, name: str) -> tuple[str, str]:
    """The marks of a figure, or of the scores.

    >>> marks("pim", "9c")
    ('<!-- pim:9c:begin -->', '<!-- pim:9c:end -->')
    """
    return f"<!-- {paper}:{name}:begin -->", f"<!-- {paper}:{name}:end -->"


def written(paper: Paper[R], file: Path, page: Path) -> str:
    """Write the tables of a result file into a page, between their marks; say so."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    drawn = {name: file.with_name(f"{file.stem}-{name}.png") for name in paper.figures}
    pictures = {
        name: Path(os.path.relpath(path, page.parent)).as_posix()
        for name, path in drawn.items()
        if path.exists()
    }
    text = filled(paper, page.read_text("utf-8"), paper.read(file), pictures)
    page.write_text(text, "utf-8")
    return f"wrote the tables of {file} into {page}"


def command(paper: Paper[R]) -> Callable[..., None]:
    """A command that writes the tables of a paper's result file into its page."""

    def main(
        file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
            f"benchmarks/results/{paper.name}.csv"
        ),
        page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
            f"docs/{paper.name}-benchmarks.md"
        ),
    ) -> None:
        """Write the tables of a result file into a page, between their marks."""
        typer.echo(written(paper, file, page))

    return main


def filled(paper: Paper[R], page: str, results: Sequence[R], pictures: dict[str, str]) -> str:
    """Give the page with the tables between their marks; ``pictures`` are links by figure."""
    if not results:
        raise DataError("there are no results to make tables of.")
    page = insert(page, _scored(paper, results), *marks(paper.name, SCORES))
    for figure in paper.figures.values():
        own = [result for result in results if result.figure == figure.name]
        if own:
            text = _markdown(paper, figure, own)
            if figure.name in pictures:
                text += f"\n\n![{figure.about}]({pictures[figure.name]})"
            page = insert(page, text, *marks(paper.name, figure.name))
    for name, made in paper.derived.items():
        if text := made(results):
            page = insert(page, text, *marks(paper.name, name))
    return page


def _markdown(paper: Paper[R], figure: Figure[Any], results: Sequence[R]) -> str:
    """One measure: places down, contestants across. Several: a line per contestant and place."""
    ran = [result for result in results if result.ran]
    if not ran:
        table = ""
    elif len(figure.measures) == 1:
        table = _across(paper, figure, ran)
    else:
        table = _down(paper, figure, ran)
    reasons = dict.fromkeys(f"{r.contestant}: {r.reason}" for r in results if not r.ran)
    notes = [f"Not run: {'; '.join(reasons)}."] if reasons else []
    return "\n\n".join(filter(None, [table, *notes]))


def _across(paper: Paper[R], figure: Figure[Any], results: Sequence[R]) -> str:
    measure = paper.measures[figure.measures[0]]
    labels = list(dict.fromkeys(result.contestant for result in results))
    places: dict[float, str] = {}
    values: dict[tuple[float, str], str] = {}
    for result in results:
        places[result.place] = tick(figure, result)
        shown = measure.text(getattr(result, figure.measures[0]))
        values[result.place, result.contestant] = shown
    lines = [_row([figure.axis, *labels]), _row(["--:"] * (1 + len(labels)))]
    for place in sorted(places):
        lines.append(_row([places[place], *(values.get((place, x), "") for x in labels)]))
    return "\n".join([f"{measure.title[0].upper()}{measure.title[1:]}:", "", *lines])


def _down(paper: Paper[R], figure: Figure[Any], results: Sequence[R]) -> str:
    shown = [paper.measures[column] for column in figure.measures]
    titles = [measure.title for measure in shown]
    lines = [_row([figure.axis, "", *titles]), _row(["--:", "---", *["--:"] * len(titles)])]
    for result in results:
        values = [
            measure.text(getattr(result, column))
            for measure, column in zip(shown, figure.measures, strict=True)
        ]
        lines.append(_row([tick(figure, result), result.contestant, *values]))
    return "\n".join(lines)


def _scored(paper: Paper[R], results: Sequence[R]) -> str:
    """What must be reached beside what was; misses are said in words."""
    lines = [_row(["measure", "measured", "must", "aim", "", ""]), "|---|--:|--:|--:|---|---|"]
    for score in paper.scores(results):
        limits = [score.text(score.must), score.text(score.aim)]
        lines.append(
            _row([score.measure, score.text(score.value), *limits, score.verdict, score.remark])
        )
    first = results[-1]
    note = (
        f"Answers verified. Machine: {first.cpu}, {first.cores} cores, "
        f"{first.memory_bytes / 2**30:.0f} GiB, {first.system}, Python {first.python}, "
        f"{first.versions}; {first.date}."
    )
    return "\n".join([*lines, "", note])


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"
