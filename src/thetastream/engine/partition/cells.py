"""Cells: a band's number line is cut into pieces wider than the band, one partition each.

A *ruler* says in which cell a row is at home, and in which cells its partners can be:

    band           abs(l.x - r.x) <= 5                  cells of equal width
    relative band  abs(l.x - r.x) <= 0.01 * l.x         cells whose borders grow with the values:
                   r.x BETWEEN l.x * 0.99 AND l.x * 1.01    80 to 90, 90 to 101, 101 to 114, …

Cells of a relative band are equal pieces of the *keys* of doubles. Their exponent comes first, so
keys grow like a logarithm: a step of one share is nearly the same number of keys everywhere.

If the condition has an equality too, its hash turns the cells of each key by some partitions, so
that a few frequent keys, each with many values, still use all partitions:

    cells of l.x        …  17  18  19  20 …
    l.k = 'EUR'             1   2   0   1       three partitions, turned by 2
    l.k = 'USD'             2   0   1   2       turned by 0
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from thetastream._jit.arrays import LEAST, Array, Floats, Mask
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.condition.term import Relative
from thetastream.data.batch import float_keys, keys_to_floats
from thetastream.engine.partition.deliveries import Deliveries, Marks
from thetastream.engine.partition.routing import Hashed, Routing, RoutingPlan, count_rows
from thetastream.plan.kernels.cells import cells_of_floats, cells_of_integers
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

Reach = tuple[Array, Array, Mask | None]
"""The first and the last cell in which partners can be, and the rows that have any."""


class Ruler(ABC):
    """How the values that one term compares are cut into cells."""

    term: int
    band: float
    """The width of a row's interval, in cells."""
    greedy: Side | None = None
    """The side of which some values match everything, and are at home in a cell of their own."""

    @abstractmethod
    def cells(self, rows: Keys) -> Array:
        """The cell in which each row is at home."""

    @abstractmethod
    def reach(self, rows: Keys) -> Iterator[Reach]:
        """The cells in which partners of rows can be at home, or more."""

    @abstractmethod
    def describe(self) -> str:
        """The cells in words."""


class EqualCells(Ruler):
    """Cells of equal width, for a band."""

    def __init__(self, plan: RoutingPlan, term: int, width: float) -> None:
        self.term = term
        self.width = width
        self._compared = plan.binding.terms[term]
        self._fields = {side: Field(plan.binding, side, (term,)) for side in Side}
        self.band = (self._fields[Side.LEFT].width or 0.0) / width

    def cells(self, rows: Keys) -> Array:
        return self._cells(rows.keys[self.term])

    def reach(self, rows: Keys) -> Iterator[Reach]:
        for low, high in self._fields[rows.side.other].pieces(rows):
            yield self._cells(low), self._cells(high), low <= high

    def _cells(self, keys: Array) -> Array:
        cells = np.empty(keys.size, np.int64)
        if self._compared.domain.kind is KeyKind.FLOAT:
            cells_of_floats(np.ascontiguousarray(keys), self.width, cells)
        else:
            cells_of_integers(np.ascontiguousarray(keys), int(self.width), cells)
        return cells

    def describe(self) -> str:
        return f"cells of width {self.width:g} of {self._compared.term}"


class GrowingCells(Ruler):
    """Cells whose width is a share of the values, for a relative band.

    ``ratios`` holds, per side of a fresh row, the interval of its partners' values as multiples of
    its own. ``share`` is the width of a cell. Values of the side ``greedy`` that are not finite
    match everything.
    """

    def __init__(
        self,
        plan: RoutingPlan,
        term: int,
        ratios: dict[Side, tuple[float, float]],
        share: float,
        greedy: Side | None,
    ) -> None:
        self.term = term
        self.share = share
        self._compared = plan.binding.terms[term]
        self._ratios = ratios
        self.greedy = greedy
        self._keys_per_cell = max(int(_span(1.0, 1.0 + share)), _FEWEST_KEYS)
        self.band = max(_span(*ratio) for ratio in ratios.values()) / self._keys_per_cell

    def cells(self, rows: Keys) -> Array:
        values = _values(rows.keys[self.term], self._compared.domain)
        cells = self._cells(float_keys(values))
        return np.where(np.isfinite(values), cells, _APART) if rows.side is self.greedy else cells

    def reach(self, rows: Keys) -> Iterator[Reach]:
        domain = self._compared.domain
        values = _values(rows.keys[self.term], domain)
        low, high = self._interval(values, rows.side, 0.0 if domain.kind is KeyKind.FLOAT else 2.0)
        first, last = self._cells(low - _MARGIN), self._cells(high + _MARGIN)
        if rows.side is self.greedy:
            finite = np.isfinite(values)
            first, last = np.where(finite, first, 0), np.where(finite, last, _APART)
        yield first, last, None
        if rows.side.other is self.greedy:
            apart = np.full(values.size, _APART)
            yield apart, apart, None

    def _interval(self, values: Floats, side: Side, rounding: float) -> tuple[Array, Array]:
        """The keys of the values between which partners lie, but for the margin."""
        low, high = self._ratios[side]
        most = np.finfo(np.float64).max
        with np.errstate(over="ignore"):  # a product beyond the largest double reaches infinity
            near = np.clip(values, -most, most) * low
            far = values * high
        # Infinity is the partner of finite values whose product is; all between is included.
        far = np.where(np.isinf(values), values, far)
        below, above = np.fmin(near, far) - rounding, np.fmax(near, far) + rounding
        return float_keys(below), float_keys(above)

    def _cells(self, keys: Array) -> Array:
        cells = np.empty(keys.size, np.int64)
        cells_of_integers(np.ascontiguousarray(keys), self._keys_per_cell, cells)
        return cells

    def describe(self) -> str:
        return f"cells that are about {self.share:.2g} of the values wide, of {self._compared.term}"


