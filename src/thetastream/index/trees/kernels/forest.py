"""B⁺-trees in arrays: many trees in one pool of nodes.

A tree is a row of ``trees``: its root, its height and its arena, the part of the pool that supplies
its nodes. Leaves hold rows as ``(key, id)`` and are chained; inner nodes hold separators and
children. Several trees may share an arena, and then link their leaf chains (PIM-Tree).

    inner   seps       7 | 15 | ∞ | ∞         children[c] holds keys in [seps[c - 1], seps[c]]
            children   4   9    2   ·         (both ends included, as equal keys may be cut apart)
    leaf    keys       7 7 9 12 ∞ ∞           slots that are not taken hold the largest integer, so
            ids        3 8 5 11 · ·           a search compares all slots: no branch, vector code

Equal keys are in order of insertion: a row goes behind its equals. So rows that expire in order of
insertion are always the first of their equals, and deleting one costs a single descent.

Invariants (``invariants.py``): keys ascend along the leaf chain; separators bound
their children; all leaves of a tree have the same depth; but for the root, a node of a tree that
has seen deletes is at least half full, up to rows and children left over from borrowing.
"""

from __future__ import annotations

from typing import NamedTuple

from thetastream._jit.arrays import MOST, Array, u64
from thetastream._jit.atomics import add
from thetastream._jit.compiling import M, V, inlined, named

MOST_LEVELS = 64
LINE = 8  # words of a cache line; nodes are as long as some lines

# A row of ``trees``.
ROOT, HEIGHT, ARENA, TREE_SIZE = 0, 1, 2, 3
# A row of ``arenas``: leaves ``[first, end)`` with ``[first, top)`` used, freed ones in a list.
LEAF_FIRST, LEAF_TOP, LEAF_END, LEAF_FREE = 0, 1, 2, 3
INNER_FIRST, INNER_TOP, INNER_END, INNER_FREE = 4, 5, 6, 7
TALLEST = 8  # the height of its highest tree
ARENA_SIZE = 9


class Forest(NamedTuple):
    """The pool. Tables are flat, so that their entries can be changed atomically."""

    keys: Array  # leaves × slots
    ids: Array
    sizes: Array  # rows of a leaf
    nexts: Array  # the leaf after a leaf, -1 for none
    seps: Array  # inner nodes × fan-out
    children: Array
    widths: Array  # children of an inner node
    ranks: Array  # 0 when its children are leaves, -1 when it was freed
    trees: Array
    arenas: Array
    leaf_locks: Array  # versions of leaves and of inner nodes; only for the optimistic tree
    inner_locks: Array
    shape: Array  # rows per leaf, children per inner node; rows of the arrays are rounded up


FOREST = named(Forest, M, M, V, V, M, M, *[V] * 7)


@inlined
def count_below(matrix: Array, node: int, key: int) -> int:
    """How many values of a node are less than the key. No branch: vector code."""
    row, count = u64(node), 0
    for i in range(u64(matrix.shape[1])):
        count += matrix[row, i] < key
    return count


@inlined
def count_upto(matrix: Array, node: int, key: int, size: int) -> int:
    """How many of the first ``size`` values of a node are at most the key."""
    row, count = u64(node), 0
    for i in range(u64(matrix.shape[1])):
        count += matrix[row, i] <= key
    return min(count, size)


@inlined
def fact(f: Forest, tree: int, which: int) -> int:
    """An entry of the row of a tree."""
    return f.trees[tree * TREE_SIZE + which]


@inlined
def emit(
    own: int, row: int, first: int, last: int, filled: int, positions: Array, rows: Array
) -> int:
    """Append ``(own, row)`` if the id is in ``[first, last)``; returns the new fill. No branch."""
    positions[filled] = own
    rows[filled] = row
    return filled + (row >= first and row < last)


# --- Nodes ---------------------------------------------------------------------------------------


@inlined
def clear_leaf(f: Forest, leaf: int) -> None:
    """Make a leaf empty."""
    for i in range(f.keys.shape[1]):
        f.keys[leaf, i] = MOST
    f.sizes[leaf] = 0


