"""Boxes of a relative band, ``abs(left - right) <= factor * base``.

    base fresh     the width is known: one interval around the fresh value
    base stored    |u - v| <= c u:  v / (1 + c) <= u <= v / (1 - c), for 0 < c < 1/3

Whole numbers and decimals are compared exactly, as fractions. Floats are compared as written, with
every rounding: the difference, then the product, then the comparison. For ``c < 1/3`` the stored
values that match a finite ``v`` are still neighbours. Where a difference is close to ``c u``, the
values ``u`` and ``v`` are within a factor of two of each other, so ``fl(u - v)`` is exact and grows
by one unit of ``u`` per step, while ``fl(c u)`` grows by less than one. Infinities and NaN are
added one by one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array, Floats
from thetastream.boxes.rounding import last_keys
from thetastream.condition.term import Relative
from thetastream.data.batch import float_keys, keys_to_floats
from thetastream.data.kernels.floats import (
    NAN_KEY,
    NEGATIVE_INFINITY_KEY,
    POSITIVE_INFINITY_KEY,
    relative_edges,
)
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

Pieces = list[tuple[Array, Array]]


def pieces(condition: Relative, domain: Domain, fresh: Side, keys: Array) -> Pieces:
    """Disjoint intervals of stored keys that match fresh keys."""
    around = condition.base is fresh
    if domain.kind is not KeyKind.FLOAT:
        return [_exact(condition, domain, keys, around=around)]
    values = keys_to_floats(keys)
    if around:
        return [_around(condition, values)]
    return _stored(condition, values)


# --- Whole numbers and decimals -----------------------------------------------------------------


def _exact(
    condition: Relative, domain: Domain, keys: Array, *, around: bool
) -> tuple[Array, Array]:
    share = Fraction(condition.factor)
    p, q = share.numerator, share.denominator
    offset = -LEAST if domain.kind is KeyKind.UNSIGNED else 0
    reach = max(abs(int(keys.min())), abs(int(keys.max()))) if keys.size else 0
    small = not offset and (reach + 1) * (p + q) <= MOST
    values: Any = keys if small else keys.astype(object) + offset
    size = abs(values) if condition.absolute else values
    if around:
        width = _floor(size * p, q, strict=condition.strict)
        low, high = values - width, values + width
    else:
        low = -_floor(-size * q, q + p, strict=condition.strict)
        high = _floor(size * q, q - p, strict=condition.strict)
        if condition.absolute:
            low, high = np.where(values < 0, -high, low), np.where(values < 0, -low, high)
    if small:
        return low, high
    gone = (low - offset > MOST) | (high - offset < LEAST) | (low > high)
    low, high = np.maximum(low - offset, LEAST), np.minimum(high - offset, MOST)
    return (
        np.where(gone, 1, low).astype(np.int64),
        np.where(gone, 0, high).astype(np.int64),
    )


def _floor(dividend: Any, divisor: int, *, strict: bool) -> Any:
    """The last whole number at most (or below) a quotient."""
    return -((-dividend) // divisor) - 1 if strict else dividend // divisor


# --- Floats -------------------------------------------------------------------------------------


def _around(condition: Relative, values: Floats) -> tuple[Array, Array]:
    """The fresh value is the base, so the width is known."""
    with np.errstate(all="ignore"):
        width = float(condition.factor) * (np.abs(values) if condition.absolute else values)
    able = np.isfinite(values) & ((width > 0) if condition.strict else (width >= 0))
    shifts, bounds = np.where(able, -values, 0.0), np.where(able, width, 0.0)
    low = last_keys(shifts, -bounds, strict=not condition.strict) + 1
    high = last_keys(shifts, bounds, strict=condition.strict)
    low, high = np.where(able, low, 1), np.where(able, high, 0)
    if condition.strict or np.isfinite(values).all():
        return low, high
    # An infinite width admits every finite difference and every infinite one; NaN admits all.
    nan, plus = np.isnan(values), values == np.inf
    low, high = np.where(nan | plus, LEAST, low), np.where(nan, MOST, high)
    high = np.where(plus, POSITIVE_INFINITY_KEY - 1, high)
    if condition.absolute:
        minus = values == -np.inf
        low = np.where(minus, NEGATIVE_INFINITY_KEY + 1, low)
        high = np.where(minus, POSITIVE_INFINITY_KEY, high)
    return low, high


def _stored(condition: Relative, values: Floats) -> Pieces:
    """The stored value is the base."""
    finite = np.isfinite(values)
    negative = finite & (values < 0)
    able = finite & (values > 0)
    if condition.absolute:
        able |= negative
    low, high = np.empty(values.size, np.int64), np.empty(values.size, np.int64)
    size = np.where(able, np.abs(values), 1.0)
    relative_edges(size, float(condition.factor), condition.strict, np.empty(1), low, high)
    if condition.absolute and negative.any():
        low, high = np.where(negative, -1 - high, low), np.where(negative, -1 - low, high)
    if not able.all():
        # v = 0 meets u = 0. A negative base has a width only if it underflows to -0.0: u = v.
        own = float_keys(values)
        alone = finite & (float(condition.factor) * values == 0) & (not condition.strict)
        low = np.where(able, low, np.where(alone, own, 1))
        high = np.where(able, high, np.where(alone, own, 0))
    pieces: Pieces = [(low, high)]
    if condition.strict:
        return pieces
    # u = +inf: its width admits v unless v is +inf or NaN.  u = NaN admits all.  abs: u = -inf too.
    top = np.where(np.isnan(values) | (values == np.inf), NAN_KEY, POSITIVE_INFINITY_KEY)
    pieces.append((top, np.full_like(top, NAN_KEY)))
    if condition.absolute:
        bottom = np.full_like(top, NEGATIVE_INFINITY_KEY)
        none = np.isnan(values) | (values == -np.inf)
        pieces.append((np.where(none, 1, bottom), np.where(none, 0, bottom)))
    return pieces
