"""The classic B⁺-tree: rows go one by one, nodes are used again, bytes stay within bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index.trees.bplus_tree import BPlusTree
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels import store as layout

from ...keys import HIGH
from .small_pools import leaves_of, tree_rows


def held(index: BPlusTree) -> list[int]:
    """Ids in the leaves, whether they count as expired or not."""
    return [row for _, row in tree_rows(index._pool)]


def test_ascending_keys_make_full_leaves() -> None:
    index = BPlusTree(slots=4, fanout=3)
    keys = [3, 5, 9, 14, 40, 50, 66, 71, 80, 93]
    index.insert(np.array(keys), np.arange(10))
    index.check()
    f = index._pool.store.forest
    assert [f.keys[leaf, : f.sizes[leaf]].tolist() for leaf in leaves_of(index._pool)] == [
        [3, 5, 9, 14],
        [40, 50, 66, 71],
        [80, 93],
    ]
    assert f.seps[f.trees[forest.ROOT], :2].tolist() == [40, 80]


def test_expired_rows_are_deleted_one_by_one() -> None:
    index = BPlusTree(slots=2, fanout=3)
    index.insert(np.array([5, 5, 1, 9, 5, 1]), np.arange(6))
    for before in range(1, 7):
        index.expire(before)
        assert sorted(held(index)) == list(range(before, 6))
        index.check()
    assert leaves_of(index._pool) == [int(index._pool.store.forest.trees[forest.ROOT])]
    assert index.statistics == {"merges": 0, "merged_rows": 0}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 12))
def test_of_equal_keys_the_oldest_goes_first(keys: list[int], window: int) -> None:
    index = BPlusTree(slots=2, fanout=3)
    for row, key in enumerate(keys):
        index.insert(np.array([key]), np.array([row]))
        index.expire(row + 1 - window)
    kept = range(max(0, len(keys) - window), len(keys))
    assert held(index) == sorted(kept, key=lambda row: (keys[row], row))


def test_nodes_are_used_again() -> None:
    index, random = BPlusTree(capacity=500, slots=4, fanout=4), np.random.default_rng(0)
    sizes = []
    for at in range(0, 20_000, 100):
        index.insert(random.integers(0, 10**6, 100), np.arange(at, at + 100))
        index.expire(at - 400)
        sizes.append(index.nbytes)
    assert sizes[-1] == sizes[20], "a window that slides needs no more than it has"
    index.check()


def test_a_tree_is_as_flat_as_its_fanout_allows() -> None:
    index = BPlusTree(capacity=1 << 14)
    index.insert(np.random.default_rng(1).integers(0, 10**9, 1 << 14), np.arange(1 << 14))
    height = int(index._pool.store.forest.trees[forest.HEIGHT])
    assert height <= math.ceil(math.log((1 << 14) / 16, 16))
    assert (1 << 14) / 32 <= len(leaves_of(index._pool)) <= (1 << 14) / 16


def test_bytes_per_row() -> None:
    window = 1 << 16
    index, random = BPlusTree(capacity=window), np.random.default_rng(2)
    for at in range(0, 2 * window, 1 << 12):
        index.expire(at + (1 << 12) - window)
        index.insert(random.integers(0, 2**40, 1 << 12), np.arange(at, at + (1 << 12)))
    assert len(index) == window
    # Leaves that are two thirds full and inner nodes; the ring by id takes 16 to 40 more.
    assert 16 * window / 0.75 < index._pool.nbytes < 34 * window
    assert 16 * window <= index.nbytes - index._pool.nbytes <= 40 * window


def test_a_row_that_is_not_where_it_should_be_is_our_mistake() -> None:
    index = BPlusTree(slots=2, fanout=3)
    index.insert(np.array([1, 2, HIGH]), np.arange(3))
    index._beside._rows[0, 1] = 77
    with pytest.raises(AssertionError, match="a row to delete was not there"):
        index.expire(2)


def test_it_never_merges() -> None:
    index = BPlusTree(capacity=4)
    index.insert(np.arange(100), np.arange(100))
    assert index._facts[layout.LIMIT] > 10**18
    assert index._pool.store.runs.keys.size == 0
    assert index.parameters == {"capacity": 4, "columns": 1, "slots": 32, "fanout": 32}
