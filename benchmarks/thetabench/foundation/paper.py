"""The foundation benchmark as a value: its workloads, its cells, and a small version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from thetabench.figure import Figure, Sizes
from thetabench.foundation.course import FoundationCourse
from thetabench.foundation.tables import cell_table, short_table, told
from thetabench.grid import AXIS, GridCell, columns, grid_cells
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
_QUICK_ROWS = 1 << 13
_QUICK = ("thetastream", "duckdb-bucket", "polars-where", "btrees", "numpy")


def _figure(
    workload: str, windows: Sequence[int], batches: Sequence[int], names: Sequence[str]
) -> Figure[GridCell]:
    """A workload; windows and batches that are asked for need not be among these."""

    def cells(sizes: Sizes) -> list[GridCell]:
        asked = sizes.asked
        tried = asked.contestants or names
        for spec in tried:
            contestant_class(spec)  # an unknown one is refused before anything runs
        return grid_cells(
            workload, asked.windows or windows, asked.batches or batches, lambda window: tried
        )

    return Figure(workload, _ABOUT[workload], AXIS, cells, split="window")


_SMALL = Paper(
    QUICK,
    "foundation",
    {name: _figure(name, (1 << 11,), (1 << 9,), _QUICK) for name in _WINDOWS},
    {"tuples_per_s": Measure("rows per second")},
    columns(),
    partial(FoundationCourse, experiment=QUICK, least=_QUICK_ROWS),
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
        name: _figure(name, windows, _BATCHES, tuple(PEERS)) for name, windows in _WINDOWS.items()
    },
    course=FoundationCourse,
    seconds=3.0,
    quick=_SMALL,
)
