"""Windows that move: rows ask, rows go in, old ones expire, and parts are merged."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from thetabench.digest import VerificationError
from thetabench.spo.plan import Contestant
from thetabench.spo.stock import Stock, few
from thetabench.spo.trial import Recorded

__all__ = ["Inserting", "Merging", "Sliding"]

_PATIENCE = 4.0  # how often its seconds a contestant may take to come to its next merge
_MEANWHILE = 1 << 10  # rows that ask while a merge is under way, at most …
_AFTER = 16  # … and after it
_MERGES = 6  # at most
_SOON = 30.0  # seconds that a merge may take
_NAP = 1e-3


class Sliding(Recorded):
    """One side of a join on a single structure: probe, insert, expire."""

    def advance(self, seconds: float) -> None:
        """Work until the time is over and, if that is soon, there was a merge."""
        super().advance(seconds)
        cycle = self.who.cycle * seconds / self.budget if self.budget else 0.0
        while self.tuples < cycle and self.seconds < _PATIENCE * seconds and self.step():
            self.steps += 1

    def step(self) -> bool:
        """Move on by one batch."""
        if (self.steps + 1) * self.asked > self.who.rows.after:
            return False
        before = self.seconds
        if self._asks:
            self._recorded(self.asked)
        self._entered(self.asked)
        self.timed(lambda: self._held.expire(self._held.count - self.who.window))
        self._noted(before)
        return True

    @property
    def _asks(self) -> bool:
        return True


class Inserting(Sliding):
    """Rows go in and old ones expire; at the end some ask, and all must be there."""

    @property
    def _asks(self) -> bool:
        return False

    def _rehearse(self) -> None:
        self.asked = self.who.batch

    def finish(self) -> None:
        """Compare the rows that are there, and a few answers."""
        held, seconds, cpu, pairs = self._held, self.seconds, self.cpu, self.pairs
        keys, ids = held.structure.dump()
        right = np.arange(held.first, held.count)
        if not np.array_equal(ids, right) or not np.array_equal(keys, held.load.keys[:, right]):
            raise VerificationError(
                f"{self.name} does not hold the last {self.who.window:,} rows that went in."
            )
        self._recorded(1)
        super().finish()
        self.seconds, self.cpu, self.pairs = seconds, cpu, pairs
        self.checked += self.tuples


class Merging(Recorded):
    """The mutable part becomes immutable; meanwhile single rows ask.

    A step is one merge. Rows go in, untimed, until one is missing. The clock runs for the row that
    makes the part full, and for each row that asks, until the mutable part is empty. A merge lasts
    from that row until then; where it is not in the background, that is the insertion itself.
    """

    def __init__(self, who: Contestant, label: str, stock: Stock, budget: float) -> None:
        super().__init__(who, label, stock, budget)
        self._stalls: list[float] = []
        self._merges: list[float] = []

    def _rehearse(self) -> None:
        self.asked = 1

    def step(self) -> bool:
        """Come to the next merge, and through it."""
        held, stop = self._held, self._held.count + self.who.slide
        if self.steps == _MERGES or stop > len(held.load.keys[0]):
            return False
        held.fill(stop - 1, few(self.who))
        held.expire(held.count - self.who.window)
        started, before = time.perf_counter(), self.seconds
        self._entered(1)
        self._stalls.append(self.seconds - before)
        merged = self._stalls[-1] if self._is_merged() else 0.0
        for _ in range(_MEANWHILE):
            if merged:
                break
            self._asks_alone()
            if self._is_merged():
                merged = time.perf_counter() - started
        while not merged:
            time.sleep(_NAP)
            if self._is_merged():
                merged = time.perf_counter() - started
            elif time.perf_counter() - started > _SOON:
                raise VerificationError(f"{self.name} had not merged after {_SOON} s.")
        self._merges.append(merged)
        for _ in range(_AFTER):
            self._asks_alone()
        return True

    def _asks_alone(self) -> None:
        before = self.seconds
        self._recorded(1)
        self.waits.append(self.seconds - before)
        self.tuples += 1

    def _is_merged(self) -> bool:
        """Whether the mutable part is empty; a finished merge is taken over first."""
        structure = self._held.structure
        structure.expire(self._held.first)
        return not structure.details["rows in the mutable part"]

    @property
    def details(self) -> dict[str, Any]:
        """Latencies of rows meanwhile, milliseconds of a merge and of the longest insertion."""
        return {
            **super().details,
            "merge_ms": 1e3 * sum(self._merges) / max(len(self._merges), 1),
            "stall_ms": 1e3 * max(self._stalls, default=0.0),
        }
