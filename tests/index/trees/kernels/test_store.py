"""A side of any structure against a list of rows: searched parts, merges, chains, subindexes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import (
    archive,
    empty_trees,
    forget_expired,
    insert_rows,
    merge_side,
)
from thetastream.index.trees.kernels.store import collect, put_parted
from thetastream.index.trees.pool import Pool, Recipe

from ....keys import HIGH, KEYS, LOW, Array, Pair, inside
from ....scale import scaled
from ..small_pools import (
    chain,
    dumped,
    insert,
    merge,
    merged,
    probed,
    run_rows,
    small,
    tree_rows,
)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

BOXES = [
    (LOW, HIGH), (0, 0), (-2, 2), (1, HIGH), (LOW, -1), (HIGH, HIGH), (LOW, LOW), (2, -2),
    (HIGH - 1, HIGH), (LOW, LOW + 1), (3, 3),
]  # fmt: skip


class Side:
    """One side of a pool beside a list of its rows."""

    def __init__(self, *recipes: Recipe, side: int = 0) -> None:
        self.pool = Pool(recipes)
        self.side = side
        self.rows: list[Pair] = []
        self.number = 0

    @property
    def facts(self) -> Array:
        return self.pool.side(self.side)

    def insert(self, keys: Sequence[int]) -> None:
        insert(self.pool, self.side, keys, self.number)
        self.rows += zip(keys, range(self.number, self.number + len(keys)), strict=True)
        self.number += len(keys)

    def merge(self, target: int) -> None:
        merge(self.pool, self.side, target)

    def expire(self, before: int) -> None:
        self.facts[layout.BEFORE] = before
        self.rows = [row for row in self.rows if row[1] >= before]
        if self.facts[layout.MODE] == layout.CHAIN:
            forget_expired(self.pool.store, self.side)

    def check(self, room: int = 7) -> None:
        check_pool(self.pool, self.side)
        assert sorted(dumped(self.pool, self.side)) == sorted(self.rows)
        found = probed(self.pool, BOXES, room, self.side)
        assert sorted(found) == sorted(inside(self.rows, BOXES))

    def run(self) -> list[Pair]:
        """The rows of T_S, expired ones too."""
        return run_rows(self.pool, int(self.facts[layout.RUNS_FIRST]))


RECIPES = {
    "b+tree": small(layout.SINGLE),
    "round-robin": small(layout.ROBIN, trees=3),
    "optimistic-tree": small(layout.OPTIMISTIC, fanout=4),
    "im-tree": merged(layout.SINGLE),
    "im-tree, one row": merged(layout.SINGLE, limit=1, rows=1),
    "pim-tree": merged(layout.PARTED),
    "pim-tree, one row": merged(layout.PARTED, limit=1, rows=1),
    **{f"pim-tree at {depth}": merged(layout.PARTED, depth=depth) for depth in (0, 1, 2, 3, 9)},
    "IB-chain": chain(2, immutable=True),
    "IB-chain of 4": chain(4, immutable=True, limit=3),
    "B-chain": chain(2, immutable=False),
    "B-chain of 4": chain(4, immutable=False, limit=3),
}
STEPS = st.lists(st.one_of(st.lists(KEYS, max_size=9), st.integers(1, 9)), max_size=14)


@pytest.mark.parametrize("name", RECIPES)
@settings(max_examples=scaled(30))
@given(steps=STEPS, room=st.integers(1, 40))
@example(steps=[[HIGH] * 9, [LOW] * 9, 7, [HIGH, LOW] * 4, 9, [0] * 9], room=1)
@example(steps=[[0] * 9, [0] * 9, [0] * 9, 20, [0] * 9, [0] * 9], room=4)
@example(steps=[[1, 2, 3] * 3, 9, 9, [3, 2, 1] * 3, 9, [1]], room=3)
def test_every_step_keeps_the_rows(name: str, steps: list[list[int] | int], room: int) -> None:
    side = Side(RECIPES[name])
    before = 0
    for step in steps:
        if isinstance(step, list):
            side.insert(step)
        else:
            before = min(before + step, side.number)
            side.expire(before)
        side.check(room)


@pytest.mark.parametrize("first", RECIPES)
@pytest.mark.parametrize("second", ["b+tree", "im-tree", "pim-tree", "IB-chain of 4", "B-chain"])
def test_sides_of_one_pool_do_not_touch_each_other(first: str, second: str) -> None:
    """Both begin too small, so the nodes and runs of the second side move while the first grows."""
    both = Side(RECIPES[first], RECIPES[second])
    other = Side(RECIPES[second], side=1)
    other.pool = both.pool
    keys = np.random.default_rng(4).integers(-3, 4, 60).tolist()
    for at in range(0, 60, 6):
        both.insert(keys[at : at + 6])
        both.insert(keys[::-1][at : at + 6])
        other.insert(keys[at : at + 6])
        both.expire(max(0, 2 * at - 40))
        other.expire(max(0, at - 20))
        both.check()
        other.check()


# --- Trees and runs -----------------------------------------------------------------------------


def test_rows_go_round_the_trees() -> None:
    side = Side(RECIPES["round-robin"])
    side.insert([5, 5, 1, HIGH, 2, 0, 9, 9])
    held = [sorted(row for _, row in tree_rows(side.pool, tree)) for tree in range(3)]
    assert held == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize("mode", [layout.SINGLE, layout.PARTED])
def test_a_merge_leaves_expired_rows_out(mode: int) -> None:
    side = Side(merged(mode))
    side.insert([4, 1, 3])
    assert (side.run(), side.facts[layout.YOUNG]) == ([], 3)
    side.expire(1)
    side.insert([2, 3])
    assert side.run() == [(1, 1), (2, 3), (3, 2), (3, 4)]
    assert side.facts[layout.YOUNG] == 0
    side.expire(4)
    assert len(side.run()) == 4, "until the next merge"
    side.check()
    side.insert([9] * 5)
    assert side.run() == [(3, 4), *((9, row) for row in range(5, 10))]
    side.expire(10)
    side.insert([7] * 4)
    side.expire(14)
    side.insert([8])
    assert side.run() == [(8, 14)], "young rows that have expired go too"
    side.check()


@pytest.mark.parametrize("mode", [layout.SINGLE, layout.PARTED])
def test_a_merge_in_place_needs_no_more_room_than_its_rows(mode: int) -> None:
    # 5 + 5 rows fit exactly; then 5 of them expire, and 5 others fit exactly again.
    keys = np.random.default_rng(5).integers(-3, 4, 60).tolist()
    side = Side(merged(mode, rows=10))
    for at in range(0, 60, 5):
        side.expire(max(0, at - 5))
        side.insert(keys[at : at + 5])
        side.check()
        assert len(side.run()) == min(at + 5, 10)
    assert side.pool.recipes[0].run_rows == 10


@pytest.mark.parametrize("mode", [layout.SINGLE, layout.PARTED])
def test_without_room_a_merge_changes_nothing(mode: int) -> None:
    side = Side(merged(mode, rows=9))
    side.insert([3, 1, 2, 2, 5, 9, 9, 1, 0])
    cursor = np.zeros(1, np.int64)
    insert_rows(side.pool.store, 0, np.array([4]), np.array([9]), cursor, side.pool.path)
    store = side.pool.store
    parts = [*store.forest, *store.runs, store.sides, store.lasts, store.locks]
    copies = [part.copy() for part in parts]
    assert merge_side(store, 0, 0) == layout.NO_ROOM
    for part, copy in zip(parts, copies, strict=True):
        assert np.array_equal(part, copy)
    side.facts[layout.BEFORE] = 1
    assert merge_side(store, 0, 0) == layout.DONE, "one row has expired"
    assert len(side.run()) == 9


@pytest.mark.parametrize("mode", [layout.SINGLE, layout.PARTED])
def test_a_merge_into_another_run(mode: int) -> None:
    side = Side(merged(mode, runs=2, limit=2**62, rows=40))
    for turn in range(6):
        side.insert([turn % 3, -turn, HIGH, LOW])
        source = int(side.facts[layout.RUNS_FIRST])
        kept = side.run()
        side.merge(1 - source)
        assert side.facts[layout.RUNS_FIRST] == 1 - source
        side.check()
        assert run_rows(side.pool, source) == kept, "the old run is still whole"
        side.expire(2 * turn)


@pytest.mark.parametrize("name", ["b+tree", "round-robin", "im-tree", "pim-tree", "IB-chain"])
@pytest.mark.parametrize(("first", "last"), [(0, 99), (5, 17), (12, 13), (18, 20), (9, 9)])
def test_only_ids_of_an_interval_are_collected(name: str, first: int, last: int) -> None:
    """In a join, rows that came after the tuple may be in the index already."""
    side = Side(RECIPES[name])
    side.insert([row % 4 for row in range(19)])
    cursor, positions, rows = np.array([0, -1, 0]), np.empty(50, np.int64), np.empty(50, np.int64)
    args = (side.pool.store, 0, 1, 2, first, last, cursor, 7, 3, positions, rows, False)
    filled = collect(*args)
    assert positions[3:filled].tolist() == [7] * (filled - 3)
    assert sorted(rows[3:filled].tolist()) == [
        row for row in range(19) if row % 4 in (1, 2) and first <= row < last
    ]


# --- Subindexes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [-1, 0, 1, 2, 3, 4, 5, 99])
@pytest.mark.parametrize("span", [1, 4, 40])
def test_subindexes_at_every_depth(depth: int, span: int) -> None:
    side = Side(merged(layout.PARTED, limit=10, depth=depth, rows=32))
    random = np.random.default_rng(6)
    deepest = 0
    for at in range(0, 90, 6):
        side.insert(random.integers(0, span, 6).tolist())
        side.expire(max(0, at - 20))
        side.check(room=3)
        levels = int(side.pool.run(0)[css.LEVELS])
        wanted = max(0, levels - 1) if depth < 0 else min(depth, levels)
        assert side.facts[layout.DEPTH] == wanted
        deepest = max(deepest, levels)
        for low in range(-1, span + 1):
            boxes = [(low, low), (low, low + 3), (low, HIGH)]
            assert sorted(probed(side.pool, boxes, 2)) == sorted(inside(side.rows, boxes))
    assert deepest >= 4, "T_S has several levels"


def test_a_subindex_takes_the_keys_of_its_node() -> None:
    side = Side(merged(layout.PARTED, limit=8, depth=2))
    side.insert([10, 20, 30, 40, 50, 60, 70, 80])
    # Nodes at depth 2 end at 20, 40, 60 and at whatever comes last.
    side.insert([5, 20, 21, 40, HIGH, LOW, 61])
    held = [[key for key, _ in tree_rows(side.pool, part)] for part in range(4)]
    assert held == [[LOW, 5, 20], [21, 40], [], [61, HIGH]]
    side.check()


def test_equal_keys_in_several_nodes_belong_to_the_first() -> None:
    side = Side(merged(layout.PARTED, limit=8, depth=3))
    side.insert([5] * 8)
    side.insert([5, 5, 4, 5, 6, 5])
    side.check(room=1)
    f = side.pool.store.forest
    assert [int(f.sizes[f.trees[part * forest.TREE_SIZE]]) for part in range(1, 7)] == [0] * 6
    assert f.sizes[f.trees[7 * forest.TREE_SIZE]] == 1, "6, above all of T_S"


def test_heads_need_leaves() -> None:
    side = Side(merged(layout.PARTED, limit=2**62, depth=9, rows=64))
    side.insert(list(range(64)))
    facts = side.pool.arena(0)
    facts[forest.LEAF_END] = facts[forest.LEAF_TOP] + 3
    side.pool.store.forest.sizes[facts[forest.LEAF_END] :] = 77
    assert merge_side(side.pool.store, 0, 0) == layout.NO_NODES
    assert empty_trees(side.pool.store, 0) == layout.NO_NODES
    assert dumped(side.pool) != [], "the run is there already"
    while empty_trees(side.pool.store, 0) == layout.NO_NODES:
        side.pool.grow_nodes(0)
    side.check()


def test_reading_and_writing_under_locks_gives_them_all_back() -> None:
    side = Side(merged(layout.PARTED, limit=8, depth=2, rows=32))
    side.insert([key % 7 for key in range(20)])
    store, path = side.pool.store, side.pool.path
    for row, key in enumerate([3, LOW, HIGH, 6, 0], 20):
        put_parted(store, 0, key, row, path, True)
        side.facts[layout.YOUNG] += 1
        side.rows.append((key, row))
    side.check()
    for low, high in BOXES:
        expected = sorted(row for key, row in side.rows if low <= key <= high and 4 <= row < 23)
        for room in (1, 50) if low <= high else ():
            cursor, found, filled = np.array([0, -1, 0]), [], layout.FULL
            while filled < 0:
                positions, rows = np.full(room, -1), np.full(room, -1)
                filled = collect(
                    store, 0, low, high, 4, 23, cursor, 7, 0, positions, rows, True
                )  # fmt: skip
                count = room if filled < 0 else filled
                assert positions[:count].tolist() == [7] * count
                found += rows[:count].tolist()
                assert not store.locks.any()
            assert sorted(found) == expected


# --- Chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("immutable", [True, False])
@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_chain_goes_round_its_ring(length: int, immutable: bool) -> None:
    limit = 6
    window = limit * (length - 1)
    side = Side(chain(length, immutable=immutable, limit=limit))
    for number in range(20 * limit):
        side.expire(max(0, number + 1 - window))
        side.insert([number % 5])
        side.check()
        assert side.facts[layout.LIMIT] == limit, "the oldest has expired when its place is needed"
    low, high = (
        (layout.RUNS_LOW, layout.RUNS_HIGH) if immutable else (layout.TREES_LOW, layout.TREES_HIGH)
    )
    assert side.facts[low] > length, "around it more than once"
    assert side.facts[high] - side.facts[low] <= length
    side.expire(side.number)
    side.check()
    assert side.facts[high] - side.facts[low] <= (0 if immutable else 2)


@pytest.mark.parametrize("immutable", [True, False])
def test_the_active_subindex_grows_on_while_none_expires(immutable: bool) -> None:
    side = Side(chain(3, immutable=immutable, limit=4))
    store = side.pool.store
    for number in range(40):
        side.insert([number % 7])
        side.check()
    places = 3 if immutable else 2
    assert side.facts[layout.YOUNG] == 40 - 4 * places
    assert archive(store, 0) == layout.NO_SLOT
    side.expire(3)
    assert archive(store, 0) == layout.NO_SLOT, "one row of the oldest is left"
    side.expire(4)
    side.insert([5])
    side.check()
    assert side.facts[layout.YOUNG] == 0, "archived, however long it had become"
    assert side.facts[layout.LIMIT] == 4
    side.insert([1, 2, 3])
    side.check()


def test_a_run_that_is_too_short_is_told_before_anything_changes() -> None:
    side = Side(chain(2, immutable=True, limit=4))
    side.facts[layout.LIMIT] = 6
    cursor, keys = np.zeros(1, np.int64), np.arange(9)
    insert_rows(side.pool.store, 0, keys, keys, cursor, side.pool.path)
    assert (cursor[0], side.facts[layout.YOUNG]) == (6, 6)
    assert archive(side.pool.store, 0) == layout.NO_ROOM
    side.pool.grow_run(0, 6)
    assert archive(side.pool.store, 0) == layout.DONE
    side.rows = [(key, key) for key in range(6)]
    side.check()
