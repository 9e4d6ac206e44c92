"""``thetastream relation info | check | compact``: describe, verify and rewrite a relation."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thetastream.cli.progress import WorkLine
from thetastream.cli.tables import bytes_text

if TYPE_CHECKING:
    from thetastream.relation.files.intervals import IntervalCounts
    from thetastream.relation.store import Relation


_FACTS = (
    *(
        "unique",
        "open_ends",
        "keep_empty",
        "rows",
        "null_keys",
        "empty_intervals",
        "blocks",
        "leaves",
        "block_bytes",
        "fill",
    ),
    *("nbytes", "index_bytes", "journal_bytes", "version", "generation"),
)


def info(
    path: Annotated[Path, typer.Argument(help="The relation.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not read the leaves to count intervals.")
    ] = False,
) -> None:
    """Show key, unique key, columns, rows, intervals, blocks, journal and sizes of a relation.

    Intervals that are open, overlapping or empty are counted by reading every leaf.
    """
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        counts = None
        if relation.is_interval and not quick:
            counts = relation.intervals()
        if json:
            known = facts(relation)
            if counts is not None:
                known["intervals"] = asdict(counts)
            typer.echo(json_text.dumps(known, indent=2))
        else:
            Console().print(facts_table(relation, counts))


def check(path: Annotated[Path, typer.Argument(help="The relation.")]) -> None:
    """Read every block and verify checksums, key order, index and journal."""
    import thetastream as ts

    report = Console(stderr=True)
    with ts.Relation.open(path) as relation, WorkLine(report) as line:
        line.show(f"reading {bytes_text(relation.nbytes)}")
        relation.check()
        blocks, rows = relation.blocks, relation.rows
    typer.echo(f"sound: {rows:,} rows in {blocks:,} blocks, read in {line.seconds:.2f} s")


def diff(
    before: Annotated[Path, typer.Argument(help="The earlier relation, such as a copy.")],
    after: Annotated[Path, typer.Argument(help="The later relation.")],
    rows: Annotated[int, typer.Option(help="How many rows of each kind to print.")] = 5,
) -> None:
    """Show which rows differ between two states of a relation; all rows are held in memory.

    Rows with the same unique key are shown as replaced, others as removed and inserted.
    """
    import thetastream as ts

    with ts.Relation.open(before) as old, ts.Relation.open(after) as new:
        difference = old.difference(new)
    counts = {
        "inserted": difference.inserted,
        "replaced": difference.replaced,
        "removed": difference.removed,
    }
    text = ", ".join(f"{table.num_rows:,} {name}" for name, table in counts.items())
    typer.echo(f"rows: {text}, {difference.unchanged:,} unchanged")
    for sign, table in (("+", difference.inserted), ("-", difference.removed)):
        for row in table.slice(0, rows).to_pylist():
            typer.echo(f"{sign} {row}")
    pairs = zip(difference.replaced.to_pylist(), difference.replacing.to_pylist(), strict=True)
    for old_row, new_row in list(pairs)[:rows]:
        typer.echo(f"- {old_row}\n+ {new_row}")


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
        "key": relation.key,
        "columns": {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)},
        **{name: getattr(relation, name) for name in _FACTS},
    }


def facts_table(relation: Relation, intervals: IntervalCounts | None = None) -> Table:
    """The facts about a relation as a table."""
    known = facts(relation)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    share = known["index_bytes"] / max(1, known["nbytes"])
    kind = "interval " if relation.is_interval else ""
    key = ", ".join(
        part if isinstance(part, str) else f"({', '.join(part)})" for part in known["key"]
    )
    rows = f"{known['rows']:,}"
    if known["null_keys"]:
        rows += f"; {known['null_keys']:,} more had no key and were left out"
    if known["empty_intervals"]:
        rows += f"; {known['empty_intervals']:,} intervals are empty, lo above hi"
    if known["open_ends"]:
        table.add_row("open ends", "NULL is an end that is open")
    if intervals is not None:
        shown = f"{intervals.open:,} open, {intervals.overlapping:,} overlap one before them"
        table.add_row("intervals", f"{shown}, {intervals.empty:,} empty (lo above hi)")
    leaves = "" if known["leaves"] == known["blocks"] else f" in {known['leaves']:,} leaves"
    table.add_row("relation", escape(known["path"]))
    table.add_row("key", escape(kind + key))
    if known["unique"]:
        table.add_row("unique", escape(", ".join(known["unique"])))
    columns = ", ".join(f"{name} {kind}" for name, kind in known["columns"].items())
    table.add_row("columns", escape(columns))
    table.add_row("rows", rows)
    blocks = f"{known['blocks']:,} of {known['block_bytes']:,} bytes{leaves}"
    table.add_row("blocks", f"{blocks}, filled to {known['fill']:.0%} when built")
    table.add_row("on disk", bytes_text(known["nbytes"]))
    table.add_row("in memory", f"{bytes_text(known['index_bytes'])} of index, {share:.2%} of that")
    journal = known["journal_bytes"]
    table.add_row("journal", f"{bytes_text(journal)} of changes" if journal else "empty")
    table.add_row("version", f"{known['version']} (generation {known['generation']})")
    return table
