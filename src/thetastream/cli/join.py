"""``thetastream join``: two files, or one with itself, joined as streams or as tables.

With a window the rows of both files are pushed as if they were live streams; without one, the files
are finite tables, and each row meets every row of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from thetastream.cli import options
from thetastream.cli.progress import ProgressLine, Stopwatch
from thetastream.cli.tables import delivered, preview, summary, table_summary
from thetastream.cli.windows import WindowOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream import StreamJoin
    from thetastream.cli.feed import Push
    from thetastream.cli.files import InputFile, Target
    from thetastream.cli.relation.pipe import PipeFormat, PipeInput, PipeTarget
    from thetastream.output_mode import Output
    from thetastream.side import Side
    from thetastream.tables.finite import FiniteJoin

STANDARD = Path("-")

EPILOG = """\
Examples:

  thetastream join points.parquet ranges.csv "l.x BETWEEN r.low AND r.high"

  thetastream join trades.parquet quotes.parquet --on "abs(l.price - r.price) <= 0.05"
  --window "10 minutes" --time t --lateness "5 s" --how left --output matched.parquet

  thetastream join trips.csv --on "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10" --count 100000

  thetastream join cars.parquet reports.parquet --on "l.segment = r.segment" --window "5 minutes"
  --time t --aggregate "n=count" --aggregate "avg=mean(r.speed)"
