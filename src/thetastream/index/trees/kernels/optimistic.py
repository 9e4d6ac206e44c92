"""A concurrent B⁺-tree with optimistic lock coupling: readers take no lock at all.

The paper fills the place of the concurrent baseline with the Bw-tree. Here it is a B⁺-tree whose
nodes carry a version (OLFIT, Cha et al., VLDB 2001; optimistic lock coupling, Leis et al., 2016):
of the designs the paper names it needs neither a mapping table nor garbage collection of deltas, is
known to be faster than the Bw-tree in memory, and works in arrays.

    version   even: nobody writes    odd: locked    a writer leaves it two higher

A reader remembers the version of a node, reads, and looks again: if it has changed, what was read
is forgotten. A child is followed only after its parent was seen unchanged, so no reader follows a
torn reference. A writer locks the leaf it changes; a full node met on the way down is split at
once, with its parent, and the descent begins anew, so that splits never travel upwards.

Rows are deleted in place and leaves are never joined: so a reader at a leaf can always go on to the
right, whatever was split meanwhile. Leaves that deletes have left empty are given back by building
the tree anew when nodes run out (``optimistic_tree.py``).
"""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.atomics import compare_swap, fence, give_way, load, publish
from thetastream._jit.compiling import inlined
from thetastream.index.trees.kernels.forest import (
    ARENA,
    ARENA_SIZE,
    HEIGHT,
    ROOT,
    TALLEST,
    TREE_SIZE,
    Forest,
    count_below,
    count_upto,
    new_inner,
    put_child,
    put_row,
    split_inner,
    split_leaf,
)

FULL = -1


@inlined
def version(locks: Array, at: int) -> int:
    """The version of a node, once nobody writes it."""
    found = load(locks, at)
    while found & 1:
        give_way()
        found = load(locks, at)
    return found


@inlined
def unchanged(locks: Array, at: int, seen: int) -> bool:
    """Whether all that was read of a node since ``seen`` belongs together."""
    fence()
    return bool(load(locks, at) == seen)


@inlined
def claim(locks: Array, at: int, seen: int) -> bool:
    """Lock a node that is still as it was seen."""
    return bool(compare_swap(locks, at, seen, seen + 1))


@inlined
def release(locks: Array, at: int, seen: int, changed: bool) -> None:
    """Unlock a node."""
    publish(locks, at, seen + 2 if changed else seen)


@inlined
def reach(f: Forest, locks: Array, tree: int, key: int) -> tuple[int, int]:
    """The first leaf that may hold rows of at least ``key``, and its version."""
    while True:
        top = version(locks, tree)
        node, height = f.trees[tree * TREE_SIZE + ROOT], f.trees[tree * TREE_SIZE + HEIGHT]
        sound = unchanged(locks, tree, top)
        level = 0
        while sound and level < height:
            seen = version(f.inner_locks, node)
            child = f.children[node, min(count_below(f.seps, node, key), f.shape[1] - 1)]
            # The leaf's or inner node's version must be taken while its parent still leads to it.
            sound = unchanged(f.inner_locks, node, seen)
            node = child
            level += 1
        if sound:
            return node, version(f.leaf_locks, node)


