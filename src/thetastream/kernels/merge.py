"""Merging two sorted runs into one, leaving out what has expired.

Positions are unsigned: numba then need not test for negative ones, which lets loops vectorise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import device, kernel

__all__ = ["merge", "merge_columns", "merge_to_back", "merge_to_front"]

Array = NDArray[np.int64]
_FAR = 4


@device
def merge_far(
    old_keys: Array, old_ids: Array, new_keys: Array, new_ids: Array, before: int,
    keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Few new rows among many old: between two new rows old ones are copied in a tight loop.

    1.3–2.0 ns per row where the branch-free merge takes 3.3.
    """
    one = np.uint64(1)
    i, k, n = np.uint64(0), np.uint64(0), np.uint64(old_keys.size)
    for j in range(np.uint64(0), np.uint64(new_keys.size)):
        bound = new_keys[j]
        while i < n and old_keys[i] <= bound:
            keys[k] = old_keys[i]
            ids[k] = old_ids[i]
            k += np.uint64(old_ids[i] >= before)
            i += one
        keys[k] = bound
        ids[k] = new_ids[j]
        k += np.uint64(new_ids[j] >= before)
    while i < n:
        keys[k] = old_keys[i]
        ids[k] = old_ids[i]
        k += np.uint64(old_ids[i] >= before)
        i += one
    return np.int64(k)  # type: ignore[return-value]


@device
def merge_near(
    old_keys: Array, old_ids: Array, new_keys: Array, new_ids: Array, before: int,
    keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Runs of like length: no branch depends on the keys, so none is mispredicted."""
    one = np.uint64(1)
    i, j, k = np.uint64(0), np.uint64(0), np.uint64(0)
    n, m = np.uint64(old_keys.size), np.uint64(new_keys.size)
    while i < n and j < m:
        a, b = old_keys[i], new_keys[j]
        first = a <= b
        keys[k] = a if first else b
        row = old_ids[i] if first else new_ids[j]
        ids[k] = row
        k += np.uint64(row >= before)
        i += np.uint64(first)
        j += one - np.uint64(first)
    while i < n:
        keys[k] = old_keys[i]
        ids[k] = old_ids[i]
        k += np.uint64(old_ids[i] >= before)
        i += one
    while j < m:
        keys[k] = new_keys[j]
        ids[k] = new_ids[j]
        k += np.uint64(new_ids[j] >= before)
        j += one
    return np.int64(k)  # type: ignore[return-value]


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8, i8[::1], i8[::1])")
def merge(
    old_keys: Array,
    old_ids: Array,
    new_keys: Array,
    new_ids: Array,
    before: int,
    keys: Array,
    ids: Array,
) -> int:
    """Merge by key, old rows first among equals; rows with an id below ``before`` are left out.

    The result is written to ``keys`` and ``ids``, which must hold all rows; gives its length.
    """
    if old_keys.size >= _FAR * new_keys.size:
        return merge_far(old_keys, old_ids, new_keys, new_ids, before, keys, ids)
    return merge_near(old_keys, old_ids, new_keys, new_ids, before, keys, ids)


@kernel("i8(i8[::1], i8[::1], i8, i8, i8[::1], i8[::1], i8)")
def merge_to_front(
    keys: Array, ids: Array, start: int, stop: int, new_keys: Array, new_ids: Array, before: int
) -> int:
    """Merge new rows into the run at ``[start, stop)`` of the same arrays, moving it to the front.

    In place: at most ``new_keys.size`` rows more are written than were read, so with ``start`` of
    at least that no row is overwritten before it was read. Gives the length of the result. No fresh
    memory has to be had and cleared, which costs as much as the merge of a long run.
    """
    one, k = np.uint64(1), np.uint64(0)
    i, n = np.uint64(start), np.uint64(stop)
    for j in range(np.uint64(0), np.uint64(new_keys.size)):
        bound = new_keys[j]
        while i < n and keys[i] <= bound:
            row = ids[i]
            keys[k] = keys[i]
            ids[k] = row
            k += np.uint64(row >= before)
            i += one
        keys[k] = bound
        ids[k] = new_ids[j]
        k += np.uint64(new_ids[j] >= before)
    while i < n:
        row = ids[i]
        keys[k] = keys[i]
        ids[k] = row
        k += np.uint64(row >= before)
        i += one
    return np.int64(k)  # type: ignore[return-value]


@kernel("i8(i8[::1], i8[::1], i8, i8, i8[::1], i8[::1], i8)")
def merge_to_back(
    keys: Array, ids: Array, start: int, stop: int, new_keys: Array, new_ids: Array, before: int
) -> int:
    """The mirror image: the result ends where the arrays end. Gives where it starts.

    Needs ``keys.size - stop`` of at least ``new_keys.size``.
    """
    i, low, k = np.int64(stop) - 1, np.int64(start), np.int64(keys.size)
    for j in range(new_keys.size - 1, -1, -1):
        bound = new_keys[j]
        if new_ids[j] < before:
            continue
        while i >= low and keys[np.uint64(i)] > bound:
            row = ids[np.uint64(i)]
            at = np.uint64(k - 1)
            keys[at] = keys[np.uint64(i)]
            ids[at] = row
            k -= row >= before
            i -= 1
        k -= 1
        keys[np.uint64(k)] = bound
        ids[np.uint64(k)] = new_ids[j]
    while i >= low:
        row = ids[np.uint64(i)]
        at = np.uint64(k - 1)
        keys[at] = keys[np.uint64(i)]
        ids[at] = row
        k -= row >= before
        i -= 1
    return np.int64(k)  # type: ignore[return-value]


@kernel("i8(i8[:,::1], i8[::1], i8[:,::1], i8[::1], i8, i8[:,::1], i8[::1])")
def merge_columns(
    old_keys: Array,
    old_ids: Array,
    new_keys: Array,
    new_ids: Array,
    before: int,
    keys: Array,
    ids: Array,
) -> int:
    """``merge`` for several key columns, sorted by the first.

    ``ids`` first receives the source of every row, then columns are copied one by one, so that each
    is read and written in order.
    """
    n, m = old_ids.size, new_ids.size
    first_old, first_new = old_keys[0], new_keys[0]
    i = j = k = 0
    while i < n or j < m:
        if j == m or (i < n and first_old[i] <= first_new[j]):
            ids[k] = i
            k += old_ids[i] >= before
            i += 1
        else:
            ids[k] = n + j
            k += new_ids[j] >= before
            j += 1
    for c in range(keys.shape[0]):
        column, old, new = keys[c], old_keys[c], new_keys[c]
        for at in range(k):
            source = ids[at]
            column[at] = old[source] if source < n else new[source - n]
    for at in range(k):
        source = ids[at]
        ids[at] = old_ids[source] if source < n else new_ids[source - n]
    return k
