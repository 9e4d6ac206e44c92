"""Floats as order-preserving integers, and exact edges of floating comparisons.

A double becomes an int64 with the same order: positive numbers keep their bits, negative ones have
all but the sign bit inverted. -0.0 becomes 0.0 first; every NaN becomes one key just above +inf.

Rounding is monotone: for a finite ``s`` the sum ``fl(u + s)`` never falls as ``u`` grows. So the
``u`` with ``fl(u + s) <= w`` form a prefix of all doubles, and a search around the guess ``w - s``
finds its last member. That makes band joins on floats exact: the edge is where IEEE arithmetic puts
it, not where algebra would.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Floats
from thetastream._jit.compiling import device, kernel

POSITIVE_INFINITY_KEY = 0x7FF0000000000000
NEGATIVE_INFINITY_KEY = -0x7FF0000000000001
NAN_KEY = POSITIVE_INFINITY_KEY + 1


@device
def holds(total: float, bound: float, strict: bool) -> bool:
    """``total <= bound`` (or ``<``) in the order where NaN is above everything."""
    if np.isnan(bound):
        return not strict or not bool(np.isnan(total))
    return total < bound or (total == bound and not strict)


@kernel("void(i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], b1, i8[::1])", allocates=True)
def last_sum_at_most(
    guesses: Array,
    values: Floats,
    scratch: Floats,
    shifts: Floats,
    bounds: Floats,
    strict: bool,
    lasts: Array,
) -> None:
    """For each finite shift ``s`` and bound ``w``: the last key ``u`` with ``fl(u + s) <= w``.

    ``guesses`` are keys near the answer. ``values`` and ``scratch`` are one-element scratch buffers
    (``values`` is viewed as bits). If there is no such ``u``, the answer is the key below -inf.
    """
    bits = values.view(np.int64)
    for i in range(shifts.size):
        shift, bound = shifts[i], bounds[i]
        # Invariant: good holds (or lies below -inf), bad does not (or lies above NaN).
        good, bad = np.int64(NEGATIVE_INFINITY_KEY - 1), np.int64(NAN_KEY + 1)
        at = min(max(guesses[i], np.int64(NEGATIVE_INFINITY_KEY)), np.int64(NAN_KEY))
        step = np.int64(1)
        upward = downward = False
        while good + 1 < bad:
            if at == NAN_KEY:
                scratch[0] = np.nan
            else:
                bits[0] = at if at >= 0 else at ^ np.int64(0x7FFFFFFFFFFFFFFF)
                scratch[0] = values[0]
            if holds(scratch[0] + shift, bound, strict):
                good = at
                upward = True
            else:
                bad = at
                downward = True
            if upward and downward:
                at = (good >> 1) + (bad >> 1) + (good & bad & 1)
            elif upward:
                room = bad - 1 - good if good >= 0 else step
                at = min(good + min(step, room), bad - 1)
            else:
                room = bad - 1 - good if bad < 0 else step
                at = max(bad - min(step, room), good + 1)
            step = min(step << 1, np.int64(1) << 60)
        lasts[i] = good


@kernel("void(f8[::1], f8, b1, f8[::1], i8[::1], i8[::1])", allocates=True)
def relative_edges(
    values: Floats, factor: float, strict: bool, scratch: Floats, lows: Array, highs: Array
) -> None:
    """For each finite ``v > 0``: the first and last key ``u`` with ``|fl(u - v)| <= fl(factor u)``.

    ``0 < factor < 1/3``; then the keys in between match too (``boxes/relative.py`` says why).
    ``scratch`` is a one-element buffer, viewed as bits. An empty interval is ``1 .. 0``.
    """
    bits = scratch.view(np.int64)
    for i in range(values.size):
        value = values[i]
        scratch[0] = value
        own = bits[0]
        if strict and not factor * value > 0.0:
            lows[i], highs[i] = 1, 0
            continue
        for end in range(2):
            upper = end == 1
            # Invariant: good holds, bad does not; u = 0 never does, u = +inf is treated elsewhere.
            good = own
            bad = np.int64(POSITIVE_INFINITY_KEY) if upper else np.int64(0)
            scratch[0] = value / (1.0 - factor) if upper else value / (1.0 + factor)
            at, step = bits[0], np.int64(1)
            inward = outward = False
            while abs(bad - good) > 1:
                if upper:
                    at = min(max(at, good + 1), bad - 1)
                else:
                    at = max(min(at, good - 1), bad + 1)
                bits[0] = at
                u = scratch[0]
                apart, width = (u - value if upper else value - u), factor * u
                if apart < width or (apart == width and not strict):
                    good = at
                    outward = True
                else:
                    bad = at
                    inward = True
                if inward and outward:
                    at = good + (bad - good) // 2
                elif outward:
                    at = good + step if upper else good - step
                else:
                    at = bad - step if upper else bad + step
                step = min(step << 1, np.int64(1) << 60)
            if upper:
                highs[i] = good
            else:
                lows[i] = good
