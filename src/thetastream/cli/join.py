"""``thetastream join``: two files, or one with itself, joined as streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from thetastream.cli.options import (
    By,
    Collect,
    CollectTime,
    Session,
    TacticText,
    Unbounded,
    Workers,
    read_aggregates,
)
from thetastream.cli.progress import ProgressLine
from thetastream.cli.tables import preview, summary
from thetastream.cli.windows import WindowOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream import StreamJoin
    from thetastream.cli.feed import Push
    from thetastream.cli.files import InputFile
    from thetastream.side import Side


EPILOG = """\
Examples:

  thetastream join trades.parquet quotes.parquet --on "abs(l.price - r.price) <= 0.05"
  --window "10 minutes" --time t --lateness "5 s" --how left --output matched.parquet

  thetastream join trips.csv --on "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10" --count 100000

  thetastream join cars.parquet reports.parquet --on "l.segment = r.segment" --window "5 minutes"
  --time t --aggregate "n=count" --aggregate "avg=mean(r.speed)"
"""


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(name="join", epilog=EPILOG)(join)


def join(
    left: Annotated[Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow file.")],
    right: Annotated[
        Path | None, typer.Argument(help="The other stream; without it LEFT joins itself.")
    ] = None,
    *,
    on: Annotated[str, typer.Option(help="The condition, over l. and r.")],
    window: Annotated[
        str | None, typer.Option(help='Time window: "10 minutes", or one per side: "1 h,5 min".')
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Event time column, or one per side: t,sent_at.")
    ] = None,
    lateness: Annotated[
        str | None, typer.Option(help='How late a row may come: "5 s". Later ones are dropped.')
    ] = None,
    count: Annotated[
        str | None, typer.Option(help="Count window: 1000, or one per side: 1000,500.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Column of arrival ranks for --count, or one per side.")
    ] = None,
    slide: Annotated[
        str | None, typer.Option(help="Rows leave at multiples of this only; exact without it.")
    ] = None,
    session: Session = None,
    by: By = None,
    unbounded: Unbounded = False,
    how: Annotated[str, typer.Option(help="inner, left, right, full, semi or anti.")] = "inner",
    columns: Annotated[
        str | None, typer.Option(help="Output columns to keep, comma-separated; all without it.")
    ] = None,
    suffix: Annotated[
        str, typer.Option(help="Ending of right columns whose name is taken.")
    ] = "_right",
    give: Annotated[
        str, typer.Option(help="rows; pairs of row numbers; or count, of each row's matches.")
    ] = "rows",
    aggregate: Annotated[
        list[str] | None,
        typer.Option(
            help='Give one row per left row, with aggregates of its matches: "n=count", '
            '"avg=mean(r.speed)"; count, sum, min, max or mean. May be given several times.'
        ),
    ] = None,
    tactic: TacticText = "auto",
    workers: Workers = 1,
    collect: Collect = None,
    collect_time: CollectTime = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads for the probes.")] = 1,
    batch_rows: Annotated[
        int, typer.Option(min=1, help="Rows read per push, and rows per output batch.")
    ] = 65_536,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; a preview without it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Rows of the preview.")] = 20,
) -> None:
    """Join two files as streams, in the order in which their rows would have come."""
    import thetastream as ts
    from thetastream.cli.files import InputFile, Target
    from thetastream.errors import OptionError
    from thetastream.output_mode import Output
    from thetastream.side import Side

    asked = read_aggregates(aggregate)
    options = WindowOptions(
        window=window,
        time=time,
        lateness=lateness,
        count=count,
        order=order,
        slide=slide,
        session=session,
        by=by,
        unbounded=unbounded,
    )
    answer = Output.of(give)
    if answer is Output.RANGES:
        raise OptionError(
            "ranges point into the memory of a running join, so they are for programs only; use "
            "--give count or --give pairs"
        )
    if output is not None:
        Target.refuse_existing(output, force=force)
    sources = {Side.LEFT: InputFile(left, batch_rows)}
    if right is not None:
        sources[Side.RIGHT] = InputFile(right, batch_rows)
    schemas = [source.schema for source in sources.values()]
    kept = [name.strip() for name in columns.split(",")] if columns else None
    engine = ts.StreamJoin(
        on,
        window=options.build(),
        how=how,
        tactic=tactic,
        workers=workers,
        collect=collect,
        collect_time=collect_time,
        suffix=suffix,
        self_join=right is None,
        threads=threads,
        batch_rows=batch_rows,
        columns=kept,
        schemas=(schemas[0], schemas[-1]),
        output=answer,
        aggregate=asked,
    )
    schema = engine.schema
    report = Console(stderr=True)
    with ProgressLine(report, _total(sources)) as line:
        rows = run(engine, _pushes(sources, options), line)
        if output is not None:
            with Target(output, schema, force=force) as target:
                for batch in rows:
                    target.write(batch)
        else:
            shown = _first(rows, limit, schema)
    if output is None:
        Console().print(preview(shown))
    report.print(summary(engine.metrics(), line, output))


def run(engine: StreamJoin, pushes: Iterator[Push], line: ProgressLine) -> Iterator[pa.RecordBatch]:
    """Push everything, flush, and yield the output while the progress line moves."""
    for push in pushes:
        for batch in engine.push(**push):
            yield batch
            line.show(engine.metrics())
        line.show(engine.metrics())
    yield from engine.flush()
    line.end(engine.metrics())


def _first(rows: Iterator[pa.RecordBatch], limit: int, schema: pa.Schema) -> pa.Table:
    """Read all rows, keep the first ones."""
    import pyarrow as pa

    shown: list[pa.RecordBatch] = []
    for batch in rows:
        if limit > 0:
            shown.append(batch.slice(0, limit))
            limit -= shown[-1].num_rows
    return pa.Table.from_batches(shown, schema)


def _pushes(sources: dict[Side, InputFile], options: WindowOptions) -> Iterator[Push]:
    from thetastream.cli import feed

    column = options.time or options.order
    if column is None or len(sources) == 1:
        return feed.alternate(sources)
    return feed.in_step(sources, options.per_side(column))


def _total(sources: dict[Side, InputFile]) -> int | None:
    rows = [source.rows for source in sources.values()]
    return None if None in rows else sum(row for row in rows if row is not None)
