"""Counting on samples: boxes of fresh rows against stored rows sorted by one key.

A field may ask for several intervals, its *arms*. Edges have the shape ``(arms, boxes)``; an absent
interval has its low edge above its high one.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Floats
from thetastream._jit.compiling import device, kernel


@device
def first_from(keys: Array, key: int) -> int:
    """The first position whose key is ``key`` or more."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@device
def first_above(keys: Array, key: int) -> int:
    """The first position whose key is greater than ``key``."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@device
def rank(keys: Array, key: int, after: int) -> float:
    """How many sorted keys lie below ``key``, interpolated between neighbours.

    With ``after``, below ``key + 1``: an interval of one key has a width.
    """
    right = first_above(keys, key) if after else first_from(keys, key)
    below = np.float64(keys[max(right - 1, 0)])
    above = np.float64(keys[min(right, keys.size - 1)])
    if above <= below:
        return np.float64(right)
    part = (np.float64(key) + after - below) / (above - below)
    return right + min(max(part, 0.0), 1.0)


@kernel("void(i8[::1], i8[:, ::1], i8[:, ::1], f8[::1])")
def shares_inside(keys: Array, lows: Array, highs: Array, inside: Floats) -> None:
    """The share of sorted keys inside every box, from interpolated ranks."""
    for box in range(lows.shape[1]):
        covered = 0.0
        for arm in range(lows.shape[0]):
            low, high = lows[arm, box], highs[arm, box]
            if low <= high:
                covered += max(rank(keys, high, 1) - rank(keys, low, 0), 0.0)
        inside[box] = covered / keys.size


@kernel("void(i8[:, ::1], i8[:, :, ::1], i8[:, :, ::1], i8[::1])")
def count_inside(keys: Array, lows: Array, highs: Array, counts: Array) -> None:
    """Count the pairs of a box and a row inside it; rows are sorted by their first key."""
    pairs = 0
    for box in range(lows.shape[2]):
        for arm in range(lows.shape[1]):
            low, high = lows[0, arm, box], highs[0, arm, box]
            if low > high:
                continue
            for row in range(first_from(keys[0], low), first_above(keys[0], high)):
                inside = True
                for field in range(1, keys.shape[0]):
                    some = False
                    for other in range(lows.shape[1]):
                        at = keys[field, row]
                        some |= lows[field, other, box] <= at <= highs[field, other, box]
                    inside &= some
                pairs += inside
    counts[0] = pairs


@kernel(
    "void(i8[::1], i8[::1], i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], i8[:, ::1], i8[:, ::1],"
    " i8[::1])"
)
def count_met(
    firsts: Array,
    lasts: Array,
    least: Array,
    most: Array,
    lows: Array,
    highs: Array,
    bottoms: Array,
    tops: Array,
    counts: Array,
) -> None:
    """Count the blocks inside the boxes of one field, and those whose zone also meets the other.

    Blocks are in the order of the one field, from ``firsts`` to ``lasts``; in the other field their
    rows lie from ``least`` to ``most``.
    """
    passed = met = 0
    for box in range(lows.shape[1]):
        for arm in range(lows.shape[0]):
            if lows[arm, box] > highs[arm, box]:
                continue
            start = first_from(lasts, lows[arm, box])
            stop = first_above(firsts, highs[arm, box])
            passed += max(stop - start, 0)
            for block in range(start, stop):
                meets = False
                for other in range(bottoms.shape[0]):
                    meets |= bottoms[other, box] <= most[block] and least[block] <= tops[other, box]
                met += meets
    counts[0], counts[1] = passed, met
