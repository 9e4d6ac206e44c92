"""Reading a burst trie: newest rows of keys, rows of intervals, all rows, and folding them.

Paper: Ordered Indexing, Section 2 (search in containers) and 3.2 (mappers).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, Array
from thetastream._jit.compiling import N, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch
from thetastream.index.kernels.fold import FOLD_TYPES, Values, fold_rows
from thetastream.index.ordered.kernels.burst import nodes
from thetastream.index.ordered.kernels.burst.nodes import BURST, Burst

ABREAST = 16  # keys that are looked up side by side


@kernel((BURST, V, V, V))
def find_rows(t: Burst, keys: Array, scratch: Array, found: Array) -> None:
    """The newest id of each key, or -1. ``scratch`` has ``3 * ABREAST`` words.

    Keys are looked up in groups, one table or one halving of their containers at a time, so that
    they wait for memory together.
    """
    for start in range(0, keys.size, ABREAST):
        stop = min(start + ABREAST, keys.size)
        descend(t, keys, start, stop, scratch)
        halve(t, keys, start, stop, scratch)
        for i in range(start, stop):
            place = scratch[i - start]
            found[i] = -1
            if place > 0 and t.pool[place] == keys[i]:
                found[i] = t.pool[place + scratch[2 * ABREAST + i - start]]


@inlined
def descend(t: Burst, keys: Array, start: int, stop: int, scratch: Array) -> None:
    """The pointer to the container of each key, or 0."""
    for k in range(stop - start):
        scratch[k] = t.tables[0]
    under_way = True
    while under_way:
        under_way = False
        for k in range(stop - start):
            pointer = scratch[k]
            if pointer >= 0:
                continue
            held = -pointer - 1
            pointer = nodes.pointer_at(
                t, 256 * (held >> 3) + nodes.byte_of(keys[start + k], held & 7)
            )
            scratch[k] = pointer
            if pointer > 0:
                prefetch(t.pool, 2 * pointer)
            elif pointer < 0:
                held = -pointer - 1
                prefetch(t.tables, 256 * (held >> 3) + nodes.byte_of(keys[start + k], held & 7))
                under_way = True


@inlined
def halve(t: Burst, keys: Array, start: int, stop: int, scratch: Array) -> None:
    """The place of the last key in each container that is not above the wanted one, or 0.

    The first key if all are above. The scratch then also holds the distance from key to id.
    """
    longest = 0
    for k in range(stop - start):
        at = 2 * scratch[k]
        scratch[ABREAST + k] = 0
        if at > 0:
            head = t.pool[at]
            scratch[k] = at + nodes.HEAD + t.pool[at + 1]
            scratch[ABREAST + k] = head >> 7
            scratch[2 * ABREAST + k] = t.rooms[head & 127]
            longest = max(longest, head >> 7)
            prefetch(t.pool, scratch[k] + (head >> 8))
    while longest > 1:
        longest -= longest >> 1
        for k in range(stop - start):
            left = scratch[ABREAST + k]
            if left > 1:
                half = left >> 1
                low = scratch[k]
                low += half if t.pool[low + half] <= keys[start + k] else 0
                scratch[k] = low
                scratch[ABREAST + k] = left - half
                prefetch(t.pool, low + ((left - half) >> 1))
    for k in range(stop - start):
        if scratch[k] > 0:
            prefetch(t.pool, scratch[k] + scratch[2 * ABREAST + k])


@inlined
def inside(t: Burst, at: int, low: int, high: int) -> tuple[int, int]:
    """Places in the pool of the keys of a container that lie in ``[low, high]``."""
    pool, size, first = t.pool, t.pool[at] >> 7, at + nodes.HEAD + t.pool[at + 1]
    start, stop = first, first + size
    if pool[first] < low:
        start = first + nodes.count_below(pool, first, size, low)
    if pool[stop - 1] > high:
        stop = first + nodes.count_upto(pool, first, size, high)
    return start, stop


@kernel((BURST, V, V, N, V, V, V, V, V))
def read_rows(
    t: Burst, lows: Array, highs: Array, before: int, cursor: Array, path: Array,
    positions: Array, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Write (box, key, id) of the rows of each box, in order; returns how many. See ``_read``."""
    filled, room = 0, positions.size
    box, key, skip = cursor[0], cursor[1], cursor[2]
    while box < lows.size:
        low, high = lows[box], highs[box]
        if skip >= 0:
            low = max(low, key)
        else:
            skip = 0
        nodes.begin(path)
        at = nodes.advance(t, low, high, path) if low <= high else -1
        while at >= 0:
            start, stop = inside(t, at, low, high)
            shift = t.rooms[t.pool[at] & 127]
            place = start
            if skip > 0:
                place += skip
                skip = 0
            while place < stop:
                row = t.pool[place + shift]
                if row >= before:
                    if filled == room:
                        key = t.pool[place]
                        cursor[0] = box
                        cursor[1] = key
                        cursor[2] = place - start
                        cursor[2] -= nodes.count_below(t.pool, start, stop - start, key)
                        return filled
                    positions[filled] = box
                    ids[filled] = row
                    if keys.size > 0:
                        keys[filled] = t.pool[place]
                    filled += 1
                place += 1
            at = nodes.advance(t, low, high, path)
        box += 1
        skip = -1
    cursor[0] = box
    cursor[2] = -1
    return filled


@kernel((BURST, V, V, V))
def dump_rows(t: Burst, path: Array, keys: Array, ids: Array) -> int:
    """Write all rows in order of (key, id); returns how many."""
    filled = 0
    least, most = LEAST, 2**63 - 1
    nodes.begin(path)
    at = nodes.advance(t, least, most, path)
    while at >= 0:
        first, shift = at + nodes.HEAD + t.pool[at + 1], t.rooms[t.pool[at] & 127]
        for place in range(first, first + (t.pool[at] >> 7)):
            keys[filled] = t.pool[place]
            ids[filled] = t.pool[place + shift]
            filled += 1
        at = nodes.advance(t, least, most, path)
    return filled


@kernel(*((*nodes.ARRAYS, V, V, N, V, *fold) for fold in FOLD_TYPES))
def fold_boxes(
    tables: NDArray[np.int32], prefixes: Array, counted: Array, pool: Array, rooms: Array,
    free: Array, facts: Array, lows: Array, highs: Array, before: int, path: Array,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """The mapper: walk the containers of each box, and add the rows of each container at once."""
    t = Burst(tables, prefixes, counted, pool, rooms, free, facts)
    for box in range(lows.size):
        low, high = lows[box], highs[box]
        nodes.begin(path)
        at = nodes.advance(t, low, high, path) if low <= high else -1
        while at >= 0:
            start, stop = inside(t, at, low, high)
            shift = t.rooms[t.pool[at] & 127]
            fold_rows(
                pool, start + shift, stop + shift, before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            at = nodes.advance(t, low, high, path)
