"""Boxes of a term with several arms, made disjoint so that each pair is reported once."""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import kernel


@kernel("void(i8[:,::1], i8[:,::1])")
def make_disjoint(lows: Array, highs: Array) -> None:
    """Make the intervals ``lows[:, i] .. highs[:, i]`` of every row ``i`` disjoint, in place.

    Sorts the arms of a row by their low edge and cuts each off at the end of those before it. An
    arm covered by others becomes empty. Arms are few, so insertion sort is enough.
    """
    arms = lows.shape[0]
    for i in range(lows.shape[1]):
        for a in range(1, arms):
            low, high = lows[a, i], highs[a, i]
            b = a - 1
            while b >= 0 and lows[b, i] > low:
                lows[b + 1, i] = lows[b, i]
                highs[b + 1, i] = highs[b, i]
                b -= 1
            lows[b + 1, i] = low
            highs[b + 1, i] = high
        reached = False
        top = np.int64(0)
        for a in range(arms):
            low, high = lows[a, i], highs[a, i]
            if low > high:
                continue
            if reached and low <= top:
                if top == MOST or high <= top:
                    lows[a, i] = 1
                    highs[a, i] = 0
                    continue
                lows[a, i] = top + 1
            top = high
            reached = True
