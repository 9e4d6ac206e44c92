"""Expressions over whole batches: logic, comparisons, every function."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from thetastream.condition.expression import Call, Column, Function, left
from thetastream.condition.functions import TABLE
from thetastream.condition.sql import parse
from thetastream.data.evaluate import evaluate, true_mask, type_of
from thetastream.errors import SchemaError
from thetastream.side import Side

from ..keys import HIGH, LOW
from .evaluated import INF, NAN, array, decimals, floats, ints, texts, values

# --- Logic ----------------------------------------------------------------------------------------

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


# --- Comparisons ----------------------------------------------------------------------------------

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
        (pa.array([True]), texts("x")),
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
        (pa.string(), pa.string_view()),
    ],
    ids=str,
)
def test_strings_of_every_layout_compare(a: pa.DataType, b: pa.DataType) -> None:
    found = values("l.a = l.b", a=texts("x", "y", None, kind=a), b=texts("x", "z", "x", kind=b))
    assert found == [True, False, None]


# --- The rest -------------------------------------------------------------------------------------


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
    **{f: entry.example.replace("l.x", "l.a") for f, entry in TABLE.items()},
    Function.CAST: "CAST(l.a AS DOUBLE)",
    Function.ATAN2: "ATAN2(l.a, l.a)",
    Function.DATEDIFF: "DATEDIFF(l.t, l.t)",
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


@pytest.mark.parametrize("function", [f for f in Function if not f.implies], ids=lambda f: f.name)
def test_every_function_is_served(function: Function) -> None:
    node = parse(EXAMPLES[function])
    assert isinstance(node, Call)
    assert node.function is function
    columns = {"a": ints(1, None), "b": pa.array([True, None]), "s": texts("x", None)}
    columns["t"] = pa.array([dt.datetime(2024, 2, 29), None])
    first, unknown = values(node, **columns)
    assert first is not None
    if function in (Function.PI, Function.E):
        return
    assert unknown in ([True] if function is Function.IS_NULL else [None, 2])


def test_the_literal_prefix_of_a_pattern() -> None:
    patterns = ["", "abc", "a%b", "_a", "a\\%b", "é\n%", None]
    node = Call(Function.LITERAL_PREFIX, (Column(Side.LEFT, "s"),))
    found = values(node, s=texts(*patterns))
    assert found == ["", "abc", "a", "", "a", "é\n", None]
