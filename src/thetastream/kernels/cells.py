"""Cells: a number line cut into equal pieces, for the prefix of composite keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import kernel

__all__ = ["cells_of_floats", "cells_of_integers"]

Array = NDArray[np.int64]
_LIMIT = 4.0e18


@kernel("void(i8[::1], i8, i8[::1])")
def cells_of_integers(keys: Array, width: int, cells: Array) -> None:
    """``floor(key / width)``; never falls when the key grows."""
    for i in range(keys.size):
        cells[i] = keys[i] // width


@kernel("void(i8[::1], f8, i8[::1])")
def cells_of_floats(keys: Array, width: float, cells: Array) -> None:
    """``floor(value / width)`` of float keys, held inside int64; NaN gets the last cell."""
    value = np.empty(1, np.float64)
    bits = value.view(np.int64)
    for i in range(keys.size):
        key = keys[i]
        bits[0] = key if key >= 0 else key ^ np.int64(0x7FFFFFFFFFFFFFFF)
        quotient = np.floor(value[0] / width)
        if np.isnan(quotient):
            cells[i] = np.int64(5e18)
        else:
            cells[i] = np.int64(min(max(quotient, -_LIMIT), _LIMIT))
