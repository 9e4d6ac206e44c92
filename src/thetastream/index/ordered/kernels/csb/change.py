"""Inserting into a CSB⁺-tree and deleting from it (``nodes.py``): splits, full groups, leaves.

A full leaf is split: the leaves after it in its group shift by one, and its parent gets a
separator. When the group is full, half of its nodes move to a new group, and the parent is split
likewise, up to the root. A node on its way to a group waits in a reserved node.

Deletion is lazy, as in Rao and Ross: a node leaves its group only when it is empty. That is enough
to keep windows over ascending keys from growing.
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import inlined
from thetastream.index.ordered.kernels.csb.nodes import (
    AREA,
    HEIGHT,
    KEYS,
    LEAF_STRIDE,
    MANY,
    ROOT,
    ROWS,
    begin_run,
    child_of,
    free_group,
    group_of,
    keys_in,
    new_group,
    next_run,
    plant,
)
from thetastream.index.ordered.kernels.lines import (
    COUNT,
    ID_AT,
    KEY_AT,
    LEAD,
    SPOT,
    count_upto,
    fill,
    move_down,
    move_up,
)

# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_row(leaves: Array, facts: Array, leaf: int, key: int, row: int) -> None:
    """Put a row into a leaf that has room, after its equals."""
    size, first, numbers = leaves[leaf], leaf + 1, leaf + facts[AREA]
    place = count_upto(leaves, leaf, facts[AREA], key, size)
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
    """Divide a full leaf and a fresh row between it and the reserved node; returns the separator.

    At the right edge the old leaf stays full, so ascending keys fill leaves.
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
        put_row(leaves, facts, leaf, key, row)
    else:
        put_row(leaves, facts, right, key, row)
    return leaves[right + 1]


@inlined
def open_place(words: Array, group: int, stride: int, c: int, width: int) -> None:
    """Put the reserved node after child ``c`` of a group with ``width`` children."""
    at = group + (c + 1) * stride
    move_up(words, at, at + stride, (width - c - 1) * stride)
    move_down(words, LEAD, at, stride)


@inlined
def cut_group(
    words: Array, group: int, other: int, stride: int, c: int, most: int, keep: int
) -> None:
    """Split a full group: keep ``keep`` children, with the reserved node put after child ``c``."""
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
    """Divide a full inner node and separator ``c`` between it and the reserved node.

    Its first ``keep`` children stay, the others are in group ``other``. Returns the separator.
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
def insert_near(
    inners: Array, leaves: Array, facts: Array, parent: int, key: int, row: int
) -> bool:
    """Insert below a parent of leaves, if that needs no new group; returns whether it did.

    Splits of the last child are left to ``insert_row``, which knows the right edge.
    """
    seps = keys_in(inners, parent)
    c = count_upto(inners, parent, facts[AREA], key, seps)
    leaf = child_of(inners, facts, parent, c, True)
    if leaves[leaf] < facts[KEYS]:
        put_row(leaves, facts, leaf, key, row)
    elif seps == facts[KEYS] or c == seps:
        return False
    else:
        sep = split_leaf(leaves, facts, leaf, False, key, row)
        open_place(leaves, group_of(inners, parent), facts[LEAF_STRIDE], c, seps + 1)
        put_key(inners, parent, c, sep)
    facts[ROWS] += 1
    return True


@inlined
def insert_row(inners: Array, leaves: Array, facts: Array, key: int, row: int, path: Array) -> bool:
    """Insert after all equal keys, from the root; returns whether inner nodes were moved."""
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
        put_row(leaves, facts, node, key, row)
        return False
    sep = split_leaf(leaves, facts, node, edge, key, row)
    # The right part, leaf or inner node, waits in the reserved node.
    for depth in range(height - 1, -1, -1):
        parent, c, last = path[2 * depth], path[2 * depth + 1], depth + 1 == height
        group, width = group_of(inners, parent), keys_in(inners, parent) + 1
        if width <= room:
            if last:
                open_place(leaves, group, facts[LEAF_STRIDE], c, width)
            else:
                open_place(inners, group, facts[AREA], c, width)
            put_key(inners, parent, c, sep)
            return not last
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
    """Delete the row with this key and id; returns whether it was there.

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
    """Remove the leaf at the end of a path from its group, and nodes left without children."""
    height = facts[HEIGHT]
    if facts[ROWS] == 0:
        plant(inners, leaves, facts)
        return
    depth = height - 1
    while keys_in(inners, path[2 * depth]) == 0:  # an only child: free its group
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
    gone = node + 1 + max(c - 1, 0)  # the separator before the child, or after the first
    move_down(inners, gone + 1, gone, node + seps - gone)
    inners[node + seps] = MOST
    inners[node] -= 1
    while facts[HEIGHT] > 0 and keys_in(inners, facts[ROOT]) == 0:
        old = facts[ROOT]
        facts[ROOT] = group_of(inners, old)
        facts[HEIGHT] -= 1
        free_group(inners, facts, True, old)
