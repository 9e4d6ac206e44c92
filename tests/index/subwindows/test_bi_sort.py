"""BI-Sort: buffer, main array and index array, ranges, merges by several threads."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.base import Index
from thetastream.index.subwindows import bi_sorted
from thetastream.index.subwindows.bi_sort import BiSort
from thetastream.index.subwindows.bi_sorted import BiSorted

from ...keys import HIGH, KEYS, pair_counts


def inside(index: Index) -> list[BiSorted]:
    assert isinstance(index, BiSort)
    found = [link.part.inside for link in index._links]
    assert all(isinstance(one, BiSorted) for one in found)
    return found  # type: ignore[return-value]


def arrays(one: BiSorted) -> tuple[list[int], list[int], list[int]]:
    """Main array, index array, buffer."""
    main = one._keys[: one._count]
    return main.tolist(), one._samples.tolist(), one._waiting[0].tolist()


def test_the_picture_of_the_module() -> None:
    index = BiSort(capacity=40, subwindows=1, partitions=10, buffer=3)
    index.insert(np.array([15, 3, 9, 5, 30, 14, 6, 21, 15, 18]), np.arange(10))
    index.insert(np.array([90, 4, 15]), np.arange(10, 13))
    (one,) = inside(index)
    assert arrays(one) == (
        [3, 5, 6, 9, 14, 15, 15, 18, 21, 30],
        [3, 14, 21],
        [4, 15, 90],
    )
    index.check()


def test_small_batches_wait_until_the_buffer_overflows() -> None:
    index = BiSort(capacity=100, subwindows=1, buffer=4)
    index.insert(np.array([5]), np.array([0]))
    index.insert(np.array([1, 9, 7]), np.arange(1, 4))
    assert arrays(inside(index)[0])[::2] == ([], [1, 5, 7, 9])
    assert index.statistics["merges"] == 0
    index.insert(np.array([6]), np.array([4]))
    assert arrays(inside(index)[0])[::2] == ([1, 5, 6, 7, 9], [])
    index.insert(np.array([2]), np.array([5]))
    index.insert(np.arange(5), np.arange(6, 11))
    assert arrays(inside(index)[0])[::2] == ([0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 9], [])
    assert index.statistics["merges"] == 2
    assert index.statistics["merged_rows"] == 5 + 11
    assert index.statistics["merge_seconds"] > 0


def test_a_closed_subwindow_has_no_buffer() -> None:
    index = BiSort(capacity=6, subwindows=2, buffer=5)
    index.insert(np.array([4, 2, 3, 1]), np.arange(4))
    first, second = inside(index)
    assert arrays(first)[::2] == ([2, 3, 4], [])
    assert arrays(second)[::2] == ([], [1])


@pytest.mark.parametrize("partitions", [0, 1, 3, 1000])
def test_the_index_array_follows_the_partitions(partitions: int) -> None:
    index = BiSort(capacity=1000, subwindows=1, partitions=partitions, buffer=1)
    index.insert(np.arange(1000) * 3, np.arange(1000))
    step = -(-1000 // (partitions or 1000 // 64))
    assert arrays(inside(index)[0])[1] == list(range(0, 3000, 3 * step))


def test_a_batch_is_merged_where_the_array_lies() -> None:
    index = BiSort(capacity=100, subwindows=1, buffer=1)
    index.insert(np.arange(10), np.arange(10))
    before = inside(index)[0]._keys
    index.insert(np.arange(10), np.arange(10, 20))
    assert inside(index)[0]._keys is before
    answer = index.probe(np.array([0]), np.array([4]))
    index.insert(np.arange(10), np.arange(20, 30))
    assert inside(index)[0]._keys is not before, "an answer is open"
    assert sorted(next(answer)[1].tolist()) == [*range(5), *range(10, 15)]
    del answer
    after = inside(index)[0]._keys
    index.insert(np.arange(10), np.arange(30, 40))
    assert inside(index)[0]._keys is after


@pytest.mark.parametrize("threads", [2, 3])
@given(st.lists(st.lists(KEYS, max_size=9), max_size=6))
def test_threads_merge_the_same_array(threads: int, batches: list[list[int]]) -> None:
    one, several = (
        BiSort(capacity=30, subwindows=1, buffer=2, threads=count) for count in (1, threads)
    )
    alone, bi_sorted._ALONE = bi_sorted._ALONE, 1
    try:
        first, answers = 0, []
        for batch in batches:
            for index in (one, several):
                index.insert(np.array(batch, np.int64), np.arange(first, first + len(batch)))
                index.check()
            first += len(batch)
            answers.append((several.ranges(np.array([0]), np.array([HIGH])), first))
            if len(answers) > 2:
                answers.pop(0)
    finally:
        bi_sorted._ALONE = alone
    assert [part.tolist() for part in one.dump()] == [part.tolist() for part in several.dump()]
    for mine, theirs in zip(inside(one), inside(several), strict=True):
        assert arrays(mine) == arrays(theirs)
    keys = [key for batch in batches for key in batch]
    for ranges, count in answers:
        assert pair_counts(ranges.pairs(7), 7) == Counter(
            (0, row) for row in range(count) if keys[row] >= 0
        )


def test_long_batches_are_merged_by_threads() -> None:
    """Long enough without any shrinking."""
    random = np.random.default_rng(1)
    keys = random.integers(0, 1000, 1 << 17)
    index = create("bi-sort", capacity=1 << 17, subwindows=1, threads=2)
    for at in range(0, keys.size, 1 << 14):
        index.insert(keys[at : at + (1 << 14)], np.arange(at, at + (1 << 14)))
    index.check()
    ranges = index.ranges(np.array([0, 10]), np.array([999, 20]))
    assert ranges.counts(2).tolist() == [keys.size, np.count_nonzero((keys >= 10) & (keys <= 20))]


# --- Ranges -------------------------------------------------------------------------------------


def test_ranges_pass_over_expired_rows_and_read_the_buffer() -> None:
    index = BiSort(capacity=8, subwindows=2, buffer=2)
    index.insert(np.array([1, 2, 3, 2]), np.arange(4))  # a closed subwindow
    index.insert(np.array([2, 5, 2]), np.arange(4, 7))  # merged: more than the buffer holds
    index.expire(2)
    ranges = index.ranges(np.array([2, 1, 7]), np.array([2, 9, 9]))
    assert pair_counts(ranges.pairs(7), 7) == Counter(
        [(0, 3), (0, 4), (0, 6), *((1, row) for row in range(2, 7))]
    )
    assert ranges.ids[0].tolist() == [3, 2], "rows 0 and 1 have expired"
    index = BiSort(capacity=20, subwindows=2, buffer=2)
    index.insert(np.array([4, 1, 2]), np.arange(3))
    index.insert(np.array([2]), np.array([3]))  # waits
    ranges = index.ranges(np.array([2]), np.array([3]))
    assert len(ranges) == len(ranges.ids) == 2, "main array and buffer"
    assert pair_counts(ranges.pairs(7), 7) == Counter([(0, 2), (0, 3)])


def test_ranges_are_a_snapshot_of_both_arrays() -> None:
    index = BiSort(capacity=100, subwindows=1, buffer=3)
    index.insert(np.arange(10, 20), np.arange(10))
    index.insert(np.array([12, 13]), np.array([10, 11]))
    ranges = index.ranges(np.array([0, 13]), np.array([99, 13]))
    held = [ids.tolist() for ids in ranges.ids]
    index.insert(np.arange(30), np.arange(12, 42))  # merged in front of what was found
    index.expire(20)
    assert [ids.tolist() for ids in ranges.ids] == held
    assert pair_counts(ranges.pairs(7), 7) == Counter(
        [*((0, row) for row in range(12)), (1, 3), (1, 11)]
    )


def test_the_cost_of_ranges_does_not_follow_from_the_matches() -> None:
    """2^31 matches and more, in a few records per box; none is written until it is read."""
    rows = boxes = 1 << 16
    index = create("bi-sort", capacity=rows, subwindows=2)
    index.insert(np.full(rows, 7), np.arange(rows))
    ranges = index.ranges(np.zeros(boxes, np.int64), np.full(boxes, 9))
    assert ranges.matches == rows * boxes >= 1 << 31
    assert len(ranges) == 2 * boxes
    assert next(ranges.pairs(5))[0].tolist() == [0] * 5


# --- Parameters ---------------------------------------------------------------------------------


def test_bytes() -> None:
    window = 1 << 15
    index = create("bi-sort", capacity=window)
    index.insert(np.random.default_rng(2).integers(0, 99, window), np.arange(window))
    assert 16 * window <= index.nbytes < 17 * window


@pytest.mark.parametrize("buffer", [0, -1])
def test_a_buffer_of_nothing(buffer: int) -> None:
    with pytest.raises(RegistryError, match=f"buffer must be at least 1; got {buffer}"):
        create("bi-sort", buffer=buffer)
