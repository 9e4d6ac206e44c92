"""Merging two sorted runs into one, leaving out what has expired.

A run is the rows ``[start, stop)`` of a key matrix, sorted by its first column, and of ids. All
columns and the id of a row move together, in one pass. The loops are compiled for one, two, three
and any number of columns: where the compiler knows the number, it removes the tests for it. For two
columns, 500,000 rows and 41,000 new ones (ns per row):

    columns one by one, by the places of their rows     8.2
    rows, any number of columns                         4.6
    rows, two columns                                   3.0      (copying them takes 1.9)

Positions are unsigned: numba then need not test for negative ones, which lets loops vectorise.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.compiling import inlined, kernel

Rows = tuple[Array, Array, Array, Array, Array]
_FAR = 4
_ONE, _TWO, _THREE = u64(1), u64(2), u64(3)
_RUN = "i8[:,::1], i8[::1], i8, i8"


@inlined
def rows_of(keys: Array, ids: Array) -> Rows:
    """The first three columns, repeating the last if there are fewer; all columns; ids."""
    last = keys.shape[0] - 1
    return keys[0], keys[min(1, last)], keys[min(2, last)], keys, ids


@inlined
def moved(
    old: Rows, i: np.uint64, before: int, columns: np.uint64, run: Rows, k: np.uint64
) -> np.uint64:
    """Write row ``i`` to place ``k``; returns 1, or 0 if it has expired (overwrite it)."""
    row = old[4][i]
    run[0][k] = old[0][i]
    if columns > _ONE:
        run[1][k] = old[1][i]
    if columns > _TWO:
        run[2][k] = old[2][i]
    for c in range(_THREE, columns):
        run[3][c, k] = old[3][c, i]
    run[4][k] = row
    return u64(row >= before)


@inlined
def chosen(old: Array, i: np.uint64, new: Array, j: np.uint64, mask: np.int64) -> np.int64:
    """``old[i]`` if the mask is -1, ``new[j]`` if it is 0, without a branch."""
    return new[j] ^ ((old[i] ^ new[j]) & mask)


@inlined
def merge_far(
    old: Rows, start: int, stop: int, new: Rows, new_start: int, new_stop: int,
    before: int, columns: np.uint64, run: Rows,
) -> np.uint64:  # fmt: skip
    """Few new rows among many old: copies the old rows between two new ones in a tight loop.

    For one column 1.3–2.0 ns per row where the branch-free merge takes 3.3.
    """
    i, n, k = u64(start), u64(stop), u64(0)
    for j in range(u64(new_start), u64(new_stop)):
        bound = new[0][j]
        while i < n and old[0][i] <= bound:
            k += moved(old, i, before, columns, run, k)
            i += _ONE
        k += moved(new, u64(j), before, columns, run, k)
    while i < n:
        k += moved(old, i, before, columns, run, k)
        i += _ONE
    return k


@inlined
def merge_near(
    old: Rows, start: int, stop: int, new: Rows, new_start: int, new_stop: int,
    before: int, columns: np.uint64, run: Rows,
) -> np.uint64:  # fmt: skip
    """Runs of similar length: no branch depends on the keys, so none is mispredicted."""
    i, n, k = u64(start), u64(stop), u64(0)
    j, m = u64(new_start), u64(new_stop)
    while i < n and j < m:
        for _ in range(min(n - i, m - j)):  # neither run ends within these steps
            first = u64(old[0][i] <= new[0][j])
            mask = -i64(first)
            run[0][k] = chosen(old[0], i, new[0], j, mask)
            if columns > _ONE:
                run[1][k] = chosen(old[1], i, new[1], j, mask)
            if columns > _TWO:
                run[2][k] = chosen(old[2], i, new[2], j, mask)
            for c in range(_THREE, columns):
                run[3][c, k] = new[3][c, j] ^ ((old[3][c, i] ^ new[3][c, j]) & mask)
            row = chosen(old[4], i, new[4], j, mask)
            run[4][k] = row
            k += u64(row >= before)
            i += first
            j += _ONE - first
    while i < n:
        k += moved(old, i, before, columns, run, k)
        i += _ONE
    while j < m:
        k += moved(new, j, before, columns, run, k)
        j += _ONE
    return k


@inlined
def merge_any(
    old: Rows, start: int, stop: int, new: Rows, new_start: int, new_stop: int,
    before: int, columns: np.uint64, run: Rows,
) -> np.uint64:  # fmt: skip
    """The merge that suits the lengths."""
    if stop - start >= _FAR * (new_stop - new_start):
        return merge_far(old, start, stop, new, new_start, new_stop, before, columns, run)
    return merge_near(old, start, stop, new, new_start, new_stop, before, columns, run)


@inlined
def merge_back(
    old: Rows, start: int, stop: int, new: Rows, new_start: int, new_stop: int,
    before: int, columns: np.uint64,
) -> np.uint64:  # fmt: skip
    """Merge from the last row back, to the end of the arrays; returns where the result starts."""
    i, low, k = u64(stop), u64(start), u64(old[4].size)
    j, least = u64(new_stop), u64(new_start)
    while j > least:
        j -= _ONE
        if new[4][j] < before:
            continue
        bound = new[0][j]
        while i > low and old[0][i - _ONE] > bound:
            i -= _ONE
            k -= moved(old, i, before, columns, old, k - _ONE)
        k -= moved(new, j, before, columns, old, k - _ONE)
    while i > low:
        i -= _ONE
        k -= moved(old, i, before, columns, old, k - _ONE)
    return k


@kernel(f"i8({_RUN}, {_RUN}, i8, i8[:,::1], i8[::1])")
def merge_runs(
    old_keys: Array, old_ids: Array, start: int, stop: int,
    new_keys: Array, new_ids: Array, first: int, last: int,
    before: int, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Merge by key, old rows first among equals, and drop rows with an id below ``before``.

    Writes the result to the front of ``keys`` and ``ids``, which must have room for all rows, and
    returns its length. They may be the old run's own arrays if ``start`` is at least the number of
    new rows: the merge is then never more rows ahead in writing than in reading. Merging in place
    saves allocating and clearing memory, which costs as much as the merge of a long run.
    """
    old, new, run = rows_of(old_keys, old_ids), rows_of(new_keys, new_ids), rows_of(keys, ids)
    columns = u64(keys.shape[0])
    if columns == _ONE:
        size = merge_any(old, start, stop, new, first, last, before, _ONE, run)
    elif columns == _TWO:
        size = merge_any(old, start, stop, new, first, last, before, _TWO, run)
    elif columns == _THREE:
        size = merge_any(old, start, stop, new, first, last, before, _THREE, run)
    else:
        size = merge_any(old, start, stop, new, first, last, before, columns, run)
    return i64(size)


@kernel(f"i8({_RUN}, {_RUN}, i8)")
def merge_to_back(
    keys: Array, ids: Array, start: int, stop: int,
    new_keys: Array, new_ids: Array, first: int, last: int, before: int,
) -> int:  # fmt: skip
    """Merge in place so that the result ends where the arrays end; returns where it starts.

    Needs as much room behind ``stop`` as there are new rows.
    """
    old, new = rows_of(keys, ids), rows_of(new_keys, new_ids)
    columns = u64(keys.shape[0])
    if columns == _ONE:
        begin = merge_back(old, start, stop, new, first, last, before, _ONE)
    elif columns == _TWO:
        begin = merge_back(old, start, stop, new, first, last, before, _TWO)
    elif columns == _THREE:
        begin = merge_back(old, start, stop, new, first, last, before, _THREE)
    else:
        begin = merge_back(old, start, stop, new, first, last, before, columns)
    return i64(begin)
