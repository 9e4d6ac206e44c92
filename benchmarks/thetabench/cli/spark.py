"""``thetastream bench spark``: the Spark operator beside what Spark users write today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from thetabench.line import Line


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

    from thetabench.cli.figures import names
    from thetabench.cli.progress import counted
    from thetabench.cli.scores import score_table
    from thetabench.spark import plan, run
    from thetabench.spark.goals import scores
    from thetabench.spark.lines import COLUMNS

    console = Console()
    sizes = plan.QUICK if quick else plan.FULL
    sizes = sizes if rows is None else sizes.with_rows(rows)
    every = plan.measurements(sizes, list(filter(None, names(only))), contestants)
    name = "spark-quick" if quick else "spark"
    path = output / f"{name}.csv"
    lines: list[Line] = []
    for line in counted(console, len(every), lambda say: run.run(every, sizes, progress=say)):
        console.print(_text(line), highlight=False, soft_wrap=True)
        lines.append(line)
        COLUMNS.write(path, lines)  # after each, so that a run that is ended keeps what it has
    console.print(_speeds(lines))
    console.print(score_table("theta_join", scores(lines), units=False))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.spark.plots import plot

        for file in plot(lines, output, name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    broken = [line for line in lines if line.status == "failed"]
    for line in broken:
        typer.echo(f"error: {line.contestant} ({line.figure}): {line.reason}", err=True)
    if broken:
        raise typer.Exit(1)


def _text(line: Line) -> str:
    where = (
        f"{line.workload} window {line.window:,} batch {line.batch:,} "
        f"partitions {line.partitions}: {line.contestant}"
    )
    if not line.ran:
        return f"{where} {line.status}: {line.reason}"
    if line.figure == "restart":
        return f"{where}: {line.slower_s:.1f} s slower, answers verified"
    return f"{where} {line.tuples_per_s:,.0f} rows/s, answers verified"


def _speeds(lines: Sequence[Line]) -> Table:
    from rich.table import Table

    table = Table(title="steady state; all answers verified", title_justify="left")
    table.add_column("contestant", no_wrap=True)
    for name in ("workload", "window", "batch", "partitions", "rows/s", "s/batch", "first s"):
        table.add_column(name, justify="right")
    for line in lines:
        if line.figure == "restart":
            continue
        sizes = [f"{line.window:,}", f"{line.batch:,}", str(line.partitions)]
        speed = ["–", "–", "–"]
        if line.ran:
            speed = [f"{line.tuples_per_s:,.0f}", f"{line.p50_s:.2f}", f"{line.first_s:.1f}"]
        table.add_row(line.contestant, line.workload, *sizes, *speed)
    return table
