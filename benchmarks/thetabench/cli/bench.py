"""``thetastream bench``: measure thetastream and its peers side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thetabench.experiment import Experiment
    from thetabench.result import Result

SPARK, PLANNER = "spark", "planner"


def bench(
    name: Annotated[str, typer.Argument(metavar="[EXPERIMENT]", help="See --list.")] = "quick",
    workload: Annotated[list[str] | None, typer.Option(help="Only this workload.")] = None,
    window: Annotated[list[int] | None, typer.Option(min=1, help="Only this window size.")] = None,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Only this batch size.")] = None,
    contestant: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this contestant; options as in thetastream:threads=2. Planner: this tactic."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Timed seconds per contestant and cell.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Repetitions; the median is kept.")] = 1,
    output: Annotated[
        Path, typer.Option(help="Folder for the result file.", file_okay=False)
    ] = Path("benchmarks/results"),
    plots: Annotated[bool, typer.Option(help="Draw the plots too.")] = False,
    quick: Annotated[bool, typer.Option(help="Spark: all, but small. Planner: few cells.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Spark: only these parts, as in join,empty.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Spark: timed rows.")] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Papers: only this figure, as in 9c."),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(min=2.0**-20, help="Papers: factor of the sizes; 0.01 to try."),
    ] = 1.0,
    show: Annotated[bool, typer.Option("--list", help="List experiments and contestants.")] = False,
) -> None:
    """Measure thetastream and its peers; every answer is checked against a reference.

    Workload, window, batch, contestant and figure can be given several times.
    """
    from rich.console import Console

    from thetabench import experiment as experiments
    from thetabench import result as files
    from thetabench.cli.figures import bench_figures, warn_if_busy
    from thetabench.digest import VerificationError
    from thetabench.line import BUSY
    from thetabench.papers import PAPERS

    console = Console()
    if show:
        _list(console)
        return
    if name == SPARK:
        from thetabench.cli.spark import bench_spark

        bench_spark(
            quick=quick,
            only=only or (),
            contestants=contestant or (),
            rows=rows,
            output=output,
            plots=plots,
        )
        return
    if name in PAPERS:
        bench_figures(
            name,
            figures=figure or (),
            scale=scale,
            seconds=seconds,
            output=output,
            plots=plots,
        )
        return
    if name == PLANNER:
        from thetabench.cli.planner import bench_planner

        bench_planner(
            workloads=workload or (),
            windows=window or (),
            batches=batch or (),
            tactics=contestant or (),
            quick=quick,
            output=output,
            plots=plots,
        )
        return
    chosen = experiments.experiment(name).narrowed(
        workloads=workload or (),
        windows=window or (),
        batches=batch or (),
        contestants=contestant or (),
        seconds=seconds,
    )
    try:
        results = _measure(console, chosen, repeat)
    except VerificationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    path = output / f"{chosen.name}.csv"
    files.write(path, results)
    console.print(_closing(results))
    console.print(f"results in {path}", highlight=False, soft_wrap=True)
    if plots:
        from thetabench.grid_plots import plot

        for file in plot(results, output, chosen.name):
            console.print(f"plot in {file}", highlight=False, soft_wrap=True)
    busy = sum(result.ran and result.cpu_share < BUSY for result in results)
    warn_if_busy(busy, len(results))
    broken = [result for result in results if result.status == "failed"]
    for result in broken:
        typer.echo(f"error: {result.contestant} failed: {result.reason}", err=True)
    if broken:
        raise typer.Exit(1)


def main(arguments: list[str]) -> None:
    """Run ``thetastream bench`` with these arguments; errors are those of the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(bench)
    code = typer.main.get_command(app).main(
        arguments, prog_name="thetastream bench", standalone_mode=False
    )
    if code:
        raise typer.Exit(code)


def _list(console: Console) -> None:
    from thetabench.cli.figures import list_papers
    from thetabench.cli.planner import ABOUT as ABOUT_PLANNER
    from thetabench.cli.planner import list_workloads
    from thetabench.cli.spark import ABOUT
    from thetabench.experiment import EXPERIMENTS
    from thetabench.peers import PEERS
    from thetabench.spark.plan import PARTS

    for found in EXPERIMENTS.values():
        console.print(f"[bold]{found.name}[/]  {found.about}", highlight=False)
    console.print(f"[bold]{SPARK}[/]  {ABOUT}", highlight=False)
    console.print(f"  parts, for --only: {', '.join(PARTS)}", highlight=False)
    list_papers(console)
    console.print(f"[bold]{PLANNER}[/]  {ABOUT_PLANNER}", highlight=False)
    list_workloads(console)
    console.print(f"contestants: {', '.join(PEERS)}", highlight=False)


def _measure(console: Console, chosen: Experiment, repeat: int) -> list[Result]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from thetabench.runner import run

    steps = len(chosen.cells) * (repeat * len(chosen.contestants) + 1)
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    results = []
    with Progress(*columns, console=console, transient=True) as live:
        task = live.add_task("starting", total=steps)
        begun = -1

        def step(what: str) -> None:
            nonlocal begun
            begun += 1
            live.update(task, completed=begun, description=what)

        for result in run(chosen, repetitions=repeat, progress=step):
            results.append(result)
            if not console.is_terminal:
                console.print(_line(result), highlight=False, soft_wrap=True)
    return results


def _line(result: Result) -> str:
    from thetabench.table import speed_text

    where = f"{result.workload} window {result.window:,} batch {result.batch:,}"
    if not result.ran:
        return f"{where}: {result.contestant} {result.status}: {result.reason}"
    return f"{where}: {result.contestant} {speed_text(result)} M rows/s, answers verified"


def _closing(results: list[Result]) -> Table:
    """Thetastream against the best of the others, and the others in one column."""
    from rich.table import Table

    from thetabench.peers import HOME
    from thetabench.result import best_peer, cells
    from thetabench.table import ratio_text, speed_text

    table = Table(title="million rows per second; all answers verified", title_justify="left")
    table.add_column("cell", no_wrap=True)
    table.add_column(HOME, justify="right", no_wrap=True)
    table.add_column("ratio to the best peer", justify="right")
    table.add_column("others, fastest first", overflow="fold")
    for (workload, window, batch), found in cells(results).items():
        home = next((result for result in found if result.contestant == HOME), None)
        best = best_peer(found, HOME)
        others = sorted(
            (result for result in found if result is not home), key=lambda r: -r.tuples_per_s
        )
        table.add_row(
            f"{workload} {window:,} / {batch:,}",
            speed_text(home),
            ratio_text(home, best).replace("*", ""),
            ", ".join(f"{result.contestant} {speed_text(result)}" for result in others),
        )
    return table
