"""The table of a Spark benchmark for a page: what must be reached, what was measured.

python -m thetabench.spark.table benchmarks/results/spark.csv --page docs/benchmarks.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thetabench.figure import Lines
from thetabench.spark.goals import scores
from thetabench.spark.lines import read
from thetabench.spark.plan import COMPARED
from thetabench.tables import insert
from thetastream.errors import DataError

BEGIN, END = "<!-- spark:begin -->", "<!-- spark:end -->"


def markdown(lines: Lines) -> str:
    """Speeds, then the measures beside their limits; misses are said in words."""
    rows = ["| W1, window 500,000 rows per side | micro-batch | rows/s |", "|---|--:|--:|"]
    rows += [
        f"| {line.contestant} | {line.batch:,} | {line.tuples_per_s:,.0f} |"
        for line in lines
        if line.ran and line.figure in COMPARED
    ]
    rows += ["", "| measure | measured | must | aim | |", "|---|--:|--:|--:|---|"]
    for score in scores(lines):
        values = [score.text(value) for value in (score.value, score.must, score.aim)]
        rows.append(f"| {' | '.join([score.measure, *values, score.verdict])} |")
    first = lines[0]
    note = (
        f"`local[2]`, noop sink, answers verified. Machine: {first.cpu}, {first.cores} cores, "
        f"{first.memory_bytes / 2**30:.0f} GiB, Python {first.python}, {first.versions}; "
        f"{first.date}."
    )
    return "\n".join([*rows, "", note])


def main(
    file: Annotated[Path, typer.Argument(help="A result file.")] = Path(
        "benchmarks/results/spark.csv"
    ),
    page: Annotated[Path, typer.Option(help="The page to write the table into.")] = Path(
        "docs/benchmarks.md"
    ),
) -> None:
    """Write the table of a result file into a page, between its marks."""
    if not page.exists():
        raise DataError(f"no page {page}.")
    text = insert(page.read_text("utf-8"), markdown(read(file)), BEGIN, END)
    page.write_text(text, "utf-8")
    typer.echo(f"wrote the table of {file} into {page}")


if __name__ == "__main__":
    typer.run(main)
