"""A window of minutes that moves: rows go in, and the oldest minute leaves (Section 3.3).

The window is filled, untimed. Then a minute of reports goes in, batch by batch, and the oldest one
expires in one call: a minute per turn. After each the window must hold just its last minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from thetabench.ordered.growing import compare, sums
from thetabench.ordered.load import Truth
from thetabench.ordered.minutes import WINDOW, Minutes
from thetabench.ordered.plan import BATCH, Cell, Contestant, Measured
from thetabench.ordered.race import Columns, Say, Trial, raced
from thetabench.ordered.stock import Stock
from thetabench.trial import TURNS

__all__ = ["MINUTES", "Moving", "moved"]

MINUTES = WINDOW + TURNS
"""Minutes of reports that are needed."""


class Moving(Trial):
    """One structure that holds the window."""

    def __init__(self, who: Contestant, cell: Cell, stock: Stock, minutes: Minutes) -> None:
        super().__init__(who, cell)
        self._stock = stock
        self._minutes = minutes
        self._index = stock.make(who, int(minutes.edges[WINDOW]))
        self._minute = 0
        self.longest = 0.0
        while self._minute < WINDOW:
            self._enter()
        self.restart()
        self.tuples, self.longest = 0, 0.0

    @property
    def columns(self) -> Columns:
        """Rows per second, the longest call, and bytes per row of the window."""
        window = self._minutes.rows(self._minute - WINDOW, self._minute)
        return {
            **super().columns,
            "tuples_per_s": self.tuples / max(self.seconds, 1e-9),
            "longest_ms": 1e3 * self.longest,
            "index_bytes": self._index.nbytes,
            "bytes_per_pair": self._index.nbytes / (window.stop - window.start),
        }

    def advance(self, seconds: float) -> None:
        """Take in one minute, whatever the time."""
        self.step()
        self.steps += 1

    def step(self) -> bool:
        """Take in a minute and let one go."""
        self._enter()
        first = int(self._minutes.edges[self._minute - WINDOW])
        self._call(lambda: self._index.expire(first))
        key = ("truth", self._minute)
        truth = self._stock.kept(key, lambda: _truth(self._minutes, self._minute))
        boxes = truth.pieces()
        compare(self.name, "sum", sums(self._index, *boxes), truth.sums(*boxes))
        self.checked += int(self._minutes.edges[self._minute]) - first
        return True

    def _enter(self) -> None:
        first, last = self._minutes.edges[self._minute : self._minute + 2].tolist()
        for start in range(first, last, BATCH):
            stop = min(start + BATCH, last)
            rows = [self._minutes.keys[start:stop], np.arange(start, stop)]
            if self._index.timed:
                rows.append(self._minutes.columns["time"][start:stop])
            self._call(partial(self._index.insert, *rows))
        self.tuples += last - first
        self._minute += 1

    def _call(self, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        self.timed(work)
        self.longest = max(self.longest, time.perf_counter() - start)


def _truth(minutes: Minutes, minute: int) -> Truth:
    """What a window up to a minute must answer."""
    window = minutes.rows(minute - WINDOW, minute)
    order = np.argsort(minutes.keys[window], kind="stable")
    return Truth(minutes.keys[window][order], order + window.start)


def moved(cell: Cell, stock: Stock, say: Say) -> list[Measured]:
    """Let all windows move, in turns."""
    minutes = stock.minutes(cell.size, MINUTES)
    return raced(cell, lambda who: Moving(who, cell, stock, minutes), 0.0, say)
