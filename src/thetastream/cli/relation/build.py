"""``thetastream relation build``: turns files into a table on disk, in key order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from thetastream.cli.progress import WorkLine, count

if TYPE_CHECKING:
    from thetastream.relation.files.build import Progress


EPILOG = """\
Examples:

  thetastream relation build parts.parquet parts.rel --key part

  thetastream relation build tariffs-1.csv tariffs-2.csv tariffs.rel --key lo,hi --fill 0.9

  thetastream relation build tariffs-1.csv current.rel --key lo,hi --unique lo --open-ends

  thetastream relation build tariffs-1.csv by-name.rel --key "tariff,(lo,hi)"

  thetastream relation build customers/ customers.rel --key id --memory "1 GB" --force
"""


def build(
    sources: Annotated[
        list[Path], typer.Argument(help="Parquet, CSV or Arrow files, or folders of them.")
    ],
    out: Annotated[Path, typer.Argument(help="The relation: a folder to create or replace.")],
    *,
    key: Annotated[
        list[str],
        typer.Option(
            help="The key column; lo,hi (or --key twice) for rows that are intervals; "
            "region,(day) or region,(lo,hi) with columns compared by equality in front."
        ),
    ],
    unique: Annotated[
        list[str] | None,
        typer.Option(help="Columns whose values no two rows share: region,valid_from."),
    ] = None,
    open_ends: Annotated[
        bool | None,
        typer.Option(
            "--open-ends/--no-open-ends",
            help="Whether a NULL end of an interval means no end, or that the row is left out.",
        ),
    ] = None,
    keep_empty: Annotated[
        bool, typer.Option("--keep-empty", help="Keep intervals that end before they begin.")
    ] = False,
    block_bytes: Annotated[int, typer.Option(help="Size of a block.")] = 8192,
    fill: Annotated[
        float, typer.Option(help="Share of a block to fill; the rest is room for updates.")
    ] = 0.8,
    memory: Annotated[
        str, typer.Option(help="For sorting; a larger source is sorted on disk.")
    ] = "256 MB",
    replace: Annotated[
        bool, typer.Option("--replace", "--force", help="Replace an existing relation.")
    ] = False,
) -> None:
    """Sort rows by key into blocks on disk, with a sparse index and checksums.

    The source may be larger than memory. The relation appears once everything is written; an
    existing one remains readable until then, and for open readers after that.
    """
    import thetastream as ts
    from thetastream.cli.relation.info import facts_table
    from thetastream.errors import RelationError
    from thetastream.relation.files.folder import Folder

    if Folder(out).exists() and not replace:
        raise RelationError(f"{str(out)!r} exists; pass --replace to replace it")
    report = Console(stderr=True)
    with WorkLine(report) as line:

        def show(done: Progress) -> None:
            line.show(_stage(done, line.seconds), _part(done), 1.0 if done.total else None)

        relation = ts.Relation.build(
            out,
            sources[0] if len(sources) == 1 else sources,
            key=read_key(key),
            unique=read_names(unique) or None,
            open_ends=open_ends,
            keep_empty=keep_empty,
            block_bytes=block_bytes,
            fill=fill,
            replace=replace,
            memory=memory,
            progress=show,
        )
    with relation:
        report.print(facts_table(relation))
        speed = relation.rows / max(line.seconds, 1e-9)
        report.print(f"built in {line.seconds:.2f} s, {count(speed)} rows/s", highlight=False)


def _stage(done: Progress, seconds: float) -> str:
    """The stage of a build: rows read, then written."""
    what, rows = ("written", done.written) if done.written else ("read", done.read)
    total = f" of {count(done.total)}" if done.total else ""
    return f"{what} {count(rows)}{total} rows · {seconds:.0f} s"


def _part(done: Progress) -> float:
    """The finished share of a build: reading and writing count half each."""
    return (done.read + done.written) / (2 * done.total) if done.total else 0.0


def read_names(texts: list[str] | None) -> list[str]:
    """Names of columns, separated by commas or in several options.

    >>> read_names(["region, day"]), read_names(["region", "day"]), read_names(None)
    (['region', 'day'], ['region', 'day'], [])
    """
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def read_key(names: list[str]) -> str | tuple[Any, ...]:
    """One key column, two of an interval, or either of these after columns compared by equality.

    >>> read_key(["part"]), read_key(["lo, hi"]), read_key(["lo", "hi"])
    ('part', ('lo', 'hi'), ('lo', 'hi'))
    >>> read_key(["region, (lo, hi)"])
    ('region', ('lo', 'hi'))
    """
    from thetastream.errors import RelationError

    behind = re.fullmatch(r"\s*([^()]+),\s*\(([^()]+)\)\s*", ",".join(names))
    if behind is not None:
        front, ordered = (read_names([group]) for group in behind.groups())
        return (*front, tuple(ordered))

    parts = [part.strip() for name in names for part in name.split(",")]
    if not 1 <= len(parts) <= 2 or not all(parts):
        raise RelationError(
            f"a relation has one key column, or two of an interval (--key lo,hi), also after "
            f"others (--key 'region,(lo,hi)'); got --key {' --key '.join(names)}"
        )
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])
