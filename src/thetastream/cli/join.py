"""``thetastream join``: two files, or one with itself, joined as streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from thetastream.cli.options import (
    Aggregate,
    BatchRows,
    By,
    Collect,
    CollectTime,
    Columns,
    Force,
    HowText,
    Lateness,
    Limit,
    Session,
    Slide,
    TacticText,
    Time,
    Unbounded,
    WindowText,
    Workers,
    read_aggregates,
    read_columns,
)
from thetastream.cli.progress import ProgressLine
from thetastream.cli.tables import first_rows, preview, summary
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


def join(
    left: Annotated[Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow file.")],
    right: Annotated[
        Path | None, typer.Argument(help="The other stream; without it LEFT joins itself.")
    ] = None,
    *,
    on: Annotated[str, typer.Option(help="The condition, over l. and r.")],
    window: WindowText = None,
    time: Time = None,
    lateness: Lateness = None,
    count: Annotated[
        str | None, typer.Option(help="Count window: 1000, or one per side: 1000,500.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Column of arrival ranks for --count, or one per side.")
    ] = None,
    slide: Slide = None,
    session: Session = None,
    by: By = None,
    unbounded: Unbounded = False,
    how: HowText = "inner",
    columns: Columns = None,
    suffix: Annotated[
        str, typer.Option(help="Suffix of right columns whose name is taken.")
    ] = "_right",
    give: Annotated[
        str, typer.Option(help="rows; pairs of row numbers; or count, of each row's matches.")
    ] = "rows",
    aggregate: Aggregate = None,
    tactic: TacticText = "auto",
    workers: Workers = 1,
    collect: Collect = None,
    collect_time: CollectTime = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads for the probes.")] = 1,
    batch_rows: BatchRows = 65_536,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; a preview without it.")
    ] = None,
    force: Force = False,
    limit: Limit = 20,
) -> None:
    """Join two files as streams, in the order in which their rows would have arrived."""
    import thetastream as ts
    from thetastream.cli.files import InputFile, Target
    from thetastream.errors import OptionError
    from thetastream.output_mode import Output
    from thetastream.side import Side

    aggregates = read_aggregates(aggregate)
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
        columns=read_columns(columns),
        schemas=(schemas[0], schemas[-1]),
        output=answer,
        aggregate=aggregates,
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
            shown = first_rows(rows, limit, schema)
    if output is None:
        Console().print(preview(shown))
    report.print(summary(engine.metrics(), line, output))


def run(engine: StreamJoin, pushes: Iterator[Push], line: ProgressLine) -> Iterator[pa.RecordBatch]:
    """Push everything, flush, and yield the output, updating the progress line."""
    for push in pushes:
        for batch in engine.push(**push):
            yield batch
            line.show(engine.metrics())
        line.show(engine.metrics())
    yield from engine.flush()
    line.end(engine.metrics())


def _pushes(sources: dict[Side, InputFile], options: WindowOptions) -> Iterator[Push]:
    from thetastream.cli import feed

    column = options.time or options.order
    if column is None or len(sources) == 1:
        return feed.alternate(sources)
    return feed.in_step(sources, options.per_side(column))


def _total(sources: dict[Side, InputFile]) -> int | None:
    rows = [source.rows for source in sources.values()]
    known = [row for row in rows if row is not None]
    return sum(known) if len(known) == len(rows) else None
