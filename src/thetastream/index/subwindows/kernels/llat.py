"""The Linked List Adaptive Table (LLAT): rows by partition, in entries of equal length.

PanJoin, Section III-B2. An entry holds rows of one partition in order of insertion; a partition
that outgrows its entry continues in another one, taken from the unused end of the table.

    entry   0      1      2      3    │   4      5      6      7      facts[USED] = 6 (PtrG)
           a a    b b b   ·     d d   │  b b     b      ·      ·
            │      └──────────────────┼──►└─────►┘                    nexts[1] = 4, nexts[4] = 5
           normal entries             │  reserved entries             lasts[1] = 5

Departures from the paper: a further entry is taken when a row needs it, not when one is full;
``lasts`` names the last entry of a partition, so that an insert need not walk along the list; there
is no *Tail*, as rows leave with their whole subwindow (Section III-G1).

The rows of a partition are not sorted, so a box reads all of them. Keys are tested in blocks
without a branch (vector code); only a block with a hit is read row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thetastream._jit.arrays import MOST, Array, i64, u64
from thetastream._jit.compiling import N, V, inlined, kernel, named
from thetastream._jit.intrinsics import prefetch

BLOCK = 32
_FAR = 256  # keys prefetched at most
_FEW = 4  # hits of a block up to which it is read row by row
# Facts: rows of an entry, entries in use, entries there are, rows stored.
WIDTH, USED, TAKEN, ROWS, FACTS = 0, 1, 2, 3, 4


class Llat(NamedTuple):
    """The table. Entry ``e`` has the places ``[e · width, e · width + sizes[e])``."""

    keys: Array  # padded by a block of places that may be read but are not used
    ids: Array
    sizes: Array
    nexts: Array  # the entry that continues the partition, -1 for none
    lasts: Array  # by the first entry of a partition: its last one
    facts: Array


LLAT = named(Llat, *[V] * 6)


@inlined
def take_entry(t: Llat) -> int:
    """Take an unused entry; there must be one."""
    entry = t.facts[USED]
    t.facts[USED] = entry + 1
    t.sizes[entry] = 0
    t.nexts[entry] = -1
    t.lasts[entry] = entry
    return entry


@inlined
def room_for(t: Llat, entries: int) -> bool:
    """Whether at least ``entries`` entries are unused."""
    return t.facts[USED] + entries <= t.facts[TAKEN]


@inlined
def append(t: Llat, part: int, key: int, row: int) -> None:
    """Append a row to its partition; if its entry is full, an unused one must exist."""
    entry = t.lasts[u64(part)]
    size = t.sizes[u64(entry)]
    if size == t.facts[WIDTH]:
        further = take_entry(t)
        t.nexts[u64(entry)] = further
        t.lasts[u64(part)] = further
        entry, size = further, 0
    place = u64(entry * t.facts[WIDTH] + size)
    t.keys[place] = key
    t.ids[place] = row
    t.sizes[u64(entry)] = size + 1


@inlined
def ask_for(t: Llat, part: int) -> None:
    """Prefetch the place of the next row of a partition."""
    entry = t.lasts[u64(part)]
    place = u64(entry * t.facts[WIDTH] + t.sizes[u64(entry)])
    prefetch(t.keys, place)
    prefetch(t.ids, place)


@inlined
def ask_for_all(t: Llat, part: int) -> None:
    """Prefetch the keys of a partition's first entry, up to a limit."""
    first = part * t.facts[WIDTH]
    for line in range(0, min(t.sizes[u64(part)], _FAR), 8):
        prefetch(t.keys, u64(first + line))


@inlined
def count_inside(keys: Array, at: np.uint64, low: int, span: np.uint64) -> int:
    """How many of the next ``BLOCK`` keys lie in the interval. No branch: vector code."""
    hits, base = i64(0), u64(low)
    block = keys[at : at + u64(BLOCK)]  # as an array of its own; otherwise it stays scalar
    for i in range(u64(block.size)):
        hits += i64(u64(block[i]) - base <= span)
    return hits


@inlined
def read_part(
    t: Llat, low: int, high: int, before: int, after: int, cursor: Array, box: int, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append the rows of a partition inside ``[low, high]`` with an id in ``[before, after)``.

    Starts at entry ``cursor[1]``, place ``cursor[2]`` in it. Returns the new fill. When the arrays
    are full, the cursor points to where to continue; otherwise ``cursor[1]`` is -1.
    """
    base, span = u64(low), u64(high) - u64(low)
    lowest, ids_span = u64(before), u64(after) - u64(before)
    k, room, one = u64(filled), u64(positions.size), u64(1)
    entry, width = cursor[1], t.facts[WIDTH]
    at = u64(entry * width + cursor[2])
    while entry >= 0:
        stop = u64(entry * width + t.sizes[u64(entry)])
        while at < stop:
            # What lies behind the rows of a last block may count as hits, but no row is missed.
            block, hits = min(at + u64(BLOCK), stop), count_inside(t.keys, at, low, span)
            if hits == 0:
                at = block
                continue
            if k + (block - at) < room and hits > _FEW:
                for i in range(at, block):
                    row = t.ids[i]
                    positions[k] = box
                    rows[k] = row
                    good = u64(t.keys[i]) - base <= span
                    k += u64(good & (u64(row) - lowest < ids_span))
                at = block
            while at < block:
                # Read an id only if its key is inside: it is in another cache line.
                if u64(t.keys[at]) - base <= span:
                    row = t.ids[at]
                    if u64(row) - lowest < ids_span:
                        if k == room:
                            cursor[1] = entry
                            cursor[2] = i64(at) - entry * width
                            return i64(k)
                        positions[k] = box
                        rows[k] = row
                        k += one
                at += one
        entry = t.nexts[u64(entry)]
        at = u64(entry * width)
    cursor[1] = -1
    cursor[2] = 0
    return i64(k)


@kernel((LLAT, N, V, V, V))
def histogram(t: Llat, parts: int, counts: Array, lows: Array, highs: Array) -> int:
    """Rows, least and largest key of the partitions whose first entries are ``0 … parts - 1``."""
    width = t.facts[WIDTH]
    for part in range(parts):
        count, low, high = 0, MOST, -MOST - 1
        entry = part
        while entry >= 0:
            first = u64(entry * width)
            for i in range(first, first + u64(t.sizes[entry])):
                low = min(low, t.keys[i])
                high = max(high, t.keys[i])
            count += t.sizes[entry]
            entry = t.nexts[entry]
        counts[part] = count
        lows[part] = low
        highs[part] = high
    return parts


@kernel((LLAT, N, N))
def count_outside(t: Llat, low: int, high: int) -> int:
    """How many rows have a key outside ``[low, high]``."""
    base, span = u64(low), u64(high) - u64(low)
    count, width = i64(0), t.facts[WIDTH]
    for entry in range(t.facts[USED]):
        first = u64(entry * width)
        for i in range(first, first + u64(t.sizes[entry])):
            count += i64(u64(t.keys[i]) - base > span)
    return count


@kernel((LLAT, V, V))
def dump_table(t: Llat, keys: Array, ids: Array) -> int:
    """Write all rows, entry by entry; returns their number."""
    k, width = 0, t.facts[WIDTH]
    for entry in range(t.facts[USED]):
        for i in range(entry * width, entry * width + t.sizes[entry]):
            keys[k] = t.keys[i]
            ids[k] = t.ids[i]
            k += 1
    return k
