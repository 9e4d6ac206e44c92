"""Insertion into a subwindow, probing of a full one, and a window that moves; and their checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thetabench.answers import Truth
from thetabench.arrays import Array
from thetabench.digest import Digest, VerificationError, check_pairs, pair_digest, weighed
from thetabench.panjoin.contestant import Contestant
from thetabench.panjoin.stock import Stock
from thetabench.windows import Filled, Holding
from thetastream.index.base import Ranges

_SMALL = 64  # batches of a subwindow, from which on one is inserted before the clock starts
_WARM = 64  # boxes that are asked before the clock starts
_SCANNED = 64  # boxes per batch of a structure that scans the window
_MATERIALISED = 1 << 22  # pairs of ranges that are compared one by one in the first batch …
_SAMPLED = 1 << 16  # … and in others; the number per box always is
_EXACT = 1 << 20  # rows of a subwindow that are compared one by one after insertion
_LEAST, _MOST = -(1 << 62), 1 << 62
_COVER = 1 << 12  # boxes that together cover all keys
_FEW = 4  # as many as that for a structure that scans
_STEPS = 24  # batches that there are rows for in a window that moves


class Insertion(Holding[Contestant]):
    """Batches go into a subwindow that is between half and three quarters full.

    A batch of more than a quarter goes on to the brim, one of more than half starts with less. When
    the limit is reached the turn is over; the next one starts with another half-full subwindow. The
    first of small batches is not timed: it may be the one for which a structure takes more memory.
    """

    def __init__(self, who: Contestant, label: str, stock: Stock) -> None:
        super().__init__(who, label, who.rows)
        self._stock = stock
        self.held = self._half_full()

    def _half_full(self) -> Filled:
        rows, batch = self.who.rows, self.who.batch
        start = min(rows // 2, rows - batch)
        self._top = min(rows, rows // 2 + max(rows // 4, batch))
        most = max(start, min(rows * 5 // 8, self._top - batch))
        held = self._stock.growing(self.who, start, most)
        if batch <= rows // _SMALL:
            held.fill(held.count + batch, batch)
        return held

    @property
    def _full(self) -> bool:
        return self.held.count + self.who.batch > self._top

    def advance(self, seconds: float) -> None:
        """Work until the time is over, or the subwindow is full enough."""
        if self.seconds < seconds and self._full:
            self.finish()
            self.held = self._half_full()
        super().advance(seconds)

    def step(self) -> bool:
        """Insert one batch."""
        if self._full:
            return False
        self.enter(self.who.batch)
        self.tuples += self.who.batch
        return True

    def finish(self) -> None:
        """Every row that was inserted must be stored once, where its key is."""
        keys = self.held.load.keys[: self.held.count]
        check_stored(self.name, self.held.structure, keys, scans=self.who.scans, exact=_EXACT)
        self.checked += keys.size


class Probing(Holding[Contestant]):
    """Batches of boxes ask a full window."""

    def __init__(self, who: Contestant, label: str, stock: Stock) -> None:
        super().__init__(who, label, who.rows)
        self.held = stock.full(who)
        self._truth = stock.truth(self.held.load, 0, who.rows)
        self._compared(*self._boxes(_WARM))
        self.restart()

    def step(self) -> bool:
        """Ask one batch."""
        lows, highs = self._boxes(_SCANNED if self.who.scans else self.who.batch)
        self.pairs += self._compared(lows, highs)
        self.tuples += lows.size
        return True

    def _boxes(self, most: int) -> tuple[Array, Array]:
        lows, highs = self.held.load.asked(self.who, self.steps)
        if most >= lows.size:
            return lows, highs
        picked = np.linspace(0, lows.size - 1, most).astype(np.int64)
        return lows[picked], highs[picked]

    def _compared(self, lows: Array, highs: Array) -> int:
        """Ask, read the answer, check it; returns the number of its pairs."""
        self.checked += lows.size
        if self.who.output == "ranges":
            ranges = self.timed(lambda: self.held.structure.ranges(lows, highs))
            most = _SAMPLED if self.steps else _MATERIALISED
            return check_ranges(self.name, self.steps, ranges, self._truth, lows, highs, most)
        answer = self.ask(lows, highs)
        check_pairs(self.name, self.steps, answer, self._truth.digest(lows, highs)[1])
        return answer.matches


class Moving(Holding[Contestant]):
    """One side of a join on a single structure: probe, insert, expire, batch after batch."""

    def move(
        self, number: int, boxes: tuple[Array, Array], rows: int, right: Callable[[], Digest]
    ) -> None:
        """Ask, let rows in and as many out; compare the answer."""
        answer = self.ask(*boxes)
        self.enter(rows)
        self.expire(self.held.count - self.who.rows)
        check_pairs(self.name, number, answer, right())
        self.tuples += rows
        self.pairs += answer.matches
        self.checked += rows


class Sliding(Moving):
    """The same boxes and batches at every step."""

    def __init__(self, who: Contestant, label: str, stock: Stock) -> None:
        super().__init__(who, label, who.rows)
        self._stock = stock
        self.held = stock.fresh(who, extra=_STEPS * who.batch)
        self.held.fill(who.rows)

    def step(self) -> bool:
        """Move on by one batch."""
        if self.steps == _STEPS:
            return False
        load, stop = self.held.load, self.held.count
        boxes = load.asked(self.who, self.steps)

        def right() -> Digest:
            return self._stock.truth(load, stop - self.who.rows, stop).digest(*boxes)[1]

        self.move(self.steps, boxes, self.who.batch, right)
        return True


# --- Answers that are no pairs ------------------------------------------------------------------


def check_ranges(
    who: str, batch: int, answer: Ranges, truth: Truth, lows: Array, highs: Array, most: int
) -> int:
    """Raise unless ranges are right; returns the number of their pairs.

    The number of matches is compared for every box, the pairs for as many boxes as hold about
    ``most`` pairs, evenly chosen: all of them, where there are no more.
    """
    counts, right = truth.digest(lows, highs)
    if not np.array_equal(answer.counts(lows.size), counts):
        check_pairs(who, batch, Digest(int(answer.counts(lows.size).sum()), 0), right)
        raise VerificationError(f"{who} gave ranges for the wrong boxes in batch {batch}.")
    step = 1 + right.matches // max(most, 1)
    kept = answer.boxes % step == batch % step
    part = Ranges(
        answer.boxes[kept], answer.runs[kept], answer.starts[kept], answer.stops[kept], answer.ids
    )
    total = sum((pair_digest(*chunk) for chunk in part.pairs()), Digest(0, 0))
    chosen = np.arange(batch % step, lows.size, step)
    _, sums = truth.boxes(lows[chosen], highs[chosen])
    check_pairs(who, batch, total, Digest(int(counts[chosen].sum()), weighed(chosen, sums)))
    return right.matches


def check_stored(who: str, index: Any, keys: Array, *, scans: bool, exact: int) -> None:
    """Raise unless the index holds the rows with these keys, and ids from 0, and finds each once.

    It is asked with neighbouring boxes that cover all there can be. Every row must be in the box of
    its key. Up to ``exact`` rows are counted and compared one by one, too; some structures need a
    sort for that.
    """
    if keys.size <= exact and len(index) != keys.size:
        raise VerificationError(f"{who} holds {len(index):,} rows; {keys.size:,} were inserted.")
    ends = np.linspace(keys.min(), keys.max() + 1, 1 + (_FEW if scans else _COVER))
    edges = ends.astype(np.int64)
    edges[0], edges[-1] = _LEAST, _MOST
    lows, highs = edges[:-1], edges[1:] - 1
    seen = np.zeros(keys.size, np.int64)
    for positions, ids in index.probe(lows, highs):
        if ids.size and (ids.min() < 0 or ids.max() >= keys.size):
            raise VerificationError(f"{who} gave an id that was never inserted.")
        np.add.at(seen, ids, 1)
        own = keys[ids]
        if np.any((own < lows[positions]) | (own > highs[positions])):
            raise VerificationError(f"{who} found a row in a box that does not hold its key.")
    if not np.all(seen == 1):
        raise VerificationError(
            f"{who} found {np.count_nonzero(seen == 0):,} rows not at all and "
            f"{np.count_nonzero(seen > 1):,} more than once after insertion."
        )
    if keys.size <= exact:
        stored, ids = index.dump()
        if not (np.array_equal(stored[0], keys) and np.array_equal(ids, np.arange(keys.size))):
            raise VerificationError(f"{who} does not hold the rows that were inserted.")
