"""What the experiments that are grids share: workloads, each at several windows and batch sizes.

A workload is a figure, and a batch size is a place on its axis: so the columns ``workload`` and
``batch`` of their files are read as ``line.figure`` and ``line.place``. The contestants of a cell
have the same pushes, one side at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thetabench.contestant import PHASES
from thetabench.digest import Digest
from thetabench.figure import Cell, Contestant, Lines
from thetabench.line import Columns, Line
from thetabench.race import Values

AXIS = "rows per push"
_COLUMNS = """
experiment         text
predicate          text
window             int
tuples_per_s_low   float  the slowest repetition or turn
tuples_per_s_high  float  the fastest
repetitions        int
ns_per_tuple       float
ns_keys            float  nanoseconds per row by phase, as far as the contestant tells them apart
ns_sort            float
ns_probe           float
ns_insert          float
ns_merge           float
ns_expire          float
ns_gather          float
ns_other           float  what is left
p50_s              float  seconds per push
p99_s              float
max_s              float
peak_bytes         int    growth of its process's resident memory, window included, input excluded
rss_bytes          int    highest resident memory of its process
index_bytes        int
pushes             int    timed pushes
checked_pushes     int    pushes whose answer was compared, untimed ones included
matches            int    of the checked pushes
checksum           text
"""


def columns(more: str = "") -> Columns:
    """The columns of a grid's file: the shared ones under their names there, and ``more``."""
    renamed = {"figure": "workload", "place": "batch", "tuples": "rows"}
    return Columns(_COLUMNS + more.lstrip(), renamed)


@dataclass(frozen=True)
class GridCell(Cell[Contestant]):
    """One workload at one window and one batch size: what all contestants are compared on."""

    window: int = 0
    batch: int = 0

    @property
    def label(self) -> str:
        """A short name for progress lines and messages."""
        return cell_label(self.figure, self.window, self.batch)


def cell_label(workload: str, window: int, batch: int) -> str:
    """A cell by name.

    >>> cell_label("W1", 65_536, 1_024)
    'W1 window 65,536 batch 1,024'
    """
    return f"{workload} window {window:,} batch {batch:,}"


def grid_cells(
    workload: str,
    windows: Sequence[int],
    batches: Sequence[int],
    names: Callable[[int], Sequence[str]],
) -> list[GridCell]:
    """Cells of all windows and batch sizes; ``names`` are the contestants at a window."""
    return [
        GridCell(
            workload,
            tuple(Contestant(name, name, batch) for name in names(window)),
            window=window,
            batch=batch,
        )
        for window in windows
        for batch in batches
    ]


def pushed(
    times: Sequence[float],
    rates: Sequence[float],
    digests: Sequence[Digest],
    ns_per_tuple: float,
    phases: Mapping[str, float],
) -> Values:
    """Columns about pushes: seconds of timed ones, rows per second, answers, phases in ns."""
    ns_phases = {f"ns_{name}": phases.get(name, 0.0) for name in PHASES}
    total = sum(digests, Digest(0, 0))
    p50, p99, longest = np.quantile(times, (0.5, 0.99, 1)).tolist()
    return {
        **ns_phases,
        "ns_per_tuple": ns_per_tuple,
        "ns_other": max(ns_per_tuple - sum(ns_phases.values()), 0.0),
        "tuples_per_s_low": min(rates),
        "tuples_per_s_high": max(rates),
        "repetitions": len(rates),
        "p50_s": p50,
        "p99_s": p99,
        "max_s": longest,
        "pushes": len(times),
        "checked_pushes": len(digests),
        "matches": total.matches,
        "checksum": f"{total.checksum:016x}",
        "verified": True,
    }


def by_cell(lines: Lines) -> dict[tuple[str, int, int], list[Line]]:
    """Lines by workload, window and batch size, in the order of the file."""
    cells: dict[tuple[str, int, int], list[Line]] = {}
    for line in lines:
        cells.setdefault((line.figure, line.window, int(line.place)), []).append(line)
    return cells
