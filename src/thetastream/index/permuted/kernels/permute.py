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

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import kernel

Places = NDArray[np.int32]
BLOCK = 64  # rows of a zone


@kernel("i8(i4[::1], i4[::1])")
def invert(places: Places, ranks: Places) -> int:
    """``ranks[places[r]] = r``, Algorithm 2. O(n)."""
    for r in range(np.uint64(places.size)):
        ranks[np.uint64(places[r])] = r
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
    one = np.uint64(1)
    i, j, k = np.uint64(0), np.uint64(0), np.uint64(0)
    n, m = np.uint64(old_ids.size), np.uint64(new_ids.size)
    while i < n and j < m:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        row = old_ids[i] if first else new_ids[j]
        source = i if first else n + j
        i += np.uint64(first)
        j += one - np.uint64(first)
        if row >= before:
            keys[k] = a if first else b
            ids[k] = row
            moved[source] = k
            k += one
        else:
            moved[source] = -1
    while i < n:
        moved[i] = -1
        if old_ids[i] >= before:
            keys[k] = old_keys[i]
            ids[k] = old_ids[i]
            moved[i] = k
            k += one
        i += one
    while j < m:
        moved[n + j] = -1
        if new_ids[j] >= before:
            keys[k] = new_keys[j]
            ids[k] = new_ids[j]
            moved[n + j] = k
            k += one
        j += one
    return np.int64(k)  # type: ignore[return-value]


@kernel("i8(i8[::1], i4[::1], i8[::1], i4[::1], i4[::1], i8[::1], i4[::1], i4[::1])")
def merge_term(
    old_keys: Array, old_places: Places, new_keys: Array, new_places: Places, moved: Places,
    keys: Array, places: Places, ranks: Places,
) -> int:  # fmt: skip
    """Merge the orders of another column of two structures whose rows have ``moved``.

    Writes sorted keys and the permutation both ways in O(n + m), without sorting.
    """
    one = np.uint64(1)
    i, j, k = np.uint64(0), np.uint64(0), np.uint64(0)
    n, m = np.uint64(old_keys.size), np.uint64(new_keys.size)
    while i < n and j < m:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        source = np.uint64(old_places[i]) if first else n + np.uint64(new_places[j])
        i += np.uint64(first)
        j += one - np.uint64(first)
        place = moved[source]
        if place >= 0:
            keys[k] = a if first else b
            places[k] = place
            ranks[np.uint64(place)] = k
            k += one
    while i < n:
        place = moved[np.uint64(old_places[i])]
        if place >= 0:
            keys[k] = old_keys[i]
            places[k] = place
            ranks[np.uint64(place)] = k
            k += one
        i += one
    while j < m:
        place = moved[n + np.uint64(new_places[j])]
        if place >= 0:
            keys[k] = new_keys[j]
            places[k] = place
            ranks[np.uint64(place)] = k
            k += one
        j += one
    return np.int64(k)  # type: ignore[return-value]


@kernel("i8(i4[::1], i4[::1], i4[:,::1])")
def zone(lows: Places, highs: Places, zones: Places) -> int:
    """The least of each block of 64 values of one array, and the largest of another."""
    for b in range(np.uint64(zones.shape[1])):
        start = b * np.uint64(BLOCK)
        stop = min(start + np.uint64(BLOCK), np.uint64(lows.size))
        under, over = lows[start:stop], highs[start:stop]
        low, high = under[0], over[0]
        for i in range(np.uint64(under.size)):
            low, high = min(low, under[i]), max(high, over[i])
        zones[0, b], zones[1, b] = low, high
    return zones.shape[1]
