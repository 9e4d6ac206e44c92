"""What ordered structures share: expiry by sweeps, snapshots, mappers, scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.number_columns import Values
from thetastream.errors import DataError, RegistryError, StateError
from thetastream.index import create, question
from thetastream.index.base import Index
from thetastream.index.folding import MAPPINGS, Fold
from thetastream.testing import INDEX_CHECKS, IndexCheck

from ..index_plain import Plain

ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-5, 5)), max_size=20)
RANGES = st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), max_size=6)
MAKERS = [
    Plain,
    lambda: create("sorted-runs", capacity=4),
    lambda: create("b+tree", capacity=4, slots=2, fanout=3),
    lambda: create("nested-loop", capacity=4),
]


@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("kept", [1 << 18, 2])
def test_the_battery(kept: int, check: IndexCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open answers are kept, or read on from a copy of the rows."""
    monkeypatch.setattr(question, "KEPT", kept)
    check.run(lambda columns: Plain(4, columns), 0.5)


def filled(make: Any, rows: list[tuple[int, int]]) -> tuple[Index, Any]:
    index: Index = make()
    keys = np.array([key for key, _ in rows], np.int64)
    half = len(rows) // 2
    ids = np.arange(len(rows))
    for part in (slice(0, half), slice(half, None)):
        index.insert(keys[part], ids[part])
    return index, np.array([value for _, value in rows], np.int64)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("make", MAKERS)
@given(rows=ROWS, ranges=RANGES, before=st.integers(0, 12))
def test_mappings(
    make: Any, kind: type, rows: list[tuple[int, int]], ranges: list[tuple[int, int]], before: int
) -> None:
    index, column = filled(make, rows)
    index.expire(before)
    lows, highs = (np.array([r[at] for r in ranges], np.int64) for at in (0, 1))
    values = column.astype(kind) / (1 if kind is np.int64 else 4)
    values = values.astype(kind)
    found = {name: index.map(lows, highs, name, values) for name in MAPPINGS}
    for at, (low, high) in enumerate(ranges):
        inside = [
            values[row].item()
            for row, (key, _) in enumerate(rows)
            if low <= key <= high and row >= before
        ]
        expected = {
            "count": len(inside),
            "sum": math.fsum(inside) if inside else None,
            "min": min(inside, default=None),
            "max": max(inside, default=None),
            "mean": math.fsum(inside) / len(inside) if inside else None,
        }
        for name, value in expected.items():
            assert found[name][at] == value or (value is None and found[name].mask[at]), name
            assert index.map(low, high, name, values) == value
    assert index.map(lows, highs).tolist() == found["count"].tolist()


def test_values_by_arrival_number_with_gaps_and_nulls() -> None:
    index = create("sorted-runs", capacity=8)
    index.insert(np.array([1, 2, 3]), np.array([10, 11, 12]))
    values = Values(np.array([5.0, 7.0, 9.0]), 10, np.array([1, 0, 1], np.uint8))
    assert index.map(0, 9, "sum", values) == 14.0
    assert index.map(2, 2, "count", values) == 0
    assert index.map(2, 2, "min", values) is None
    assert index.map(0, 9, "sum") == 33, "without values it is the ids that are added"


def test_sums_are_exact_beyond_64_bits_and_then_refused() -> None:
    index = create("sorted-runs", capacity=8)
    index.insert(np.arange(4), np.arange(4))
    values = np.array([2**62, 2**62, -(2**62), -5])
    assert index.map(0, 3, "sum", values) == 2**62 - 5
    with pytest.raises(DataError, match=r"9223372036854775808.*does not fit into 64 bits"):
        index.map(0, 1, "sum", values)
    assert index.map(0, 1, "mean", values) == 2.0**62


def test_sums_of_floats_do_not_depend_on_order() -> None:
    index = create("sorted-runs", capacity=8)
    index.insert(np.arange(5), np.arange(5))
    for order in ([1e16, 1.0, -1e16, 1.0, 0.5], [1.0, 0.5, 1e16, 1.0, -1e16]):
        assert index.map(0, 4, "sum", np.array(order)) == 2.5


@pytest.mark.parametrize(
    ("values", "least", "greatest", "total"),
    [
        ([math.nan, 1.0], 1.0, math.nan, math.nan),
        ([1.0, math.nan], 1.0, math.nan, math.nan),
        ([math.nan, math.nan], math.nan, math.nan, math.nan),
        ([math.inf, -1.0], -1.0, math.inf, math.inf),
        ([math.inf, -math.inf], -math.inf, math.inf, math.nan),
        ([-0.0, -0.0], 0.0, 0.0, 0.0),
    ],
)
def test_nan_is_above_all_numbers(
    values: list[float], least: float, greatest: float, total: float
) -> None:
    index = create("sorted-runs", capacity=8)
    index.insert(np.arange(2), np.arange(2))
    found = [index.map(0, 1, name, np.array(values)) for name in ("min", "max", "sum")]
    assert [str(value) for value in found] == [str(value) for value in (least, greatest, total)]


