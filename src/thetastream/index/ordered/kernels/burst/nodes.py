"""A burst trie in arrays: tables of 256 pointers over containers of sorted rows.

    tables     one row of 256 pointers per inner node; entry 0 of table 0 is the root
    pool       the containers, blocks of words:  head │ gap │ room keys │ room ids
                                                 head = 128 · rows + class of the room
    prefixes   of an inner node, a key below it; counts: its pointers that are taken

A pointer is 0 for nothing, positive for a container (its place in the pool, in pairs of words), and
negative for an inner node (its number and its level). Level ``v`` branches on byte ``v`` of a key,
level 0 being the last byte; the sign bit is flipped, so that bytes sort like the keys.

An inner node branches on the highest byte in which the rows below it differ; levels whose bytes are
all equal are skipped. A descent ignores skipped bytes. If they matter, they are compared once, at
its end, with the prefix of the last node: the prefixes along a path include each other.

A container holds at most ``LIMIT`` rows, unless all its keys are equal. Equal keys are always in
one container. Rows of a block may start after a gap: rows of equal keys expire from the front.

Blocks come in sizes (``ROOMS``), with a free list per size. Kernels stop when the pool or the
tables are too small. ``copy_trie`` (``changes``) moves everything to larger or smaller arrays, in
key order and without free blocks.

Paper: Ordered Indexing, Section 2, after Heinz, Zobel and Williams, "Burst tries", 2002.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, Array, i64
from thetastream._jit.compiling import V, inlined, named, vector

# The status with which a kernel stops.
DONE, NO_ROOM, NO_NODES = 0, 1, 2
# ``facts``: words of the pool in use, those of them in live blocks, nodes in use, live nodes, the
# first free node, rows held, most rows of a container, words that were missing in the pool.
TOP, LIVE, NODE_TOP, NODES, NODE_FREE, HELD, LIMIT, WANTED, FACTS = 0, 1, 2, 3, 4, 5, 6, 7, 8
CLASSES = 128
HEAD = 2  # words of a block before its keys
PATH = 32  # words of a walk: its depth, and three per node


def _rooms() -> Array:
    """The capacities of blocks: 1, 2, 3, 4, 6, 8, 12, 16, 24, … rows."""
    steps = {1, *(2**k for k in range(1, 41)), *(3 * 2**k for k in range(40))}
    rooms = np.full(CLASSES, 2**62, np.int64)
    rooms[: len(steps)] = sorted(steps)
    return rooms


ROOMS = _rooms()


class Burst(NamedTuple):
    """A trie. ``rooms`` is ``ROOMS``; ``free`` holds the first free block of each size."""

    tables: NDArray[np.int32]
    prefixes: Array
    counts: Array
    pool: Array
    rooms: Array
    free: Array
    facts: Array


ARRAYS = (vector(1, 32), *[V] * 6)
BURST = named(Burst, *ARRAYS)


# --- Pointers and bytes --------------------------------------------------------------------------


@inlined
def byte_of(key: int, level: int) -> int:
    """The byte of a key at a level."""
    return ((key ^ LEAST) >> (8 * level)) & 255


@inlined
def above(key: int, level: int) -> int:
    """The bytes of a key above a level, as a number that sorts like the keys."""
    return key >> (8 * level + 8) if level < 7 else 0


@inlined
def highest(difference: int) -> int:
    """The highest nonzero byte of a nonzero number."""
    level = 7
    while (difference >> (8 * level)) & 255 == 0:
        level -= 1
    return level


@inlined
def pointer_at(t: Burst, slot: int) -> Any:
    """The pointer in a slot."""
    return i64(t.tables[slot])


@inlined
def to_node(node: int, level: int) -> int:
    """A pointer to an inner node."""
    return -(8 * node + level) - 1


# --- Blocks and nodes ----------------------------------------------------------------------------


@inlined
def class_for(t: Burst, rows: int, least: int) -> int:
    """The smallest size class, from ``least`` on, with room for ``rows``."""
    size = least
    while t.rooms[size] < rows:
        size += 1
    return size


@inlined
def words(t: Burst, size: int) -> int:
    """The length of a block."""
    return HEAD + 2 * t.rooms[size]


@inlined
def take_block(t: Burst, size: int) -> int:
    """An empty block, or -1 if the pool has no room."""
    at = t.free[size]
    if at >= 0:
        t.free[size] = t.pool[at]
    else:
        at = t.facts[TOP]
        if at + words(t, size) > t.pool.size:
            t.facts[WANTED] = words(t, size)
            return -1
        t.facts[TOP] += words(t, size)
    t.facts[LIVE] += words(t, size)
    t.pool[at] = size
    t.pool[at + 1] = 0
    return at


@inlined
def free_block(t: Burst, at: int) -> None:
    """Put a block into the free list of its size."""
    size = t.pool[at] & 127
    t.pool[at] = t.free[size]
    t.free[size] = at
    t.facts[LIVE] -= words(t, size)


@inlined
def take_node(t: Burst, prefix: int) -> int:
    """An inner node without pointers, or -1 if no table is left."""
    node = t.facts[NODE_FREE]
    if node >= 0:
        t.facts[NODE_FREE] = t.prefixes[node]
    else:
        node = t.facts[NODE_TOP]
        if node >= t.prefixes.size:
            return -1
        t.facts[NODE_TOP] += 1
    t.facts[NODES] += 1
    for i in range(256 * node, 256 * node + 256):
        t.tables[i] = 0
    t.prefixes[node] = prefix
    t.counts[node] = 0
    return node


# --- Search --------------------------------------------------------------------------------------


@inlined
def count_below(pool: Array, first: int, size: int, key: int) -> int:
    """How many of the ``size`` ascending keys from ``first`` on are less than the key."""
    low, left = first, size
    while left > 1:
        half = left >> 1
        low += half if pool[low + half - 1] < key else 0
        left -= half
    return low - first + (1 if size > 0 and pool[low] < key else 0)


@inlined
def count_upto(pool: Array, first: int, size: int, key: int) -> int:
    """How many of the ``size`` ascending keys from ``first`` on are at most the key."""
    low, left = first, size
    while left > 1:
        half = left >> 1
        low += half if pool[low + half - 1] <= key else 0
        left -= half
    return low - first + (1 if size > 0 and pool[low] <= key else 0)


# --- Walking -------------------------------------------------------------------------------------


@inlined
def begin(path: Array) -> None:
    """Start a walk over the containers of an interval, before its first."""
    path[0] = 0
    path[1] = 0  # of each node on the path: its number, the next byte, the last byte
    path[2] = 0
    path[3] = 0


@inlined
def advance(t: Burst, low: int, high: int, path: Array) -> int:
    """The place of the next container that may hold keys in ``[low, high]``, or -1."""
    depth = path[0]
    while depth >= 0:
        at = 3 * depth + 1
        node, byte, last = path[at], path[at + 1], path[at + 2]
        while byte <= last and t.tables[256 * node + byte] == 0:
            byte += 1
        path[at + 1] = byte + 1
        if byte > last:
            depth -= 1
            continue
        pointer = pointer_at(t, 256 * node + byte)
        if pointer > 0:
            path[0] = depth
            return 2 * pointer
        child, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
        prefix = above(t.prefixes[child], level)
        least, most = above(low, level), above(high, level)
        if least <= prefix <= most:
            depth += 1
            path[at + 3] = child
            path[at + 4] = byte_of(low, level) if prefix == least else 0
            path[at + 5] = byte_of(high, level) if prefix == most else 255
    path[0] = 0
    path[2] = 1
    return -1
