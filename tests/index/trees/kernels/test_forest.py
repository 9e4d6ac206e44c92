"""B⁺-trees in arrays: splits, joins, borrowed rows, equal keys, the key that fills free slots."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import (
    delete_rows,
    insert_rows,
    plant_tree,
)
from thetastream.index.trees.pool import Pool

from ....keys import HIGH, KEYS, LOW, Pair, edges
from ..small_pools import dumped, insert, probed, small

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

SHAPES = [(2, 3), (3, 3), (3, 4), (4, 5)]
LONG = 3000 if ENABLED else 300  # without the compiler a step takes a hundred times as long


class Tree:
    """A B⁺-tree in a pool that begins too small, beside a sorted list of what it should hold."""

    def __init__(self, slots: int = 2, fanout: int = 3) -> None:
        self.pool = Pool([small(layout.SINGLE, slots=slots, fanout=fanout)])
        self.model: list[Pair] = []

    def insert(self, keys: Sequence[int], first: int = 0) -> None:
        """Insert keys under the ids from ``first`` on."""
        insert(self.pool, 0, keys, first)
        for row, key in enumerate(keys, first):
            self.model.insert(bisect_right(self.model, key, key=lambda held: held[0]), (key, row))

    def delete(self, rows: Sequence[Pair]) -> int:
        found = delete_rows(self.pool.store, 0, *edges(rows), self.pool.path)
        self.model = [row for row in self.model if row not in set(rows)]
        return int(found)

    @property
    def height(self) -> int:
        return int(self.pool.store.forest.trees[forest.HEIGHT])

    @property
    def nodes(self) -> tuple[list[int], list[int]]:
        """Leaves and inner nodes of the tree."""
        f = self.pool.store.forest
        level, inners = [int(f.trees[forest.ROOT])], []
        for _ in range(self.height):
            inners += level
            level = [int(c) for n in level for c in f.children[n, : f.widths[n]]]
        return level, inners

    def check(self) -> None:
        """Invariants, the rows, and that every node is in the tree or in the list of freed ones."""
        check_pool(self.pool, 0)
        assert dumped(self.pool) == self.model
        f, facts = self.pool.store.forest, self.pool.arena(0)
        leaves, inners = self.nodes
        freed, leaf = [], int(facts[forest.LEAF_FREE])
        while leaf >= 0:
            freed.append(leaf)
            leaf = int(f.nexts[leaf])
        taken = range(facts[forest.LEAF_FIRST], facts[forest.LEAF_TOP])
        assert sorted(leaves + freed) == list(taken)
        freed, node = [], int(facts[forest.INNER_FREE])
        while node >= 0:
            freed.append(node)
            node = int(f.children[node, 0])
        taken = range(facts[forest.INNER_FIRST], facts[forest.INNER_TOP])
        assert sorted(inners + freed) == list(taken)
        assert all(f.ranks[node] == -1 for node in freed)
        assert facts[forest.TALLEST] >= self.height


# --- Any steps ----------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.lists(KEYS, min_size=1, max_size=12),  # insert these
        st.integers(0, 10**6),  # delete a row that is there
        st.tuples(KEYS, st.integers(0, 99)),  # delete a row that may not be there
    ),
    max_size=30,
)


@pytest.mark.parametrize(("slots", "fanout"), SHAPES)
@given(steps=STEPS)
@example(steps=[[0] * 12, [0] * 12, *range(24)])
@example(steps=[[HIGH] * 12, *[7] * 11, (HIGH, 3), [HIGH], (HIGH, 99), (HIGH - 1, 4)])
@example(steps=[list(range(12)), list(range(12, 0, -1)), *[0] * 20])
@example(steps=[list(range(12)), list(range(12, 24)), *[10**6] * 20])
def test_every_step_keeps_the_invariants(
    slots: int, fanout: int, steps: list[list[int] | int | tuple[int, int]]
) -> None:
    tree, number = Tree(slots, fanout), 0
    for step in steps:
        if isinstance(step, list):
            tree.insert(step, number)
            number += len(step)
        elif isinstance(step, tuple):
            there = step in tree.model
            assert tree.delete([step]) == there
        elif tree.model:
            assert tree.delete([tree.model[step % len(tree.model)]]) == 1
        tree.check()


@pytest.mark.parametrize(("slots", "fanout"), SHAPES)
def test_a_window_slides_over_a_tree(slots: int, fanout: int) -> None:
    random = np.random.default_rng(slots)
    tree, keys = Tree(slots, fanout), random.integers(0, 40, LONG).tolist()
    for number, key in enumerate(keys):
        tree.insert([key], number)
        if number >= 100:
            assert tree.delete([(keys[number - 100], number - 100)]) == 1
        if number % 29 == 0:
            tree.check()
    tree.check()
    assert tree.height >= 3
    # Freed nodes are used again: no more are taken than a window with some slack needs.
    assert len(tree.nodes[0]) <= 100
    facts = tree.pool.arena(0)
    assert facts[forest.LEAF_TOP] - facts[forest.LEAF_FIRST] <= 130


# --- Orders of keys -----------------------------------------------------------------------------

ORDERS = {
    "ascending": list(range(150)),
    "descending": list(range(150, 0, -1)),
    "equal": [5] * 150,
    "largest": [HIGH] * 150,
    "smallest": [LOW] * 150,
    "sawtooth": [key % 7 for key in range(150)],
    "outside in": [key if key % 2 else -key for key in range(150, 0, -1)],
    "extremes": [(LOW, LOW + 1, -1, 0, HIGH - 1, HIGH)[key % 6] for key in range(150)],
}
LEAVING = {
    "as they came": lambda rows: sorted(rows, key=lambda row: row[1]),
    "newest first": lambda rows: sorted(rows, key=lambda row: -row[1]),
    "from the left": lambda rows: rows,
    "from the right": lambda rows: rows[::-1],
    "from the middle": lambda rows: sorted(rows, key=lambda row: abs(rows.index(row) - 75)),
    "at random": lambda rows: [rows[i] for i in np.random.default_rng(1).permutation(len(rows))],
}


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("order", ORDERS)
def test_a_tree_grows_and_goes_back_to_one_leaf(order: str, leaving: str) -> None:
    tree = Tree(2, 3)
    tree.insert(ORDERS[order])
    tree.check()
    assert tree.height >= 4
    for at, row in enumerate(LEAVING[leaving](list(tree.model))):
        assert tree.delete([row]) == 1
        if at % 7 == 0:
            tree.check()
    tree.check()
    assert (tree.height, tree.model) == (0, [])
    tree.insert(ORDERS[order], 1000)
    tree.check()
    assert tree.height >= 4


def test_ascending_keys_fill_their_leaves() -> None:
    for slots, fanout in SHAPES:
        tree = Tree(slots, fanout)
        tree.insert(list(range(20 * slots)))
        leaves, _ = tree.nodes
        assert tree.pool.store.forest.sizes[leaves].tolist() == [slots] * 20


def test_other_orders_leave_leaves_half_full_at_least() -> None:
    tree = Tree(4, 5)
    tree.insert(list(range(100, 0, -1)))
    leaves, _ = tree.nodes
    assert min(tree.pool.store.forest.sizes[leaves]) >= 2


def test_equal_keys_stand_in_the_order_of_their_insertion() -> None:
    tree = Tree(2, 3)
    tree.insert([5, 7, 5, 7, 5, 3, 5, 7, 5, 3, 5])
    assert dumped(tree.pool) == [
        *((3, row) for row in (5, 9)),
        *((5, row) for row in (0, 2, 4, 6, 8, 10)),
        *((7, row) for row in (1, 3, 7)),
    ]


@pytest.mark.parametrize("order", ["equal", "sawtooth", "extremes"])
def test_leaves_that_rows_left_are_joined_or_share(order: str) -> None:
    tree = Tree(4, 5)
    tree.insert(ORDERS[order])
    for row in LEAVING["at random"](list(tree.model))[:110]:
        tree.delete([row])
    tree.check()
    leaves, inners = tree.nodes
    f = tree.pool.store.forest
    assert len(leaves) <= 2 * len(tree.model) / 4 + 1
    assert all(f.widths[node] >= 2 for node in inners)


# --- Rows that are not there --------------------------------------------------------------------


def test_nothing_changes_when_a_row_is_not_there() -> None:
    tree = Tree(2, 3)
    missing = [(HIGH, 0), (LOW, 0), (0, 0)]
    assert tree.delete(missing) == 0, "an empty tree"
    tree.check()
    tree.insert([4, 4, 4, 4, 4, 8, 8, 2, 2, HIGH, HIGH, HIGH])
    before = [part.copy() for part in tree.pool.store.forest]
    missing = [(4, 99), (5, 0), (8, 0), (HIGH, 0), (HIGH - 1, 9), (LOW, 0), (2, 11), (1, 7)]
    assert tree.delete(missing) == 0
    for old, new in zip(before, tree.pool.store.forest, strict=True):
        assert np.array_equal(old, new)
    tree.check()
    assert tree.delete([(4, 99), (4, 3), (4, 3)]) == 1, "a row leaves once"
    tree.check()


def test_the_filler_of_free_slots_is_a_key_like_others() -> None:
    tree = Tree(2, 3)
    tree.insert([HIGH, 1, HIGH, HIGH - 1, HIGH])
    boxes = [(HIGH, HIGH), (HIGH - 1, HIGH), (LOW, HIGH - 1), (2, HIGH - 2), (LOW, HIGH)]
    found = probed(tree.pool, boxes, 99)
    assert found == [
        *((0, row) for row in (0, 2, 4)),
        *((1, row) for row in (3, 0, 2, 4)),
        *((2, row) for row in (1, 3)),
        *((4, row) for row in (1, 3, 0, 2, 4)),
    ]


# --- Nodes --------------------------------------------------------------------------------------


def test_an_insert_without_spare_nodes_changes_nothing() -> None:
    tree = Tree(2, 3)
    cursor, keys = np.zeros(1, np.int64), np.arange(10**4)
    assert insert_rows(tree.pool.store, 0, keys, keys, cursor, tree.pool.path) == layout.NO_NODES
    inserted = int(cursor[0])
    assert 0 < inserted < 100
    check_pool(tree.pool, 0)
    assert dumped(tree.pool) == [(key, key) for key in range(inserted)]
    again = insert_rows(tree.pool.store, 0, keys, keys, cursor, tree.pool.path)
    assert (again, cursor[0]) == (layout.NO_NODES, inserted)
    tree.pool.grow_nodes(0)
    insert_rows(tree.pool.store, 0, keys, keys, cursor, tree.pool.path)
    assert cursor[0] > inserted


def test_planting_empties_an_arena() -> None:
    tree = Tree(2, 3)
    tree.insert(list(range(60)))
    for row in range(20):
        tree.delete([(row, row)])
    plant_tree(tree.pool.store, 0)
    tree.model = []
    tree.check()
    assert (tree.height, tree.pool.arena(0)[forest.TALLEST]) == (0, 0)
    tree.insert([3, 1, 2])
    tree.check()
