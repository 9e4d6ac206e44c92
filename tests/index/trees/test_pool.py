"""Arrays of one or two sides: how they are laid out, how they grow, what ``check_pool`` sees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import (
    delete_rows,
    merge_side,
)
from thetastream.index.trees.pool import Pool, Recipe

from ...keys import HIGH, LOW, Pair
from .small_pools import chain, dumped, insert, leaves_of, merged, small

RECIPES = {
    "b+tree": small(layout.SINGLE, tree_rows=4),
    "round-robin": small(layout.ROBIN, trees=3, tree_rows=4),
    "im-tree": merged(layout.SINGLE, tree_rows=4, rows=9, limit=8),
    "pim-tree": merged(layout.PARTED, tree_rows=4, runs=2, rows=9, limit=8),
    "IB-chain": chain(3, immutable=True, tree_rows=4, limit=8),
    "B-chain": chain(3, immutable=False, tree_rows=4, limit=8),
}
DELETES = ("b+tree", "round-robin")


def rows(pool: Pool, side: int) -> list[Pair]:
    return sorted(dumped(pool, side))


def filled(*names: str, count: int = 21, delete: bool = True) -> Pool:
    """Sides with rows; where rows can be deleted, with freed nodes too."""
    pool = Pool([RECIPES[name] for name in names])
    for side, name in enumerate(names):
        keys = [(7 * row + side) % 10 for row in range(count)]
        insert(pool, side, keys)
        if delete and name in DELETES:
            gone = np.arange(0, count, 2)
            found = delete_rows(pool.store, side, np.array(keys)[gone], gone, pool.path)
            assert found == gone.size
    return pool


def expected(name: str, side: int, count: int = 21) -> list[Pair]:
    kept = [row for row in range(count) if row % 2 or name not in DELETES]
    return sorted(((7 * row + side) % 10, row) for row in kept)


# --- Layout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", RECIPES)
@pytest.mark.parametrize("first", RECIPES)
def test_parts_of_two_sides_lie_apart(first: str, second: str) -> None:
    pool = Pool([RECIPES[first], RECIPES[second]])
    f, runs = pool.store.forest, pool.store.runs
    arenas = [pool.arena(number) for side in range(2) for number in pool.arenas_of(side)]
    for ends, array in (
        ((forest.LEAF_FIRST, forest.LEAF_END), f.keys),
        ((forest.INNER_FIRST, forest.INNER_END), f.seps),
    ):
        cuts = [int(row[end]) for row in arenas for end in ends]
        assert cuts == sorted(cuts)
        assert (cuts[0], cuts[-1]) == (0, len(array))
        assert cuts[1:-1:2] == cuts[2::2], "one ends where the next begins"
    facts = [pool.run(run) for run in range(runs.facts.size // css.RUN_SIZE)]
    ends = [(int(run[css.START]), int(run[css.START] + run[css.ROOM])) for run in facts]
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    assert not ends or ends[-1][1] <= runs.keys.size
    for side in range(2):
        check_pool(pool, side)
        assert rows(pool, side) == []


def test_bytes_are_those_of_the_arrays() -> None:
    pool = Pool([RECIPES["pim-tree"], RECIPES["b+tree"]])
    store = pool.store
    arrays = [*store.forest, *store.runs, store.sides, store.lasts, store.locks]
    assert pool.nbytes == sum(array.size * 8 for array in arrays)


def test_views_are_written_through() -> None:
    pool = Pool([RECIPES["b+tree"], RECIPES["b+tree"]])
    pool.side(1)[layout.BEFORE] = 77
    assert pool.store.sides[layout.SIDE_SIZE + layout.BEFORE] == 77
    assert pool.side(0)[layout.BEFORE] == 0


@pytest.mark.parametrize("depth", [-1, 0, 1, 2, 9])
def test_recipes_reckon_with_a_leaf_per_subindex(depth: int) -> None:
    recipe = Recipe(
        layout.PARTED, trees=1, tree_rows=10, runs=1, run_rows=100, depth=depth, shared=True,
        run_leaf=4, run_fanout=3,
    )  # fmt: skip
    pool = Pool([recipe])
    insert_all = np.arange(100)
    pool.store.runs.keys[:100] = pool.store.runs.ids[:100] = insert_all
    pool.run(0)[css.COUNT] = 100
    merge_side(pool.store, 0, 0)
    check_pool(pool, 0)
    levels = int(pool.run(0)[css.LEVELS])
    at = levels - 1 if depth < 0 else min(depth, levels)
    assert pool.side(0)[layout.DEPTH] == at
    assert pool.run(0)[css.NODES + at] <= recipe.heads <= recipe.parts


# --- Growth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", RECIPES)
@pytest.mark.parametrize("first", RECIPES)
def test_more_nodes_for_one_side_move_the_other(first: str, second: str) -> None:
    pool = filled(first, second)
    for turn in range(3):
        for side, other in ((0, 1), (1, 0)):
            before = rows(pool, other)
            for arena in pool.arenas_of(side):
                pool._widen(arena, 3 + turn, 0 if turn == 1 else 5)
            assert rows(pool, other) == before
            for each in range(2):
                check_pool(pool, each)
    # What was freed and what was not taken yet can be used after the move.
    for side, name in enumerate((first, second)):
        insert(pool, side, [3, HIGH, LOW, 3] * 9, first=21)
        check_pool(pool, side)
        extra = [(key, 21 + row) for row, key in enumerate([3, HIGH, LOW, 3] * 9)]
        assert rows(pool, side) == sorted(expected(name, side) + extra)


@pytest.mark.parametrize("second", ["im-tree", "pim-tree", "IB-chain"])
@pytest.mark.parametrize("first", ["im-tree", "pim-tree", "IB-chain"])
def test_longer_runs_keep_what_they_hold(first: str, second: str) -> None:
    pool = filled(first, second)
    for side, more in ((0, 1), (1, 17), (0, 60)):
        run_rows = pool.recipes[side].run_rows + more
        other = pool.recipes[1 - side].run_rows
        pool.grow_run(side, run_rows)
        assert (pool.recipes[side].run_rows, pool.recipes[1 - side].run_rows) == (run_rows, other)
        for each, name in enumerate((first, second)):
            check_pool(pool, each)
            assert rows(pool, each) == expected(name, each)
    for side in range(2):
        insert(pool, side, [4] * 30, first=21)
        check_pool(pool, side)
        assert len(rows(pool, side)) == 51


def test_a_longer_run_has_more_subindexes() -> None:
    pool = filled("pim-tree", "pim-tree")
    slots = int(pool.side(0)[layout.TREES_SLOTS])
    locks = pool.store.locks.size
    pool.grow_run(0, 100)
    facts, other = pool.side(0), pool.side(1)
    more = int(facts[layout.TREES_SLOTS]) - slots
    assert more > 0
    assert pool.store.locks.size == locks + more
    assert other[layout.TREES_FIRST] == facts[layout.TREES_SLOTS]
    assert other[layout.LOCKS_FIRST] == facts[layout.TREES_SLOTS]
    insert(pool, 0, [row % 50 for row in range(200)], first=21)
    for side in range(2):
        check_pool(pool, side)
    assert len(rows(pool, 0)) == 221


def test_only_arenas_that_are_short_of_nodes_grow() -> None:
    pool = Pool([small(layout.ROBIN, trees=2, tree_rows=4)])
    before = [
        int(pool.arena(a)[forest.LEAF_END] - pool.arena(a)[forest.LEAF_FIRST]) for a in (0, 1)
    ]
    insert(pool, 0, [1] * 12)
    pool.arena(1)[forest.LEAF_TOP] = pool.arena(1)[forest.LEAF_END] - 1
    pool.grow_nodes(0)
    after = [int(pool.arena(a)[forest.LEAF_END] - pool.arena(a)[forest.LEAF_FIRST]) for a in (0, 1)]
    assert after[0] == before[0]
    assert after[1] > before[1]
    fresh = Pool([small(layout.SINGLE, tree_rows=400)])
    size = fresh.nbytes
    fresh.grow_nodes(0)
    assert fresh.nbytes == size, "there are nodes enough"


def test_threads_need_more_spare_nodes() -> None:
    pool = Pool([RECIPES["b+tree"]])
    pool.grow_nodes(0, threads=20)
    facts = pool.arena(0)
    for end, top in ((forest.LEAF_END, forest.LEAF_TOP), (forest.INNER_END, forest.INNER_TOP)):
        assert facts[end] - facts[top] >= 20 * 3


# --- What the check sees ------------------------------------------------------------------------


def orchard(sides: int = 1) -> Pool:
    """B⁺-trees of different keys, some nodes of which were freed."""
    pool = Pool([RECIPES["b+tree"]] * sides)
    keys = [(7 * row) % 61 for row in range(60)]
    for side in range(sides):
        insert(pool, side, keys)
        gone = np.array([row for row in range(60) if 20 <= keys[row] < 45])
        delete_rows(pool.store, side, np.array(keys)[gone], gone, pool.path)
    return pool


def root_of(pool: Pool) -> int:
    return int(pool.store.forest.trees[forest.ROOT])


def full_leaf(pool: Pool, tree: int = 0) -> int:
    """A leaf with two different keys."""
    f = pool.store.forest
    for leaf in leaves_of(pool, tree):
        if f.sizes[leaf] > 1 and f.keys[leaf, 0] < f.keys[leaf, f.sizes[leaf] - 1]:
            return leaf
    raise AssertionError("no such leaf")


def swap_keys(pool: Pool) -> None:
    leaf, f = full_leaf(pool), pool.store.forest
    last = int(f.sizes[leaf]) - 1
    f.keys[leaf, 0], f.keys[leaf, last] = f.keys[leaf, last], f.keys[leaf, 0]


def key_beyond_its_separator(pool: Pool) -> None:
    f, leaf = pool.store.forest, leaves_of(pool)[0]
    f.keys[leaf, f.sizes[leaf] - 1] = 99


def key_before_its_separator(pool: Pool) -> None:
    f, leaf = pool.store.forest, leaves_of(pool)[-1]
    f.keys[leaf, 0] = LOW


def raise_separator(pool: Pool) -> None:
    pool.store.forest.seps[root_of(pool), 0] = 99


def lower_separator(pool: Pool) -> None:
    pool.store.forest.seps[root_of(pool), 0] = LOW


def separator_behind_the_last(pool: Pool) -> None:
    f, root = pool.store.forest, root_of(pool)
    f.seps[root, f.widths[root] - 1] = 99


def break_link(pool: Pool) -> None:
    pool.store.forest.nexts[leaves_of(pool)[1]] = -1


def link_past_a_leaf(pool: Pool) -> None:
    leaves = leaves_of(pool)
    pool.store.forest.nexts[leaves[0]] = leaves[2]


def link_behind_the_last(pool: Pool) -> None:
    leaves = leaves_of(pool)
    pool.store.forest.nexts[leaves[-1]] = leaves[0]


def forget_a_row(pool: Pool) -> None:
    pool.store.forest.sizes[leaves_of(pool)[0]] -= 1


def empty_a_leaf(pool: Pool) -> None:
    f, leaf = pool.store.forest, leaves_of(pool)[1]
    f.sizes[leaf] = 0
    f.keys[leaf] = HIGH


def fill_a_free_slot(pool: Pool) -> None:
    f = pool.store.forest
    leaf = next(leaf for leaf in leaves_of(pool) if f.sizes[leaf] < f.shape[0])
    f.keys[leaf, f.sizes[leaf]] = 5


def wrong_rank(pool: Pool) -> None:
    pool.store.forest.ranks[root_of(pool)] += 1


def root_with_one_child(pool: Pool) -> None:
    f, root = pool.store.forest, root_of(pool)
    f.widths[root] = 1
    f.seps[root] = HIGH


def wrong_height(pool: Pool) -> None:
    f = pool.store.forest
    f.trees[forest.ROOT] = f.children[root_of(pool), 0]


def swap_children(pool: Pool) -> None:
    f, root = pool.store.forest, root_of(pool)
    f.children[root, [0, 1]] = f.children[root, [1, 0]]


def top_behind_the_end(pool: Pool) -> None:
    facts = pool.arena(0)
    facts[forest.LEAF_TOP] = facts[forest.LEAF_END] + 1


def freed_leaves_in_a_ring(pool: Pool) -> None:
    facts = pool.arena(0)
    first = int(facts[forest.LEAF_FREE])
    assert first >= 0
    pool.store.forest.nexts[first] = first


def lose_freed_leaves(pool: Pool) -> None:
    pool.arena(0)[forest.LEAF_FREE] = -1


def lose_freed_inners(pool: Pool) -> None:
    pool.arena(0)[forest.INNER_FREE] = -1


def free_a_leaf_in_use(pool: Pool) -> None:
    pool.arena(0)[forest.LEAF_FREE] = leaves_of(pool)[-1]


TREE_MISTAKES: list[Callable[[Pool], None]] = [
    swap_keys, key_beyond_its_separator, key_before_its_separator, raise_separator,
    lower_separator, separator_behind_the_last, break_link, link_past_a_leaf,
    link_behind_the_last, forget_a_row, empty_a_leaf, fill_a_free_slot, wrong_rank,
    root_with_one_child, wrong_height, swap_children, top_behind_the_end, freed_leaves_in_a_ring,
    lose_freed_leaves, lose_freed_inners, free_a_leaf_in_use,
]  # fmt: skip


def swap_keys_of_the_run(pool: Pool) -> None:
    keys, start = pool.store.runs.keys, int(pool.run(0)[css.START])
    keys[start], keys[start + 15] = keys[start + 15], keys[start]


def change_a_separator(pool: Pool) -> None:
    pool.store.runs.directory[int(pool.run(0)[css.DIRECTORY])] += 1


def lower_the_last_separator(pool: Pool) -> None:
    fanout = int(pool.store.runs.shape[0])
    pool.store.runs.directory[int(pool.run(0)[css.DIRECTORY]) + fanout - 1] = 99


def more_rows_than_room(pool: Pool) -> None:
    pool.run(0)[css.COUNT] = pool.run(0)[css.ROOM] + 1


def fewer_leaves_than_rows(pool: Pool) -> None:
    pool.run(0)[css.COUNT] += 1


def count_a_young_row_twice(pool: Pool) -> None:
    pool.side(0)[layout.YOUNG] += 1


RUN_MISTAKES: list[Callable[[Pool], None]] = [
    swap_keys_of_the_run, change_a_separator, lower_the_last_separator, more_rows_than_room,
    fewer_leaves_than_rows, count_a_young_row_twice,
]  # fmt: skip


def parts_of(pool: Pool) -> int:
    return int(pool.run(0)[css.NODES + pool.side(0)[layout.DEPTH]])


def break_the_link_across(pool: Pool) -> None:
    last = leaves_of(pool, 0)[-1]
    pool.store.forest.nexts[last] = -1


def skip_a_subindex(pool: Pool) -> None:
    last = leaves_of(pool, 0)[-1]
    pool.store.forest.nexts[last] = leaves_of(pool, 2)[0]


def key_in_the_wrong_subindex(pool: Pool) -> None:
    f = pool.store.forest
    leaf = next(
        leaf for part in range(1, parts_of(pool)) for leaf in leaves_of(pool, part) if f.sizes[leaf]
    )
    f.keys[leaf, 0] = LOW


def exchange_two_subindexes(pool: Pool) -> None:
    table = pool.store.forest.trees.reshape(-1, forest.TREE_SIZE)
    table[[0, 1]] = table[[1, 0]]


def keep_a_lock(pool: Pool) -> None:
    pool.store.locks[1] = 1


def link_behind_the_last_subindex(pool: Pool) -> None:
    pool.store.forest.nexts[leaves_of(pool, parts_of(pool) - 1)[-1]] = 0


PART_MISTAKES: list[Callable[[Pool], None]] = [
    break_the_link_across, skip_a_subindex, key_in_the_wrong_subindex, exchange_two_subindexes,
    keep_a_lock, link_behind_the_last_subindex,
]  # fmt: skip


def freed() -> Pool:
    pool = orchard()
    assert min(pool.arena(0)[[forest.LEAF_FREE, forest.INNER_FREE]]) >= 0
    return pool


def parted() -> Pool:
    pool = filled("pim-tree")
    assert parts_of(pool) >= 4
    return pool


@pytest.mark.parametrize(
    ("make", "mistake"),
    [
        *((freed, mistake) for mistake in TREE_MISTAKES),
        *((lambda: filled("im-tree"), mistake) for mistake in RUN_MISTAKES),
        *((parted, mistake) for mistake in RUN_MISTAKES + PART_MISTAKES),
    ],
    ids=lambda value: value.__name__.replace("<lambda>", "merged"),
)
def test_what_is_broken_is_seen(make: Callable[[], Pool], mistake: Callable[[Pool], None]) -> None:
    pool = make()
    check_pool(pool, 0)
    mistake(pool)
    with pytest.raises(AssertionError):
        check_pool(pool, 0)


def test_one_side_is_checked_at_a_time() -> None:
    pool = orchard(sides=2)
    swap_keys(pool)
    check_pool(pool, 1)
    with pytest.raises(AssertionError):
        check_pool(pool, 0)
