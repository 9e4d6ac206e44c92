"""The table of a Spark benchmark for a page: what must be reached, what was measured.

python -m thetabench.spark.table benchmarks/results/spark.csv --page docs/benchmarks.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from thetabench.spark.result import SparkResult, read
from thetabench.spark.score import scores
from thetabench.tables import insert
from thetastream.errors import DataError

BEGIN, END = "<!-- spark:begin -->", "<!-- spark:end -->"


def markdown(results: Sequence[SparkResult]) -> str:
    """Speeds, then the measures beside their limits; misses are said in words."""
    speeds = ["| W1, window 500,000 rows per side | micro-batch | rows/s |", "|---|--:|--:|"]
    speeds += [
        f"| {r.contestant} | {r.batch:,} | {r.tuples_per_s:,.0f} |"
        for r in results
        if r.ran and r.part in ("join", "empty", "bucketed")
    ]
    lines = ["| measure | measured | must | aim | |", "|---|--:|--:|--:|---|"]
    for score in scores(results):
        limits = [score.text(score.must), score.text(score.aim)]
        cells = [score.measure, score.text(score.value), *limits, score.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    first = results[0]
    note = (
        f"`local[2]`, noop sink, answers verified. Machine: {first.cpu}, {first.cores} cores, "
        f"{first.memory_bytes / 2**30:.0f} GiB, Python {first.python}, {first.versions}; "
        f"{first.date}."
    )
    return "\n".join([*speeds, "", *lines, "", note])


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
