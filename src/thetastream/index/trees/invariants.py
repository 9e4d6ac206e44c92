"""Asserts the invariants of trees and runs in a pool. For tests: plain Python, node by node."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from thetastream._jit.arrays import LEAST, MOST
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pool import Pool


def check_pool(pool: Pool, side: int) -> None:
    """Assert that every tree and run of a side is sound."""
    facts = pool.side(side)
    for number in range(facts[layout.RUNS_LOW], facts[layout.RUNS_HIGH]):
        _check_run(pool, int(facts[layout.RUNS_FIRST] + number % facts[layout.RUNS_SLOTS]))
    rows = 0
    if facts[layout.MODE] == layout.PARTED:
        rows = _check_parts(pool, side)
    else:
        for number in range(facts[layout.TREES_LOW], facts[layout.TREES_HIGH]):
            tree = int(facts[layout.TREES_FIRST] + number % facts[layout.TREES_SLOTS])
            leaves = _check_tree(pool, tree, LEAST, MOST)
            assert facts[layout.MODE] == layout.OPTIMISTIC or _none_empty(pool, leaves)
            rows += sum(int(pool.store.forest.sizes[leaf]) for leaf in leaves)
            assert pool.store.forest.nexts[leaves[-1]] == -1, "the last leaf ends the chain"
    if facts[layout.MODE] != layout.CHAIN and facts[layout.LIMIT] < 2**62:
        assert rows == facts[layout.YOUNG], "rows in the trees are counted"
    if pool.recipes[side].arenas:
        _check_arenas(pool, side)
    locks = [pool.store.locks, pool.store.forest.leaf_locks, pool.store.forest.inner_locks]
    assert not any((held & 1).any() for held in locks), "no lock is held"


def _check_run(pool: Pool, run: int) -> None:
    facts, runs = pool.run(run), pool.store.runs
    start, count = int(facts[css.START]), int(facts[css.COUNT])
    fanout, leaf, stride = (int(number) for number in runs.shape)
    keys = runs.keys[start : start + count]
    assert 0 <= count <= facts[css.ROOM]
    assert np.all(keys[:-1] <= keys[1:]), "keys of a run ascend"
    levels = int(facts[css.LEVELS])
    leaves = max(1, -(-count // leaf))
    assert facts[css.NODES + levels] == leaves
    for level in range(levels):
        base = int(facts[css.DIRECTORY] + facts[css.OFFSETS + level])
        below, step = int(facts[css.NODES + level + 1]), int(facts[css.SPAN + level + 1]) * leaf
        nodes = int(facts[css.NODES + level])
        assert nodes == -(-below // fanout)
        for node in range(nodes):
            for j in range(stride):
                child = node * fanout + j
                last = j >= fanout - 1 or child + 1 >= below
                expected = MOST if last else keys[(child + 1) * step - 1]
                found = runs.directory[base + node * stride + j]
                assert found == expected, "a separator is its child's last key"
    assert levels == 0 or facts[css.NODES] == 1


def _check_tree(pool: Pool, tree: int, low: int, high: int) -> list[int]:
    """Assert one tree; returns its leaves from left to right."""
    f = pool.store.forest
    root, height = (int(f.trees[tree * forest.TREE_SIZE + n]) for n in (forest.ROOT, forest.HEIGHT))
    leaves: list[int] = []
    _check_node(pool, root, height, low, high, leaves)
    for left, right in pairwise(leaves):
        assert f.nexts[left] == right, "leaves are chained in order"
    if height:
        assert f.widths[root] >= 2, "a root that is not a leaf has two children"
    return leaves


def _none_empty(pool: Pool, leaves: list[int]) -> bool:
    """No leaf but a root is empty."""
    return len(leaves) == 1 or all(pool.store.forest.sizes[leaf] > 0 for leaf in leaves)


def _check_node(pool: Pool, node: int, height: int, low: int, high: int, leaves: list[int]) -> None:
    f = pool.store.forest
    if height == 0:
        size = int(f.sizes[node])
        keys = f.keys[node, :size]
        assert np.all(keys[:-1] <= keys[1:]) and (not size or low <= keys[0] <= keys[-1] <= high)
        if size:
            assert np.all(f.keys[node, size:] == MOST), "free slots hold the largest integer"
        leaves.append(node)
        return
    width = int(f.widths[node])
    assert f.ranks[node] == height - 1 and width >= 1
    seps = [int(sep) for sep in f.seps[node, : width - 1]]
    assert seps == sorted(seps) and np.all(f.seps[node, width - 1 :] == MOST)
    edges = [low, *seps, high]
    for child in range(width):
        bounds = max(low, edges[child]), min(high, edges[child + 1])
        _check_node(pool, int(f.children[node, child]), height - 1, *bounds, leaves)


def _check_parts(pool: Pool, side: int) -> int:
    """The subindexes of a PIM-Tree: each in its range of T_S, all in one chain."""
    f, facts = pool.store.forest, pool.side(side)
    run, depth = int(facts[layout.RUNS_FIRST]), int(facts[layout.DEPTH])
    parts = int(pool.run(run)[css.NODES + depth])
    step = int(pool.run(run)[css.SPAN + depth]) * int(pool.store.runs.shape[1])
    start = int(pool.run(run)[css.START])
    first = int(facts[layout.TREES_FIRST])
    heads = int(pool.arena(pool.arenas_of(side)[0])[forest.LEAF_FIRST])
    chain: list[int] = []
    low = LEAST
    for part in range(parts):
        high = (
            MOST if part + 1 == parts else int(pool.store.runs.keys[start + (part + 1) * step - 1])
        )
        leaves = _check_tree(pool, first + part, low, high)
        assert leaves[0] == heads + part, "the first leaf of a subindex is its head"
        chain += leaves
        low = high
    for left, right in pairwise(chain):
        assert f.nexts[left] == right, "leaf chains are linked across subindexes"
    assert f.nexts[chain[-1]] == -1
    return sum(int(f.sizes[leaf]) for leaf in chain)


def _check_arenas(pool: Pool, side: int) -> None:
    """Nodes in trees and nodes in lists of freed ones are all that was taken, each once."""
    f, facts = pool.store.forest, pool.side(side)
    trees = range(facts[layout.TREES_LOW], facts[layout.TREES_HIGH])
    if facts[layout.MODE] == layout.PARTED:
        run = pool.run(int(facts[layout.RUNS_FIRST]))
        trees = range(run[css.NODES + facts[layout.DEPTH]])
    leaves: dict[int, list[int]] = {}
    inners: dict[int, list[int]] = {}
    for number in trees:
        tree = int(facts[layout.TREES_FIRST] + number % facts[layout.TREES_SLOTS])
        own = f.trees[tree * forest.TREE_SIZE :]
        arena, level = int(own[forest.ARENA]), [int(own[forest.ROOT])]
        for _ in range(own[forest.HEIGHT]):
            inners.setdefault(arena, []).extend(level)
            level = [int(child) for node in level for child in f.children[node, : f.widths[node]]]
        leaves.setdefault(arena, []).extend(level)
    for arena in leaves:
        row = pool.arena(arena)
        for first, top, end, free, held, link in (
            (forest.LEAF_FIRST, forest.LEAF_TOP, forest.LEAF_END, forest.LEAF_FREE,
             leaves[arena], f.nexts),
            (forest.INNER_FIRST, forest.INNER_TOP, forest.INNER_END, forest.INNER_FREE,
             inners.get(arena, []), f.children[:, 0]),
        ):  # fmt: skip
            assert row[first] <= row[top] <= row[end]
            node = int(row[free])
            while node >= 0 and len(held) <= row[top] - row[first]:
                held.append(node)
                node = int(link[node])
            assert sorted(held) == list(range(row[first], row[top])), "no node is lost or shared"
