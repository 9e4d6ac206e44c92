"""Probing permuted rows (PO-Join): rank intervals, scans of ranks, and a survey to choose a way.

SPO-Join, Section 3.4. A box is an interval of keys in every column. ``offsets`` turns it into
intervals of ranks, ``[starts[c, box], stops[c, box])`` in column c (those of column 0 are places);
a row lies inside the box if its rank does in every column. Three ways to find such rows:

    scan    read the ranks of one column in the order of another, the narrower interval; compare
    fill    set a bit for every row inside one interval, read the bits inside the other, clear
    sweep   like fill, but from box to box only the difference is set or cleared (IEJoin)

``sweeping.py`` handles bits. Columns from the third on are checked on candidates (``inside``).
Positions are unsigned in hot loops. Calls fill their output arrays and note in ``state`` where to
resume.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array, Floats, i64, u64
from thetastream._jit.compiling import M, N, V, inlined, kernel, vector
from thetastream._jit.intrinsics import lowest_bit
from thetastream.index.permuted.kernels.permute import BLOCK, Places

PLACES, ZONES = vector(2, 32), vector(3, 32)
LANES = 32
SOME = 256  # boxes in a survey
# State of a reader: the box, the place in it (-1: not started), the intervals whose bits are set
# (two numbers each), the number of bits set, the number of words read.
BOX, AT, HELD, HELD_2, SET, READ, STATE = 0, 1, 2, 4, 6, 7, 8


# --- Offsets -------------------------------------------------------------------------------------


@inlined
def ahead(key: int, edge: int, closed: bool) -> bool:
    """Whether a key lies before an edge; an equal key does if ``closed``."""
    return bool(key < edge or (closed and key == edge))


@inlined
def halve(keys: Array, start: np.uint64, stop: np.uint64, edge: int, closed: bool) -> np.uint64:
    """The first place in ``[start, stop]`` not before an edge."""
    one = u64(1)
    while start < stop:
        middle = (start + stop) >> one
        if ahead(keys[middle], edge, closed):
            start = middle + one
        else:
            stop = middle
    return start


@inlined
def halve_together(
    keys: Array, edges: Array, begin: int, count: int, closed: bool, found: Array
) -> None:
    """How many keys lie before each of some edges, by halving.

    All lie between the offsets of the least and the largest edge, which are close if edges are
    nearly sorted. In between they search in step, so that cache misses overlap; vector code.
    (Doubling steps from edge to edge, and a directory of sampled keys, were slower.)
    """
    one = u64(1)
    start, stop = u64(begin), u64(begin + count)
    least, most = edges[start], edges[start]
    for i in range(start, stop):
        least, most = min(least, edges[i]), max(most, edges[i])
    low = halve(keys, u64(0), u64(keys.size), least, closed)
    size = halve(keys, low, u64(keys.size), most, closed) - low
    for i in range(start, stop):
        found[i] = i64(low)
    while size > one:
        half = size >> one
        for i in range(start, stop):
            at = u64(found[i]) + half
            found[i] = at if ahead(keys[at - one], edges[i], closed) else found[i]
        size -= half
    if size > u64(0):
        for i in range(start, stop):
            found[i] += ahead(keys[u64(found[i])], edges[i], closed)


@inlined
def find_offsets(keys: Array, edges: Array, closed: bool, found: Array) -> None:
    """The offset of each edge: how many sorted keys precede it. Open edges need no search."""
    openness, far = MOST if closed else LEAST, keys.size if closed else 0
    begin = 0
    while begin < edges.size:
        count = min(LANES, edges.size - begin)
        some = False
        for i in range(u64(begin), u64(begin + count)):
            found[i] = far
            some = some or edges[i] != openness
        if some:
            halve_together(keys, edges, begin, count, closed, found)
        begin += count


@kernel((M, M, M, M, M))
def offsets(keys: Array, lows: Array, highs: Array, starts: Array, stops: Array) -> int:
    """Intervals of ranks, from inclusive intervals of keys, in every column (Algorithm 3).

    Low edges go before equal keys, high edges after them, which covers strict and non-strict
    operators, and duplicates. O(log n) per edge, less if edges are nearly sorted.
    """
    for c in range(u64(keys.shape[0])):
        find_offsets(keys[c], lows[c], False, starts[c])
        find_offsets(keys[c], highs[c], True, stops[c])
    return lows.shape[1]


# --- Rows inside boxes ---------------------------------------------------------------------------


@inlined
def empty(starts: Array, stops: Array, box: np.uint64) -> bool:
    """Whether some interval of a box is empty."""
    found = False
    for c in range(u64(starts.shape[0])):
        found = found or starts[c, box] >= stops[c, box]
    return bool(found)


@inlined
def inside(
    ranks: Places, place: np.uint64, starts: Array, stops: Array, box: np.uint64, by: np.uint64
) -> bool:
    """Whether a row lies inside the box in columns from 2 on; from 1 on if ``by`` is above 1."""
    first = u64(2) if by < u64(2) else u64(1)
    for c in range(first, u64(starts.shape[0])):
        rank = i64(ranks[c - u64(1), place])
        if rank < starts[c, box] or rank >= stops[c, box]:
            return False
    return True


@inlined
def narrowest(starts: Array, stops: Array, box: np.uint64) -> np.uint64:
    """The column with the shortest interval."""
    best = u64(0)
    for c in range(starts.shape[0]):
        column = u64(c)
        if stops[column, box] - starts[column, box] < stops[best, box] - starts[best, box]:
            best = column
    return best


@inlined
def hits(values: Places, at: np.uint64, count: np.uint64, low: np.uint32, span: np.uint32) -> Any:
    """A bit for each of up to 64 values from ``at`` on in ``[low, low + span)``."""
    found = u64(0)
    if count == u64(BLOCK):
        block = values[at : at + u64(BLOCK)]
        some = np.int32(0)
        for i in range(BLOCK):  # in 32 bits throughout, which doubles the speed
            some = np.int32(some | np.int32(np.uint32(np.uint32(block[i]) - low) < span))
        if some != 0:
            for i in range(u64(BLOCK)):
                found |= u64(np.uint32(block[i]) - low < span) << i
    else:
        for i in range(count):
            found |= u64(np.uint32(values[at + i]) - low < span) << i
    return found


@inlined
def meets(least: Places, most: Places, at: np.uint64, low: int, high: int) -> bool:
    """Whether a zone meets ``[low, high)``."""
    return bool(least[at] < high and most[at] >= low)


@inlined
def next_block(
    zones: Places, groups: Places, block: np.uint64, end: np.uint64, low: int, high: int
) -> np.uint64:
    """The first block in ``[block, end)`` whose zone meets ``[low, high)``, else ``end``.

    Skips groups of 64 blocks by their own zone. Vector code tests the zones of a whole group at
    once: the sign says whether one meets.
    """
    one, six, many = u64(1), u64(6), u64(BLOCK)
    least, most = zones[0], zones[1]
    while block < end:
        group = block >> six
        if not meets(groups[0], groups[1], group, low, high):
            block = (group + one) << six
            continue
        stop = min(end, (group + one) << six)
        some = np.int32(-1)
        if stop - block == many:
            some = np.int32(0)
            for i in range(many):
                under, over = least[block + i] - high, low - most[block + i] - 1
                some = np.int32(some | np.int32(np.int32(under) & np.int32(over)))
        if some < 0:
            while block < stop:
                if meets(least, most, block, low, high):
                    return block
                block += one
        block = stop
    return end


@kernel((V, PLACES, PLACES, ZONES, ZONES, M, M, N, V, N, V, V))
def scan_ranks(
    ids: Array, places: Places, ranks: Places, zones: Places, groups: Places, starts: Array,
    stops: Array, before: int, state: Array, filled: int, positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the rows inside each box, reading along its narrowest column.

    Along column 0 it compares ranks in column 1, along another column places. Skips blocks of 64
    whose zone (least and largest value) lies outside, and groups of 64 blocks. Vector code compares
    a block; only blocks with a hit are read again.
    """
    one, wide = u64(1), u64(BLOCK)
    k, room = u64(filled), u64(positions.size)
    box, boxes = u64(state[BOX]), u64(starts.shape[1])
    resumed = state[AT]
    while box < boxes:
        if empty(starts, stops, box):
            box += one
            continue
        by = narrowest(starts, stops, box)
        along = by == u64(0)
        other = one if along else u64(0)
        values = ranks[0] if along else places[by - one]
        bottom, top = starts[other, box], stops[other, box]
        low, span = np.uint32(bottom), np.uint32(top - bottom)
        start, stop = u64(starts[by, box]), u64(stops[by, box])
        if resumed >= 0:
            start = u64(resumed)
            resumed = -1
        end = (stop + wide - one) // wide
        block = next_block(zones[by], groups[by], start // wide, end, bottom, top)
        while block < end:
            at = max(start, block * wide)
            found = hits(values, at, min(stop, (block + one) * wide) - at, low, span)
            state[READ] += 1
            while found != 0:
                i = at + lowest_bit(found)
                place = i if along else u64(values[i])
                if k == room:
                    state[BOX], state[AT] = i64(box), i64(i)
                    return i64(k)
                found &= found - one
                row = ids[place]
                good = row >= before and inside(ranks, place, starts, stops, box, by)
                positions[k] = box
                rows[k] = row
                k += u64(good)
            block = next_block(zones[by], groups[by], block + one, end, bottom, top)
        box += one
    state[BOX], state[AT] = i64(box), -1
    return i64(k)


@inlined
def count_blocks(zones: Places, groups: Places, starts: Array, stops: Array, box: np.uint64) -> int:
    """How many blocks ``scan_ranks`` would read for a box."""
    one, wide = u64(1), u64(BLOCK)
    by = narrowest(starts, stops, box)
    other = one if by == u64(0) else u64(0)
    bottom, top = starts[other, box], stops[other, box]
    end = (u64(stops[by, box]) + wide - one) // wide
    block = u64(starts[by, box]) // wide
    block = next_block(zones[by], groups[by], block, end, bottom, top)
    total = 0
    while block < end:
        total += 1
        block = next_block(zones[by], groups[by], block + one, end, bottom, top)
    return total


@kernel((ZONES, ZONES, M, M, N, vector(2, 64, "float"), vector(1, 64, "float")))
def survey(
    zones: Places, groups: Places, starts: Array, stops: Array, few: int, spans: Floats,
    means: Floats,
) -> int:  # fmt: skip
    """Measure some boxes, to choose between ways.

    ``spans``: per column, the mean length of intervals, and the distance from first to last.
    ``means``: the mean length of a box's narrowest interval and, on ``few`` boxes, its blocks.
    """
    boxes = starts.shape[1]
    step, rare = max(1, boxes // SOME), max(1, boxes // few)
    narrow, seen, blocks, looked = 0.0, 0, 0.0, 0
    for c in range(u64(starts.shape[0])):
        low, high, total = starts[c, 0], stops[c, 0], 0
        for i in range(0, boxes, step):
            box = u64(i)
            low, high = min(low, starts[c, box]), max(high, stops[c, box])
            total += max(0, stops[c, box] - starts[c, box])
        spans[c, 0] = total / ((boxes + step - 1) // step)
        spans[c, 1] = high - low
    for i in range(0, boxes, step):
        box = u64(i)
        by = narrowest(starts, stops, box)
        narrow += max(0, stops[by, box] - starts[by, box])
        seen += 1
    for i in range(0, boxes, rare):
        box = u64(i)
        if not empty(starts, stops, box):
            blocks += count_blocks(zones, groups, starts, stops, box)
        looked += 1
    means[0], means[1] = narrow / seen, blocks / looked
    return seen
