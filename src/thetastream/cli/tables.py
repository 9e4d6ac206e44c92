"""Results on a terminal: a preview of rows and a summary of the counters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from thetastream.cli.progress import ProgressLine, count

if TYPE_CHECKING:
    import pyarrow as pa

    from thetastream import Metrics


def preview(rows: pa.Table | pa.RecordBatch, title: str | None = None) -> Table:
    """A table of a few rows."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in rows.schema.names:
        table.add_column(escape(name), overflow="fold")
    for row in zip(*(_texts(column) for column in rows.columns), strict=True):
        table.add_row(*map(escape, row))
    return table


def summary(metrics: Metrics, line: ProgressLine, output: Path | None = None) -> Table:
    """What the join did: rows in and out, late rows, the window, where the time went."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")

    def add(name: str, value: str, remark: str = "") -> None:
        table.add_row(name, value, remark)

    seconds = line.seconds
    add("rows in", f"{metrics.rows:,}", f"in {metrics.pushes:,} pushes")
    add("matches", f"{metrics.matches:,}")
    add(
        "rows out", f"{metrics.output_rows:,}", escape(f"to {output}") if output is not None else ""
    )
    if metrics.dropped:
        add("late rows", f"{metrics.dropped:,}", "dropped: older than the lateness allows")
    add("time", f"{seconds:.2f} s", f"{count(metrics.rows / max(seconds, 1e-9))} rows/s")
    add("window", f"{line.most_window_rows:,}", f"rows at most, {bytes_text(metrics.peak_bytes)}")
    phases = ("keys", "sort", "probe", "insert", "merge", "expire", "gather")
    spent = [(phase, metrics[f"{phase}_seconds"]) for phase in phases]
    add("engine", f"{sum(value for _, value in spent):.2f} s", _phases(spent))
    return table


def bytes_text(size: float) -> str:
    """A number of bytes with a unit.

    >>> bytes_text(512), bytes_text(3_500_000)
    ('512 B', '3.5 MB')
    """
    for unit_size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit_size:
            return f"{size / unit_size:.1f} {unit}"
    return f"{size:.0f} B"


def _phases(spent: list[tuple[str, float]]) -> str:
    ranked = sorted(spent, key=lambda phase: -phase[1])
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in ranked if seconds >= 0.005)


def _texts(column: pa.Array | pa.ChunkedArray) -> list[str]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.string())  # nanoseconds have no Python value
    return ["" if value is None else str(value) for value in column.to_pylist()]
