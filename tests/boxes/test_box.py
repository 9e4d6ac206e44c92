"""Boxes against literal evaluation: a stored value lies in exactly one interval when it matches."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.boxes.binding import bind
from thetastream.boxes.box import band_width, intervals
from thetastream.condition.expression import Function
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Bound, Compare, Condition, Difference, Relative, Term
from thetastream.data.batch import float_keys
from thetastream.duration import Interval
from thetastream.errors import SchemaError
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

from ..keys import HIGH, LOW

INF, NAN = math.inf, math.nan
OPERATORS: dict[Function, Callable[[Any, Any], bool]] = {
    Function.EQ: operator.eq,
    Function.NE: operator.ne,
    Function.LT: operator.lt,
    Function.LE: operator.le,
    Function.GT: operator.gt,
    Function.GE: operator.ge,
}


def term(text: str) -> Term:
    (found,) = Predicate.parse(text).terms
    return found


# --- Literal evaluation -------------------------------------------------------------------------


def rank(value: float) -> tuple[bool, float]:
    """The total order of floats: NaN above everything and equal to itself."""
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


def matches(condition: Condition, left: Any, right: Any, number: Callable[[Any], Any]) -> bool:
    """A condition as it is written; ``number`` reads constants."""
    order = rank if number is float else lambda value: value

    def holds(op: Function, a: Any, b: Any) -> bool:
        return OPERATORS[op](order(a), order(b))

    if isinstance(condition, Relative):
        base = left if condition.base is Side.LEFT else right
        width = number(condition.factor) * (abs(base) if condition.absolute else base)
        return holds(Function.LT if condition.strict else Function.LE, abs(left - right), width)
    if isinstance(condition, Compare):
        if condition.left_shift is not None:
            left += number(condition.left_shift)
        if condition.right_shift is not None:
            right += number(condition.right_shift)
        return holds(condition.op, left, right)
    difference = left - right if condition.minuend is Side.LEFT else right - left
    low, high = condition.low, condition.high
    above = low is None or holds(
        Function.GT if low.strict else Function.GE, difference, number(low.value)
    )
    below = high is None or holds(
        Function.LT if high.strict else Function.LE, difference, number(high.value)
    )
    return above and below


def compare(
    asked: Term, domain: Domain, values: Sequence[Any], keys: Sequence[int], number: Callable
) -> None:
    """Assert for all pairs, either side fresh, that boxes and literal reading agree."""
    array = np.array(keys, np.int64)
    for fresh in Side:
        pieces = intervals(asked, domain, fresh, array)
        inside = sum(
            ((low[:, None] <= array) & (array <= high[:, None])).astype(int) for low, high in pieces
        )
        for i, own in enumerate(values):
            for j, stored in enumerate(values):
                left, right = (own, stored) if fresh is Side.LEFT else (stored, own)
                wanted = any(
                    all(matches(condition, left, right, number) for condition in arm)
                    for arm in asked.arms
                )
                assert inside[i, j] == wanted, f"{asked}: {fresh} fresh {own!r}, stored {stored!r}"


# --- Floats -------------------------------------------------------------------------------------

_SEEDS = [
    *(0.0, -0.0, 1.0, -1.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.05, 0.15000000000000002, 2.0, 5.0, -5.0),
    *(1e-17, -1e-17, 1.1e-16, 5e-324, 2.2250738585072014e-308, 1e16, 1e16 + 2, 1e300, -1e300),
    *(1.7e308, -1.7e308, 1.7976931348623157e308, INF, -INF, NAN),
]
FLOATS = list(
    {
        repr(float(value)): float(value)
        for seed in _SEEDS
        for value in (seed, math.nextafter(seed, INF), math.nextafter(seed, -INF))
    }.values()
)
FLOAT_TEXTS = [
    *("l.x = r.x", "l.x != r.x", "l.x < r.x", "l.x <= r.x", "l.x > r.x", "l.x >= r.x"),
    *(f"l.x + 0.1 {op} r.x" for op in ("=", "!=", "<", "<=", ">", ">=")),
    *(f"l.x {op} r.x - 0.1" for op in ("=", "!=", "<", "<=", ">", ">=")),
    *("l.x + 1e16 >= r.x - 1", "l.x - 3 < r.x + 1e300", "l.x + 1e16 = r.x + 1e16"),
    *("abs(l.x - r.x) <= 0.1", "abs(l.x - r.x) < 0.1", "abs(l.x - r.x) <= 0"),
    *("abs(l.x - r.x) >= 1", "abs(l.x - r.x) > 1", "abs(l.x - r.x) = 1", "l.x - r.x != 1"),
    *("l.x - r.x >= 0.3", "l.x - r.x > 0.3", "l.x - r.x < 2", "l.x - r.x <= 2", "l.x - r.x < 0"),
    *("r.x - l.x >= 1", "r.x - l.x > 1", "r.x - l.x <= 1", "r.x - l.x < 1"),
    *("r.x - l.x BETWEEN -0.1 AND 0.2", "l.x BETWEEN r.x - 0.2 AND r.x + 0.1"),
    *("l.x - r.x >= -0.1 AND r.x - l.x >= -5", "l.x - r.x < 1 AND l.x != r.x"),
    "l.x < r.x - 1 OR l.x >= r.x OR l.x = r.x",
    *("abs(l.x - r.x) <= 0.01 * l.x", "abs(l.x - r.x) < r.x * 0.3", "0.1 * l.x >= abs(r.x - l.x)"),
    *("abs(l.x - r.x) <= 0.333 * abs(l.x)", "abs(l.x - r.x) < 0.2 * abs(r.x)"),
    "abs(l.x - r.x) <= 0.1 * l.x AND l.x - r.x <= 1",
    *("abs(l.x - r.x + 5) <= 3", "abs(r.x - l.x - 0.5) > 1", "abs(l.x - 1 - r.x) = 2"),
    *("abs(l.x - r.x) <= 9e307", "l.x - r.x > -9e307"),
    "abs(l.x - r.x) <= 0.1 OR abs(l.x - r.x) <= 5 OR l.x = r.x + 2",
]


def test_constants_beyond_all_floats_are_refused() -> None:
    schemas = {side: pa.schema([("x", pa.float64())]) for side in Side}
    for text in ("abs(l.x - r.x) <= 1e400", "l.x < r.x + 1" + 400 * "0"):
        with pytest.raises(SchemaError, match="beyond the largest 64-bit float"):
            bind(Predicate.parse(text), None, schemas)


@pytest.mark.parametrize("text", FLOAT_TEXTS)
def test_floats(text: str) -> None:
    keys = float_keys(np.array(FLOATS)).tolist()
    compare(term(text), Domain(KeyKind.FLOAT), FLOATS, keys, float)


_DECIMAL = st.one_of(
    st.sampled_from([Decimal(0), Decimal("0.1"), Decimal(1), Decimal("1e16"), Decimal("1e308")]),
    st.floats(-10, 10).map(lambda value: Decimal(repr(value))),
)
_BOUND = st.builds(Bound, _DECIMAL, st.booleans())
_CONDITION: st.SearchStrategy[Condition] = st.one_of(
    st.builds(
        Compare,
        st.sampled_from(list(OPERATORS)),
        st.one_of(st.none(), _DECIMAL),
        st.one_of(st.none(), _DECIMAL),
    ),
    st.tuples(st.sampled_from(Side), _BOUND, _BOUND, st.sampled_from(["low", "high", "both"])).map(
        lambda t: Difference(
            t[0], t[1] if t[3] != "high" else None, t[2] if t[3] != "low" else None
        )
    ),
)
_ARMS = st.lists(
    st.lists(_CONDITION, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3
).map(tuple)
X = term("l.x = r.x")


@given(_ARMS, st.lists(st.floats(), min_size=1, max_size=5))
def test_any_float_term(arms: tuple[tuple[Condition, ...], ...], drawn: list[float]) -> None:
    near = [math.nextafter(drawn[0], INF), drawn[0] + 0.1, -drawn[0]]
    values = [*drawn, *near, 0.0, INF, -INF, NAN]
    keys = float_keys(np.array(values)).tolist()
    compare(Term(X.left, X.right, arms), Domain(KeyKind.FLOAT), values, keys, float)


# --- Whole numbers ------------------------------------------------------------------------------

INTEGERS = [
    *(0, 1, -1, 2, 3, 5, -5, 100),
    *(HIGH, HIGH - 1, HIGH - 5, HIGH - 6, LOW, LOW + 1, LOW + 5, LOW + 6, 2**62, -(2**62)),
]
INTEGER_TEXTS = [
    *FLOAT_TEXTS,
    *("abs(l.x - r.x) <= 5", "abs(l.x - r.x) < 5", "abs(l.x - r.x) <= 2.5", "abs(l.x - r.x) > 5"),
    *(f"l.x {op} r.x + 2.5" for op in ("=", "!=", "<", "<=", ">", ">=")),
    *(f"l.x {op} r.x - 2" for op in ("=", "!=", "<", "<=", ">", ">=")),
    *("l.x - 3 < r.x", "l.x - r.x <= 9223372036854775807", "l.x - r.x >= 9223372036854775807"),
    *("l.x < r.x + 99999999999999999999", "l.x > r.x + 99999999999999999999"),
    *("l.x - r.x > -99999999999999999999.5", "l.x = r.x + 18446744073709551615"),
]


@pytest.mark.parametrize("text", INTEGER_TEXTS)
def test_integers(text: str) -> None:
    compare(term(text), Domain(KeyKind.INTEGER), INTEGERS, INTEGERS, Fraction)


@given(
    _ARMS,
    st.lists(st.one_of(st.integers(-20, 20), st.integers(LOW, HIGH)), min_size=1, max_size=6),
)
def test_any_integer_term(arms: tuple[tuple[Condition, ...], ...], drawn: list[int]) -> None:
    values = [*drawn, LOW, HIGH, 0]
    compare(Term(X.left, X.right, arms), Domain(KeyKind.INTEGER), values, values, Fraction)


def test_band_edges_saturate() -> None:
    ((low, high),) = intervals(
        term("abs(l.x - r.x) <= 5"),
        Domain(KeyKind.INTEGER),
        Side.LEFT,
        np.array([HIGH - 2, LOW + 2]),
    )
    assert (low.tolist(), high.tolist()) == ([HIGH - 7, LOW], [HIGH, LOW + 7])


def test_unsigned_keys_saturate_at_their_own_ends() -> None:
    values = [0, 1, 6, 2**63 - 1, 2**63, 2**64 - 6, 2**64 - 1]
    keys = [value + LOW for value in values]
    for text in ("abs(l.x - r.x) <= 5", "l.x < r.x - 5", "l.x >= r.x + 5", "l.x != r.x"):
        compare(term(text), Domain(KeyKind.UNSIGNED), values, keys, Fraction)


# --- Scaled domains -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("abs(l.x - r.x) <= 0.05", "abs(l.x - r.x) < 0.055", "l.x = r.x + 0.01"),
        *("l.x >= r.x + 1", "l.x != r.x + 0.005", "l.x - r.x > 0.004"),
    ],
)
def test_decimals(text: str) -> None:
    cents = [0, 1, -1, 4, 5, 6, 100, 105, -100]
    domain = Domain(KeyKind.DECIMAL, scale=2)
    compare(term(text), domain, [Fraction(cent, 100) for cent in cents], cents, Fraction)


@pytest.mark.parametrize(
    "text",
    [
        "l.x - r.x BETWEEN INTERVAL '-1 second' AND INTERVAL '2 seconds'",
        "l.x < r.x + INTERVAL '1500 milliseconds'",
        "abs(l.x - r.x) <= INTERVAL '1 millisecond'",
        "l.x - r.x > 0",
    ],
)
@pytest.mark.parametrize("tick", [10**9, 10**6, 1])
def test_times(text: str, tick: int) -> None:
    keys = [0, 1, -1, 2, 3, 1000, 1001, 1500, -2000, 2 * 10**9, LOW, HIGH]

    def nanoseconds(value: Any) -> Fraction:
        return Fraction(value.nanoseconds if isinstance(value, Interval) else value)

    values = [Fraction(key * tick) for key in keys]
    compare(term(text), Domain(KeyKind.NAIVE, tick=tick), values, keys, nanoseconds)


def test_dates_count_days() -> None:
    domain = Domain(KeyKind.DATE, tick=86_400 * 10**9)
    compare(term("l.x - r.x <= 2"), domain, [0, 1, 2, 3], [0, 1, 2, 3], Fraction)
    compare(term("l.x < r.x + 1.5"), domain, [0, 1, 2, 3], [0, 1, 2, 3], Fraction)


def test_no_rows() -> None:
    none = np.empty(0, np.int64)
    for text in ("abs(l.x - r.x) <= 5 OR l.x > r.x + 9", "l.x != r.x", "l.x + 1 = r.x"):
        for kind in (KeyKind.INTEGER, KeyKind.FLOAT):
            for low, high in intervals(term(text), Domain(kind), Side.LEFT, none):
                assert low.size == high.size == 0


# --- The width of a band ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "domain", "width"),
    [
        ("abs(l.x - r.x) <= 5", Domain(KeyKind.INTEGER), 10.0),
        ("abs(l.x - r.x) <= 0.5", Domain(KeyKind.FLOAT), 1.0),
        ("r.x - l.x BETWEEN -1 AND 2", Domain(KeyKind.INTEGER), 3.0),
        ("l.x >= r.x - 1 AND l.x <= r.x + 3", Domain(KeyKind.INTEGER), 4.0),
        ("abs(l.x - r.x) <= 0.05", Domain(KeyKind.DECIMAL, scale=2), 10.0),
        ("abs(l.x - r.x) <= INTERVAL '1 second'", Domain(KeyKind.NAIVE, tick=10**6), 2000.0),
        ("abs(l.x - r.x) <= 5 AND l.x - r.x >= 0", Domain(KeyKind.INTEGER), 5.0),
        ("l.x = r.x", Domain(KeyKind.INTEGER), None),
        ("l.x < r.x", Domain(KeyKind.INTEGER), None),
        ("l.x != r.x", Domain(KeyKind.INTEGER), None),
        ("abs(l.x - r.x) >= 5", Domain(KeyKind.INTEGER), None),
    ],
)
def test_band_width(text: str, domain: Domain, width: float | None) -> None:
    assert band_width(term(text), domain) == width


# --- Relative bands -----------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("base", Side)
@given(
    st.sampled_from(["0.01", "0.1", "0.25", "0.333", "1e-9", "1e-17", "1e-300"]),
    st.lists(st.floats(), min_size=1, max_size=3),
)
def test_relative_bands_of_floats(
    base: Side, absolute: bool, strict: bool, share: str, drawn: list[float]
) -> None:
    """Around the edges of every value, to the last bit."""
    factor, values = Decimal(share), {0.0, INF, -INF, NAN, 5e-324, -5e-324}
    for value in drawn:
        for edge in (value, *(value / (1 + sign * float(factor)) for sign in (1, -1))):
            near = [edge]
            for direction in (INF, -INF):
                at = edge
                for _ in range(3):
                    at = math.nextafter(at, direction)
                    near.append(at)
            values |= {*near, *(-one for one in near)}
    listed = sorted(values, key=rank)
    asked = Term(X.left, X.right, ((Relative(base, factor, absolute, strict),),))
    keys = float_keys(np.array(listed)).tolist()
    compare(asked, Domain(KeyKind.FLOAT), listed, keys, float)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("base", Side)
@given(
    st.sampled_from(["0.01", "0.1", "0.25", "0.333", "1e-18"]),
    st.lists(st.integers(LOW, HIGH) | st.integers(-1000, 1000), min_size=1, max_size=4),
)
def test_relative_bands_of_whole_numbers(
    base: Side, absolute: bool, strict: bool, share: str, drawn: list[int]
) -> None:
    factor = Decimal(share)
    edges = [
        math.floor(value / (1 + sign * Fraction(factor))) + step
        for value in drawn
        for sign in (1, 0, -1)
        for step in (-1, 0, 1, 2)
    ]
    values = sorted({0, 1, -1, HIGH, LOW, *(e for e in edges if LOW <= e <= HIGH)})
    asked = Term(X.left, X.right, ((Relative(base, factor, absolute, strict),),))
    compare(asked, Domain(KeyKind.INTEGER), values, values, Fraction)
    unsigned = [value - LOW for value in values]
    compare(asked, Domain(KeyKind.UNSIGNED), unsigned, values, Fraction)
