"""The classical B-tree in one flat array: rows in inner nodes as well as in leaves.

    inner   │ size keys … │ ids … │ children … │          ``size`` rows and ``size + 1`` children
    leaf    │ size keys ……………… │ ids ……………… │            no children, so more rows

Every node takes the same number of words, and is known by the place of its first word. A row is
stored once, in whichever node it came to lie; child ``c`` holds the rows between rows ``c - 1``
and ``c`` (Bayer and McCreight, Organization and maintenance of large ordered indexes, 1972; the
B-tree of Ordered Indexing, Section 4.1). Rows are ordered by key and then by id. Ids ascend with
insertion, so a fresh row is put behind its equals, and of equal keys the last is the newest.

Invariants: rows ascend in the order of the walk; all leaves have one depth; but for the root and
the right edge, a node is at least half full; nodes are in the tree or in the list of freed ones.

Deletions join a node that is less than half full with a neighbour, or the two share their rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import inlined, prefetch
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
    "END", "FACTS", "FREE", "HEIGHT", "INNER", "INNER_AREA", "LEAF", "LEAF_AREA", "ROOT", "ROWS",
    "STRIDE", "TOP", "begin_run", "child_at", "delete_row", "go_down", "has_nodes", "ids_at",
    "insert_row", "next_run", "plant", "put_row", "shape_of",
]  # fmt: skip

Array = NDArray[np.int64]

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
    """Rows that a node holds at most."""
    return facts[INNER] if inner else facts[LEAF]


@inlined
def ids_at(facts: Array, node: int, inner: bool) -> int:
    """Where the ids of a node begin."""
    return node + area_of(facts, inner)


@inlined
def child_at(facts: Array, node: int) -> int:
    """Where the children of an inner node begin."""
    return node + 2 * facts[INNER_AREA] - 1


@inlined
def child_of(words: Array, facts: Array, node: int, c: int) -> int:
    """A child of an inner node."""
    return words[np.uint64(child_at(facts, node) + c)]


@inlined
def has_nodes(facts: Array) -> bool:
    """Whether there are nodes for an insert: one per level and one for a new root."""
    return facts[END] - facts[TOP] >= (facts[HEIGHT] + 2) * facts[STRIDE]


@inlined
def new_node(words: Array, facts: Array, inner: bool) -> int:
    """Take an empty node: one that was freed, or the next."""
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
    """The leaf in which the first row of at least ``key`` lies, or behind which it comes."""
    node, area = facts[ROOT], facts[INNER_AREA]
    for depth in range(facts[HEIGHT]):
        c = count_below(words, node, area, key)
        path[2 * depth] = node
        path[2 * depth + 1] = c
        node = child_of(words, facts, node, c)
    return node


@inlined
def ascend(words: Array, facts: Array, path: Array) -> int:
    """After a leaf: the depth of the inner node whose row comes next; -1 behind the last row."""
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
    """Ask for the leaf behind that at the end of a path, if they have the same parent."""
    depth = facts[HEIGHT] - 1
    if depth >= 0:
        node, c = path[2 * depth], path[2 * depth + 1] + 1
        if c <= words[node]:
            fetch(words, child_of(words, facts, node, c), facts[STRIDE])


@inlined
def begin_run(words: Array, facts: Array, low: int, high: int, path: Array, run: Array) -> None:
    """The first run of a range of keys; it may hold no row."""
    leaf = seek(words, facts, low, path)
    look_ahead(words, facts, path)
    enter_leaf(words, facts, leaf, count_below(words, leaf, facts[LEAF_AREA], low), high, run)


@inlined
def next_run(words: Array, facts: Array, high: int, path: Array, run: Array) -> bool:
    """The next run; whether there is one. Leaves and single rows of inner nodes take turns."""
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
    """Find the leaves for ``size`` keys from ``start`` on: those a fresh row would be put into.

    All go down a level before any goes further; ``last`` words of each leaf are asked for.
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
    """Put a row behind child ``c`` of an inner node that has room, and a child behind the row."""
    links = child_at(facts, node)
    move_up(words, links + c + 1, links + c + 2, words[node] - c)
    words[links + c + 1] = child
    put_row(words, facts, node, True, c, key, row)


@inlined
def cut(
    words: Array, facts: Array, node: int, right: int, inner: bool, keep: int, lose: int
) -> None:
    """Keep the first rows of a full node; those behind ``lose`` more go to a new node."""
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
    """Split a full node around a fresh row (key, id, child behind it).

    ``fresh`` then holds the row in the middle, which belongs into the parent, and the new node.
    At the right edge of the tree the old node stays full: ascending keys fill nodes.
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
    """Insert behind all equal keys, from the root; whether a leaf was split."""
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
    """Delete the row with this key and id; whether it was there.

    A row of an inner node gives its place to the row before it, which lies in a leaf.
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
    mend(words, facts, node, path)
    return True


@inlined
def mend(words: Array, facts: Array, node: int, path: Array) -> None:
    """A leaf has lost a row: see on the way up that no node is left less than half full."""
    inner = False
    for depth in range(facts[HEIGHT] - 1, -1, -1):
        if words[node] >= room_of(facts, inner) // 2:
            return
        parent, c = path[2 * depth], path[2 * depth + 1]
        c = c if c < words[parent] else c - 1  # the left one of two neighbours
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
    """Put row ``c`` of the parent and all of the right neighbour behind the left one."""
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
    """Move rows over row ``c`` of the parent until two neighbours are even."""
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
