"""The chain itself: late rows, windows by time, growing subwindows, what it observes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.index import create
from thetastream.index.subwindows.chain import Chain

NAMES = ["bi-sort", "llat", "rap-table", "wib-tree", "subwindows"]


def chain(name: str, capacity: int, subwindows: int, **parameters: int) -> Chain:
    index = create(name, capacity=capacity, subwindows=subwindows, **parameters)
    assert isinstance(index, Chain)
    return index


def held(index: Chain) -> list[tuple[list[int], list[int], int | None]]:
    """Per subwindow its ids, those of its late buffer, and its cut."""
    return [
        (
            sorted(link.part.dump()[1].tolist()),
            [] if link.late is None else sorted(link.late.dump()[1].tolist()),
            link.cut,
        )
        for link in index._links
    ]


def found(index: Chain, low: int, high: int) -> list[int]:
    answer = index.probe(np.full((index.columns, 1), low), np.full((index.columns, 1), high))
    return sorted(row for _, ids in answer for row in ids.tolist())


# --- Times --------------------------------------------------------------------------------------


def timed(name: str) -> Chain:
    """Subwindows of the times 10 to 12, 20 to 22, and 30."""
    index = chain(name, 9, 3)
    index.insert(np.arange(3), np.arange(3), np.array([10, 12, 11]))
    index.insert(np.arange(3), np.arange(3, 6), np.array([20, 22, 21]))
    index.insert(np.arange(1), np.arange(6, 7), np.array([30]))
    return index


@pytest.mark.parametrize("name", NAMES)
def test_late_rows_go_to_the_subwindow_of_their_time(name: str) -> None:
    index = timed(name)
    assert held(index) == [([0, 1, 2], [], 12), ([3, 4, 5], [], 22), ([6], [], None)]
    late = np.array([5, 12, 13, 22, 23, 31])
    index.insert(np.full(6, 1), np.arange(7, 13), late)
    index.check()
    assert held(index)[:2] == [([0, 1, 2], [7, 8], 12), ([3, 4, 5], [9, 10], 22)]
    assert held(index)[2][0] == [6, 11, 12]
    assert [part["late rows"] for part in index.details["subwindows"]] == [2, 2, 0]
    assert found(index, 1, 1) == [1, 4, *range(7, 13)]
    assert len(index) == 13


@pytest.mark.parametrize("name", NAMES)
def test_subwindows_leave_by_their_cut(name: str) -> None:
    index = timed(name)
    index.insert(np.array([9]), np.array([7]), np.array([12]))  # late
    index.expire_older(12)
    assert len(held(index)) == 3, "a row of time 12 is still wanted"
    index.expire_older(13)
    assert [rows for rows, _, _ in held(index)] == [[3, 4, 5], [6]], "and its late row with it"
    assert found(index, 0, 9) == [3, 4, 5, 6]
    index.expire_older(100)
    assert [rows for rows, _, _ in held(index)] == [[6]], "the newest has no cut yet"
    index.check()


@pytest.mark.parametrize("name", NAMES)
def test_a_late_row_keeps_only_its_own_subwindow(name: str) -> None:
    """By id the late row is the youngest; by time it leaves with the oldest."""
    index = chain(name, 4, 2)
    index.insert(np.arange(6), np.arange(6), np.arange(6) * 10)
    index.insert(np.array([99]), np.array([6]), np.array([0]))
    index.expire(4)
    index.check()
    assert found(index, 0, 99) == [4, 5, 6]
    index.expire_older(51)
    assert found(index, 99, 99) == []


def test_rows_without_times_are_never_dropped_by_time() -> None:
    index = chain("bi-sort", 4, 2)
    index.insert(np.arange(4), np.arange(4))
    index.insert(np.arange(5), np.arange(4, 9), np.array([10, 11, 12, 13, 14]))
    index.insert(np.array([7]), np.array([9]), np.array([3]))
    index.check()
    ends = [(rows, late) for rows, late, cut in held(index) if cut is not None]
    assert ends[0][1] == [9], "in the oldest subwindow that has a cut"
    index.expire_older(1000)
    assert [rows for rows, _, cut in held(index) if cut is None][:2] == [[0, 1], [2, 3]]
    assert 9 not in found(index, 7, 7)


def test_late_buffers_grow() -> None:
    """More late rows than a buffer is made for, in batches of all sizes."""
    index = chain("rap-table", 100, 2, columns=2)
    keys = np.stack([np.arange(120), np.arange(120) % 7])
    index.insert(keys, np.arange(120), np.arange(120))
    first = 120
    for count in (1, 300, 3000, 5, 1):
        keys = np.stack([np.full(count, 5), np.arange(count) % 7])
        index.insert(keys, np.arange(first, first + count), np.full(count, 3))
        first += count
        index.check()
    assert len(index) == first
    assert index.details["subwindows"][0]["late rows"] == first - 120
    assert found(index, 5, 5) == sorted(
        row
        for at, row in [
            (at, row)
            for start, count in ((120, 1), (121, 300), (421, 3000), (3421, 5), (3426, 1))
            for at, row in zip(range(count), range(start, start + count), strict=True)
        ]
        + [(5, 5)]
        if at % 7 == 5
    )


@pytest.mark.parametrize("name", NAMES)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(-3, 3), st.integers(-6, 2)), max_size=6),
            st.integers(0, 4),
        ),
        max_size=14,
    ),
    st.integers(1, 3),
)
def test_a_window_by_time_with_disorder(
    name: str, story: list[tuple[list[tuple[int, int]], int]], subwindows: int
) -> None:
    """Rows come up to six ticks late; what is wanted is found, what is not may be gone."""
    index = chain(name, 6, subwindows)
    now = number = dropped = 0
    rows: dict[int, tuple[int, int]] = {}
    for batch, step in story:
        now += step
        times = [now + lag for _, lag in batch]
        for (key, _), time in zip(batch, times, strict=True):
            rows[number] = (key, time)
            number += 1
        index.insert(
            np.array([key for key, _ in batch], np.int64),
            np.arange(number - len(batch), number),
            np.array(times, np.int64),
        )
        dropped = max(dropped, now - 5)
        index.expire_older(dropped)
        index.check()
        for low, high in ((-3, 3), (0, 1)):
            answer = found(index, low, high)
            assert len(answer) == len(set(answer))
            for row in answer:
                assert low <= rows[row][0] <= high
            wanted = {
                row for row, (key, time) in rows.items() if low <= key <= high and time >= dropped
            }
            assert wanted <= set(answer)
        for link in index._links:
            assert link.cut is None or link.cut >= dropped
            for part in link.parts:
                times_of = [rows[row][1] for row in part.dump()[1].tolist()]
                assert link.cut is None or max(times_of) <= link.cut


# --- The chain ----------------------------------------------------------------------------------


def test_long_inserts_are_cut_by_arrival() -> None:
    """Whatever the order of keys, and of rows within the insert."""
    index = chain("wib-tree", 9, 3)
    order = np.random.default_rng(1).permutation(14)
    index.insert(np.arange(14)[::-1][order].copy(), order)
    assert [rows for rows, _, _ in held(index)] == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13],
    ]  # fmt: skip
    assert index.statistics["runs"] == 5
    index.check()


def test_subwindows_grow_with_a_window_that_holds_more() -> None:
    index = chain("bi-sort", 8, 4)
    for at in range(0, 400, 4):
        index.insert(np.arange(4), np.arange(at, at + 4))
        index.expire(at + 4 - 200)
    sizes = [link.part.inside.size for link in index._links]
    assert min(sizes) >= 40
    assert len(sizes) <= 6
    index.check()


def test_no_rows_and_no_boxes() -> None:
    index = chain("rap-table", 8, 2)
    nothing = np.empty(0, np.int64)
    index.insert(nothing, nothing)
    index.insert(nothing, nothing, nothing)
    assert index.statistics["runs"] == 0
    index.insert(np.array([1]), np.array([0]))
    assert list(index.probe(nothing, nothing)) == []
    assert index.observed.batch == 1, "inserts of nothing do not count"


def test_what_is_observed() -> None:
    index = chain("bi-sort", 20, 2)
    index.insert(np.zeros(5, np.int64), np.arange(5))
    list(index.probe(np.zeros(4, np.int64), np.zeros(4, np.int64)))
    # Four boxes asked of half a subwindow found 5 rows each: 10 in a full one.
    assert (index.observed.probed, index.observed.matches) == (2.0, 20)
    index.insert(np.zeros(7, np.int64), np.arange(5, 12))
    assert (index.observed.batch, index.observed.selectivity) == (7.0, 10.0)
    assert (index.observed.inserts, index.observed.rows) == (0, 0)
    ranges = index.ranges(np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert ranges.matches == 36
    assert index.observed.matches == 36
    assert index.observed.probed == pytest.approx(3 * 1.2)


def test_a_buffer_and_its_main_array_are_asked_once() -> None:
    index = chain("bi-sort", 20, 2, buffer=2)
    index.insert(np.zeros(3, np.int64), np.arange(3))
    index.insert(np.zeros(2, np.int64), np.arange(3, 5))
    list(index.probe(np.zeros(4, np.int64), np.zeros(4, np.int64)))
    assert (index.observed.probed, index.observed.matches) == (2.0, 20)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_window_that_is_dropped_takes_its_subwindows_along(name: str, workers: int) -> None:
    """Workers serve all windows of a process; they must not keep what nobody can ask any more."""
    index = chain(name, 8, 2, workers=workers)
    index.insert(np.arange(10), np.arange(10))
    parts = [weakref.ref(link.part) for link in index._links]
    assert len(parts) == 3
    assert all(part() is not None for part in parts)
    del index
    gc.collect()
    assert [part() for part in parts] == [None] * 3
