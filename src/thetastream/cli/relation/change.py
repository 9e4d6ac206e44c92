"""``thetastream relation insert | update | delete``: change a relation by rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream.relation.change.counts import ChangeCounts


Target = Annotated[Path, typer.Argument(help="The relation.")]
Rows = Annotated[Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow file.")]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print what would be put in, replaced and removed.")
]

INSERT_EPILOG = """\
Example:

  thetastream relation insert parts.rel new-parts.csv
"""
UPDATE_EPILOG = """\
Example:

  thetastream relation update parts.rel prices.csv --upsert
"""
DELETE_EPILOG = """\
Examples:

  thetastream relation delete parts.rel gone.csv

  thetastream relation delete parts.rel --where "r.price = 0"
"""


def insert(path: Target, source: Rows, dry_run: DryRun = False) -> None:
    """Insert the rows of a file, all of them or none; running joins see them from then on."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        rows = _rows(source, relation.schema)
        _say("inserted", relation.insert(rows, dry_run=dry_run), dry_run)


def update(
    path: Target,
    source: Rows,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Insert rows whose key is missing.")
    ] = False,
    replace_key: Annotated[
        bool,
        typer.Option("--replace-key", help="Replace all rows of a key, even if fewer are passed."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Replace the rows with the same keys as those of a file, all of them or none.

    Rows are found by the unique key, if the relation was built with one.
    """
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        rows = _rows(source, relation.schema)
        counts = relation.update(rows, upsert=upsert, replace_key=replace_key, dry_run=dry_run)
        _say("updated", counts, dry_run)


def delete(
    path: Target,
    source: Annotated[
        Path | None,
        typer.Argument(help="A file with the key column; other columns are ignored."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help='Only rows for which this holds: "r.price = 0".')
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the rows whose key is in a file, or that meet a condition; all of them or none."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        keys = None if source is None else _rows(source, relation.schema)
        _say("deleted", relation.delete(keys, where=where, dry_run=dry_run), dry_run)


def _say(what: str, counts: ChangeCounts, dry_run: bool) -> None:
    """Print what a change did, or would do."""
    if dry_run:
        typer.echo(f"dry run, nothing was changed; it would be: {counts}")
        return
    several = counts.replaced > 0 or (counts.removed > 0 and counts.inserted > 0)
    typer.echo(f"{what} {int(counts):,} rows" + (f": {counts}" if several else ""))


def _rows(source: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a file in the relation's types; CSV and JSON know only a few types."""
    import pyarrow as pa

    from thetastream.cli.files import InputFile
    from thetastream.errors import DataError

    file = InputFile(source, 65_536)
    rows = pa.Table.from_batches(list(file), file.schema)
    for at, (name, kind) in enumerate(zip(file.schema.names, file.schema.types, strict=True)):
        wanted = schema.field(name).type if name in schema.names else kind
        if kind != wanted:
            try:
                rows = rows.set_column(at, name, rows.column(at).cast(wanted))
            except pa.ArrowException as error:
                raise DataError(
                    f"column {name!r} of {str(source)!r} is {kind}, that of the relation {wanted}: "
                    f"{str(error).splitlines()[0]}"
                ) from error
    return rows
