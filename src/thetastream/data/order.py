"""Sorting keys."""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array


def argsorted(keys: Array) -> tuple[Array, Array]:
    """The order of keys, and the keys in that order.

    If key and position fit into one 63-bit number, that number is sorted: 5 ns per row instead of
    14, as NumPy sorts numbers with vector instructions.
    """
    bits = max(1, keys.size - 1).bit_length()
    low = int(keys.min()) if keys.size else 0
    span = int(keys.max()) - low if keys.size else 0
    if span.bit_length() + bits > 63:
        order = np.argsort(keys)
        return order, keys[order]
    packed, order = keys - np.int64(low), np.arange(keys.size)
    packed <<= np.int64(bits)  # in place, as every new array costs as much as a step
    packed |= order
    packed.sort()
    np.bitwise_and(packed, np.int64((1 << bits) - 1), out=order)
    packed >>= np.int64(bits)
    packed += np.int64(low)
    return order, packed
