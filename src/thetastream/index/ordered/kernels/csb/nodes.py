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

from typing import NamedTuple

from thetastream._jit.arrays import Array, u64
from thetastream._jit.compiling import inlined
from thetastream.index.ordered.kernels import lines

MANY = 256  # a header is the place of the group times this, plus the number of keys

# Facts of a tree: its root and the levels above its leaves; rows held; words used, words there and
# the first freed group (-1: none), of leaves and of inner nodes; keys of a node; words of its
# header and keys; words of a leaf.
ROOT, HEIGHT, ROWS = 0, 1, 2
LEAF_TOP, LEAF_END, LEAF_FREE, INNER_TOP, INNER_END, INNER_FREE = 3, 4, 5, 6, 7, 8
KEYS, AREA, LEAF_STRIDE = 9, 10, 11
FACTS = 12


class Groups(NamedTuple):
    """A tree: groups of inner nodes, groups of leaves, facts."""

    inners: Array
    leaves: Array
    facts: Array


def shape_of(keys: int) -> tuple[int, int]:
    """Words of an inner node (header and keys), and words of a leaf."""
    area = -(-(keys + 1) // lines.BLOCK) * lines.BLOCK
    return area, -(-(area + keys) // lines.BLOCK) * lines.BLOCK


# --- Nodes and groups ----------------------------------------------------------------------------


@inlined
def group_words(t: Groups, inner: bool) -> int:
    """Words of a group."""
    return (t.facts[KEYS] + 1) * (t.facts[AREA] if inner else t.facts[LEAF_STRIDE])


@inlined
def group_of(t: Groups, node: int) -> int:
    """The group of the children of an inner node."""
    return t.inners[u64(node)] >> 8


@inlined
def child_of(t: Groups, node: int, c: int, last: bool) -> int:
    """Child ``c`` of an inner node; ``last``: it is a leaf."""
    stride = t.facts[LEAF_STRIDE] if last else t.facts[AREA]
    return group_of(t, node) + c * stride


@inlined
def keys_in(t: Groups, node: int) -> int:
    """The number of separators of an inner node, which has one more child."""
    return t.inners[u64(node)] & (MANY - 1)


@inlined
def turn_of(t: Groups, node: int, key: int) -> int:
    """The child of an inner node into which a key would be inserted."""
    return lines.count_upto(t.inners, node, t.facts[AREA], key, keys_in(t, node))


@inlined
def has_groups(t: Groups) -> bool:
    """Whether an insert has enough groups: one of leaves, one per level, one for a new root."""
    leaves = t.facts[LEAF_END] - t.facts[LEAF_TOP]
    inners = t.facts[INNER_END] - t.facts[INNER_TOP]
    enough = inners >= (t.facts[HEIGHT] + 1) * group_words(t, True)
    return leaves >= group_words(t, False) and enough


@inlined
def new_group(t: Groups, inner: bool) -> int:
    """Take a group: a freed one, or the next."""
    words = t.inners if inner else t.leaves
    top, free = (INNER_TOP, INNER_FREE) if inner else (LEAF_TOP, LEAF_FREE)
    group = t.facts[free]
    if group >= 0:
        t.facts[free] = words[group]
    else:
        group = t.facts[top]
        t.facts[top] += group_words(t, inner)
    return group


@inlined
def free_group(t: Groups, inner: bool, group: int) -> None:
    """Put a group into the free list."""
    words, free = t.inners if inner else t.leaves, INNER_FREE if inner else LEAF_FREE
    words[group] = t.facts[free]
    t.facts[free] = group


@inlined
def plant(t: Groups) -> None:
    """Make the tree empty: a single leaf without rows. O(1).

    One node of each array is reserved for a node on its way to a group.
    """
    t.facts[LEAF_TOP] = lines.LEAD + t.facts[LEAF_STRIDE]
    t.facts[INNER_TOP] = lines.LEAD + t.facts[AREA]
    t.facts[LEAF_FREE] = -1
    t.facts[INNER_FREE] = -1
    t.facts[HEIGHT] = 0
    t.facts[ROWS] = 0
    t.facts[ROOT] = new_group(t, False)
    t.leaves[t.facts[ROOT]] = 0
    lines.fill(t.leaves, t.facts[ROOT] + 1, t.facts[AREA] - 1)


# --- Walking -------------------------------------------------------------------------------------


@inlined
def enter_leaf(t: Groups, leaf: int, place: int, high: int, run: Array) -> None:
    """Make the rows of a leaf from ``place`` on, up to the key ``high``, the run.

    The spot of a run is its leaf. Prefetches the leaf after the next, whose place in the group is
    known.
    """
    lines.fetch(t.leaves, leaf + 2 * t.facts[LEAF_STRIDE], t.facts[LEAF_STRIDE])
    lines.run_from(t.leaves, leaf, t.facts[AREA], place, high, leaf, run)


@inlined
def begin_run(t: Groups, low: int, high: int, path: Array, run: Array) -> None:
    """The first run of a range of keys; it may be empty."""
    node, height = t.facts[ROOT], t.facts[HEIGHT]
    for depth in range(height):
        c = lines.count_below(t.inners, node, t.facts[AREA], low)
        lines.enter(path, depth, node, c)
        node = child_of(t, node, c, depth + 1 == height)
    enter_leaf(t, node, lines.count_below(t.leaves, node, t.facts[AREA], low), high, run)


@inlined
def next_run(t: Groups, high: int, path: Array, run: Array) -> bool:
    """Move to the run of the next leaf, if any. In a group, leaves are adjacent."""
    if not run[lines.MORE]:
        return False
    leaf = step_right(t, run[lines.SPOT], path)
    if leaf >= 0:
        enter_leaf(t, leaf, 0, high, run)
    return leaf >= 0


@inlined
def step_right(t: Groups, leaf: int, path: Array) -> int:
    """Move a path to the next leaf; -1 after the last."""
    height = t.facts[HEIGHT]
    depth = height - 1
    while depth >= 0 and path[2 * depth + 1] >= keys_in(t, path[2 * depth]):
        depth -= 1
    if depth < 0:
        return -1
    path[2 * depth + 1] += 1
    if depth == height - 1:
        return leaf + t.facts[LEAF_STRIDE]
    node = child_of(t, path[2 * depth], path[2 * depth + 1], False)
    for under in range(depth + 1, height):
        lines.enter(path, under, node, 0)
        node = child_of(t, node, 0, under + 1 == height)
    return node


@inlined
def find_before(t: Groups, key: int) -> int:
    """The newest id of a key without rows in the leaf of a fresh one, or -1.

    Its rows may end the leaf before, if that was split between equal keys and those in the right
    part have been deleted.
    """
    node, height, turn = t.facts[ROOT], t.facts[HEIGHT], -1
    beside = node  # the last place at which there is a child on the left
    for depth in range(height):
        c = turn_of(t, node, key)
        if c > 0:
            turn = depth
            beside = child_of(t, node, c - 1, depth + 1 == height)
        node = child_of(t, node, c, depth + 1 == height)
    if turn < 0:
        return -1
    node = beside
    for depth in range(turn + 1, height):
        node = child_of(t, node, keys_in(t, node), depth + 1 == height)
    size = t.leaves[node]
    return t.leaves[node + t.facts[AREA] + size - 1] if t.leaves[node + size] == key else -1


@inlined
def go_down(
    t: Groups, keys: Array, start: int, size: int, levels: int, last: int, nodes: Array
) -> None:
    """Find the nodes on the insertion paths of ``size`` keys from ``start`` on.

    All descend one level before any descends further; prefetches ``last`` words of leaves.
    """
    height = t.facts[HEIGHT]
    for j in range(size):
        nodes[j] = t.facts[ROOT]
    for depth in range(levels):
        for j in range(size):
            c = turn_of(t, nodes[j], keys[start + j])
            nodes[j] = child_of(t, nodes[j], c, depth + 1 == height)
            if depth + 1 == height:
                lines.fetch(t.leaves, nodes[j], last)
            else:
                lines.fetch(t.inners, nodes[j], t.facts[AREA])


@inlined
def ask_leaves(t: Groups, keys: Array, start: int, size: int, nodes: Array) -> None:
    """Prefetch the leaves below the nodes that ``go_down`` has found."""
    for j in range(size):
        c = turn_of(t, nodes[j], keys[start + j])
        lines.fetch(t.leaves, child_of(t, nodes[j], c, True), t.facts[LEAF_STRIDE])
