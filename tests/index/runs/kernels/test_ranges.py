"""Ranges of sorted keys, searched by samples; live rows counted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.index.runs.kernels.ranges import BLOCK, count_live, find_ranges

from ....keys import HIGH, KEYS, LOW, Pair, int64

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

SORTED = st.lists(KEYS, max_size=14).map(sorted)
BOXES = st.lists(st.tuples(KEYS, KEYS), max_size=8)


def ranges(keys: Sequence[int], spare: int, step: int, boxes: Sequence[Pair]) -> list[Pair]:
    """Where the rows of each box lie; places behind the rows hold the least key."""
    array = int64([*keys, *[LOW] * spare])
    samples = array[: len(keys) : step].copy()
    lows, highs = int64([low for low, _ in boxes]), int64([high for _, high in boxes])
    starts, stops = np.full(len(boxes), -7), np.full(len(boxes), -7)
    scratch = np.empty(2 * BLOCK, np.int64)
    done = find_ranges(array, len(keys), samples, step, lows, highs, starts, stops, scratch)
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


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 10), st.data())
def test_live_rows_are_counted(ids: list[int], before: int, data: st.DataObject) -> None:
    places = st.integers(0, len(ids))
    pairs = data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=5))
    counts = np.ones(len(pairs), np.int64)
    starts, stops = (int64([pair[end] for pair in pairs]) for end in (0, 1))
    wanted = [sum(row >= before for row in ids[start:stop]) for start, stop in pairs]
    assert count_live(starts, stops, int64(ids), before, counts) == sum(wanted)
    assert counts.tolist() == [1 + found for found in wanted]
