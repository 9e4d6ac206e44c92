"""``thetastream bench keys``: keys of several columns, unique keys and strings, beside int64."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

ABOUT = "relations with the keys of real tables, beside an int64 key (--scale 0.1: a few minutes)"


def bench_keys(names: Sequence[str], *, scale: float, repeat: int, output: Path) -> None:
    """Measure, write the result file and show the table."""
    from rich.console import Console

    from thetabench.keys import course, report
    from thetabench.keys.trials import EXPERIMENTS
    from thetastream.options.checks import unknown

    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("figure", name, list(EXPERIMENTS))
    console, path = Console(), output / course.RESULTS
    lines: list[course.KeyLine] = []
    for name in names or EXPERIMENTS:
        console.print(f"measuring {name}", style="dim", highlight=False)
        lines += course.measurements([name], scale, repeat)
        course.write(path, lines)  # after each, so that a run that is ended keeps what it has
    for text in report.table(lines):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    typer.echo(f"results in {path}")
