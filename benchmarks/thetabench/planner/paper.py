"""The planner's benchmark as a value: its workloads, cells and columns.

The columns that it shares with the other grid mean the same, but ``tuples_per_s`` is by processor
time and there is no peak memory: all tactics of a cell share a process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import thetastream as ts
from thetabench.figure import Figure, Sizes
from thetabench.grid import AXIS, GridCell, columns, grid_cells
from thetabench.paper import Paper
from thetabench.planner.choice import note, scores, table, told
from thetabench.planner.course import SCANNED, PlannerCourse
from thetabench.planner.panels import draw_costs, draw_map
from thetabench.planner.trial import AUTO
from thetabench.planner.workloads import WORKLOADS, Workload
from thetastream.errors import DataError

WINDOWS = (1 << 14, 1 << 17, 1 << 20)
BATCHES = (1 << 8, 1 << 11, 1 << 13, 1 << 15)
QUICK = (1 << 17,), (1 << 13,)
_SPLIT = 4  # batches that a window has at least
_VARIANTS = {
    1: ("ordered/b-tree", "panjoin/bi-sort"),
    2: ("ordered/sorted-runs", "ordered/zoned-runs", "spo-join/po-join"),
}

COLUMNS = columns("""
left_layout          text   structure and first column of the left window, by `explain()` at the end
right_layout         text
replans              int    moves to another layout, those before the clock started included
estimate_ns          float  nanoseconds per row by `explain()`, mean of both sides
measured_ns          float  the same as measured: sort, probe, insert and merge of `metrics()`
estimate_candidates  float  candidates per row by `explain()`, mean of both sides
plan_share           float  part of the time that went into planning; 0 where it is not known
""")


def contestants(terms: int, window: int) -> list[str]:
    """Tactics to try, ``auto`` first: all, and some structures that their names leave open."""
    named = [name for name in ts.tactics() if name != "nested-loop" or window <= SCANNED]
    return [*named, *_VARIANTS.get(terms, ())]


def _cells(
    workload: Workload, windows: Sequence[int], batches: Sequence[int]
) -> Callable[[Sizes], list[GridCell]]:
    """All cells of a workload, or those asked for; a batch is at most a quarter of its window."""

    def cells(sizes: Sizes) -> list[GridCell]:
        asked = sizes.asked
        whole = not asked.windows and not asked.batches
        wide, deep = (windows, batches) if whole else (WINDOWS, BATCHES)
        tried = list(dict.fromkeys([AUTO, *asked.contestants])) if asked.contestants else None
        grid = grid_cells(
            workload.name,
            asked.windows or wide,
            asked.batches or deep,
            lambda window: tried or contestants(workload.terms, window),
        )
        grid = [cell for cell in grid if cell.batch <= cell.window // _SPLIT]
        if not grid:
            raise DataError(
                f"there is no cell with windows {list(asked.windows)} and batches "
                f"{list(asked.batches)}: a window has {_SPLIT} batches at least. Use larger "
                "windows or smaller batches."
            )
        return grid

    return cells


def _figures(windows: Sequence[int], batches: Sequence[int]) -> dict[str, Figure[GridCell]]:
    return {
        name: Figure(
            name,
            f"{workload.about}, {workload.rate:g} matches per row",
            AXIS,
            _cells(workload, windows, batches),
            measures=(),
        )
        for name, workload in WORKLOADS.items()
    }


_SMALL = Paper(
    "planner-quick", "planner's", _figures(*QUICK), {}, COLUMNS, PlannerCourse, (scores,),
    panels={"": draw_map, "cost": draw_costs}, derived={"cells": table}, note=note, grid=True,
    told=told,
)  # fmt: skip
PAPER = replace(_SMALL, name="planner", figures=_figures(WINDOWS, BATCHES), quick=_SMALL)
