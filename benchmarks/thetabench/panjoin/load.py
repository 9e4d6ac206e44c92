"""What a subwindow stores and what it is asked: rows and boxes, made from a seed.

Row ``n`` has id ``n``. Keys are uniform: over 31 bits, or over evenly spaced *distinct* values,
when an equi-join is to find several rows. Boxes come in batches, sorted by their lower edge, as the
manager of the paper sorts them; making and sorting them is not timed. Batch ``n`` depends on seed
and ``n`` only, so all contestants ask the same, however many batches each has time for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thetabench.panjoin.plan import Contestant, Work
from thetastream.datasets.keys import DOMAIN
from thetastream.datasets.rates import uniform_band_width

__all__ = ["Asked", "Load", "Rows", "boxes_of", "rows_of"]

Array = NDArray[np.int64]
_POOL = 1 << 20  # boxes after which the batches come again: far more than the caches hold


@dataclass(frozen=True)
class Rows:
    """Which rows: ``count`` of them, with ``distinct`` keys (0: any of 31 bits)."""

    count: int
    distinct: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Asked:
    """Which boxes: those that hold ``matches`` of ``rows`` rows on average."""

    rows: Rows
    window: int
    """Rows that a box can meet."""
    work: Work
    batch: int
    matches: float

    @property
    def batches(self) -> int:
        """How many different batches there are."""
        return max(2, _POOL // self.batch)


def rows_of(who: Contestant, seed: int, extra: int = 0) -> Rows:
    """The rows that a contestant stores; an equi-join with S > 1 needs keys that repeat.

    >>> who = Contestant("", "", 1, Work.EQUI, 4096, 2, matches=16)
    >>> rows_of(who, 0).distinct
    256
    """
    repeated = who.work is Work.EQUI and who.matches > 1
    distinct = max(1, round(who.rows / who.matches)) if repeated else 0
    return Rows(who.rows + extra, distinct, seed)


class Load:
    """The rows themselves."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @cached_property
    def keys(self) -> Array:
        """The key of every row, in order of arrival."""
        rng = np.random.default_rng([self.rows.seed, 0])
        return self._drawn(rng, self.rows.count)

    def sorted_batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of rows ``start … stop - 1``, sorted by key."""
        keys = self.keys[start:stop]
        order = np.argsort(keys)
        return keys[order], start + order

    def asked(self, asked: Asked, number: int) -> tuple[Array, Array]:
        """The inclusive intervals of a batch, sorted by their lower edge."""
        rng = np.random.default_rng([self.rows.seed, 1 + number % asked.batches])
        if asked.work is not Work.EQUI:
            rate = asked.matches
            width = round(uniform_band_width(DOMAIN, window=asked.window, match_rate=rate))
            middle = np.sort(rng.integers(0, DOMAIN, asked.batch))
            return middle - width, middle + width
        if self.rows.distinct:
            keys = np.sort(self._drawn(rng, asked.batch))
        else:  # one row each, and now and then another of the same key
            keys = np.sort(self.keys[rng.integers(0, self.rows.count, asked.batch)])
        return keys, keys.copy()

    def _drawn(self, rng: np.random.Generator, count: int) -> Array:
        if not self.rows.distinct:
            return rng.integers(0, DOMAIN, count)
        step = max(1, DOMAIN // self.rows.distinct)
        return rng.integers(0, self.rows.distinct, count) * step


def boxes_of(who: Contestant, rows: Rows) -> Asked:
    """The boxes that a contestant is asked."""
    return Asked(rows, who.rows, who.work, who.batch, who.matches)
