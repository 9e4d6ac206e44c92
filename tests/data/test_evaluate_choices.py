"""Expressions over whole batches: picking among values, strings and patterns."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from thetastream.condition.expression import Call, Function, Literal, left
from thetastream.data.evaluate import like_pattern
from thetastream.errors import SchemaError

from ..keys import LOW
from .evaluated import INF, NAN, array, decimals, floats, ints, same, texts, values

LAYOUTS = [pa.string(), pa.large_string(), pa.string_view()]


# --- Picking --------------------------------------------------------------------------------------


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


# --- Strings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYOUTS, ids=str)
def test_strings(kind: pa.DataType) -> None:
    s = texts("aB", "", "Žluť", None, kind=kind)
    assert values("LOWER(l.s)", s=s) == ["ab", "", "žluť", None]
    assert values("UPPER(l.s)", s=s) == ["AB", "", "ŽLUŤ", None]
    assert values("LENGTH(l.s)", s=s) == [2, 0, 4, None]
    assert array("LENGTH(l.s)", {"s": s}).type == pa.int64()
    assert values("l.s LIKE '_l%'", s=s) == [False, False, True, None]


@pytest.mark.parametrize("kind", LAYOUTS, ids=str)
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
