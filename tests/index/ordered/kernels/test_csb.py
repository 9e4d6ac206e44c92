"""The CSB⁺-tree in flat arrays: groups that fill and are cut, empty leaves, equal keys."""

from __future__ import annotations

import pytest

from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.lines import LEAD

from ....keys import int64
from .node_trees import Tree, csb_tree


def groups(tree: Tree) -> int:
    """Groups of leaves that were taken so far."""
    words = (tree.fact(csb.KEYS) + 1) * tree.fact(csb.LEAF_STRIDE)
    return (tree.fact(csb.LEAF_TOP) - LEAD) // words


@pytest.mark.parametrize("keys", [2, 3, 4, 7, 8])
def test_the_newest_may_lie_before_its_place(keys: int) -> None:
    """Equal keys that are cut apart, and of which the right part is deleted."""
    tree = csb_tree(keys)
    tree.insert([5] * 40)
    tree.insert([9] * 40)
    while tree.model[0][0] == 5:
        assert tree.index._find(int64([5, 9])).tolist() == tree.newest([5, 9])
        tree.delete([max(row for row in tree.model if row[0] == 5)])
        tree.check()
    assert tree.index._find(int64([5, 9])).tolist() == [-1, 79]


def test_children_lie_side_by_side() -> None:
    tree = csb_tree(3)
    tree.insert([3, 5, 9, 40, 50, 66, 71, 80])
    inners, leaves, root = tree.index._inners, tree.index._leaves, tree.fact(csb.ROOT)
    group, seps = divmod(int(inners[root]), csb.MANY)
    assert inners[root + 1 : root + 1 + seps].tolist() == [40, 71]
    children = [group + c * tree.fact(csb.LEAF_STRIDE) for c in range(seps + 1)]
    assert [leaves[at + 1 : at + 1 + leaves[at]].tolist() for at in children] == [
        [3, 5, 9],
        [40, 50, 66],
        [71, 80],
    ]


def test_a_group_is_taken_when_one_is_full() -> None:
    tree = csb_tree(3)
    tree.insert(range(12))
    assert groups(tree) == 1, "four leaves of three rows fill a group"
    tree.insert([12])
    assert groups(tree) == 2
    tree.check()


def test_a_leaf_stays_until_it_is_empty() -> None:
    tree = csb_tree(3)
    tree.insert(range(9))
    tree.delete([(3, 3), (4, 4)])
    seps = tree.index._inners[tree.fact(csb.ROOT)] % csb.MANY
    assert seps == 2
    tree.delete([(5, 5)])
    assert tree.index._inners[tree.fact(csb.ROOT)] % csb.MANY == 1
    tree.check()


def test_windows_over_ascending_keys_do_not_grow() -> None:
    tree, counts = csb_tree(3), []
    for first in range(0, 1000, 20):
        tree.insert(range(first, first + 20))
        tree.delete([row for row in tree.model if row[0] < first - 40])
        counts.append(groups(tree))
    assert counts[-1] <= counts[5] + 1
    tree.check()


@pytest.mark.parametrize(
    ("keys", "shape"), [(2, (8, 16)), (7, (8, 16)), (8, (16, 24)), (15, (16, 32))]
)
def test_shapes(keys: int, shape: tuple[int, int]) -> None:
    assert csb.shape_of(keys) == shape
