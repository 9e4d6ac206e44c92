"""Where a sum of floats stops being small enough: the edges that IEEE rounding sets."""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Floats
from thetastream.data.batch import float_keys
from thetastream.data.kernels.floats import last_sum_at_most


def last_keys(shifts: Floats, bounds: Floats, *, strict: bool) -> Array:
    """Last key ``u`` with ``fl(u + shift) <= bound`` (or ``<``); shifts are finite."""
    with np.errstate(all="ignore"):
        guesses = float_keys(bounds - shifts)
    lasts = np.empty(len(shifts), np.int64)
    last_sum_at_most(guesses, np.empty(1), np.empty(1), shifts, bounds, strict, lasts)
    return lasts
