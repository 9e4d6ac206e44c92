"""Nodes as whole cache lines of one flat array: counting keys, moving words, handing out rows.

A node is a place in an array of words. It starts with an *area* of whole lines: a header and keys.
Free places hold the largest integer, so a search compares all words of the area and subtracts the
header's share: no branch, vector code.

    words   … │ header 3 5 9 14 ∞ ∞ ∞ │ 7 0 2 5 · · · │ …          a leaf of seven rows at most
                area                    ids

The b-tree and the csb+tree share these loops; the links between their nodes differ.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import inlined
from thetastream._jit.intrinsics import prefetch

BLOCK = 8  # words of a cache line
LEAD = 6  # words before the first node: large arrays start 16 bytes after a line
DEEPEST = 64  # upper bound on the levels of a tree
_ONE, _EIGHT = np.uint64(1), np.uint64(BLOCK)


@inlined
def count_below(words: Array, node: int, area: int, key: int) -> int:
    """How many keys of a node are less than ``key``."""
    at = np.uint64(node)
    end = at + np.uint64(area)
    count = 0 - (words[at] < key)
    while at < end:
        count += words[at] < key
        count += words[at + np.uint64(1)] < key
        count += words[at + np.uint64(2)] < key
        count += words[at + np.uint64(3)] < key
        count += words[at + np.uint64(4)] < key
        count += words[at + np.uint64(5)] < key
        count += words[at + np.uint64(6)] < key
        count += words[at + np.uint64(7)] < key
        at += _EIGHT
    return count


@inlined
def count_upto(words: Array, node: int, area: int, key: int, most: int) -> int:
    """How many of the first ``most`` keys of a node are at most ``key``, without free places."""
    at = np.uint64(node)
    end = at + np.uint64(area)
    count = 0 - (words[at] <= key)
    while at < end:
        count += words[at] <= key
        count += words[at + np.uint64(1)] <= key
        count += words[at + np.uint64(2)] <= key
        count += words[at + np.uint64(3)] <= key
        count += words[at + np.uint64(4)] <= key
        count += words[at + np.uint64(5)] <= key
        count += words[at + np.uint64(6)] <= key
        count += words[at + np.uint64(7)] <= key
        at += _EIGHT
    return min(count, most)


@inlined
def fill(words: Array, start: int, size: int) -> None:
    """Mark places as free."""
    first = np.uint64(start)
    for i in range(np.uint64(max(size, 0))):
        words[first + np.uint64(i)] = MOST


@inlined
def move_up(words: Array, source: int, target: int, size: int) -> None:
    """Copy words to a higher or disjoint place: the last word first."""
    start, goal = np.uint64(source), np.uint64(target)
    left = np.uint64(max(size, 0))
    while left > np.uint64(0):
        left -= _ONE
        words[goal + left] = words[start + left]


@inlined
def move_down(words: Array, source: int, target: int, size: int) -> None:
    """Copy words to a lower or disjoint place: the first word first."""
    start, goal = np.uint64(source), np.uint64(target)
    for i in range(np.uint64(max(size, 0))):
        words[goal + np.uint64(i)] = words[start + np.uint64(i)]


@inlined
def fetch(words: Array, start: int, size: int) -> None:
    """Prefetch the lines of a node."""
    for line in range(0, size, BLOCK):
        prefetch(words, start + line)


# --- Runs ----------------------------------------------------------------------------------------
# A walk over a range of keys visits runs of adjacent rows in a node. A run: where its keys and its
# ids start, and its number of rows; whether the range may continue after it; the spot of the walk,
# which each structure defines.
KEY_AT, ID_AT, COUNT, MORE, SPOT = 0, 1, 2, 3, 4
RUN = 5


@inlined
def advance(run: Array, count: int) -> None:
    """Remove rows from the start of a run."""
    run[KEY_AT] += count
    run[ID_AT] += count
    run[COUNT] -= count


@inlined
def emit(
    words: Array, run: Array, box: int, before: int, cursor: Array, filled: int,
    positions: Array, keys: Array, ids: Array,
) -> int:  # fmt: skip
    """Write the rows of a run with an id of at least ``before``; returns the new fill.

    Removes as many rows from the run as there is room for, and notes them in the cursor. No branch:
    an expired row is overwritten.
    """
    count = min(run[COUNT], positions.size - filled)
    first, numbers = np.uint64(run[KEY_AT]), np.uint64(run[ID_AT])
    wanted = keys.size > 0
    for i in range(np.uint64(count)):
        row = words[numbers + np.uint64(i)]
        positions[np.uint64(filled)] = box
        ids[np.uint64(filled)] = row
        if wanted:
            keys[np.uint64(filled)] = words[first + np.uint64(i)]
        filled += row >= before
    note(words, run[KEY_AT], count, cursor)
    advance(run, count)
    return filled


@inlined
def note(words: Array, key_at: int, count: int, cursor: Array) -> None:
    """Note in a cursor (box, key, skip) that ``count`` >= 1 rows were read.

    ``key`` becomes the last key read, ``skip`` the number of its rows read.
    """
    last = words[key_at + count - 1]
    if cursor[2] >= 0 and cursor[1] == last:
        cursor[2] += count
        return
    equal = 1
    while equal < count and words[key_at + count - 1 - equal] == last:
        equal += 1
    cursor[1] = last
    cursor[2] = equal
