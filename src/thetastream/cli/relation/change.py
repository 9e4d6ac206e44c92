"""``thetastream relation insert | update | delete``: change a relation by rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pyarrow as pa


Target = Annotated[Path, typer.Argument(help="The relation.")]
Rows = Annotated[Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow file.")]

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


def insert(path: Target, source: Rows) -> None:
    """Insert the rows of a file, all of them or none; running joins see them from then on."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        typer.echo(f"inserted {relation.insert(_rows(source, relation.schema)):,} rows")


def update(
    path: Target,
    source: Rows,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Insert rows whose key is missing.")
    ] = False,
) -> None:
    """Replace the rows with the same keys as those of a file, all of them or none."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        rows = _rows(source, relation.schema)
        typer.echo(f"updated {relation.update(rows, upsert=upsert):,} rows")


def delete(
    path: Target,
    source: Annotated[
        Path | None,
        typer.Argument(help="A file with the key column; other columns are ignored."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help='Only rows for which this holds: "r.price = 0".')
    ] = None,
) -> None:
    """Delete the rows whose key is in a file, or that meet a condition; all of them or none."""
    import thetastream as ts

    with ts.Relation.open(path) as relation:
        keys = None if source is None else _rows(source, relation.schema)
        typer.echo(f"deleted {relation.delete(keys, where=where):,} rows")


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
