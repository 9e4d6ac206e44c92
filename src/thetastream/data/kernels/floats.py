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
