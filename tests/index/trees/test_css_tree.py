"""The immutable B⁺-tree as an index: every insert merges and builds it anew."""

from __future__ import annotations

import numpy as np

from thetastream.index.trees.css_tree import CssTree
from thetastream.index.trees.kernels import css
from thetastream.tuplewise.ibwj import joinable

from ...keys import Pair
from .small_pools import run_rows


def run(index: CssTree) -> list[Pair]:
    return run_rows(index._pool)


def test_an_insert_merges() -> None:
    index = CssTree(capacity=8, leaf=1, fanout=2)
    index.insert(np.array([5, 1, 5]), np.array([0, 1, 2]))
    assert run(index) == [(1, 1), (5, 0), (5, 2)]
    index.insert(np.array([5, 0]), np.array([4, 3]))
    assert run(index) == [(0, 3), (1, 1), (5, 0), (5, 2), (5, 4)]
    index.check()
    assert index.statistics == {"merges": 2, "merged_rows": 8}
    assert index._pool.run(0)[css.LEVELS] == 3


def test_expired_rows_leave_with_the_next_insert() -> None:
    index = CssTree(capacity=8)
    index.insert(np.arange(5), np.arange(5))
    index.expire(3)
    assert (len(index), len(run(index))) == (2, 5)
    index.insert(np.array([9]), np.array([5]))
    assert run(index) == [(3, 3), (4, 4), (9, 5)]
    index.expire(6)
    index.insert(np.array([1]), np.array([6]))
    assert run(index) == [(1, 6)]
    index.check()


def test_the_run_grows_by_more_than_it_must() -> None:
    index, sizes = CssTree(capacity=1, leaf=2, fanout=3), set()
    for row in range(400):
        index.insert(np.array([row % 17]), np.array([row]))
        sizes.add(index.nbytes)
    index.check()
    assert len(index) == 400
    assert len(sizes) < 60, "not with every insert"
    assert index.nbytes < 2.5 * 16 * 400


def test_the_lowest_directory_is_a_small_share() -> None:
    window = 1 << 14
    index = CssTree(capacity=window)
    index.insert(np.random.default_rng(0).integers(0, 10**9, window), np.arange(window))
    assert index.nbytes < 16.5 * window + 4096
    # 2^14 rows are 512 leaves of 32, 32 nodes of 16, 2 nodes, 1 node.
    assert index._pool.run(0)[css.NODES : css.NODES + 4].tolist() == [1, 2, 32, 512]


def test_it_is_not_made_for_single_rows() -> None:
    assert not CssTree.per_tuple
    assert "css-tree" not in joinable()
