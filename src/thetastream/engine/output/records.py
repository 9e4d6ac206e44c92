"""Matches as records ⟨start, end⟩ (PanJoin, Section III-D): the answer of ``output="ranges"``.

A record says where the matches of one fresh row lie in a *run*, an array of stored rows in key
order:

    run 2    keys    10   20   20   20   35   90       fresh row 7, l.x < r.x, x = 20
             rows     4    1    6    9    0    3
                                       └───────┘       row 7, run 2, start 4, stop 6
                          └────────┘                   l.x <> r.x: start 1, stop 4, negated

A negated record stands for the rows of the run outside of it. Every record stands for a row at
least. Nothing is looked up in the runs before somebody asks for pairs.
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

    ``rows[b]`` is the arrival number of the fresh row that asked box ``b`` of ``found``. Ids of
    stored rows are arrival numbers. ``first_run`` is the number of this part's first run.
    """

    side: Side
    rows: Array
    found: Ranges
    negated: bool
    size: int
    first_run: int = 0
    _next: int = 0

    @classmethod
    def of(cls, side: Side, rows: Array, found: Ranges, *, negated: bool, size: int) -> Records:
        """Records of an answer; negated ones of an answer to the opposite question."""
        return cls(side, rows, _completed(found, rows.size) if negated else found, negated, size)

    def read(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end. An interrupted call may be made again."""
        start, stop = self._next, min(self._next + self.size, len(self.found))
        if start == stop:
            return None
        part = slice(start, stop)
        found, count = self.found, stop - start
        columns = [
            pa.repeat(self.side.value, count),
            pa.array(self.rows[found.boxes[part]]),
            pa.array(found.runs[part] + self.first_run),
            pa.array(found.starts[part]),
            pa.array(found.stops[part]),
            pa.repeat(self.negated, count),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=RANGES)
        self._next = stop
        return batch

    @property
    def runs(self) -> int:
        """How many runs the records point into."""
        return len(self.found.ids)

    @property
    def matches(self) -> int:
        """How many pairs the records stand for. O(records)."""
        if not self.negated:
            return self.found.matches
        sizes = np.array([ids.size for ids in self.found.ids], np.int64)
        return int(sizes[self.found.runs].sum()) - self.found.matches

    def stored(self, run: int) -> Array:
        """The arrival numbers of the rows of a run, in key order. A copy."""
        return self.found.ids[run - self.first_run].copy()

    def pairs(self, limit: int) -> Iterator[tuple[Array, Array]]:
        """Arrival numbers of pairs as ``(left, right)``, at most ``limit`` at a time."""
        found = _outside(self.found) if self.negated else self.found
        for boxes, ids in found.pairs(limit):
            fresh = self.rows[boxes]
            yield (fresh, ids) if self.side is Side.LEFT else (ids, fresh)


def _completed(found: Ranges, boxes: int) -> Ranges:
    """A record for every box and run, empty where there was none; none for all of a run."""
    runs = len(found.ids)
    sizes = np.array([ids.size for ids in found.ids], np.int64)
    starts, stops = np.zeros((boxes, runs), np.int64), np.zeros((boxes, runs), np.int64)
    starts[found.boxes, found.runs] = found.starts
    stops[found.boxes, found.runs] = found.stops
    at, run = np.nonzero(stops - starts < sizes)
    return Ranges(at, run, starts[at, run], stops[at, run], found.ids, keeps=found)


def _outside(found: Ranges) -> Ranges:
    """The rows before and after each record, as records."""
    sizes = np.array([ids.size for ids in found.ids], np.int64)
    starts = np.stack([np.zeros_like(found.starts), found.stops], axis=1).ravel()
    stops = np.stack([found.starts, sizes[found.runs]], axis=1).ravel()
    full = starts < stops
    boxes, runs = np.repeat(found.boxes, 2)[full], np.repeat(found.runs, 2)[full]
    return Ranges(boxes, runs, starts[full], stops[full], found.ids, keeps=found)
