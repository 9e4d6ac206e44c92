"""``thetastream bench spark``: the Spark operator beside what Spark users write today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thetabench.spark.plan import Measurement, Sizes
    from thetabench.spark.result import SparkResult


ABOUT = "the Spark operator beside hand-made buckets and an empty joiner (about 20 minutes)"


def bench_spark(
    *,
    quick: bool,
    only: Sequence[str],
    contestants: Sequence[str],
    rows: int | None,
    output: Path,
    plots: bool,
) -> None:
    """Measure, write the result file, show the scores; what failed has a line and exit code 1."""
    from rich.console import Console

    from thetabench.spark import plan
    from thetabench.spark import result as files

    console = Console()
    sizes = plan.QUICK if quick else plan.FULL
    sizes = sizes if rows is None else sizes.with_rows(rows)
    names = [name.strip() for text in only for name in text.split(",") if name.strip()]
    found = plan.measurements(sizes, names, contestants)
    name = "spark-quick" if quick else "spark"
    path = output / f"{name}.csv"
    results: list[SparkResult] = []
    for result in _measured(console, found, sizes):
        results.append(result)
        files.write(path, results)  # after each, so that a run that is ended keeps what it has
    console.print(_speeds(results))
    console.print(_scores(results))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.spark.plots import plot

        for file in plot(results, output, name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    broken = [result for result in results if result.status == "failed"]
    for result in broken:
        typer.echo(f"error: {result.contestant} ({result.part}): {result.reason}", err=True)
    if broken:
        raise typer.Exit(1)


def _measured(console: Console, found: list[Measurement], sizes: Sizes) -> Iterator[SparkResult]:
    """Run everything, with a line for what is done and a live one for what is going on."""
    from thetabench.cli.progress import counted
    from thetabench.spark.run import run

    for result in counted(console, len(found), lambda say: run(found, sizes, progress=say)):
        console.print(_line(result), highlight=False, soft_wrap=True)
        yield result


def _line(result: SparkResult) -> str:
    where = (
        f"{result.workload} window {result.window:,} batch {result.batch:,} "
        f"partitions {result.partitions}: {result.contestant}"
    )
    if not result.ran:
        return f"{where} {result.status}: {result.reason}"
    if result.part == "restart":
        return f"{where}: {result.slower_s:.1f} s slower, answers verified"
    return f"{where} {result.tuples_per_s:,.0f} rows/s, answers verified"


def _speeds(results: Sequence[SparkResult]) -> Table:
    from rich.table import Table

    table = Table(title="steady state; all answers verified", title_justify="left")
    table.add_column("contestant", no_wrap=True)
    for name in ("workload", "window", "batch", "partitions", "rows/s", "s/batch", "first s"):
        table.add_column(name, justify="right")
    for result in results:
        if result.part == "restart":
            continue
        shown = [f"{result.window:,}", f"{result.batch:,}", str(result.partitions)]
        speed = ["–", "–", "–"]
        if result.ran:
            speed = [f"{result.tuples_per_s:,.0f}", f"{result.p50_s:.2f}", f"{result.first_s:.1f}"]
        table.add_row(result.contestant, result.workload, *shown, *speed)
    return table


def _scores(results: Sequence[SparkResult]) -> Table:
    from thetabench.cli.scores import score_table
    from thetabench.spark.score import scores

    return score_table("theta_join", scores(results), units=False)
