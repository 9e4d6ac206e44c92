"""``thetastream join``: two files, or one with itself, joined as streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from thetastream.cli import options
from thetastream.cli.progress import ProgressLine
from thetastream.cli.tables import delivered, preview, summary
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
    window: options.WindowText = None,
    time: options.Time = None,
    lateness: options.Lateness = None,
    count: Annotated[
        str | None, typer.Option(help="Count window: 1000, or one per side: 1000,500.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Column of arrival ranks for --count, or one per side.")
    ] = None,
    slide: options.Slide = None,
    session: options.Session = None,
    by: options.By = None,
    unbounded: options.Unbounded = False,
    how: options.HowText = "inner",
    columns: options.Columns = None,
    suffix: Annotated[
        str, typer.Option(help="Suffix of right columns whose name is taken.")
    ] = "_right",
    give: Annotated[
        str, typer.Option(help="rows; pairs of row numbers; or count, of each row's matches.")
    ] = "rows",
    aggregate: options.Aggregate = None,
    tactic: options.TacticText = "auto",
    workers: options.Workers = 1,
    collect: options.Collect = None,
    collect_time: options.CollectTime = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads for the probes.")] = 1,
    batch_rows: options.BatchRows = 65_536,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; a preview without it.")
    ] = None,
    force: options.Force = False,
    limit: options.Limit = 20,
) -> None:
    """Join two files as streams, in the order in which their rows would have arrived."""
    import thetastream as ts
    from thetastream.cli.files import InputFile, Target
    from thetastream.errors import OptionError
    from thetastream.output_mode import Output
    from thetastream.side import Side

    aggregates = options.read_aggregates(aggregate)
    limits = WindowOptions(window, time, lateness, count, order, slide, session, by, unbounded)
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
        window=limits.build(),
        how=how,
        tactic=tactic,
        workers=workers,
        collect=collect,
        collect_time=collect_time,
        suffix=suffix,
        self_join=right is None,
        threads=threads,
        batch_rows=batch_rows,
        columns=options.read_columns(columns),
        schemas=(schemas[0], schemas[-1]),
        output=answer,
        aggregate=aggregates,
    )
    schema = engine.schema
    report = Console(stderr=True)
    target = None if output is None else Target(output, schema, force=force)
    with ProgressLine(report, _total(sources)) as line:
        shown = delivered(run(engine, _pushes(sources, limits), line), target, limit, schema)
    if shown is not None:
        Console().print(preview(shown))
    report.print(summary(engine.metrics(), line, output))


def run(engine: StreamJoin, pushes: Iterator[Push], line: ProgressLine) -> Iterator[pa.RecordBatch]:
    """Push everything, flush, and yield the output, updating the progress line."""
    for push in pushes:
        for batch in engine.push(**push):
            yield batch
            line.follow(engine.metrics())
        line.follow(engine.metrics())
    yield from engine.flush()
    line.end(engine.metrics())


def _pushes(sources: dict[Side, InputFile], limits: WindowOptions) -> Iterator[Push]:
    from thetastream.cli import feed

    column = limits.time or limits.order
    if column is None or len(sources) == 1:
        return feed.alternate(sources)
    return feed.in_step(sources, limits.per_side(column))


def _total(sources: dict[Side, InputFile]) -> int | None:
    rows = [source.rows for source in sources.values()]
    known = [row for row in rows if row is not None]
    return sum(known) if len(known) == len(rows) else None
