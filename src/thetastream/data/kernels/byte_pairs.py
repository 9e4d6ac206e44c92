"""Gathering and comparing strings and binary values that lie one behind another.

Value ``i`` is ``data[starts[i] - origin : starts[i + 1] - origin]``.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Bytes, Mask, u64
from thetastream._jit.compiling import kernel


@kernel("void(i8[::1], i8[::1], i8[::1])")
def places_of(starts: Array, at: Array, places: Array) -> None:
    """Where each of the values ``at`` begins if they are put one behind another; then the end."""
    total = 0
    places[0] = 0
    for i in range(at.size):
        total += starts[at[i] + 1] - starts[at[i]]
        places[i + 1] = total


@kernel("void(u1[::1], i8[::1], i8, i8[::1], u1[::1])")
def gather_bytes(data: Bytes, starts: Array, origin: int, at: Array, taken: Bytes) -> None:
    """Put the values ``at`` one behind another."""
    k = u64(0)
    for i in range(at.size):
        for j in range(u64(starts[at[i]] - origin), u64(starts[at[i] + 1] - origin)):
            taken[k] = data[j]
            k += u64(1)


@kernel("void(u1[::1], i8[::1], i8, i8[::1], u1[::1], i8[::1], i8, i8[::1], b1[::1])")
def equal_pairs(
    data: Bytes,
    starts: Array,
    origin: int,
    at: Array,
    others: Bytes,
    other_starts: Array,
    other_origin: int,
    other_at: Array,
    equal: Mask,
) -> None:
    """Whether value ``at[i]`` equals other value ``other_at[i]``.

    Candidates have equal hashes, so most are equal: all bytes are compared, many at a time.
    """
    for i in range(at.size):
        a, b = at[i], other_at[i]
        length = starts[a + 1] - starts[a]
        same = length == other_starts[b + 1] - other_starts[b]
        if same:
            x, y = u64(starts[a] - origin), u64(other_starts[b] - other_origin)
            different = np.uint8(0)
            for j in range(u64(length)):
                different |= data[x + j] ^ others[y + j]
            same = different == 0
        equal[i] = same


@kernel("void(u1[::1], i8[::1], i8, i8[::1], u1[::1], i8[::1], i8, i8[::1], b1[::1])")
def begin_pairs(
    data: Bytes,
    starts: Array,
    origin: int,
    at: Array,
    others: Bytes,
    other_starts: Array,
    other_origin: int,
    other_at: Array,
    begins: Mask,
) -> None:
    """Whether value ``at[i]`` begins with other value ``other_at[i]``."""
    for i in range(at.size):
        a, b = at[i], other_at[i]
        length = other_starts[b + 1] - other_starts[b]
        same = length <= starts[a + 1] - starts[a]
        x, y = u64(starts[a] - origin), u64(other_starts[b] - other_origin)
        stop = y + u64(length)
        while same and y < stop:
            same = data[x] == others[y]
            x += u64(1)
            y += u64(1)
        begins[i] = same


@kernel(
    "void(u1[::1], i8[::1], i8, i8[::1], u1[::1], i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1])"
)
def compare_pairs(
    data: Bytes,
    starts: Array,
    origin: int,
    at: Array,
    others: Bytes,
    other_starts: Array,
    other_origin: int,
    other_at: Array,
    keys: Array,
    other_keys: Array,
    signs: Array,
) -> None:
    """The sign of each comparison of value ``at[i]`` with other value ``other_at[i]``.

    Keys of the first eight bytes, if both are known, decide unless they are equal, so that few
    values are read.
    """
    known = keys.size > 0 and other_keys.size > 0
    for i in range(at.size):
        a, b = at[i], other_at[i]
        if known and keys[a] != other_keys[b]:
            signs[i] = 1 if keys[a] > other_keys[b] else -1
            continue
        length, other_length = starts[a + 1] - starts[a], other_starts[b + 1] - other_starts[b]
        x, y = u64(starts[a] - origin), u64(other_starts[b] - other_origin)
        stop = x + u64(min(length, other_length))
        while x < stop and data[x] == others[y]:
            x += u64(1)
            y += u64(1)
        if x < stop:
            signs[i] = 1 if data[x] > others[y] else -1
        else:
            signs[i] = length - other_length
