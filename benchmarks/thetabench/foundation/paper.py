"""The foundation benchmark as a value: its workloads, its cells, and a small version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from thetabench.figure import Figure, Sizes
from thetabench.foundation.course import FoundationCell, FoundationCourse
from thetabench.foundation.tables import cell_table, short_table, told
from thetabench.grid import AXIS, columns, contestants
from thetabench.measure import Measure
from thetabench.paper import Paper
from thetabench.papers import QUICK
from thetabench.peers import PEERS, contestant_class

_BATCHES = (1 << 10, 1 << 13, 1 << 15)
_WINDOWS = {
    "W1": (1 << 16, 1 << 20, 1 << 23),
    "W2": (50_000, 500_000),
    "W3": (100_000, 1_000_000),
}
_ABOUT = {
    "W1": "abs(l.x - r.x) <= d",
    "W2": "l.a < r.a AND l.b > r.b",
    "W3": "abs(l.x - r.x) <= d AND abs(l.y - r.y) <= d, self-join",
}
_ROWS = 1 << 22  # timed rows of a cell, both sides together, at least
_QUICK_ROWS = 1 << 13
_QUICK = ("thetastream", "duckdb-bucket", "polars-where", "btrees", "numpy")

Cells = Callable[[Sizes], list[FoundationCell]]


def _cells(
    workload: str,
    windows: Sequence[int],
    batches: Sequence[int],
    names: Sequence[str],
    least: int,
) -> Cells:
    """All cells of a workload; sizes that are asked for need not be among these."""

    def cells(sizes: Sizes) -> list[FoundationCell]:
        asked = sizes.asked
        for spec in asked.contestants:
            contestant_class(spec)
        return [
            FoundationCell(
                workload,
                contestants(asked.contestants or names, batch),
                window=window,
                batch=batch,
                rows=_timed_rows(workload, window, batch, least),
            )
            for window in asked.windows or windows
            for batch in asked.batches or batches
        ]

    return cells


def _timed_rows(workload: str, window: int, batch: int, least: int) -> int:
    """Enough rows of a side to replace the whole window, and ``least`` of both sides."""
    sides = 1 if workload == "W3" else 2
    rows = max(window, least // sides, 8 * batch)
    return -(-rows // batch) * batch


def _figure(workload: str, cells: Cells) -> Figure[FoundationCell]:
    return Figure(workload, _ABOUT[workload], AXIS, cells, split="window")


_SMALL = Paper(
    QUICK,
    "foundation",
    {
        name: _figure(name, _cells(name, (1 << 11,), (1 << 9,), _QUICK, _QUICK_ROWS))
        for name in _WINDOWS
    },
    {"tuples_per_s": Measure("rows per second")},
    columns(),
    partial(FoundationCourse, experiment=QUICK),
    seconds=0.05,
    formats=("png", "svg"),
    derived={"cells": cell_table, "summary": short_table},
    pages=("docs/benchmarks.md", "README.md"),
    grid=True,
    told=told,
)
PAPER = replace(
    _SMALL,
    name="foundation",
    figures={
        name: _figure(name, _cells(name, windows, _BATCHES, tuple(PEERS), _ROWS))
        for name, windows in _WINDOWS.items()
    },
    course=FoundationCourse,
    seconds=3.0,
    quick=_SMALL,
)
