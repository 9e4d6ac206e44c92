"""Which scheme of partitioning a join gets.

    an equality and a band      cells, turned by the hash of the equality
    an equality                 hash
    a band, plain or relative   cells
    none of them                a matrix

A *multiple* is a column of constant times an expression, such as ``l.x * 0.99``. Two of them that
enclose an expression of the other side, ``r.x BETWEEN l.x * 0.99 AND l.x * 1.01``, are a relative
band, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow.types as pat

from thetastream.boxes.binding import Binding
from thetastream.boxes.field import Field
from thetastream.condition.expression import Column, Function
from thetastream.condition.term import Compare, Relative
from thetastream.engine.partition.cells import Cells, EqualCells, GrowingCells, ratios_of
from thetastream.engine.partition.routing import (
    Everywhere,
    Grid,
    Hashed,
    Routing,
    RoutingPlan,
    same_on_both,
)
from thetastream.errors import OptionError, SchemaError
from thetastream.options.checks import read_count, read_number, unknown
from thetastream.schema import NUMERIC, KeyKind
from thetastream.side import How, Side

SCHEMES = ("auto", "hash", "cells", "matrix")
_BANDS_PER_CELL = 8
_SHARES_PER_CELL = 6
"""Fewer than bands per cell: a table of prices has few cells whose width is a share of them."""

Multiples = Mapping[tuple[Side, str], tuple[str, Fraction]]
"""Columns by side and name, the expression that each is a multiple of, and its factor."""


def choose(
    binding: Binding,
    how: How,
    self_join: bool,
    partitions: int,
    scheme: str = "auto",
    cell_width: float | None = None,
    *,
    rooted: bool = False,
    multiples: Multiples | None = None,
) -> Routing:
    """Choose the scheme for a join.

    ``rooted``: an anchored row must meet all its partners at its home, as aggregates require.
    """
    if scheme not in SCHEMES:
        raise unknown("partitioning", scheme, SCHEMES)
    read_count("partitions", partitions)
    if cell_width is not None:
        read_number("cell_width", cell_width)
    plan = RoutingPlan(binding, how, self_join, partitions)
    points, bands = _points(plan), _bands(plan)
    shares = [] if bands else _shares(plan, multiples or {})
    cut = bands or shares
    if cell_width is not None and (scheme not in ("auto", "cells") or not cut):
        raise OptionError(
            "cell_width is for joins on a band, partitioned by cells; got "
            f"cell_width={cell_width!r} with partitioning={scheme!r} on {binding.predicate}. "
            "Leave it out"
        )
    if scheme == "hash" and not points:
        raise OptionError(f"partitioning='hash' needs an equality; {binding.predicate} has none")
    if scheme == "cells" and not cut:
        raise OptionError(f"partitioning='cells' needs a band; {binding.predicate} has none")
    if cut and scheme in ("auto", "cells"):
        hashed = Hashed(plan, points) if points else None
        if bands:
            return _equal_cells(plan, bands[0], cell_width, hashed)
        return _growing_cells(plan, shares[0], cell_width, hashed, rooted=rooted)
    if points and scheme in ("auto", "hash"):
        return Hashed(plan, points)
    if how is How.INNER and not self_join and not rooted:
        return Grid(plan)
    return Everywhere(plan)


def _points(plan: RoutingPlan) -> tuple[int, ...]:
    """Equality terms by which rows of both sides can be hashed."""
    return tuple(
        i
        for i, bound in enumerate(plan.binding.terms)
        if all(Field(plan.binding, side, (i,)).is_point for side in Side)
        and (not _needs_both(plan) or (same_on_both(plan, i) and bound.term.is_equality))
    )


def _needs_both(plan: RoutingPlan) -> bool:
    """Whether rows of a self-join must meet their partners in either role at one home."""
    return plan.self_join and plan.how.keeps(Side.RIGHT)


# --- Bands --------------------------------------------------------------------------------------


def _bands(plan: RoutingPlan) -> list[int]:
    """Band terms, the one whose cells are cut first."""
    return [
        i
        for i in range(len(plan.binding.terms))
        if Field(plan.binding, Side.LEFT, (i,)).width is not None
        and (same_on_both(plan, i) or not _needs_both(plan))
    ]


def _equal_cells(
    plan: RoutingPlan, term: int, wanted: float | None, hashed: Hashed | None
) -> Cells:
    field = Field(plan.binding, Side.LEFT, (term,))
    assert field.width is not None
    integral = field.domain.kind is not KeyKind.FLOAT
    if wanted is not None:
        width = float(field.domain.constant(_decimal(wanted))) if integral else float(wanted)
        if not width > 0 or not math.isfinite(width) or (integral and width < 1):
            raise OptionError(f"cell_width must be a positive number; got {wanted!r}")
    else:
        width = field.width * _BANDS_PER_CELL or 1.0
    if integral:
        width = float(min(max(1, int(width)), 2**62))
    cells = _cell_count(plan, field, width) if hashed is None else None
    if cells is not None and cells < plan.partitions:
        raise SchemaError(
            f"{plan.partitions} partitions, but the values of {field} lie in {cells} cells of "
            f"width {width:g}: use at most {cells} partitions, a smaller cell_width, or "
            "partitioning='matrix'"
        )
    return Cells(plan, EqualCells(plan, term, width), hashed)


def _decimal(value: float) -> int:
    if value != int(value):
        raise OptionError(
            f"cell_width must be a whole number for keys that are not floats; got {value}"
        )
    return int(value)


def _cell_count(plan: RoutingPlan, field: Field, width: float) -> int | None:
    """The number of cells that the values of a narrow key type span; None for wide types."""
    binding = plan.binding
    narrow = [
        schema.field(name).type.bit_width
        for side, schema in binding.schemas.items()
        for name in field.terms[0].term.expression(side).columns(side)
        if pat.is_integer(schema.field(name).type)
    ]
    if len(narrow) < 2 or max(narrow) > 16:
        return None
    return math.ceil(2.0 ** int(max(narrow)) / width)


# --- Relative bands -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Share:
    """A relative band: its term, the ratios of partners, and the side whose share is meant.

    ``greedy``: values of the base that are not finite match everything.
    """

    term: int
    ratios: dict[Side, tuple[float, float]]
    base: Side
    greedy: bool

    @property
    def width(self) -> float:
        """The width of the cells that are cut by default, as a share."""
        ratio = max(high / low for low, high in self.ratios.values())
        return float(ratio**_SHARES_PER_CELL - 1.0)


def _shares(plan: RoutingPlan, multiples: Multiples) -> list[_Share]:
    """Relative bands whose cells can be cut, however they are written."""
    bands = [*_relative(plan), *_enclosing(plan, multiples)]
    return [share for share in bands if same_on_both(plan, share.term) or not _needs_both(plan)]


def _relative(plan: RoutingPlan) -> Iterator[_Share]:
    for i, bound in enumerate(plan.binding.terms):
        if len(bound.term.arms) != 1:
            continue
        for condition in bound.term.arms[0]:
            if isinstance(condition, Relative):
                greedy = not condition.strict and bound.domain.kind is KeyKind.FLOAT
                yield _Share(i, ratios_of(condition), condition.base, greedy)


def _enclosing(plan: RoutingPlan, multiples: Multiples) -> Iterator[_Share]:
    """Pairs of terms that enclose an expression between two multiples of one of the other side."""
    bounds = [edge for i in range(len(plan.binding.terms)) for edge in _edges(plan, i, multiples)]
    for low in bounds:
        for high in bounds:
            if not low.below or high.below or low.inside != high.inside or low.of != high.of:
                continue
            if not 1 / 8 <= low.factor <= high.factor <= 8:
                continue
            ratio = float(high.factor / low.factor)
            ratios = {low.side: (1.0, ratio), low.side.other: (1.0 / ratio, 1.0)}
            if ratio > 1.0:
                yield _Share(low.term, ratios, low.side, greedy=False)


@dataclass(frozen=True)
class _Edge:
    """A term as an edge of an interval: a multiple on ``side`` lies below, or above, the inside."""

    term: int
    side: Side
    below: bool
    inside: object
    of: str
    factor: Fraction


def _edges(plan: RoutingPlan, term: int, multiples: Multiples) -> Iterator[_Edge]:
    """A plain ``<``, ``<=``, ``>`` or ``>=`` between columns, as an edge."""
    bound = plan.binding.terms[term]
    compared = bound.term
    if len(compared.arms) != 1 or len(compared.arms[0]) != 1 or bound.domain.kind not in NUMERIC:
        return
    (condition,) = compared.arms[0]
    if not isinstance(condition, Compare) or condition.constants:
        return
    rising = condition.op in (Function.LT, Function.LE)  # left below right
    if not rising and condition.op not in (Function.GT, Function.GE):
        return
    for side in Side:
        node = compared.expression(side)
        if isinstance(node, Column):
            of, factor = multiples.get((side, node.name), (f"`{node.name}`", Fraction(1)))
            inside = compared.expression(side.other).key()
            yield _Edge(term, side, rising is (side is Side.LEFT), inside, of, factor)


def _growing_cells(
    plan: RoutingPlan,
    share: _Share,
    wanted: float | None,
    hashed: Hashed | None,
    *,
    rooted: bool,
) -> Cells:
    """Cells of a relative band.

    Rows of the base that are not finite match everything. If the mode leaves the choice, such rows
    are sent everywhere; otherwise all rows of the other side are sent to them.
    """
    if wanted is not None and not 0 < wanted < math.inf:
        raise OptionError(
            "cell_width must be a positive number, the width of a cell as a share of the values "
            f"because {plan.binding.terms[share.term].term} is a relative band; got {wanted!r}"
        )
    if share.greedy and not plan.self_join and not rooted and plan.how is How.INNER:
        plan = replace(plan, preferred=share.base.other)
    width = share.width if wanted is None else float(wanted)
    greedy = share.base if share.greedy else None
    return Cells(plan, GrowingCells(plan, share.term, share.ratios, width, greedy), hashed)
