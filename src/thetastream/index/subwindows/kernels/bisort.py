"""Loops of BI-Sort: merging a batch into the main array, its index array, searching, records.

PanJoin, Sections III-D and III-E. The main array holds the rows of a subwindow sorted by key; the
index array samples every ``step``-th key, so that a search reads few cache lines of the main array.

    index    3          14          21        step 4: index[p] = keys[4 · p]
    keys     3  5  6  9 14 15 15 18 21 30

A search first finds the partition in the index array by rebounding search, then the place inside
it. Batches are sorted ascending (the paper's Section III-E assumes descending ones).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.compiling import inlined, kernel, prefetch, vector
from thetastream.index.subwindows.kernels.llat import GROUP, N, V
from thetastream.index.subwindows.kernels.rap import BLOCK, rebound

__all__ = [
    "co_rank",
    "count_live",
    "expand",
    "find_ranges",
    "merge_in_place",
    "merge_piece",
    "record",
]

Array = NDArray[np.int64]
M = vector(2)


@kernel((V, V, N, V, V), group=GROUP)
def merge_in_place(keys: Array, ids: Array, size: int, new_keys: Array, new_ids: Array) -> int:
    """Merge sorted rows into the first ``size`` places; gives the new size. Old rows go first.

    From the back, so nothing is overwritten before it was moved, and what lies before the least new
    key stays where it is. Between two new rows the old ones move as a block.
    """
    i, k = size, size + new_keys.size
    for j in range(new_keys.size - 1, -1, -1):
        bound = new_keys[np.uint64(j)]
        # Rebounding search for the first old key above the bound, from the back.
        step, high = 1, i
        while high - step >= 0 and keys[np.uint64(high - step)] > bound:
            high -= step
            step <<= 1
        low = max(0, high - step + 1)
        while low < high:
            middle = (low + high) >> 1
            if keys[np.uint64(middle)] <= bound:
                low = middle + 1
            else:
                high = middle
        for x in range(1, i - low + 1):
            keys[np.uint64(k - x)] = keys[np.uint64(i - x)]
        for x in range(1, i - low + 1):
            ids[np.uint64(k - x)] = ids[np.uint64(i - x)]
        k -= i - low + 1
        i = low
        keys[np.uint64(k)] = bound
        ids[np.uint64(k)] = new_ids[np.uint64(j)]
    return size + new_keys.size


@inlined
def co_rank(old: Array, size: int, new: Array, place: int) -> int:
    """How many of the first ``place`` rows of the merged array are old ones."""
    low, high = max(0, place - new.size), min(place, size)
    while low < high:
        middle = (low + high) >> 1
        # The old row ``middle`` is among them when it goes before the new row it competes with.
        if old[np.uint64(middle)] <= new[np.uint64(place - middle - 1)]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel((V, V, N, V, V, V, V, N, N), group=GROUP)
def merge_piece(
    old_keys: Array, old_ids: Array, size: int, new_keys: Array, new_ids: Array,
    keys: Array, ids: Array, start: int, stop: int,
) -> int:  # fmt: skip
    """Fill places ``[start, stop)`` of the merged array: what one of several threads does.

    Pieces have equal sizes (Section III-G3); where a piece begins in either input is found by
    halving.
    """
    i = co_rank(old_keys, size, new_keys, start)
    j, k = start - i, start
    while k < stop:
        # Old rows up to the next new one, as a block.
        end = size
        if j < new_keys.size:
            end = rebound(old_keys, size, i, new_keys[np.uint64(j)])
        end = min(end, i + stop - k)
        for x in range(end - i):
            keys[np.uint64(k + x)] = old_keys[np.uint64(i + x)]
        for x in range(end - i):
            ids[np.uint64(k + x)] = old_ids[np.uint64(i + x)]
        k += end - i
        i = end
        if k < stop and j < new_keys.size:
            keys[np.uint64(k)] = new_keys[np.uint64(j)]
            ids[np.uint64(k)] = new_ids[np.uint64(j)]
            k += 1
            j += 1
    return i


@inlined
def walk(keys: Array, at: int, stop: int, bound: int) -> int:
    """First place in ``[at, stop)`` whose key is at least the bound; steps double."""
    step = 1
    while at + step <= stop and keys[np.uint64(at + step - 1)] < bound:
        at += step
        step <<= 1
    high = min(at + step - 1, stop)
    while at < high:
        middle = (at + high) >> 1
        if keys[np.uint64(middle)] < bound:
            at = middle + 1
        else:
            high = middle
    return at


@inlined
def halve(keys: Array, at: int, stop: int, bound: int) -> int:
    """First place in ``[at, stop)`` whose key is at least the bound. No branch."""
    size = stop - at
    while size > 0:
        half = size >> 1
        below = keys[np.uint64(at + half)] < bound
        at = at + half + 1 if below else at
        size = size - half - 1 if below else half
    return at


@inlined
def ask_within(keys: Array, place: int, step: int) -> None:
    """Ask the processor for the keys that halving a partition looks at first."""
    prefetch(keys, np.uint64(place + (step >> 1)))
    prefetch(keys, np.uint64(place + (step >> 2)))
    prefetch(keys, np.uint64(place + step - (step >> 2)))


@kernel((V, N, V, N, V, V, V, V, V), group=GROUP)
def find_ranges(
    keys: Array, size: int, samples: Array, step: int, lows: Array, highs: Array, starts: Array,
    stops: Array, scratch: Array,
) -> int:  # fmt: skip
    """The range ``[start, stop)`` of the main array inside each box. Fastest when lows ascend.

    Like merging: an edge is looked for from that of the box before, a high one that is near from
    the low one. ``scratch`` has ``2 · BLOCK`` places.
    """
    begin, at, top = 0, 0, 0
    while begin < lows.size:
        count = min(BLOCK, lows.size - begin)
        for i in range(count):
            low, high = lows[np.uint64(begin + i)], highs[np.uint64(begin + i)]
            at = rebound_below(samples, at, low)
            scratch[np.uint64(i)] = at
            ask_within(keys, max(0, at - 1) * step, step)
            far = low <= high and at + 1 < samples.size and samples[np.uint64(at + 1)] <= high
            if far:
                # The high edge is a partition away at least: by the samples, like the low one.
                top = rebound(samples, samples.size, top, high)
                ask_within(keys, (top - 1) * step, step)
            scratch[np.uint64(BLOCK + i)] = top if far else -1
        for i in range(count):
            box = np.uint64(begin + i)
            low, high = lows[box], highs[box]
            # Samples below ``part`` are less than low, so its place is behind the last of them.
            part, last = scratch[np.uint64(i)], scratch[np.uint64(BLOCK + i)]
            start = halve(keys, max(0, part - 1) * step, min(size, part * step), low)
            stop = start
            if low <= high:
                if high == _MOST:
                    stop = size
                elif last >= 0:
                    stop = halve(keys, (last - 1) * step, min(size, last * step), high + 1)
                else:
                    stop = walk(keys, start, size, high + 1)
            starts[box] = start
            stops[box] = stop
        begin += count
    return lows.size


_MOST = 2**63 - 1


@inlined
def rebound_below(values: Array, at: int, key: int) -> int:
    """How many of the ascending values are less than ``key``, searched from ``at`` on."""
    if key == -_MOST - 1:
        return 0
    return rebound(values, values.size, at, key - 1)


@kernel((V, V, V, N, N, V, N, V, V), group=GROUP)
def expand(
    starts: Array, stops: Array, ids: Array, before: int, after: int, cursor: Array, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the rows in each range with an id in ``[before, after)``.

    Full arrays end the call with ``cursor`` (box, place or -1) where to go on.
    """
    lowest, ids_span = np.uint64(before), np.uint64(after) - np.uint64(before)
    k, room = np.uint64(filled), np.uint64(positions.size)
    box = cursor[0]
    while box < starts.size:
        if (box & 15) == 0:
            for ahead in range(box, min(box + 16, starts.size)):
                prefetch(ids, np.uint64(starts[np.uint64(ahead)]))
        at, stop = np.uint64(starts[np.uint64(box)]), np.uint64(stops[np.uint64(box)])
        if cursor[1] >= 0:
            at = np.uint64(cursor[1])
            cursor[1] = -1
        while at < stop:
            if k == room:
                cursor[0] = box
                cursor[1] = np.int64(at)
                return np.int64(k)  # type: ignore[return-value]
            end = min(stop, at + (room - k))
            for i in range(at, end):
                row = ids[i]
                positions[k] = box
                rows[k] = row
                k += np.uint64(np.uint64(row) - lowest < ids_span)
            at = end
        box += 1
    cursor[0] = box
    return np.int64(k)  # type: ignore[return-value]


@kernel((V, V, V, N, V), group=GROUP)
def count_live(starts: Array, stops: Array, ids: Array, before: int, counts: Array) -> int:
    """Add to each box the rows in its range that have not expired; gives how many there are."""
    total = 0
    for box in range(starts.size):
        live = 0
        for i in range(np.uint64(starts[box]), np.uint64(stops[box])):
            live += ids[i] >= before
        counts[box] += live
        total += live
    return total


@kernel((M, M, V, V, V, V), group=GROUP)
def record(
    starts: Array, stops: Array, boxes: Array, runs: Array, firsts: Array, lasts: Array
) -> int:
    """Write down the ranges ``[starts[run, box], stops[run, box])`` that hold a row, box by box.

    The arrays written to have room for all; gives how many records there are.
    """
    k = np.uint64(0)
    for box in range(np.uint64(starts.shape[1])):
        for run in range(np.uint64(starts.shape[0])):
            boxes[k] = box
            runs[k] = run
            firsts[k] = starts[run, box]
            lasts[k] = stops[run, box]
            k += np.uint64(starts[run, box] < stops[run, box])
    return np.int64(k)  # type: ignore[return-value]
