"""``thetastream index``: the structures and tactics that are registered."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["index", "register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(name="index")(index)


def index(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List the index structures and tactics, with their parameters."""
    import thetastream as ts
    from thetastream.tactic import tactic_summary

    structures = [
        {
            "name": name,
            "summary": ts.index.structure(name).summary,
            "parameters": ts.index.create(name).parameters,
        }
        for name in ts.index.names()
    ]
    tactics = [{"name": name, "summary": tactic_summary(name)} for name in ts.tactics()]
    if json:
        typer.echo(json_text.dumps({"structures": structures, "tactics": tactics}, indent=2))
        return
    console = Console()
    console.print(_table("structures", structures))
    console.print(_table("tactics", tactics))


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    table.add_column("parameters")
    for row in rows:
        parameters = row.get("parameters", {})
        text = "\n".join(f"{name} = {value}" for name, value in parameters.items())
        table.add_row(row["name"], row["summary"], text)
    return table
