"""Results on a terminal: a preview of rows and a summary of counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from thetastream.cli.progress import ProgressLine, count

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream import Metrics
    from thetastream.cli.files import Target
    from thetastream.cli.relation.pipe import PipeTarget


def preview(rows: pa.Table | pa.RecordBatch, title: str | None = None) -> Table:
    """A table of a few rows."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in rows.schema.names:
        table.add_column(escape(name), overflow="fold")
    for row in zip(*(_texts(column) for column in rows.columns), strict=True):
        table.add_row(*map(escape, row))
    return table


def delivered(
    rows: Iterator[pa.RecordBatch],
    target: Target | PipeTarget | None,
    limit: int,
    schema: pa.Schema,
) -> pa.Table | None:
    """Write all rows to the target; without one, return the first ``limit`` of them."""
    import pyarrow as pa

    if target is not None:
        with target:
            for batch in rows:
                target.write(batch)
        return None
    shown: list[pa.RecordBatch] = []
    for batch in rows:
        if limit > 0:
            shown.append(batch.slice(0, limit))
            limit -= shown[-1].num_rows
    return pa.Table.from_batches(shown, schema)


def facts_table(facts: Iterable[tuple[str, str, str]]) -> Table:
    """A table of facts: name, value and remark."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for fact in facts:
        table.add_row(*fact)
    return table


def summary(metrics: Metrics, line: ProgressLine, output: Path | None = None) -> Table:
    """What the join did: rows in and out, late rows, the window, the time per phase."""
    seconds = line.seconds
    speed = f"{count(metrics.rows / max(seconds, 1e-9))} rows/s"
    facts = [
        ("rows in", f"{metrics.rows:,}", f"in {metrics.pushes:,} pushes"),
        ("matches", f"{metrics.matches:,}", ""),
        ("rows out", f"{metrics.output_rows:,}", _to(output)),
    ]
    if metrics.dropped:
        facts.append(
            ("late rows", f"{metrics.dropped:,}", "dropped: older than the lateness allows")
        )
    window = f"rows at most, {bytes_text(metrics.peak_bytes)}"
    phases = ("keys", "sort", "probe", "insert", "merge", "expire", "gather")
    spent = {phase: metrics[f"{phase}_seconds"] for phase in phases}
    facts += [
        ("time", f"{seconds:.2f} s", speed),
        ("window", f"{line.most_window_rows:,}", window),
        ("engine", f"{sum(spent.values()):.2f} s", phases_text(spent.items())),
    ]
    return facts_table(facts)


def table_summary(metrics: Metrics, seconds: float, output: Path | None = None) -> Table:
    """What a join of two tables did."""
    spent = {phase: metrics[f"{phase}_seconds"] for phase in ("keys", "sort", "probe", "gather")}
    return facts_table(
        [
            ("rows in", f"{metrics.rows:,}", ""),
            ("matches", f"{metrics.matches:,}", ""),
            ("rows out", f"{metrics.output_rows:,}", _to(output)),
            ("time", f"{seconds:.2f} s", phases_text(spent.items())),
        ]
    )


def _to(output: Path | None) -> str:
    """Where rows were written; "-" is standard output."""
    if output is None:
        return ""
    return "to standard output" if str(output) == "-" else escape(f"to {output}")


def bytes_text(size: float) -> str:
    """A number of bytes with a unit.

    >>> bytes_text(512), bytes_text(3_500_000)
    ('512 B', '3.5 MB')
    """
    for unit_size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit_size:
            return f"{size / unit_size:.1f} {unit}"
    return f"{size:.0f} B"


def phases_text(spent: Iterable[tuple[str, float]]) -> str:
    """The phases that took any time, longest first."""
    ranked = sorted(spent, key=lambda phase: -phase[1])
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in ranked if seconds >= 0.005)


def _texts(column: pa.Array | pa.ChunkedArray) -> list[str]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.string())  # nanoseconds have no Python value
    return ["" if value is None else str(value) for value in column.to_pylist()]
