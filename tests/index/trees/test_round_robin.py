"""Partitions by arrival: a row goes to tree ``id % partitions``, a search to all of them."""

from __future__ import annotations

import numpy as np
import pytest

from thetastream.index.trees.bplus_tree import BPlusTree
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.round_robin import RoundRobin

from .small_pools import tree_rows


def partitions(index: RoundRobin) -> list[list[int]]:
    """Ids per tree, in the order of their keys."""
    trees = range(index._facts[layout.TREES_SLOTS])
    return [[row for _, row in tree_rows(index._pool, tree)] for tree in trees]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_rows_go_round(count: int) -> None:
    index = RoundRobin(capacity=20, partitions=count, slots=2, fanout=3)
    keys = np.random.default_rng(0).integers(0, 5, 60)
    for at in range(0, 60, 9):
        index.insert(keys[at : at + 9], np.arange(at, min(at + 9, 60)))
        index.expire(at - 11)
        index.check()
        live = range(max(0, at - 11), min(at + 9, 60))
        assert partitions(index) == [
            sorted((row for row in live if row % count == part), key=lambda row: (keys[row], row))
            for part in range(count)
        ]


def test_a_search_visits_all() -> None:
    index = RoundRobin(partitions=4)
    index.insert(np.array([3, 3, 5, 3, 3]), np.arange(5))
    (chunk,) = index.probe(np.array([3]), np.array([3]))
    assert sorted(chunk[1].tolist()) == [0, 1, 3, 4]


def test_one_partition_is_a_b_plus_tree() -> None:
    one = RoundRobin(capacity=50, partitions=1, slots=2, fanout=3)
    tree = BPlusTree(capacity=50, slots=2, fanout=3)
    for index in (one, tree):
        index.insert(np.arange(90) * 17 % 23, np.arange(90))
        index.expire(33)
    for a, b in zip(one._pool.store.forest, tree._pool.store.forest, strict=True):
        assert a.shape == b.shape
    assert partitions(one)[0] == [
        row for _, row in sorted((row * 17 % 23, row) for row in range(33, 90))
    ]
    assert one.nbytes == tree.nbytes


def test_ids_with_gaps_need_not_be_even() -> None:
    index = RoundRobin(capacity=4, partitions=3, slots=2, fanout=3)
    index.insert(np.arange(40), np.arange(40) * 3)
    index.check()
    assert [len(part) for part in partitions(index)] == [40, 0, 0]
    index.expire(60)
    index.check()
    assert len(index) == 20
