"""Loops of BI-Sort: merging a batch into the main array, listing the rows of ranges.

PanJoin, Sections III-D and III-E. The main array holds the rows of a subwindow sorted by key; an
index array samples it for searches (``find_ranges`` of the runs). Batches are sorted ascending (the
paper's Section III-E assumes descending ones).
"""

from __future__ import annotations

from typing import Any

from thetastream._jit.arrays import Array, u64
from thetastream._jit.compiling import N, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.runs.kernels.ranges import rebound
from thetastream.index.runs.kernels.search import paused


@kernel((V, V, N, V, V))
def merge_in_place(keys: Array, ids: Array, size: int, new_keys: Array, new_ids: Array) -> int:
    """Merge sorted rows into the first ``size`` places; returns the new size. Old rows go first.

    Works from the back, so nothing is overwritten before it has moved, and rows before the least
    new key stay in place. Between two new rows the old ones move as a block.
    """
    i, k = size, size + new_keys.size
    for j in range(new_keys.size - 1, -1, -1):
        bound = new_keys[u64(j)]
        # Rebounding search for the first old key above the bound, from the back.
        step, high = 1, i
        while high - step >= 0 and keys[u64(high - step)] > bound:
            high -= step
            step <<= 1
        low = max(0, high - step + 1)
        while low < high:
            middle = (low + high) >> 1
            if keys[u64(middle)] <= bound:
                low = middle + 1
            else:
                high = middle
        for x in range(1, i - low + 1):
            keys[u64(k - x)] = keys[u64(i - x)]
        for x in range(1, i - low + 1):
            ids[u64(k - x)] = ids[u64(i - x)]
        k -= i - low + 1
        i = low
        keys[u64(k)] = bound
        ids[u64(k)] = new_ids[u64(j)]
    return size + new_keys.size


@inlined
def co_rank(old: Array, size: int, new: Array, place: int) -> int:
    """How many of the first ``place`` rows of the merged array are old ones."""
    low, high = max(0, place - new.size), min(place, size)
    while low < high:
        middle = (low + high) >> 1
        # The old row ``middle`` is among them if it goes before the new row it is compared with.
        if old[u64(middle)] <= new[u64(place - middle - 1)]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel((V, V, N, V, V, V, V, N, N))
def merge_piece(
    old_keys: Array, old_ids: Array, size: int, new_keys: Array, new_ids: Array,
    keys: Array, ids: Array, start: int, stop: int,
) -> int:  # fmt: skip
    """Fill places ``[start, stop)`` of the merged array: the share of one of several threads.

    Pieces have equal sizes (Section III-G3); a binary search finds where one begins in each input.
    """
    i = co_rank(old_keys, size, new_keys, start)
    j, k = start - i, start
    while k < stop:
        # Old rows up to the next new one, as a block.
        end = size
        if j < new_keys.size:
            end = rebound(old_keys, size, i, new_keys[u64(j)])
        end = min(end, i + stop - k)
        for x in range(end - i):
            keys[u64(k + x)] = old_keys[u64(i + x)]
        for x in range(end - i):
            ids[u64(k + x)] = old_ids[u64(i + x)]
        k += end - i
        i = end
        if k < stop and j < new_keys.size:
            keys[u64(k)] = new_keys[u64(j)]
            ids[u64(k)] = new_ids[u64(j)]
            k += 1
            j += 1
    return i


@kernel((V, V, V, N, N, V, N, V, V))
def expand(
    starts: Array, stops: Array, ids: Array, before: int, after: int, cursor: Array, filled: int,
    positions: Array, rows: Array,
) -> Any:  # fmt: skip
    """Append ``(box, id)`` of the rows in each range with an id in ``[before, after)``.

    Full arrays end the call with ``cursor`` (box, place or -1) where to continue.
    """
    lowest, ids_span = u64(before), u64(after) - u64(before)
    k, room = u64(filled), u64(positions.size)
    box = cursor[0]
    while box < starts.size:
        if (box & 15) == 0:
            for ahead in range(box, min(box + 16, starts.size)):
                prefetch(ids, u64(starts[u64(ahead)]))
        at, stop = u64(starts[u64(box)]), u64(stops[u64(box)])
        if cursor[1] >= 0:
            at = u64(cursor[1])
            cursor[1] = -1
        while at < stop:
            if k == room:
                return paused(cursor, box, at, k)
            end = min(stop, at + (room - k))
            for i in range(at, end):
                row = ids[i]
                positions[k] = box
                rows[k] = row
                k += u64(u64(row) - lowest < ids_span)
            at = end
        box += 1
    return paused(cursor, box, -1, k)
