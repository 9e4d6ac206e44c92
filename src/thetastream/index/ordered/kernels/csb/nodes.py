"""The cache-sensitive B⁺-tree, full variant, in two flat arrays.

All children of a node are adjacent in a *node group*, so a node needs one reference, to the first
of them, and uses the saved words for keys (Rao and Ross, Making B⁺-trees cache conscious in main
memory, SIGMOD 2000). In the full variant a group has room for all children from the start: a split
shifts its right neighbours by one node, and nothing is allocated until the group is full.

    inner   │ group, keys │ s s s s s s s │               one line: child ``c`` is node ``c`` of
              ╰──────────────╮                            the group
    group   ┌────────┬───────▼┬────────┬─ ─ ─ ─┬─ ─ ─ ─┐
            │ leaf 0 │ leaf 1 │ leaf 2 │ free  │ free  │
            └────────┴────────┴────────┴─ ─ ─ ─┴─ ─ ─ ─┘
    leaf    │ rows │ keys … │ ids … │

Groups of leaves lie in one array, groups of inner nodes in another. A node is identified by the
place of its first word. Rows are ordered by key and then by id; child ``c`` holds keys between
separators ``c - 1`` and ``c``, both included, because equal keys may be split. Ids ascend with
insertion, so a fresh row is put after its equals. ``change.py`` inserts and deletes rows.

Invariants: keys ascend from leaf to leaf; separators bound their children; all leaves have one
depth; only the root may be empty; every group is in the tree or in the free list.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import inlined
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

MANY = 256  # a header is the place of the group times this, plus the number of keys

# Facts of a tree: its root and the levels above its leaves; rows held; words used, words there and
# the first freed group (-1: none), of leaves and of inner nodes; keys of a node; words of its
# header and keys; words of a leaf.
ROOT, HEIGHT, ROWS = 0, 1, 2
LEAF_TOP, LEAF_END, LEAF_FREE, INNER_TOP, INNER_END, INNER_FREE = 3, 4, 5, 6, 7, 8
KEYS, AREA, LEAF_STRIDE = 9, 10, 11
FACTS = 12


def shape_of(keys: int) -> tuple[int, int]:
    """Words of an inner node (header and keys), and words of a leaf."""
    area = -(-(keys + 1) // BLOCK) * BLOCK
    return area, -(-(area + keys) // BLOCK) * BLOCK


# --- Nodes and groups ----------------------------------------------------------------------------


@inlined
def group_words(facts: Array, inner: bool) -> int:
    """Words of a group."""
    return (facts[KEYS] + 1) * (facts[AREA] if inner else facts[LEAF_STRIDE])


@inlined
def group_of(inners: Array, node: int) -> int:
    """The group of the children of an inner node."""
    return inners[np.uint64(node)] >> 8


@inlined
def child_of(inners: Array, facts: Array, node: int, c: int, last: bool) -> int:
    """Child ``c`` of an inner node; ``last``: it is a leaf."""
    stride = facts[LEAF_STRIDE] if last else facts[AREA]
    return group_of(inners, node) + c * stride


@inlined
def keys_in(inners: Array, node: int) -> int:
    """The number of separators of an inner node, which has one more child."""
    return inners[np.uint64(node)] & (MANY - 1)


@inlined
def has_groups(facts: Array) -> bool:
    """Whether an insert has enough groups: one of leaves, one per level, one for a new root."""
    leaves = facts[LEAF_END] - facts[LEAF_TOP] >= group_words(facts, False)
    inners = facts[INNER_END] - facts[INNER_TOP] >= (facts[HEIGHT] + 1) * group_words(facts, True)
    return leaves and inners


@inlined
def new_group(words: Array, facts: Array, inner: bool) -> int:
    """Take a group: a freed one, or the next."""
    top, free = (INNER_TOP, INNER_FREE) if inner else (LEAF_TOP, LEAF_FREE)
    group = facts[free]
    if group >= 0:
        facts[free] = words[group]
    else:
        group = facts[top]
        facts[top] += group_words(facts, inner)
    return group


@inlined
def free_group(words: Array, facts: Array, inner: bool, group: int) -> None:
    """Put a group into the free list."""
    free = INNER_FREE if inner else LEAF_FREE
    words[group] = facts[free]
    facts[free] = group


@inlined
def plant(inners: Array, leaves: Array, facts: Array) -> None:
    """Make the tree empty: a single leaf without rows. O(1).

    One node of each array is reserved for a node on its way to a group.
    """
    facts[LEAF_TOP] = LEAD + facts[LEAF_STRIDE]
    facts[INNER_TOP] = LEAD + facts[AREA]
    facts[LEAF_FREE] = -1
    facts[INNER_FREE] = -1
    facts[HEIGHT] = 0
    facts[ROWS] = 0
    facts[ROOT] = new_group(leaves, facts, False)
    leaves[facts[ROOT]] = 0
    fill(leaves, facts[ROOT] + 1, facts[AREA] - 1)


# --- Walking -------------------------------------------------------------------------------------
# A path holds for each inner level the node and which of its children was entered.


@inlined
def enter_leaf(leaves: Array, facts: Array, leaf: int, place: int, high: int, run: Array) -> None:
    """Make the rows of a leaf from ``place`` on, up to the key ``high``, the run.

    The spot of a run is its leaf. Prefetches the leaf after the next, whose place in the group is
    known.
    """
    fetch(leaves, leaf + 2 * facts[LEAF_STRIDE], facts[LEAF_STRIDE])
    size = leaves[leaf]
    stop = size
    if size > 0 and leaves[leaf + size] > high:
        stop = count_upto(leaves, leaf, facts[AREA], high, size)
    run[KEY_AT] = leaf + 1 + place
    run[ID_AT] = leaf + facts[AREA] + place
    run[COUNT] = stop - place
    run[SPOT] = leaf
    run[MORE] = stop == size


@inlined
def begin_run(
    inners: Array, leaves: Array, facts: Array, low: int, high: int, path: Array, run: Array
) -> None:
    """The first run of a range of keys; it may be empty."""
    node, height = facts[ROOT], facts[HEIGHT]
    for depth in range(height):
        c = count_below(inners, node, facts[AREA], low)
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(inners, facts, node, c, depth + 1 == height)
    enter_leaf(leaves, facts, node, count_below(leaves, node, facts[AREA], low), high, run)


@inlined
def next_run(
    inners: Array, leaves: Array, facts: Array, high: int, path: Array, run: Array
) -> bool:
    """Move to the run of the next leaf, if any. In a group, leaves are adjacent."""
    if not run[MORE]:
        return False
    leaf = step_right(inners, facts, run[SPOT], path)
    if leaf >= 0:
        enter_leaf(leaves, facts, leaf, 0, high, run)
    return leaf >= 0


@inlined
def step_right(inners: Array, facts: Array, leaf: int, path: Array) -> int:
    """Move a path to the next leaf; -1 after the last."""
    height = facts[HEIGHT]
    depth = height - 1
    while depth >= 0 and path[2 * depth + 1] >= keys_in(inners, path[2 * depth]):
        depth -= 1
    if depth < 0:
        return -1
    path[2 * depth + 1] += 1
    if depth == height - 1:
        return leaf + facts[LEAF_STRIDE]
    node = child_of(inners, facts, path[2 * depth], path[2 * depth + 1], False)
    for under in range(depth + 1, height):
        path[2 * under] = node
        path[2 * under + 1] = 0
        node = child_of(inners, facts, node, 0, under + 1 == height)
    return node


@inlined
def find_before(inners: Array, leaves: Array, facts: Array, key: int) -> int:
    """The newest id of a key without rows in the leaf of a fresh one, or -1.

    Its rows may end the leaf before, if that was split between equal keys and those in the right
    part have been deleted.
    """
    node, height, turn = facts[ROOT], facts[HEIGHT], -1
    beside = node  # the last place at which there is a child on the left
    for depth in range(height):
        c = count_upto(inners, node, facts[AREA], key, keys_in(inners, node))
        if c > 0:
            turn = depth
            beside = child_of(inners, facts, node, c - 1, depth + 1 == height)
        node = child_of(inners, facts, node, c, depth + 1 == height)
    if turn < 0:
        return -1
    node = beside
    for depth in range(turn + 1, height):
        node = child_of(inners, facts, node, keys_in(inners, node), depth + 1 == height)
    size = leaves[node]
    return leaves[node + facts[AREA] + size - 1] if leaves[node + size] == key else -1


@inlined
def go_down(
    inners: Array, leaves: Array, facts: Array, keys: Array, start: int, size: int, levels: int,
    last: int, nodes: Array,
) -> None:  # fmt: skip
    """Find the nodes on the insertion paths of ``size`` keys from ``start`` on.

    All descend one level before any descends further; prefetches ``last`` words of leaves.
    """
    height = facts[HEIGHT]
    for j in range(size):
        nodes[j] = facts[ROOT]
    for depth in range(levels):
        for j in range(size):
            node = nodes[j]
            c = count_upto(inners, node, facts[AREA], keys[start + j], keys_in(inners, node))
            nodes[j] = child_of(inners, facts, node, c, depth + 1 == height)
            if depth + 1 == height:
                fetch(leaves, nodes[j], last)
            else:
                fetch(inners, nodes[j], facts[AREA])


@inlined
def ask_leaves(
    inners: Array, leaves: Array, facts: Array, keys: Array, start: int, size: int, nodes: Array
) -> None:
    """Prefetch the leaves below the nodes that ``go_down`` has found."""
    for j in range(size):
        node = nodes[j]
        c = count_upto(inners, node, facts[AREA], keys[start + j], keys_in(inners, node))
        fetch(leaves, child_of(inners, facts, node, c, True), facts[LEAF_STRIDE])
