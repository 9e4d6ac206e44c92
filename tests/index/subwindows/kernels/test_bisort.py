"""BI-Sort: merging in place and in pieces, searching by samples, records written out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.index.subwindows.kernels import bisort
from thetastream.index.subwindows.kernels.rap import BLOCK

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Array = NDArray[np.int64]
Pair = tuple[int, int]
LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]))
SORTED = st.lists(KEYS, max_size=14).map(sorted)
BOXES = st.lists(st.tuples(KEYS, KEYS), max_size=8)


def int64(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


def stable(old: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[int]]:
    """Keys and ids of a merge in which old rows go before new ones."""
    keys = int64([*old, *new])
    order = np.argsort(keys, kind="stable")
    return keys[order].tolist(), order.tolist()


# --- Merging ------------------------------------------------------------------------------------


@given(SORTED, SORTED, st.integers(0, 3))
@example([], [], 0)
@example([1], [], 0)
@example([], [1], 0)
@example([0] * 9, [0] * 3, 0)
@example([LOW, HIGH], [LOW, HIGH], 1)
def test_merging_in_place_is_a_stable_sort(old: list[int], new: list[int], spare: int) -> None:
    total = len(old) + len(new)
    keys, ids = np.full(total + spare, 99), np.full(total + spare, 99)
    keys[: len(old)], ids[: len(old)] = old, np.arange(len(old))
    new_ids = np.arange(len(old), total)
    assert bisort.merge_in_place(keys, ids, len(old), int64(new), new_ids) == total
    assert (keys[:total].tolist(), ids[:total].tolist()) == stable(old, new)
    assert keys[total:].tolist() == ids[total:].tolist() == [99] * spare


@given(SORTED, SORTED)
@example([0] * 5, [0] * 5)
@example([], [0, 0])
@example([0, 0], [])
def test_pieces_of_any_size_make_the_same_merge(old: list[int], new: list[int]) -> None:
    total = len(old) + len(new)
    inputs = (int64(old), np.arange(len(old)), len(old), int64(new), np.arange(len(old), total))
    wanted = stable(old, new)
    for start in range(total + 1):
        for stop in range(start, total + 1):
            keys, ids = np.full(total, 99), np.full(total, 99)
            used = bisort.merge_piece(*inputs, keys, ids, start, stop)
            assert used == sum(row < len(old) for row in wanted[1][:stop])
            assert keys[start:stop].tolist() == wanted[0][start:stop]
            assert ids[start:stop].tolist() == wanted[1][start:stop]
            outside = [*range(start), *range(stop, total)]
            assert np.all(keys[outside] == 99)


@given(SORTED, SORTED, st.integers(0, 3))
def test_where_a_piece_begins(old: list[int], new: list[int], spare: int) -> None:
    """Rows behind ``size`` are not there."""
    room = int64([*old, *[LOW] * spare])
    ids = stable(old, new)[1]
    for place in range(len(old) + len(new) + 1):
        found = bisort.co_rank(room, len(old), int64(new), place)
        assert found == sum(row < len(old) for row in ids[:place])


@pytest.mark.parametrize("sizes", [(1000, 1), (1000, 300), (3, 1000), (512, 512)])
def test_long_arrays(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    old, new = (np.sort(random.integers(0, 400, size)).tolist() for size in sizes)
    total = sum(sizes)
    keys, ids = np.empty(total, np.int64), np.empty(total, np.int64)
    keys[: len(old)], ids[: len(old)] = old, np.arange(len(old))
    bisort.merge_in_place(keys, ids, len(old), int64(new), np.arange(len(old), total))
    assert (keys.tolist(), ids.tolist()) == stable(old, new)
    inputs = (int64(old), np.arange(len(old)), len(old), int64(new), np.arange(len(old), total))
    for pieces in (1, 2, 7):
        keys, ids = np.full(total, -7), np.full(total, -7)
        edges = np.linspace(0, total, pieces + 1).astype(int).tolist()
        for start, stop in pairwise(edges):
            bisort.merge_piece(*inputs, keys, ids, start, stop)
        assert (keys.tolist(), ids.tolist()) == stable(old, new)


# --- Searching ----------------------------------------------------------------------------------


def ranges(keys: Sequence[int], spare: int, step: int, boxes: Sequence[Pair]) -> list[Pair]:
    """Where the rows of each box lie; places behind the rows hold the least key."""
    array = int64([*keys, *[LOW] * spare])
    samples = array[: len(keys) : step].copy()
    lows, highs = int64([low for low, _ in boxes]), int64([high for _, high in boxes])
    starts, stops = np.full(len(boxes), -7), np.full(len(boxes), -7)
    scratch = np.empty(2 * BLOCK, np.int64)
    done = bisort.find_ranges(array, len(keys), samples, step, lows, highs, starts, stops, scratch)
    assert done == len(boxes)
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def bisected(keys: Sequence[int], boxes: Sequence[Pair]) -> list[Pair]:
    found = []
    for low, high in boxes:
        start = bisect_left(keys, low)
        found.append((start, bisect_right(keys, high) if low <= high else start))
    return found


@given(SORTED, st.integers(0, 2), st.integers(1, 5), BOXES)
@example([], 0, 1, [(LOW, HIGH)])
@example([HIGH] * 7, 2, 3, [(HIGH, HIGH), (LOW, HIGH), (0, HIGH - 1)])
@example([LOW] * 7, 0, 2, [(LOW, LOW), (HIGH, LOW), (LOW, HIGH)])
@example([0] * 14, 1, 4, [(0, 0), (1, 1), (0, 0), (-1, -1), (0, 1)])
def test_ranges_by_bisection(keys: list[int], spare: int, step: int, boxes: list[Pair]) -> None:
    assert ranges(keys, spare, step, boxes) == bisected(keys, boxes)


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
@pytest.mark.parametrize("step", [1, 3, 64, 1000])
def test_many_boxes(order: str, step: int) -> None:
    """More than a block of them, in any order."""
    random = np.random.default_rng(4)
    keys = np.sort(random.integers(0, 150, 500)).tolist()
    lows = np.sort(random.integers(-5, 155, 3 * BLOCK + 7))
    if order == "descending":
        lows = lows[::-1].copy()
    elif order == "shuffled":
        random.shuffle(lows)
    boxes = [(low, low + at % 9 - 1) for at, low in enumerate(lows.tolist())]
    assert ranges(keys, 5, step, boxes) == bisected(keys, boxes)


# --- Writing records out ------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40),
    st.integers(0, 9), st.integers(0, 12), st.sampled_from([1, 2, 3, 1000]),
)  # fmt: skip
@example([(0, 0), (3, 5), (0, 0)], 0, 12, 5)
@example([(9, 5)], 9, 9, 1)
def test_records_are_written_in_bounded_chunks(
    records: list[Pair], before: int, after: int, room: int
) -> None:
    """Ranges of rows whose ids are anything but sorted, cut by an interval of ids."""
    ids = np.random.default_rng(5).permutation(14)
    starts = int64([start for start, _ in records])
    stops = starts + int64([length for _, length in records])
    after = max(before, after)
    cursor, found = int64([0, -1]), []
    for _ in range(10_000):
        if cursor[0] >= len(records):
            break
        positions, rows = np.full(room, -7), np.full(room, -7)
        filled = bisort.expand(starts, stops, ids, before, after, cursor, 0, positions, rows)
        assert filled == room or cursor[0] == len(records)
        found += list(zip(positions[:filled].tolist(), rows[:filled].tolist(), strict=True))
    assert found == [
        (box, row)
        for box, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True))
        for row in ids[start:stop].tolist()
        if before <= row < after
    ]
