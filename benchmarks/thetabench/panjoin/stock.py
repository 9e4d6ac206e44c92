"""Rows and boxes, made from a seed; and filled subwindows, kept for the next cell that needs them.

Row ``n`` has id ``n``. Keys are uniform: over 31 bits, or over evenly spaced *distinct* values,
when an equi-join is to find several rows. Boxes come in batches, sorted by their lower edge, as the
manager of the paper sorts them; making and sorting them is not timed. Batch ``n`` depends on seed
and ``n`` only, so all contestants ask the same, however many batches each has time for.

Filling eight million rows takes longer than probing them for a third of a second, and most figures
probe the same subwindows again and again. So they are kept, together with their rows and the
reference, until there is too much of it; what was not used for the longest time goes first.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from thetabench.answers import Truth
from thetabench.arrays import Array
from thetabench.panjoin.contestant import Contestant, Maker, Work
from thetabench.shelf import Shelf
from thetabench.windows import Filled
from thetastream.datasets.keys import DOMAIN
from thetastream.datasets.rates import uniform_band_width

_POOL = 1 << 20  # boxes after which the batches come again: far more than the caches hold
_STRUCTURES = 5 << 29  # bytes
_ROWS = 1 << 30
_TAIL = 16


class Load:
    """``count`` rows with ``distinct`` keys (0: any of 31 bits), and the boxes to ask for."""

    def __init__(self, count: int, distinct: int = 0, seed: int = 0) -> None:
        self.count = count
        self.distinct = distinct
        self._seed = seed

    @cached_property
    def keys(self) -> Array:
        """The key of every row, in order of arrival."""
        return self._drawn(np.random.default_rng([self._seed, 0]), self.count)

    def batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of rows ``start … stop - 1``, sorted by key."""
        keys = self.keys[start:stop]
        order = np.argsort(keys)
        return keys[order], start + order

    def asked(self, who: Contestant, number: int) -> tuple[Array, Array]:
        """A batch of inclusive intervals, sorted, each with S of N_Sub rows on average."""
        batches = max(2, _POOL // who.batch)
        rng = np.random.default_rng([self._seed, 1 + number % batches])
        if who.work is not Work.EQUI:
            rate = who.matches
            width = round(uniform_band_width(DOMAIN, window=who.rows, match_rate=rate))
            middle = np.sort(rng.integers(0, DOMAIN, who.batch))
            return middle - width, middle + width
        if self.distinct:
            keys = np.sort(self._drawn(rng, who.batch))
        else:  # one row each, and now and then another of the same key
            keys = np.sort(self.keys[rng.integers(0, self.count, who.batch)])
        return keys, keys.copy()

    def _drawn(self, rng: np.random.Generator, count: int) -> Array:
        if not self.distinct:
            return rng.integers(0, DOMAIN, count)
        return rng.integers(0, self.distinct, count) * max(1, DOMAIN // self.distinct)


class Stock:
    """All that cells share."""

    def __init__(self, make: Maker, seed: int = 0) -> None:
        self.make = make
        self._seed = seed
        self._loads = Shelf[Load](_ROWS)
        self._truths = Shelf[Truth](_ROWS)
        self._filled = Shelf[Filled](_STRUCTURES)

    def load(self, who: Contestant, extra: int = 0) -> Load:
        """The rows that a contestant stores."""
        key = count, different = who.rows + extra, distinct(who)
        make = lambda: Load(count, different, self._seed)  # noqa: E731
        return self._loads.get(key, make, lambda load: load.keys.nbytes)

    def truth(self, load: Load, start: int, stop: int) -> Truth:
        """The reference over the rows ``start … stop - 1`` of a load."""
        make = lambda: Truth(load.keys[start:stop], np.arange(start, stop))  # noqa: E731
        key = load.count, load.distinct, start, stop
        return self._truths.get(key, make, lambda truth: truth.nbytes)

    def full(self, who: Contestant) -> Filled:
        """A structure that holds all rows; it must not be changed."""

        def filled() -> Filled:
            made = self.fresh(who)
            made.fill(who.rows - who.tail)
            made.fill(who.rows, _TAIL)
            return made

        return self._filled.get(("full", *_recipe(who)), filled, lambda own: own.nbytes)

    def growing(self, who: Contestant, start: int, most: int) -> Filled:
        """A structure of ``start`` rows, or up to ``most`` from earlier cells; it may grow."""
        key = ("growing", *_recipe(who))
        held = self._filled.peek(key)
        if held is not None and not start <= held.count <= most:
            self._filled.drop(key)
        held = self._filled.get(key, lambda: self.fresh(who), lambda own: 0)
        held.fill(start)
        self._filled.weigh(key, held.nbytes)
        return held

    def fresh(self, who: Contestant, extra: int = 0) -> Filled:
        """An empty structure."""
        return Filled(self.make(who), self.load(who, extra))

    def clear(self) -> None:
        """Forget everything that takes room."""
        for shelf in (self._loads, self._truths, self._filled):
            shelf.clear()


def distinct(who: Contestant) -> int:
    """How many keys a contestant's rows have: an equi-join with S > 1 needs keys that repeat.

    >>> distinct(Contestant("", "", 1, work=Work.EQUI, rows=4096, batch=2, matches=16))
    256
    """
    repeated = who.work is Work.EQUI and who.matches > 1
    return max(1, round(who.rows / who.matches)) if repeated else 0


def _recipe(who: Contestant) -> tuple[Hashable, ...]:
    return who.structure, who.parameters, who.rows, who.tail, distinct(who)
