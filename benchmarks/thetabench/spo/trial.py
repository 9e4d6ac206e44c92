"""Rows that ask a full window, and rows that ask and enter a part that grows.

A contestant that needs long for one row is asked with fewer rows at a time than the batch has: as
many as fit into its seconds. Where single rows ask, the seconds of each are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetabench.digest import Digest, VerificationError, check_pairs
from thetabench.spo.plan import Contestant
from thetabench.spo.reference import Step
from thetabench.spo.stock import Filled, Stock
from thetabench.trial import Clocked

__all__ = ["Growing", "Probing", "Recorded", "Trial", "Weighing"]

_POOL = 1 << 11  # fresh rows after which the same ones ask again …
_WIDE_POOL = 1 << 8  # … where each meets so many that a checksum takes long
_WIDE = 1 << 12
_SOME = 16  # rows that ask a window of which only the size is measured
_COUNTED = ("runs", "merges")
_QUANTILES = {"p50_us": 0.5, "p75_us": 0.75, "p95_us": 0.95, "p99_us": 0.99, "max_us": 1.0}


class Trial(Clocked):
    """What one contestant does in a cell, in ``budget`` seconds."""

    def __init__(self, who: Contestant, label: str, stock: Stock, budget: float) -> None:
        several = dict(who.parameters).get("workers", 1) > 1
        super().__init__(f"{who.label} ({label})", several=several)
        self.who = who
        self.stock = stock
        self.budget = budget
        self.asked = who.batch
        """Rows that ask at a time."""
        self.waits: list[float] = []
        """Seconds per row, where single rows ask."""

    @property
    def details(self) -> dict[str, Any]:
        """More columns of the result file."""
        if not self.waits:
            return {}
        waits = np.array(self.waits) * 1e6
        return {name: float(np.quantile(waits, part)) for name, part in _QUANTILES.items()}


class Asking(Trial):
    """A structure of the registry that is asked with boxes."""

    def __init__(self, who: Contestant, label: str, stock: Stock, budget: float) -> None:
        super().__init__(who, label, stock, budget)
        self._held = self._made()
        self._rehearse()

    def _made(self) -> Filled:
        """A structure of its own, with a full window."""
        return self.stock.fresh(self.who)

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return self._held.structure.nbytes

    @property
    def details(self) -> dict[str, Any]:
        """Latencies, and what the structure has counted."""
        counted = self._held.structure.statistics
        return {**super().details, **{name: counted.get(name, 0.0) for name in _COUNTED}}

    def _rehearse(self) -> None:
        """Ask twice with one row: that tells how many rows there is time for; then with some."""
        for rows in (1, 1):
            self.restart()
            self._ask(0, rows)
        most = int(self.budget / max(self.seconds, 1e-9))
        self.asked = max(1, min(self.who.batch, most))
        if self.asked > 1:
            self._ask(0, min(self.asked, _SOME))
        self.restart()

    def _ask(self, start: int, stop: int) -> Digest:
        """Ask with fresh rows and read the answer, while the clock runs."""
        lows, highs = self._held.load.boxes(start, stop)
        structure = self._held.structure
        return self.read(lambda: structure.probe(lows, highs))

    def _noted(self, before: float) -> None:
        """Count a batch that took the seconds since ``before``."""
        if self.asked == 1:
            self.waits.append(self.seconds - before)
        self.tuples += self.asked


class Probing(Asking):
    """Rows ask a window that stays as it is."""

    def __init__(self, who: Contestant, label: str, stock: Stock, budget: float) -> None:
        super().__init__(who, label, stock, budget)
        self._answers = stock.answers(who.rows, who.window)
        pool = _WIDE_POOL if who.rows.rate > _WIDE else _POOL
        self._pool = max(1, min(pool, who.rows.after) // self.asked) * self.asked

    def _made(self) -> Filled:
        return self.stock.full(self.who)

    def step(self) -> bool:
        """Ask with one batch."""
        start, before = self.steps * self.asked % self._pool, self.seconds
        found = self._ask(start, start + self.asked)
        self._noted(before)
        self.pairs += found.matches
        right = self._answers.digest(start, start + self.asked)
        check_pairs(self.name, self.steps, found, right)
        self.checked += self.asked
        return True


class Weighing(Probing):
    """A full window, of which only the size is measured; some rows ask, to see that it is right."""

    def advance(self, seconds: float) -> None:
        """Ask a few times."""
        while self.steps * self.asked < _SOME:
            self.step()
            self.steps += 1

    def finish(self) -> None:
        """Nothing was timed."""
        held = len(self._held.structure)
        if held != self.who.window:
            raise VerificationError(f"{self.name} holds {held:,} of {self.who.window:,} rows.")
        self.restart()
        self.waits.clear()
        self.tuples = self.pairs = 0


class Recorded(Asking):
    """A structure that changes: its answers are compared at the end, all contestants' together."""

    def __init__(self, who: Contestant, label: str, stock: Stock, budget: float) -> None:
        super().__init__(who, label, stock, budget)
        self._asked: list[Step] = []
        self._found: list[Digest] = []

    def _recorded(self, count: int) -> None:
        """Let the next rows ask."""
        start = self._asked[-1].stop if self._asked else 0
        found = self._ask(start, start + count)
        self._asked.append(Step(start, start + count, self._held.first, self._held.count))
        self._found.append(found)
        self.pairs += found.matches

    def _entered(self, count: int) -> None:
        """Insert the next rows."""
        rows = self._held.next(count)
        self.timed(lambda: self._held.structure.insert(*rows))

    def finish(self) -> None:
        """Compare all answers."""
        for number, right in enumerate(self.stock.right(self.who.rows, self._asked)):
            check_pairs(self.name, number, self._found[number], right)
        self.checked += sum(step.stop - step.start for step in self._asked)


class Growing(Recorded):
    """Rows ask a part that is half full, and other rows go into it, until it is full."""

    def _made(self) -> Filled:
        return self.stock.fresh(self.who, self.who.window // 2)

    def step(self) -> bool:
        """Ask, then insert."""
        full = self._held.count + self.asked > self.who.window
        if full or (self.steps + 1) * self.asked > self.who.rows.after:
            return False
        before = self.seconds
        self._recorded(self.asked)
        self._entered(self.asked)
        self._noted(before)
        return True
