"""``thetastream bench``: measure thetastream and its peers side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

FINITE, KEYS, CONDITIONS = "finite", "keys", "conditions"


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
    figure: Annotated[
        list[str] | None,
        typer.Option("--figure", "--only", help="Only this figure, as in 9c or small,join."),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            min=2.0**-20,
            help="Papers, finite, keys, conditions: factor of the sizes; 0.01 to try.",
        ),
    ] = 1.0,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Finite: threads; by default 1 and 2.")
    ] = None,
    peers: Annotated[
        list[Path] | None,
        typer.Option(
            help="Finite: the Python of another environment, for peers that this one lacks.",
            exists=True,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List experiments and contestants.")] = False,
) -> None:
    """Measure thetastream and its peers; every answer is checked against a reference.

    Workload, window, batch, contestant, figure and peers can be given several times.
    """
    if show:
        _list()
        return
    if name == FINITE:
        from thetabench.cli.finite import bench_finite

        bench_finite(
            workloads=workload or (),
            contestants=contestant or (),
            threads=threads or (),
            pythons=[path.absolute() for path in peers or ()],
            scale=scale,
            repeat=repeat,
            output=output,
            plots=plots,
        )
        return
    if name == KEYS:
        from thetabench.cli.keys import bench_keys

        bench_keys(figure or (), scale=scale, repeat=repeat, output=output)
        return
    if name == CONDITIONS:
        from thetabench.cli.conditions import bench_conditions

        bench_conditions(workloads=workload or (), scale=scale, repeat=repeat, output=output)
        return
    from thetabench.cli.figures import bench_figures
    from thetabench.figure import Asked, Sizes
    from thetabench.papers import paper as paper_of

    paper = paper_of(name, quick=quick)
    sizes = Sizes.of(1.0 if paper.grid else scale, seconds, paper.seconds)
    sizes = replace(sizes, asked=Asked(window or (), batch or (), contestant or (), repeat))
    figures = [*(figure or ()), *(workload or ())]
    bench_figures(paper, figures, sizes, output, plots=plots)


def main(arguments: list[str]) -> None:
    """Run ``thetastream bench`` with these arguments; errors are those of the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(bench)
    code = typer.main.get_command(app).main(
        arguments, prog_name="thetastream bench", standalone_mode=False
    )
    if code:
        raise typer.Exit(code)


def _list() -> None:
    from rich.console import Console

    from thetabench.cli.conditions import ABOUT as ABOUT_CONDITIONS
    from thetabench.cli.figures import list_papers
    from thetabench.cli.finite import ABOUT as ABOUT_FINITE
    from thetabench.cli.keys import ABOUT as ABOUT_KEYS
    from thetabench.conditions.contests import CONTESTS
    from thetabench.finite.course import CONTESTANT_NAMES, WORKLOAD_NAMES
    from thetabench.keys.trials import EXPERIMENTS
    from thetabench.peers import PEERS

    console = Console()
    list_papers(console)
    console.print(f"[bold]{FINITE}[/]  {ABOUT_FINITE}", highlight=False)
    console.print(f"  workloads: {', '.join(WORKLOAD_NAMES)}", highlight=False)
    console.print(f"  contestants: {', '.join(CONTESTANT_NAMES)}", highlight=False)
    console.print(f"[bold]{KEYS}[/]  {ABOUT_KEYS}", highlight=False)
    for name, trial in EXPERIMENTS.items():
        console.print(f"  --figure {name:16}{trial.about}", highlight=False)
    console.print(f"[bold]{CONDITIONS}[/]  {ABOUT_CONDITIONS}", highlight=False)
    console.print(f"  workloads: {', '.join(CONTESTS)}", highlight=False)
    console.print(f"contestants: {', '.join(PEERS)}", highlight=False)
