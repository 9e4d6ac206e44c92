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

from typing import NamedTuple

from thetastream._jit.arrays import Array, u64
from thetastream._jit.compiling import inlined
from thetastream._jit.intrinsics import prefetch
from thetastream.index.ordered.kernels import lines

# Facts of a tree: its root and the levels above its leaves; rows held; words used, words there, the
# first freed node (-1: none); words per node; rows of a leaf and words of its area, of an inner
# node likewise.
ROOT, HEIGHT, ROWS, TOP, END, FREE, STRIDE = 0, 1, 2, 3, 4, 5, 6
LEAF, LEAF_AREA, INNER, INNER_AREA = 7, 8, 9, 10
FACTS = 11


class Nodes(NamedTuple):
    """A tree: its nodes, and facts."""

    words: Array
    facts: Array


def shape_of(node_bytes: int) -> tuple[int, int, int]:
    """Words per node, and words of the areas of a leaf and of an inner node.

    With an area of ``a`` words a node holds ``a - 1`` rows. A leaf takes ``2 a - 1`` words; an
    inner node, which has a child more than rows, ``3 a - 1``.
    """
    words = node_bytes // 8 // lines.BLOCK * lines.BLOCK
    return words, words // 2 // lines.BLOCK * lines.BLOCK, words // 3 // lines.BLOCK * lines.BLOCK


# --- Nodes ---------------------------------------------------------------------------------------


@inlined
def area_of(t: Nodes, inner: bool) -> int:
    """Words of the area of a node: header and keys."""
    return t.facts[INNER_AREA] if inner else t.facts[LEAF_AREA]


@inlined
def room_of(t: Nodes, inner: bool) -> int:
    """The capacity of a node in rows."""
    return t.facts[INNER] if inner else t.facts[LEAF]


@inlined
def ids_at(t: Nodes, node: int, inner: bool) -> int:
    """Where the ids of a node start."""
    return node + area_of(t, inner)


@inlined
def child_at(t: Nodes, node: int) -> int:
    """Where the children of an inner node start."""
    return node + 2 * t.facts[INNER_AREA] - 1


@inlined
def child_of(t: Nodes, node: int, c: int) -> int:
    """A child of an inner node."""
    return t.words[u64(child_at(t, node) + c)]


@inlined
def turn_of(t: Nodes, node: int, key: int) -> int:
    """The child of an inner node into which a key would be inserted."""
    return lines.count_upto(t.words, node, t.facts[INNER_AREA], key, t.words[node])


@inlined
def has_nodes(t: Nodes) -> bool:
    """Whether there are enough nodes for an insert: one per level and one for a new root."""
    return t.facts[END] - t.facts[TOP] >= (t.facts[HEIGHT] + 2) * t.facts[STRIDE]


@inlined
def new_node(t: Nodes, inner: bool) -> int:
    """Take an empty node: a freed one, or the next."""
    node = t.facts[FREE]
    if node >= 0:
        t.facts[FREE] = t.words[node]
    else:
        node = t.facts[TOP]
        t.facts[TOP] += t.facts[STRIDE]
    t.words[node] = 0
    lines.fill(t.words, node + 1, area_of(t, inner) - 1)
    return node


@inlined
def free_node(t: Nodes, node: int) -> None:
    """Put a node into the free list."""
    t.words[node] = t.facts[FREE]
    t.facts[FREE] = node


@inlined
def plant(t: Nodes) -> None:
    """Make the tree empty: a single leaf without rows. O(1)."""
    t.facts[TOP] = lines.LEAD
    t.facts[FREE] = -1
    t.facts[HEIGHT] = 0
    t.facts[ROWS] = 0
    t.facts[ROOT] = new_node(t, False)


# --- Walking -------------------------------------------------------------------------------------


@inlined
def seek(t: Nodes, key: int, path: Array) -> int:
    """The leaf that holds the first row of at least ``key``, or ends just before it."""
    node, area = t.facts[ROOT], t.facts[INNER_AREA]
    for depth in range(t.facts[HEIGHT]):
        c = lines.count_below(t.words, node, area, key)
        lines.enter(path, depth, node, c)
        node = child_of(t, node, c)
    return node


@inlined
def ascend(t: Nodes, path: Array) -> int:
    """After a leaf: the depth of the inner node whose row comes next; -1 after the last row."""
    depth = t.facts[HEIGHT] - 1
    while depth >= 0 and path[2 * depth + 1] >= t.words[path[2 * depth]]:
        depth -= 1
    return depth


@inlined
def descend_left(t: Nodes, path: Array, depth: int) -> int:
    """After a row of the inner node at ``depth``: the leaf whose first row comes next."""
    path[2 * depth + 1] += 1
    node = child_of(t, path[2 * depth], path[2 * depth + 1])
    for under in range(depth + 1, t.facts[HEIGHT]):
        lines.enter(path, under, node, 0)
        node = child_of(t, node, 0)
    return node


@inlined
def look_ahead(t: Nodes, path: Array) -> None:
    """Prefetch the leaf after the one at the end of a path, if they have the same parent."""
    depth = t.facts[HEIGHT] - 1
    if depth >= 0:
        node, c = path[2 * depth], path[2 * depth + 1] + 1
        if c <= t.words[node]:
            lines.fetch(t.words, child_of(t, node, c), t.facts[STRIDE])


@inlined
def begin_run(t: Nodes, low: int, high: int, path: Array, run: Array) -> None:
    """The first run of a range of keys; it may be empty.

    The spot of a run is the depth of its inner node, -1 for a leaf.
    """
    leaf, area = seek(t, low, path), t.facts[LEAF_AREA]
    look_ahead(t, path)
    lines.run_from(t.words, leaf, area, lines.count_below(t.words, leaf, area, low), high, -1, run)


@inlined
def next_run(t: Nodes, high: int, path: Array, run: Array) -> bool:
    """Move to the next run, if any: leaves and single rows of inner nodes alternate."""
    depth = run[lines.SPOT]
    if depth >= 0:
        leaf = descend_left(t, path, depth)
        look_ahead(t, path)
        lines.run_from(t.words, leaf, t.facts[LEAF_AREA], 0, high, -1, run)
        return True
    depth = ascend(t, path)
    if not run[lines.MORE] or depth < 0:
        return False
    node, c = path[2 * depth], path[2 * depth + 1]
    run[lines.KEY_AT] = node + 1 + c
    run[lines.ID_AT] = ids_at(t, node, True) + c
    run[lines.COUNT] = 1
    run[lines.SPOT] = depth
    return t.words[node + 1 + c] <= high


@inlined
def go_down(t: Nodes, keys: Array, start: int, size: int, last: int, nodes: Array) -> None:
    """Find the leaves into which ``size`` keys from ``start`` on would be inserted.

    All descend one level before any descends further; prefetches ``last`` words of each leaf.
    """
    for j in range(size):
        nodes[j] = t.facts[ROOT]
    for depth in range(t.facts[HEIGHT]):
        asked = last if depth + 1 == t.facts[HEIGHT] else t.facts[INNER_AREA]
        for j in range(size):
            nodes[j] = child_at(t, nodes[j]) + turn_of(t, nodes[j], keys[start + j])
            prefetch(t.words, nodes[j])
        for j in range(size):
            nodes[j] = t.words[nodes[j]]
            lines.fetch(t.words, nodes[j], asked)
