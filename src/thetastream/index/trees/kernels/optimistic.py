"""A concurrent B⁺-tree with optimistic lock coupling: readers take no lock at all.

Every node has a version (OLFIT, Cha et al., VLDB 2001; optimistic lock coupling, Leis et al.,
2016). ``optimistic_tree`` says why this is not a Bw-tree, which is slower in memory.

    version   even: no writer    odd: locked    a writer leaves it two higher

A reader notes the version of a node, reads, and checks again: if the version has changed, it
discards what it read. It follows a child only after it has seen the parent unchanged, so it never
follows a torn reference. A writer locks the leaf it changes. It splits a full node on the way down
at once, with its parent locked, and restarts the descent, so splits never travel upwards.

Rows are deleted in place and leaves are never joined, so a reader at a leaf can always continue to
the right, whatever was split meanwhile. Leaves that deletes have emptied are reclaimed by
rebuilding the tree when nodes run out (``optimistic_tree.py``).
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.atomics import compare_swap, fence, give_way, load, publish
from thetastream._jit.compiling import inlined
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels.forest import Forest

FULL = -1


@inlined
def version(locks: Array, at: int) -> int:
    """Wait until no thread writes a node; returns its version."""
    now = load(locks, at)
    while now & 1:
        give_way()
        now = load(locks, at)
    return now


@inlined
def unchanged(locks: Array, at: int, seen: int) -> bool:
    """Whether a node still has the version ``seen``, so that what was read is consistent."""
    fence()
    return bool(load(locks, at) == seen)


@inlined
def claim(locks: Array, at: int, seen: int) -> bool:
    """Lock a node if it still has the version ``seen``; returns whether it had."""
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
        node, height = forest.fact(f, tree, forest.ROOT), forest.fact(f, tree, forest.HEIGHT)
        sound = unchanged(locks, tree, top)
        level = 0
        while sound and level < height:
            seen = version(f.inner_locks, node)
            child = f.children[node, min(forest.count_below(f.seps, node, key), f.shape[1] - 1)]
            # Take the child's version while its parent still leads to it.
            sound = unchanged(f.inner_locks, node, seen)
            node = child
            level += 1
        if sound:
            return node, version(f.leaf_locks, node)


@inlined
def collect(
    f: Forest, locks: Array, tree: int, low: int, high: int, first: int, last: int, cursor: Array,
    own: int, filled: int, positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(own, id)`` of rows inside; returns the new fill, or FULL with ``cursor`` set.

    Resuming from a cursor is for a single thread: rows must not have moved meanwhile.

    A node that was split after its parent was read has lost rows to the right only, so the chain
    leads to them; the first leaves on the way may hold only smaller keys. A leaf that changes while
    it is read is read again.
    """
    if cursor[1] >= 0:
        leaf, seen = cursor[1], version(f.leaf_locks, cursor[1])
    else:
        leaf, seen = reach(f, locks, tree, low)
    resumed = cursor[1] >= 0
    while True:
        here, ended, overflow = filled, False, False
        size = f.sizes[leaf]
        slot = min(forest.count_below(f.keys, leaf, low), size)
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
            here = forest.emit(own, row, first, last, here, positions, rows)
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
def insert_row(f: Forest, locks: Array, tree: int, key: int, row: int) -> None:
    """Insert a row. The arena must have nodes for a split at every level."""
    while not attempt(f, locks, tree, key, row):
        pass


@inlined
def attempt(f: Forest, locks: Array, tree: int, key: int, row: int) -> bool:
    """One descent; False when another thread was in the way, or a node had to be split."""
    arena = forest.fact(f, tree, forest.ARENA)
    top = version(locks, tree)
    node, height = forest.fact(f, tree, forest.ROOT), forest.fact(f, tree, forest.HEIGHT)
    if not unchanged(locks, tree, top):
        return False
    # What leads to the node: its parent, or the tree's entry if the node is the root.
    above, at, above_seen, parent, place = locks, tree, top, -1, 0
    for _ in range(height):
        seen = version(f.inner_locks, node)
        if not unchanged(above, at, above_seen):
            return False
        if f.widths[node] >= f.shape[1]:
            if claim(above, at, above_seen):
                claimed = claim(f.inner_locks, node, seen)
                if claimed:
                    right, sep = forest.split_inner(f, arena, node, (f.shape[1] + 1) // 2)
                    hang(f, tree, parent, place, node, right, sep, height)
                    release(f.inner_locks, node, seen, True)
                release(above, at, above_seen, claimed)
            return False
        c = forest.count_upto(f.seps, node, key, f.widths[node] - 1)
        child = f.children[node, max(c, 0)]
        if not unchanged(f.inner_locks, node, seen):
            return False
        above, at, above_seen, parent, place, node = f.inner_locks, node, seen, node, c, child
    seen = version(f.leaf_locks, node)
    if not unchanged(above, at, above_seen):
        return False
    if f.sizes[node] >= f.shape[0]:
        if claim(above, at, above_seen):
            claimed = claim(f.leaf_locks, node, seen)
            if claimed:
                right = forest.split_leaf(f, arena, node, (f.shape[0] + 1) // 2)
                hang(f, tree, parent, place, node, right, f.keys[right, 0], height)
                release(f.leaf_locks, node, seen, True)
            release(above, at, above_seen, claimed)
        return False
    if not claim(f.leaf_locks, node, seen):
        return False
    forest.put_row(f, node, forest.count_upto(f.keys, node, key, f.sizes[node]), key, row)
    release(f.leaf_locks, node, seen, True)
    return True


@inlined
def hang(
    f: Forest, tree: int, parent: int, place: int, left: int, right: int, sep: int, height: int
) -> None:
    """Put a new right neighbour into the parent, or both under a new root. All of them are locked.

    The parent has room: full nodes are split on the way down.
    """
    if parent >= 0:
        forest.put_child(f, parent, place, sep, right)
    else:
        forest.new_root(f, tree, left, right, sep, height)


@inlined
def delete_row(f: Forest, locks: Array, tree: int, key: int, row: int) -> bool:
    """Delete the row with this key and id; returns whether it was there. Never joins leaves."""
    leaf, _ = reach(f, locks, tree, key)
    while leaf >= 0:
        seen = version(f.leaf_locks, leaf)
        if not claim(f.leaf_locks, leaf, seen):
            continue
        size = f.sizes[leaf]
        slot = min(forest.count_below(f.keys, leaf, key), size)
        while slot < size and f.keys[leaf, slot] == key and f.ids[leaf, slot] != row:
            slot += 1
        if slot < size and f.keys[leaf, slot] == key:
            forest.drop_row(f, leaf, slot)
            release(f.leaf_locks, leaf, seen, True)
            return True
        beyond, following = slot < size, f.nexts[leaf]
        release(f.leaf_locks, leaf, seen, False)
        if beyond:
            return False
        leaf = following
    return False
