"""``thetastream bench conditions``: what a condition costs beside a plain one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

ABOUT = "conditions beside plain ones with the same pairs, and DuckDB (about 3 minutes)"


def bench_conditions(*, workloads: Sequence[str], scale: float, repeat: int, output: Path) -> None:
    """Measure, write the result file, show the table; other pairs exit with 1."""
    from rich.console import Console

    from thetabench.conditions import course, report
    from thetabench.conditions.contests import CONTESTS
    from thetabench.digest import VerificationError
    from thetabench.finite.course import every

    console = Console()
    path = output / ("conditions.csv" if scale == 1.0 else "conditions-scaled.csv")
    names = every(workloads, list(CONTESTS))
    lines = (
        [line for line in course.read(path) if line.contest not in names] if path.exists() else []
    )
    try:
        for line in course.measurements(
            names, scale, repeat, lambda text: console.print(text, style="dim", highlight=False)
        ):
            lines.append(line)
            course.write(path, lines)
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    for text in report.table(lines):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
