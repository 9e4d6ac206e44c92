"""BI-Sort on a device by itself: subwindows, buffer, merges, expiry, bytes; and in a join."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.subwindows.bi_sort_opencl import BiSortOpenCL
from thetastream.testing import JOIN_CHECKS, JoinCheck, make_join

from ...keys import HIGH, LOW, MORE_KEYS, STEPS, Rows, probed
from ..index_boxes import boxed, brute, fed


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
    index, rows = BiSortOpenCL(**parameters), Rows()
    for step in steps:
        rows.step(index, step)
        rows.check(index)


@given(st.lists(st.lists(st.tuples(*[MORE_KEYS] * 3), max_size=6), max_size=8), st.data())
def test_several_columns(inserts: list[list[tuple[int, ...]]], data: st.DataObject) -> None:
    index = BiSortOpenCL(capacity=16, columns=3, subwindows=2, buffer=4, partitions=2)
    keys = fed(index, inserts)
    before = data.draw(st.integers(0, keys.shape[1]))
    index.expire(before)
    index.check()
    box = data.draw(st.lists(st.tuples(MORE_KEYS, MORE_KEYS), min_size=3, max_size=3))
    lows, highs = boxed([box], 3)
    answer = index.probe(lows, highs, limit=3)
    chunks = [ids.tolist() for _, ids in answer]
    assert all(0 < len(ids) <= 3 for ids in chunks)
    expected = brute(keys[:, before:], np.arange(before, keys.shape[1]), lows, highs)
    assert sorted((0, row) for ids in chunks for row in ids) == expected
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
    index.insert(np.arange(4), np.arange(4))
    assert index.statistics["merges"] == 0
    index.insert(np.array([1]), np.array([4]))  # now there are too many
    assert index.statistics["merges"] == 1
    index.insert(np.arange(5), np.arange(5, 10))
    assert (index.statistics["merges"], index.statistics["merged_rows"]) == (2, 15)
    assert index.statistics["merge_seconds"] > 0


def test_what_it_says_of_itself() -> None:
    index = BiSortOpenCL(capacity=6, subwindows=2, buffer=1)
    index.insert(np.arange(7), np.arange(7))
    held = index.details["subwindows"]
    assert [(part["structure"], part["rows"]) for part in held] == [
        ("bi-sort-opencl", rows) for rows in (3, 3, 1)
    ]
    assert index.details["device"]


def test_bytes_are_those_of_the_arrays() -> None:
    index = BiSortOpenCL(capacity=1000, subwindows=1, partitions=10, buffer=100)
    index.insert(np.zeros(500, np.int64), np.arange(500))
    assert index.nbytes == 8 * (2 * 500 + 10)
    index.insert(np.zeros(7, np.int64), np.arange(500, 507))
    assert index.nbytes == 8 * (2 * 507 + 10)


def test_the_caller_keeps_its_arrays() -> None:
    for buffer in (1, 100):
        keys, ids = np.arange(5), np.arange(5)
        index = BiSortOpenCL(buffer=buffer)
        index.insert(keys, ids)
        keys[:], ids[:] = 77, 99
        assert sorted(probed(index, [(0, 4)])) == [(0, row) for row in range(5)]


def test_bad_parameters() -> None:
    for bad in ({"subwindows": 0}, {"buffer": 0}, {"partitions": -1}, {"capacity": 0}):
        with pytest.raises(RegistryError, match="at least"):
            create("bi-sort-opencl", **bad)
    index, box = create("bi-sort-opencl", columns=2), np.zeros((2, 1), np.int64)
    with pytest.raises(RegistryError, match="over 2 key columns keeps no sorted arrays"):
        index.ranges(box, box)


@pytest.mark.parametrize(
    "check",
    [check for check in JOIN_CHECKS if check.name in {"exact_time_windows", "modes", "threads"}],
    ids=lambda check: check.name,
)
def test_joins(check: JoinCheck) -> None:
    check.run(make_join("ordered/bi-sort-opencl"), 0.2, may_refuse=True)
