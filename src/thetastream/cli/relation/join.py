"""``thetastream relation join``: a file or standard input, enriched from a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thetastream.cli.options import BatchRows, Columns, Force, Limit, read_columns
from thetastream.cli.progress import WorkLine, count
from thetastream.cli.tables import bytes_text, delivered, facts_table, phases_text, preview

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream.cli.files import InputFile, Target
    from thetastream.cli.relation.pipe import Pipe, PipeTarget
    from thetastream.relation.join.join import RelationJoin
    from thetastream.relation.join.metrics import RelationMetrics
    from thetastream.relation.store import Relation


EPILOG = """\
Examples:

  thetastream relation join sales.parquet parts.rel --on "l.part = r.part"
  --how left --memory "64 MB" --output enriched.parquet

  thetastream relation join calls.csv tariffs.rel --on "l.number BETWEEN r.lo AND r.hi" --explain

  tail -f sales.csv | thetastream relation join - parts.rel --on "l.part = r.part"
  --deadline "2 s" --output -
"""

STANDARD = Path("-")


def join(
    stream: Annotated[
        Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow file; - for standard input.")
    ],
    path: Annotated[Path, typer.Argument(help="The relation.")],
    *,
    on: Annotated[str, typer.Option(help="The condition: l. is the stream, r. the relation.")],
    how: Annotated[str, typer.Option(help="inner, left, semi or anti.")] = "inner",
    memory: Annotated[str, typer.Option(help="For cache, buffers and index.")] = "64 MB",
    deadline: Annotated[
        str | None, typer.Option(help='How long a row may wait: "2 s"; unlimited without it.')
    ] = None,
    columns: Columns = None,
    suffix: Annotated[
        str, typer.Option(help="Suffix of the relation's columns whose name is taken.")
    ] = "_right",
    batch_rows: BatchRows = 65_536,
    direct: Annotated[
        bool, typer.Option("--direct", help="Read blocks past the system's page cache.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write, - for standard output; a preview without it."
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="What - reads and writes: csv, jsonl or arrows.")
    ] = "csv",
    force: Force = False,
    limit: Limit = 20,
    explain: Annotated[
        bool, typer.Option("--explain", help="At the end, explain how the join was executed.")
    ] = False,
) -> None:
    """Join a file or standard input with a relation.

    Rows are processed as they arrive: with a deadline, rows of standard input are answered in time
    even if nothing else arrives.
    """
    import thetastream as ts
    from thetastream.cli.files import InputFile, Target
    from thetastream.cli.relation.pipe import Pipe, PipeFormat, PipeTarget

    pipe = PipeFormat.of(format_)
    if output not in (None, STANDARD):
        Target.refuse_existing(output, force=force)
    report = Console(stderr=True)
    with ts.Relation.open(path, direct=direct) as relation:
        source = Pipe(0, pipe, batch_rows) if stream == STANDARD else InputFile(stream, batch_rows)
        engine = ts.RelationJoin(
            relation,
            on,
            memory=memory,
            deadline=deadline,
            how=how,
            suffix=suffix,
            columns=read_columns(columns),
            schema=source.schema,
            batch_rows=batch_rows,
        )
        schema = engine.schema
        target: Target | PipeTarget | None = None
        if output == STANDARD:
            target = PipeTarget(typer.get_binary_stream("stdout"), pipe, schema)
        elif output is not None:
            target = Target(output, schema, force=force)
        with WorkLine(report) as line:
            shown = delivered(_run(relation, engine, source, line), target, limit, schema)
        if shown is not None:
            Console().print(preview(shown))
        if explain:
            report.print(
                str(engine.explain(verbose=True)), highlight=False, markup=False, soft_wrap=True
            )
        report.print(summary(engine.metrics(), line.seconds, deadline, output))
        engine.close()


def _run(
    relation: Relation, engine: RelationJoin, source: InputFile | Pipe, line: WorkLine
) -> Iterator[pa.RecordBatch]:
    """Push rows as they arrive, poll when a deadline is near, flush at the end."""

    def show() -> None:
        metrics = engine.metrics()
        line.show(_progress(metrics, source.rows, line.seconds), metrics.rows, source.rows)

    for arrived in _arrivals(source, lambda: engine.due):
        relation.refresh()  # another process may have changed it
        for batch in engine.poll() if arrived is None else engine.push(arrived):
            yield batch
            show()
        show()
    yield from engine.flush()


def _arrivals(
    source: InputFile | Pipe, due: Callable[[], float | None]
) -> Iterator[pa.RecordBatch | None]:
    from thetastream.cli.relation.pipe import Pipe

    return source.arrivals(due) if isinstance(source, Pipe) else iter(source)


def _progress(metrics: RelationMetrics, total: int | None, seconds: float) -> str:
    done = count(metrics.rows) + (f" of {count(total)}" if total else "")
    return (
        f"{done} rows · {count(metrics.matches)} matches · "
        f"{count(metrics.rows / max(seconds, 1e-9))} rows/s · {_share(metrics)} from the cache · "
        f"{count(metrics.waiting_rows)} rows wait"
    )


def _share(metrics: RelationMetrics) -> str:
    questions = metrics.hits + metrics.misses
    return f"{metrics.hits / questions:.1%}" if questions else "nothing"


def summary(
    metrics: RelationMetrics, seconds: float, deadline: str | None, output: Path | None
) -> Table:
    """What the join did: rows, cache, reads, memory, latency, and the time per phase."""
    facts: list[tuple[str, str, str]] = []

    def add(name: str, value: int | str, remark: str = "") -> None:
        facts.append((name, f"{value:,}" if isinstance(value, int) else value, remark))

    add("rows in", metrics.rows)
    if metrics.null_keys:
        add("without a key", metrics.null_keys, "NULL matches nothing")
    add("matches", metrics.matches)
    to_file = output is not None and output != STANDARD
    add("rows out", metrics.output_rows, escape(f"to {output}") if to_file else "")
    add("time", f"{seconds:.2f} s", f"{count(metrics.rows / max(seconds, 1e-9))} rows/s")
    add("from the cache", _share(metrics), f"{metrics.cached_blocks:,} blocks cached")
    phases = f"in {metrics.join_phases:,} join phases, {metrics.seeks:,} seeks"
    add("blocks read", metrics.blocks_read, f"{phases}, {metrics.blocks_wasted:,} not asked for")
    budget = f"at most, of {bytes_text(metrics.budget_bytes)}"
    add("memory", bytes_text(metrics.peak_bytes), budget)
    if metrics.latency_p50 is not None:
        add("latency", f"{metrics.latency_p50:.3g} s", f"median; p99 {metrics.latency_p99:.3g} s")
    if deadline is not None:
        add("deadlines met", metrics.deadlines_met, f"{metrics.deadlines_missed:,} missed")
    spent = {name: metrics[f"{name}_seconds"] for name in ("online", "plan", "io", "join")}
    add("engine", f"{sum(spent.values()):.2f} s", phases_text(spent.items()))
    return facts_table(facts)
