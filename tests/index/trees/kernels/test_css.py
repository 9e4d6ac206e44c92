"""Immutable B⁺-trees in breadth-first order: directories level by level, searches by bisection."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.index.trees.invariants import check_pool
from thetastream.index.trees.kernels import css
from thetastream.index.trees.kernels import store as layout
from thetastream.index.trees.kernels.rows_in_trees import build_run
from thetastream.index.trees.pool import Pool, Recipe

from ....keys import HIGH, LOW, Pair
from ..small_pools import dumped, probed

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

KEYS = st.one_of(st.integers(-5, 5), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
SHAPES = st.tuples(st.integers(1, 4), st.integers(2, 5))  # rows per leaf, fan-out


def filled(keys: list[int], leaf: int, fanout: int, *, room: int = 0) -> Pool:
    """A pool with one run of these keys; row ``i`` has id ``i``."""
    rows = max(len(keys), room, 1)
    recipe = Recipe(layout.SINGLE, runs=1, run_rows=rows, run_leaf=leaf, run_fanout=fanout)
    pool = Pool([recipe])
    write(pool, 0, keys)
    return pool


def write(pool: Pool, run: int, keys: list[int]) -> None:
    facts, runs = pool.run(run), pool.store.runs
    start = int(facts[css.START])
    runs.keys[start : start + len(keys)] = keys
    runs.ids[start : start + len(keys)] = np.arange(len(keys))
    facts[css.COUNT] = len(keys)
    build_run(pool.store, run)


def levels_of(keys: list[int], leaf: int, fanout: int) -> list[list[list[int]]]:
    """The nodes from the top down, made leaf by leaf from below as Algorithm 3 does it.

    The last child of a node takes all that is above.
    """
    bounds = [keys[min(at + leaf, len(keys)) - 1] for at in range(0, len(keys), leaf)]
    levels: list[list[list[int]]] = []
    while len(bounds) > 1:
        nodes = [bounds[at : at + fanout] for at in range(0, len(bounds), fanout)]
        levels.insert(0, [[*node[:-1], *[HIGH] * (fanout - len(node) + 1)] for node in nodes])
        bounds = [node[-1] for node in nodes]
    return levels


def directory(pool: Pool, run: int = 0) -> list[list[list[int]]]:
    facts = pool.run(run)
    fanout, _, stride = (int(part) for part in pool.store.runs.shape)
    found = []
    for level in range(facts[css.LEVELS]):
        start = int(facts[css.DIRECTORY] + facts[css.OFFSETS + level])
        slots = int(facts[css.NODES + level]) * stride
        nodes = pool.store.runs.directory[start : start + slots].reshape(-1, stride)
        assert np.all(nodes[:, fanout:] == HIGH), "a node is filled up"
        found.append(nodes[:, :fanout].tolist())
    return found


def asked(pool: Pool, boxes: list[Pair], room: int = 99) -> list[list[int]]:
    """Row ids per box, read with ``room`` places at a time."""
    found: list[list[int]] = [[] for _ in boxes]
    for box, row in probed(pool, boxes, room):
        found[box].append(row)
    return found


# --- The directory ------------------------------------------------------------------------------


def test_a_directory_as_drawn_in_the_documentation() -> None:
    keys = [3, 5, 6, 9, 14, 15, 15, 21, 40, 41, 50, 66, 71, 80, 93]
    pool = filled(keys, leaf=4, fanout=2)
    assert directory(pool) == [[[21, HIGH]], [[9, HIGH], [66, HIGH]]]
    facts = pool.run(0)
    assert facts[css.NODES : css.NODES + 3].tolist() == [1, 2, 4]
    assert facts[css.SPAN : css.SPAN + 3].tolist() == [4, 2, 1]


@given(st.lists(KEYS, max_size=60), SHAPES)
@example([], (1, 2))
@example([HIGH], (1, 2))
@example([HIGH] * 33, (1, 2))
@example([LOW] * 27, (1, 3))
@example(list(range(28)), (1, 3))
def test_separators_are_the_last_keys_below(keys: list[int], shape: tuple[int, int]) -> None:
    keys.sort()
    pool = filled(keys, *shape)
    assert directory(pool) == levels_of(keys, *shape)
    check_pool(pool, 0)


@pytest.mark.parametrize(("leaf", "fanout"), [(1, 2), (1, 3), (2, 2), (3, 4), (32, 16)])
def test_a_directory_fits_the_slots_that_were_counted(leaf: int, fanout: int) -> None:
    for rows in (*range(1, 40), 63, 64, 65, 512, 513):
        keys = list(range(rows))
        slots = css.directory_slots(rows, fanout, leaf)
        nodes = sum(map(len, levels_of(keys, leaf, fanout)))
        assert slots == nodes * css.stride_of(fanout)
        assert slots == filled(keys, leaf, fanout).store.runs.directory.size
    assert css.directory_slots(0, fanout, leaf) == 0


def test_a_run_can_shrink_and_grow_within_its_room() -> None:
    pool = filled(list(range(40)), 2, 3)
    for keys in ([5, 5, 6], [], list(range(30)), [HIGH] * 40, [1]):
        write(pool, 0, keys)
        assert directory(pool) == levels_of(keys, 2, 3)
        assert asked(pool, [(LOW, HIGH)]) == [list(range(len(keys)))]


def test_runs_of_one_pool_do_not_touch_each_other() -> None:
    recipe = Recipe(layout.SINGLE, runs=3, run_rows=20, run_leaf=1, run_fanout=2)
    pool = Pool([recipe])
    lists = [[1] * 20, list(range(20)), [-4, HIGH]]
    for run in (1, 0, 2):
        write(pool, run, lists[run])
    for run, keys in enumerate(lists):
        assert directory(pool, run) == levels_of(keys, 1, 2)
        start = int(pool.run(run)[css.START])
        assert pool.store.runs.keys[start : start + len(keys)].tolist() == keys


# --- Searches -----------------------------------------------------------------------------------


@given(st.lists(KEYS, max_size=60), SHAPES, st.integers(1, 70))
@example([HIGH] * 33, (1, 2), 5)
@example([LOW] * 33, (1, 2), 5)
@example([0, HIGH], (1, 2), 1)
def test_intervals_are_found_as_by_bisection(
    keys: list[int], shape: tuple[int, int], room: int
) -> None:
    keys.sort()
    pool = filled(keys, *shape)
    edges = sorted({LOW, HIGH, *range(-7, 8), *keys})
    boxes = [(low, high) for low in edges for high in (low, low + 2, HIGH, LOW) if high <= HIGH]
    assert asked(pool, boxes, room) == [
        list(range(bisect_left(keys, low), bisect_right(keys, high))) for low, high in boxes
    ]


@pytest.mark.parametrize(("leaf", "fanout"), [(1, 2), (4, 3), (32, 16)])
def test_long_runs(leaf: int, fanout: int) -> None:
    rows = 5000 if ENABLED else 600
    keys = np.sort(np.random.default_rng(3).integers(0, rows, rows)).tolist()
    pool = filled(keys, leaf, fanout)
    boxes = [(low, low + 3) for low in range(-5, rows + 5, 7)]
    assert asked(pool, boxes) == [
        list(range(bisect_left(keys, low), bisect_right(keys, high))) for low, high in boxes
    ]


def test_rows_that_have_expired_are_passed_over() -> None:
    pool = filled([1, 1, 2, 2, 3, 3], 1, 2)
    pool.side(0)[layout.BEFORE] = 3
    assert asked(pool, [(1, 3), (1, 1), (2, 2)], room=1) == [[3, 4, 5], [], [3]]
    assert [row for _, row in dumped(pool)] == [3, 4, 5]