"""


def join(
    left: Annotated[
        Path,
        typer.Argument(
            help="Parquet, CSV, JSON lines or Arrow file, a folder of them, - for standard input."
        ),
    ],
    right: Annotated[
        Path | None, typer.Argument(help="The other side; without it LEFT joins itself.")
    ] = None,
    condition: Annotated[
        str | None, typer.Argument(help="The condition, over l. and r.; the same as --on.")
    ] = None,
    *,
    on: Annotated[str | None, typer.Option(help="The condition, over l. and r.")] = None,
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
    parallel: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Join row by row, in the order of pushes, with this many threads that share "
            "the indexes; 0 for one without locks.",
        ),
    ] = None,
    batch_rows: options.BatchRows = 65_536,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write, - for standard output; a preview without it."
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="What - reads and writes: csv, jsonl or arrows.")
    ] = "csv",
    force: options.Force = False,
    limit: options.Limit = 20,
) -> None:
    """Join two files: as tables, or as streams if there is a window.

    Streams are pushed in the order in which their rows would have arrived.
    """
    import thetastream as ts
    from thetastream.cli.files import Target
    from thetastream.cli.relation.pipe import PipeFormat
    from thetastream.errors import OptionError
    from thetastream.output_mode import Output
    from thetastream.side import Side

    on = _condition(on, condition, right)
    pipe = PipeFormat.of(format_)
    aggregates = options.read_aggregates(aggregate)
    limits = WindowOptions(window, time, lateness, count, order, slide, session, by, unbounded)
    answer = Output.of(give)
    if answer is Output.RANGES:
        raise OptionError(
            "ranges point into the memory of a running join, so they are for programs only; use "
            "--give count or --give pairs"
        )
    if output not in (None, STANDARD):
        Target.refuse_existing(output, force=force)
    if left == right == STANDARD:
        raise OptionError("- is standard input, which only one side can read")
    sources = {Side.LEFT: _source(left, batch_rows, pipe)}
    if right is not None:
        sources[Side.RIGHT] = _source(right, batch_rows, pipe)
    report = Console(stderr=True)
    if limits.none:
        _refuse_streaming(
            workers=workers, collect=collect, collect_time=collect_time, parallel=parallel
        )
        result = _tables(
            list(sources.values()),
            on,
            how,
            suffix=suffix,
            columns=options.read_columns(columns),
            tactic=tactic,
            threads=threads,
            output=answer,
            aggregate=aggregates,
            batch_rows=batch_rows,
        )
        with Stopwatch(None) as watch:
            target = _target(output, result.schema, pipe, force=force)
            shown = delivered(result, target, limit, result.schema)
        if shown is not None:
            Console().print(preview(shown))
        report.print(table_summary(result.metrics(), watch.seconds, output))
        return
    schemas = [source.schema for source in sources.values()]
    shared: dict[str, Any] = {
        "window": limits.build(),
        "suffix": suffix,
        "self_join": right is None,
        "batch_rows": batch_rows,
        "columns": options.read_columns(columns),
        "schemas": (schemas[0], schemas[-1]),
        "output": answer,
    }
    batched: dict[str, Any] = {
        "how": how,
        "workers": workers,
        "collect": collect,
        "collect_time": collect_time,
        "threads": threads,
        "aggregate": aggregates,
    }
    if parallel is None:
        engine = ts.StreamJoin(on, tactic=tactic, **shared, **batched)
    else:
        _refuse_batched(batched)
        structure = None if tactic == "auto" else tactic
        engine = ts.ParallelJoin(on, tactic=structure, threads=parallel, **shared)
    schema = engine.schema
    target = _target(output, schema, pipe, force=force)
    with ProgressLine(report, _total(sources)) as line:
        shown = delivered(run(engine, _pushes(sources, limits), line), target, limit, schema)
    if shown is not None:
        Console().print(preview(shown))
    report.print(summary(engine.metrics(), line, output))


def _condition(option: str | None, argument: str | None, right: Path | None) -> str:
    """The condition, given once, in either place; ``right`` is no condition, but may look so."""
    if option is not None and argument is not None:
        raise typer.BadParameter("pass the condition once: as third argument, or with --on")
    condition = argument if option is None else option
    if condition is None and right is not None and _reads_like_one(right):
        raise typer.BadParameter(
            f"{str(right)!r} is where the other file stands; to join a file with itself, pass the "
            "condition with --on"
        )
    if condition is None:
        raise typer.BadParameter(
            "the condition is missing: pass it as third argument or with --on, such as "
            '--on "abs(l.x - r.x) <= 1"'
        )
    return condition


def _reads_like_one(right: Path) -> bool:
    """Whether what stands for a file is rather a condition."""
    return not right.exists() and all(alias in str(right) for alias in ("l.", "r."))


def _source(path: Path, batch_rows: int, format_: PipeFormat) -> InputFile | PipeInput:
    from thetastream.cli.files import InputFile
    from thetastream.cli.relation.pipe import PipeInput

    if path == STANDARD:
        return PipeInput(0, format_, batch_rows)
    return InputFile(path, batch_rows).typed()


def _target(
    output: Path | None, schema: pa.Schema, format_: PipeFormat, *, force: bool
) -> Target | PipeTarget | None:
    from thetastream.cli.files import Target
    from thetastream.cli.relation.pipe import PipeTarget

    if output is None:
        return None
    if output == STANDARD:
        return PipeTarget(typer.get_binary_stream("stdout"), format_, schema)
    return Target(output, schema, force=force)


def _refuse_streaming(*, workers: int, **collected: object) -> None:
    """Options that only a join of streams has."""
    given = [name for name, value in collected.items() if value is not None]
    given += ["workers"] if workers > 1 else []
    if given:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise typer.BadParameter(
            f"{names} belongs to joins of streams: pass a window too, such as --unbounded"
        )


def _refuse_batched(given: dict[str, Any]) -> None:
    """Options that a join row by row does not have."""
    plain = {"how": "inner", "workers": 1, "threads": 1}
    names = [name for name, value in given.items() if value not in (None, plain.get(name))]
    if names:
        told = " and ".join(f"--{name.replace('_', '-')}" for name in names)
        raise typer.BadParameter(
            f"{told} cannot be combined with --parallel, which makes inner joins row by row; leave "
            "one of them out"
        )


def _tables(
    sources: Sequence[InputFile | PipeInput],
    on: str,
    how: str,
    *,
    output: Output,
    batch_rows: int,
    **options: Any,
) -> FiniteJoin:
    """The join of files as finite tables; their lengths are known if the format records them.

    A single one is read once, and is both sides.
    """
    import thetastream as ts
    from thetastream.data.frames import FrameKind, RowSource

    rows = [RowSource(one.schema, iter(one), FrameKind.ARROW, one.rows) for one in sources]
    left, right = rows if len(rows) > 1 else [rows[0].read_all()] * 2
    return ts.join_iter(left, right, on, how, output=output, batch_rows=batch_rows, **options)


def run(engine: StreamJoin, pushes: Iterator[Push], line: ProgressLine) -> Iterator[pa.RecordBatch]:
    """Push everything, flush, and yield the output, updating the progress line."""
    for push in pushes:
        for batch in engine.push(**push):
            yield batch
            line.follow(engine.metrics())
        line.follow(engine.metrics())
    yield from engine.flush()
    line.end(engine.metrics())


def _pushes(sources: dict[Side, InputFile | PipeInput], limits: WindowOptions) -> Iterator[Push]:
    from thetastream.cli import feed

    column = limits.time or limits.order
    if column is None or len(sources) == 1:
        return feed.alternate(sources)
    return feed.in_step(sources, limits.per_side(column))


def _total(sources: dict[Side, InputFile | PipeInput]) -> int | None:
    rows = [source.rows for source in sources.values()]
    known = [row for row in rows if row is not None]
    return sum(known) if len(known) == len(rows) else None
