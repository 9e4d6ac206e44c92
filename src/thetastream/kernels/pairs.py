"""Filtering match pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import kernel

__all__ = ["keep_within"]

Array = NDArray[np.int64]


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1])")
def keep_within(positions: Array, rows: Array, first: Array, last: Array) -> int:
    """Keep, in place, the pairs whose row id lies in ``[first, last)`` of its box."""
    k = 0
    for i in range(positions.size):
        box, row = positions[i], rows[i]
        positions[k] = box
        rows[k] = row
        k += first[box] <= row < last[box]
    return k
