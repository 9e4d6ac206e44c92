"""Insertion into a subwindow, and probing of a full one; see :mod:`thetabench.trial`."""

from __future__ import annotations

import numpy as np

from thetabench.panjoin.load import Array, boxes_of, rows_of
from thetabench.panjoin.plan import Contestant
from thetabench.panjoin.reference import (
    check_pairs,
    check_ranges,
    check_stored,
)
from thetabench.panjoin.stock import Filled, Stock
from thetabench.trial import Clocked

__all__ = ["Insertion", "Probing", "Trial"]

_SMALL = 64  # batches of a subwindow, from which on one is inserted before the clock starts
_WARM = 64  # boxes that are asked before the clock starts
_SCANNED = 64  # boxes per batch of a structure that scans the window
_MATERIALISED = 1 << 22  # pairs of ranges that are compared one by one in the first batch …
_SAMPLED = 1 << 16  # … and in others; the number per box always is
_EXACT = 1 << 20  # rows of a subwindow that are compared one by one after insertion


class Trial(Clocked):
    """What one contestant does in a cell."""

    def __init__(self, who: Contestant, label: str) -> None:
        several = dict(who.parameters).get("workers", 1) > 1
        super().__init__(f"{who.label} ({label})", several=several)
        self.who = who


class Insertion(Trial):
    """Batches go into a subwindow that is between half and three quarters full.

    A batch of more than a quarter goes on to the brim, one of more than half starts with less. When
    the limit is reached the turn is over; the next one starts with another half-full subwindow. The
    first of small batches is not timed: it may be the one for which a structure takes more memory.
    """

    def __init__(self, who: Contestant, label: str, stock: Stock, seed: int) -> None:
        super().__init__(who, label)
        self._stock = stock
        self._rows = rows_of(who, seed)
        half = who.rows // 2
        self._start = min(half, who.rows - who.batch)
        self._top = min(who.rows, half + max(who.rows // 4, who.batch))
        self._held = self._taken()

    def advance(self, seconds: float) -> None:
        """Work until the time is over, or the subwindow is full enough."""
        if self.seconds < seconds and self._full:
            self.finish()
            self._held = self._taken()
        super().advance(seconds)

    def step(self) -> bool:
        """Insert one batch."""
        held = self._held
        if self._full:
            return False
        keys, ids = held.load.sorted_batch(held.count, held.count + self.who.batch)
        self.timed(lambda: held.structure.insert(keys, ids))
        held.count += keys.size
        self.tuples += keys.size
        return True

    def finish(self) -> None:
        """Every row that was inserted must be found, once, where its key is."""
        keys = self._held.load.keys[: self._held.count]
        check_stored(self.name, self._held.structure, keys, scans=self.who.scans, exact=_EXACT)
        self.checked += keys.size

    @property
    def nbytes(self) -> int:
        """Bytes of the subwindow."""
        return self._held.nbytes

    @property
    def _full(self) -> bool:
        return self._held.count + self.who.batch > self._top

    def _taken(self) -> Filled:
        most = max(self._start, min(self.who.rows * 5 // 8, self._top - self.who.batch))
        held = self._stock.growing(self.who, self._rows, self._start, most)
        if self.who.batch <= self.who.rows // _SMALL:
            held.fill(held.count + self.who.batch, self.who.batch)
        return held


class Probing(Trial):
    """Batches of boxes ask a full window."""

    def __init__(self, who: Contestant, label: str, stock: Stock, seed: int) -> None:
        super().__init__(who, label)
        rows = rows_of(who, seed)
        self._asked = boxes_of(who, rows)
        self._load = stock.load(rows)
        self._truth = stock.truth(rows)
        self._held = stock.full(who, rows)
        self._next = 0
        self._ask(*self._boxes(_WARM))
        self.restart()

    def step(self) -> bool:
        """Ask one batch."""
        lows, highs = self._boxes(_SCANNED if self.who.scans else self.who.batch)
        self.pairs += self._ask(lows, highs)
        self.tuples += lows.size
        self._next += 1
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of the window."""
        return self._held.nbytes

    def _boxes(self, most: int) -> tuple[Array, Array]:
        lows, highs = self._load.asked(self._asked, self._next)
        if most >= lows.size:
            return lows, highs
        picked = np.linspace(0, lows.size - 1, most).astype(np.int64)
        return lows[picked], highs[picked]

    def _ask(self, lows: Array, highs: Array) -> int:
        """Ask, read the answer, check it; give the number of its pairs."""
        structure = self._held.structure
        self.checked += lows.size
        if self.who.output == "ranges":
            ranges = self.timed(lambda: structure.ranges(lows, highs))
            most = _SAMPLED if self._next else _MATERIALISED
            return check_ranges(self.name, self._next, ranges, self._truth, lows, highs, most)
        found = self.read(lambda: structure.probe(lows, highs))
        check_pairs(self.name, self._next, found, self._truth.digest(lows, highs)[1])
        return found.matches
