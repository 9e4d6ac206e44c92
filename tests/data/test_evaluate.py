"""Expressions over whole batches: every function, NULL, NaN, types, overflow."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.condition.expression import Call, Expression, Function, Literal, left
from thetastream.condition.sql import parse
from thetastream.data.evaluate import evaluate, like_pattern, true_mask, type_of
from thetastream.errors import DataError, SchemaError

LOW, HIGH = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf


def array(text: str | Expression, columns: dict[str, pa.Array]) -> pa.Array:
    node = parse(text) if isinstance(text, str) else text
    length = len(next(iter(columns.values()))) if columns else 1
    found = evaluate(node, lambda column: columns[column.name], length)
    assert isinstance(found, pa.Array)
    assert len(found) == length
    return found


def values(text: str | Expression, **columns: pa.Array) -> list[Any]:
    """The values; the same must come from one row at a time, and from no rows the same type."""
    whole = array(text, columns)
    for at in range(len(whole)):
        one = array(text, {name: column[at : at + 1] for name, column in columns.items()})
        assert one.type == whole.type
        assert str(one[0]) == str(whole[at])
    assert array(text, {name: column[:0] for name, column in columns.items()}).type == whole.type
    return whole.to_pylist()


def ints(*numbers: int | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(numbers, kind or pa.int64())


def floats(*numbers: float | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(numbers, kind or pa.float64())


def decimals(*texts: str | None, kind: pa.DataType | None = None) -> pa.Array:
    numbers = [None if text is None else Decimal(text) for text in texts]
    return pa.array(numbers, kind or pa.decimal128(9, 2))


def texts(*words: str | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(words, kind or pa.string())


def same(found: list[Any], expected: list[Any]) -> bool:
    return repr(found) == repr(expected)


# --- Logic --------------------------------------------------------------------------------------

THREE = [True, False, None]


def test_three_valued_logic() -> None:
    a = pa.array([x for x in THREE for _ in THREE])
    b = pa.array(THREE * 3)
    t, f, n = True, False, None
    assert values("l.a AND l.b", a=a, b=b) == [t, f, n, f, f, f, n, f, n]
    assert values("l.a OR l.b", a=a, b=b) == [t, t, t, t, f, n, t, n, n]
    assert values("NOT l.a", a=pa.array(THREE)) == [f, t, n]
    assert values("l.a AND TRUE", a=pa.array(THREE)) == [t, f, n]
    assert values("FALSE OR l.a", a=pa.array(THREE)) == [t, f, n]


def test_logic_with_the_literal_null() -> None:
    a = pa.array(THREE)
    assert values("l.a AND NULL", a=a) == [None, False, None]
    assert values("l.a OR NULL", a=a) == [True, None, None]
    assert values("NOT NULL", a=a) == [None] * 3


def test_is_null_is_never_unknown() -> None:
    assert values("l.a IS NULL", a=floats(NAN, None, 0.0)) == [False, True, False]
    assert values("l.a IS NOT NULL", a=ints(None, 1)) == [False, True]
    assert values("NULL IS NULL", a=ints(1, 2)) == [True, True]


def test_true_mask_takes_unknown_for_false() -> None:
    column = pa.array(THREE)
    assert true_mask(left.a, lambda _: column, 3).tolist() == [True, False, False]
    with pytest.raises(SchemaError, match=r"l\.a: expected a condition, got values of type int64"):
        true_mask(left.a, lambda _: ints(1), 1)


def test_choice() -> None:
    b = pa.array(THREE)
    assert values("IF(l.b, 1, 2)", b=b) == [1, 2, 2]
    assert values("IF(l.b, 'x', NULL)", b=b) == ["x", None, None]
    assert values(
        "CASE WHEN l.a > 2 THEN 'big' WHEN l.a > 0 THEN 'small' END", a=ints(3, 1, 0, None)
    ) == ["big", "small", None, None]
    assert values("IF(l.b, l.a, l.f)", b=b, a=ints(2**53 + 1, 1, 1), f=floats(0.5, 0.5, None)) == [
        *(2.0**53, 0.5, None)
    ]
    assert values("IF(l.a > 0, l.a, -l.a)", a=ints(5, -7, None)) == [5, 7, None]


# --- Comparisons --------------------------------------------------------------------------------

OPERATORS = {
    "=": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def compared(op: str, ordered: pa.Array) -> None:
    """Compare all pairs of values that stand in strictly rising order; NULL is the last."""
    n = len(ordered)
    a = ordered.take(pa.array(np.repeat(np.arange(n), n)))
    b = ordered.take(pa.array(np.tile(np.arange(n), n)))
    unknown = [
        ordered[i].as_py() is None or ordered[j].as_py() is None for i in range(n) for j in range(n)
    ]
    signs = [(i > j) - (i < j) for i in range(n) for j in range(n)]
    expected = [None if u else OPERATORS[op](s) for u, s in zip(unknown, signs, strict=True)]
    assert array(f"l.a {op} l.b", {"a": a, "b": b}).to_pylist() == expected


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(
    "ordered",
    [
        floats(-INF, -1.0, 0.0, 5e-324, 1.0, INF, NAN, None),
        ints(LOW, -1, 0, 1, HIGH, None),
        ints(0, 2**63, 2**64 - 1, None, kind=pa.uint64()),
        decimals("-1.5", "0", "0.01", "7", None),
        pa.array([False, True, None]),
        texts("", "a", "ab", "b", None),
        pa.array([dt.date(1969, 1, 1), dt.date(2024, 2, 29), None]),
        pa.array([dt.datetime(1969, 1, 1), dt.datetime(2024, 2, 29), None]),
        pa.array([dt.time(1), dt.time(2), None]),
        pa.array([dt.timedelta(-1), dt.timedelta(1), None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_comparisons(op: str, ordered: pa.Array) -> None:
    compared(op, ordered)


def test_zeros_and_nans_are_equal() -> None:
    a, b = floats(0.0, NAN), floats(-0.0, NAN)
    assert values("l.a = l.b", a=a, b=b) == [True, True]
    assert values("l.a < l.b", a=a, b=b) == [False, False]


def test_mixed_numbers_compare() -> None:
    assert values("l.a = l.b", a=ints(1, 2, kind=pa.int8()), b=floats(1.0, 2.5)) == [True, False]
    assert values("l.a < l.b", a=ints(1, 2), b=decimals("1.01", "1.99")) == [True, False]
    assert values("l.a = l.b", a=decimals("0.10"), b=floats(0.1)) == [True]
    assert values(
        "l.a = l.b", a=decimals("0.50"), b=decimals("0.500", kind=pa.decimal128(9, 3))
    ) == [True]
    assert values("l.a >= 1.5", a=ints(1, 2, None)) == [False, True, None]
    assert values("l.a = 1.5", a=decimals("1.50", "1.51", None)) == [True, False, None]
    # float(2**53 + 1) is 2**53
    assert values("l.a = l.b", a=ints(2**53 + 1), b=floats(2.0**53)) == [True]


def test_mixed_times_compare() -> None:
    day, noon = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 12)
    assert values("l.a < l.b", a=pa.array([day]), b=pa.array([noon])) == [True]
    seconds = pa.array([noon], pa.timestamp("s"))
    assert values("l.a = l.b", a=seconds, b=pa.array([noon], pa.timestamp("ns"))) == [True]
    with pytest.raises(SchemaError, match="time zone"):
        values("l.a = l.b", a=seconds, b=seconds.cast(pa.timestamp("s", "UTC")))


def test_comparison_with_null() -> None:
    assert values("l.a = NULL", a=ints(1, None)) == [None, None]
    assert values("NULL != l.a", a=texts("x", None)) == [None, None]


def test_dictionaries_are_seen_through() -> None:
    a = texts("x", "y", None).dictionary_encode()
    assert values("l.a = 'x'", a=a) == [True, False, None]
    assert values("UPPER(l.a)", a=a) == ["X", "Y", None]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (texts("x"), ints(1)),
        (pa.array([True]), ints(1)),
        (texts("x"), pa.array([b"x"])),
        (pa.array([dt.date(2024, 1, 1)]), ints(1)),
        (pa.array([[1]]), pa.array([[1]])),
    ],
    ids=lambda value: str(value.type),
)
def test_comparisons_without_a_meaning(a: pa.Array, b: pa.Array) -> None:
    with pytest.raises(SchemaError, match=r"^l\.a = l\.b: .*cannot be compared.* cast "):
        values("l.a = l.b", a=a, b=b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.string(), pa.large_string()),
        (pa.string_view(), pa.string_view()),
        pytest.param(pa.string(), pa.string_view()),
    ],
    ids=str,
)
def test_strings_of_every_layout_compare(a: pa.DataType, b: pa.DataType) -> None:
    found = values("l.a = l.b", a=texts("x", "y", None, kind=a), b=texts("x", "z", "x", kind=b))
    assert found == [True, False, None]


# --- Arithmetic ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64()], ids=str
)
def test_whole_numbers_are_64_bit(kind: pa.DataType) -> None:
    a = ints(100, 7, None, kind=kind)
    for text, expected in (
        ("l.a + l.a", [200, 14, None]),
        ("l.a - 101", [-1, -94, None]),
        ("l.a * l.a", [10_000, 49, None]),
        ("-l.a", [-100, -7, None]),
        ("ABS(-l.a)", [100, 7, None]),
        ("l.a % 7", [2, 0, None]),
        ("FLOOR(l.a)", [100, 7, None]),
        ("CEIL(l.a)", [100, 7, None]),
    ):
        assert array(text, {"a": a}).type == pa.int64(), text
        assert values(text, a=a) == expected, text


@pytest.mark.parametrize(
    "text",
    ["l.a + 1", "1 + l.a", "l.a * 2", "-l.b - 1 - 1", "-l.b", "ABS(l.b)", "l.b - 1", "l.b - l.a"],
)
def test_overflow_is_an_error(text: str) -> None:
    with pytest.raises(DataError, match="overflow; cast the columns to double to allow it"):
        array(text, {"a": ints(1, HIGH), "b": ints(1, LOW)})


def test_overflow_under_a_null_does_not_count() -> None:
    assert values("l.a + l.b", a=ints(HIGH, 1), b=ints(None, 1)) == [None, 2]


def test_unsigned_numbers_must_fit() -> None:
    with pytest.raises(DataError, match="not in range"):
        values("l.a + 1", a=ints(2**63, kind=pa.uint64()))
    with pytest.raises(DataError, match="18446744073709551616 does not fit a 64-bit integer"):
        values("l.a + 18446744073709551616", a=ints(1))


def test_anything_with_a_float_is_a_double() -> None:
    assert values("l.a + l.b", a=ints(2**53 + 1, 1, None), b=floats(0.0, 0.5, 1.0)) == [
        *(2.0**53, 1.5, None)
    ]
    assert values("l.a + 0.1", a=ints(1)) == [1.1]
    assert values("l.a * l.b", a=decimals("1.10"), b=floats(2.0)) == [2.2]
    assert array("l.a + l.a", {"a": floats(1.0, kind=pa.float32())}).type == pa.float64()
    assert values("l.a + l.b", a=floats(1e308, -INF), b=floats(1e308, INF))[0] == INF
    assert same(values("l.a - l.a", a=floats(INF, NAN, None)), [NAN, NAN, None])
    assert values("-l.a", a=floats(0.5, None)) == [-0.5, None]
    assert values("ABS(l.a)", a=floats(-0.5, -INF, None)) == [0.5, INF, None]


def test_division_is_floating() -> None:
    a, b = ints(1, 0, -1, 7, None, 1), ints(0, 0, 0, 2, 1, None)
    assert same(values("l.a / l.b", a=a, b=b), [INF, NAN, -INF, 3.5, None, None])
    assert values("l.a / l.b", a=decimals("1.50"), b=decimals("0.50")) == [3.0]
    assert values("l.a / 4", a=ints(1)) == [0.25]


def test_modulo() -> None:
    a, b = ints(7, -7, 7, -7, 5, None, LOW, 5), ints(3, 3, -3, -3, 0, 1, -1, None)
    assert values("l.a % l.b", a=a, b=b) == [1, -1, 1, -1, None, None, 0, None]
    for bad in (floats(1.0), decimals("1")):
        with pytest.raises(SchemaError, match="% takes whole numbers; got int64 and"):
            values("l.a % l.b", a=ints(1), b=bad)


def test_decimals_are_exact() -> None:
    a = decimals("0.10", "-7.25", None)
    assert values("l.a + l.a", a=a) == [Decimal("0.20"), Decimal("-14.50"), None]
    assert values("l.a * l.a", a=a) == [Decimal("0.01"), Decimal("52.5625"), None]
    assert values("l.a - 0.125", a=a) == [Decimal("-0.025"), Decimal("-7.375"), None]
    assert values("l.a * 3", a=a) == [Decimal("0.30"), Decimal("-21.75"), None]
    assert values("-l.a", a=a) == [Decimal("-0.10"), Decimal("7.25"), None]
    assert values("ABS(l.a)", a=a) == [Decimal("0.10"), Decimal("7.25"), None]
    mixed = decimals("1.5", kind=pa.decimal64(12, 4))
    assert values("l.a + l.b", a=decimals("1", kind=pa.decimal32(5, 2)), b=mixed) == [
        Decimal("2.5")
    ]
    with pytest.raises(DataError, match="cast the columns to double"):
        values("l.a + l.a", a=decimals("1", kind=pa.decimal128(38, 2)))


def test_floor_and_ceil_of_decimals() -> None:
    a = decimals("1.25", "-1.25", None)
    assert values("FLOOR(l.a)", a=a) == [1, -2, None]
    assert values("CEIL(l.a)", a=a) == [2, -1, None]


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(9, 2)], ids=str)
def test_narrow_decimals_can_be_negated(kind: pa.DataType) -> None:
    assert values("-l.a", a=decimals("1.5", kind=kind)) == [Decimal("-1.5")]


def test_rounding_and_roots() -> None:
    a = floats(1.5, -1.5, NAN, INF, None)
    assert same(values("FLOOR(l.a)", a=a), [1.0, -2.0, NAN, INF, None])
    assert same(values("CEIL(l.a)", a=a), [2.0, -1.0, NAN, INF, None])
    assert same(values("SQRT(l.a)", a=floats(4.0, -1.0, NAN, None)), [2.0, NAN, NAN, None])
    assert values("SQRT(l.a)", a=ints(16, None)) == [4.0, None]
    assert values("SQRT(l.a)", a=decimals("1.44")) == [1.2]


def test_roots_of_large_numbers() -> None:
    assert values("SQRT(l.a)", a=ints(2**53 + 1)) == [math.sqrt(float(2**53 + 1))]


def test_arithmetic_with_null() -> None:
    assert values("l.a + NULL", a=ints(1, 2)) == [None, None]
    assert values("ABS(NULL)", a=ints(1)) == [None]


@pytest.mark.parametrize(
    "text", ["l.a + l.b", "ABS(l.a)", "-l.a", "l.a % 2", "SQRT(l.a)", "NOT l.b"]
)
def test_arithmetic_of_strings(text: str) -> None:
    with pytest.raises(SchemaError, match=r"^.*l\.[ab].*: "):
        values(text, a=texts("x"), b=ints(1))


@given(st.integers(LOW, HIGH), st.integers(LOW, HIGH))
def test_whole_numbers_as_python_has_them(a: int, b: int) -> None:
    for text, expected in (("l.a + l.b", a + b), ("l.a - l.b", a - b), ("l.a * l.b", a * b)):
        if LOW <= expected <= HIGH:
            assert values(text, a=ints(a), b=ints(b)) == [expected]
        else:
            with pytest.raises(DataError, match="overflow"):
                values(text, a=ints(a), b=ints(b))


@given(st.floats(), st.floats())
def test_floats_as_python_has_them(a: float, b: float) -> None:
    for text, expected in (("l.a + l.b", a + b), ("l.a - l.b", a - b), ("l.a * l.b", a * b)):
        assert same(values(text, a=floats(a), b=floats(b)), [expected])


@pytest.mark.parametrize(
    "text", ["755804204157223.9", "-1.0434089742005737e-8", "2.8824374558107567e-9", "1e300"]
)
def test_literals_are_the_nearest_double(text: str) -> None:
    assert values(Call(Function.ADD, (left.a, Literal(Decimal(text)))), a=floats(0.0)) == [
        float(text)
    ]


# --- Times --------------------------------------------------------------------------------------

NOON = dt.datetime(2024, 2, 29, 12)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_and_intervals(unit: str) -> None:
    t = pa.array([NOON, None], pa.timestamp(unit))
    later = NOON + dt.timedelta(seconds=90)
    assert values("l.t + INTERVAL '90 seconds'", t=t) == [later, None]
    assert values("INTERVAL '90 seconds' + l.t", t=t) == [later, None]
    assert values("l.t - INTERVAL '1 hour'", t=t) == [NOON - dt.timedelta(hours=1), None]
    assert values("l.t + l.d", t=t, d=pa.array([dt.timedelta(1)] * 2)) == [
        NOON + dt.timedelta(1),
        None,
    ]


def test_differences_of_times() -> None:
    a, b = pa.array([NOON], pa.timestamp("s")), pa.array([NOON], pa.timestamp("ms"))
    assert values("l.a - l.b", a=a, b=b) == [dt.timedelta(0)]
    assert values("l.a - l.b > INTERVAL '1 second'", a=a, b=b) == [False]
    day = pa.array([dt.date(2024, 3, 1)])
    assert values("l.a - l.b", a=day, b=pa.array([dt.date(2024, 2, 28)])) == [2]
    assert values("ABS(l.a)", a=pa.array([dt.timedelta(-3)])) == [dt.timedelta(3)]
    with pytest.raises(SchemaError, match="time zone"):
        values("l.a - l.b", a=a, b=b.cast(pa.timestamp("ms", "UTC")))


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_days_are_added_to_dates(kind: pa.DataType) -> None:
    d = pa.array([dt.date(2024, 2, 28), None], kind)
    assert values("l.d + 2", d=d) == [dt.date(2024, 3, 1), None]
    assert values("l.d - l.n", d=d, n=ints(28, 1, kind=pa.int8())) == [dt.date(2024, 1, 31), None]
    with pytest.raises(DataError, match="not in range"):
        values("l.d + 9999999999", d=d)
    with pytest.raises(SchemaError, match="add whole days to a date, or cast it to a timestamp$"):
        values("l.d + INTERVAL '1 day'", d=d)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "l.t + 1",
            r"cannot combine timestamp\[s\] and int64 with \+; "
            "only INTERVALs can be added to times$",
        ),
        ("l.t * 2", "cannot combine"),
        ("l.t + l.t", "cannot combine"),
        ("l.t - INTERVAL '1 ms'", "the interval is finer than 1 second, the unit of timestamp"),
    ],
)
def test_times_do_not_take_everything(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        values(text, t=pa.array([NOON], pa.timestamp("s")))


def test_times_overflow() -> None:
    with pytest.raises(DataError, match="overflow"):
        values("l.t + INTERVAL '1 second'", t=pa.array([HIGH], pa.timestamp("s")))


# --- Picking ------------------------------------------------------------------------------------


def test_least_and_greatest_pass_over_nulls() -> None:
    a, b = ints(1, None, 5, None), ints(2, 3, None, None)
    assert values("LEAST(l.a, l.b)", a=a, b=b) == [1, 3, 5, None]
    assert values("GREATEST(l.a, l.b)", a=a, b=b) == [2, 3, 5, None]
    assert values("GREATEST(l.a, l.b, 4)", a=a, b=b) == [4, 4, 5, 4]
    assert values("LEAST(l.a, NULL)", a=a) == [1, None, 5, None]


def test_least_and_greatest_of_floats() -> None:
    a, b = floats(NAN, 1.0, NAN, -INF), floats(1.0, NAN, NAN, INF)
    assert same(values("LEAST(l.a, l.b)", a=a, b=b), [1.0, 1.0, NAN, -INF])
    assert same(values("GREATEST(l.a, l.b)", a=a, b=b), [NAN, NAN, NAN, INF])


def test_mixed_types_are_picked_from() -> None:
    big = ints(2**53 + 1, LOW, None)
    f = floats(0.0, 1.0, 2.0)
    assert values("COALESCE(l.a, l.f)", a=big, f=f) == [2.0**53, -(2.0**63), 2.0]
    assert values("COALESCE(l.f, l.a)", a=big, f=f) == [0.0, 1.0, 2.0]
    assert values("LEAST(l.a, l.f)", a=big, f=f) == [0.0, -(2.0**63), 2.0]
    assert values("GREATEST(l.a, l.f)", a=big, f=f) == [2.0**53, 1.0, 2.0]
    assert values(
        "COALESCE(l.a, l.b)", a=ints(None, 1, kind=pa.int8()), b=ints(2, 3, kind=pa.uint64())
    ) == [2, 1]
    fine = decimals("0.125", "9", kind=pa.decimal128(9, 3))
    assert values("COALESCE(l.a, l.b)", a=decimals(None, "1"), b=fine) == [Decimal("0.125"), 1]
    assert values("GREATEST(l.a, l.b)", a=decimals("0.13", "1"), b=fine) == [Decimal("0.13"), 9]
    assert values("GREATEST(l.a, l.b)", a=decimals("0.13", "1"), b=ints(0, 9)) == [
        Decimal("0.13"),
        9,
    ]
    assert values("GREATEST(l.a, 2.5)", a=decimals(None, "7")) == [Decimal("2.5"), 7]
    assert values("COALESCE(l.a, 2.5)", a=ints(None, 7)) == [2.5, 7.0]


def test_coalesce() -> None:
    assert values("COALESCE(l.a, l.b, 0)", a=ints(1, None, None), b=ints(5, 6, None)) == [1, 6, 0]
    assert values("COALESCE(l.a, 'none')", a=texts("x", None)) == ["x", "none"]
    assert values("COALESCE(l.a, NULL)", a=texts("x", None)) == ["x", None]
    assert values("COALESCE(NULL, l.a)", a=ints(1, None)) == [1, None]


@pytest.mark.parametrize("function", ["COALESCE", "LEAST", "GREATEST"])
def test_types_that_cannot_be_picked_from(function: str) -> None:
    with pytest.raises(SchemaError, match=rf"^{function}\(l\.a, 'x'\): "):
        values(f"{function}(l.a, 'x')", a=ints(1))


# --- Strings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string()),
        pytest.param(pa.string_view()),
    ],
    ids=str,
)
def test_strings(kind: pa.DataType) -> None:
    s = texts("aB", "", "Žluť", None, kind=kind)
    assert values("LOWER(l.s)", s=s) == ["ab", "", "žluť", None]
    assert values("UPPER(l.s)", s=s) == ["AB", "", "ŽLUŤ", None]
    assert values("LENGTH(l.s)", s=s) == [2, 0, 4, None]
    assert array("LENGTH(l.s)", {"s": s}).type == pa.int64()
    assert values("l.s LIKE '_l%'", s=s) == [False, False, True, None]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pytest.param(pa.large_string()),
        pytest.param(pa.string_view()),
    ],
    ids=str,
)
def test_strings_of_every_layout_are_joined(kind: pa.DataType) -> None:
    s = texts("aB", "", None, kind=kind)
    assert values("CONCAT(l.s, l.s)", s=s) == ["aBaB", "", None]


def test_strings_are_joined() -> None:
    assert values("l.s || '-' || l.u", s=texts("a", None), u=texts("b", "c")) == ["a-b", None]
    with pytest.raises(SchemaError, match=r"CONCAT\(l\.s, l\.a\): "):
        values("CONCAT(l.s, l.a)", s=texts("a"), a=ints(1))


PATTERNS = [
    ("a%", ["a", "ab", "a\nb"], ["", "ba", "A"]),
    ("_b", ["ab", "%b", "\nb"], ["b", "aab"]),
    ("%", ["", "x", "\n"], []),
    ("", [""], ["x"]),
    ("100\\%", ["100%"], ["100", "1000"]),
    ("a\\_b", ["a_b"], ["axb"]),
    ("a.c", ["a.c"], ["abc"]),
    ("(x", ["(x"], ["x"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS, ids=lambda value: repr(value))
def test_like(pattern: str, good: list[str], bad: list[str]) -> None:
    words = texts(*good, *bad, None)
    expected = [*[True] * len(good), *[False] * len(bad), None]
    assert values(Call(Function.LIKE, (left.s, Literal(pattern))), s=words) == expected
    patterns = texts(*[pattern] * len(words))
    assert values("l.s LIKE l.p", s=words, p=patterns) == expected
    assert [bool(like_pattern(pattern).fullmatch(word)) for word in good] == [True] * len(good)


def test_like_with_null_patterns() -> None:
    assert values("l.s LIKE l.p", s=texts("a", "b"), p=texts(None, "b")) == [None, True]


@pytest.mark.parametrize("text", ["l.a LIKE l.s", "l.s LIKE l.a", "l.s LIKE NULL"])
def test_like_takes_strings_only(text: str) -> None:
    columns = {"a": ints(1), "s": texts("x")}
    if "NULL" in text:
        assert values(text, **columns) == [None]
    else:
        with pytest.raises(SchemaError, match="LIKE"):
            values(text, **columns)


# --- The rest -----------------------------------------------------------------------------------


def test_constants_are_spread() -> None:
    assert values("1 + 1", a=ints(0, 0, 0)) == [2, 2, 2]
    assert values("'x'", a=ints(0, 0)) == ["x", "x"]
    assert array("TRUE", {"a": ints()}).to_pylist() == []


def test_chunked_columns_are_taken() -> None:
    chunked = pa.chunked_array([[1, 2], [3]])
    found = evaluate(parse("l.a + 1"), lambda _: chunked, 3)
    assert found.to_pylist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("l.i + 1", pa.int64()),
        ("l.i / 2", pa.float64()),
        ("l.i < 2", pa.bool_()),
        ("l.d * l.d", pa.decimal128(19, 4)),
        ("l.t - l.t", pa.duration("ms")),
        ("l.s", pa.string()),
        ("LENGTH(l.s)", pa.int64()),
    ],
)
def test_the_type_is_known_without_rows(text: str, kind: pa.DataType) -> None:
    types = {"i": pa.int8(), "d": pa.decimal128(9, 2), "t": pa.timestamp("ms"), "s": pa.string()}
    assert type_of(parse(text), lambda column: types[column.name]) == kind


EXAMPLES = {
    **{f: f"l.a {f.value} l.a" for f in Function if f.compares},
    **{f: f"l.b {f.value} l.b" for f in (Function.AND, Function.OR)},
    **{f: f"l.a {f.value} 2" for f in (Function.ADD, Function.SUB, Function.MUL, Function.DIV)},
    **{f: f"{f.value}(l.s)" for f in (Function.LOWER, Function.UPPER, Function.LENGTH)},
    **{f: f"{f.value}(l.a, 2)" for f in (Function.LEAST, Function.GREATEST, Function.COALESCE)},
    **{f: f"{f.value}(l.a)" for f in (Function.ABS, Function.FLOOR, Function.CEIL, Function.SQRT)},
    Function.MOD: "l.a % 2",
    Function.NOT: "NOT l.b",
    Function.NEG: "-l.a",
    Function.IS_NULL: "l.a IS NULL",
    Function.LIKE: "l.s LIKE 'x'",
    Function.CONCAT: "CONCAT(l.s, l.s)",
    Function.IF: "IF(l.b, 1, 2)",
}


@pytest.mark.parametrize("function", Function, ids=lambda function: function.name)
def test_every_function_is_served(function: Function) -> None:
    node = parse(EXAMPLES[function])
    assert isinstance(node, Call)
    assert node.function is function
    columns = {"a": ints(1, None), "b": pa.array([True, None]), "s": texts("x", None)}
    first, unknown = values(node, **columns)
    assert first is not None
    assert unknown in ([True] if function is Function.IS_NULL else [None, 2])