@inlined
def new_leaf(f: Forest, arena: int) -> int:
    """Take a leaf from an arena. Arenas that threads share never free single leaves."""
    leaf = f.arenas[arena * ARENA_SIZE + LEAF_FREE]
    if leaf >= 0:
        f.arenas[arena * ARENA_SIZE + LEAF_FREE] = f.nexts[leaf]
    else:
        leaf = add(f.arenas, arena * ARENA_SIZE + LEAF_TOP, 1)
    clear_leaf(f, leaf)
    f.nexts[leaf] = -1
    return leaf


@inlined
def new_inner(f: Forest, arena: int, rank: int) -> int:
    """Take an inner node from an arena."""
    node = f.arenas[arena * ARENA_SIZE + INNER_FREE]
    if node >= 0:
        f.arenas[arena * ARENA_SIZE + INNER_FREE] = f.children[node, 0]
    else:
        node = add(f.arenas, arena * ARENA_SIZE + INNER_TOP, 1)
    for i in range(f.seps.shape[1]):
        f.seps[node, i] = MOST
    f.widths[node] = 0
    f.ranks[node] = rank
    return node


@inlined
def free_leaf(f: Forest, arena: int, leaf: int) -> None:
    """Put a leaf on the free list of its arena."""
    f.nexts[leaf] = f.arenas[arena * ARENA_SIZE + LEAF_FREE]
    f.arenas[arena * ARENA_SIZE + LEAF_FREE] = leaf
    f.sizes[leaf] = 0


@inlined
def free_inner(f: Forest, arena: int, node: int) -> None:
    """Put an inner node on the free list of its arena."""
    f.children[node, 0] = f.arenas[arena * ARENA_SIZE + INNER_FREE]
    f.arenas[arena * ARENA_SIZE + INNER_FREE] = node
    f.ranks[node] = -1


@inlined
def has_nodes(f: Forest, arena: int, threads: int) -> bool:
    """Whether an arena has nodes for an insert by each of ``threads`` threads, freed ones aside.

    An insert takes at most a leaf, an inner node per level and one more; the height may be growing.
    """
    at = arena * ARENA_SIZE
    leaves = f.arenas[at + LEAF_END] - f.arenas[at + LEAF_TOP]
    inners = f.arenas[at + INNER_END] - f.arenas[at + INNER_TOP]
    return min(leaves, inners) >= threads * (f.arenas[at + TALLEST] + 3)


@inlined
def clear_arena(f: Forest, arena: int, leaves: int) -> None:
    """Free all nodes of an arena but the first ``leaves`` leaves."""
    at = arena * ARENA_SIZE
    f.arenas[at + LEAF_TOP] = f.arenas[at + LEAF_FIRST] + leaves
    f.arenas[at + INNER_TOP] = f.arenas[at + INNER_FIRST]
    f.arenas[at + LEAF_FREE] = -1
    f.arenas[at + INNER_FREE] = -1
    f.arenas[at + TALLEST] = 0


@inlined
def plant(f: Forest, tree: int) -> None:
    """Empty the arena of a tree and make the tree a single empty leaf."""
    arena = fact(f, tree, ARENA)
    clear_arena(f, arena, 0)
    f.trees[tree * TREE_SIZE + ROOT] = new_leaf(f, arena)
    f.trees[tree * TREE_SIZE + HEIGHT] = 0


# --- Search --------------------------------------------------------------------------------------


@inlined
def find_leaf(f: Forest, tree: int, key: int) -> int:
    """The first leaf that may hold rows of at least ``key``."""
    node = fact(f, tree, ROOT)
    for _ in range(fact(f, tree, HEIGHT)):
        node = f.children[node, count_below(f.seps, node, key)]
    return node


@inlined
def first_leaf(f: Forest, tree: int) -> int:
    """The leftmost leaf."""
    node = fact(f, tree, ROOT)
    for _ in range(fact(f, tree, HEIGHT)):
        node = f.children[node, 0]
    return node


