"""Ranges of sorted keys: where the rows of each box begin and end, and how many of them live.

An array of *samples*, every ``step``-th key, lets a search read few cache lines of the keys:

    samples  3          14          21        step 4: samples[p] = keys[4 · p]
    keys     3  5  6  9 14 15 15 18 21 30

A search first finds the partition in the samples by rebounding search (PanJoin, Figure 6): from
where the last search ended, steps double until one goes too far, then halve. For sorted keys that
takes a step or two; for others it starts from the front. Then it finds the place inside the
partition.
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array, u64
from thetastream._jit.compiling import N, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch

BLOCK = 64


@inlined
def gallop(values: Array, at: int, stop: int, key: int) -> int:
    """First place in ``[at, stop)`` whose value is above ``key``; steps double, then halve."""
    step = 1
    while at + step <= stop and values[u64(at + step - 1)] <= key:
        at += step
        step <<= 1
    high = min(at + step - 1, stop)
    while at < high:
        middle = (at + high) >> 1
        if values[u64(middle)] <= key:
            at = middle + 1
        else:
            high = middle
    return at


@inlined
def rebound(values: Array, size: int, at: int, key: int) -> int:
    """How many of the ascending values are at most ``key``, searched from ``at`` on."""
    if at > 0 and values[u64(at - 1)] > key:
        at = 0
    return gallop(values, at, size, key)


@inlined
def rebound_below(values: Array, at: int, key: int) -> int:
    """How many of the ascending values are less than ``key``, searched from ``at`` on."""
    if key == -MOST - 1:
        return 0
    return rebound(values, values.size, at, key - 1)


@inlined
def halve(keys: Array, at: int, stop: int, bound: int) -> int:
    """First place in ``[at, stop)`` whose key is at least the bound. No branch."""
    size = stop - at
    while size > 0:
        half = size >> 1
        below = keys[u64(at + half)] < bound
        at = at + half + 1 if below else at
        size = size - half - 1 if below else half
    return at


@inlined
def ask_within(keys: Array, place: int, step: int) -> None:
    """Prefetch the keys that halving a partition reads first."""
    prefetch(keys, u64(place + (step >> 1)))
    prefetch(keys, u64(place + (step >> 2)))
    prefetch(keys, u64(place + step - (step >> 2)))


@kernel((V, N, V, N, V, V, V, V, V))
def find_ranges(
    keys: Array, size: int, samples: Array, step: int, lows: Array, highs: Array, starts: Array,
    stops: Array, scratch: Array,
) -> int:  # fmt: skip
    """The range ``[start, stop)`` of the main array inside each box. Fastest when lows ascend.

    Like merging: the search for an edge starts from that of the box before, and for a high edge
    that is near from the low one. ``scratch`` has ``2 · BLOCK`` places.
    """
    begin, at, top = 0, 0, 0
    while begin < lows.size:
        count = min(BLOCK, lows.size - begin)
        for i in range(count):
            low, high = lows[u64(begin + i)], highs[u64(begin + i)]
            at = rebound_below(samples, at, low)
            scratch[u64(i)] = at
            ask_within(keys, max(0, at - 1) * step, step)
            far = low <= high and at + 1 < samples.size and samples[u64(at + 1)] <= high
            if far:
                # The high edge is at least a partition away: search the samples for it, too.
                top = rebound(samples, samples.size, top, high)
                ask_within(keys, (top - 1) * step, step)
            scratch[u64(BLOCK + i)] = top if far else -1
        for i in range(count):
            box = u64(begin + i)
            low, high = lows[box], highs[box]
            # Samples below ``part`` are less than low, so its place is behind the last of them.
            part, last = scratch[u64(i)], scratch[u64(BLOCK + i)]
            start = halve(keys, max(0, part - 1) * step, min(size, part * step), low)
            stop = start
            if low <= high:
                if high == MOST:
                    stop = size
                elif last >= 0:
                    stop = halve(keys, (last - 1) * step, min(size, last * step), high + 1)
                else:
                    stop = gallop(keys, start, size, high)
            starts[box] = start
            stops[box] = stop
        begin += count
    return lows.size


@kernel((V, V, V, N, V))
def count_live(starts: Array, stops: Array, ids: Array, before: int, counts: Array) -> int:
    """Add to each box the number of live rows in its range; returns their total."""
    total = 0
    for box in range(starts.size):
        live = 0
        for i in range(u64(starts[box]), u64(stops[box])):
            live += ids[i] >= before
        counts[box] += live
        total += live
    return total
