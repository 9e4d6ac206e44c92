"""The cache-sensitive B⁺-tree, full variant, in two flat arrays.

All children of a node lie side by side in a *node group*, so a node needs one reference, to the
first of them, and the words that this saves hold keys (Rao and Ross, Making B⁺-trees cache
conscious in main memory, SIGMOD 2000). In the full variant a group has room for all children from
the start: a split moves its right neighbours by one node, and nothing is allocated until the group
is full.

    inner   │ group, keys │ s s s s s s s │               one line: child ``c`` is node ``c`` of
              ╰──────────────╮                            the group
    group   ┌────────┬───────▼┬────────┬─ ─ ─ ─┬─ ─ ─ ─┐
            │ leaf 0 │ leaf 1 │ leaf 2 │ free  │ free  │
            └────────┴────────┴────────┴─ ─ ─ ─┴─ ─ ─ ─┘
    leaf    │ rows │ keys … │ ids … │

Groups of leaves lie in one array, groups of inner nodes in another. A node is known by the place of
its first word. Rows are ordered by key and then by id; child ``c`` holds keys between separators
``c - 1`` and ``c``, both included, as equal keys may be cut apart. Ids ascend with insertion, so a
fresh row is put behind its equals.

Rows are deleted lazily, as the authors do: a node stays however few rows it has, and leaves its
group only when it is empty, so that windows over ascending keys do not grow.

Invariants: keys ascend from leaf to leaf; separators bound their children; all leaves have one
depth; none but the root is empty; groups are in the tree or in the list of freed ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import inlined
from thetastream.kernels.lines import (
    BLOCK,
    COUNT,
    ID_AT,
    KEY_AT,
    LEAD,
    MORE,
    MOST,
    SPOT,
    count_below,
    count_upto,
    fetch,
    fill,
    move_down,
    move_up,
)

__all__ = [
    "AREA", "FACTS", "HEIGHT", "INNER_END", "INNER_FREE", "INNER_TOP", "KEYS", "LEAF_END",
    "LEAF_FREE", "LEAF_STRIDE", "LEAF_TOP", "MANY", "ROOT", "ROWS", "begin_run", "delete_row",
    "find_before", "first_leaf", "go_down", "group_words", "has_groups", "insert_row",
    "next_run", "plant", "put_row", "shape_of",
]  # fmt: skip

Array = NDArray[np.int64]
MANY = 256  # a header is the place of the group times this, plus the number of keys

# Facts of a tree: its root and the levels above its leaves; rows held; words used, words there and
# the first freed group (-1: none), of leaves and of inner nodes; keys of a node; words of its
# header and keys; words of a leaf.
ROOT, HEIGHT, ROWS = 0, 1, 2
LEAF_TOP, LEAF_END, LEAF_FREE, INNER_TOP, INNER_END, INNER_FREE = 3, 4, 5, 6, 7, 8
KEYS, AREA, LEAF_STRIDE = 9, 10, 11
FACTS = 12


def shape_of(keys: int) -> tuple[int, int]:
    """Words of the header and the keys of a node, which are an inner node; words of a leaf."""
    area = -(-(keys + 1) // BLOCK) * BLOCK
    return area, -(-(area + keys) // BLOCK) * BLOCK


# --- Nodes and groups ----------------------------------------------------------------------------


@inlined
def group_words(facts: Array, inner: bool) -> int:
    """Words of a group."""
    return (facts[KEYS] + 1) * (facts[AREA] if inner else facts[LEAF_STRIDE])


@inlined
def first_leaf(facts: Array, leaf: int) -> int:
    """The first leaf of the group that a leaf lies in."""
    reach, base = group_words(facts, False), LEAD + facts[LEAF_STRIDE]
    return leaf - (leaf - base) % reach


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
    """Separators of an inner node; it has one child more."""
    return inners[np.uint64(node)] & (MANY - 1)


@inlined
def has_groups(facts: Array) -> bool:
    """Whether there are groups for an insert: one of leaves, one per level, one for a new root."""
    leaves = facts[LEAF_END] - facts[LEAF_TOP] >= group_words(facts, False)
    inners = facts[INNER_END] - facts[INNER_TOP] >= (facts[HEIGHT] + 1) * group_words(facts, True)
    return leaves and inners


@inlined
def new_group(words: Array, facts: Array, inner: bool) -> int:
    """Take a group: one that was freed, or the next."""
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
    free = INNER_FREE if inner else LEAF_FREE
    words[group] = facts[free]
    facts[free] = group


@inlined
def plant(inners: Array, leaves: Array, facts: Array) -> None:
    """Make the tree empty: a single leaf without rows. O(1).

    One node of each array is kept free, to hold what is on its way to a group.
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

    The spot of a run is its leaf. The leaf after the next is asked for ahead; in a group its place
    is known.
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
    """The first run of a range of keys; it may hold no row."""
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
    """The run of the next leaf; whether there is one. In a group leaves are neighbours."""
    if not run[MORE]:
        return False
    leaf = step_right(inners, facts, run[SPOT], path)
    if leaf >= 0:
        enter_leaf(leaves, facts, leaf, 0, high, run)
    return leaf >= 0


