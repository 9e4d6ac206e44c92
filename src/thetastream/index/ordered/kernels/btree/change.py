"""Inserting into a B-tree and deleting from it (``nodes.py``): splits, joins, shared rows.

A full node is split around its middle row, which moves up into the parent. If a deletion leaves a
node less than half full, it is joined with a neighbour and the row between them, or the two share
their rows.
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import inlined
from thetastream.index.ordered.kernels.btree.nodes import (
    HEIGHT,
    INNER,
    INNER_AREA,
    LEAF,
    LEAF_AREA,
    ROOT,
    ROWS,
    area_of,
    child_at,
    child_of,
    free_node,
    ids_at,
    new_node,
    room_of,
)
from thetastream.index.ordered.kernels.lines import (
    count_below,
    count_upto,
    fill,
    move_down,
    move_up,
)

# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_row(
    words: Array, facts: Array, node: int, inner: bool, place: int, key: int, row: int
) -> None:
    """Put a row into a node that has room."""
    size, first, numbers = words[node], node + 1, ids_at(facts, node, inner)
    move_up(words, first + place, first + place + 1, size - place)
    move_up(words, numbers + place, numbers + place + 1, size - place)
    words[first + place] = key
    words[numbers + place] = row
    words[node] = size + 1


@inlined
def put_link(words: Array, facts: Array, node: int, c: int, key: int, row: int, child: int) -> None:
    """Put a row after child ``c`` of an inner node that has room, and a child after the row."""
    links = child_at(facts, node)
    move_up(words, links + c + 1, links + c + 2, words[node] - c)
    words[links + c + 1] = child
    put_row(words, facts, node, True, c, key, row)


@inlined
def cut(
    words: Array, facts: Array, node: int, right: int, inner: bool, keep: int, lose: int
) -> None:
    """Keep ``keep`` rows of a full node, drop ``lose``, and move the rest to a new node."""
    size, area = words[node], area_of(facts, inner)
    moved = size - keep - lose
    move_down(words, node + 1 + keep + lose, right + 1, moved)
    move_down(words, node + area + keep + lose, right + area, moved)
    if inner:
        links, goal = child_at(facts, node), child_at(facts, right)
        move_down(words, links + keep + lose, goal, moved + 1)
    words[right] = moved
    words[node] = keep
    fill(words, node + 1 + keep, size - keep)


@inlined
def split(
    words: Array, facts: Array, node: int, inner: bool, edge: bool, place: int, fresh: Array
) -> None:
    """Split a full node around a fresh row (key, id, child after it).

    ``fresh`` then holds the middle row, which belongs in the parent, and the new node. At the right
    edge of the tree the old node stays full, so ascending keys fill nodes.
    """
    room, area = room_of(facts, inner), area_of(facts, inner)
    middle = room - 1 if edge and place == room else (room + 1) // 2
    key, row, child = fresh[0], fresh[1], fresh[2]
    right = new_node(words, facts, inner)
    if place == middle:
        cut(words, facts, node, right, inner, middle, 0)
        if inner:
            words[child_at(facts, right)] = child
    else:
        up = middle - 1 if place < middle else middle
        fresh[0] = words[node + 1 + up]
        fresh[1] = words[node + area + up]
        cut(words, facts, node, right, inner, up, 1)
        target = node if place < middle else right
        place = place if place < middle else place - middle - 1
        if inner:
            put_link(words, facts, target, place, key, row, child)
        else:
            put_row(words, facts, target, False, place, key, row)
    fresh[2] = right


@inlined
def insert_row(words: Array, facts: Array, key: int, row: int, path: Array, fresh: Array) -> bool:
    """Insert after all equal keys, from the root; returns whether a leaf was split."""
    node, area, height, edge = facts[ROOT], facts[INNER_AREA], facts[HEIGHT], True
    for depth in range(height):
        c = count_upto(words, node, area, key, words[node])
        edge = edge and c == words[node]
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(words, facts, node, c)
    place = count_upto(words, node, facts[LEAF_AREA], key, words[node])
    facts[ROWS] += 1
    if words[node] < facts[LEAF]:
        put_row(words, facts, node, False, place, key, row)
        return False
    fresh[0] = key
    fresh[1] = row
    split(words, facts, node, False, edge, place, fresh)
    for depth in range(height - 1, -1, -1):
        parent, c = path[2 * depth], path[2 * depth + 1]
        if words[parent] < facts[INNER]:
            put_link(words, facts, parent, c, fresh[0], fresh[1], fresh[2])
            return True
        split(words, facts, parent, True, edge, c, fresh)
    root = new_node(words, facts, True)
    words[child_at(facts, root)] = facts[ROOT]
    put_link(words, facts, root, 0, fresh[0], fresh[1], fresh[2])
    facts[ROOT] = root
    facts[HEIGHT] = height + 1
    return True


# --- Delete --------------------------------------------------------------------------------------


@inlined
def place_of(words: Array, facts: Array, node: int, inner: bool, key: int, row: int) -> int:
    """How many rows of a node come before the row with this key and id."""
    size, numbers = words[node], ids_at(facts, node, inner)
    place = count_below(words, node, area_of(facts, inner), key)
    while place < size and words[node + 1 + place] == key and words[numbers + place] < row:
        place += 1
    return place


@inlined
def drop_row(words: Array, facts: Array, node: int, inner: bool, place: int) -> None:
    """Take a row out of a node."""
    size, first, numbers = words[node] - 1, node + 1, ids_at(facts, node, inner)
    move_down(words, first + place + 1, first + place, size - place)
    move_down(words, numbers + place + 1, numbers + place, size - place)
    words[first + size] = MOST
    words[node] = size


@inlined
def delete_row(words: Array, facts: Array, key: int, row: int, path: Array) -> bool:
    """Delete the row with this key and id; returns whether it was there.

    A row of an inner node is replaced by the row before it, which is in a leaf.
    """
    node, height, found = facts[ROOT], facts[HEIGHT], -1
    spot = -1
    for depth in range(height):
        c = place_of(words, facts, node, True, key, row)
        if (
            found < 0 and c < words[node] and words[node + 1 + c] == key
            and words[ids_at(facts, node, True) + c] == row
        ):  # fmt: skip
            found = node
            spot = c
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(words, facts, node, c)
    numbers = ids_at(facts, node, False)
    if found >= 0:  # the leaf is the last below child ``spot``: its rows all come before
        place = words[node] - 1
        words[found + 1 + spot] = words[node + 1 + place]
        words[ids_at(facts, found, True) + spot] = words[numbers + place]
    else:
        place = place_of(words, facts, node, False, key, row)
        if place >= words[node] or words[node + 1 + place] != key or words[numbers + place] != row:
            return False
    drop_row(words, facts, node, False, place)
    facts[ROWS] -= 1
    rebalance(words, facts, node, path)
    return True


@inlined
def rebalance(words: Array, facts: Array, node: int, path: Array) -> None:
    """After a leaf has lost a row: refill nodes on the way up that are less than half full."""
    inner = False
    for depth in range(facts[HEIGHT] - 1, -1, -1):
        if words[node] >= room_of(facts, inner) // 2:
            return
        parent, c = path[2 * depth], path[2 * depth + 1]
        c = c if c < words[parent] else c - 1  # the left of two neighbours
        left, right = child_of(words, facts, parent, c), child_of(words, facts, parent, c + 1)
        if words[left] + words[right] >= room_of(facts, inner):
            share(words, facts, parent, c, left, right, inner)
            return
        join(words, facts, parent, c, left, right, inner)
        node, inner = parent, True
    if facts[HEIGHT] > 0 and words[node] == 0:
        facts[ROOT] = child_of(words, facts, node, 0)
        facts[HEIGHT] -= 1
        free_node(words, facts, node)


@inlined
def join(
    words: Array, facts: Array, parent: int, c: int, left: int, right: int, inner: bool
) -> None:
    """Append row ``c`` of the parent and all of the right neighbour to the left one."""
    a, b, area = words[left], words[right], area_of(facts, inner)
    words[left + 1 + a] = words[parent + 1 + c]
    words[left + area + a] = words[ids_at(facts, parent, True) + c]
    move_down(words, right + 1, left + 1 + a + 1, b)
    move_down(words, right + area, left + area + a + 1, b)
    if inner:
        move_down(words, child_at(facts, right), child_at(facts, left) + a + 1, b + 1)
    words[left] = a + 1 + b
    free_node(words, facts, right)
    links = child_at(facts, parent) + c + 1
    move_down(words, links + 1, links, words[parent] - c - 1)
    drop_row(words, facts, parent, True, c)


@inlined
def share(
    words: Array, facts: Array, parent: int, c: int, left: int, right: int, inner: bool
) -> None:
    """Move rows through row ``c`` of the parent until two neighbours are even."""
    a, b = words[left], words[right]
    keep = (a + b) // 2
    area = area_of(facts, inner)
    for offset in (1, area):  # keys, then ids
        middle = parent + 1 + c if offset == 1 else ids_at(facts, parent, True) + c
        one, two = left + offset, right + offset
        if a < keep:
            words[one + a] = words[middle]
            move_down(words, two, one + a + 1, keep - a - 1)
            words[middle] = words[two + keep - a - 1]
            move_down(words, two + keep - a, two, a + b - keep)
        else:
            move_up(words, two, two + a - keep, b)
            words[two + a - keep - 1] = words[middle]
            move_down(words, one + keep + 1, two, a - keep - 1)
            words[middle] = words[one + keep]
    if inner:
        one, two = child_at(facts, left), child_at(facts, right)
        if a < keep:
            move_down(words, two, one + a + 1, keep - a)
            move_down(words, two + keep - a, two, a + b - keep + 1)
        else:
            move_up(words, two, two + a - keep, b + 1)
            move_down(words, one + keep + 1, two, a - keep)
    words[left] = keep
    words[right] = a + b - keep
    fill(words, left + 1 + keep, a - keep)
    fill(words, right + 1 + a + b - keep, keep - a)
