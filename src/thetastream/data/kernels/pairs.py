"""Filtering match pairs, and gathering the values they point at."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import kernel


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1])")
def keep_within(positions: Array, rows: Array, first: Array, last: Array) -> int:
    """Keep, in place, the pairs whose row id is in ``[first, last)`` of its box."""
    k = 0
    for i in range(positions.size):
        box, row = positions[i], rows[i]
        positions[k] = box
        rows[k] = row
        k += first[box] <= row < last[box]
    return k


@kernel("i8(i8[::1], i8[::1], i8[:,::1], i8, i8[:,::1], i8[:,::1])")
def keep_inside(
    positions: Array, ids: Array, beside: Array, mask: int, lows: Array, highs: Array
) -> int:
    """Keep, in place, the pairs whose other key columns lie in their box; return their number.

    Column ``c`` of row ``id`` is ``beside[c - 1, id & mask]``.
    """
    k = 0
    for i in range(positions.size):
        box, slot = positions[i], ids[i] & mask
        good = True
        for c in range(beside.shape[0]):
            value = beside[c, slot]
            good = good and lows[c + 1, box] <= value and value <= highs[c + 1, box]
        positions[k] = box
        ids[k] = ids[i]
        k += good
    return k


@kernel(*(f"void({unit}[::1], i8[::1], i8, {unit}[::1])" for unit in ("u1", "u2", "u4", "u8")))
def gather(values: NDArray[Any], ids: Array, first: int, taken: NDArray[Any]) -> None:
    """``taken[i] = values[ids[i] - first]``.

    On 2^20 values of 8 bytes and 2^14 random ids: 4.7 ns each; NumPy's take needs 9.9.
    """
    base = np.uint64(first)
    for i in range(np.uint64(ids.size)):
        taken[i] = values[np.uint64(ids[i]) - base]
