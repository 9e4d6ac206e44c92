"""The choice of a scheme: hash for equality, cells for a band, plain or relative, else a matrix.

``spread`` is both at once, for an equality of few values: the hash of the equal keys is added to
the number of the cell, so that rows of one key are divided by the band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pyarrow.types as pat

from thetastream.boxes.binding import Binding
from thetastream.boxes.field import Field
from thetastream.engine.partition.ratio import Multiple, Ratio, RatioCells, grants, ratios
from thetastream.engine.partition.routing import (
    Cells,
    Everywhere,
    Grid,
    Hashed,
    Routing,
    RoutingPlan,
    same_in_both,
)
from thetastream.errors import OptionError, SchemaError
from thetastream.options.checks import read_count, read_number, unknown
from thetastream.schema import KeyKind
from thetastream.side import How, Side

SCHEMES = ("auto", "hash", "cells", "matrix", "spread")
_BANDS_PER_CELL = 8


def choose(
    binding: Binding,
    how: How,
    self_join: bool,
    partitions: int,
    scheme: str = "auto",
    cell_width: float | None = None,
    *,
    rooted: bool = False,
    multiples: Mapping[str, Multiple] = MappingProxyType({}),
) -> Routing:
    """Choose the scheme for a join: hash for equality, cells for a band, else a matrix.

    ``rooted``: an anchored row must meet all its partners at its home, as aggregates require.
    ``multiples`` are columns that hold another one times a number.
    """
    if scheme not in SCHEMES:
        raise unknown("partitioning", scheme, SCHEMES)
    read_count("partitions", partitions)
    if cell_width is not None:
        read_number("cell_width", cell_width)
    plan = RoutingPlan(binding, how, self_join, partitions)
    points, bands, share = _points(plan), _bands(plan), _share(plan, multiples, rooted=rooted)
    banded = bool(bands) or share is not None
    if cell_width is not None and (scheme not in ("auto", "cells", "spread") or not banded):
        raise OptionError(
            "cell_width is for joins on a band, partitioned by cells; got "
            f"cell_width={cell_width!r} with partitioning={scheme!r} on {binding.predicate}. "
            "Leave it out"
        )
    if scheme in ("hash", "spread") and not points:
        raise OptionError(
            f"partitioning={scheme!r} needs an equality; {binding.predicate} has none"
        )
    if scheme in ("cells", "spread") and not banded:
        raise OptionError(f"partitioning={scheme!r} needs a band; {binding.predicate} has none")
    if points and scheme in ("auto", "hash") and cell_width is None:
        return Hashed(plan, points)
    beside = points if scheme == "spread" else ()
    if bands and scheme != "matrix":
        return _cells(plan, bands[0], cell_width, beside)
    if share is not None and scheme != "matrix":
        return _ratio_cells(plan, *share, cell_width, beside)
    if how is How.INNER and not self_join and not rooted:
        return Grid(plan)
    return Everywhere(plan)


def _share(
    plan: RoutingPlan, multiples: Mapping[str, Multiple], *, rooted: bool
) -> tuple[Ratio, Side] | None:
    """The relative band to cut cells by, and the side that gets homes."""
    for ratio in ratios(plan, multiples):
        if _needs_both(plan) and not same_in_both(plan, ratio.terms[0]):
            continue
        anchored = grants(plan, ratio, rooted=rooted)
        if anchored is not None:
            return ratio, anchored
    return None


def _ratio_cells(
    plan: RoutingPlan, ratio: Ratio, anchored: Side, wanted: float | None, beside: tuple[int, ...]
) -> RatioCells:
    octaves = ratio.octaves * _BANDS_PER_CELL if wanted is None else math.log2(1 + float(wanted))
    if not octaves > 0 or not math.isfinite(octaves):
        raise OptionError(
            f"cell_width must be a positive number, the share by which values of a cell differ, "
            f"such as 0.1; got {wanted!r}"
        )
    return RatioCells(replace(plan, preferred=anchored), ratio, octaves, beside)


def _points(plan: RoutingPlan) -> tuple[int, ...]:
    """Equality terms by which rows of both sides can be hashed."""
    return tuple(
        i
        for i, bound in enumerate(plan.binding.terms)
        if all(Field(plan.binding, side, (i,)).is_point for side in Side)
        and (not _needs_both(plan) or (same_in_both(plan, i) and bound.term.is_equality))
    )


def _bands(plan: RoutingPlan) -> list[int]:
    """Band terms, the one whose cells are cut first."""
    return [
        i
        for i in range(len(plan.binding.terms))
        if Field(plan.binding, Side.LEFT, (i,)).width is not None
        and (same_in_both(plan, i) or not _needs_both(plan))
    ]


def _needs_both(plan: RoutingPlan) -> bool:
    """Whether rows of a self-join must meet their partners in either role at one home."""
    return plan.self_join and plan.how.keeps(Side.RIGHT)


def _cells(plan: RoutingPlan, term: int, wanted: float | None, beside: tuple[int, ...]) -> Cells:
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
    cells = None if beside else _cell_count(plan, field, width)
    if cells is not None and cells < plan.partitions:
        raise SchemaError(
            f"{plan.partitions} partitions, but the values of {field} lie in {cells} cells of "
            f"width {width:g}: use at most {cells} partitions, a smaller cell_width, or "
            "partitioning='matrix'"
        )
    return Cells(plan, term, width, beside)


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
