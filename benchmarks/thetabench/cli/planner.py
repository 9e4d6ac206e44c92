"""``thetastream bench planner``: ``auto`` beside every tactic that serves the predicate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from thetabench.planner.result import PlannerResult


ABOUT = "auto beside every tactic (about 25 minutes; --quick, --workload, --window, --batch)"


def bench_planner(
    *,
    workloads: Sequence[str],
    windows: Sequence[int],
    batches: Sequence[int],
    tactics: Sequence[str],
    quick: bool,
    output: Path,
    plots: bool,
) -> None:
    """Measure, write the result file, show the scores; a wrong answer ends it with exit code 1.

    Cells that are measured again replace their own lines of the file and leave the others.
    """
    from rich.console import Console

    from thetabench.cli.figures import warn_if_busy
    from thetabench.cli.progress import counted
    from thetabench.cli.scores import score_table
    from thetabench.digest import VerificationError
    from thetabench.line import BUSY
    from thetabench.planner import result as files
    from thetabench.planner.run import cells, run
    from thetabench.planner.score import scores
    from thetabench.planner.workloads import WORKLOADS

    console = Console()
    name = "planner-quick" if quick else "planner"
    path = output / f"{name}.csv"
    grid = cells(workloads, windows, batches, quick=quick)
    old = files.read(path) if path.exists() else []
    new: list[PlannerResult] = []
    try:
        for found in counted(console, len(grid), lambda say: run(grid, tactics, progress=say)):
            console.print(_line(found), highlight=False, soft_wrap=True)
            new += found
            files.write(path, files.together(old, new, list(WORKLOADS)))
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    console.print(score_table("what must be reached", scores(new)))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.planner.plots import plot

        for file in plot(files.read(path), output, name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    busy = sum(result.ran and result.cpu_share < BUSY for result in new)
    warn_if_busy(busy, len(new))


def list_workloads(console: Console) -> None:
    """Say which workloads there are."""
    from thetabench.planner.workloads import WORKLOADS

    for workload in WORKLOADS.values():
        text = f"  --workload {workload.name:16}{workload.about}, {workload.rate:g} matches per row"
        console.print(text, highlight=False)


def _line(results: Sequence[PlannerResult]) -> str:
    """A cell in a line: ``auto`` beside the others, fastest first."""
    from thetabench.planner.result import choices

    (choice,) = choices(results)
    ran = sorted((r for r in results if r.ran), key=lambda result: -result.tuples_per_s)
    speeds = ", ".join(f"{r.contestant} {r.tuples_per_s / 1e6:.3g}" for r in ran)
    auto = choice.auto
    where = f"{auto.workload} window {auto.window:,} batch {auto.batch:,}"
    return f"{where}: best / auto {choice.ratio:.2f}; M rows/s: {speeds}; answers verified"
