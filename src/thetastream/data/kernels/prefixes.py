"""Strings and binary in their order: the first eight bytes as a key, and exact prefixes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream._jit.compiling import kernel

Bytes = NDArray[np.uint8]


@kernel("void(u1[::1], i8[::1], i8[::1])")
def prefix_keys(data: Bytes, offsets: Array, keys: Array) -> None:
    """The first eight bytes of string ``i``, ``data[offsets[i]:offsets[i + 1]]``, zeros behind.

    A string above another one has no smaller key.
    """
    for i in range(keys.size):
        first, stop = offsets[i], offsets[i + 1]
        value = np.uint64(0)
        for at in range(first, first + 8):
            value <<= np.uint64(8)
            if at < stop:
                value |= np.uint64(data[at])
        keys[i] = np.int64(value ^ np.uint64(1 << 63))


@kernel("void(u1[::1], i8[::1], u1[::1], i8[::1], b1[::1])")
def find_beginnings(
    data: Bytes, offsets: Array, starts: Bytes, start_offsets: Array, found: Mask
) -> None:
    """Whether string ``i`` begins with start ``i``."""
    for i in range(found.size):
        first, start = offsets[i], start_offsets[i]
        length = start_offsets[i + 1] - start
        same = length <= offsets[i + 1] - first
        at = 0
        while same and at < length:
            same = data[first + at] == starts[start + at]
            at += 1
        found[i] = same
