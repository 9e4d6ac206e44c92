"""The batch loops by their contracts: cursors, what stops them, what they leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import (
    archive,
    build_run,
    delete_rows,
    dump_rows,
    empty_trees,
    forget_expired,
    insert_rows,
    merge_side,
    plant_tree,
    probe_rows,
)
from thetastream.index.trees.pool import Pool

from ....keys import HIGH, LOW, Array, edges, inside, int64
from ..small_pools import chain, dumped, merged, small

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

TREE = small(layout.SINGLE, tree_rows=200)
MERGED = {
    "im-tree": merged(layout.SINGLE, tree_rows=40, rows=40, limit=6),
    "pim-tree": merged(layout.PARTED, tree_rows=40, rows=40, limit=6),
}


def inserted(pool: Pool, keys: Array, ids: Array, side: int = 0) -> tuple[int, int]:
    """Insert from the first row on: what it came to, and how many rows were taken."""
    cursor = np.zeros(1, np.int64)
    status = insert_rows(pool.store, side, keys, ids, cursor, pool.path)
    return int(status), int(cursor[0])


def ids_of(pool: Pool) -> list[int]:
    return sorted(row for _, row in dumped(pool))


# --- Insert and delete --------------------------------------------------------------------------


def test_nothing_to_insert() -> None:
    pool = Pool([TREE])
    assert inserted(pool, int64([]), int64([])) == (layout.DONE, 0)
    assert delete_rows(pool.store, 0, int64([]), int64([]), pool.path) == 0
    assert ids_of(pool) == []


@pytest.mark.parametrize("name", MERGED)
def test_inserting_stops_when_it_is_time_to_merge(name: str) -> None:
    pool, keys = Pool([MERGED[name]]), np.arange(10)
    assert inserted(pool, keys, keys) == (layout.DONE, 6)
    assert inserted(pool, keys, keys) == (layout.DONE, 0), "not before it was done"
    assert merge_side(pool.store, 0, 0) == layout.DONE
    assert inserted(pool, keys[6:], keys[6:]) == (layout.DONE, 4)
    check_pool(pool, 0)
    assert ids_of(pool) == list(range(10))


def test_rows_are_counted_and_the_last_id_is_noted() -> None:
    pool = Pool([TREE, TREE])
    inserted(pool, int64([5, 6, 7]), int64([3, 9, 4]), side=1)
    facts = pool.side(1)
    assert (facts[layout.YOUNG], facts[layout.ACTIVE]) == (3, 9)
    assert (pool.side(0)[layout.YOUNG], pool.side(0)[layout.ACTIVE]) == (0, 0)


def test_deleting_counts_what_was_there() -> None:
    pool = Pool([TREE])
    inserted(pool, int64([5, 5, 7, 1]), int64([0, 1, 2, 3]))
    found = delete_rows(pool.store, 0, int64([5, 5, 7, 7]), int64([1, 1, 2, 0]), pool.path)
    assert found == 2
    assert ids_of(pool) == [0, 3]
    check_pool(pool, 0)


def test_deleting_goes_to_the_tree_that_has_the_row() -> None:
    pool = Pool([small(layout.ROBIN, trees=2, tree_rows=20)])
    inserted(pool, np.full(8, 4), np.arange(8))
    assert delete_rows(pool.store, 0, np.full(3, 4), int64([0, 3, 5]), pool.path) == 3
    assert ids_of(pool) == [1, 2, 4, 6, 7]
    check_pool(pool, 0)


# --- Probe --------------------------------------------------------------------------------------


def test_pairs_go_behind_what_is_there_and_full_arrays_end_the_call() -> None:
    pool = Pool([TREE])
    inserted(pool, int64([1, 2, 3, 4]), int64([4, 5, 6, 7]))
    positions, rows, cursor = np.full(5, -7), np.full(5, -7), int64([0, -1, 0, 0])
    ask = (pool.store, 0, int64([1, 9, 3]), int64([4, 0, 3]), cursor)
    assert probe_rows(*ask, 3, positions, rows) == 5
    assert rows.tolist() == [-7, -7, -7, 4, 5]
    assert cursor[3] == 0
    assert probe_rows(*ask, 0, positions, rows) == 3
    assert positions[:3].tolist() == [0, 0, 2]
    assert rows[:3].tolist() == [6, 7, 6]
    assert cursor.tolist() == [0, -1, 0, 3]
    assert probe_rows(*ask, 2, positions, rows) == 2, "nothing is left"


def test_an_answer_that_fills_the_arrays_exactly() -> None:
    pool = Pool([TREE])
    inserted(pool, int64([1, 2]), int64([0, 1]))
    positions, rows, cursor = np.empty(2, np.int64), np.empty(2, np.int64), int64([0, -1, 0, 0])
    assert probe_rows(pool.store, 0, int64([1]), int64([2]), cursor, 0, positions, rows) == 2
    assert rows.tolist() == [0, 1]
    again = probe_rows(pool.store, 0, int64([1]), int64([2]), cursor, 0, positions, rows)
    assert again == (0 if cursor[3] == 1 else 2), "no pair comes twice"


@pytest.mark.parametrize("name", MERGED)
@given(
    keys=st.lists(st.integers(0, 5), max_size=30),
    rooms=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    before=st.integers(0, 30),
)
def test_rooms_of_any_size_in_turn(
    name: str, keys: list[int], rooms: list[int], before: int
) -> None:
    pool, array, done = Pool([MERGED[name]]), np.array(keys, np.int64), 0
    while done < len(keys):
        done += inserted(pool, array[done:], np.arange(done, len(keys)))[1]
        if done < len(keys):
            assert merge_side(pool.store, 0, 0) == layout.DONE
    pool.side(0)[layout.BEFORE] = before
    boxes = [(0, 5), (3, 3), (4, 1), (2, HIGH), (LOW, 1)]
    lows, highs = edges(boxes)
    cursor, found, turn = int64([0, -1, 0, 0]), [], 0
    while cursor[3] < len(boxes):
        room = rooms[turn % len(rooms)]
        positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        count = probe_rows(pool.store, 0, lows, highs, cursor, 0, positions, rows)
        found += zip(positions[:count].tolist(), rows[:count].tolist(), strict=True)
        turn += 1
    assert sorted(found) == inside(zip(keys, range(len(keys)), strict=True), boxes, before)


# --- Whole sides --------------------------------------------------------------------------------


def test_dumping_counts_without_arrays() -> None:
    pool = Pool([MERGED["pim-tree"]])
    inserted(pool, np.arange(6), np.arange(6))
    merge_side(pool.store, 0, 0)
    inserted(pool, np.arange(4), np.arange(6, 10))
    pool.side(0)[layout.BEFORE] = 3
    assert dump_rows(pool.store, 0, int64([]), int64([])) == 7
    keys, ids = np.full(8, -7), np.full(8, -7)
    assert dump_rows(pool.store, 0, keys, ids) == 7
    assert sorted(zip(keys.tolist(), ids.tolist(), strict=True)) == [
        (-7, -7), (0, 6), (1, 7), (2, 8), (3, 3), (3, 9), (4, 4), (5, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_emptying_trees_leaves_the_run(name: str) -> None:
    pool = Pool([MERGED[name]])
    inserted(pool, np.arange(6), np.arange(6))
    merge_side(pool.store, 0, 0)
    inserted(pool, np.arange(5), np.arange(6, 11))
    assert empty_trees(pool.store, 0) == layout.DONE
    check_pool(pool, 0)
    assert ids_of(pool) == list(range(6))
    assert pool.side(0)[layout.YOUNG] == 0


def test_planting_touches_one_tree_of_several() -> None:
    pool = Pool([small(layout.ROBIN, trees=2, tree_rows=20)])
    inserted(pool, np.arange(9), np.arange(9))
    assert plant_tree(pool.store, 1) == layout.DONE
    check_pool(pool, 0)
    assert ids_of(pool) == [0, 2, 4, 6, 8]


def test_a_run_is_built_over_its_rows() -> None:
    pool = Pool([MERGED["im-tree"]])
    facts, runs = pool.run(0), pool.store.runs
    runs.keys[:3], runs.ids[:3] = [4, 5, 9], [2, 0, 1]
    facts[css.COUNT] = 3
    assert build_run(pool.store, 0) == layout.DONE
    check_pool(pool, 0)
    assert facts[css.LEVELS] == 2
    assert ids_of(pool) == [0, 1, 2]


def test_chains_archive_and_forget() -> None:
    pool = Pool([chain(2, immutable=True, limit=3, tree_rows=9)])
    keys = np.arange(9)
    facts = pool.side(0)
    assert inserted(pool, keys, keys) == (layout.DONE, 3)
    assert archive(pool.store, 0) == layout.DONE
    assert inserted(pool, keys[3:], keys[3:]) == (layout.DONE, 3)
    assert archive(pool.store, 0) == layout.DONE
    assert pool.store.lasts[:2].tolist() == [2, 5]
    assert (facts[layout.RUNS_LOW], facts[layout.RUNS_HIGH]) == (0, 2)
    facts[layout.BEFORE] = 2
    assert forget_expired(pool.store, 0) == layout.DONE
    assert facts[layout.RUNS_LOW] == 0
    facts[layout.BEFORE] = 3
    forget_expired(pool.store, 0)
    assert (facts[layout.RUNS_LOW], facts[layout.RUNS_HIGH]) == (1, 2)
    check_pool(pool, 0)
    assert ids_of(pool) == [3, 4, 5]
