"""Cells: a number line cut into equal pieces, for the prefix of composite keys."""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import device, kernel

_LIMIT = 4.0e18


@kernel("void(i8[::1], i8, i8[::1])")
def cells_of_integers(keys: Array, width: int, cells: Array) -> None:
    """``floor(key / width)``, which never falls as the key grows."""
    for i in range(keys.size):
        cells[i] = keys[i] // width


@kernel("void(i8[::1], f8, i8[::1])", allocates=True)
def cells_of_floats(keys: Array, width: float, cells: Array) -> None:
    """``floor(value / width)`` of float keys, clamped to int64; NaN gets the last cell."""
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


@device
def quantized(key: int, base: int, shift: int, steps: int) -> np.int64:
    """How many steps a key lies above ``base``, clamped to the first and the last step."""
    above = (np.uint64(max(key, base)) - np.uint64(base)) >> np.uint64(shift)
    return np.int64(min(above, np.uint64(steps - 1)))


@kernel("void(i8[::1], i8, i8, i8, i8[::1])")
def quantize(keys: Array, base: int, shift: int, steps: int, quanta: Array) -> None:
    """The steps of keys."""
    for i in range(np.uint64(keys.size)):
        quanta[i] = quantized(keys[i], base, shift, steps)


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8, i8, i8, i8,"
        " i8[::1], i8[::1], i8[::1])")  # fmt: skip
def cell_ranges(
    rows: Array,
    first: Array,
    last: Array,
    bottoms: Array,
    tops: Array,
    base: int,
    shift: int,
    steps: int,
    prefixes: int,
    lows: Array,
    highs: Array,
    owners: Array,
) -> int:
    """Ranges of composite keys for the cells ``first .. last`` of each of some rows.

    In every cell a row asks for the steps of ``[bottom, top]``. The number of a cell, plus half of
    ``prefixes`` so that 0 and -1 stay neighbours, is taken modulo ``prefixes``, a power of 2.
    Returns the number of ranges.
    """
    k, half, mask = 0, prefixes // 2, prefixes - 1
    for i in range(np.uint64(rows.size)):
        row = rows[i]
        low = quantized(bottoms[row], base, shift, steps)
        high = quantized(tops[row], base, shift, steps)
        for cell in range(first[i], last[i] + 1):
            prefix = ((cell + half) & mask) * steps
            lows[k] = prefix + low
            highs[k] = prefix + high
            owners[k] = row
            k += 1
    return k
