"""The tables of a result file, written into a page.

python -m thetastream.bench.pim.table benchmarks/results/pim.csv --page docs/pim-benchmarks.md

Every figure has two marks in the page, and the scores have; between them stands what was measured,
and the plot when there is one. A figure without results keeps what it has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetastream.bench.pim.figures import FIGURES
from thetastream.bench.pim.measure import MEASURES
from thetastream.bench.pim.plan import Figure, power
from thetastream.bench.pim.result import PimResult, read
from thetastream.bench.pim.score import scores
from thetastream.bench.table import insert
from thetastream.errors import DataError

__all__ = ["filled", "markdown", "marks", "scored"]

SCORES = "scores"


def marks(name: str) -> tuple[str, str]:
    """The marks of a figure, or of the scores.

    >>> marks("9c")
    ('<!-- pim:9c:begin -->', '<!-- pim:9c:end -->')
    """
    return f"<!-- pim:{name}:begin -->", f"<!-- pim:{name}:end -->"


def markdown(figure: Figure, results: Sequence[PimResult]) -> str:
    """One measure: places down, contestants across. Several: a line per contestant and place."""
    ran = [result for result in results if result.ran]
    if not ran:
        table = ""
    elif len(figure.measures) == 1:
        table = _across(figure, ran)
    else:
        table = _down(figure, ran)
    reasons = dict.fromkeys(f"{r.contestant}: {r.reason}" for r in results if not r.ran)
    notes = [f"Not run: {'; '.join(reasons)}."] if reasons else []
    return "\n\n".join(filter(None, [table, *notes]))


def _across(figure: Figure, results: Sequence[PimResult]) -> str:
    measure = MEASURES[figure.measures[0]]
    labels = list(dict.fromkeys(result.contestant for result in results))
    places: dict[float, str] = {}
    values: dict[tuple[float, str], str] = {}
    for result in results:
        places[result.place] = _place(figure, result)
        shown = measure.text(getattr(result, figure.measures[0]))
        values[result.place, result.contestant] = shown
    lines = [_row([figure.axis, *labels]), _row(["--:"] * (1 + len(labels)))]
    for place in sorted(places):
        lines.append(_row([places[place], *(values.get((place, x), "") for x in labels)]))
    return "\n".join([f"{measure.title[0].upper()}{measure.title[1:]}:", "", *lines])


def _down(figure: Figure, results: Sequence[PimResult]) -> str:
    titles = [MEASURES[column].title for column in figure.measures]
    lines = [_row([figure.axis, "", *titles]), _row(["--:", "---", *["--:"] * len(titles)])]
    for result in results:
        shown = [MEASURES[column].text(getattr(result, column)) for column in figure.measures]
        lines.append(_row([_place(figure, result), result.contestant, *shown]))
    return "\n".join(lines)


def scored(results: Sequence[PimResult]) -> str:
    """What must be reached beside what was; misses are said in words."""
    lines = [_row(["measure", "measured", "must", "aim", "", ""]), "|---|--:|--:|--:|---|---|"]
    for score in scores(results):
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


def filled(page: str, results: Sequence[PimResult], pictures: dict[str, str]) -> str:
    """Give the page with the tables between their marks; ``pictures`` are links by figure."""
    if not results:
        raise DataError("there are no results to make tables of.")
    page = insert(page, scored(results), *marks(SCORES))
    for figure in FIGURES.values():
        own = [result for result in results if result.figure == figure.name]
        if own:
            text = markdown(figure, own)
            if figure.name in pictures:
                text += f"\n\n![{figure.about}]({pictures[figure.name]})"
            page = insert(page, text, *marks(figure.name))
    return page


def _place(figure: Figure, result: PimResult) -> str:
    return result.distribution if figure.axis == "distribution" else power(result.place)


def _row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/pim.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the tables into.")] = Path(
        "docs/pim-benchmarks.md"
    ),
) -> None:
    """Write the tables of a result file into a page, between their marks."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    drawn = {name: file.with_name(f"{file.stem}-{name}.png") for name in FIGURES}
    pictures = {
        name: Path(os.path.relpath(path, page.parent)).as_posix()
        for name, path in drawn.items()
        if path.exists()
    }
    page.write_text(filled(page.read_text("utf-8"), read(file), pictures), "utf-8")
    typer.echo(f"wrote the tables of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)