@inlined
def collect_optimistic(
    f: Forest, locks: Array, tree: int, low: int, high: int, first: int, last: int, cursor: Array,
    own: int, filled: int, positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(own, id)`` of rows inside; gives the new fill, or FULL with ``cursor`` set.

    Going on from a cursor is for one thread alone: rows must not have moved meanwhile.

    A node that was split between its parent's reading and its own lost rows to the right only, so
    the chain leads to them; the first leaves of the way may hold smaller keys only. A leaf that
    changes while it is read is read again.
    """
    if cursor[1] >= 0:
        leaf, seen = cursor[1], version(f.leaf_locks, cursor[1])
    else:
        leaf, seen = reach(f, locks, tree, low)
    resumed = cursor[1] >= 0
    while True:
        here, ended, overflow = filled, False, False
        size = f.sizes[leaf]
        slot = min(count_below(f.keys, leaf, low), size)
        if resumed:
            slot = cursor[2]
        while slot < size:
            key, row = f.keys[leaf, slot], f.ids[leaf, slot]
            if key > high:
                ended = True
                break
            if here == positions.size:
                overflow = True
                break
            positions[here] = own
            rows[here] = row
            here += row >= first and row < last
            slot += 1
        following = f.nexts[leaf]
        if not unchanged(f.leaf_locks, leaf, seen):
            seen = version(f.leaf_locks, leaf)
            continue
        if overflow:
            cursor[1] = leaf
            cursor[2] = slot
            return FULL
        filled = here
        if ended or following < 0:
            cursor[1] = -1
            return filled
        leaf, resumed = following, False
        seen = version(f.leaf_locks, leaf)


@inlined
def insert_optimistic(f: Forest, locks: Array, tree: int, key: int, row: int) -> None:
    """Insert a row. The arena must have nodes for a split at every level."""
    arena = f.trees[tree * TREE_SIZE + ARENA]
    while not attempt(f, locks, tree, arena, key, row):
        pass


@inlined
def attempt(f: Forest, locks: Array, tree: int, arena: int, key: int, row: int) -> bool:
    """One descent; False when another thread was in the way, or a node had to be split."""
    top = version(locks, tree)
    node, height = f.trees[tree * TREE_SIZE + ROOT], f.trees[tree * TREE_SIZE + HEIGHT]
    if not unchanged(locks, tree, top):
        return False
    parent, parent_seen, place = -1, top, 0
    for level in range(height):
        seen = version(f.inner_locks, node)
        if not parent_unchanged(f, locks, tree, parent, parent_seen):
            return False
        if f.widths[node] >= f.shape[1]:
            if claim_parent(f, locks, tree, parent, parent_seen):
                if claim(f.inner_locks, node, seen):
                    right, sep = split_inner(f, arena, node, (f.shape[1] + 1) // 2)
                    hang(f, tree, arena, parent, place, node, right, sep, height, level)
                    release(f.inner_locks, node, seen, True)
                    release_parent(f, locks, tree, parent, parent_seen, True)
                else:
                    release_parent(f, locks, tree, parent, parent_seen, False)
            return False
        c = count_upto(f.seps, node, key, f.widths[node] - 1)
        child = f.children[node, max(c, 0)]
        if not unchanged(f.inner_locks, node, seen):
            return False
        parent, parent_seen, place, node = node, seen, c, child
    seen = version(f.leaf_locks, node)
    if not parent_unchanged(f, locks, tree, parent, parent_seen):
        return False
    if f.sizes[node] >= f.shape[0]:
        if claim_parent(f, locks, tree, parent, parent_seen):
            if claim(f.leaf_locks, node, seen):
                right = split_leaf(f, arena, node, (f.shape[0] + 1) // 2)
                sep = f.keys[right, 0]
                hang(f, tree, arena, parent, place, node, right, sep, height, height)
                release(f.leaf_locks, node, seen, True)
                release_parent(f, locks, tree, parent, parent_seen, True)
            else:
                release_parent(f, locks, tree, parent, parent_seen, False)
        return False
    if not claim(f.leaf_locks, node, seen):
        return False
    put_row(f, node, count_upto(f.keys, node, key, f.sizes[node]), key, row)
    release(f.leaf_locks, node, seen, True)
    return True


@inlined
def parent_unchanged(f: Forest, locks: Array, tree: int, parent: int, seen: int) -> bool:
    """The reference to the root counts as the root's parent."""
    if parent < 0:
        return unchanged(locks, tree, seen)
    return unchanged(f.inner_locks, parent, seen)


@inlined
def claim_parent(f: Forest, locks: Array, tree: int, parent: int, seen: int) -> bool:
    """Lock a parent, or the tree if the node is its root."""
    if parent < 0:
        return claim(locks, tree, seen)
    return claim(f.inner_locks, parent, seen)


@inlined
def release_parent(
    f: Forest, locks: Array, tree: int, parent: int, seen: int, changed: bool
) -> None:
    """Unlock what `claim_parent` locked."""
    if parent < 0:
        release(locks, tree, seen, changed)
    else:
        release(f.inner_locks, parent, seen, changed)


@inlined
def hang(
    f: Forest, tree: int, arena: int, parent: int, place: int, left: int, right: int, sep: int,
    height: int, level: int,
) -> None:  # fmt: skip
    """Put a new right neighbour into the parent, or both under a new root. All of them are locked.

    The parent has room: full nodes are split on the way down.
    """
    if parent >= 0:
        put_child(f, parent, place, sep, right)
        return
    root = new_inner(f, arena, height - level)
    f.children[root, 0] = left
    f.children[root, 1] = right
    f.seps[root, 0] = sep
    f.widths[root] = 2
    f.trees[tree * TREE_SIZE + ROOT] = root
    f.trees[tree * TREE_SIZE + HEIGHT] = height + 1
    f.arenas[arena * ARENA_SIZE + TALLEST] = height + 1


@inlined
def delete_optimistic(f: Forest, locks: Array, tree: int, key: int, row: int) -> bool:
    """Delete the row with this key and id; whether it was there. Leaves are never joined."""
    leaf, _ = reach(f, locks, tree, key)
    while leaf >= 0:
        seen = version(f.leaf_locks, leaf)
        if not claim(f.leaf_locks, leaf, seen):
            continue
        size = f.sizes[leaf]
        slot = min(count_below(f.keys, leaf, key), size)
        while slot < size and f.keys[leaf, slot] == key and f.ids[leaf, slot] != row:
            slot += 1
        if slot < size and f.keys[leaf, slot] == key:
            for i in range(slot, size - 1):
                f.keys[leaf, i] = f.keys[leaf, i + 1]
                f.ids[leaf, i] = f.ids[leaf, i + 1]
            f.keys[leaf, size - 1] = MOST
            f.sizes[leaf] = size - 1
            release(f.leaf_locks, leaf, seen, True)
            return True
        beyond, following = slot < size, f.nexts[leaf]
        release(f.leaf_locks, leaf, seen, False)
        if beyond:
            return False
        leaf = following
    return False
