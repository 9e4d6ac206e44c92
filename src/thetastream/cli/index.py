"""``thetastream index`` lists what is registered; ``index calibrate`` measures its costs."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from thetastream.prices.batches import Prices
    from thetastream.prices.constants import Constants


group = typer.Typer()


@group.callback(invoke_without_command=True)
def index(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List the index structures and tactics, with their parameters; or calibrate their costs."""
    if context.invoked_subcommand is not None:
        return
    import thetastream as ts
    from thetastream.index.registry import parameters
    from thetastream.plan.tactics.registry import families

    structures = [
        {
            "name": name,
            "summary": ts.index.structure(name).summary,
            "tactic": ts.Tactic(name).family.name,
            "parameters": {
                each.name: {"type": each.kind, "default": each.default}
                for each in parameters(name).values()
            },
        }
        for name in ts.index.names()
    ]
    tactics = [
        {"name": f.name, "summary": f.summary, "structures": list(f.structures())}
        for f in families()
    ]
    if json:
        typer.echo(json_text.dumps({"structures": structures, "tactics": tactics}, indent=2))
        return
    console = Console()
    console.print(_table("structures", structures, "parameters", _parameters))
    console.print(
        "A structure with a parameter inner takes it after a slash: ptwi/b-tree, "
        "per-term/css-tree, and in a tactic ordered/ptwi/b-tree. Parameters of the inner structure "
        "are options.NAME.\n"
    )
    console.print(
        _table("tactics", tactics, "structures", lambda row: "\n".join(row["structures"]))
    )
    console.print(
        "--tactic takes a tactic, a tactic with a structure, or a structure alone, each with "
        "parameters:\nspo-join(elements=8), panjoin/bi-sort(subwindows=8), pim-tree(depth=3).",
        markup=False,
    )


@group.command()
def calibrate(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A few seconds, small windows only; without it a minute or two."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write here instead of beside the compiled kernels.", dir_okay=False),
    ] = None,
) -> None:
    """Measure the constants of the cost model on this machine, and store them.

    The planner and `thetastream explain` use them from then on. Best on an idle machine.
    """
    from dataclasses import asdict

    from thetastream.calibration.measure import calibrate as measure
    from thetastream.plan.machine import Machine

    machine = asdict(Machine.here())
    constants, path = measure(
        quick=quick, path=output, machine=machine, notice=lambda text: typer.echo(text, err=True)
    )
    if json:
        facts = {"file": str(path), "machine": machine, "constants": constants.as_dict()}
        typer.echo(json_text.dumps(facts, indent=2))
        return
    Console().print(_trees(constants), _batches(constants.batches))
    typer.echo(f"written to {path}")


_WORDS = {
    "search": "λ_b^s, a node of a B⁺-tree",
    "insert": "λ_b^i, a leaf that takes a row",
    "delete": "λ_b^d, a leaf that loses a row",
    "immutable": "λ_ib^s, a node of an immutable tree",
    "compare": "τ_c, a row in a leaf",
    "compare_run": "τ_c, a row in a run",
    "merge": "M, per row of T_S",
    "merge_young": "M, per row of T_I",
    "scan": "a row passed by a nested loop",
    "window": "a tuple, besides its index",
}


def _titled(title: str, first: str, *others: str) -> Table:
    """An empty table; the cells of its first column are not wrapped."""
    table = Table(title=title, title_justify="left")
    table.add_column(first, no_wrap=True)
    for other in others:
        table.add_column(other)
    return table


def _trees(constants: Constants) -> Table:
    per = "by log2 of nodes in the level, or of rows"
    table = _titled("trees: nanoseconds", "constant", "what it is", per)
    for name, word in _WORDS.items():
        value = getattr(constants, name)
        entries = value if isinstance(value, tuple) else ()
        text = "  ".join(f"{size:g}: {cost:g}" for size, cost in entries) or f"{value:g}"
        table.add_row(name, word, text)
    return table


def _batches(prices: Prices) -> Table:
    table = _titled("all others: nanoseconds per step", "price", "what it is")
    table.add_column("here", justify="right")
    table.add_column("default", justify="right")
    from thetastream.prices.batches import WORDS

    usual = type(prices)().as_dict()
    for name, price in prices.as_dict().items():
        table.add_row(name, WORDS[name], f"{price:g}", f"{usual[name]:g}")
    return table


def _parameters(row: dict[str, Any]) -> str:
    """The parameters of a structure, with types and defaults."""
    return "\n".join(
        f"{name}: {known['type']} = {known['default']!r}"
        for name, known in row["parameters"].items()
    )


def _table(
    title: str, rows: list[dict[str, Any]], last: str, text: Callable[[dict[str, Any]], str]
) -> Table:
    table = _titled(title, "name", "what it does", last)
    for row in rows:
        table.add_row(row["name"], row["summary"], escape(text(row)))
    return table
