"""``thetastream relation info | check | compact``: describe, verify and rewrite a relation."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thetastream.cli.progress import WorkLine
from thetastream.cli.tables import bytes_text

if TYPE_CHECKING:
    from thetastream.relation.store import Relation


_FACTS = (
    *("rows", "null_keys", "empty_intervals", "blocks", "leaves", "block_bytes", "fill"),
    *("nbytes", "index_bytes", "version", "generation"),
)


def info(
    path: Annotated[Path, typer.Argument(help="The relation.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show key, columns, rows, blocks and sizes of a relation."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        if json:
            typer.echo(json_text.dumps(facts(relation), indent=2))
        else:
            Console().print(facts_table(relation))


def check(path: Annotated[Path, typer.Argument(help="The relation.")]) -> None:
    """Read every block and verify checksums, key order, index and journal."""
    import thetastream as ts

    report = Console(stderr=True)
    with ts.Relation.open(path) as relation, WorkLine(report) as line:
        line.show(f"reading {bytes_text(relation.nbytes)}")
        relation.check()
        blocks, rows = relation.blocks, relation.rows
    typer.echo(f"sound: {rows:,} rows in {blocks:,} blocks, read in {line.seconds:.2f} s")


def compact(path: Annotated[Path, typer.Argument(help="The relation.")]) -> None:
    """Rewrite the relation in key order and without its journal; joins continue meanwhile."""
    import thetastream as ts

    report = Console(stderr=True)
    with ts.Relation.open(path) as relation, WorkLine(report) as line:
        before = relation.nbytes
        line.show(f"rewriting {bytes_text(before)}")
        relation.compact()
        after = relation.nbytes
    typer.echo(
        f"compacted: {bytes_text(before)} became {bytes_text(after)}, in {line.seconds:.2f} s"
    )


def facts(relation: Relation) -> dict[str, Any]:
    """The facts about a relation, as plain values."""
    schema = relation.schema
    return {
        "path": str(relation.path),
        "key": list(relation.key),
        "columns": {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)},
        **{name: getattr(relation, name) for name in _FACTS},
    }


def facts_table(relation: Relation) -> Table:
    """The facts about a relation as a table."""
    known = facts(relation)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    share = known["index_bytes"] / max(1, known["nbytes"])
    kind = "interval " if len(relation.key) == 2 else ""
    rows = f"{known['rows']:,}"
    if known["null_keys"]:
        rows += f"; {known['null_keys']:,} more had no key and were left out"
    if known["empty_intervals"]:
        rows += f"; {known['empty_intervals']:,} intervals were empty, lo above hi, when built"
    leaves = "" if known["leaves"] == known["blocks"] else f" in {known['leaves']:,} leaves"
    table.add_row("relation", escape(known["path"]))
    table.add_row("key", escape(kind + ", ".join(relation.key)))
    columns = ", ".join(f"{name} {kind}" for name, kind in known["columns"].items())
    table.add_row("columns", escape(columns))
    table.add_row("rows", rows)
    blocks = f"{known['blocks']:,} of {known['block_bytes']:,} bytes{leaves}"
    table.add_row("blocks", f"{blocks}, filled to {known['fill']:.0%} when built")
    table.add_row("on disk", bytes_text(known["nbytes"]))
    table.add_row("in memory", f"{bytes_text(known['index_bytes'])} of index, {share:.2%} of that")
    table.add_row("version", f"{known['version']} (generation {known['generation']})")
    return table