# --- Insert --------------------------------------------------------------------------------------


@inlined
def put_row(f: Forest, leaf: int, at: int, key: int, row: int) -> None:
    """Put a row into a leaf that has room."""
    for i in range(f.sizes[leaf], at, -1):
        f.keys[leaf, i] = f.keys[leaf, i - 1]
        f.ids[leaf, i] = f.ids[leaf, i - 1]
    f.keys[leaf, at] = key
    f.ids[leaf, at] = row
    f.sizes[leaf] += 1


@inlined
def put_child(f: Forest, node: int, at: int, sep: int, child: int) -> None:
    """Put a child behind child ``at`` of an inner node that has room; ``sep`` divides the two."""
    for i in range(f.widths[node], at + 1, -1):
        f.children[node, i] = f.children[node, i - 1]
        f.seps[node, i - 1] = f.seps[node, i - 2]
    f.children[node, at + 1] = child
    f.seps[node, at] = sep
    f.widths[node] += 1


@inlined
def split_leaf(f: Forest, arena: int, leaf: int, keep: int) -> int:
    """Move the rows from ``keep`` on to a new leaf behind; returns that leaf."""
    right = new_leaf(f, arena)
    size = f.sizes[leaf]
    for i in range(keep, size):
        f.keys[right, i - keep] = f.keys[leaf, i]
        f.ids[right, i - keep] = f.ids[leaf, i]
        f.keys[leaf, i] = MOST
    f.sizes[right] = size - keep
    f.sizes[leaf] = keep
    f.nexts[right] = f.nexts[leaf]
    f.nexts[leaf] = right
    return right


@inlined
def split_inner(f: Forest, arena: int, node: int, keep: int) -> tuple[int, int]:
    """Move the children from ``keep`` on to a new node; returns it and the separator."""
    right = new_inner(f, arena, f.ranks[node])
    width = f.widths[node]
    for i in range(keep, width):
        f.children[right, i - keep] = f.children[node, i]
    for i in range(keep, width - 1):
        f.seps[right, i - keep] = f.seps[node, i]
        f.seps[node, i] = MOST
    sep = f.seps[node, keep - 1]
    f.seps[node, keep - 1] = MOST
    f.widths[right] = width - keep
    f.widths[node] = keep
    return right, sep


@inlined
def new_root(f: Forest, tree: int, left: int, right: int, sep: int, height: int) -> None:
    """Put two nodes under a new root of a tree, which had ``height``."""
    at = tree * TREE_SIZE
    arena = f.trees[at + ARENA]
    root = new_inner(f, arena, height)
    f.children[root, 0] = left
    f.children[root, 1] = right
    f.seps[root, 0] = sep
    f.widths[root] = 2
    f.trees[at + ROOT] = root
    f.trees[at + HEIGHT] = height + 1
    f.arenas[arena * ARENA_SIZE + TALLEST] = max(f.arenas[arena * ARENA_SIZE + TALLEST], height + 1)


