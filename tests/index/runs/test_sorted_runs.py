"""The default index by itself: runs, merges, expiry, bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import DataError, RegistryError
from thetastream.index import Index, create
from thetastream.index.runs.nested_loop import NestedLoop
from thetastream.index.runs.run import Run
from thetastream.index.runs.sorted_runs import SortedRuns

from ...keys import HIGH, LOW, MORE_KEYS, STEPS, Rows, probed
from ..index_boxes import boxed, brute, fed, pairs


@pytest.mark.parametrize("slot", [1, 16])
@pytest.mark.parametrize("ratio", [1, 2, 8])
@given(steps=STEPS)
@example(steps=[[0] * 9, [0], 6])
@example(steps=[[HIGH] * 9, [LOW], [LOW, HIGH], 5, [0]])
def test_every_step_keeps_the_invariants(
    ratio: int, slot: int, steps: list[list[int] | int]
) -> None:
    index, rows = SortedRuns(capacity=4, ratio=ratio, slot=slot), Rows()
    for step in steps:
        rows.step(index, step)
        rows.check(index)
        assert index.nbytes == sum(run.nbytes for run in index._runs)


@given(st.lists(st.lists(st.tuples(*[MORE_KEYS] * 3), max_size=6), max_size=8), st.data())
def test_several_columns(inserts: list[list[tuple[int, ...]]], data: st.DataObject) -> None:
    index = SortedRuns(columns=3, ratio=2, slot=1)
    keys = fed(index, inserts)
    box = data.draw(st.lists(st.tuples(MORE_KEYS, MORE_KEYS), min_size=3, max_size=3))
    lows, highs = boxed([box], 3)
    expected = brute(keys, np.arange(keys.shape[1]), lows, highs)
    assert sorted(pairs(index, lows, highs)) == expected


def slid(window: int, batch: int, batches: int, **parameters: int) -> Iterator[SortedRuns]:
    """Slide a window over random keys, and give the index after every step (the same object)."""
    index = SortedRuns(capacity=window, **parameters)
    random = np.random.default_rng(5)
    for at in range(0, batches * batch, batch):
        index.expire(max(0, at + batch - window))
        index.insert(random.integers(0, 2**31, batch), np.arange(at, at + batch))
        yield index


def test_merges_are_counted() -> None:
    index = SortedRuns(ratio=2)
    for at in range(3):
        index.insert(np.array([at]), np.array([at]))
    # 1 → 1+1 = 2 → 2+1 = 3
    assert index.statistics["merges"] == 2
    assert index.statistics["merged_rows"] == 5
    assert index.statistics["runs"] == 1
    assert index.statistics["merge_seconds"] > 0
    index = SortedRuns(ratio=2)
    index.insert(np.arange(9), np.arange(9))
    index.insert(np.arange(4), np.arange(9, 13))
    assert (index.statistics["merges"], index.statistics["runs"]) == (0, 2)


@pytest.mark.parametrize("ratio", [1, 2, 8])
@pytest.mark.parametrize("batch", [1 << 6, 1 << 9])
def test_merge_work_per_row_is_bounded(ratio: int, batch: int) -> None:
    window, batches = 1 << 13, 3 * (1 << 13) // batch
    *_, index = slid(window, batch, batches, ratio=ratio)
    runs = math.log(window / batch, max(ratio, 2)) + 1
    per_row = index.statistics["merged_rows"] / (batch * batches)
    # Empirical: 4 to 14 copies per row were counted for these shapes, where the bound is 5 to 15.
    assert 0 < per_row <= (ratio + 1) / 2 * runs


@pytest.mark.parametrize("ratio", [2, 8])
def test_runs_are_few(ratio: int) -> None:
    most = max(i.statistics["runs"] for i in slid(1 << 13, 1 << 6, 400, ratio=ratio))
    assert 1 < most <= math.log(128, ratio) + 2


def test_bytes_per_live_row() -> None:
    window = 1 << 16
    for step, index in enumerate(slid(window, 1 << 10, 160)):
        if step >= 64:
            assert len(index) == window
            assert index.nbytes <= 1.5 * 16 * window


def test_a_run_that_has_expired_is_dropped_whole() -> None:
    index = SortedRuns(ratio=1)
    index.insert(np.arange(8), np.arange(8))
    index.insert(np.arange(4), np.arange(8, 12))
    assert index.statistics["runs"] == 2
    kept = index._runs[1]
    index.expire(8)
    assert index._runs == (kept,), "the other run is not touched"
    assert index.statistics["merged_rows"] == 0
    index.expire(12)
    assert (len(index), index.nbytes, index.statistics["runs"]) == (0, 0, 0)
    index.check()


def test_a_run_is_rewritten_when_more_than_half_has_expired() -> None:
    index = SortedRuns()
    index.insert(np.arange(10), np.arange(10))
    full = index.nbytes
    index.expire(5)
    assert (len(index), index.nbytes) == (5, full), "filtered, not rewritten"
    assert probed(index, [(0, 9)]) == Counter((0, row) for row in range(5, 10))
    index.expire(6)
    assert len(index) == 4
    assert index.nbytes < full
    index.check()


def test_expiry_never_goes_back() -> None:
    index = SortedRuns()
    index.insert(np.arange(10), np.arange(10))
    index.expire(7)
    index.expire(3)
    assert len(index) == 3
    index.insert(np.array([5]), np.array([10]))
    assert probed(index, [(0, 9)]) == Counter((0, row) for row in (7, 8, 9, 10))


def test_rows_that_expire_before_they_are_inserted_are_not_found() -> None:
    index = SortedRuns()
    index.expire(5)
    index.insert(np.arange(4), np.arange(4))
    assert len(index) == 0
    assert probed(index, [(LOW, HIGH)]) == Counter()
    index.insert(np.arange(4), np.arange(4, 8))
    index.check()
    assert sorted(probed(index, [(LOW, HIGH)])) == [(0, 5), (0, 6), (0, 7)]


def test_an_answer_is_a_snapshot() -> None:
    index = SortedRuns(ratio=1)
    index.insert(np.arange(100), np.arange(100))
    index.insert(np.arange(10), np.arange(100, 110))
    answer = iter(index.probe(np.array([0]), np.array([99]), limit=7))
    seen = [ids.tolist() for _, ids in islice(answer, 2)]
    index.insert(np.arange(50), np.arange(110, 160))
    index.expire(140)
    rest = [ids.tolist() for _, ids in answer]
    assert sorted(row for chunk in seen + rest for row in chunk) == list(range(110))


def test_an_answer_that_was_not_begun_is_a_snapshot_too() -> None:
    index = SortedRuns()
    index.insert(np.arange(5), np.arange(5))
    answer = index.probe(np.array([0]), np.array([9]))
    index.expire(5)
    index.insert(np.arange(5), np.arange(5, 10))
    assert [ids.tolist() for _, ids in answer] == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("kind", [SortedRuns, NestedLoop])
def test_an_answer_can_be_read_again_and_by_several(kind: type[Index]) -> None:
    index = kind()
    index.insert(np.zeros(9, np.int64), np.arange(9))
    answer = index.probe(np.array([0]), np.array([0]), limit=2)
    together = list(zip(answer.again(), answer, strict=True))
    assert len(together) == 5
    for (_, a), (_, b) in together:
        assert a.tolist() == b.tolist()
    assert next(answer, None) is None
    assert sorted(row for _, ids in answer.again() for row in ids.tolist()) == list(range(9))


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_chunks_keep_the_limit(limit: int) -> None:
    index = SortedRuns(ratio=1)
    for at, size in ((0, 90), (90, 20), (110, 5)):
        index.insert(np.zeros(size, np.int64), np.arange(at, at + size))
    boxes = np.zeros(20, np.int64)
    sizes = [positions.size for positions, _ in index.probe(boxes, boxes, limit=limit)]
    assert sum(sizes) == 20 * 115
    assert max(sizes) <= limit


def test_arrays_given_away_are_not_written_to_again() -> None:
    index = SortedRuns()
    index.insert(np.zeros(5000, np.int64), np.arange(5000))
    chunks = list(index.probe(np.array([0]), np.array([0]), limit=1024))
    assert np.array_equal(np.concatenate([ids for _, ids in chunks]), np.arange(5000))


@pytest.mark.parametrize("in_order", [True, False])
def test_the_caller_keeps_its_arrays(in_order: bool) -> None:
    keys = np.arange(5) if in_order else np.array([4, 0, 3, 1, 2])
    ids = np.arange(5)
    index = SortedRuns()
    index.insert(keys, ids)
    keys[:], ids[:] = 77, 99
    assert sorted(probed(index, [(0, 4)])) == [(0, row) for row in range(5)]


def test_extreme_keys_share_a_run() -> None:
    index = SortedRuns(slot=1)
    keys = np.array([HIGH, LOW, 0, -1, HIGH - 1, LOW + 1])
    index.insert(keys, np.arange(6))
    index.check()
    assert sorted(probed(index, [(LOW, LOW), (HIGH, HIGH), (-1, 0)])) == [
        (0, 1),
        (1, 0),
        (2, 2),
        (2, 3),
    ]


def test_lists_of_numbers_of_other_widths_are_taken() -> None:
    index = SortedRuns()
    index.insert(np.arange(3, dtype=np.int32), np.arange(3))
    assert probed(index, [(1, 2)]) == Counter([(0, 1), (0, 2)])


def test_bad_parameters_and_shapes() -> None:
    for bad in ({"ratio": 0}, {"slot": 0}, {"capacity": 0}, {"columns": 0}):
        with pytest.raises(RegistryError, match="at least 1"):
            create("sorted-runs", **bad)
    with pytest.raises(RegistryError, match=r"no parameter 'ration'.*Did you mean 'ratio'\?"):
        create("sorted-runs", ration=3)
    index = SortedRuns(columns=2)
    for bad_keys in (np.arange(3), np.zeros((3, 2), np.int64), np.zeros((1, 2, 2), np.int64)):
        with pytest.raises(DataError, match=r"2 key column\(s\); got an array of shape"):
            index.insert(bad_keys, np.arange(3))
    assert index.parameters["ratio"] == 12


def test_check_can_fail() -> None:
    index = SortedRuns()
    index.insert(np.arange(40), np.arange(40))
    (run,) = index._runs
    parts = {name: getattr(run, name) for name in Run.__slots__}
    broken = {
        "keys must ascend": {**parts, "keys": np.ascontiguousarray(run.keys[:, ::-1])},
        "a router entry is the start": {**parts, "router": run.router + 1},
        "an id may occur once": {**parts, "ids": np.zeros(40, np.int64)},
    }
    for message, fields in broken.items():
        index._runs = (Run(**fields),)
        with pytest.raises(AssertionError, match=message):
            index.check()
    index._runs = (Run(**{**parts, "last": 3}),)
    with pytest.raises(AssertionError):
        index.check()
    index._runs = (run, run)
    with pytest.raises(AssertionError):
        index.check()


def grown(hold: bool) -> tuple[SortedRuns, int]:
    """An index after many inserts, and in how many different arrays its long run has lain."""
    index, answers, arrays = SortedRuns(capacity=1 << 12, ratio=8), [], set()
    random = np.random.default_rng(0)
    for first in range(0, 4000, 50):
        index.insert(random.integers(0, 1000, 50), np.arange(first, first + 50))
        index.check()
        arrays.add(id(index._runs[0].room))
        if hold:
            answers.append((first + 50, index.probe(np.array([0]), np.array([1000]))))
    for rows, answer in answers:
        ids = np.concatenate([ids for _, ids in answer])
        assert sorted(ids.tolist()) == list(range(rows)), "an open answer must not change"
    return index, len(arrays)


def test_long_runs_are_merged_in_place_but_never_under_an_open_answer() -> None:
    (free, few), (held, many) = grown(hold=False), grown(hold=True)
    assert few < many
    for a, b in zip(free.dump(), held.dump(), strict=True):
        assert np.array_equal(a, b)
