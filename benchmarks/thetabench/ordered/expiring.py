"""Rows that leave: an index that is emptied (Figure 13), and a window that moves (Section 3.3).

An index is emptied row by row, each key searched from the root, in the order of arrival; or it is
the oldest subwindow of a partitioned temporal window index and is dropped. The call that lets it
expire is timed, and beside it, how long the background takes to free it.

A window of minutes is filled, untimed. Then a minute of reports goes in, batch by batch, and the
oldest one expires in one call. After each the window must hold just its last minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from thetabench.figure import Contestant
from thetabench.ordered.contestant import BATCH, Cell, Operations, sums, weight
from thetabench.ordered.growing import Held
from thetabench.ordered.load import WINDOW, Minutes
from thetabench.race import TURNS, Values
from thetastream.index import Index
from thetastream.index.slotted.disposal import settle

ONE_BY_ONE, DROP = "one by one", "ptwi"
MINUTES = WINDOW + TURNS
"""Minutes of reports that a window needs which moves by one per turn."""
_FILL = 1 << 16  # rows per insertion
_ALL = np.array([0]), np.array([(1 << 32) - 1])
_SHORT = 1e-2  # seconds below which the share of the processor says nothing


class Deletion(Operations):
    """An index of a size is filled and emptied when it enters: only one is there at a time."""

    def __init__(self, who: Contestant, cell: Cell, held: Held) -> None:
        super().__init__(who, cell)
        size, dropped = cell.size, who.structure.startswith(DROP)
        rows = size + dropped  # the last one is of the next subwindow
        held.fill(size, _FILL)
        held.fill(rows)
        self._check(held.index, 0, rows)
        self.free = 0.0
        if dropped:
            self.timed(lambda: held.index.expire(size))
            start = time.perf_counter()
            settle()
            self.free = time.perf_counter() - start
        else:
            self._remove(held, size)
        self._check(held.index, size, rows)
        self.tuples = self.checked = size

    def turn(self, number: int, seconds: float) -> None:
        """All is done."""

    def _remove(self, held: Held, size: int) -> None:
        removed, remove = 0, held.index.remove  # type: ignore[attr-defined]
        for start in range(0, size, BATCH):
            removed += self.timed(
                partial(remove, *held.load.batch(start, min(start + BATCH, size)))
            )
        if removed != size:
            self.refuse(f"removed {removed:,} of {size:,} rows")

    def _check(self, index: Index, first: int, stop: int) -> None:
        """The rows ``first … stop - 1`` must be there, and no others."""
        right = (stop - first) * (first + stop - 1) // 2
        total, rows = int(sums(index, *_ALL)[0]), len(index)
        if (total, rows) != (right, stop - first):
            self.refuse(
                f"holds {rows:,} rows whose ids add up to {total:,} instead of "
                f"{stop - first:,} with {right:,}"
            )

    @property
    def own(self) -> Values:
        """Milliseconds of the hot path, and of the background."""
        spent = {"empty_ms": 1e3 * self.seconds, "free_ms": 1e3 * self.free}
        return {**spent, "cpu_share": 1.0} if self.seconds <= _SHORT else spent


class Moving(Operations):
    """One structure that holds the window."""

    def __init__(self, who: Contestant, cell: Cell, index: Index, minutes: Minutes) -> None:
        super().__init__(who, cell)
        self._index = index
        self._minutes = minutes
        self._minute = 0
        self.longest = 0.0
        while self._minute < WINDOW:
            self._enter()
        self.restart()
        self.longest = 0.0

    def turn(self, number: int, seconds: float) -> None:
        """Take in a minute and let one go, whatever the time."""
        self._enter()
        window = self._minutes.window(self._minute)
        self._call(lambda: self._index.expire(window.start))
        self.look_for_all(self._index, self._minutes.truth(self._minute))
        self.checked += window.stop - window.start

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
        before = self.seconds
        self.timed(work)
        self.longest = max(self.longest, self.seconds - before)

    @property
    def own(self) -> Values:
        """The longest call, and bytes per row of the window."""
        window = self._minutes.window(self._minute)
        bytes_held = weight(self._index.nbytes, window.stop - window.start)
        return {"longest_ms": 1e3 * self.longest, **bytes_held}
