"""Insertion into a subwindow, probing of a full one, and a window that moves."""

from __future__ import annotations

import numpy as np

from thetabench.arrays import Array
from thetabench.digest import Digest, check_pairs
from thetabench.panjoin.contestant import Contestant
from thetabench.panjoin.reference import Truth, check_ranges, check_stored
from thetabench.panjoin.stock import Filled, Stock
from thetabench.race import Trial, Values

_SMALL = 64  # batches of a subwindow, from which on one is inserted before the clock starts
_WARM = 64  # boxes that are asked before the clock starts
_SCANNED = 64  # boxes per batch of a structure that scans the window
_MATERIALISED = 1 << 22  # pairs of ranges that are compared one by one in the first batch …
_SAMPLED = 1 << 16  # … and in others; the number per box always is
_EXACT = 1 << 20  # rows of a subwindow that are compared one by one after insertion
_STEPS = 24  # batches that there are rows for in a window that moves


class Timed(Trial[Contestant]):
    """What one contestant does in a cell."""

    def __init__(self, who: Contestant, label: str) -> None:
        super().__init__(who, label, several=dict(who.parameters).get("workers", 1) > 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the structure that is measured."""
        raise NotImplementedError

    @property
    def ns_per_tuple(self) -> float:
        """The time of a tuple."""
        return 1e9 * self.seconds / max(self.tuples, 1)

    @property
    def columns(self) -> Values:
        """The columns of its line."""
        return {
            **super().columns,
            "batches": self.steps,
            "ns_per_tuple": self.ns_per_tuple,
            "pairs": self.pairs,
            "checked_tuples": self.checked,
            "index_bytes": self.nbytes,
            "bytes_per_row": self.nbytes / self.who.rows,
        }


class Windowed(Timed):
    """A trial with one filled structure."""

    def __init__(self, who: Contestant, label: str, stock: Stock) -> None:
        super().__init__(who, label)
        self._stock = stock
        self._held = self._taken()

    def _taken(self) -> Filled:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the window."""
        return self._held.nbytes


class Insertion(Windowed):
    """Batches go into a subwindow that is between half and three quarters full.

    A batch of more than a quarter goes on to the brim, one of more than half starts with less. When
    the limit is reached the turn is over; the next one starts with another half-full subwindow. The
    first of small batches is not timed: it may be the one for which a structure takes more memory.
    """

    def _taken(self) -> Filled:
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
        return self._held.count + self.who.batch > self._top

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
        """Every row that was inserted must be stored once, where its key is."""
        keys = self._held.load.keys[: self._held.count]
        check_stored(self.name, self._held.structure, keys, scans=self.who.scans, exact=_EXACT)
        self.checked += keys.size


class Probing(Windowed):
    """Batches of boxes ask a full window."""

    def __init__(self, who: Contestant, label: str, stock: Stock) -> None:
        super().__init__(who, label, stock)
        self._load = stock.load(who)
        self._truth = stock.truth(self._load)
        self._next = 0
        self._ask(*self._boxes(_WARM))
        self.restart()

    def _taken(self) -> Filled:
        return self._stock.full(self.who)

    def step(self) -> bool:
        """Ask one batch."""
        lows, highs = self._boxes(_SCANNED if self.who.scans else self.who.batch)
        self.pairs += self._ask(lows, highs)
        self.tuples += lows.size
        self._next += 1
        return True

    def _boxes(self, most: int) -> tuple[Array, Array]:
        lows, highs = self._load.asked(self.who, self._next)
        if most >= lows.size:
            return lows, highs
        picked = np.linspace(0, lows.size - 1, most).astype(np.int64)
        return lows[picked], highs[picked]

    def _ask(self, lows: Array, highs: Array) -> int:
        """Ask, read the answer, check it; returns the number of its pairs."""
        structure = self._held.structure
        self.checked += lows.size
        if self.who.output == "ranges":
            ranges = self.timed(lambda: structure.ranges(lows, highs))
            most = _SAMPLED if self._next else _MATERIALISED
            return check_ranges(self.name, self._next, ranges, self._truth, lows, highs, most)
        answer = self.read(lambda: structure.probe(lows, highs))
        check_pairs(self.name, self._next, answer, self._truth.digest(lows, highs)[1])
        return answer.matches


class Sliding(Windowed):
    """One side of a join on a single structure: probe, insert, expire, batch after batch."""

    def _taken(self) -> Filled:
        held = self._stock.fresh(self.who, extra=_STEPS * self.who.batch)
        held.fill(self.who.rows)
        return held

    def step(self) -> bool:
        """Move on by one batch."""
        held, who, structure = self._held, self.who, self._held.structure
        if self.steps == _STEPS:
            return False
        start = held.count - who.rows
        lows, highs = held.load.asked(who, self.steps)
        keys, ids = held.load.sorted_batch(held.count, held.count + who.batch)
        answer = self.read(lambda: structure.probe(lows, highs))
        self.timed(lambda: structure.insert(keys, ids))
        self.timed(lambda: structure.expire(start + who.batch))
        held.count += who.batch

        def right() -> Digest:
            window = held.load.keys[start : start + who.rows]
            return Truth(window, start).digest(lows, highs)[1]

        check_pairs(self.name, self.steps, answer, self._stock.digest(who, self.steps, right))
        self.tuples += who.batch
        self.pairs += answer.matches
        self.checked += who.batch
        return True
