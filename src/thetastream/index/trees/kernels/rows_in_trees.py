"""Batch loops over a ``Store``, called by the index classes: insert, delete, probe, merge."""

from __future__ import annotations

from thetastream._jit.arrays import MOST, Array
from thetastream._jit.compiling import kernel
from thetastream.index.trees.kernels.css import COUNT, RUN_SIZE, START, build
from thetastream.index.trees.kernels.forest import first_leaf, plant
from thetastream.index.trees.kernels.store import (
    ACTIVE,
    BEFORE,
    DONE,
    LIMIT,
    MODE,
    NO_NODES,
    PARTED,
    RUNS_FIRST,
    RUNS_HIGH,
    RUNS_LOW,
    RUNS_SLOTS,
    SIDE_SIZE,
    STORE,
    TREES_FIRST,
    TREES_HIGH,
    TREES_LOW,
    TREES_SLOTS,
    YOUNG,
    N,
    Store,
    V,
    collect,
    drop_expired,
    merge_rows,
    put,
    put_parted,
    ready,
    remove,
    reset_young,
    roll,
)


@kernel((STORE, N, V, V, V, V))
def insert_rows(st: Store, side: int, keys: Array, ids: Array, cursor: Array, path: Array) -> int:
    """Insert rows from ``cursor[0]`` on.

    Returns DONE when all are in, or when it is time to merge or roll (``YOUNG`` has reached
    ``LIMIT``; the cursor is then inside), and NO_NODES when nodes are short.
    """
    at = side * SIDE_SIZE
    while cursor[0] < keys.size:
        if st.sides[at + YOUNG] >= st.sides[at + LIMIT]:
            return DONE
        key, row = keys[cursor[0]], ids[cursor[0]]
        if not ready(st, side, row, 1):
            return NO_NODES
        if st.sides[at + MODE] == PARTED:
            put_parted(st, side, key, row, path, False)
        else:
            put(st, side, key, row, path)
        st.sides[at + YOUNG] += 1
        st.sides[at + ACTIVE] = max(st.sides[at + ACTIVE], row)
        cursor[0] += 1
    return DONE


@kernel((STORE, N, V, V, V))
def delete_rows(st: Store, side: int, keys: Array, ids: Array, path: Array) -> int:
    """Delete rows one by one; returns how many were there."""
    deleted = 0
    for i in range(keys.size):
        deleted += remove(st, side, keys[i], ids[i], path)
    return deleted


@kernel((STORE, N, V, V, V, N, V, V))
def probe_rows(
    st: Store, side: int, lows: Array, highs: Array, cursor: Array, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the live rows inside each interval; returns the new fill.

    Full arrays end the call with ``cursor`` (part, place, slot, box) where to continue.
    """
    before = st.sides[side * SIDE_SIZE + BEFORE]
    while cursor[3] < lows.size:
        box = cursor[3]
        if lows[box] <= highs[box]:
            now = collect(
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
    at = side * SIDE_SIZE
    before, k, wanted = st.sides[at + BEFORE], 0, keys.size > 0
    for number in range(st.sides[at + RUNS_LOW], st.sides[at + RUNS_HIGH]):
        run = st.sides[at + RUNS_FIRST] + number % st.sides[at + RUNS_SLOTS]
        start, count = st.runs.facts[run * RUN_SIZE + START], st.runs.facts[run * RUN_SIZE + COUNT]
        for p in range(start, start + count):
            if st.runs.ids[p] >= before:
                if wanted:
                    keys[k] = st.runs.keys[p]
                    ids[k] = st.runs.ids[p]
                k += 1
    for number in range(st.sides[at + TREES_LOW], st.sides[at + TREES_HIGH]):
        tree = st.sides[at + TREES_FIRST] + number % st.sides[at + TREES_SLOTS]
        leaf = first_leaf(st.forest, tree)
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
    at = side * SIDE_SIZE
    run = st.sides[at + RUNS_FIRST]
    status = merge_rows(st, side, run, target)
    if status == DONE:
        st.sides[at + RUNS_FIRST] = target
        st.sides[at + RUNS_LOW] = 0
        st.sides[at + RUNS_HIGH] = 1
        status = reset_young(st, side)
    return status


@kernel((STORE, N))
def empty_trees(st: Store, side: int) -> int:
    """Make all trees of a side empty."""
    return reset_young(st, side)


@kernel((STORE, N))
def archive(st: Store, side: int) -> int:
    """Chain: archive the active subindex."""
    return roll(st, side)


@kernel((STORE, N))
def forget_expired(st: Store, side: int) -> int:
    """Chain: release the subindexes that have expired entirely."""
    drop_expired(st, side)
    return DONE


@kernel((STORE, N))
def plant_tree(st: Store, tree: int) -> int:
    """Make one tree empty, and its arena with it."""
    plant(st.forest, tree)
    return DONE


@kernel((STORE, N))
def build_run(st: Store, run: int) -> int:
    """Make the directory of a run."""
    build(st.runs, run)
    return DONE
