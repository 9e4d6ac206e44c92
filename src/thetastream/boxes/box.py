"""From conditions to boxes: which keys of the stored side a fresh row asks for.

For a fresh value, each condition of a term yields one or two inclusive intervals of stored keys.
The conditions of an arm are intersected, and the arms of a term are made disjoint. Whole numbers,
decimals and times use exact integer edges that saturate at the ends of int64. Floats use edges that
follow IEEE rounding (``data/kernels/floats.py``).

    fresh right value v, term -5 <= l.x - r.x <= 5     stored left keys [v - 5, v + 5]
    fresh right value v, term l.x != r.x               stored left keys [min, v - 1], [v + 1, max]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array, Floats, Mask
from thetastream.boxes import prefixes, relative
from thetastream.boxes.kernels.arms import make_disjoint
from thetastream.boxes.rounding import last_keys
from thetastream.condition.expression import Function
from thetastream.condition.term import (
    Arm,
    Compare,
    Condition,
    Constant,
    Difference,
    Relative,
    Term,
    edges,
)
from thetastream.data.batch import float_keys, keys_to_floats
from thetastream.data.kernels.floats import (
    NAN_KEY,
    NEGATIVE_INFINITY_KEY,
    POSITIVE_INFINITY_KEY,
)
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side
from thetastream.window import saturating_add

Pieces = list[tuple[Array, Array]]
_WIDEST = 2**1000  # a band that is wider has no cells


def intervals(term: Term, domain: Domain, fresh: Side, keys: Array) -> Pieces:
    """Disjoint intervals of stored keys that match fresh keys, as ``(lows, highs)`` arrays."""
    pieces: Pieces = []
    for arm in term.arms:
        pieces.extend(_arm(arm, domain, fresh, keys))
    if len(term.arms) == 1 or len(pieces) == 1:
        return pieces
    lows = np.stack([low for low, _ in pieces])
    highs = np.stack([high for _, high in pieces])
    make_disjoint(lows, highs)
    return list(zip(lows, highs, strict=True))


def band_width(term: Term, domain: Domain) -> float | None:
    """The width of a bounded band, in values (floats) or key units; None for other terms."""
    arm = term.arms[0]
    if not term.is_band or any(isinstance(c, Compare) and c.op is Function.EQ for c in arm):
        return None
    bounds = [edge for condition in arm for edge in edges(condition, domain.constant)]
    low = max(value for value, is_low in bounds if is_low)
    width = min(value for value, is_low in bounds if not is_low) - low
    return float(width) if width <= _WIDEST else None


def _arm(arm: Arm, domain: Domain, fresh: Side, keys: Array) -> Pieces:
    if domain.kind is KeyKind.PREFIX:
        return intersected([prefixes.pieces(condition, fresh, keys) for condition in arm])
    edges = _float_edges if domain.kind is KeyKind.FLOAT else _exact_edges
    return intersected([edges(condition, domain, fresh, keys) for condition in arm])


def intersected(parts: Sequence[Pieces]) -> Pieces:
    """The intersections of one interval of each part, in all combinations."""
    return parts[0] if len(parts) == 1 else [_intersection(each) for each in product(*parts)]


def _intersection(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    low, high = parts[0]
    for other_low, other_high in parts[1:]:
        low, high = np.maximum(low, other_low), np.minimum(high, other_high)
    return low, high


def _all_from(low: Array) -> tuple[Array, Array]:
    return low, np.full_like(low, MOST)


def _all_to(high: Array) -> tuple[Array, Array]:
    return np.full_like(high, LEAST), high


# --- Whole numbers, decimals, times --------------------------------------------------------------


def _exact_edges(condition: Condition, domain: Domain, fresh: Side, keys: Array) -> Pieces:
    """Intervals of the stored key ``u`` for a fresh ``v``: every condition is ``u op v + c``."""
    if isinstance(condition, Relative):
        return relative.pieces(condition, domain, fresh, keys)
    if isinstance(condition, Compare):
        op = condition.op if fresh is Side.RIGHT else condition.op.flip()
        stored, added = (domain.constant(condition.shift(s) or 0) for s in (fresh.other, fresh))
        return _exact_compare(op, added - stored, keys)
    assert isinstance(condition, Difference)
    if condition.low is not None and condition.high is not None:
        return [exact_band(_steps(condition, domain, fresh), keys)]
    # minuend stored: u - v op c, so u op v + c.  minuend fresh: v - u op c, so u flip(op) v - c.
    bound = condition.low or condition.high
    assert bound is not None
    op = Function.GE if condition.low is not None else Function.LE
    if bound.strict:
        op = Function.GT if op is Function.GE else Function.LT
    if condition.minuend is fresh:
        return _exact_compare(op.flip(), -domain.constant(bound.value), keys)
    return _exact_compare(op, domain.constant(bound.value), keys)


def exact_band(steps: tuple[int, int], keys: Array) -> tuple[Array, Array]:
    """The interval of a band with both edges: two additions, unless an edge leaves int64."""
    first, last = steps
    low, high = (int(keys.min()), int(keys.max())) if keys.size else (0, 0)
    edges_fit = low + first >= LEAST and low + last >= LEAST and high + first <= MOST
    if edges_fit and high + last <= MOST and first >= LEAST and last <= MOST:
        return keys + np.int64(first), keys + np.int64(last)
    piece = saturating_add(keys, first), saturating_add(keys, last)
    return _empty_if_below(_empty_if_above(piece, keys, first), keys, last)


def _steps(condition: Difference, domain: Domain, fresh: Side) -> tuple[int, int]:
    """Whole steps from a fresh key to the first and last stored keys inside a band."""
    assert condition.low is not None and condition.high is not None
    low, high = domain.constant(condition.low.value), domain.constant(condition.high.value)
    first = math.floor(low) + 1 if condition.low.strict else math.ceil(low)
    last = math.ceil(high) - 1 if condition.high.strict else math.floor(high)
    return (-last, -first) if condition.minuend is fresh else (first, last)


def plain_band(term: Term, domain: Domain, fresh: Side) -> tuple[int, int] | None:
    """The steps of a term that is a single exact band; they never change."""
    if domain.kind is KeyKind.FLOAT or len(term.arms) != 1 or len(term.arms[0]) != 1:
        return None
    (condition,) = term.arms[0]
    if not isinstance(condition, Difference) or condition.low is None or condition.high is None:
        return None
    steps = _steps(condition, domain, fresh)
    return steps if all(LEAST <= step <= MOST for step in steps) else None


def _exact_compare(op: Function, shift: Fraction, keys: Array) -> Pieces:
    """Keys ``u`` with ``u op v + shift``; a shift between two keys rounds inwards."""
    down, up = math.floor(shift), math.ceil(shift)
    if op is Function.LE:
        return [_empty_if_below(_all_to(saturating_add(keys, down)), keys, down)]
    if op is Function.LT:
        return [_empty_if_below(_all_to(saturating_add(keys, up - 1)), keys, up - 1)]
    if op is Function.GE:
        return [_empty_if_above(_all_from(saturating_add(keys, up)), keys, up)]
    if op is Function.GT:
        return [_empty_if_above(_all_from(saturating_add(keys, down + 1)), keys, down + 1)]
    if op is Function.EQ:
        if down != up:
            return [(np.ones_like(keys), np.zeros_like(keys))]
        return [exact_band((down, down), keys)]
    return _exact_compare(Function.LT, shift, keys) + _exact_compare(Function.GT, shift, keys)


def _empty_if_below(piece: tuple[Array, Array], keys: Array, step: int) -> tuple[Array, Array]:
    """Empty the intervals whose upper edge leaves int64 at the bottom."""
    low, high = piece
    if step < 0 and (gone := high == LEAST).any():
        return _emptied(low, high, gone & (keys.astype(object) + step < LEAST))
    return low, high


def _empty_if_above(piece: tuple[Array, Array], keys: Array, step: int) -> tuple[Array, Array]:
    """Empty the intervals whose lower edge leaves int64 at the top."""
    low, high = piece
    if step > 0 and (gone := low == MOST).any():
        return _emptied(low, high, gone & (keys.astype(object) + step > MOST))
    return low, high


def _emptied(low: Array, high: Array, where: Mask) -> tuple[Array, Array]:
    return np.where(where, np.int64(1), low), np.where(where, np.int64(0), high)


# --- Floats --------------------------------------------------------------------------------------


def _float_edges(condition: Condition, domain: Domain, fresh: Side, keys: Array) -> Pieces:
    if isinstance(condition, Relative):
        return relative.pieces(condition, domain, fresh, keys)
    if isinstance(condition, Compare):
        return _float_compare(condition, fresh, keys)
    assert isinstance(condition, Difference)
    values = keys_to_floats(keys)
    if condition.minuend is fresh:
        return _float_difference_fresh(condition, values)
    return _float_difference_stored(condition, values)


def _float_compare(condition: Compare, fresh: Side, keys: Array) -> Pieces:
    """``fl(u + stored shift) op w`` with ``w = fl(v + fresh shift)``."""
    op = condition.op if fresh is Side.RIGHT else condition.op.flip()
    stored, added = condition.shift(fresh.other), condition.shift(fresh)
    if stored is None and added is None:
        at_most, below = keys, keys - 1
    else:
        at_most, below = _float_bounds(stored, added, keys_to_floats(keys))
    if op is Function.LE:
        return [_all_to(at_most)]
    if op is Function.LT:
        return [_all_to(below)]
    if op is Function.GE:
        return [_all_from(below + 1)]
    if op is Function.GT:
        return [_all_from(at_most + 1)]
    if op is Function.EQ:
        return [(below + 1, at_most)]
    return [_all_to(below), _all_from(at_most + 1)]


def _float_bounds(
    stored: Constant | None, added: Constant | None, values: Floats
) -> tuple[Array, Array]:
    """The last keys at most, and below, the bounds of values; constants are added."""
    with np.errstate(all="ignore"):
        bound = values if added is None else values + float(added)  # type: ignore[arg-type]
    if stored is None:
        at = float_keys(bound)
        return at, at - 1
    shifts = np.full_like(bound, float(stored))  # type: ignore[arg-type]
    return last_keys(shifts, bound, strict=False), last_keys(shifts, bound, strict=True)


def _float_difference_stored(condition: Difference, values: Floats) -> Pieces:
    """``low <= fl(u - v) <= high`` for the stored ``u``: rising in ``u``, with NaN at the top."""
    regular = np.isfinite(values)
    shifts = np.where(regular, -values, 0.0)
    low, high = np.full(len(values), LEAST), np.full(len(values), MOST)
    if condition.low is not None:
        edge = np.full_like(values, float(condition.low.value))  # type: ignore[arg-type]
        low = last_keys(shifts, edge, strict=not condition.low.strict) + 1
    if condition.high is not None:
        edge = np.full_like(values, float(condition.high.value))  # type: ignore[arg-type]
        high = last_keys(shifts, edge, strict=condition.high.strict)
    if regular.all():
        return [(low, high)]
    # v = +inf: u - v is -inf, and NaN for u = +inf or NaN.  v = -inf: +inf or NaN.  v = NaN: NaN.
    plus = values == np.inf
    rest = ~regular & ~plus
    capped = condition.high is not None
    low = np.where(plus, LEAST if condition.low is None else POSITIVE_INFINITY_KEY, low)
    high = np.where(plus, POSITIVE_INFINITY_KEY - 1 if capped else MOST, high)
    low = np.where(rest, 1 if capped else LEAST, low)
    high = np.where(rest, 0 if capped else MOST, high)
    return [(low, high)]


def _float_difference_fresh(condition: Difference, values: Floats) -> Pieces:
    """``low <= fl(v - u) <= high`` for the stored ``u``: falling in ``u``, but NaN at its top.

    ``fl(v - u) = -fl(u - v)`` exactly, so the edges are those of the mirrored band. Keys that yield
    NaN (above every bound) are added for an open upper end and excluded for a closed one.
    """
    regular = np.isfinite(values)
    shifts = np.where(regular, -values, 0.0)
    low, high = np.full(len(values), LEAST), np.full(len(values), POSITIVE_INFINITY_KEY)
    if condition.high is not None:
        edge = np.full_like(values, -float(condition.high.value))  # type: ignore[arg-type]
        low = last_keys(shifts, edge, strict=not condition.high.strict) + 1
    if condition.low is not None:
        edge = np.full_like(values, -float(condition.low.value))  # type: ignore[arg-type]
        high = np.minimum(last_keys(shifts, edge, strict=condition.low.strict), high)
    capped = condition.high is not None
    if not regular.all():
        # v = +inf or NaN: +inf or NaN throughout.  v = -inf: -inf, but NaN for u = -inf or NaN.
        minus = values == -np.inf
        rest = ~regular & ~minus
        low = np.where(rest, 1 if capped else LEAST, low)
        high = np.where(rest, 0 if capped else MOST, high)
        low = np.where(minus, NEGATIVE_INFINITY_KEY + 1 if capped else LEAST, low)
        only_nan = NEGATIVE_INFINITY_KEY if condition.low is not None else POSITIVE_INFINITY_KEY
        high = np.where(minus, POSITIVE_INFINITY_KEY if capped else only_nan, high)
        if capped and condition.low is not None:
            low, high = _emptied(low, high, minus)
    pieces: Pieces = [(low, high)]
    if not capped:
        only = np.full(len(values), NAN_KEY)
        pieces.append(_emptied(only, only, high >= NAN_KEY))
    return pieces
