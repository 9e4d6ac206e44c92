"""Permutations between the orders of several key columns: building and merging them.

SPO-Join, Section 3.3, Algorithm 2. Rows have a *place*: their position in the order of the first
column. In the order of another column they have a *rank*. Two arrays map one to the other:

    place            0    1    2    3         rows in the order of their first key
    first key       10   20   20   30
    second key       7    9    3    5
    ranks            2    3    0    1         ranks[place]: the row's position by its second key
    places           2    3    0    1         places[rank]: the paper's permutation array

The paper counts from 1 and keeps ``places`` only. Keeping both costs 8 bytes per row, and lets
either column be filled and the other scanned. Equal keys may have any order: an interval of keys is
an interval of ranks, duplicates included.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.compiling import inlined, kernel

Places = NDArray[np.int32]
BLOCK = 64  # rows of a zone


@kernel("i8(i4[::1], i4[::1])")
def invert(places: Places, ranks: Places) -> int:
    """``ranks[places[r]] = r``, Algorithm 2. O(n)."""
    for r in range(u64(places.size)):
        ranks[u64(places[r])] = r
    return places.size


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8, i8[::1], i8[::1], i4[::1])")
def merge_first(
    old_keys: Array, old_ids: Array, new_keys: Array, new_ids: Array, before: int,
    keys: Array, ids: Array, moved: Places,
) -> int:  # fmt: skip
    """Merge two structures by their first keys, without ids below ``before``; returns the size.

    ``moved`` holds the new place of every old row, then of every new one; -1 if dropped. ``keys``
    and ``ids`` hold the rows that stay. No branch on keys.
    """
    one = u64(1)
    i, j, k = u64(0), u64(0), u64(0)
    n, m = u64(old_ids.size), u64(new_ids.size)
    while i < n and j < m:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        row = old_ids[i] if first else new_ids[j]
        source = i if first else n + j
        i += u64(first)
        j += one - u64(first)
        k += kept(a if first else b, row, before, source, k, keys, ids, moved)
    while i < n:
        k += kept(old_keys[i], old_ids[i], before, i, k, keys, ids, moved)
        i += one
    while j < m:
        k += kept(new_keys[j], new_ids[j], before, n + j, k, keys, ids, moved)
        j += one
    return i64(k)


@inlined
def kept(
    key: int, row: int, before: int, source: np.uint64, k: np.uint64,
    keys: Array, ids: Array, moved: Places,
) -> np.uint64:  # fmt: skip
    """Write a row to place ``k``, unless it has expired, and note its place; returns 1 or 0."""
    if row < before:
        moved[source] = -1
        return u64(0)
    keys[k] = key
    ids[k] = row
    moved[source] = k
    return u64(1)


@kernel("i8(i8[::1], i4[::1], i8[::1], i4[::1], i4[::1], i8[::1], i4[::1], i4[::1])")
def merge_term(
    old_keys: Array, old_places: Places, new_keys: Array, new_places: Places, moved: Places,
    keys: Array, places: Places, ranks: Places,
) -> int:  # fmt: skip
    """Merge the orders of another column of two structures whose rows have ``moved``.

    Writes sorted keys and the permutation both ways in O(n + m), without sorting.
    """
    one = u64(1)
    i, j, k = u64(0), u64(0), u64(0)
    n, m = u64(old_keys.size), u64(new_keys.size)
    while i < n and j < m:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        source = u64(old_places[i]) if first else n + u64(new_places[j])
        i += u64(first)
        j += one - u64(first)
        k += ranked(a if first else b, moved[source], k, keys, places, ranks)
    while i < n:
        k += ranked(old_keys[i], moved[u64(old_places[i])], k, keys, places, ranks)
        i += one
    while j < m:
        k += ranked(new_keys[j], moved[n + u64(new_places[j])], k, keys, places, ranks)
        j += one
    return i64(k)


@inlined
def ranked(
    key: int, place: int, k: np.uint64, keys: Array, places: Places, ranks: Places
) -> np.uint64:
    """Give a row at a place rank ``k``, unless it was dropped (-1); returns 1 or 0."""
    if place < 0:
        return u64(0)
    keys[k] = key
    places[k] = place
    ranks[u64(place)] = k
    return u64(1)


@kernel("i8(i4[::1], i4[::1], i4[:,::1])")
def zone(lows: Places, highs: Places, zones: Places) -> int:
    """The least of each block of 64 values of one array, and the largest of another."""
    for b in range(u64(zones.shape[1])):
        start = b * u64(BLOCK)
        stop = min(start + u64(BLOCK), u64(lows.size))
        under, over = lows[start:stop], highs[start:stop]
        low, high = under[0], over[0]
        for i in range(u64(under.size)):
            low, high = min(low, under[i]), max(high, over[i])
        zones[0, b], zones[1, b] = low, high
    return zones.shape[1]
