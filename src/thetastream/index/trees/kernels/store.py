"""One window index in arrays, whatever its structure: trees that take inserts, and sorted runs.

All structures of the PIM-Tree paper consist of a forest of B⁺-trees and immutable runs with a
directory, so one set of loops serves all of them. A *side* is one index; its row of ``sides``
describes its parts:

    structure     mode      trees searched           runs searched         expiry
    b+tree        SINGLE    one                      none                  row by row
    round-robin   ROBIN     P, a row goes to id % P  none                  row by row
    B-chain       CHAIN     L, the last is active    none                  whole trees
    IB-chain      CHAIN     the active one           L - 1 (room for L)    whole runs
    im-tree       SINGLE    T_I                      T_S                   while merging
    pim-tree      PARTED    the subindexes touched   T_S                   while merging
    optimistic    OPTIMISTIC one, without locks       none                  row by row
    css-tree      SINGLE    none                     one                   while merging

Ids are arrival numbers, so "expired" is a comparison with ``BEFORE``; the paper looks up a flag in
the sliding window (Section 3.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thetastream._jit.arrays import Array, i64, u64
from thetastream._jit.atomics import lock, unlock
from thetastream._jit.compiling import V, inlined, named
from thetastream.index.trees.kernels import css, forest, optimistic
from thetastream.index.trees.kernels.css import Runs
from thetastream.index.trees.kernels.forest import FOREST, Forest

SINGLE, ROBIN, PARTED, CHAIN, SCAN, OPTIMISTIC = 0, 1, 2, 3, 4, 5

# A row of ``sides``. Trees and runs searched: numbers ``low … high``, each at ``first + number %
# slots`` of its table, so that a chain can move on in a ring.
MODE, TREES_FIRST, TREES_LOW, TREES_HIGH, TREES_SLOTS = 0, 1, 2, 3, 4
RUNS_FIRST, RUNS_LOW, RUNS_HIGH, RUNS_SLOTS = 5, 6, 7, 8
YOUNG = 9  # rows inserted since the last merge, or into the active tree of a chain
LIMIT = 10  # YOUNG at which to merge, or to open the next tree of the chain
BEFORE = 11  # rows below have expired
DEPTH, ASKED_DEPTH = 12, 13  # where subindexes are attached now; the requested depth
IMMUTABLE = 14  # chain: 1 when archived subindexes are runs
DELETED = 15  # rows below were deleted one by one
LOCKS_FIRST = 16
PLAIN_LIMIT = 18  # the least LIMIT; of a chain, when its oldest subindex need not expire first
SHARE = 19  # LIMIT as a share of a run that outgrew its window, in units of 1 / WHOLE; 0 if fixed
MERGES, MERGED = 20, 21  # merges so far, and the rows they wrote
ACTIVE = 17  # chain: the last id of subindex number n is in ``lasts``; of the active one, here
SIDE_SIZE = 24
WHOLE = 1 << 20

# The status of a call.
DONE, FULL, NO_NODES, NO_ROOM, NO_SLOT = 0, -1, -2, -3, -4
NO_HEADS = -5  # merged, but there are too few leaves for the heads of the emptied trees


class Store(NamedTuple):
    """The arrays of one or two sides."""

    forest: Forest
    runs: Runs
    sides: Array
    lasts: Array  # chain: the last id of each archived subindex, by slot
    locks: Array  # one per subindex; the versions of optimistic trees' roots


STORE = named(Store, FOREST, named(Runs, V, V, V, V, V), V, V, V)


# --- Parts ---------------------------------------------------------------------------------------


@inlined
def run_at(st: Store, side: int, part: int) -> int:
    """Run number ``part`` of those that a side searches."""
    at = side * SIDE_SIZE
    number = st.sides[at + RUNS_LOW] + part
    return st.sides[at + RUNS_FIRST] + number % st.sides[at + RUNS_SLOTS]


@inlined
def tree_at(st: Store, side: int, part: int) -> int:
    """Tree number ``part`` of those that a side searches."""
    at = side * SIDE_SIZE
    number = st.sides[at + TREES_LOW] + part
    return st.sides[at + TREES_FIRST] + number % st.sides[at + TREES_SLOTS]


@inlined
def run_count(st: Store, side: int) -> int:
    """How many runs a side searches."""
    return st.sides[side * SIDE_SIZE + RUNS_HIGH] - st.sides[side * SIDE_SIZE + RUNS_LOW]


@inlined
def tree_count(st: Store, side: int) -> int:
    """How many trees a side searches."""
    return st.sides[side * SIDE_SIZE + TREES_HIGH] - st.sides[side * SIDE_SIZE + TREES_LOW]


@inlined
def first_head(st: Store, side: int) -> int:
    """The head of the first subindex of a PIM-Tree: the first leaf of its arena."""
    arena = forest.fact(st.forest, st.sides[side * SIDE_SIZE + TREES_FIRST], forest.ARENA)
    return st.forest.arenas[arena * forest.ARENA_SIZE + forest.LEAF_FIRST]


# --- Search --------------------------------------------------------------------------------------


@inlined
def collect(
    st: Store, side: int, low: int, high: int, first: int, last: int, cursor: Array, own: int,
    filled: int, positions: Array, rows: Array, locked: bool,
) -> int:  # fmt: skip
    """Append ``(own, id)`` of rows with a key in ``[low, high]`` and an id in ``[first, last)``.

    Returns the new fill, or FULL with ``cursor`` (part, place, slot) where to continue; it starts
    at (0, -1, 0). Parts are the runs, then the trees. ``locked``: other threads insert meanwhile.
    """
    at = side * SIDE_SIZE
    runs = run_count(st, side)
    mode, depth, sub = st.sides[at + MODE], st.sides[at + DEPTH], 0
    room, part = positions.size, cursor[0]
    if mode == PARTED:
        sub = css.descend(st.runs, st.sides[at + RUNS_FIRST], low, depth)
    while part < runs:
        run = run_at(st, side, part)
        p = u64(cursor[1])
        if cursor[1] < 0:
            if mode == PARTED:
                p = u64(css.find_row(st.runs, run, low, sub, depth))
            else:
                p = u64(css.find_row(st.runs, run, low, 0, 0))
        end = u64(css.end_of(st.runs, run))
        while p < end and st.runs.keys[p] <= high:
            if filled == room:
                cursor[0] = part
                cursor[1] = i64(p)
                return FULL
            filled = forest.emit(own, st.runs.ids[p], first, last, filled, positions, rows)
            p += u64(1)
        cursor[1] = -1
        part += 1
    if mode == PARTED:
        filled = collect_parts(
            st, side, sub, low, high, first, last, cursor, own, filled, positions, rows, locked
        )
        if filled == FULL:
            cursor[0] = part
        return filled
    if mode == OPTIMISTIC:
        return optimistic.collect(
            st.forest, st.locks, st.sides[at + TREES_FIRST], low, high, first, last, cursor, own,
            filled, positions, rows,
        )  # fmt: skip
    trees = tree_count(st, side)
    while part < runs + trees:
        leaf, slot = cursor[1], cursor[2]
        if leaf < 0:
            leaf = forest.find_leaf(st.forest, tree_at(st, side, part - runs), low)
            slot = forest.count_below(st.forest.keys, leaf, low)
        while leaf >= 0:
            if slot >= st.forest.sizes[leaf]:
                leaf = st.forest.nexts[leaf]
                slot = 0
                continue
            if st.forest.keys[leaf, slot] > high:
                break
            if filled == room:
                cursor[0] = part
                cursor[1] = leaf
                cursor[2] = slot
                return FULL
            filled = forest.emit(
                own, st.forest.ids[leaf, slot], first, last, filled, positions, rows
            )
            slot += 1
        cursor[1] = -1
        part += 1
    return filled


@inlined
def collect_parts(
    st: Store, side: int, sub: int, low: int, high: int, first: int, last: int, cursor: Array,
    own: int, filled: int, positions: Array, rows: Array, locked: bool,
) -> int:  # fmt: skip
    """Read the subindexes of a PIM-Tree (Appendix A.2) from that of ``low`` along the leaf chain.

    The number of a leaf tells whether it is the head of a subindex: heads are the first leaves of
    the arena. The reader locks the next subindex before it unlocks the one behind.
    """
    at = side * SIDE_SIZE
    f, run, depth = st.forest, st.sides[at + RUNS_FIRST], st.sides[at + DEPTH]
    locks, trees = st.sides[at + LOCKS_FIRST], st.sides[at + TREES_FIRST]
    heads = first_head(st, side)
    heads_end = heads + css.fact(st.runs, run, css.NODES + depth)
    room = positions.size
    if locked:
        lock(st.locks, locks + sub)
    leaf, slot = cursor[1], cursor[2]
    if leaf < 0:
        leaf = forest.find_leaf(f, trees + sub, low)
        slot = min(forest.count_below(f.keys, leaf, low), f.sizes[leaf])
    while True:
        if slot < f.sizes[leaf]:
            if f.keys[leaf, slot] > high:
                break
            if filled == room:
                cursor[1] = leaf
                cursor[2] = slot
                filled = FULL
                break
            filled = forest.emit(own, f.ids[leaf, slot], first, last, filled, positions, rows)
            slot += 1
            continue
        following = f.nexts[leaf]
        if following < 0:
            break
        if heads <= following < heads_end:
            if high <= css.bound_of(st.runs, run, sub, depth):
                break
            if locked:
                lock(st.locks, locks + sub + 1)
                unlock(st.locks, locks + sub)
            sub += 1
        leaf = following
        slot = 0
    if locked:
        unlock(st.locks, locks + sub)
    if filled != FULL:
        cursor[1] = -1
    return filled


# --- Insert, delete ------------------------------------------------------------------------------


@inlined
def tree_of(st: Store, side: int, row: int) -> int:
    """The tree that takes a row (not for PARTED)."""
    at = side * SIDE_SIZE
    if st.sides[at + MODE] == ROBIN:
        return st.sides[at + TREES_FIRST] + row % st.sides[at + TREES_SLOTS]
    newest = st.sides[at + TREES_HIGH] - 1
    return st.sides[at + TREES_FIRST] + newest % st.sides[at + TREES_SLOTS]


@inlined
def ready(st: Store, side: int, row: int, threads: int) -> bool:
    """Whether there are nodes left to insert a row."""
    tree = st.sides[side * SIDE_SIZE + TREES_FIRST]
    if st.sides[side * SIDE_SIZE + MODE] != PARTED:
        tree = tree_of(st, side, row)
    return forest.has_nodes(st.forest, forest.fact(st.forest, tree, forest.ARENA), threads)


@inlined
def put(st: Store, side: int, key: int, row: int, path: Array, locked: bool) -> None:
    """Insert a row. There must be nodes left. ``locked``: other threads insert meanwhile."""
    mode = st.sides[side * SIDE_SIZE + MODE]
    if mode == PARTED:
        put_parted(st, side, key, row, path, locked)
    elif mode == OPTIMISTIC:
        tree = st.sides[side * SIDE_SIZE + TREES_FIRST]
        optimistic.insert_row(st.forest, st.locks, tree, key, row)
    else:
        forest.insert_row(st.forest, tree_of(st, side, row), key, row, path)


@inlined
def put_parted(st: Store, side: int, key: int, row: int, path: Array, locked: bool) -> None:
    """Insert a row into a PIM-Tree (Appendix A.1): find its subindex in T_S, then insert there."""
    at = side * SIDE_SIZE
    sub = css.descend(st.runs, st.sides[at + RUNS_FIRST], key, st.sides[at + DEPTH])
    tree = st.sides[at + TREES_FIRST] + sub
    if locked:
        lock(st.locks, st.sides[at + LOCKS_FIRST] + sub)
    root = forest.fact(st.forest, tree, forest.ROOT)
    if st.forest.trees[tree * forest.TREE_SIZE + forest.HEIGHT] == 0 and st.forest.sizes[root] == 0:
        forest.clear_leaf(st.forest, root)
    forest.insert_row(st.forest, tree, key, row, path)
    if locked:
        unlock(st.locks, st.sides[at + LOCKS_FIRST] + sub)


@inlined
def remove(st: Store, side: int, key: int, row: int, path: Array) -> bool:
    """Delete a row from the tree that holds it (SINGLE, ROBIN and OPTIMISTIC)."""
    if st.sides[side * SIDE_SIZE + MODE] == OPTIMISTIC:
        tree = st.sides[side * SIDE_SIZE + TREES_FIRST]
        return optimistic.delete_row(st.forest, st.locks, tree, key, row)
    return forest.delete_row(st.forest, tree_of(st, side, row), key, row, path)


# --- Chains --------------------------------------------------------------------------------------


@inlined
def drop_expired(st: Store, side: int) -> None:
    """Chain: release the subindexes whose rows have all expired."""
    at = side * SIDE_SIZE
    low, high, slots = TREES_LOW, TREES_HIGH, TREES_SLOTS
    kept = 1
    if st.sides[at + IMMUTABLE]:
        low, high, slots, kept = RUNS_LOW, RUNS_HIGH, RUNS_SLOTS, 0
    while st.sides[at + high] - st.sides[at + low] > kept:
        slot = st.sides[at + low] % st.sides[at + slots]
        if st.lasts[side * (st.lasts.size // 2) + slot] >= st.sides[at + BEFORE]:
            return
        st.sides[at + low] += 1


@inlined
def roll(st: Store, side: int) -> int:
    """Chain: archive the active subindex and open an empty one (Section 2.2.2).

    Returns DONE, NO_SLOT when all places of the ring are taken, NO_ROOM when a run is too small.
    """
    at = side * SIDE_SIZE
    drop_expired(st, side)
    lasts = side * (st.lasts.size // 2)
    if not st.sides[at + IMMUTABLE]:
        slots = st.sides[at + TREES_SLOTS]
        if tree_count(st, side) >= slots:
            return NO_SLOT
        st.lasts[lasts + (st.sides[at + TREES_HIGH] - 1) % slots] = st.sides[at + ACTIVE]
        st.sides[at + TREES_HIGH] += 1
    else:
        slots = st.sides[at + RUNS_SLOTS]
        if run_count(st, side) >= slots:
            return NO_SLOT
        slot = st.sides[at + RUNS_HIGH] % slots
        run = st.sides[at + RUNS_FIRST] + slot
        if st.sides[at + YOUNG] > css.fact(st.runs, run, css.ROOM):
            return NO_ROOM
        st.runs.facts[run * css.RUN_SIZE + css.COUNT] = 0
        merge_rows(st, side, run, run)
        st.lasts[lasts + slot] = st.sides[at + ACTIVE]
        st.sides[at + RUNS_HIGH] += 1
    forest.plant(st.forest, tree_of(st, side, 0))
    st.sides[at + YOUNG] = 0
    st.sides[at + LIMIT] = st.sides[at + PLAIN_LIMIT]
    return DONE


# --- Merging -------------------------------------------------------------------------------------


@inlined
def alive(st: Store, run: int, before: int) -> int:
    """How many rows of a run are live."""
    start, stop, live = css.fact(st.runs, run, css.START), css.end_of(st.runs, run), 0
    for p in range(u64(start), u64(stop)):
        live += st.runs.ids[p] >= before
    return live


@inlined
def settle(st: Store, run: int, before: int) -> int:
    """Move the live rows of a run to the end of its region; returns where they begin."""
    keys, ids = st.runs.keys, st.runs.ids
    start = css.fact(st.runs, run, css.START)
    k = start + css.fact(st.runs, run, css.ROOM)
    for i in range(css.end_of(st.runs, run) - 1, start - 1, -1):
        row = ids[u64(i)]
        keys[u64(k - 1)] = keys[u64(i)]
        ids[u64(k - 1)] = row
        k -= row >= before
    return k


@inlined
def moved(keys: Array, ids: Array, i: np.uint64, k: np.uint64, before: int) -> np.uint64:
    """Write row ``i`` to place ``k``; returns 1, or 0 if it has expired (overwrite it)."""
    row = ids[i]
    keys[k] = keys[i]
    ids[k] = row
    return u64(row >= before)


@inlined
def merge_rows(st: Store, side: int, source: int, target: int) -> int:
    """Merge the live rows of run ``source`` and of the trees into run ``target``.

    ``target`` may be ``source``: its live rows then move to the end of the region first, and the
    merge writes from the beginning, never past what it has read, as all rows fit. Returns DONE, or
    NO_ROOM with nothing changed. The trees stay as they are.
    """
    at = side * SIDE_SIZE
    before, young = st.sides[at + BEFORE], st.sides[at + YOUNG]
    f, keys, ids = st.forest, st.runs.keys, st.runs.ids
    if alive(st, source, before) + young > css.fact(st.runs, target, css.ROOM):
        return NO_ROOM
    one = u64(1)
    i = u64(css.fact(st.runs, source, css.START))
    stop = i + u64(css.fact(st.runs, source, css.COUNT))
    if source == target:
        stop = i + u64(css.fact(st.runs, source, css.ROOM))
        i = u64(settle(st, source, before))
    k = u64(css.fact(st.runs, target, css.START))
    if st.sides[at + MODE] == PARTED:
        leaf = first_head(st, side)
    else:
        leaf = forest.first_leaf(f, tree_of(st, side, 0))
    while leaf >= 0:
        for slot in range(f.sizes[leaf]):
            bound, young_row = f.keys[leaf, slot], f.ids[leaf, slot]
            while i < stop and keys[i] <= bound:
                k += moved(keys, ids, i, k, before)
                i += one
            if young_row >= before:
                keys[k] = bound
                ids[k] = young_row
                k += one
        leaf = f.nexts[leaf]
    while i < stop:
        k += moved(keys, ids, i, k, before)
        i += one
    start = css.fact(st.runs, target, css.START)
    st.runs.facts[target * css.RUN_SIZE + css.COUNT] = i64(k) - start
    css.build(st.runs, target)
    st.sides[at + MERGES] += 1
    st.sides[at + MERGED] += i64(k) - start
    return DONE


@inlined
def ready_parts(st: Store, side: int, run: int) -> int:
    """Set the depth at which a PIM-Tree over this run has its subindexes; returns their number."""
    at = side * SIDE_SIZE
    depth = css.fact(st.runs, run, css.LEVELS) - 1
    if st.sides[at + ASKED_DEPTH] >= 0:
        depth = min(st.sides[at + ASKED_DEPTH], css.fact(st.runs, run, css.LEVELS))
    st.sides[at + DEPTH] = max(depth, 0)
    return css.fact(st.runs, run, css.NODES + st.sides[at + DEPTH])


@inlined
def reset_young(st: Store, side: int) -> int:
    """Empty the trees after a merge; for PARTED, one empty subindex per node of T_S at the depth.

    Where the run has clearly more rows than its window was expected to have, T_I grows along.

    Heads are cleared when their first row comes, so this costs a few words per subindex. Returns
    NO_NODES when there are too few leaves for the heads; the caller must then enlarge the store and
    repeat the call.
    """
    at = side * SIDE_SIZE
    f = st.forest
    st.sides[at + YOUNG] = 0
    plain, run = st.sides[at + PLAIN_LIMIT], st.sides[at + RUNS_FIRST]
    share = css.fact(st.runs, run, css.COUNT) * st.sides[at + SHARE] // WHOLE
    st.sides[at + LIMIT] = share if share > plain + plain // 8 else plain
    if st.sides[at + MODE] != PARTED:
        forest.plant(f, tree_of(st, side, 0))
        return DONE
    tree = st.sides[at + TREES_FIRST]
    parts = ready_parts(st, side, run)
    arena = forest.fact(f, tree, forest.ARENA)
    heads = first_head(st, side)
    forest.clear_arena(f, arena, parts)
    if not forest.has_nodes(f, arena, 1) or parts > st.sides[at + TREES_SLOTS]:
        return NO_NODES
    for sub in range(parts):
        head = heads + sub
        f.sizes[head] = 0
        f.nexts[head] = head + 1 if sub + 1 < parts else -1
        f.trees[(tree + sub) * forest.TREE_SIZE + forest.ROOT] = head
        f.trees[(tree + sub) * forest.TREE_SIZE + forest.HEIGHT] = 0
        f.trees[(tree + sub) * forest.TREE_SIZE + forest.ARENA] = arena
    return DONE
