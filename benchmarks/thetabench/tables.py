"""The tables of a paper's page: ``python -m thetabench.tables NAME [FILE] [--page PAGE]``.

Every figure has two marks in the page, and the scores have. Between them stands what the paper
claims, what was measured, the plot when there is one, and whether the claim holds here. A figure
without results keeps what it has. The figures of a grid have no tables, but one that is derived of
all of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thetabench.figure import Figure, Lines, tick
from thetabench.paper import Paper
from thetabench.papers import paper as paper_of
from thetastream.errors import DataError

SCORES = "scores"


def marks(paper: str, name: str) -> tuple[str, str]:
    """The marks of a figure, or of the scores.

    >>> marks("pim", "9c")
    ('<!-- pim:9c:begin -->', '<!-- pim:9c:end -->')
    """
    return f"<!-- {paper}:{name}:begin -->", f"<!-- {paper}:{name}:end -->"


def write_page(paper: Paper, file: Path, page: Path) -> str:
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


def filled(paper: Paper, page: str, lines: Lines, pictures: dict[str, str]) -> str:
    """The page with the tables between their marks; ``pictures`` are links by figure."""
    if not lines:
        raise DataError("there are no results to make tables of.")
    if paper.goals:
        page = insert(page, _scored(paper, lines), *marks(paper.name, SCORES))
    for figure in paper.figures.values():
        own = [line for line in lines if line.figure == figure.name]
        if own and not paper.grid:
            picture = pictures.get(figure.name)
            parts = [
                f"*Paper:* {figure.claim}" if figure.claim else "",
                _table(paper, figure, own),
                f"![{figure.about}]({picture})" if picture else "",
                figure.verdict(own),
            ]
            text = "\n\n".join(filter(None, parts))
            page = insert(page, text, *marks(paper.name, figure.name))
    for name, made in paper.derived.items():
        begin, end = marks(paper.name, name)
        if begin in page and (text := made(lines)):
            page = insert(page, text, begin, end)
    return page


def insert(page: str, table: str, begin: str, end: str) -> str:
    r"""The page with the table between its marks.

    >>> print(insert("a\n<i>\nold\n</i>\nb", "new", "<i>", "</i>"))
    a
    <i>
    new
    </i>
    b
    """
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise DataError(f"the page needs the marks {begin} and {end}, in this order.")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _table(paper: Paper, figure: Figure[Any], lines: Lines) -> str:
    """One measure: places down, contestants across. Several: a row per contestant and place."""
    ran = [line for line in lines if line.ran]
    make = _across if len(figure.measures) == 1 else _down
    reasons = dict.fromkeys(f"{line.contestant}: {line.reason}" for line in lines if not line.ran)
    notes = f"Not run: {'; '.join(reasons)}." if reasons else ""
    return "\n\n".join(filter(None, [make(paper, figure, ran) if ran else "", notes]))


def _across(paper: Paper, figure: Figure[Any], lines: Lines) -> str:
    (column,) = figure.measures
    measure = paper.measures[column]
    labels = list(dict.fromkeys(line.contestant for line in lines))
    places = {line.place: tick(figure, line) for line in lines}
    values = {(line.place, line.contestant): measure.text(getattr(line, column)) for line in lines}
    rows = [
        row([places[place], *(values.get((place, label), "") for label in labels)])
        for place in sorted(places)
    ]
    head = [row([figure.axis, *labels]), row(["--:"] * (1 + len(labels)))]
    return "\n".join([f"{measure.title[0].upper()}{measure.title[1:]}:", "", *head, *rows])


def _down(paper: Paper, figure: Figure[Any], lines: Lines) -> str:
    shown = {column: paper.measures[column] for column in figure.measures}
    head = [
        row([figure.axis, "", *(measure.title for measure in shown.values())]),
        row(["--:", "---", *["--:"] * len(shown)]),
    ]
    rows = [
        row([tick(figure, line), line.contestant,
              *(measure.text(getattr(line, column)) for column, measure in shown.items())])
        for line in lines
    ]  # fmt: skip
    return "\n".join([*head, *rows])


def _scored(paper: Paper, lines: Lines) -> str:
    """What must be reached beside what was; misses are said in words."""
    rows = [row(["measure", "measured", "must", "aim", "", ""]), "|---|--:|--:|--:|---|---|"]
    for score in paper.scores(lines):
        limits = [score.text(score.must), score.text(score.aim)]
        rows.append(
            row([score.measure, score.text(score.value), *limits, score.verdict, score.remark])
        )
    last = lines[-1]
    note = (
        f"{paper.note(lines)}Answers verified. Machine: {last.cpu}, {last.cores} cores, "
        f"{last.memory_bytes / 2**30:.0f} GiB, {last.system}, Python {last.python}, "
        f"{last.versions}; {last.date}."
    )
    return "\n".join([*rows, "", note])


def row(values: Sequence[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(values) + " |"


def main(
    name: Annotated[str, typer.Argument(help="A paper, as in `thetastream bench --list`.")],
    file: Annotated[Path | None, typer.Argument(help="A result file.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A page for its tables, instead of its own.")
    ] = None,
) -> None:
    """Write the tables of a result file into a page, between their marks."""
    paper, file = paper_of(name), file or Path(f"benchmarks/results/{name}.csv")
    pages = paper.pages or (f"docs/{name}-benchmarks.md",)
    for one in [page] if page else map(Path, pages):
        typer.echo(write_page(paper, file, one))


if __name__ == "__main__":
    typer.run(main)
