"""Inserting into a B-tree and deleting from it (``nodes.py``): splits, joins, shared rows.

A full node is split around its middle row, which moves up into the parent. If a deletion leaves a
node less than half full, it is joined with a neighbour and the row between them, or the two share
their rows.
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import inlined
from thetastream.index.ordered.kernels import lines
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.btree.nodes import Nodes

# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_link(t: Nodes, node: int, c: int, key: int, row: int, child: int) -> None:
    """Put a row after child ``c`` of an inner node that has room, and a child after the row."""
    links = btree.child_at(t, node)
    lines.move_up(t.words, links + c + 1, links + c + 2, t.words[node] - c)
    t.words[links + c + 1] = child
    lines.put_row(t.words, node, btree.ids_at(t, node, True), c, key, row)


@inlined
def cut(t: Nodes, node: int, right: int, inner: bool, keep: int, lose: int) -> None:
    """Keep ``keep`` rows of a full node, drop ``lose``, and move the rest to a new node."""
    size, area = t.words[node], btree.area_of(t, inner)
    moved = size - keep - lose
    lines.move_down(t.words, node + 1 + keep + lose, right + 1, moved)
    lines.move_down(t.words, node + area + keep + lose, right + area, moved)
    if inner:
        links, goal = btree.child_at(t, node), btree.child_at(t, right)
        lines.move_down(t.words, links + keep + lose, goal, moved + 1)
    t.words[right] = moved
    t.words[node] = keep
    lines.fill(t.words, node + 1 + keep, size - keep)


@inlined
def split(t: Nodes, node: int, inner: bool, edge: bool, place: int, fresh: Array) -> None:
    """Split a full node around a fresh row (key, id, child after it).

    ``fresh`` then holds the middle row, which belongs in the parent, and the new node. At the right
    edge of the tree the old node stays full, so ascending keys fill nodes.
    """
    room, area = btree.room_of(t, inner), btree.area_of(t, inner)
    middle = room - 1 if edge and place == room else (room + 1) // 2
    key, row, child = fresh[0], fresh[1], fresh[2]
    right = btree.new_node(t, inner)
    if place == middle:
        cut(t, node, right, inner, middle, 0)
        if inner:
            t.words[btree.child_at(t, right)] = child
    else:
        up = middle - 1 if place < middle else middle
        fresh[0] = t.words[node + 1 + up]
        fresh[1] = t.words[node + area + up]
        cut(t, node, right, inner, up, 1)
        target = node if place < middle else right
        place = place if place < middle else place - middle - 1
        if inner:
            put_link(t, target, place, key, row, child)
        else:
            lines.put_row(t.words, target, target + area, place, key, row)
    fresh[2] = right


@inlined
def insert_row(t: Nodes, key: int, row: int, path: Array, fresh: Array) -> bool:
    """Insert after all equal keys, from the root; returns whether a leaf was split."""
    node, height, edge = t.facts[btree.ROOT], t.facts[btree.HEIGHT], True
    for depth in range(height):
        c = btree.turn_of(t, node, key)
        edge = edge and c == t.words[node]
        lines.enter(path, depth, node, c)
        node = btree.child_of(t, node, c)
    area = t.facts[btree.LEAF_AREA]
    place = lines.count_upto(t.words, node, area, key, t.words[node])
    t.facts[btree.ROWS] += 1
    if t.words[node] < t.facts[btree.LEAF]:
        lines.put_row(t.words, node, node + area, place, key, row)
        return False
    fresh[0] = key
    fresh[1] = row
    split(t, node, False, edge, place, fresh)
    for depth in range(height - 1, -1, -1):
        parent, c = path[2 * depth], path[2 * depth + 1]
        if t.words[parent] < t.facts[btree.INNER]:
            put_link(t, parent, c, fresh[0], fresh[1], fresh[2])
            return True
        split(t, parent, True, edge, c, fresh)
    root = btree.new_node(t, True)
    t.words[btree.child_at(t, root)] = t.facts[btree.ROOT]
    put_link(t, root, 0, fresh[0], fresh[1], fresh[2])
    t.facts[btree.ROOT] = root
    t.facts[btree.HEIGHT] = height + 1
    return True


# --- Delete --------------------------------------------------------------------------------------


@inlined
def place_of(t: Nodes, node: int, inner: bool, key: int, row: int) -> int:
    """How many rows of a node come before the row with this key and id."""
    size, numbers = t.words[node], btree.ids_at(t, node, inner)
    place = lines.count_below(t.words, node, btree.area_of(t, inner), key)
    while place < size and t.words[node + 1 + place] == key and t.words[numbers + place] < row:
        place += 1
    return place


@inlined
def is_at(t: Nodes, node: int, inner: bool, place: int, key: int, row: int) -> bool:
    """Whether the row with this key and id is at a place of a node."""
    same = place < t.words[node] and t.words[node + 1 + place] == key
    return same and t.words[btree.ids_at(t, node, inner) + place] == row


@inlined
def delete_row(t: Nodes, key: int, row: int, path: Array) -> bool:
    """Delete the row with this key and id; returns whether it was there.

    A row of an inner node is replaced by the row before it, which is in a leaf.
    """
    node, height, found, spot = t.facts[btree.ROOT], t.facts[btree.HEIGHT], -1, -1
    for depth in range(height):
        c = place_of(t, node, True, key, row)
        if found < 0 and is_at(t, node, True, c, key, row):
            found, spot = node, c
        lines.enter(path, depth, node, c)
        node = btree.child_of(t, node, c)
    numbers = btree.ids_at(t, node, False)
    if found >= 0:  # the leaf is the last below child ``spot``: its rows all come before
        place = t.words[node] - 1
        t.words[found + 1 + spot] = t.words[node + 1 + place]
        t.words[btree.ids_at(t, found, True) + spot] = t.words[numbers + place]
    else:
        place = place_of(t, node, False, key, row)
        if not is_at(t, node, False, place, key, row):
            return False
    lines.drop_row(t.words, node, numbers, place)
    t.facts[btree.ROWS] -= 1
    rebalance(t, node, path)
    return True


@inlined
def rebalance(t: Nodes, node: int, path: Array) -> None:
    """After a leaf has lost a row: refill nodes on the way up that are less than half full."""
    inner = False
    for depth in range(t.facts[btree.HEIGHT] - 1, -1, -1):
        if t.words[node] >= btree.room_of(t, inner) // 2:
            return
        parent, c = path[2 * depth], path[2 * depth + 1]
        c = c if c < t.words[parent] else c - 1  # the left of two neighbours
        left = btree.child_of(t, parent, c)
        right = btree.child_of(t, parent, c + 1)
        if t.words[left] + t.words[right] >= btree.room_of(t, inner):
            share(t, parent, c, left, right, inner)
            return
        join(t, parent, c, left, right, inner)
        node, inner = parent, True
    if t.facts[btree.HEIGHT] > 0 and t.words[node] == 0:
        t.facts[btree.ROOT] = btree.child_of(t, node, 0)
        t.facts[btree.HEIGHT] -= 1
        btree.free_node(t, node)


@inlined
def join(t: Nodes, parent: int, c: int, left: int, right: int, inner: bool) -> None:
    """Append row ``c`` of the parent and all of the right neighbour to the left one."""
    a, b, area = t.words[left], t.words[right], btree.area_of(t, inner)
    t.words[left + 1 + a] = t.words[parent + 1 + c]
    t.words[left + area + a] = t.words[btree.ids_at(t, parent, True) + c]
    lines.move_down(t.words, right + 1, left + 1 + a + 1, b)
    lines.move_down(t.words, right + area, left + area + a + 1, b)
    if inner:
        links, goal = btree.child_at(t, right), btree.child_at(t, left)
        lines.move_down(t.words, links, goal + a + 1, b + 1)
    t.words[left] = a + 1 + b
    btree.free_node(t, right)
    links = btree.child_at(t, parent) + c + 1
    lines.move_down(t.words, links + 1, links, t.words[parent] - c - 1)
    lines.drop_row(t.words, parent, btree.ids_at(t, parent, True), c)


@inlined
def share(t: Nodes, parent: int, c: int, left: int, right: int, inner: bool) -> None:
    """Move rows through row ``c`` of the parent until two neighbours are even."""
    a, b = t.words[left], t.words[right]
    keep = (a + b) // 2
    area = btree.area_of(t, inner)
    for offset in (1, area):  # keys, then ids
        middle = parent + 1 + c if offset == 1 else btree.ids_at(t, parent, True) + c
        one, two = left + offset, right + offset
        if a < keep:
            t.words[one + a] = t.words[middle]
            lines.move_down(t.words, two, one + a + 1, keep - a - 1)
            t.words[middle] = t.words[two + keep - a - 1]
            lines.move_down(t.words, two + keep - a, two, a + b - keep)
        else:
            lines.move_up(t.words, two, two + a - keep, b)
            t.words[two + a - keep - 1] = t.words[middle]
            lines.move_down(t.words, one + keep + 1, two, a - keep - 1)
            t.words[middle] = t.words[one + keep]
    if inner:
        one, two = btree.child_at(t, left), btree.child_at(t, right)
        if a < keep:
            lines.move_down(t.words, two, one + a + 1, keep - a)
            lines.move_down(t.words, two + keep - a, two, a + b - keep + 1)
        else:
            lines.move_up(t.words, two, two + a - keep, b + 1)
            lines.move_down(t.words, one + keep + 1, two, a - keep)
    t.words[left] = keep
    t.words[right] = a + b - keep
    lines.fill(t.words, left + 1 + keep, a - keep)
    lines.fill(t.words, right + 1 + a + b - keep, keep - a)
