"""An index that is emptied: row by row, or by dropping it as PTWI does (Figure 13).

Both are loaded with the same keys. Row by row, every key is searched from the root and deleted, in
the order of arrival, as keys would expire. Dropped, the index is the oldest subwindow of a
partitioned temporal window index: the call that lets it expire is timed, and beside it, how long
the background takes to free it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np

from thetabench.digest import VerificationError
from thetabench.ordered.growing import sums
from thetabench.ordered.minutes import WINDOW
from thetabench.ordered.plan import BATCH, Cell, Contestant, Measured
from thetabench.ordered.race import Columns, Say, Trial, raced
from thetabench.ordered.stock import Held, Stock
from thetastream.index.slotted.disposal import settle

__all__ = ["DROP", "ONE_BY_ONE", "Deletion", "deleted"]

ONE_BY_ONE, DROP = "one by one", "ptwi"
_FILL = 1 << 16  # rows per insertion
_ALL = np.array([0]), np.array([(1 << 32) - 1])
_SHORT = 1e-2  # seconds below which the share of the processor says nothing
_REST = 1  # rows of the next subwindow


class Deletion(Trial):
    """One contestant that empties an index of a size."""

    def __init__(self, who: Contestant, cell: Cell, stock: Stock) -> None:
        super().__init__(who, cell)
        self._size = cell.size
        self._load = stock.load(cell.keys)
        self._index = stock.make(who, cell.size * (WINDOW if self._drops else 1))
        held = Held(who, self._index, self._load)
        held.fill(self._size, _FILL)
        if self._drops:
            held.fill(self._size + _REST)
        self.free = 0.0
        self._check(0, held.count)

    @property
    def _drops(self) -> bool:
        return self.who.structure.startswith(DROP)

    @property
    def columns(self) -> Columns:
        """Milliseconds of the hot path, and of the background."""
        return {
            **super().columns,
            "empty_ms": 1e3 * self.seconds,
            "free_ms": 1e3 * self.free,
            "cpu_share": super().columns["cpu_share"] if self.seconds > _SHORT else 1.0,
        }

    def advance(self, seconds: float) -> None:
        """Once, whatever the time."""
        if not self.steps:
            self.step()
            self.steps += 1

    def step(self) -> bool:
        """Empty it."""
        if self._drops:
            self.timed(lambda: self._index.expire(self._size))
            self.free = self._freed()
            self._check(self._size, self._size + _REST)
        else:
            removed, remove = 0, self._index.remove  # type: ignore[attr-defined]
            for start in range(0, self._size, BATCH):
                keys, ids = self._load.batch(start, min(start + BATCH, self._size))
                removed += self.timed(partial(remove, keys, ids))
            if removed != self._size:
                raise VerificationError(
                    f"{self.name} removed {removed:,} of {self._size:,} rows. No result was "
                    "written for this cell."
                )
            self._check(self._size, self._size)
        self.tuples = self.checked = self._size
        return False

    def _freed(self) -> float:
        """Seconds until the background has freed what was dropped."""
        start = time.perf_counter()
        settle()
        return time.perf_counter() - start

    def _check(self, first: int, stop: int) -> None:
        """The rows ``first … stop - 1`` must be there, and no others."""
        right = (stop - first) * (first + stop - 1) // 2
        found, held = int(sums(self._index, *_ALL)[0]), len(self._index)
        if (found, held) != (right, stop - first):
            raise VerificationError(
                f"{self.name} holds {held:,} rows whose ids add up to {found:,} instead of "
                f"{stop - first:,} with {right:,}. No result was written for this cell."
            )


def deleted(cell: Cell, stock: Stock, say: Say) -> list[Measured]:
    """Empty one index after the other: only one is there at a time."""
    stock.shed()
    return [
        found
        for who in cell.contestants
        for found in raced(
            replace(cell, contestants=(who,)), lambda one: Deletion(one, cell, stock), 0.0, say
        )
    ]
