"""``thetastream bench finite``: joins of two finite tables beside their peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

ABOUT = "joins of two finite tables beside databases and frame libraries (about 20 minutes)"


def bench_finite(
    *,
    workloads: Sequence[str],
    contestants: Sequence[str],
    threads: Sequence[int],
    pythons: Sequence[Path],
    scale: float,
    repeat: int,
    output: Path,
    plots: bool,
) -> None:
    """Measure, write the result file, show the table; a wrong answer or failure exits with 1."""
    from rich.console import Console

    from thetabench.cli.scores import score_table
    from thetabench.finite import course, report

    console = Console()
    cells = course.measurements(
        course.every(workloads, course.WORKLOAD_NAMES),
        course.every(contestants, course.CONTESTANT_NAMES),
        threads or (1, 2),
        scale,
        repeat,
        lambda text: console.print(f"measuring {text}", style="dim", highlight=False),
        pythons,
    )
    path = output / ("finite.csv" if scale == 1.0 else "finite-scaled.csv")
    lines: list[course.FiniteLine] = []
    for line in cells:
        said = f"{line.seconds:.3f} s, {line.peak_mb:,.0f} MB, {line.pairs:,} pairs"
        if line.status != "ok":
            said = f"{line.status}: {line.reason}"
        where = f"{line.workload}, {line.threads} threads, {line.contestant}"
        console.print(f"{where}: {said}", highlight=False, markup=False, soft_wrap=True)
        lines.append(line)
        course.write(path, lines)  # after each, so that a run that is ended keeps what it has
    for row in (*report.table(lines), "", *report.details(lines)):
        console.print(row, highlight=False, markup=False, soft_wrap=True)
    console.print(score_table("what must be reached", report.scores(lines)))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        report.plot(course.read(path), path.with_suffix(".png"))
        console.print(f"plot in {path.with_suffix('.png')}", highlight=False, soft_wrap=True)
    broken = [line for line in lines if line.status in ("failed", "wrong")]
    for line in broken:
        typer.echo(f"error: {line.contestant} ({line.workload}): {line.reason}", err=True)
    if broken:
        raise typer.Exit(1)
