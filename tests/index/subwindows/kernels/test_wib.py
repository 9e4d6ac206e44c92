"""WiB⁺-Tree: leaves that are cut about their median, heavy keys, probes along the bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream._jit.compiling import ENABLED
from thetastream.index.subwindows.kernels import llat, rap, wib
from thetastream.index.subwindows.wide_tree import WideTree

from ....keys import HIGH, KEYS, LOW, Pair, drained, edges, inside, int64

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

BATCHES = st.lists(st.lists(KEYS, max_size=12).map(sorted), max_size=6)
BOXES = st.lists(st.tuples(KEYS, KEYS), max_size=6)


def tree_of(
    batches: Sequence[Sequence[int]], width: int, fanout: int = 3, is_sorted: bool = False
) -> WideTree:
    """A tree with leaves of ``width`` places that took sorted batches; ids 0, 1, …"""
    tree = WideTree(size=1, parts=1, fanout=fanout, sorted_leaves=is_sorted)
    tree.table.facts[llat.WIDTH] = width
    tree.table = tree.table._replace(
        keys=np.empty(tree.table.sizes.size * width + llat.BLOCK, np.int64),
        ids=np.empty(tree.table.sizes.size * width, np.int64),
    )
    first = 0
    for batch in batches:
        tree.insert(int64(batch), np.arange(first, first + len(batch)))
        tree.check()
        first += len(batch)
    return tree


def rows_of(batches: Sequence[Sequence[int]]) -> list[Pair]:
    keys = [key for batch in batches for key in batch]
    return list(zip(keys, range(len(keys)), strict=True))


def probed(tree: WideTree, boxes: Sequence[Pair], before: int, after: int, room: int) -> list[Pair]:
    scratch = np.empty(2 * rap.BLOCK, np.int64)
    asked = (tree.tree, tree.table, *edges(boxes), before, after)
    return drained(
        lambda cursor, *out: wib.probe_rows(*asked, cursor, 0, *out, scratch),
        len(boxes),
        room,
        [0, -1, 0, 0, 0],
    )


@pytest.mark.parametrize("is_sorted", [False, True], ids=["unsorted", "sorted"])
@given(
    BATCHES, st.integers(2, 5), BOXES, st.integers(0, 6), st.integers(0, 40),
    st.sampled_from([1, 2, 3, 1000]),
)  # fmt: skip
@example([], 2, [(LOW, HIGH)], 0, 40, 1)
@example([[0] * 12, [-1, 0, 1]], 2, [(0, 0), (-1, 1), (1, 0)], 0, 40, 1)
@example([[HIGH] * 9, [LOW] * 9, [HIGH - 1]], 2, [(HIGH, HIGH), (LOW, LOW)], 0, 40, 2)
@example([[LOW] * 9, [HIGH] * 9, [LOW, LOW + 1]], 3, [(LOW, HIGH)], 3, 14, 3)
def test_inserts_and_probes_against_a_list(
    is_sorted: bool, batches: list[list[int]], width: int, boxes: list[Pair], before: int,
    after: int, room: int,
) -> None:  # fmt: skip
    tree, rows, after = (
        tree_of(batches, width, is_sorted=is_sorted),
        rows_of(batches),
        max(before, after),
    )
    stored = sorted(zip(*(part.tolist() for part in tree.dump()), strict=True))
    assert stored == sorted(rows)
    found = probed(tree, boxes, before, after, room)
    assert sorted(found) == sorted(inside(rows, boxes, before, after))
    assert [at for at, _ in found] == sorted(at for at, _ in found), "box by box"
    assert found == probed(tree, boxes, before, after, 10_000), "any room gives the same order"


@pytest.mark.parametrize("width", [2, 31, 32, 33, 100])
@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_many_rows_and_boxes(width: int, order: str) -> None:
    """More than a block of either, several levels of bounds, batches of any size."""
    count = 1500 if ENABLED else 300
    random = np.random.default_rng(1)
    keys = np.sort(random.integers(0, count // 2, count))
    if order == "descending":
        keys = keys[::-1]
    elif order == "shuffled":
        keys = random.permutation(keys)
    edges = np.cumsum(random.integers(1, 3 * rap.BLOCK, 100))
    batches = [np.sort(part).tolist() for part in np.split(keys, edges[edges < count])]
    tree, rows = tree_of(batches, width), rows_of(batches)
    boxes = [(low - 3, low + 3) for low in random.permutation(count // 2)[:150].tolist()]
    for asked in (boxes, sorted(boxes)):
        found = probed(tree, asked, 7, count - 7, 300)
        assert sorted(found) == sorted(inside(rows, asked, 7, count - 7))


def test_the_picture_of_the_module() -> None:
    batches = [[key] for key in (9, 40, 66, 3, 41, 21, 50, 5, 44, 93, 14, 71, 80)]
    tree = tree_of(batches, 5, fanout=8)
    bounds, firsts = tree.leaves()
    assert bounds[-1] == HIGH
    held = [
        sorted(tree.table.keys[5 * e : 5 * e + tree.table.sizes[e]].tolist())
        for e in firsts.tolist()
    ]
    assert sorted(key for part in held for key in part) == sorted(key for (key,) in batches)
    assert all(2 <= len(part) <= 5 for part in held)


# --- Running out of room ------------------------------------------------------------------------


@pytest.mark.parametrize("is_sorted", [0, 1])
def test_inserts_stop_where_room_runs_out_and_go_on(is_sorted: int) -> None:
    keys = np.sort(np.random.default_rng(2).integers(0, 99, 200))
    tree = WideTree(size=8, parts=4, fanout=3, sorted_leaves=bool(is_sorted))
    scratch, said, done = np.empty(rap.BLOCK, np.int64), set(), 0
    while done < keys.size:
        before = done
        done = wib.insert_rows(
            tree.tree, tree.table, keys, np.arange(keys.size), done, is_sorted, tree._path, scratch
        )
        assert done >= before
        assert tree.table.facts[llat.ROWS] == done, "just what was taken is in"
        tree.rows = done
        tree.check()
        said.add(int(tree._path[-1]))
        if tree._path[-1] == 0:
            assert done == keys.size
            break
        # Growing is what ``insert`` does; one row is enough to have it done.
        tree.insert(keys[done : done + 1], np.array([done]))
        done += 1
    assert wib.NO_ENTRIES in said or wib.NO_NODES in said
    found = probed(tree, [(LOW, HIGH)], 0, keys.size, 1000)
    assert sorted(row for _, row in found) == list(range(keys.size))


# --- Cutting a leaf -----------------------------------------------------------------------------

LEAF = st.lists(KEYS, min_size=1, max_size=40)


@given(LEAF, st.integers(0, 39), st.integers(0, 2))
@example([5] * 9, 4, 1)
@example([1, 5, 5, 5, 5, 5, 5], 3, 0)
def test_selecting_is_sorting_for_one_place(keys: list[int], place: int, pad: int) -> None:
    array = int64([99] * pad + keys + [99] * pad)
    ids, middle = np.arange(array.size), pad + place % len(keys)
    rows = sorted(zip(array.tolist(), ids.tolist(), strict=True))
    found = wib.select(array, ids, pad, pad + len(keys), middle)
    assert found == sorted(keys)[middle - pad]
    assert sorted(zip(array.tolist(), ids.tolist(), strict=True)) == rows, "keys keep their ids"
    assert array[:pad].tolist() == array[array.size - pad :].tolist() == [99] * pad


@given(LEAF, KEYS)
def test_dividing(keys: list[int], bound: int) -> None:
    array, ids = int64(keys), np.arange(len(keys))
    rows = sorted(zip(keys, range(len(keys)), strict=True))
    wib.divide(array, ids, 0, len(keys), np.int64(bound))
    count = sum(key <= bound for key in keys)
    assert np.all(array[:count] <= bound)
    assert np.all(array[count:] > bound)
    assert sorted(zip(array.tolist(), ids.tolist(), strict=True)) == rows


@given(LEAF)
@example([0, 1])
@example([LOW, HIGH, HIGH])
@example([LOW, LOW, LOW, HIGH])
def test_a_cut_is_as_even_as_a_heavy_key_lets_it_be(keys: list[int]) -> None:
    """About the median there are two cuts: before its equals and behind them."""
    ordered = sorted(keys)
    median = ordered[(len(keys) + 1) // 2 - 1]
    bound, count = wib.choose_cut(int64(keys), 0, len(keys), np.int64(median))
    cuts = [sum(key < median for key in keys), sum(key <= median for key in keys)]
    proper = [cut for cut in cuts if 0 < cut < len(keys)]
    if not proper:
        assert count == 0, "one key cannot be cut"
        return
    assert count == sum(key <= bound for key in keys)
    assert abs(len(keys) - 2 * count) == min(abs(len(keys) - 2 * cut) for cut in proper)
