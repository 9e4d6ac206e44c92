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
from thetastream.index.ordered.kernels import lines
from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.csb.nodes import Groups

# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_row(t: Groups, leaf: int, key: int, row: int) -> None:
    """Put a row into a leaf that has room, after its equals."""
    area = t.facts[csb.AREA]
    place = lines.count_upto(t.leaves, leaf, area, key, t.leaves[leaf])
    lines.put_row(t.leaves, leaf, leaf + area, place, key, row)


@inlined
def put_key(t: Groups, node: int, c: int, sep: int) -> None:
    """Put a separator into an inner node that has room."""
    first = node + 1
    lines.move_up(t.inners, first + c, first + c + 1, csb.keys_in(t, node) - c)
    t.inners[first + c] = sep
    t.inners[node] += 1


@inlined
def split_leaf(t: Groups, leaf: int, edge: bool, key: int, row: int) -> int:
    """Divide a full leaf and a fresh row between it and the reserved node; returns the separator.

    At the right edge the old leaf stays full, so ascending keys fill leaves.
    """
    room, area, right = t.facts[csb.KEYS], t.facts[csb.AREA], lines.LEAD
    place = lines.count_upto(t.leaves, leaf, area, key, room)
    keep = room if edge and place == room else (room + 1) // 2
    lines.move_down(t.leaves, leaf + 1 + keep, right + 1, room - keep)
    lines.move_down(t.leaves, leaf + area + keep, right + area, room - keep)
    lines.fill(t.leaves, right + 1 + room - keep, area - 1 - room + keep)
    lines.fill(t.leaves, leaf + 1 + keep, room - keep)
    t.leaves[right] = room - keep
    t.leaves[leaf] = keep
    if place < keep or (place == keep and keep < room):
        put_row(t, leaf, key, row)
    else:
        put_row(t, right, key, row)
    return t.leaves[right + 1]


@inlined
def open_place(t: Groups, last: bool, group: int, c: int, width: int) -> None:
    """Put the reserved node after child ``c`` of a group; ``last``: its nodes are leaves."""
    if last:
        shift_right(t.leaves, group, t.facts[csb.LEAF_STRIDE], c, width)
    else:
        shift_right(t.inners, group, t.facts[csb.AREA], c, width)


@inlined
def shift_right(words: Array, group: int, stride: int, c: int, width: int) -> None:
    """Put the reserved node after child ``c`` of a group with ``width`` children."""
    at = group + (c + 1) * stride
    lines.move_up(words, at, at + stride, (width - c - 1) * stride)
    lines.move_down(words, lines.LEAD, at, stride)


@inlined
def cut_group(
    words: Array, group: int, other: int, stride: int, c: int, most: int, keep: int
) -> None:
    """Split a full group: keep ``keep`` children, with the reserved node put after child ``c``."""
    if c + 1 < keep:
        lines.move_down(words, group + (keep - 1) * stride, other, (most + 1 - keep) * stride)
        shift_right(words, group, stride, c, keep - 1)
    else:
        before = (c + 1 - keep) * stride
        lines.move_down(words, group + keep * stride, other, before)
        lines.move_down(words, lines.LEAD, other + before, stride)
        rest = group + (c + 1) * stride
        lines.move_down(words, rest, other + before + stride, (most - c - 1) * stride)


@inlined
def split_inner(t: Groups, node: int, other: int, c: int, keep: int, sep: int) -> int:
    """Divide a full inner node and separator ``c`` between it and the reserved node.

    Its first ``keep`` children stay, the others are in group ``other``. Returns the separator.
    """
    room, right = t.facts[csb.KEYS], lines.LEAD
    group = csb.group_of(t, node)
    lines.fill(t.inners, right + 1, t.facts[csb.AREA] - 1)
    up = sep
    if c < keep - 1:
        up = t.inners[node + 1 + keep - 2]
        start, stay = keep - 1, keep - 2
    elif c == keep - 1:
        start, stay = keep - 1, keep - 1
    else:
        up = t.inners[node + 1 + keep - 1]
        start, stay = keep, keep - 1
    lines.move_down(t.inners, node + 1 + start, right + 1, room - start)
    lines.fill(t.inners, node + 1 + stay, room - stay)
    t.inners[right] = other * csb.MANY + room - start
    t.inners[node] = group * csb.MANY + stay
    if c < keep - 1:
        put_key(t, node, c, sep)
    elif c > keep - 1:
        put_key(t, right, c - keep, sep)
    return up


@inlined
def insert_near(t: Groups, parent: int, key: int, row: int) -> bool:
    """Insert below a parent of leaves, if that needs no new group; returns whether it did.

    Splits of the last child are left to ``insert_row``, which knows the right edge.
    """
    seps, c = csb.keys_in(t, parent), csb.turn_of(t, parent, key)
    leaf = csb.child_of(t, parent, c, True)
    if t.leaves[leaf] < t.facts[csb.KEYS]:
        put_row(t, leaf, key, row)
    elif seps == t.facts[csb.KEYS] or c == seps:
        return False
    else:
        sep = split_leaf(t, leaf, False, key, row)
        open_place(t, True, csb.group_of(t, parent), c, seps + 1)
        put_key(t, parent, c, sep)
    t.facts[csb.ROWS] += 1
    return True


