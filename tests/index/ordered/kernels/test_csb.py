"""The CSB⁺-tree in flat arrays: groups that fill and are cut, empty leaves, equal keys, cursors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream._jit.compiling import ENABLED
from thetastream.index.ordered.csb_tree import CsbTree, check_csb
from thetastream.index.ordered.kernels.csb import nodes as csb
from thetastream.index.ordered.kernels.lines import LEAD

Array = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
SIZES = [2, 3, 4, 7, 8]
LONG = 3000 if ENABLED else 300  # without the compiler a step takes a hundred times as long
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))


def int64(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


class Tree:
    """A tree with few keys per node, beside a sorted list of the rows it should hold."""

    def __init__(self, keys: int = 2) -> None:
        self.index = CsbTree(keys=keys)
        self.model: list[tuple[int, int]] = []
        self.issued = 0

    def insert(self, keys: Sequence[int]) -> None:
        keys = sorted(keys)
        ids = range(self.issued, self.issued + len(keys))
        self.index._put(int64(keys), int64(ids))
        self.issued += len(keys)
        self.model = sorted([*self.model, *zip(keys, ids, strict=True)])

    def delete(self, rows: Sequence[tuple[int, int]]) -> int:
        found = self.index._take_out(
            int64([row[0] for row in rows]), int64([row[1] for row in rows])
        )
        self.model = [row for row in self.model if row not in set(rows)]
        return found

    def read(
        self, boxes: Sequence[tuple[int, int]], before: int, room: int
    ) -> list[tuple[int, ...]]:
        lows, highs = (int64([box[at] for box in boxes]) for at in (0, 1))
        cursor, rows = int64([0, 0, -1]), []
        while cursor[0] < len(boxes):
            arrays = np.empty((3, room), np.int64)
            filled = self.index._read(lows, highs, before, cursor, *arrays)
            rows += list(zip(*arrays[:, :filled].tolist(), strict=True))
        return rows

    def newest(self, keys: Sequence[int]) -> list[int]:
        return [max((row for key, row in self.model if key == one), default=-1) for one in keys]

    def check(self) -> None:
        check_csb(*self.index._tree)
        keys, ids = self.index._rows()
        assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == self.model

    def fact(self, which: int) -> int:
        return int(self.index._facts[which])

    @property
    def groups(self) -> int:
        """Groups of leaves that were taken so far."""
        words = (self.fact(csb.KEYS) + 1) * self.fact(csb.LEAF_STRIDE)
        return (self.fact(csb.LEAF_TOP) - LEAD) // words


@pytest.mark.parametrize("keys", SIZES)
@given(steps=st.lists(st.tuples(st.lists(KEYS, max_size=12), st.data()), max_size=6))
def test_inserts_and_deletes(keys: int, steps: list[tuple[list[int], st.DataObject]]) -> None:
    tree = Tree(keys)
    for fresh, data in steps:
        tree.insert(fresh)
        tree.check()
        if tree.model:
            gone = data.draw(st.lists(st.sampled_from(tree.model), unique=True))
            assert tree.delete(gone) == len(gone)
            tree.check()
        assert tree.index._find(int64(range(-4, 5))).tolist() == tree.newest(range(-4, 5))


@given(
    keys=st.lists(KEYS, max_size=40),
    boxes=st.lists(st.tuples(KEYS, KEYS), max_size=4),
    before=st.integers(0, 40),
    room=st.integers(1, 7),
)
def test_ranges_in_pieces(
    keys: list[int], boxes: list[tuple[int, int]], before: int, room: int
) -> None:
    tree = Tree()
    tree.insert(keys)
    assert tree.read(boxes, before, room) == [
        (box, key, row)
        for box, (low, high) in enumerate(boxes)
        for key, row in tree.model
        if low <= key <= high and row >= before
    ]


@given(st.lists(KEYS, max_size=40), st.lists(KEYS, max_size=40))
def test_the_newest_of_a_key(keys: list[int], asked: list[int]) -> None:
    tree = Tree(3)
    tree.insert(keys[: len(keys) // 2])
    tree.insert(keys[len(keys) // 2 :])
    assert tree.index._find(int64(asked)).tolist() == tree.newest(asked)


@pytest.mark.parametrize("keys", SIZES)
def test_the_newest_may_lie_before_its_place(keys: int) -> None:
    """Equal keys that are cut apart, and of which the right part is deleted."""
    tree = Tree(keys)
    tree.insert([5] * 40)
    tree.insert([9] * 40)
    while tree.model[0][0] == 5:
        assert tree.index._find(int64([5, 9])).tolist() == tree.newest([5, 9])
        tree.delete([max(row for row in tree.model if row[0] == 5)])
        tree.check()
    assert tree.index._find(int64([5, 9])).tolist() == [-1, 79]


@pytest.mark.parametrize("keys", SIZES)
def test_a_long_life(keys: int) -> None:
    random, tree = np.random.default_rng(0), Tree(keys)
    for _ in range(LONG // 100):
        tree.insert(random.integers(0, LONG, 60).tolist())
        gone = random.permutation(len(tree.model))[: random.integers(0, 100)]
        assert tree.delete([tree.model[at] for at in gone]) == gone.size
        tree.check()
    tree.insert(range(60))
    assert tree.delete(list(tree.model)) >= 60
    tree.check()
    assert tree.fact(csb.HEIGHT) == 0, "an empty tree is a leaf"


def test_children_lie_side_by_side() -> None:
    tree = Tree(3)
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
    tree = Tree(3)
    tree.insert(range(12))
    assert tree.groups == 1, "four leaves of three rows fill a group"
    tree.insert([12])
    assert tree.groups == 2
    tree.check()


def test_a_leaf_stays_until_it_is_empty() -> None:
    tree = Tree(3)
    tree.insert(range(9))
    tree.delete([(3, 3), (4, 4)])
    seps = tree.index._inners[tree.fact(csb.ROOT)] % csb.MANY
    assert seps == 2
    tree.delete([(5, 5)])
    assert tree.index._inners[tree.fact(csb.ROOT)] % csb.MANY == 1
    tree.check()


def test_rows_that_are_not_there() -> None:
    tree = Tree()
    tree.insert([1, 1, 2, 3, 3, 3])
    assert tree.delete([(1, 7), (2, 0), (9, 9), (LOW, 0), (HIGH, 5)]) == 0
    tree.check()


def test_windows_over_ascending_keys_do_not_grow() -> None:
    tree, groups = Tree(3), []
    for first in range(0, 1000, 20):
        tree.insert(range(first, first + 20))
        tree.delete([row for row in tree.model if row[0] < first - 40])
        groups.append(tree.groups)
    assert groups[-1] <= groups[5] + 1
    tree.check()


@pytest.mark.parametrize(
    ("keys", "shape"), [(2, (8, 16)), (7, (8, 16)), (8, (16, 24)), (15, (16, 32))]
)
def test_shapes(keys: int, shape: tuple[int, int]) -> None:
    assert csb.shape_of(keys) == shape
