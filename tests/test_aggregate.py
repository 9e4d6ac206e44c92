"""Aggregates as values: how they are read, their types, and answers from folds."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.aggregate import (
    Aggregate,
    Folded,
    Summary,
    answer,
    check_aggregates,
    of_right,
    read_aggregates,
    result_type,
)
from thetastream.data.number_columns import NumberColumn, Values, number_dtype, numbers
from thetastream.engine.emit.aggregates import combined
from thetastream.errors import DataError, SchemaError
from thetastream.index.folding import Fold
from thetastream.schema import kind_of
from thetastream.testing.aggregates import alike
from thetastream.testing.kinds import KINDS
from thetastream.truth import aggregate_oracle, oracle

# --- Reading -------------------------------------------------------------------------------------


def test_aggregates_are_read() -> None:
    asked = {"n": "count", "avg": ("r.speed", "Mean"), "lo": ["r.my price", "min"]}
    assert of_right(read_aggregates(asked)) == (
        Aggregate("n", Summary.COUNT),
        Aggregate("avg", Summary.MEAN, "speed"),
        Aggregate("lo", Summary.MIN, "my price"),
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "given by name.*got {}"),
        (["count"], "given by name.*got .'count'."),
        ({"n": "median"}, "one of count, sum, min, max, mean; got 'median'. Did you mean 'mean'"),
        ({"n": ("x", "middle")}, "one of count, sum, min, max, mean; got 'middle'"),
        ({"n": "sum"}, r"sum needs a column; write \('column', 'sum'\)"),
        ({"n": ("avg", "x")}, r"write the column first, \('x', 'avg'\)"),
        ({"n": ("x",)}, r"'count' or a pair \(column, function\).*got \('x',\)"),
        ({"n": ("x", "sum", "min")}, "a pair"),
        ({"n": (3, "sum")}, "a pair"),
        ({"n": None}, "one of count, sum, min, max, mean; got None"),
        ({"": "count"}, "the name of an aggregate must be text; got ''"),
        ({3: "count"}, "the name of an aggregate must be text; got 3"),
    ],
)
def test_what_cannot_be_read(asked: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_aggregates(asked)


@pytest.mark.parametrize("column", ["l.x", "x", "r", "r.", "s.x"])
def test_only_right_columns_are_aggregated(column: str) -> None:
    found = read_aggregates({"n": (column, "sum")})
    with pytest.raises(SchemaError, match="a column of the right side, written r.name"):
        of_right(found)


SCHEMA = pa.schema(
    [
        *(("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(10, 2))),
        *(("t", pa.timestamp("s", "UTC")), ("s", pa.string()), ("l", pa.list_(pa.int8()))),
        *(("b", pa.bool_()), ("c", pa.dictionary(pa.int8(), pa.int16()))),
    ]
)


@pytest.mark.parametrize(
    ("column", "function", "message"),
    [
        ("speed", "sum", "the stream has no column 'speed'; it has i, f, d, t, s, l, b, c"),
        ("ii", "sum", "no column 'ii'"),
        ("s", "sum", "sum cannot be taken of column 's', which is string.* taken of i, f, d, c"),
        ("s", "min", "min cannot be taken of column 's'.* taken of i, f, d, t, b, c"),
        ("t", "mean", "mean cannot be taken of column 't', which is timestamp.*i, f, d, c"),
        ("b", "sum", "sum cannot be taken of column 'b', which is bool"),
        ("l", "max", "max cannot be taken of column 'l', which is list"),
    ],
)
def test_columns_that_cannot_be_aggregated(column: str, function: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_aggregates(read_aggregates({"x": (column, function)}), SCHEMA, "the stream")


def test_no_column_can_be_summed() -> None:
    schema = pa.schema([("s", pa.string())])
    with pytest.raises(SchemaError, match="taken of no column. Any column can be counted"):
        check_aggregates(read_aggregates({"x": ("s", "sum")}), schema, "the stream")
    check_aggregates(read_aggregates({"x": ("s", "count")}), schema, "the stream")


@pytest.mark.parametrize(
    ("column", "types"),
    [
        ("i", {"sum": pa.int64(), "min": pa.int32(), "max": pa.int32(), "mean": pa.float64()}),
        ("f", {"sum": pa.float64(), "min": pa.float32(), "mean": pa.float64()}),
        ("d", {"sum": pa.decimal128(38, 2), "max": pa.decimal128(10, 2), "mean": pa.float64()}),
        ("t", {"min": pa.timestamp("s", "UTC"), "count": pa.int64()}),
        ("c", {"min": pa.int16(), "sum": pa.int64()}),
        ("s", {"count": pa.int64()}),
    ],
)
def test_result_types(column: str, types: dict[str, Any]) -> None:
    for function, expected in types.items():
        aggregate = Aggregate("x", Summary.of(function), column)
        assert result_type(aggregate, SCHEMA.field(column).type) == expected
        values = pa.nulls(2, SCHEMA.field(column).type)
        assert folded(aggregate, values).type == expected


# --- Answers -------------------------------------------------------------------------------------


def folded(aggregate: Aggregate, values: Any) -> Any:
    """An aggregate over one set of values."""
    held, valid = numbers(values, "r.x")
    column = Values(held, 0, np.empty(0, np.uint8) if valid is None else valid.astype(np.uint8))
    fold = Fold(column, 1)
    fold.add(np.zeros(len(values), np.int64), np.arange(len(values)))
    return answer(aggregate, values.type, Folded.of(fold))


CASES = st.sampled_from(sorted(KINDS)).flatmap(
    lambda name: st.tuples(
        st.just(KINDS[name]), st.lists(st.sampled_from(KINDS[name].values), max_size=6)
    )
)


def _leaves_64_bits(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


@given(CASES)
def test_answers_are_those_of_the_oracle(case: tuple[Any, list[Any]]) -> None:
    kind, values = case
    array = pa.array(values, kind.type)
    known = [row["x"] for row in oracle.read(pa.table({"x": array}))]
    for function in Summary:
        if not function.takes(kind_of(kind.type)):
            continue
        expected = aggregate_oracle.summary(function.value, known)
        aggregate = Aggregate("x", function, "x")
        if function is Summary.SUM and _leaves_64_bits(expected):
            with pytest.raises(DataError, match=f"is {expected}, which does not fit"):
                folded(aggregate, array)
            continue
        (given_,) = oracle.read(pa.table({"x": folded(aggregate, array)}))
        assert alike(given_["x"], expected), (function, values, given_["x"], expected)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 0, -1, None], pa.int8()),
        ([2**64 - 1, 0, 5], pa.uint64()),
        ([True, False, None], pa.bool_()),
        ([Decimal("-1.50"), Decimal("99.99")], pa.decimal128(4, 2)),
        ([Decimal("-1.50"), Decimal("99.99")], pa.decimal256(50, 2)),
        ([date(1969, 1, 1), date(2020, 2, 29)], pa.date32()),
        ([date(1969, 1, 1), date(2020, 2, 29)], pa.date64()),
        ([time(1, 2), time(23, 59)], pa.time32("s")),
        ([time(1, 2), time(23, 59)], pa.time64("us")),
        ([datetime(1960, 1, 1), datetime(2020, 1, 1)], pa.timestamp("ms")),
        ([timedelta(seconds=-5), timedelta(days=9)], pa.duration("s")),
        ([1.5, -2.25], pa.float32()),
        ([1.5, math.inf], pa.float64()),
    ],
)
def test_ends_keep_their_type(values: list[Any], kind: Any) -> None:
    array = pa.array(values, kind)
    known = sorted(value for value in values if value is not None)
    for function, expected in ((Summary.MIN, known[0]), (Summary.MAX, known[-1])):
        found = folded(Aggregate("x", function, "x"), array)
        assert found.type == kind
        assert found.to_pylist() == [expected]


def test_dictionaries_are_seen_through() -> None:
    array = pa.array([5, 7, None, 5], pa.int16()).dictionary_encode()
    for function, expected in (("sum", 17), ("min", 5), ("count", 3)):
        assert folded(Aggregate("x", Summary.of(function), "x"), array).to_pylist() == [expected]


def test_nan_is_above_every_number() -> None:
    for values, least, greatest in (
        ([math.nan, 1.0, math.inf], 1.0, math.nan),
        ([math.nan], math.nan, math.nan),
        ([1.0, -math.inf], -math.inf, 1.0),
    ):
        array = pa.array(values)
        (low,) = folded(Aggregate("x", Summary.MIN, "x"), array).to_pylist()
        (high,) = folded(Aggregate("x", Summary.MAX, "x"), array).to_pylist()
        assert alike(low, least)
        assert alike(high, greatest)
    for function in (Summary.SUM, Summary.MEAN):
        (found,) = folded(Aggregate("x", function, "x"), pa.array([1.0, math.nan])).to_pylist()
        assert math.isnan(found)


def test_float_sums_lose_nothing_to_cancellation() -> None:
    array = pa.array([1e16, 1.0, -1e16] * 100)
    assert folded(Aggregate("x", Summary.SUM, "x"), array).to_pylist() == [100.0]


def test_an_overflow_says_what_the_sum_is() -> None:
    array = pa.array([2**63 - 1, 1])
    with pytest.raises(DataError, match=r"'total': sum\(x\) of 2 values is 9223372036854775808"):
        folded(Aggregate("total", Summary.SUM, "x"), array)
    assert folded(Aggregate("m", Summary.MEAN, "x"), array).to_pylist() == [2.0**62]
    back = pa.array([2**63 - 1, 1, -1, -(2**63)])
    assert folded(Aggregate("total", Summary.SUM, "x"), back).to_pylist() == [-1]


def test_sums_of_decimals_do_not_overflow() -> None:
    array = pa.array([Decimal("9999999999999999.99")] * 1000, pa.decimal128(18, 2))
    (found,) = folded(Aggregate("x", Summary.SUM, "x"), array).to_pylist()
    assert found == Decimal("9999999999999999990.00")


def test_a_decimal_of_too_many_digits() -> None:
    array = pa.array([Decimal(10**20)], pa.decimal128(38, 0))
    with pytest.raises(DataError, match="r.x: decimal.*18 digits.*cast to double"):
        numbers(array, "r.x")


# --- Columns as numbers --------------------------------------------------------------------------


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=5), max_size=6))
def test_measured_columns_are_snapshots(pieces: list[list[int | None]]) -> None:
    measured, held, first = NumberColumn(pa.int8(), "r.x", 100), [], 100
    for piece in pieces:
        measured.append(pa.array(piece, pa.int8()))
        held += piece
        before, known = measured.view(), list(held)
        if len(held) > 4:
            for ring in measured.rings():
                ring.expire(first + 2)
            held, first = held[2:], first + 2
            assert measured.view().first == first
        for at, value in enumerate(known):
            valid = not before.valid.size or before.valid[at]
            assert (before.array[at] if valid else None) == value
        assert measured.view().array.size == len(held)


def test_numbers_have_one_of_two_types() -> None:
    for kind in KINDS.values():
        held, _ = numbers(pa.array(kind.values, kind.type), "r.x")
        assert held.dtype == number_dtype(kind.type)


# --- Combining -----------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(-9, 9), max_size=4)), max_size=9),
    st.booleans(),
)
def test_boxes_of_a_row_are_combined(boxes: list[tuple[int, list[int]]], real: bool) -> None:
    values = np.array([v for _, held in boxes for v in held], np.float64 if real else np.int64)
    positions = np.repeat(np.arange(len(boxes)), [len(held) for _, held in boxes])
    fold = Fold(Values(values), len(boxes))
    fold.add(positions.astype(np.int64), np.arange(values.size))
    owners = np.array([owner for owner, _ in boxes], np.int64)
    rows = combined(Folded.of(fold), owners, 5)
    kind = pa.float64() if real else pa.int64()
    for owner in range(5):
        expected = [float(v) if real else v for o, held in boxes if o == owner for v in held]
        for function in Summary:
            found = answer(Aggregate("x", function, "x"), kind, rows).to_pylist()[owner]
            assert alike(found, aggregate_oracle.summary(function.value, expected))