@inlined
def insert_row(f: Forest, tree: int, key: int, row: int, path: Array) -> None:
    """Insert behind all equal keys. The arena must have a free node per level and one more."""
    at = tree * TREE_SIZE
    height, arena = f.trees[at + HEIGHT], f.trees[at + ARENA]
    node, last = f.trees[at + ROOT], True
    for level in range(height):
        c = count_upto(f.seps, node, key, f.widths[node] - 1)
        path[2 * level] = node
        path[2 * level + 1] = c
        last = last and c == f.widths[node] - 1
        node = f.children[node, c]
    leaf, slots = node, f.shape[0]
    place = count_upto(f.keys, leaf, key, f.sizes[leaf])
    if f.sizes[leaf] < slots:
        put_row(f, leaf, place, key, row)
        return
    # Ascending keys fill leaves: a row at the very end starts a new leaf.
    keep = slots if last and place == slots else (slots + 1) // 2
    right = split_leaf(f, arena, leaf, keep)
    if place > keep or place == slots == keep:
        put_row(f, right, place - keep, key, row)
    else:
        put_row(f, leaf, place, key, row)
    sep = f.keys[right, 0]
    for level in range(height - 1, -1, -1):
        parent, c = path[2 * level], path[2 * level + 1]
        if f.widths[parent] < f.shape[1]:
            put_child(f, parent, c, sep, right)
            return
        half = (f.shape[1] + 1) // 2
        beyond, middle = split_inner(f, arena, parent, half - 1 if c < half - 1 else half)
        if c < half - 1:
            put_child(f, parent, c, sep, right)
        elif c >= half:
            put_child(f, beyond, c - half, sep, right)
        else:  # the new child becomes the first of the new node
            first = f.children[beyond, 0]
            f.children[beyond, 0] = right
            put_child(f, beyond, 0, middle, first)
            middle = sep
        right, sep = beyond, middle
    new_root(f, tree, f.trees[at + ROOT], right, sep, height)


# --- Delete --------------------------------------------------------------------------------------


@inlined
def drop_row(f: Forest, leaf: int, place: int) -> int:
    """Take a row out of a leaf; returns how many are left."""
    size = f.sizes[leaf] - 1
    for i in range(place, size):
        f.keys[leaf, i] = f.keys[leaf, i + 1]
        f.ids[leaf, i] = f.ids[leaf, i + 1]
    f.keys[leaf, size] = MOST
    f.sizes[leaf] = size
    return size


@inlined
def delete_row(f: Forest, tree: int, key: int, row: int, path: Array) -> bool:
    """Delete the row with this key and id; returns whether it was there."""
    at = tree * TREE_SIZE
    height = f.trees[at + HEIGHT]
    node = f.trees[at + ROOT]
    for level in range(height):
        c = count_below(f.seps, node, key)
        path[2 * level] = node
        path[2 * level + 1] = c
        node = f.children[node, c]
    leaf = node
    place = count_below(f.keys, leaf, key)
    while True:
        if place >= f.sizes[leaf]:
            leaf = step_right(f, height, path)
            if leaf < 0:
                return False
            place = 0
        elif f.keys[leaf, place] != key:
            return False
        elif f.ids[leaf, place] == row:
            break
        else:
            place += 1
    if drop_row(f, leaf, place) < f.shape[0] // 2 and height:
        refill_leaf(f, tree, leaf, path)
    return True


@inlined
def step_right(f: Forest, height: int, path: Array) -> int:
    """Move a path to the next leaf; -1 behind the last."""
    level = height - 1
    while level >= 0 and path[2 * level + 1] + 1 >= f.widths[path[2 * level]]:
        level -= 1
    if level < 0:
        return -1
    path[2 * level + 1] += 1
    node = f.children[path[2 * level], path[2 * level + 1]]
    for below in range(level + 1, height):
        path[2 * below] = node
        path[2 * below + 1] = 0
        node = f.children[node, 0]
    return node


@inlined
def drop_child(f: Forest, node: int, at: int) -> None:
    """Take child ``at + 1`` and the separator before it out of an inner node."""
    width = f.widths[node] - 1
    for i in range(at + 1, width):
        f.children[node, i] = f.children[node, i + 1]
    for i in range(at, width - 1):
        f.seps[node, i] = f.seps[node, i + 1]
    f.seps[node, width - 1] = MOST
    f.widths[node] = width


