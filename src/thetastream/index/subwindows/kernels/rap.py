"""Loops of the RaP-Table: finding partitions by rebounding search, inserting, probing, adjusting.

PanJoin, Sections III-B and III-E. Partition ``i`` holds the keys in ``[s[i - 1], s[i])`` of the
ascending splitters ``s``; the first and the last partition are open to their side.

Rows and boxes are processed in blocks: the loops first find and prefetch all partitions of a block,
then read or write them. So the cache misses of a block overlap.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.compiling import N, V, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.runs.kernels.ranges import BLOCK, rebound
from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.kernels.llat import LLAT, Llat

FEW = 16


@kernel((LLAT, V, V, V, V))
def insert_rows(t: Llat, splitters: Array, keys: Array, ids: Array, scratch: Array) -> int:
    """Insert rows; the table has room for them (2 P entries, Section III-B2)."""
    at, start, size = 0, 0, splitters.size
    while start < keys.size:
        count = min(BLOCK, keys.size - start)
        for i in range(count):
            at = rebound(splitters, size, at, keys[u64(start + i)])
            scratch[u64(i)] = at
            prefetch(t.sizes, u64(at))
        for i in range(count):
            llat.ask_for(t, scratch[u64(i)])
        for i in range(count):
            llat.append(t, scratch[u64(i)], keys[u64(start + i)], ids[u64(start + i)])
        start += count
    t.facts[llat.ROWS] += keys.size
    return keys.size


@kernel((LLAT, V, V, V, N, N, V, N, V, V, V))
def probe_rows(
    t: Llat, splitters: Array, lows: Array, highs: Array, before: int, after: int, cursor: Array,
    filled: int, positions: Array, rows: Array, scratch: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the rows inside each box with an id in ``[before, after)``.

    Full arrays end the call with ``cursor`` (box, entry or -1, place, partition) where to continue.
    """
    size, at = splitters.size, 0
    while cursor[0] < lows.size:
        start = cursor[0]
        count = min(FEW, lows.size - start)
        for i in range(count):
            low, high = lows[u64(start + i)], highs[u64(start + i)]
            at = rebound(splitters, size, at, low)
            scratch[u64(2 * i)] = at
            scratch[u64(2 * i + 1)] = rebound(splitters, size, at, high) if low <= high else -1
            llat.ask_for_all(t, at)
        for i in range(count):
            box = start + i
            part, last = scratch[u64(2 * i)], scratch[u64(2 * i + 1)]
            if cursor[1] >= 0:
                part = cursor[3]
            else:
                cursor[1] = part
            while part <= last:
                filled = llat.read_part(
                    t, lows[u64(box)], highs[u64(box)], before, after, cursor, box,
                    filled, positions, rows,
                )  # fmt: skip
                if cursor[1] >= 0:
                    cursor[0] = box
                    cursor[3] = part
                    return filled
                part += 1
                cursor[1] = part
            cursor[1] = -1
            cursor[2] = 0
        cursor[0] = start + count
    return filled


@kernel((V, V, V, V))
def adjust(counts: Array, lows: Array, highs: Array, splitters: Array) -> int:
    """New splitters from the histograms of a subwindow (Algorithm 1); returns its number of rows.

    Splitter ``j`` is where the prefix sum of counts reaches ``bal = j · N / P``: inside partition
    ``i``, at ``low + (bal - sum before i) / count · (high - low)``. Errata: the listing leaves out
    ``low``, the offset of the partition, and starts at j = 0. The width of a partition may exceed
    the largest integer, so it is unsigned.
    """
    total = 0
    for i in range(counts.size):
        total += counts[i]
    parts, seen, i = splitters.size + 1, 0, 0
    for j in range(1, parts):
        balance = total * j / parts
        while i < counts.size - 1 and seen + counts[i] < balance:
            seen += counts[i]
            i += 1
        share = 0.0
        if counts[i] > 0:
            share = min(1.0, max(0.0, (balance - seen) / counts[i]))
        width = u64(highs[i]) - u64(lows[i])
        # Rounded up: a splitter is the first key of the partition behind it.
        step = u64(share * np.float64(width)) if share < 1.0 else width
        value = i64(u64(lows[i]) + min(step, width))
        if share > 0.0 and value < highs[i]:
            value += 1
        splitters[j - 1] = value if j == 1 else max(value, splitters[j - 2])
    return total