@inlined
def step_right(inners: Array, facts: Array, leaf: int, path: Array) -> int:
    """Move a path to the next leaf; -1 behind the last."""
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
    """The newest id of a key none of whose rows lies where a fresh one would be put; or -1.

    Its rows then end the leaf before: such a leaf was cut between equal keys, and those of the
    right part have been deleted.
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
    inners: Array, leaves: Array, facts: Array, keys: Array, start: int, size: int, last: int,
    nodes: Array,
) -> None:  # fmt: skip
    """Find the leaves for ``size`` keys from ``start`` on: those a fresh row would be put into.

    All go down a level before any goes further; ``last`` words of each leaf are asked for.
    """
    height = facts[HEIGHT]
    for j in range(size):
        nodes[j] = facts[ROOT]
    for depth in range(height):
        for j in range(size):
            node = nodes[j]
            c = count_upto(inners, node, facts[AREA], keys[start + j], keys_in(inners, node))
            nodes[j] = child_of(inners, facts, node, c, depth + 1 == height)
            if depth + 1 == height:
                fetch(leaves, nodes[j], last)
            else:
                fetch(inners, nodes[j], facts[AREA])


# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_row(leaves: Array, facts: Array, leaf: int, place: int, key: int, row: int) -> None:
    """Put a row into a leaf that has room."""
    size, first, numbers = leaves[leaf], leaf + 1, leaf + facts[AREA]
    move_up(leaves, first + place, first + place + 1, size - place)
    move_up(leaves, numbers + place, numbers + place + 1, size - place)
    leaves[first + place] = key
    leaves[numbers + place] = row
    leaves[leaf] = size + 1


@inlined
def put_key(inners: Array, node: int, c: int, sep: int) -> None:
    """Put a separator into an inner node that has room."""
    first = node + 1
    move_up(inners, first + c, first + c + 1, keys_in(inners, node) - c)
    inners[first + c] = sep
    inners[node] += 1


@inlined
def split_leaf(leaves: Array, facts: Array, leaf: int, edge: bool, key: int, row: int) -> int:
    """Divide a full leaf and a fresh row between it and the node that is kept free.

    Gives what divides the two. At the right edge the old leaf stays full: ascending keys fill
    leaves.
    """
    room, area, right = facts[KEYS], facts[AREA], LEAD
    place = count_upto(leaves, leaf, facts[AREA], key, room)
    keep = room if edge and place == room else (room + 1) // 2
    move_down(leaves, leaf + 1 + keep, right + 1, room - keep)
    move_down(leaves, leaf + area + keep, right + area, room - keep)
    fill(leaves, right + 1 + room - keep, area - 1 - room + keep)
    fill(leaves, leaf + 1 + keep, room - keep)
    leaves[right] = room - keep
    leaves[leaf] = keep
    if place < keep or (place == keep and keep < room):
        put_row(leaves, facts, leaf, place, key, row)
    else:
        put_row(leaves, facts, right, place - keep, key, row)
    return leaves[right + 1]


@inlined
def open_place(words: Array, group: int, stride: int, c: int, width: int) -> None:
    """Put the node that is kept free behind child ``c`` of a group with ``width`` children."""
    at = group + (c + 1) * stride
    move_up(words, at, at + stride, (width - c - 1) * stride)
    move_down(words, LEAD, at, stride)


@inlined
def cut_group(
    words: Array, group: int, other: int, stride: int, c: int, most: int, keep: int
) -> None:
    """Divide the children of a full group between it, where ``keep`` stay, and another.

    The node that is kept free comes behind child ``c``.
    """
    if c + 1 < keep:
        move_down(words, group + (keep - 1) * stride, other, (most + 1 - keep) * stride)
        open_place(words, group, stride, c, keep - 1)
    else:
        before = (c + 1 - keep) * stride
        move_down(words, group + keep * stride, other, before)
        move_down(words, LEAD, other + before, stride)
        move_down(words, group + (c + 1) * stride, other + before + stride, (most - c - 1) * stride)


@inlined
def split_inner(
    inners: Array, facts: Array, node: int, other: int, c: int, keep: int, sep: int
) -> int:
    """Divide a full inner node and separator ``c`` between it and the node that is kept free.

    Its first ``keep`` children stay, the others lie in group ``other``. Gives what divides the two.
    """
    room, right = facts[KEYS], LEAD
    group = group_of(inners, node)
    fill(inners, right + 1, facts[AREA] - 1)
    up = sep
    if c < keep - 1:
        up = inners[node + 1 + keep - 2]
        start, stay = keep - 1, keep - 2
    elif c == keep - 1:
        start, stay = keep - 1, keep - 1
    else:
        up = inners[node + 1 + keep - 1]
        start, stay = keep, keep - 1
    move_down(inners, node + 1 + start, right + 1, room - start)
    fill(inners, node + 1 + stay, room - stay)
    inners[right] = other * MANY + room - start
    inners[node] = group * MANY + stay
    if c < keep - 1:
        put_key(inners, node, c, sep)
    elif c > keep - 1:
        put_key(inners, right, c - keep, sep)
    return up


@inlined
def insert_row(inners: Array, leaves: Array, facts: Array, key: int, row: int, path: Array) -> bool:
    """Insert behind all equal keys, from the root; whether leaves were moved."""
    node, height, edge = facts[ROOT], facts[HEIGHT], True
    for depth in range(height):
        c = count_upto(inners, node, facts[AREA], key, keys_in(inners, node))
        edge = edge and c == keys_in(inners, node)
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(inners, facts, node, c, depth + 1 == height)
    facts[ROWS] += 1
    room = facts[KEYS]
    if leaves[node] < room:
        put_row(
            leaves, facts, node, count_upto(leaves, node, facts[AREA], key, leaves[node]), key, row
        )
        return False
    sep = split_leaf(leaves, facts, node, edge, key, row)
    # The right part, leaf or inner node, waits in the node that is kept free.
    for depth in range(height - 1, -1, -1):
        parent, c, last = path[2 * depth], path[2 * depth + 1], depth + 1 == height
        group, width = group_of(inners, parent), keys_in(inners, parent) + 1
        if width <= room:
            if last:
                open_place(leaves, group, facts[LEAF_STRIDE], c, width)
            else:
                open_place(inners, group, facts[AREA], c, width)
            put_key(inners, parent, c, sep)
            return True
        keep = room + 1 if edge and c == room else (room + 2) // 2
        if last:
            other = new_group(leaves, facts, False)
            cut_group(leaves, group, other, facts[LEAF_STRIDE], c, room + 1, keep)
        else:
            other = new_group(inners, facts, True)
            cut_group(inners, group, other, facts[AREA], c, room + 1, keep)
        sep = split_inner(inners, facts, parent, other, c, keep, sep)
    old = facts[ROOT]
    if height == 0:
        open_place(leaves, old, facts[LEAF_STRIDE], 0, 1)
    else:
        open_place(inners, old, facts[AREA], 0, 1)
    root = new_group(inners, facts, True)
    fill(inners, root + 1, facts[AREA] - 1)
    inners[root] = old * MANY
    put_key(inners, root, 0, sep)
    facts[ROOT] = root
    facts[HEIGHT] = height + 1
    return True


# --- Delete --------------------------------------------------------------------------------------


@inlined
def delete_row(
    inners: Array, leaves: Array, facts: Array, key: int, row: int, path: Array, run: Array
) -> bool:
    """Delete the row with this key and id; whether it was there.

    A descent, and a step per leaf of older rows with the same key.
    """
    area = facts[AREA]
    begin_run(inners, leaves, facts, key, key, path, run)
    while run[COUNT] == 0 or leaves[run[ID_AT] + run[COUNT] - 1] < row:
        if not next_run(inners, leaves, facts, key, path, run):
            return False
    skip = 0
    while leaves[run[ID_AT] + skip] < row:
        skip += 1
    if leaves[run[ID_AT] + skip] != row:
        return False
    leaf = run[SPOT]
    place, size = run[KEY_AT] + skip - leaf - 1, leaves[leaf] - 1
    first, numbers = leaf + 1, leaf + area
    move_down(leaves, first + place + 1, first + place, size - place)
    move_down(leaves, numbers + place + 1, numbers + place, size - place)
    leaves[first + size] = MOST
    leaves[leaf] = size
    facts[ROWS] -= 1
    if size == 0 and facts[HEIGHT] > 0:
        drop_leaf(inners, leaves, facts, path)
    return True


@inlined
def drop_leaf(inners: Array, leaves: Array, facts: Array, path: Array) -> None:
    """Take the leaf at the end of a path out of its group, and nodes that lose their last child."""
    height = facts[HEIGHT]
    if facts[ROWS] == 0:
        plant(inners, leaves, facts)
        return
    depth = height - 1
    while keys_in(inners, path[2 * depth]) == 0:  # an only child: its group goes
        group = group_of(inners, path[2 * depth])
        if depth + 1 == height:
            free_group(leaves, facts, False, group)
        else:
            free_group(inners, facts, True, group)
        depth -= 1
    node, c = path[2 * depth], path[2 * depth + 1]
    group, seps = group_of(inners, node), keys_in(inners, node)
    if depth + 1 == height:
        at = group + c * facts[LEAF_STRIDE]
        move_down(leaves, at + facts[LEAF_STRIDE], at, (seps - c) * facts[LEAF_STRIDE])
    else:
        at = group + c * facts[AREA]
        move_down(inners, at + facts[AREA], at, (seps - c) * facts[AREA])
    gone = node + 1 + max(c - 1, 0)  # the separator before the child, or behind the first
    move_down(inners, gone + 1, gone, node + seps - gone)
    inners[node + seps] = MOST
    inners[node] -= 1
    while facts[HEIGHT] > 0 and keys_in(inners, facts[ROOT]) == 0:
        old = facts[ROOT]
        facts[ROOT] = group_of(inners, old)
        facts[HEIGHT] -= 1
        free_group(inners, facts, True, old)
