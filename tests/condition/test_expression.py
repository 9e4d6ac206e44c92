from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.condition.expression import (
    Call,
    Column,
    Expression,
    Function,
    Literal,
    left,
    literal,
    right,
)
from thetastream.condition.sql import parse
from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side

COMPARISONS = [f for f in Function if f.compares]


def test_python_operators_build_what_the_parser_builds() -> None:
    cases: list[tuple[Expression, str]] = [
        (abs(left.x - right.x) <= 5, "abs(l.x - r.x) <= 5"),
        ((left.x < right.x) & (left.y != right.y), "l.x < r.x AND l.y != r.y"),
        (~((left.x == 1) | (right.x >= 2.5)), "NOT (l.x = 1 OR r.x >= 2.5)"),
        (left.x.between(right.a, right.b), "l.x BETWEEN r.a AND r.b"),
        (left.x * 2 + 1 > 3 - right.x / 2, "l.x * 2 + 1 > 3 - r.x / 2"),
        (-left.x % 3 == 1 + right.x, "-l.x % 3 = 1 + r.x"),
        (left.x.is_null(), "l.x IS NULL"),
        (left["a b"] == "it's", "l.`a b` = 'it\\'s'"),
        (left.t - right.t < timedelta(seconds=5), "l.t - r.t < INTERVAL '5' SECOND"),
    ]
    for built, text in cases:
        assert built.same(parse(text)), (str(built), text)


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(PredicateError, match="no truth value"):
        bool(left.x < right.x)
    with pytest.raises(PredicateError, match="not with and/or/not"):
        _ = left.a < left.b < left.c


def test_literals_are_exact() -> None:
    def value(given: Any) -> Any:
        node = literal(given)
        assert isinstance(node, Literal)
        return node.value

    assert value(0.1) == Decimal("0.1")
    assert value(np.int64(3)) == 3
    assert value(np.float64(0.5)) == Decimal("0.5")
    assert value(timedelta(seconds=1)) == Interval(10**9)
    assert value(True) is True
    for bad in (float("nan"), float("inf"), object(), [1]):
        with pytest.raises(PredicateError):
            literal(bad)


def test_sides_and_columns_are_found() -> None:
    node = parse("l.a + l.b < r.c AND l.a > 1")
    assert node.sides() == {Side.LEFT, Side.RIGHT}
    assert node.columns(Side.LEFT) == ["a", "b"]
    assert node.columns(Side.RIGHT) == ["c"]
    assert Literal(1).sides() == frozenset()


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_flip_and_negate(op: Function) -> None:
    signs = {"=": {0}, "!=": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}
    assert signs[op.flip().value] == {-sign for sign in signs[op.value]}
    assert signs[op.negate().value] == {-1, 0, 1} - signs[op.value]
    assert op.flip().flip() is op.negate().negate() is op


_LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from([left.x, left.y, right.x, right["a b"], right["c`d"]]),
    st.integers(-5, 5).map(Literal),
    st.sampled_from([Decimal("0.1"), Decimal("-2.50"), Interval(10**9), Interval(-1)]).map(Literal),
    st.sampled_from(["", "it's", "a\\b", "x%"]).map(Literal),
    st.sampled_from([True, False, None]).map(Literal),
)
_BINARY = [
    *COMPARISONS,
    Function.AND,
    Function.OR,
    Function.ADD,
    Function.SUB,
    Function.MUL,
    Function.DIV,
    Function.MOD,
    Function.LIKE,
    Function.LEAST,
    Function.COALESCE,
    Function.CONCAT,
]
_UNARY = [
    Function.NOT,
    Function.NEG,
    Function.IS_NULL,
    Function.ABS,
    Function.FLOOR,
    Function.LOWER,
]


def _grown(nodes: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    # The parser reads -5 as a number, so NEG stands before columns and calls only.
    unary = st.tuples(st.sampled_from(_UNARY), nodes).filter(
        lambda pair: pair[0] is not Function.NEG or not isinstance(pair[1], Literal)
    )
    return st.one_of(
        st.tuples(st.sampled_from(_BINARY), nodes, nodes).map(lambda t: Call(t[0], t[1:])),
        unary.map(lambda t: Call(t[0], t[1:])),
        st.tuples(nodes, nodes, nodes).map(lambda t: Call(Function.IF, t)),
    )


@given(st.recursive(_LEAVES, _grown, max_leaves=8))
def test_text_round_trips(node: Expression) -> None:
    assert parse(str(node)).same(node)


@pytest.mark.parametrize(
    "name", ["select", "order", "left", "from", "case", "interval", "a-b", "é"]
)
def test_any_column_name_round_trips(name: str) -> None:
    assert parse(str(Column(Side.LEFT, name))).same(Column(Side.LEFT, name))


def test_a_negated_literal_round_trips() -> None:
    node = left.x <= right.x + -literal(5)
    assert parse(str(node)).same(node)
