"""Matches as records ⟨start, end⟩ (PanJoin, Section III-D): the answer of ``output="ranges"``.

A record says where the matches of one fresh row lie in a *run*, an array of stored rows in key
order:

    run 2    keys    10   20   20   20   35   90       fresh row 7, l.x < r.x, x = 20
             rows     4    1    6    9    0    3
                                       └───────┘       row 7, run 2, start 4, stop 6
                          └────────┘                   l.x <> r.x: start 1, stop 4, negated

A negated record stands for the rows of the run outside it. Every record stands for at least one
row. The runs are not read before pairs are requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.index.base import Ranges
from thetastream.shape import RANGES
from thetastream.side import Side


@dataclass
class Records:
    """The records of one side's fresh rows, in batches of at most ``size``.

    ``rows[b]`` is the arrival number of the fresh row that probed box ``b`` of ``ranges``. Ids of
    stored rows are arrival numbers. ``first_run`` is the number of this part's first run.
    """

    side: Side
    rows: Array
    ranges: Ranges
    negated: bool
    size: int
    first_run: int = 0
    _next: int = 0

    @classmethod
    def of(cls, side: Side, rows: Array, ranges: Ranges, *, negated: bool, size: int) -> Records:
        """Make records of an answer; negated ones from the answer to the opposite question."""
        return cls(side, rows, _completed(ranges, rows.size) if negated else ranges, negated, size)

    def read(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end. An interrupted call can be repeated."""
        start, stop = self._next, min(self._next + self.size, len(self.ranges))
        if start == stop:
            return None
        part = slice(start, stop)
        ranges, count = self.ranges, stop - start
        columns = [
            pa.repeat(self.side.value, count),
            pa.array(self.rows[ranges.boxes[part]]),
            pa.array(ranges.runs[part] + self.first_run),
            pa.array(ranges.starts[part]),
            pa.array(ranges.stops[part]),
            pa.repeat(self.negated, count),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=RANGES)
        self._next = stop
        return batch

    @property
    def runs(self) -> int:
        """How many runs the records point into."""
        return len(self.ranges.ids)

    @property
    def matches(self) -> int:
        """How many pairs the records stand for. O(records)."""
        if not self.negated:
            return self.ranges.matches
        sizes = np.array([ids.size for ids in self.ranges.ids], np.int64)
        return int(sizes[self.ranges.runs].sum()) - self.ranges.matches

    def stored(self, run: int) -> Array:
        """The arrival numbers of the rows of a run, in key order. A copy."""
        return self.ranges.ids[run - self.first_run].copy()

    def pairs(self, limit: int) -> Iterator[tuple[Array, Array]]:
        """Arrival numbers of pairs as ``(left, right)``, at most ``limit`` at a time."""
        ranges = _outside(self.ranges) if self.negated else self.ranges
        for boxes, ids in ranges.pairs(limit):
            fresh = self.rows[boxes]
            yield (fresh, ids) if self.side is Side.LEFT else (ids, fresh)


def _completed(ranges: Ranges, boxes: int) -> Ranges:
    """Add an empty record where a box has none in a run; drop those that span a whole run."""
    runs = len(ranges.ids)
    sizes = np.array([ids.size for ids in ranges.ids], np.int64)
    starts, stops = np.zeros((boxes, runs), np.int64), np.zeros((boxes, runs), np.int64)
    starts[ranges.boxes, ranges.runs] = ranges.starts
    stops[ranges.boxes, ranges.runs] = ranges.stops
    at, run = np.nonzero(stops - starts < sizes)
    return Ranges(at, run, starts[at, run], stops[at, run], ranges.ids, keeps=ranges)


def _outside(ranges: Ranges) -> Ranges:
    """The rows before and after each record, as records."""
    sizes = np.array([ids.size for ids in ranges.ids], np.int64)
    starts = np.stack([np.zeros_like(ranges.starts), ranges.stops], axis=1).ravel()
    stops = np.stack([ranges.starts, sizes[ranges.runs]], axis=1).ravel()
    full = starts < stops
    boxes, runs = np.repeat(ranges.boxes, 2)[full], np.repeat(ranges.runs, 2)[full]
    return Ranges(boxes, runs, starts[full], stops[full], ranges.ids, keeps=ranges)
