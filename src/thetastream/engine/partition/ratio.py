"""Cells for a relative band: all of one ratio, as the band is.

The band of ``abs(l.a - r.a) <= 0.01 * l.a`` is narrow at small values and wide at large ones, so
cells of one width do not suit it; cells of one ratio do. The bits of a positive double, read as a
whole number, are such a scale: they grow with the value, by 2^52 from each power of two to the next
one, and are exact. So a cell is ``bits // width``: at small and at large values about one row in
eight is near a border.

    value     1.00 … 1.19 │ 1.19 … 1.37 │ …        100 … 119 │ 119 … 137 │ …

Whole numbers and decimals are rounded to doubles first, which keeps their order.

A condition may also be written with two multiples of one column, ``r.a BETWEEN l.a * 0.99 AND
l.a * 1.01``. Then a left row asks for an interval of ``r.a``; the multiples tell only how wide a
cell has to be, so nothing depends on how they were rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from thetastream._jit.arrays import LEAST, Array
from thetastream.boxes.field import Field
from thetastream.condition.expression import Column, Function
from thetastream.condition.term import Compare, Relative
from thetastream.data.batch import float_keys
from thetastream.data.kernels.floats import NEGATIVE_INFINITY_KEY, POSITIVE_INFINITY_KEY
from thetastream.engine.partition.routing import Cells, RoutingPlan
from thetastream.plan.kernels.cells import cells_of_integers
from thetastream.schema import KeyKind
from thetastream.side import How, Side

Multiple = tuple[str, float]
"""A column and the number by which it is multiplied."""

OCTAVE = 2.0**52  # how much the bits of a double grow where its value doubles
_FAR = 1 << 62


@dataclass(frozen=True)
class Ratio:
    """A relative band: its terms, how many octaves it spans, and whose rows should have homes.

    ``anchored`` is a wish, which an inner join can grant.
    """

    terms: tuple[int, ...]
    octaves: float
    anchored: Side
    needed: bool = False


def ratios(plan: RoutingPlan, multiples: Mapping[str, Multiple]) -> Iterator[Ratio]:
    """The relative bands of a join, in the order of its terms."""
    for i, bound in enumerate(plan.binding.terms):
        for condition in bound.term.arms[0] if len(bound.term.arms) == 1 else ():
            if isinstance(condition, Relative):
                share = float(condition.factor)
                octaves = math.log2((1 + share) / (1 - share))
                yield Ratio((i,), octaves, condition.base.other)
    yield from _between(plan, multiples)


def _between(plan: RoutingPlan, multiples: Mapping[str, Multiple]) -> Iterator[Ratio]:
    """Pairs of terms that hold one expression between two multiples of a column."""
    lower, upper = _edges(plan, multiples, lower=True), _edges(plan, multiples, lower=False)
    for i, (side, base, low) in lower.items():
        for j, (other, same, high) in upper.items():
            first, second = plan.binding.terms[i], plan.binding.terms[j]
            met = first.term.expression(side).same(second.term.expression(side))
            met = met and first.domain == second.domain and 0 < low < high
            if met and (side, base) == (other, same):
                yield Ratio((i, j), math.log2(high / low), side, needed=True)


def _edges(
    plan: RoutingPlan, multiples: Mapping[str, Multiple], *, lower: bool
) -> dict[int, tuple[Side, str, float]]:
    """Terms that bound an expression by a multiple: its side, the column and the factor."""
    ops = (Function.GE, Function.GT) if lower else (Function.LE, Function.LT)
    found = {}
    for i, bound in enumerate(plan.binding.terms):
        term = bound.term
        if len(term.arms) != 1 or len(term.arms[0]) != 1:
            continue
        (condition,) = term.arms[0]
        if not isinstance(condition, Compare) or condition.constants:
            continue
        for side in Side:
            edge = term.expression(side.other)
            op = condition.op if side is Side.LEFT else condition.op.flip()
            if isinstance(edge, Column) and edge.name in multiples and op in ops:
                found[i] = (side, *multiples[edge.name])
    return found


class RatioCells(Cells):
    """A relative band: cells of one ratio, copies only across their borders."""

    def __init__(
        self, plan: RoutingPlan, ratio: Ratio, octaves: float, beside: tuple[int, ...] = ()
    ) -> None:
        super().__init__(plan, ratio.terms[0], max(1.0, octaves * OCTAVE), beside)
        self._ratio = ratio
        self._octaves = octaves
        self._fields = {side: Field(plan.binding, side, ratio.terms) for side in plan.anchored}
        self._kind = plan.binding.terms[ratio.terms[0]].domain.kind

    def _cells(self, keys: Array) -> Array:
        cells = np.empty(keys.size, np.int64)
        scaled = np.ascontiguousarray(self._scaled(keys))
        cells_of_integers(scaled, int(self.width), cells)
        if self._kind is KeyKind.FLOAT:
            # An infinite or NaN base meets nearly everything, so every row is sent to its cell: one
            # partition for all of them.
            far = _FAR // self.plan.partitions * self.plan.partitions
            cells[keys >= POSITIVE_INFINITY_KEY] = far
            cells[keys <= NEGATIVE_INFINITY_KEY] = -far
        return cells

    def _scaled(self, keys: Array) -> Array:
        """The keys as those of doubles, in the same order."""
        if self._kind is KeyKind.FLOAT:
            return keys
        if self._kind is KeyKind.UNSIGNED:
            return float_keys((keys ^ np.int64(LEAST)).view(np.uint64).astype(np.float64))
        return float_keys(keys.astype(np.float64))

    def replication(self) -> dict[Side, float]:
        reach = 1.0 + self._ratio.octaves / self._octaves
        based = not self._ratio.needed and self._ratio.anchored not in self.plan.anchored
        if based and self._kind is KeyKind.FLOAT:
            reach += 1.0 - 1.0 / self.plan.partitions  # where an infinite base would be
        return self._if_met_in(min(float(self.plan.partitions), reach))

    def describe(self) -> str:
        terms = (str(self.plan.binding.terms[i].term) for i in self._ratio.terms)
        span = f"cells that span {2**self._octaves - 1:.3%} of {' AND '.join(terms)}"
        return span + self._besides()


def grants(plan: RoutingPlan, ratio: Ratio, *, rooted: bool) -> Side | None:
    """The side to anchor for a relative band; None if the join cannot be cut by it."""
    free = plan.how is How.INNER and not plan.self_join and not rooted
    if free:
        return ratio.anchored
    if ratio.needed and (plan.self_join or plan.anchored != (ratio.anchored,)):
        return None
    return plan.lead