_MARGIN = 1024
"""Keys added at both ends of an interval: what rounding can move them, and much more."""

_FEWEST_KEYS = 64 * _MARGIN

_APART = np.int64(1) << np.int64(62)
"""The cell of values that match everything, far from all others."""


def _span(low: float, high: float) -> float:
    """The number of keys of doubles between two positive values: 2^52 per factor of two."""
    return 2.0**52 * math.log2(high / low)


def _values(keys: Array, domain: Domain) -> Floats:
    """The compared values as doubles; those of integers and decimals rounded, in order."""
    if domain.kind is KeyKind.FLOAT:
        return keys_to_floats(keys)
    offset = float(-LEAST) if domain.kind is KeyKind.UNSIGNED else 0.0
    return keys.astype(np.float64) + offset


def ratios_of(condition: Relative) -> dict[Side, tuple[float, float]]:
    """The partners of a row under a relative band, as multiples of its own value."""
    share = float(condition.factor)
    of_base = (1.0 - share, 1.0 + share)
    return {
        condition.base: of_base,
        condition.base.other: (1.0 / of_base[1], 1.0 / of_base[0]),
    }


class Cells(Routing):
    """A band: copies only across the borders of cells. ``hashed``: by an equality beside it."""

    name = "cells"

    def __init__(self, plan: RoutingPlan, ruler: Ruler, hashed: Hashed | None = None) -> None:
        super().__init__(plan)
        self.ruler = ruler
        self._hashed = hashed

    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        leads, met = self.roles(fresh)
        home = self.homes(leads, met) if leads.side in self.plan.anchored else None
        marks = Marks(count_rows(fresh), self.plan.partitions, home)
        for role, rows in fresh.items():
            if role.other in self.plan.anchored:
                self._send_to_partners(marks, rows)
        if not self.plan.self_join and not set(fresh) & set(self.plan.anchored):
            (rows,) = fresh.values()
            unsent = marks.unsent()
            if unsent.any():
                marks.send(self.spread(rows), unsent)
        return marks.deliveries()

    def places(self, rows: Keys) -> Array:
        count = np.int64(self.plan.partitions)
        cells = self.ruler.cells(rows) % count
        return cells if self._hashed is None else (cells + self._hashed.places(rows)) % count

    def _send_to_partners(self, marks: Marks, rows: Keys) -> None:
        """Send rows to every partition with a cell in which their partners can lie."""
        turn = None if self._hashed is None else self._hashed.places(rows)
        for first, last, wanted in self.ruler.reach(rows):
            able = rows.valid
            if wanted is not None:
                able = wanted if able is None else wanted & able
            if turn is not None:
                first, last = self._turned(first, last, turn)
            marks.send_to_cells(first, last, able)

    def _turned(self, first: Array, last: Array, turn: Array) -> tuple[Array, Array]:
        """The same cells, counted on by some partitions; as numbers that cannot overflow."""
        count = np.int64(self.plan.partitions)
        spans = np.minimum(last.view(np.uint64) - first.view(np.uint64), np.uint64(count))
        start = first % count + turn
        return start, start + spans.astype(np.int64)

    def replication(self) -> dict[Side, float]:
        most, greedy = float(self.plan.partitions), self.ruler.greedy
        places = self.if_met_in(min(most, 1.0 + self.ruler.band))
        if greedy in self.plan.anchored:
            assert greedy is not None
            places[greedy.other] += 1.0 - places[greedy.other] / most
        return places

    def describe(self) -> str:
        cells = self.ruler.describe()
        return cells if self._hashed is None else f"{self._hashed.describe()}, and {cells}"