@inlined
def refill_leaf(f: Forest, tree: int, leaf: int, path: Array) -> None:
    """Join a leaf that is less than half full with a neighbour, or share the rows of both."""
    at = tree * TREE_SIZE
    level = f.trees[at + HEIGHT] - 1
    parent, c = path[2 * level], path[2 * level + 1]
    c = c if c + 1 < f.widths[parent] else c - 1  # the left one of the two
    left, right = f.children[parent, c], f.children[parent, c + 1]
    a, b = f.sizes[left], f.sizes[right]
    if a + b <= f.shape[0]:
        for i in range(b):
            f.keys[left, a + i] = f.keys[right, i]
            f.ids[left, a + i] = f.ids[right, i]
        f.sizes[left] = a + b
        f.nexts[left] = f.nexts[right]
        free_leaf(f, f.trees[at + ARENA], right)
        drop_child(f, parent, c)
        refill_inner(f, tree, level, path)
        return
    keep = (a + b) // 2
    if a < keep:
        moved = keep - a
        for i in range(moved):
            f.keys[left, a + i] = f.keys[right, i]
            f.ids[left, a + i] = f.ids[right, i]
        for i in range(b):
            inside = i + moved < b
            f.keys[right, i] = f.keys[right, i + moved] if inside else MOST
            f.ids[right, i] = f.ids[right, i + moved] if inside else 0
    else:
        moved = a - keep
        for i in range(b - 1, -1, -1):
            f.keys[right, i + moved] = f.keys[right, i]
            f.ids[right, i + moved] = f.ids[right, i]
        for i in range(moved):
            f.keys[right, i] = f.keys[left, keep + i]
            f.ids[right, i] = f.ids[left, keep + i]
            f.keys[left, keep + i] = MOST
    f.sizes[left] = keep
    f.sizes[right] = a + b - keep
    f.seps[parent, c] = f.keys[right, 0]


@inlined
def refill_inner(f: Forest, tree: int, level: int, path: Array) -> None:
    """Refill the inner node of a path at ``level``, which has lost a child, if it has too few."""
    at = tree * TREE_SIZE
    arena, most = f.trees[at + ARENA], f.shape[1]
    while level > 0:
        if f.widths[path[2 * level]] >= (most + 1) // 2:
            return
        parent, c = path[2 * level - 2], path[2 * level - 1]
        c = c if c + 1 < f.widths[parent] else c - 1
        left, right = f.children[parent, c], f.children[parent, c + 1]
        if f.widths[left] + f.widths[right] > most:
            share_children(f, parent, c, left, right)
            return
        a, b = f.widths[left], f.widths[right]
        f.seps[left, a - 1] = f.seps[parent, c]
        for i in range(b):
            f.children[left, a + i] = f.children[right, i]
        for i in range(b - 1):
            f.seps[left, a + i] = f.seps[right, i]
        f.widths[left] = a + b
        free_inner(f, arena, right)
        drop_child(f, parent, c)
        level -= 1
    root = path[0]
    if f.widths[root] == 1:
        f.trees[at + ROOT] = f.children[root, 0]
        f.trees[at + HEIGHT] -= 1
        free_inner(f, arena, root)


@inlined
def share_children(f: Forest, parent: int, c: int, left: int, right: int) -> None:
    """Move children one by one over the separator of two neighbours until they are even."""
    while f.widths[left] + 1 < f.widths[right]:
        a, b = f.widths[left], f.widths[right]
        f.seps[left, a - 1] = f.seps[parent, c]
        f.children[left, a] = f.children[right, 0]
        f.seps[parent, c] = f.seps[right, 0]
        for i in range(b - 1):
            f.children[right, i] = f.children[right, i + 1]
        for i in range(b - 2):
            f.seps[right, i] = f.seps[right, i + 1]
        f.seps[right, b - 2] = MOST
        f.widths[left] = a + 1
        f.widths[right] = b - 1
    while f.widths[right] + 1 < f.widths[left]:
        a, b = f.widths[left], f.widths[right]
        for i in range(b, 0, -1):
            f.children[right, i] = f.children[right, i - 1]
        for i in range(b - 1, 0, -1):
            f.seps[right, i] = f.seps[right, i - 1]
        f.children[right, 0] = f.children[left, a - 1]
        f.seps[right, 0] = f.seps[parent, c]
        f.seps[parent, c] = f.seps[left, a - 2]
        f.seps[left, a - 2] = MOST
        f.widths[left] = a - 1
        f.widths[right] = b + 1
