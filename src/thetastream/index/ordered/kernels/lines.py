"""Nodes as whole cache lines of one flat array: counting keys, moving words, handing out rows.

A node is a place in an array of words. It starts with an *area* of whole lines: a header and keys.
Free places hold the largest integer, so a search compares all words of the area and subtracts the
header's share: no branch, vector code.

    words   … │ header 3 5 9 14 ∞ ∞ ∞ │ 7 0 2 5 · · · │ …          a leaf of seven rows at most
                area                    ids

The b-tree and the csb+tree share these loops; the links between their nodes differ.
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array, u64
from thetastream._jit.compiling import inlined
from thetastream._jit.intrinsics import prefetch

BLOCK = 8  # words of a cache line
LEAD = 6  # words before the first node: large arrays start 16 bytes after a line
DEEPEST = 64  # upper bound on the levels of a tree
_ONE, _EIGHT = u64(1), u64(BLOCK)


@inlined
def count_below(words: Array, node: int, area: int, key: int) -> int:
    """How many keys of a node are less than ``key``."""
    at = u64(node)
    end = at + u64(area)
    count = 0 - (words[at] < key)
    while at < end:
        count += words[at] < key
        count += words[at + u64(1)] < key
        count += words[at + u64(2)] < key
        count += words[at + u64(3)] < key
        count += words[at + u64(4)] < key
        count += words[at + u64(5)] < key
        count += words[at + u64(6)] < key
        count += words[at + u64(7)] < key
        at += _EIGHT
    return count


@inlined
def count_upto(words: Array, node: int, area: int, key: int, most: int) -> int:
    """How many of the first ``most`` keys of a node are at most ``key``, without free places."""
    at = u64(node)
    end = at + u64(area)
    count = 0 - (words[at] <= key)
    while at < end:
        count += words[at] <= key
        count += words[at + u64(1)] <= key
        count += words[at + u64(2)] <= key
        count += words[at + u64(3)] <= key
        count += words[at + u64(4)] <= key
        count += words[at + u64(5)] <= key
        count += words[at + u64(6)] <= key
        count += words[at + u64(7)] <= key
        at += _EIGHT
    return min(count, most)


@inlined
def fill(words: Array, start: int, size: int) -> None:
    """Mark places as free."""
    first = u64(start)
    for i in range(u64(max(size, 0))):
        words[first + u64(i)] = MOST


@inlined
def move_up(words: Array, source: int, target: int, size: int) -> None:
    """Copy words to a higher or disjoint place: the last word first."""
    start, goal = u64(source), u64(target)
    left = u64(max(size, 0))
    while left > u64(0):
        left -= _ONE
        words[goal + left] = words[start + left]


@inlined
def move_down(words: Array, source: int, target: int, size: int) -> None:
    """Copy words to a lower or disjoint place: the first word first."""
    start, goal = u64(source), u64(target)
    for i in range(u64(max(size, 0))):
        words[goal + u64(i)] = words[start + u64(i)]


@inlined
def put_row(words: Array, node: int, numbers: int, place: int, key: int, row: int) -> None:
    """Put a row into a node that has room; its ids start at ``numbers``."""
    size, first = words[node], node + 1
    move_up(words, first + place, first + place + 1, size - place)
    move_up(words, numbers + place, numbers + place + 1, size - place)
    words[first + place] = key
    words[numbers + place] = row
    words[node] = size + 1


@inlined
def drop_row(words: Array, node: int, numbers: int, place: int) -> None:
    """Take a row out of a node; its ids start at ``numbers``."""
    size, first = words[node] - 1, node + 1
    move_down(words, first + place + 1, first + place, size - place)
    move_down(words, numbers + place + 1, numbers + place, size - place)
    words[first + size] = MOST
    words[node] = size


@inlined
def fetch(words: Array, start: int, size: int) -> None:
    """Prefetch the lines of a node."""
    for line in range(0, size, BLOCK):
        prefetch(words, start + line)


# --- Paths ---------------------------------------------------------------------------------------
# A path holds for each inner level the node and which of its children was entered.


@inlined
def enter(path: Array, depth: int, node: int, c: int) -> None:
    """Note on a path that child ``c`` of a node was entered."""
    path[2 * depth] = node
    path[2 * depth + 1] = c


# --- Runs ----------------------------------------------------------------------------------------
# A walk over a range of keys visits runs of adjacent rows in a node. A run: where its keys and its
# ids start, and its number of rows; whether the range may continue after it; the spot of the walk,
# which each structure defines.
KEY_AT, ID_AT, COUNT, MORE, SPOT = 0, 1, 2, 3, 4
RUN = 5


@inlined
def run_from(
    words: Array, leaf: int, area: int, place: int, high: int, spot: int, run: Array
) -> None:
    """Make the rows of a leaf from ``place`` on, up to the key ``high``, the run."""
    size = words[leaf]
    stop = size
    if size > 0 and words[leaf + size] > high:
        stop = count_upto(words, leaf, area, high, size)
    run[KEY_AT] = leaf + 1 + place
    run[ID_AT] = leaf + area + place
    run[COUNT] = stop - place
    run[SPOT] = spot
    run[MORE] = stop == size


@inlined
def advance(run: Array, count: int) -> None:
    """Remove rows from the start of a run."""
    run[KEY_AT] += count
    run[ID_AT] += count
    run[COUNT] -= count


@inlined
def pass_over(run: Array, skip: int) -> int:
    """Remove ``skip`` rows from a run, at most all; returns how many are still to skip."""
    passed = min(skip, run[COUNT])
    advance(run, passed)
    return skip - passed


@inlined
def next_box(cursor: Array) -> None:
    """Move a cursor (box, key, skip) to the start of the next box."""
    cursor[0] += 1
    cursor[1] = 0
    cursor[2] = -1


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
    first, numbers = u64(run[KEY_AT]), u64(run[ID_AT])
    wanted = keys.size > 0
    for i in range(u64(count)):
        row = words[numbers + u64(i)]
        positions[u64(filled)] = box
        ids[u64(filled)] = row
        if wanted:
            keys[u64(filled)] = words[first + u64(i)]
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
