"""Expressions over whole batches: arithmetic and times, their types and overflow."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.condition.expression import Call, Function, Literal, left
from thetastream.errors import DataError, SchemaError

from ..keys import HIGH, LOW
from .evaluated import INF, NAN, array, decimals, floats, ints, same, texts, values

# --- Arithmetic -----------------------------------------------------------------------------------


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
    assert values("l.a / l.b", a=a, b=b) == [None, None, None, 3.5, None, None]
    assert same(values("1 / l.a", a=floats(-0.0, NAN, INF)), [None, NAN, 0.0])
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
        values("l.a + l.a", a=decimals("1", kind=pa.decimal256(76, 2)))


def test_decimals_take_the_room_they_need() -> None:
    a = decimals("0.10", "-7.25", None)
    for text, factor in (
        ("((l.a * -1) * -1) * l.n", 1),
        ("l.a * 1.1 * 1.1 * 1.1 * l.n", Decimal("1.331")),
        ("l.n * 2 * l.a * 3 * l.n / 1 / l.n", 6),
    ):
        found = values(text, a=a, n=ints(1, 1, 1))
        assert [v if v is None else float(v) for v in found] == [
            v if v is None else float(v * factor) for v in a.to_pylist()
        ], text
    most = decimals("9" * 38, kind=pa.decimal128(38, 0))
    assert values("l.a + l.a", a=most) == [Decimal("1" + "9" * 37 + "8")]
    assert values("l.a + 1 > l.a", a=most) == [True]


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


# --- Times ----------------------------------------------------------------------------------------

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