@inlined
def insert_row(t: Groups, key: int, row: int, path: Array) -> bool:
    """Insert after all equal keys, from the root; returns whether inner nodes were moved."""
    node, height, edge = t.facts[csb.ROOT], t.facts[csb.HEIGHT], True
    for depth in range(height):
        c = csb.turn_of(t, node, key)
        edge = edge and c == csb.keys_in(t, node)
        lines.enter(path, depth, node, c)
        node = csb.child_of(t, node, c, depth + 1 == height)
    t.facts[csb.ROWS] += 1
    room = t.facts[csb.KEYS]
    if t.leaves[node] < room:
        put_row(t, node, key, row)
        return False
    sep = split_leaf(t, node, edge, key, row)
    # The right part, leaf or inner node, waits in the reserved node.
    for depth in range(height - 1, -1, -1):
        parent, c, last = path[2 * depth], path[2 * depth + 1], depth + 1 == height
        group, width = csb.group_of(t, parent), csb.keys_in(t, parent) + 1
        if width <= room:
            open_place(t, last, group, c, width)
            put_key(t, parent, c, sep)
            return not last
        keep = room + 1 if edge and c == room else (room + 2) // 2
        if last:
            other = csb.new_group(t, False)
            cut_group(t.leaves, group, other, t.facts[csb.LEAF_STRIDE], c, room + 1, keep)
        else:
            other = csb.new_group(t, True)
            cut_group(t.inners, group, other, t.facts[csb.AREA], c, room + 1, keep)
        sep = split_inner(t, parent, other, c, keep, sep)
    old = t.facts[csb.ROOT]
    open_place(t, height == 0, old, 0, 1)
    root = csb.new_group(t, True)
    lines.fill(t.inners, root + 1, t.facts[csb.AREA] - 1)
    t.inners[root] = old * csb.MANY
    put_key(t, root, 0, sep)
    t.facts[csb.ROOT] = root
    t.facts[csb.HEIGHT] = height + 1
    return True


# --- Delete --------------------------------------------------------------------------------------


@inlined
def delete_row(t: Groups, key: int, row: int, path: Array, run: Array) -> bool:
    """Delete the row with this key and id; returns whether it was there.

    A descent, and a step per leaf of older rows with the same key.
    """
    csb.begin_run(t, key, key, path, run)
    while run[lines.COUNT] == 0 or t.leaves[run[lines.ID_AT] + run[lines.COUNT] - 1] < row:
        if not csb.next_run(t, key, path, run):
            return False
    skip = 0
    while t.leaves[run[lines.ID_AT] + skip] < row:
        skip += 1
    if t.leaves[run[lines.ID_AT] + skip] != row:
        return False
    leaf = run[lines.SPOT]
    place = run[lines.KEY_AT] + skip - leaf - 1
    lines.drop_row(t.leaves, leaf, leaf + t.facts[csb.AREA], place)
    t.facts[csb.ROWS] -= 1
    if t.leaves[leaf] == 0 and t.facts[csb.HEIGHT] > 0:
        drop_leaf(t, path)
    return True


@inlined
def drop_leaf(t: Groups, path: Array) -> None:
    """Remove the leaf at the end of a path from its group, and nodes left without children."""
    height = t.facts[csb.HEIGHT]
    if t.facts[csb.ROWS] == 0:
        csb.plant(t)
        return
    depth = height - 1
    while csb.keys_in(t, path[2 * depth]) == 0:  # an only child: free its group
        csb.free_group(t, depth + 1 < height, csb.group_of(t, path[2 * depth]))
        depth -= 1
    node, c = path[2 * depth], path[2 * depth + 1]
    group, seps = csb.group_of(t, node), csb.keys_in(t, node)
    if depth + 1 == height:
        stride = t.facts[csb.LEAF_STRIDE]
        at = group + c * stride
        lines.move_down(t.leaves, at + stride, at, (seps - c) * stride)
    else:
        at = group + c * t.facts[csb.AREA]
        lines.move_down(t.inners, at + t.facts[csb.AREA], at, (seps - c) * t.facts[csb.AREA])
    gone = node + 1 + max(c - 1, 0)  # the separator before the child, or after the first
    lines.move_down(t.inners, gone + 1, gone, node + seps - gone)
    t.inners[node + seps] = MOST
    t.inners[node] -= 1
    while t.facts[csb.HEIGHT] > 0 and csb.keys_in(t, t.facts[csb.ROOT]) == 0:
        old = t.facts[csb.ROOT]
        t.facts[csb.ROOT] = csb.group_of(t, old)
        t.facts[csb.HEIGHT] -= 1
        csb.free_group(t, True, old)
