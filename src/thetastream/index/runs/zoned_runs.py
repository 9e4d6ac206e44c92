"""Sorted runs with zone maps: for boxes that are wide in every column and still hold few rows.

Like ``sorted-runs``; with several key columns each run also stores the least and the greatest key
of every other column per block of 64 rows and per superblock of 64 blocks. Where columns are
correlated, a box that admits half of the rows in each column alone meets few blocks:

    box  a < 5, b > 7          superblocks  [0, 3]  [2, 6]  [4, 9]   zones of b, rows by a
                               a < 5        ├──────────────────┤
                               b > 7                        └┴──── only here may both hold
                               blocks                       [4, 6] [5, 8] [7, 9]
                                                                   └┴──── two blocks are read

Invariants (``check``): those of ``sorted-runs``; the zone of a block or superblock is that of its
rows.

Cost for window ``w``: as ``sorted-runs``, and per box and run O(w / 2^18) words of 64 superblocks,
one word of blocks per superblock met, one word of rows per block met. Where columns are not
correlated every block is met, and a box costs O(w) in vector code. Bytes: 0.26 per row and column
beside the first, on top of those of ``sorted-runs``.

Why not a tree over both columns (k-d, R)? Every merge would rebuild it, at a sort per level; zones
cost one pass. Why not the bit arrays of SPO-Join? They visit every row that satisfies the narrower
term; zones win where columns are correlated, and bit arrays where they are not.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.base import Pair
from thetastream.index.runs.kernels.zones import BLOCK, CURSOR, probe_zones, zone_counts
from thetastream.index.runs.run import Run
from thetastream.index.runs.sorted_runs import SortedRuns


class ZonedRuns(SortedRuns):
    """Sorted runs with the extremes of the other columns per block: for several inequalities.

    >>> index = ZonedRuns(capacity=16, columns=2)
    >>> index.insert(np.array([[1, 2, 3], [5, 8, 6]]), np.array([0, 1, 2]))
    >>> boxes = np.array([[-9], [6]]), np.array([[2], [9]])
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(*boxes)]
    [([0], [1])]
    """

    name: ClassVar[str] = "zoned-runs"
    summary: ClassVar[str] = "sorted runs with extremes per block; for several inequalities"

    def _finished(self, run: Run) -> Run:
        routed = super()._finished(run)
        return routed if self.columns == 1 else routed.zoned()

    def _cursor(self) -> Array:
        cursor = np.zeros(CURSOR, np.int64)
        cursor[1] = -1
        return cursor

    def _read(
        self, run: Run, boxes: Pair, before: int, cursor: Array, filled: int, chunk: Pair
    ) -> int:
        if run.zones is None:
            return super()._read(run, boxes, before, cursor, filled, chunk)
        router, zones = (run.low, run.shift, run.router), (run.zones.least, run.zones.most)
        place = *run.place, *router, *zones
        return int(probe_zones(*place, *boxes, before, cursor, filled, *chunk))

    def check(self) -> None:
        super().check()
        for run in self._runs:
            assert (run.zones is None) == (self.columns == 1)
            if run.zones is not None:
                _check_zones(run)


def _check_zones(run: Run) -> None:
    assert run.zones is not None
    counts = zone_counts(run.place[1].size)
    for c, column in enumerate(run.keys[1:]):
        for zones, empty, extreme in (
            (run.zones.least[c], MOST, np.min),
            (run.zones.most[c], LEAST, np.max),
        ):
            levels = []
            for size, count in zip((BLOCK, BLOCK**2), counts, strict=True):
                rows = np.full(size * count, empty)
                rows[run.start : run.start + len(run)] = column
                levels.append(extreme(rows.reshape(count, size), axis=1))
            assert np.array_equal(zones, np.concatenate(levels)), "a zone must be that of its rows"
