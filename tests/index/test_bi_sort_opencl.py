"""BI-Sort on a device by itself: subwindows, buffer, merges, expiry, bytes; and in a join."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.bi_sort_opencl import BiSortOpenCL
from thetastream.opencl import MainArray, find
from thetastream.testing import JOIN_CHECKS, JoinCheck, make_join

LOW, HIGH = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-4, 4), st.sampled_from([LOW, LOW + 1, 0, HIGH - 1, HIGH]))
STEPS = st.lists(
    st.one_of(
        st.lists(KEYS, max_size=9),  # insert these
        st.integers(1, 8),  # expire so many
    ),
    max_size=20,
)
BOXES = [(LOW, HIGH), (0, 0), (-2, 3), (HIGH, HIGH), (LOW, LOW), (LOW, 0), (0, HIGH), (3, -3)]


def found(index: BiSortOpenCL, boxes: list[tuple[int, int]], limit: int = 64) -> Counter:
    lows, highs = (np.array([box[i] for box in boxes], np.int64) for i in (0, 1))
    answer: Counter = Counter()
    for positions, ids in index.probe(lows, highs, limit=limit):
        assert 0 < positions.size == ids.size <= limit
        answer.update(zip(positions.tolist(), ids.tolist(), strict=True))
    return answer


@pytest.mark.parametrize(
    "parameters",
    [
        {"capacity": 8, "subwindows": 1, "buffer": 3, "partitions": 3},
        {"capacity": 21, "subwindows": 3, "buffer": 1, "partitions": 2},
        {"capacity": 40, "subwindows": 2, "buffer": 5, "partitions": 100},
    ],
    ids=str,
)
@given(steps=STEPS)
@example(steps=[[0] * 9, [0], 6])
@example(steps=[[HIGH] * 9, [LOW], [LOW, HIGH], 5, [0]])
def test_every_step_keeps_the_invariants(
    parameters: dict[str, int], steps: list[list[int] | int]
) -> None:
    index = BiSortOpenCL(**parameters)
    model: dict[int, int] = {}
    number = before = 0
    for step in steps:
        if isinstance(step, list):
            index.insert(np.array(step, np.int64), np.arange(number, number + len(step)))
            model.update(enumerate(step, number))
            number += len(step)
        else:
            before = min(before + step, number)
            index.expire(before)
        live = {row: key for row, key in model.items() if row >= before}
        index.check()
        assert len(index) == len(live)
        assert found(index, BOXES) == Counter(
            (b, row)
            for b, (low, high) in enumerate(BOXES)
            for row, key in live.items()
            if low <= key <= high
        )


@given(st.lists(st.lists(st.tuples(KEYS, KEYS, KEYS), max_size=6), max_size=8), st.data())
def test_several_columns(inserts: list[list[tuple[int, ...]]], data: st.DataObject) -> None:
    index = BiSortOpenCL(capacity=16, columns=3, subwindows=2, buffer=4, partitions=2)
    rows: list[tuple[int, ...]] = []
    for batch in inserts:
        matrix = np.array(batch, np.int64).reshape(-1, 3).T
        index.insert(matrix, np.arange(len(rows), len(rows) + len(batch)))
        rows += batch
    before = data.draw(st.integers(0, len(rows)))
    index.expire(before)
    index.check()
    box = data.draw(st.lists(st.tuples(KEYS, KEYS), min_size=3, max_size=3))
    lows, highs = (np.array([[edge[i]] for edge in box], np.int64) for i in (0, 1))
    answer = index.probe(lows, highs, limit=3)
    chunks = [ids.tolist() for _, ids in answer]
    assert all(0 < len(ids) <= 3 for ids in chunks)
    assert sorted(row for ids in chunks for row in ids) == [
        i
        for i, row in enumerate(rows)
        if i >= before and all(a <= k <= b for k, (a, b) in zip(row, box, strict=True))
    ]
    assert [ids.tolist() for _, ids in answer.again()] == chunks


def test_a_large_window_that_slides() -> None:
    random, window, batch = np.random.default_rng(3), 1 << 14, 3000
    index = BiSortOpenCL(capacity=window, subwindows=4, buffer=512)
    keys = random.integers(0, 1 << 20, 20 * batch)
    for at in range(0, keys.size, batch):
        if at % 2:
            index.insert(keys[at : at + batch], np.arange(at, at + batch))
        else:  # and in small pieces
            for part in np.split(np.arange(at, at + batch), 10):
                index.insert(keys[part], part)
        index.expire(at + batch - window)
        first = max(0, at + batch - window)
        lows = random.integers(0, 1 << 20, 2000)
        highs = lows + 4000
        live = np.sort(keys[first : at + batch])
        expected = np.searchsorted(live, highs, "right") - np.searchsorted(live, lows)
        assert np.array_equal(index.ranges(lows, highs).counts(lows.size), expected)
        assert index.statistics["runs"] <= 6
    index.check()
    ids = np.concatenate([ids for _, ids in index.probe(np.array([0]), np.array([1 << 20]))])
    assert sorted(ids.tolist()) == list(range(keys.size - window, keys.size))


def test_a_small_batch_waits_in_the_buffer_and_a_large_one_does_not() -> None:
    index = BiSortOpenCL(capacity=100, subwindows=1, buffer=4)
    index.insert(np.arange(3), np.arange(3))
    (newest,) = index._chain
    assert newest.main is None
    index.insert(np.array([1]), np.array([3]))  # now it is full
    (newest,) = index._chain
    assert (newest.main.rows.tolist(), newest.buffer.size) == ([[0, 1, 1, 2], [0, 1, 3, 2]], 0)
    assert index.statistics["merges"] == 0, "the first main array is only moved"
    index.insert(np.arange(5), np.arange(4, 9))
    assert index.statistics["merges"] == 1
    assert index.statistics["merged_rows"] == 9
    assert index.statistics["merge_seconds"] > 0


def test_rows_go_to_subwindows_in_the_order_of_their_ids() -> None:
    index = BiSortOpenCL(capacity=6, subwindows=2, buffer=1)
    index.insert(np.array([9]), np.array([0]))
    ids = np.array([7, 1, 5, 3, 4, 2, 6])
    index.insert(np.arange(7), ids)
    assert [(held.first, held.last) for held in index._chain] == [(0, 2), (3, 5), (6, 7)]
    assert index.details["subwindows"] == [
        {"structure": "bi-sort-opencl", "rows": rows} for rows in (3, 3, 2)
    ]
    index.check()


def test_a_subwindow_is_dropped_whole_and_filtered_until_then() -> None:
    index = BiSortOpenCL(capacity=8, subwindows=2, buffer=2)
    index.insert(np.arange(8), np.arange(8))
    full = index.nbytes
    kept = index._chain[1]
    index.expire(3)
    assert (len(index), index.nbytes) == (5, full), "filtered, not rewritten"
    assert found(index, [(0, 9)]) == Counter((0, row) for row in range(3, 8))
    index.expire(4)
    assert index._chain == (kept,), "the other subwindow is not touched"
    index.expire(3)
    assert (len(index), index.statistics["runs"]) == (4, 1)
    index.expire(8)
    assert (len(index), index.nbytes, index.statistics["runs"]) == (0, 0, 0)
    index.insert(np.arange(2), np.arange(6, 8))  # expired before it came
    assert (len(index), index.nbytes) == (0, 0)
    index.check()


def test_bytes_are_those_of_the_arrays() -> None:
    index = BiSortOpenCL(capacity=1000, subwindows=1, columns=2, partitions=10, buffer=100)
    index.insert(np.zeros((2, 500), np.int64), np.arange(500))
    assert index.nbytes == 8 * (3 * 500 + 10)
    index.insert(np.zeros((2, 7), np.int64), np.arange(500, 507))
    assert index.nbytes == 8 * (3 * 507 + 10)


def test_the_caller_keeps_its_arrays() -> None:
    for buffer in (1, 100):
        keys, ids = np.arange(5), np.arange(5)
        index = BiSortOpenCL(buffer=buffer)
        index.insert(keys, ids)
        keys[:], ids[:] = 77, 99
        assert sorted(found(index, [(0, 4)])) == [(0, row) for row in range(5)]


def test_bad_parameters() -> None:
    for bad in ({"subwindows": 0}, {"buffer": 0}, {"partitions": -1}, {"capacity": 0}):
        with pytest.raises(RegistryError, match="at least"):
            create("bi-sort-opencl", **bad)
    index, box = create("bi-sort-opencl", columns=2), np.zeros((2, 1), np.int64)
    with pytest.raises(RegistryError, match="over 2 key columns keeps no sorted arrays"):
        index.ranges(box, box)


def test_check_can_fail() -> None:
    index = BiSortOpenCL(capacity=4, subwindows=2, buffer=1)
    index.insert(np.array([1, 2, 5, 6]), np.arange(4))
    index.check()
    older, newer = index._chain
    unsorted = MainArray.of(find(), np.array([[2, 1], [0, 1]]))
    unsampled = MainArray.of(find(), np.array([[1, 2], [0, 1]]))
    unsampled.index = np.array([7])
    twice = MainArray.of(find(), np.array([[1, 2], [0, 0]]))
    short = MainArray.of(find(), np.array([[1], [0]]))
    left = replace(newer, main=None, buffer=np.array([[5, 6], [2, 3]]))
    for message, chain in {
        "keys must ascend": (replace(older, main=unsorted), newer),
        "index must sample": (replace(older, main=unsampled), newer),
        "a buffer must be merged": (older, left),
        "only the newest": (replace(older, main=short), newer),
        "ids of subwindows": (newer, older),
        "an id may occur once": (replace(older, main=twice), newer),
        "ids must lie between": (replace(older, last=0), newer),
    }.items():
        index._chain = chain
        with pytest.raises(AssertionError, match=message):
            index.check()


@pytest.mark.parametrize(
    "check",
    [check for check in JOIN_CHECKS if check.name in {"exact_time_windows", "modes", "threads"}],
    ids=lambda check: check.name,
)
def test_joins(check: JoinCheck) -> None:
    check.run(make_join("ordered/bi-sort-opencl"), 0.2, may_refuse=True)
