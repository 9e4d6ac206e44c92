"""Converts intervals of keys from the domain of a comparison to that of the stored keys.

A relation is sorted by keys of its own type. A predicate may compare them with values of another
type, in a common domain: whole numbers with floats, days with seconds. The conversion from stored
keys to the common domain preserves the order, so an interval there is an interval of stored keys.

    stored dates (days), stream timestamps (seconds)      [86400, 200000] seconds  =  [1, 2] days
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.data.batch import float_keys, keys_to_floats
from thetastream.schema import Domain, KeyKind

_BIAS = np.int64(LEAST)
_REACH = 1 << 14  # doubles near 2^64 stand 4,096 apart
_INFINITE = tuple(int(key) for key in float_keys(np.array([-np.inf, np.inf])))


def stored_interval(
    stored: Domain, compared: Domain, lows: Array, highs: Array
) -> tuple[Array, Array]:
    """The stored keys whose value lies in ``[low, high]``, bounds of the compared domain.

    An empty interval stays one. O(1) per interval; comparisons with floats take some 20 steps.
    """
    if stored == compared:
        return lows, highs
    if compared.kind is KeyKind.FLOAT:
        return _float_interval(stored, lows, highs)
    if stored.kind is KeyKind.UNSIGNED and compared.kind is KeyKind.INTEGER:
        return _unsigned(lows, highs)
    if compared.kind is KeyKind.DECIMAL and stored.kind is KeyKind.UNSIGNED:
        return _unsigned(*_divided(lows, highs, 10**compared.scale))
    return _divided(lows, highs, _factor(stored, compared))


def _factor(stored: Domain, compared: Domain) -> int:
    """Units of the compared domain per stored unit."""
    if compared.kind.is_temporal:
        return stored.tick // compared.tick
    return int(10 ** (compared.scale - stored.scale))


def _divided(lows: Array, highs: Array, factor: int) -> tuple[Array, Array]:
    """Bounds of ``k`` from bounds of ``k × factor``, rounded inwards."""
    if factor == 1:
        return lows, highs
    step = np.int64(factor)
    first = lows // step
    return first + (first * step != lows), highs // step


def _unsigned(lows: Array, highs: Array) -> tuple[Array, Array]:
    """Keys of unsigned numbers from signed bounds."""
    empty = highs < np.maximum(lows, 0)
    low, high = np.maximum(lows, 0) ^ _BIAS, np.maximum(highs, 0) ^ _BIAS
    return np.where(empty, np.int64(1), low), np.where(empty, np.int64(0), high)


def _float_interval(stored: Domain, lows: Array, highs: Array) -> tuple[Array, Array]:
    """Stored keys whose float lies between bounds, which are keys of floats."""
    low, none = _first(stored, lows, np.greater_equal)
    after, all_below = _first(stored, highs, np.greater)
    empty = none | (~all_below & (after == LEAST)) | (lows > highs)
    high = np.where(all_below, np.int64(MOST), after - ~all_below)
    return np.where(empty, np.int64(1), low), np.where(empty, np.int64(0), high)


def _first(stored: Domain, bounds: Array, passes: np.ufunc) -> tuple[Array, NDArray[np.bool_]]:
    """The first stored key whose float key passes the bound, and where there is none.

    By bisection around the value: rounding to a float keeps the order, but moves values by up to
    2^12.
    """
    with np.errstate(over="ignore"):  # infinity lies beyond all keys
        values = keys_to_floats(np.clip(bounds, _INFINITE[0], _INFINITE[1])) * 10.0**stored.scale
    if stored.kind is KeyKind.UNSIGNED:
        values = values - 2.0**63
    centre = np.clip(values, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
    low = np.maximum(centre, LEAST + _REACH) - _REACH
    high = np.minimum(centre, MOST - _REACH) + _REACH
    while (open_ends := low < high).any():
        # The middle, rounded down; halves are added so that nothing overflows.
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        above = passes(_as_float_keys(stored, middle), bounds)
        high = np.where(open_ends & above, middle, high)
        low = np.where(open_ends & ~above, middle + 1, low)
    return low, ~passes(_as_float_keys(stored, low), bounds)


def _as_float_keys(stored: Domain, keys: Array) -> Array:
    if stored.kind is KeyKind.UNSIGNED:
        numbers = (keys ^ _BIAS).view(np.uint64).astype(np.float64)
    else:
        numbers = keys.astype(np.float64)
    return float_keys(numbers / np.float64(10.0**stored.scale) if stored.scale else numbers)
