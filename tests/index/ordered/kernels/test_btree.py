"""The B-tree in a flat array: splits, joins, shared rows, equal keys, cursors; against a list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream._jit.arrays import MOST
from thetastream._jit.compiling import ENABLED
from thetastream.index.ordered.b_tree import BTree, check_btree
from thetastream.index.ordered.kernels.btree import nodes as btree
from thetastream.index.ordered.kernels.lines import LEAD

Array = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
ROOMS = [(2, 2), (3, 2), (2, 3), (3, 4), (7, 7)]
LONG = 3000 if ENABLED else 300  # without the compiler a step takes a hundred times as long
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))


def int64(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


class Tree:
    """A B-tree whose nodes are smaller than their room, beside a sorted list of its rows."""

    def __init__(self, leaf: int = 2, inner: int = 2) -> None:
        self.index = BTree(node_bytes=192)
        self.index._facts[[btree.LEAF, btree.INNER]] = leaf, inner
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

    def check(self) -> None:
        check_btree(self.index._words, self.index._facts)
        keys, ids = self.index._rows()
        assert list(zip(keys.tolist(), ids.tolist(), strict=True)) == self.model

    def fact(self, which: int) -> int:
        return int(self.index._facts[which])


@pytest.mark.parametrize("rooms", ROOMS)
@given(steps=st.lists(st.tuples(st.lists(KEYS, max_size=12), st.data()), max_size=6))
def test_inserts_and_deletes(
    rooms: tuple[int, int], steps: list[tuple[list[int], st.DataObject]]
) -> None:
    tree = Tree(*rooms)
    for keys, data in steps:
        tree.insert(keys)
        tree.check()
        if tree.model:
            gone = data.draw(st.lists(st.sampled_from(tree.model), unique=True))
            assert tree.delete(gone) == len(gone)
            tree.check()


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
    tree = Tree(3, 2)
    tree.insert(keys[: len(keys) // 2])
    tree.insert(keys[len(keys) // 2 :])
    expected = [max((row for key, row in tree.model if key == one), default=-1) for one in asked]
    assert tree.index._find(int64(asked)).tolist() == expected


def test_rows_lie_in_inner_nodes() -> None:
    tree = Tree(3, 2)
    tree.insert(range(7))
    root, words = tree.fact(btree.ROOT), tree.index._words
    assert tree.fact(btree.HEIGHT) == 1
    assert words[root + 1 : root + 1 + words[root]].tolist() == [2, 5]
    assert words[root + 1 + words[root]] == MOST


@pytest.mark.parametrize("rooms", ROOMS)
def test_a_long_life(rooms: tuple[int, int]) -> None:
    random, tree = np.random.default_rng(0), Tree(*rooms)
    for _ in range(LONG // 100):
        tree.insert(random.integers(0, LONG, 60).tolist())
        gone = random.permutation(len(tree.model))[: random.integers(0, 100)]
        assert tree.delete([tree.model[at] for at in gone]) == gone.size
        tree.check()
    tree.insert(range(60))
    assert tree.delete(list(tree.model)) >= 60
    tree.check()
    assert tree.fact(btree.HEIGHT) == 0, "an empty tree is a leaf"


def test_rows_that_are_not_there() -> None:
    tree = Tree()
    tree.insert([1, 1, 2, 3, 3, 3])
    assert tree.delete([(1, 7), (2, 0), (9, 9), (LOW, 0), (HIGH, 5)]) == 0
    tree.check()


@pytest.mark.parametrize("order", [1, -1])
def test_many_equal_keys(order: int) -> None:
    tree = Tree()
    tree.insert([5] * 60)
    for row in list(tree.model)[::order]:
        assert tree.delete([row]) == 1
        tree.check()


def test_ascending_keys_fill_leaves() -> None:
    tree = Tree(7, 7)
    for key in range(500):
        tree.insert([key])
    tree.check()
    nodes = (tree.fact(btree.TOP) - LEAD) // tree.fact(btree.STRIDE)
    assert nodes <= 500 / 5.5, "nodes keep six of seven rows, and not half of them"


def test_nodes_are_used_again() -> None:
    tree = Tree(3, 3)
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
