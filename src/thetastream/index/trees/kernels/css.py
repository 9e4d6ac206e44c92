"""Immutable B⁺-trees in breadth-first order: a sorted run and a directory above it.

A node is ``fanout`` separators: the largest key below each child (``css_tree`` has a picture).
Child ``j`` of node ``i`` is node ``i · fanout + j`` of the next level, so no references are stored
(PIM-Tree, Section 3.1 and Appendix A.3; Rao and Ross, CSS-Trees, VLDB 1999). Algorithm 3 fills the
directory leaf by leaf; here every separator is read straight from the run, as the rows below node
``i`` of a level are a known interval. Counts round up, and levels are counted from below (errata).

Several runs share a pool, each in its own region: ``facts`` holds a row per run.
"""

from __future__ import annotations

from typing import NamedTuple

from thetastream._jit.arrays import MOST, Array, u64
from thetastream._jit.compiling import inlined
from thetastream.index.trees.kernels.forest import LINE

# A row of ``facts``: where the rows of a run lie, how many, how many fit; where its directory
# begins; its levels, and per level the first slot (from the directory's beginning), the nodes, and
# the leaves below a node.
START, COUNT, ROOM, DIRECTORY, LEVELS = 0, 1, 2, 3, 4
_DEEPEST = 40
OFFSETS, NODES, SPAN = 5, 5 + _DEEPEST + 1, 5 + 2 * (_DEEPEST + 1)
RUN_SIZE = 5 + 3 * (_DEEPEST + 1)


class Runs(NamedTuple):
    """The pool of runs. The entry below the last level stands for the leaves themselves."""

    keys: Array
    ids: Array
    directory: Array
    facts: Array
    shape: Array  # fan-out, rows per leaf, slots per node (fan-out rounded up to whole lines)


def stride_of(fanout: int) -> int:
    """Slots that a node takes: whole lines."""
    return -(-fanout // LINE) * LINE


def room_of(rows: int, leaf: int) -> int:
    """Places that a run of ``rows`` takes: its last leaf is padded, and a line follows."""
    return -(-max(rows, 1) // leaf) * leaf + LINE


def directory_slots(rows: int, fanout: int, leaf: int) -> int:
    """Slots that the directory of a run of ``rows`` takes at most."""
    total, nodes = 0, -(-max(rows, 1) // leaf)
    while nodes > 1:
        nodes = -(-nodes // fanout)
        total += nodes * stride_of(fanout)
    return total


@inlined
def fact(r: Runs, run: int, which: int) -> int:
    """An entry of the row of a run."""
    return r.facts[run * RUN_SIZE + which]


@inlined
def end_of(r: Runs, run: int) -> int:
    """Where the rows of a run end."""
    return fact(r, run, START) + fact(r, run, COUNT)


@inlined
def count_in(array: Array, start: int, size: int, key: int) -> int:
    """How many of ``size`` values from ``start`` on are less than the key. Vector code."""
    first, count = u64(start), 0
    for i in range(u64(size)):
        count += array[first + i] < key
    return count


@inlined
def build(r: Runs, run: int) -> None:
    """Build the directory of a run whose rows are in place. O(rows / leaf)."""
    fanout, leaf, stride = r.shape[0], r.shape[1], r.shape[2]
    at = run * RUN_SIZE
    start, count, base = r.facts[at + START], r.facts[at + COUNT], r.facts[at + DIRECTORY]
    nodes, levels = max(1, (count + leaf - 1) // leaf), 0
    while nodes > 1:
        nodes = (nodes + fanout - 1) // fanout
        levels += 1
    r.facts[at + LEVELS] = levels
    r.facts[at + NODES + levels] = max(1, (count + leaf - 1) // leaf)
    r.facts[at + SPAN + levels] = 1
    for level in range(levels - 1, -1, -1):
        below = r.facts[at + NODES + level + 1]
        r.facts[at + NODES + level] = (below + fanout - 1) // fanout
        r.facts[at + SPAN + level] = r.facts[at + SPAN + level + 1] * fanout
    offset = 0
    for level in range(levels):
        r.facts[at + OFFSETS + level] = offset
        below, step = r.facts[at + NODES + level + 1], r.facts[at + SPAN + level + 1] * leaf
        for node in range(r.facts[at + NODES + level]):
            for j in range(stride):
                child = node * fanout + j
                # The last child takes all that is above.
                last = j >= fanout - 1 or child + 1 >= below
                key = MOST if last else r.keys[start + (child + 1) * step - 1]
                r.directory[base + offset + node * stride + j] = key
        offset += r.facts[at + NODES + level] * stride
    for p in range(start + count, start + r.facts[at + NODES + levels] * leaf + LINE):
        r.keys[p] = MOST


@inlined
def go_down(r: Runs, at: int, key: int, node: int, level: int, depth: int) -> int:
    """From a node of ``level`` to that at ``depth`` for a key; ``at`` is the run's row of facts."""
    fanout, stride = r.shape[0], r.shape[2]
    base = r.facts[at + DIRECTORY]
    for below in range(level, depth):
        slot = base + r.facts[at + OFFSETS + below] + node * stride
        node = node * fanout + count_in(r.directory, slot, stride, key)
    return node


@inlined
def descend(r: Runs, run: int, key: int, depth: int) -> int:
    """The node at ``depth`` whose rows are the first that may be at least ``key``."""
    return go_down(r, run * RUN_SIZE, key, 0, 0, depth)


@inlined
def find_row(r: Runs, run: int, key: int, node: int, depth: int) -> int:
    """Position in the pool of the first row of at least ``key``, from its node at ``depth``."""
    at, leaf = run * RUN_SIZE, r.shape[1]
    low = r.facts[at + START] + leaf * go_down(r, at, key, node, depth, r.facts[at + LEVELS])
    # Behind the last row stands the largest integer.
    return low + count_in(r.keys, low, leaf, key)


@inlined
def bound_of(r: Runs, run: int, node: int, depth: int) -> int:
    """The largest key below a node; the last node takes all that is above."""
    at = run * RUN_SIZE
    if node + 1 >= r.facts[at + NODES + depth]:
        return int(MOST)
    leaves = r.facts[at + SPAN + depth]
    return r.keys[r.facts[at + START] + (node + 1) * leaves * r.shape[1] - 1]