class Column:
    """Somebody who owns a column."""


@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.tuples(st.integers(-4, 4), st.integers(-5, 5)), min_size=1, max_size=6),
            st.integers(0, 3),
        ),
        max_size=12,
    ),
    kind=st.sampled_from([np.int64, np.float64]),
)
def test_values_in_the_order_of_runs(steps: list[Any], kind: type) -> None:
    """Asked again and again while rows come and go, columns that are kept give what others do."""
    index = create("sorted-runs", capacity=4, ratio=2)
    keys: list[int] = []
    values: list[int] = []
    before, owner = 0, Column()
    for step in steps:
        if isinstance(step, int):
            before = min(before + step, len(keys))
            index.expire(before)
        else:
            ids = np.arange(len(keys), len(keys) + len(step))
            index.insert(np.array([key for key, _ in step]), ids)
            keys += [key for key, _ in step]
            values += [value for _, value in step]
        for _ in range(2):
            column = np.array(values, kind)
            low, high = np.array([-4, 0, 3]), np.array([4, 2, 1])
            own = Values(column[before:].copy(), before, owner=owner)  # as a ring that shrinks
            inside = [
                [v for row, v in enumerate(values) if row >= before and a <= keys[row] <= b]
                for a, b in zip(low, high, strict=True)
            ]
            sums = [sum(v) if v else None for v in inside]
            assert index.map(low, high, "sum", own).tolist() == sums
            most = [max(v, default=None) for v in inside]
            assert index.map(low, high, "max", own).tolist() == most
            assert index.map(low, high, "count", own).tolist() == [len(v) for v in inside]
            for name, expected in (("sum", sums[1]), ("max", most[1])):  # of few rows of a run
                assert index.map(0, 2, name, own) == expected


def test_values_are_put_in_order_when_as_many_were_read() -> None:
    index = create("sorted-runs", capacity=1000)
    index.insert(np.arange(100), np.arange(100))
    column, bytes_before = Values(np.arange(100), owner=Column()), index.nbytes
    index.map(0, 49, "sum", column)
    assert index.nbytes == bytes_before
    index.map(0, 49, "sum", column)
    assert index.nbytes == bytes_before + 800
    index.map(0, 49, "sum", np.arange(100))
    del column
    assert index.nbytes == bytes_before, "nobody owns the column any more"


# --- Mappings of one's own ----------------------------------------------------------------------


def longest_gap(key: int, value: float, state: Any) -> None:
    """Needs rows in key order: the largest distance of neighbours, and the last key."""
    if state[1] == 1:
        state[0] = max(state[0], key - state[2])
    state[1], state[2] = 1, key


def weighted(key: int, value: float, state: Any) -> None:
    state[0] += key * value


def inverse(key: int, value: float, state: Any) -> None:
    if value == 0:
        raise ZeroDivisionError("no inverse of 0")
    state[0] += 1 / value


@pytest.mark.parametrize("make", MAKERS)
def test_a_mapping_of_ones_own(make: Any) -> None:
    index, values = filled(make, [(4, 2), (-3, 1), (0, 5), (4, 1)])
    assert index.map(-9, 9, weighted, values.astype(float)).tolist() == [4 * 2 - 3 + 4]
    assert index.map(-9, 9, weighted).tolist() == [4 * 0 - 3 * 1 + 0 + 4 * 3]
    start = np.zeros(3, np.int64)
    several = index.map(np.array([-9, -3, 5]), np.array([9, 0, 1]), longest_gap, state=start)
    assert several[:, 0].tolist() == [4, 3, 0]
    assert start.tolist() == [0, 0, 0]


def test_a_mapping_that_raises_leaves_the_index_as_it_was() -> None:
    index, values = filled(Plain, [(1, 2), (2, 0)])
    with pytest.raises(DataError, match="'inverse' raised ZeroDivisionError: no inverse of 0"):
        index.map(0, 9, inverse, values)
    index.check()
    assert index.map(0, 1, inverse, values).tolist() == [0.5]


def test_a_mapping_that_cannot_be_compiled() -> None:
    index, _ = filled(Plain, [(1, 2)])

    def reads(key: int, value: float, state: Any) -> None:
        open(str(key)).close()

    with pytest.raises(DataError, match=r"'reads' cannot be compiled.*key, value, state"):
        index.map(0, 9, reads)


