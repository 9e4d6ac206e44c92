"""The classical B-tree in one flat array: rows in inner nodes as well as in leaves.

    inner   │ size keys … │ ids … │ children … │          ``size`` rows and ``size + 1`` children
    leaf    │ size keys ……………… │ ids ……………… │            no children, so more rows

Every node takes the same number of words and is identified by the place of its first word. A row is
stored once, in a node of any level; child ``c`` holds the rows between rows ``c - 1`` and ``c``
(Bayer and McCreight, Organization and maintenance of large ordered indexes, 1972; the B-tree of
Ordered Indexing, Section 4.1). Rows are ordered by key and then by id. Ids ascend with insertion,
so a fresh row is put after its equals, and the last of equal keys is the newest.

Invariants: rows ascend in the order of the walk; all leaves have one depth; nodes are at least half
full, except the root and the right edge; every node is in the tree or in the free list.

``change.py`` inserts and deletes rows.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import inlined
from thetastream._jit.intrinsics import prefetch
from thetastream.index.ordered.kernels.lines import (
    BLOCK,
    COUNT,
    ID_AT,
    KEY_AT,
    LEAD,
    MORE,
    SPOT,
    count_below,
    count_upto,
    fetch,
    fill,
)

# Facts of a tree: its root and the levels above its leaves; rows held; words used, words there, the
# first freed node (-1: none); words per node; rows of a leaf and words of its area, of an inner
# node likewise.
ROOT, HEIGHT, ROWS, TOP, END, FREE, STRIDE = 0, 1, 2, 3, 4, 5, 6
LEAF, LEAF_AREA, INNER, INNER_AREA = 7, 8, 9, 10
FACTS = 11


def shape_of(node_bytes: int) -> tuple[int, int, int]:
    """Words per node, and words of the areas of a leaf and of an inner node.

    With an area of ``a`` words a node holds ``a - 1`` rows. A leaf takes ``2 a - 1`` words; an
    inner node, which has a child more than rows, ``3 a - 1``.
    """
    words = node_bytes // 8 // BLOCK * BLOCK
    return words, words // 2 // BLOCK * BLOCK, words // 3 // BLOCK * BLOCK


# --- Nodes ---------------------------------------------------------------------------------------


@inlined
def area_of(facts: Array, inner: bool) -> int:
    """Words of the area of a node: header and keys."""
    return facts[INNER_AREA] if inner else facts[LEAF_AREA]


@inlined
def room_of(facts: Array, inner: bool) -> int:
    """The capacity of a node in rows."""
    return facts[INNER] if inner else facts[LEAF]


@inlined
def ids_at(facts: Array, node: int, inner: bool) -> int:
    """Where the ids of a node start."""
    return node + area_of(facts, inner)


@inlined
def child_at(facts: Array, node: int) -> int:
    """Where the children of an inner node start."""
    return node + 2 * facts[INNER_AREA] - 1


@inlined
def child_of(words: Array, facts: Array, node: int, c: int) -> int:
    """A child of an inner node."""
    return words[np.uint64(child_at(facts, node) + c)]


@inlined
def has_nodes(facts: Array) -> bool:
    """Whether there are enough nodes for an insert: one per level and one for a new root."""
    return facts[END] - facts[TOP] >= (facts[HEIGHT] + 2) * facts[STRIDE]


@inlined
def new_node(words: Array, facts: Array, inner: bool) -> int:
    """Take an empty node: a freed one, or the next."""
    node = facts[FREE]
    if node >= 0:
        facts[FREE] = words[node]
    else:
        node = facts[TOP]
        facts[TOP] += facts[STRIDE]
    words[node] = 0
    fill(words, node + 1, area_of(facts, inner) - 1)
    return node


@inlined
def free_node(words: Array, facts: Array, node: int) -> None:
    """Put a node into the free list."""
    words[node] = facts[FREE]
    facts[FREE] = node


@inlined
def plant(words: Array, facts: Array) -> None:
    """Make the tree empty: a single leaf without rows. O(1)."""
    facts[TOP] = LEAD
    facts[FREE] = -1
    facts[HEIGHT] = 0
    facts[ROWS] = 0
    facts[ROOT] = new_node(words, facts, False)


# --- Walking -------------------------------------------------------------------------------------
# A path holds for each inner level the node and which of its children was entered.


@inlined
def seek(words: Array, facts: Array, key: int, path: Array) -> int:
    """The leaf that holds the first row of at least ``key``, or ends just before it."""
    node, area = facts[ROOT], facts[INNER_AREA]
    for depth in range(facts[HEIGHT]):
        c = count_below(words, node, area, key)
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(words, facts, node, c)
    return node


@inlined
def ascend(words: Array, facts: Array, path: Array) -> int:
    """After a leaf: the depth of the inner node whose row comes next; -1 after the last row."""
    depth = facts[HEIGHT] - 1
    while depth >= 0 and path[2 * depth + 1] >= words[path[2 * depth]]:
        depth -= 1
    return depth


@inlined
def descend_left(words: Array, facts: Array, path: Array, depth: int) -> int:
    """After a row of the inner node at ``depth``: the leaf whose first row comes next."""
    path[2 * depth + 1] += 1
    node = child_of(words, facts, path[2 * depth], path[2 * depth + 1])
    for under in range(depth + 1, facts[HEIGHT]):
        path[2 * under] = node
        path[2 * under + 1] = 0
        node = child_of(words, facts, node, 0)
    return node


@inlined
def enter_leaf(words: Array, facts: Array, leaf: int, place: int, high: int, run: Array) -> None:
    """Make the rows of a leaf from ``place`` on, up to the key ``high``, the run.

    The spot of a run is the depth of its inner node, -1 for a leaf.
    """
    size = words[leaf]
    stop = size
    if size > 0 and words[leaf + size] > high:
        stop = count_upto(words, leaf, facts[LEAF_AREA], high, size)
    run[KEY_AT] = leaf + 1 + place
    run[ID_AT] = ids_at(facts, leaf, False) + place
    run[COUNT] = stop - place
    run[SPOT] = -1
    run[MORE] = stop == size


@inlined
def look_ahead(words: Array, facts: Array, path: Array) -> None:
    """Prefetch the leaf after the one at the end of a path, if they have the same parent."""
    depth = facts[HEIGHT] - 1
    if depth >= 0:
        node, c = path[2 * depth], path[2 * depth + 1] + 1
        if c <= words[node]:
            fetch(words, child_of(words, facts, node, c), facts[STRIDE])


@inlined
def begin_run(words: Array, facts: Array, low: int, high: int, path: Array, run: Array) -> None:
    """The first run of a range of keys; it may be empty."""
    leaf = seek(words, facts, low, path)
    look_ahead(words, facts, path)
    enter_leaf(words, facts, leaf, count_below(words, leaf, facts[LEAF_AREA], low), high, run)


@inlined
def next_run(words: Array, facts: Array, high: int, path: Array, run: Array) -> bool:
    """Move to the next run, if any: leaves and single rows of inner nodes alternate."""
    depth = run[SPOT]
    if depth >= 0:
        leaf = descend_left(words, facts, path, depth)
        look_ahead(words, facts, path)
        enter_leaf(words, facts, leaf, 0, high, run)
        return True
    depth = ascend(words, facts, path)
    if not run[MORE] or depth < 0:
        return False
    node, c = path[2 * depth], path[2 * depth + 1]
    run[KEY_AT] = node + 1 + c
    run[ID_AT] = ids_at(facts, node, True) + c
    run[COUNT] = 1
    run[SPOT] = depth
    return words[node + 1 + c] <= high


@inlined
def go_down(
    words: Array, facts: Array, keys: Array, start: int, size: int, last: int, nodes: Array
) -> None:
    """Find the leaves into which ``size`` keys from ``start`` on would be inserted.

    All descend one level before any descends further; prefetches ``last`` words of each leaf.
    """
    for j in range(size):
        nodes[j] = facts[ROOT]
    for depth in range(facts[HEIGHT]):
        asked = last if depth + 1 == facts[HEIGHT] else facts[INNER_AREA]
        for j in range(size):
            node = nodes[j]
            c = count_upto(words, node, facts[INNER_AREA], keys[start + j], words[node])
            nodes[j] = child_at(facts, node) + c
            prefetch(words, nodes[j])
        for j in range(size):
            nodes[j] = words[nodes[j]]
            fetch(words, nodes[j], asked)
