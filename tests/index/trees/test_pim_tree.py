"""The PIM-Tree: subindexes along T_S, at every depth, evenly filled, linked, and not too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index import create
from thetastream.index.trees.im_tree import ImTree
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.pim_tree import PimTree

from ...keys import HIGH, LOW, Array
from .small_pools import run_rows

SMALL: dict[str, Any] = {"slots": 2, "fanout": 3, "leaf": 1, "run_fanout": 2}


def parts(index: PimTree) -> list[list[int]]:
    """Keys per subindex, along the one leaf chain."""
    f, facts = index._pool.store.forest, index._facts
    count = int(index._pool.run(0)[css.NODES + facts[layout.DEPTH]])
    heads = int(index._pool.arena(0)[forest.LEAF_FIRST])
    found: list[list[int]] = []
    leaf = heads
    while leaf >= 0:
        if heads <= leaf < heads + count:
            found.append([])
        found[-1] += f.keys[leaf, : f.sizes[leaf]].tolist()
        leaf = int(f.nexts[leaf])
    assert len(found) == count, "every subindex is on the chain"
    return found


def test_the_picture_of_the_documentation() -> None:
    index = PimTree(capacity=15, merge_ratio=1, leaf=4, run_fanout=2)
    run = [3, 5, 6, 9, 14, 15, 15, 21, 40, 41, 50, 66, 71, 80, 93]
    index.insert(np.array(run), np.arange(15))
    assert [key for key, _ in run_rows(index._pool)] == run
    assert index._facts[layout.DEPTH] == 1
    index.insert(np.array([44, 4, 21, 90, 9]), np.arange(15, 20))
    assert parts(index) == [[4, 9, 21], [44, 90]]
    index.check()


@pytest.mark.parametrize("depth", [-1, 0, 1, 2, 3, 4, 5, 60])
@given(
    old=st.lists(st.one_of(st.integers(-9, 9), st.sampled_from([LOW, HIGH])), max_size=32),
    new=st.lists(st.one_of(st.integers(-9, 9), st.sampled_from([LOW, HIGH])), max_size=31),
)
def test_subindexes_take_the_ranges_of_their_nodes(
    depth: int, old: list[int], new: list[int]
) -> None:
    index = PimTree(capacity=32, merge_ratio=1, depth=depth, **SMALL)
    old += [0] * (32 - len(old))
    index.insert(np.array(old), np.arange(32))
    index.insert(np.array(new, np.int64), np.arange(32, 32 + len(new)))
    index.check()
    # 32 leaves of one row under five levels.
    at = 4 if depth < 0 else min(depth, 5)
    span = 32 >> at
    run = sorted(old)
    ends = [*run[span - 1 :: span][:-1], HIGH]
    wanted: list[list[int]] = [[] for _ in ends]
    for key in sorted(new):
        wanted[next(part for part, end in enumerate(ends) if key <= end)].append(key)
    assert parts(index) == wanted


@pytest.mark.parametrize("depth", [-1, 0, 1, 2, 7])
def test_merges_move_the_depth_along(depth: int) -> None:
    index = PimTree(capacity=4, merge_ratio=1, depth=depth, **SMALL)
    for row in range(150):
        index.insert(np.array([row * 13 % 37]), np.array([row]))
        index.check()
        levels = int(index._pool.run(0)[css.LEVELS])
        assert index._facts[layout.DEPTH] == (
            max(0, levels - 1) if depth < 0 else min(depth, levels)
        )
    assert levels >= 7


def skewed(name: str, count: int) -> Array:
    random = np.random.default_rng(5)
    keys = {
        "uniform": lambda: random.integers(0, 10**9, count),
        "gaussian": lambda: random.normal(0, 10**6, count),
        "gamma": lambda: random.gamma(3.0, 10**6, count),
        "exponential": lambda: 10**9 * np.exp(random.normal(0, 4, count)),
    }[name]()
    return keys.astype(np.int64)


@pytest.mark.parametrize("name", ["uniform", "gaussian", "gamma", "exponential"])
def test_subindexes_are_even_whatever_the_distribution(name: str) -> None:
    window = 1 << 14
    index = PimTree(capacity=window, merge_ratio=1)
    keys = skewed(name, 2 * window - 1)
    index.insert(keys[:window], np.arange(window))
    index.insert(keys[window:], np.arange(window, keys.size))
    sizes = [len(part) for part in parts(index)]
    assert len(sizes) == 32, "one per 16 leaves of 32 rows"
    assert max(sizes) < 2 * window / 32
    index.check()


def test_answers_across_many_subindexes() -> None:
    window = 1 << 12
    index = PimTree(capacity=window, leaf=4, run_fanout=4, merge_ratio=1 / 2)
    keys = np.random.default_rng(6).integers(0, 1000, 3 * window + 777)
    for at in range(0, keys.size, 500):
        index.insert(keys[at : at + 500], np.arange(at, min(at + 500, keys.size)))
        index.expire(at + 500 - window)
    index.check()
    first = keys.size // 500 * 500 + 500 - window
    for low, high in ((0, 999), (500, 500), (100, 700), (-5, 3), (990, HIGH), (LOW, 0)):
        for limit in (7, 5000):
            found = [
                row
                for _, ids in index.probe(np.array([low]), np.array([high]), limit=limit)
                for row in ids.tolist()
            ]
            live = np.flatnonzero((keys >= low) & (keys <= high))
            assert sorted(found) == live[live >= first].tolist()


def test_it_merges_when_an_im_tree_does() -> None:
    keys = np.random.default_rng(7).integers(0, 99, 500)
    both = [kind(capacity=60, merge_ratio=0.2, **SMALL) for kind in (ImTree, PimTree)]
    for at in range(0, 500, 17):
        for index in both:
            index.expire(at + 17 - 60)
            index.insert(keys[at : at + 17], np.arange(at, min(at + 17, 500)))
    assert both[0].statistics == both[1].statistics
    assert both[0].statistics["merges"] == 500 // 12
    for a, b in zip(both[0].dump(), both[1].dump(), strict=True):
        assert np.array_equal(a, b)


def slid(name: str, window: int, **parameters: Any) -> Any:
    index, random = create(name, capacity=window, **parameters), np.random.default_rng(8)
    for at in range(0, 3 * window, 1 << 12):
        index.expire(at + (1 << 12) - window)
        index.insert(random.integers(0, 2**40, 1 << 12), np.arange(at, at + (1 << 12)))
    assert len(index) == window
    return index


def test_bytes_against_the_b_plus_tree() -> None:
    """The paper's bound for m = 1 is twice a B⁺-tree; the ring that ours keeps does not count."""
    window = 1 << 16
    tree = slid("b+tree", window)._pool.nbytes
    assert slid("pim-tree", window, merge_ratio=1)._pool.nbytes <= 2 * tree
    assert slid("pim-tree", window)._pool.nbytes <= tree, "and the default is smaller"


def test_deeper_subindexes_take_more_bytes() -> None:
    sizes = [slid("pim-tree", 1 << 13, depth=depth).nbytes for depth in (0, 1, 2, 9)]
    assert sizes == sorted(sizes)
    assert sizes[-1] < 48 * (1 << 13)
