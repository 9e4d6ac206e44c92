"""Packed keys: order, ranges, questions beyond them, errors that say what to do."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.data.key_packing import KeyPacker
from thetastream.errors import DataError, SchemaError

SCHEMA = pa.schema(
    [
        ("x", pa.int8()),
        ("d", pa.bool_()),
        ("s", pa.uint16()),
        ("v", pa.int64()),
        ("f", pa.float64()),
    ]
)
RANGES = {"x": (-2, 1), "d": (0, 1), "v": (10, 12)}
TUPLES = list(product(range(-2, 2), (False, True), range(10, 13)))


def rows(values: list[Any]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True)) if values else [[]] * 3
    arrays = [
        pa.array(columns[0], pa.int8()),
        pa.array(columns[1], pa.bool_()),
        pa.array([0] * len(values), pa.uint16()),
        pa.array(columns[2], pa.int64()),
        pa.array([0.0] * len(values)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_packed_keys_order_as_tuples_do() -> None:
    packer = KeyPacker(RANGES, SCHEMA)
    assert packer.bits == 2 + 1 + 2
    keys, valid = packer.keys(rows(TUPLES))
    assert valid is None
    assert np.all(np.diff(keys) > 0)
    assert packer.points(TUPLES)[0].tolist() == keys.tolist()


EDGE = st.tuples(st.integers(-4, 3), st.booleans(), st.integers(8, 14))


@given(EDGE, EDGE, st.integers(1, 3), st.integers(1, 3))
def test_intervals_hold_what_lies_between_tuples(
    low: tuple[Any, ...], high: tuple[Any, ...], low_width: int, high_width: int
) -> None:
    """Bounds of fewer columns leave the others free; those outside the ranges are cut."""
    packer = KeyPacker(RANGES, SCHEMA)
    keys, _ = packer.keys(rows(TUPLES))
    low, high = low[:low_width], high[:high_width]
    (first,), (last,) = packer.intervals([low], [high])
    many = packer.intervals([low] * 20, [high] * 20)  # which are packed column by column
    assert [(a, b) for a, b in zip(*many, strict=True) if a <= b] == [(first, last)] * (
        20 if first <= last else 0
    )
    found = [row for row, key in zip(TUPLES, keys, strict=True) if first <= key <= last]
    assert found == [row for row in TUPLES if low <= row[:low_width] and row[:high_width] <= high]


@given(EDGE)
def test_points_beyond_the_ranges_cannot_be_stored(point: tuple[Any, ...]) -> None:
    packer = KeyPacker(RANGES, SCHEMA)
    for often in (1, 20):
        keys, good = packer.points([point] * often)
        assert np.all(good == (point in TUPLES))
        if good[0]:
            assert np.all(keys == packer.keys(rows([point]))[0][0])


def test_all_64_bits_are_used() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.uint32())])
    packer = KeyPacker(["a", "b"], schema)
    assert packer.bits == 64
    ends = [(-(2**31), 0), (-1, 2**32 - 1), (0, 0), (2**31 - 1, 2**32 - 1)]
    keys, good = packer.points(ends)
    assert good.all()
    assert np.all(np.diff(keys) > 0)
    assert (keys[0], keys[-1]) == (-(2**63), 2**63 - 1)
    lows, highs = packer.intervals([(-(2**31),), (0,)], [(2**31 - 1,), (0,)])
    assert (lows[0], highs[0]) == (keys[0], keys[-1])
    assert highs[1] - lows[1] == 2**32 - 1
    lows, highs = packer.intervals([(2**31,)], [(2**40,)])
    assert lows[0] > highs[0]


def test_uint64_and_dates_are_packed() -> None:
    schema = pa.schema([("u", pa.uint64()), ("day", pa.date32())])
    packer = KeyPacker({"u": (2**63, 2**63 + 3), "day": None}, schema)
    assert packer.bits == 2 + 32
    batch = pa.RecordBatch.from_arrays(
        [pa.array([2**63, 2**63 + 3], pa.uint64()), pa.array([date(1900, 1, 1), date(2026, 1, 1)])],
        schema=schema,
    )
    keys, _ = packer.keys(batch)
    assert packer.points([(2**63, date(1900, 1, 1)), (2**63 + 3, date(2026, 1, 1))])[
        0
    ].tolist() == (keys.tolist())
    with pytest.raises(DataError, match=r"'u' holds 5 at row 0, outside its range \(92233"):
        packer.keys(batch.set_column(0, "u", pa.array([5, 5], pa.uint64())))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [-1.5, 0.0, 2.5, float("nan")]),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.01")]),
        (pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 1), datetime(2026, 1, 2)]),
        (pa.int16(), [-300, 4]),
        (pa.dictionary(pa.int8(), pa.int32()), [1, 2]),
    ],
)
def test_a_single_column_may_be_of_any_ordered_type(kind: pa.DataType, values: list[Any]) -> None:
    packer = KeyPacker("k", pa.schema([("k", kind)]))
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(values, plain)
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    keys, _ = packer.keys(pa.RecordBatch.from_arrays([column], ["k"]))
    assert np.all(np.diff(keys) > 0)
    assert packer.points(values)[0].tolist() == keys.tolist()
    assert packer.points(pa.array(values, plain))[0].tolist() == keys.tolist()


def test_nulls() -> None:
    packer = KeyPacker(RANGES, SCHEMA)
    keys, valid = packer.keys(
        rows([(0, True, 10), (None, True, 10), (0, None, 11), (0, True, None)])
    )
    assert valid is not None
    assert valid.tolist() == [True, False, False, False]
    assert keys.size == 4
    assert packer.points([(0, None, 10)])[1].tolist() == [False]
    lows, highs = packer.intervals([(None,), (0,)], [(0,), (None,)])
    assert np.all(lows > highs), "NULL is in no interval"


def test_a_key_that_does_not_fit_says_by_how_many_bits() -> None:
    wide = pa.schema([("xway", pa.int32()), ("seg", pa.int32()), ("vid", pa.int32())])
    with pytest.raises(SchemaError) as caught:
        KeyPacker(["xway", "seg", "vid"], wide)
    text = str(caught.value)
    assert "needs 96 bits (xway 32, seg 32, vid 32), 32 more than the 64" in text
    assert "key={'vid': (0, 1_048_575), …}" in text


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("y", "no key column 'y'.*x, d, s"),
        ([], "a column, a list of columns, or columns with their ranges"),
        (7, "a column, a list of columns"),
        (["x", "x"], "may occur once"),
        (["x", "f"], "'f' is of type double; only whole numbers, booleans and dates"),
        ({"x": (3, 1)}, r"range of key column 'x' must be \(least, greatest\)"),
        ({"x": (0.5, 1)}, "in whole numbers"),
        ({"x": (1000, 2000)}, "no int8 lies in the range"),
    ],
)
def test_keys_that_make_no_sense(key: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        KeyPacker(key, SCHEMA)


def test_text_is_no_key() -> None:
    with pytest.raises(SchemaError, match="'name' is of type string"):
        KeyPacker("name", pa.schema([("name", pa.string())]))


def test_rows_beyond_their_range_are_refused() -> None:
    packer = KeyPacker(RANGES, SCHEMA)
    with pytest.raises(DataError, match=r"'v' holds 13 at row 1, outside its range \(10, 12\)"):
        packer.keys(rows([(0, True, 10), (0, True, 13)]))
    packer.keys(rows([(None, True, 13)]))  # without a key there is nothing to refuse


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (5, r"in a list.*write \[key\]"),
        ("abc", "in a list"),
        ([5], "tuples"),
        ([(1, True), (1,)], r"as many columns; got \[1, 2\]"),
        ([(1, True, 10, 9)], "up to 3 columns"),
        ({"d": [True]}, "first columns in order, x, d, v; got d"),
        ({"x": [1], "d": [True, False]}, "of one length"),
        ([("one", True)], "'x' is of type int8; the query cannot be read"),
    ],
)
def test_questions_that_make_no_sense(asked: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        KeyPacker(RANGES, SCHEMA).intervals(asked, asked)


def test_lows_and_highs_must_be_as_many() -> None:
    with pytest.raises(DataError, match="the same length; got 1 and 2"):
        KeyPacker(RANGES, SCHEMA).intervals([(1,)], [(1,), (1,)])


def test_questions_in_tables() -> None:
    packer = KeyPacker(RANGES, SCHEMA)
    table = pa.table({"x": [0, 1], "d": [True, False]})
    lows, highs = packer.intervals(table, {"x": [0, 1], "d": np.array([True, False])})
    assert (highs - lows).tolist() == [3, 3]
    assert packer.points(pa.table({"x": [0], "d": [True], "v": [10]}))[1].tolist() == [True]
    with pytest.raises(DataError, match="3 columns"):
        packer.points(table)
