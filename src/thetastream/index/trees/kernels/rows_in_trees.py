"""Batch loops over a ``Store``, called by the index classes: insert, delete, probe, merge."""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import N, V, kernel
from thetastream.index.trees.kernels import css, forest, store
from thetastream.index.trees.kernels.store import STORE, Store


@kernel((STORE, N, V, V, V, V))
def insert_rows(st: Store, side: int, keys: Array, ids: Array, cursor: Array, path: Array) -> int:
    """Insert rows from ``cursor[0]`` on.

    Returns DONE when all are in, or when it is time to merge or roll (``YOUNG`` has reached
    ``LIMIT``; the cursor is then inside), and NO_NODES when nodes are short.
    """
    at = side * store.SIDE_SIZE
    while cursor[0] < keys.size:
        if st.sides[at + store.YOUNG] >= st.sides[at + store.LIMIT]:
            return store.DONE
        key, row = keys[cursor[0]], ids[cursor[0]]
        if not store.ready(st, side, row, 1):
            return store.NO_NODES
        store.put(st, side, key, row, path, False)
        st.sides[at + store.YOUNG] += 1
        st.sides[at + store.ACTIVE] = max(st.sides[at + store.ACTIVE], row)
        cursor[0] += 1
    return store.DONE


@kernel((STORE, N, V, V, V))
def delete_rows(st: Store, side: int, keys: Array, ids: Array, path: Array) -> int:
    """Delete rows one by one; returns how many were there."""
    deleted = 0
    for i in range(keys.size):
        deleted += store.remove(st, side, keys[i], ids[i], path)
    return deleted


@kernel((STORE, N, V, V, V, N, V, V))
def probe_rows(
    st: Store, side: int, lows: Array, highs: Array, cursor: Array, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the live rows inside each interval; returns the new fill.

    Full arrays end the call with ``cursor`` (part, place, slot, box) where to continue.
    """
    before = st.sides[side * store.SIDE_SIZE + store.BEFORE]
    while cursor[3] < lows.size:
        box = cursor[3]
        if lows[box] <= highs[box]:
            now = store.collect(
                st, side, lows[box], highs[box], before, MOST, cursor, box, filled,
                positions, rows, False,
            )  # fmt: skip
            if now < 0:
                return positions.size
            filled = now
        cursor[0] = 0
        cursor[1] = -1
        cursor[2] = 0
        cursor[3] += 1
    return filled


@kernel((STORE, N, V, V))
def dump_rows(st: Store, side: int, keys: Array, ids: Array) -> int:
    """Write the live rows of a side, run by run and tree by tree; returns their number.

    With empty arrays, it only counts them.
    """
    before, k = st.sides[side * store.SIDE_SIZE + store.BEFORE], 0
    wanted = keys.size > 0
    for part in range(store.run_count(st, side)):
        run = store.run_at(st, side, part)
        for p in range(css.fact(st.runs, run, css.START), css.end_of(st.runs, run)):
            if st.runs.ids[p] >= before:
                if wanted:
                    keys[k] = st.runs.keys[p]
                    ids[k] = st.runs.ids[p]
                k += 1
    for part in range(store.tree_count(st, side)):
        leaf = forest.first_leaf(st.forest, store.tree_at(st, side, part))
        while leaf >= 0:
            for slot in range(st.forest.sizes[leaf]):
                if st.forest.ids[leaf, slot] >= before:
                    if wanted:
                        keys[k] = st.forest.keys[leaf, slot]
                        ids[k] = st.forest.ids[leaf, slot]
                    k += 1
            leaf = st.forest.nexts[leaf]
    return k


@kernel((STORE, N, N))
def merge_side(st: Store, side: int, target: int) -> int:
    """Merge trees and run into run ``target`` (Section 3.2), which becomes the run of the side."""
    at = side * store.SIDE_SIZE
    run = st.sides[at + store.RUNS_FIRST]
    status = store.merge_rows(st, side, run, target)
    if status == store.DONE:
        st.sides[at + store.RUNS_FIRST] = target
        st.sides[at + store.RUNS_LOW] = 0
        st.sides[at + store.RUNS_HIGH] = 1
        status = store.reset_young(st, side)
    return status


@kernel((STORE, N))
def empty_trees(st: Store, side: int) -> int:
    """Make all trees of a side empty."""
    return store.reset_young(st, side)


@kernel((STORE, N))
def archive(st: Store, side: int) -> int:
    """Chain: archive the active subindex."""
    return store.roll(st, side)


@kernel((STORE, N))
def forget_expired(st: Store, side: int) -> int:
    """Chain: release the subindexes that have expired entirely."""
    store.drop_expired(st, side)
    return store.DONE


@kernel((STORE, N))
def plant_tree(st: Store, tree: int) -> int:
    """Make one tree empty, and its arena with it."""
    forest.plant(st.forest, tree)
    return store.DONE


@kernel((STORE, N))
def build_run(st: Store, run: int) -> int:
    """Make the directory of a run."""
    css.build(st.runs, run)
    return store.DONE
