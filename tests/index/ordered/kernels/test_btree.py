"""The B-tree in a flat array: rows in inner nodes, full leaves, nodes that are used again."""

from __future__ import annotations

import pytest

from thetastream._jit.arrays import MOST
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.lines import LEAD

from .node_trees import b_tree


def test_rows_lie_in_inner_nodes() -> None:
    tree = b_tree(3, 2)
    tree.insert(range(7))
    root, words = tree.fact(btree.ROOT), tree.index._words
    assert tree.fact(btree.HEIGHT) == 1
    assert words[root + 1 : root + 1 + words[root]].tolist() == [2, 5]
    assert words[root + 1 + words[root]] == MOST


@pytest.mark.parametrize("order", [1, -1])
def test_many_equal_keys(order: int) -> None:
    tree = b_tree()
    tree.insert([5] * 60)
    for row in list(tree.model)[::order]:
        assert tree.delete([row]) == 1
        tree.check()


def test_ascending_keys_fill_leaves() -> None:
    tree = b_tree(7, 7)
    for key in range(500):
        tree.insert([key])
    tree.check()
    nodes = (tree.fact(btree.TOP) - LEAD) // tree.fact(btree.STRIDE)
    assert nodes <= 500 / 5.5, "nodes keep six of seven rows, and not half of them"


def test_nodes_are_used_again() -> None:
    tree = b_tree(3, 3)
    tree.insert(range(100))
    top = tree.fact(btree.TOP)
    for _ in range(20):
        tree.delete(tree.model[10:90])
        tree.insert(range(10, 90))
    assert tree.fact(btree.TOP) <= 1.5 * top
    tree.check()


@pytest.mark.parametrize(
    ("node_bytes", "shape"),
    [(192, (24, 8, 8)), (750, (88, 40, 24)), (768, (96, 48, 32)), (1024, (128, 64, 40))],
)
def test_shapes(node_bytes: int, shape: tuple[int, int, int]) -> None:
    words, leaf, inner = btree.shape_of(node_bytes)
    assert (words, leaf, inner) == shape
    assert 2 * leaf <= words
    assert 3 * inner <= words
