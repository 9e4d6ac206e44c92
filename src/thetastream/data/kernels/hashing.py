"""Hashes: a bijective mixer for integer keys, and 64-bit hashes of byte strings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import device, kernel


@device
def scrambled(x: np.uint64, factor: np.uint64) -> np.uint64:
    """Multiply and shift, twice: one-to-one, and every output bit depends on every input bit."""
    x ^= x >> np.uint64(32)
    x *= factor
    x ^= x >> np.uint64(32)
    x *= factor
    x ^= x >> np.uint64(32)
    return x


@device
def mixed(x: np.uint64) -> np.uint64:
    """The hash of one key."""
    return scrambled(x, np.uint64(0xD6E8FEB86659FD93))


@kernel("void(i8[::1], i8[::1])")
def mix(keys: Array, hashes: Array) -> None:
    """Scramble keys one-to-one, so that equal hashes mean equal keys."""
    for i in range(keys.size):
        hashes[i] = np.int64(mixed(np.uint64(keys[i])))


@kernel("void(i8[::1], i8[::1])")
def unmix(hashes: Array, keys: Array) -> None:
    """Invert ``mix``: the shifts are their own inverse, and the factor has a modular one."""
    for i in range(hashes.size):
        keys[i] = np.int64(scrambled(np.uint64(hashes[i]), np.uint64(0xCFEE444D8B59A89B)))


@kernel("void(i8[::1], i8[::1])")
def mix_into(keys: Array, hashes: Array) -> None:
    """Fold another key into running hashes."""
    for i in range(keys.size):
        folded = np.uint64(hashes[i]) * np.uint64(31) + np.uint64(keys[i])
        hashes[i] = np.int64(mixed(folded))


@kernel("void(u1[::1], i8[::1], i8[::1])")
def hash_bytes(data: NDArray[np.uint8], offsets: Array, hashes: Array) -> None:
    """Hash string ``i``, the bytes ``data[offsets[i]:offsets[i + 1]]``."""
    for i in range(hashes.size):
        state = np.uint64(14695981039346656037)
        for j in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[j])) * np.uint64(1099511628211)
        hashes[i] = np.int64(mixed(state ^ np.uint64(offsets[i + 1] - offsets[i])))