def test_bad_mappings() -> None:
    index, _ = filled(Plain, [(1, 2)])
    with pytest.raises(DataError, match="no mapping 'men'.*mean"):
        index.map(0, 9, "men")
    with pytest.raises(DataError, match="state is for a mapping of your own"):
        index.map(0, 9, "sum", state=np.zeros(1))
    with pytest.raises(DataError, match=r"same shape; got \(1,\) and \(2,\)"):
        index.map(np.array([1]), np.array([1, 2]))
    with pytest.raises(DataError, match="int64 or float64; got int32"):
        index.map(0, 9, "sum", np.array([1, 2], np.int32))
    with pytest.raises(DataError, match="valid has 1 entries for 2 values"):
        Values(np.zeros(2), 0, np.ones(1, np.uint8))


def test_ranges_that_hold_nothing() -> None:
    index, values = filled(Plain, [(1, 2)])
    assert index.map(5, 0, "count") == 0
    assert index.map(5, 0, "mean", values) is None
    assert index.map(np.empty(0, np.int64), np.empty(0, np.int64), "sum", values).size == 0
    assert index.map(np.empty(0, np.int64), np.empty(0, np.int64), weighted).shape == (0, 1)


def test_boxes_of_several_columns() -> None:
    for name in ("sorted-runs", "b+tree"):
        index = create(name, capacity=8, columns=2)
        index.insert(np.array([[1, 2, 3], [9, 5, 1]]), np.arange(3))
        assert index.map([1, 0], [3, 6], "sum", np.array([10, 20, 30])) == 50
        assert [ids.tolist() for _, ids in index.scan([1, 0], [3, 6])] == [[1, 2]]
    index = Plain(8, 2)
    index.insert(np.array([[1, 2, 3], [9, 5, 1]]), np.arange(3))
    assert index.map([[1, 1], [0, 9]], [[3, 1], [6, 9]], "count").tolist() == [2, 1]
    assert index.map([1, 0], [3, 6], weighted, np.array([10, 20, 30])).tolist() == [40 + 90]
    with pytest.raises(RegistryError, match="2 key columns"):
        index.find(np.array([1]))


# --- Reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
@given(rows=ROWS, low=st.integers(-5, 5), high=st.integers(-5, 5), buffer=st.integers(1, 4))
def test_a_scan_gives_rows_in_order(
    make: Any, rows: list[tuple[int, int]], low: int, high: int, buffer: int
) -> None:
    index, _ = filled(make, rows)
    chunks = list(index.scan(low, high, buffer=buffer))
    assert all(0 < keys.size == ids.size <= buffer for keys, ids in chunks)
    found = [pair for keys, ids in chunks for pair in zip(keys.tolist(), ids.tolist(), strict=True)]
    inside = [(key, row) for row, (key, _) in enumerate(rows) if low <= key <= high]
    assert found == sorted(inside)


def test_a_scan_of_a_changed_index_is_refused() -> None:
    index, _ = filled(Plain, [(1, 0), (2, 0), (3, 0)])
    scan = index.scan(0, 9, buffer=1)
    next(scan)
    index.insert(np.array([2]), np.array([3]))
    with pytest.raises(StateError, match="changed while it was scanned"):
        next(scan)


@given(rows=ROWS, before=st.integers(0, 20))
def test_find_gives_the_newest_row(rows: list[tuple[int, int]], before: int) -> None:
    index, _ = filled(Plain, rows)
    assert isinstance(index, Plain)
    index.expire(before)
    keys = np.arange(-5, 6)
    expected = [
        max((row for row, (own, _) in enumerate(rows) if own == key and row >= before), default=-1)
        for key in keys
    ]
    assert index.find(keys).tolist() == expected


def test_rows_are_swept_when_half_have_expired() -> None:
    index = Plain()
    for at in range(8):
        index.insert(np.arange(10), np.arange(10) + 10 * at)
    index.expire(35)
    assert (index._held, index.statistics["sweeps"]) == (80, 0)
    index.expire(50)
    assert (index._held, index.statistics["sweeps"]) == (30, 1)
    index.expire(80)
    assert index._held == 0
    index.check()


def test_removing_rows() -> None:
    index, _ = filled(Plain, [(1, 0), (1, 0), (2, 0)])
    assert isinstance(index, Plain)
    answer = index.probe(np.array([0]), np.array([9]))
    assert index.remove(np.array([1, 7]), np.array([1, 9])) == 1
    assert np.concatenate([ids for _, ids in answer]).tolist() == [0, 1, 2], "a snapshot"
    assert index.find(np.array([1, 2])).tolist() == [0, 2]


def test_accumulators_add_up_over_several_indexes() -> None:
    fold = Fold(Values(np.arange(6)), 1)
    for part in (slice(0, 3), slice(3, 6)):
        index = Plain()
        index.insert(np.arange(6)[part], np.arange(6)[part])
        index.fold_boxes(np.array([1]), np.array([4]), fold)
    assert fold.result("sum").tolist() == [10]
    assert fold.result("max").tolist() == [4]
