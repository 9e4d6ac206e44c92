"""The Linked List Adaptive Table: entries taken in turn, chained, counted, read back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.kernels.llat import Llat
from thetastream.index.subwindows.partitioned import check_table, new_table

from ....keys import HIGH, KEYS, LOW

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

# (partition, key) in the order in which they come
ROWS = st.lists(st.tuples(st.integers(0, 2), KEYS), max_size=30)
PARTS = 3


def filled(rows: Sequence[tuple[int, int]], width: int, entries: int = 40) -> Llat:
    """A table of three partitions that took these rows, with ids 0, 1, …"""
    table = new_table(entries, width, PARTS)
    for row, (part, key) in enumerate(rows):
        llat.append(table, part, np.int64(key), row)
        table.facts[llat.ROWS] += 1
    return table


def chain(table: Llat, part: int) -> list[int]:
    """The entries of a partition."""
    entries = [part]
    while table.nexts[entries[-1]] >= 0:
        entries.append(int(table.nexts[entries[-1]]))
    return entries


def test_the_picture_of_the_module() -> None:
    """Three entries for the second partition, an empty one for the third."""
    table = new_table(8, 3, 4)
    for row, part in enumerate([0, 1, 1, 3, 1, 1, 0, 1, 3, 1, 1]):
        llat.append(table, part, np.int64(0), row)
    assert chain(table, 1) == [1, 4, 5]
    assert table.lasts[:4].tolist() == [0, 5, 2, 3]
    assert table.sizes[:6].tolist() == [2, 3, 0, 2, 3, 1]
    assert table.facts[llat.USED] == 6


@given(ROWS, st.integers(1, 4))
@example([(0, 0)] * 12, 3)
@example([], 1)
def test_entries_are_taken_when_a_row_needs_them(rows: list[tuple[int, int]], width: int) -> None:
    table = filled(rows, width)
    found = check_table(table, np.arange(PARTS))
    for part, keys in enumerate(found):
        mine = [key for at, key in rows if at == part]
        assert keys.tolist() == mine, "in the order of their insertion"
        assert len(chain(table, part)) == max(1, -(-len(mine) // width))
    more = [max(0, -(-keys.size // width) - 1) for keys in found]
    assert table.facts[llat.USED] == PARTS + sum(more)


def test_taking_entries_one_by_one() -> None:
    table = new_table(5, 2, 3)
    assert llat.room_for(table, 2)
    assert not llat.room_for(table, 3)
    assert llat.take_entry(table) == 3
    assert llat.take_entry(table) == 4
    assert not llat.room_for(table, 1)
    assert llat.room_for(table, 0)
    assert table.nexts[3:].tolist() == [-1, -1]
    assert table.lasts[3:].tolist() == [3, 4]


@given(ROWS, st.integers(1, 4))
def test_histograms_and_dump(rows: list[tuple[int, int]], width: int) -> None:
    table = filled(rows, width)
    counts, lows, highs = (np.empty(PARTS, np.int64) for _ in range(3))
    assert llat.histogram(table, PARTS, counts, lows, highs) == PARTS
    for part in range(PARTS):
        mine = [key for at, key in rows if at == part]
        assert counts[part] == len(mine)
        assert lows[part] == min(mine, default=HIGH)
        assert highs[part] == max(mine, default=LOW)
    keys, ids = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    assert llat.dump_table(table, keys, ids) == len(rows)
    stored = sorted(zip(ids.tolist(), keys.tolist(), strict=True))
    assert stored == [(row, key) for row, (_, key) in enumerate(rows)]


@given(ROWS, st.integers(1, 4), KEYS, KEYS)
@example([(0, LOW), (1, HIGH)], 1, LOW, HIGH)
@example([(0, LOW), (1, 0), (2, HIGH)], 1, LOW + 1, HIGH - 1)
def test_rows_outside_an_interval(
    rows: list[tuple[int, int]], width: int, low: int, high: int
) -> None:
    low, high = min(low, high), max(low, high)
    outside = sum(not low <= key <= high for _, key in rows)
    assert llat.count_outside(filled(rows, width), np.int64(low), np.int64(high)) == outside
