"""Recipes of trees and runs as small as can be, pools driven as the indexes do, what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import (
    archive,
    dump_rows,
    empty_trees,
    insert_rows,
    merge_side,
    probe_rows,
)
from thetastream.index.trees.pool import Pool, Recipe

from ...keys import Pair, drained, edges, int64

SMALLEST: dict[str, Any] = {
    "trees": 1,
    "tree_rows": 1,
    "slots": 2,
    "fanout": 3,
    "run_leaf": 1,
    "run_fanout": 2,
}


def small(mode: int, **settings: Any) -> Recipe:
    """A side whose pool begins with too few nodes, unless the settings say otherwise."""
    return Recipe(mode, **SMALLEST | settings)


def merged(mode: int, *, rows: int = 12, limit: int = 5, runs: int = 1, **settings: Any) -> Recipe:
    """T_I and T_S."""
    return small(mode, shared=True, runs=runs, run_rows=rows, limit=limit, **settings)


def chain(length: int, *, immutable: bool, limit: int = 4, **settings: Any) -> Recipe:
    shape = {"runs": length, "run_rows": limit} if immutable else {"trees": length}
    return small(layout.CHAIN, limit=limit, immutable=immutable, **shape | settings)


# --- Changes ------------------------------------------------------------------------------------


def insert(pool: Pool, side: int, keys: Sequence[int], first: int = 0) -> None:
    """Insert rows with ids from ``first`` on; grow, merge and archive when that is due."""
    array, ids, cursor = int64(keys), np.arange(first, first + len(keys)), np.zeros(1, np.int64)
    while cursor[0] < ids.size:
        if insert_rows(pool.store, side, array, ids, cursor, pool.path) == layout.NO_NODES:
            pool.grow_nodes(side)
        facts = pool.side(side)
        if facts[layout.YOUNG] < facts[layout.LIMIT]:
            continue
        if facts[layout.MODE] == layout.CHAIN:
            close(pool, side)
        else:
            merge(pool, side, int(facts[layout.RUNS_FIRST]))


def close(pool: Pool, side: int) -> None:
    """Archive the active subindex of a chain; without a place for it, it grows on."""
    facts = pool.side(side)
    young = int(facts[layout.YOUNG])
    while (status := archive(pool.store, side)) == layout.NO_ROOM:
        pool.grow_run(side, young)
    full = status == layout.NO_SLOT
    facts[layout.LIMIT] = young + 1 if full else pool.recipes[side].limit


def merge(pool: Pool, side: int, target: int) -> None:
    """Merge T_I into a run."""
    while (status := merge_side(pool.store, side, target)) == layout.NO_ROOM:
        pool.grow_run(side, pool.recipes[side].run_rows + 9)
    while status == layout.NO_NODES:
        pool.grow_nodes(side)
        status = empty_trees(pool.store, side)


# --- What is there ------------------------------------------------------------------------------


def dumped(pool: Pool, side: int = 0) -> list[Pair]:
    """Live rows (key, id), in the order of the dump."""
    count = dump_rows(pool.store, side, int64([]), int64([]))
    keys, ids = np.empty((2, count), np.int64)
    assert dump_rows(pool.store, side, keys, ids) == count
    return list(zip(keys.tolist(), ids.tolist(), strict=True))


def probed(pool: Pool, boxes: Sequence[Pair], room: int, side: int = 0) -> list[Pair]:
    """All pairs, read with ``room`` places at a time."""
    lows, highs = edges(boxes)
    return drained(
        lambda cursor, *out: probe_rows(pool.store, side, lows, highs, cursor, 0, *out),
        len(boxes),
        room,
        [0, -1, 0, 0],
        at=3,
    )


def leaves_of(pool: Pool, tree: int = 0) -> list[int]:
    """The leaves of a tree, from left to right."""
    f = pool.store.forest
    level = [int(f.trees[tree * forest.TREE_SIZE + forest.ROOT])]
    for _ in range(f.trees[tree * forest.TREE_SIZE + forest.HEIGHT]):
        level = [int(child) for node in level for child in f.children[node, : f.widths[node]]]
    return level


def tree_rows(pool: Pool, tree: int = 0) -> list[Pair]:
    """Rows (key, id) of a tree, expired ones too."""
    f = pool.store.forest
    return [
        row
        for leaf in leaves_of(pool, tree)
        for row in zip(
            f.keys[leaf, : f.sizes[leaf]].tolist(),
            f.ids[leaf, : f.sizes[leaf]].tolist(),
            strict=True,
        )
    ]


def run_rows(pool: Pool, run: int = 0) -> list[Pair]:
    """Rows (key, id) of a run, expired ones too."""
    facts, runs = pool.run(run), pool.store.runs
    part = slice(int(facts[css.START]), int(facts[css.START] + facts[css.COUNT]))
    return list(zip(runs.keys[part].tolist(), runs.ids[part].tolist(), strict=True))
