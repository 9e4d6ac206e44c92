from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from thetastream.condition.expression import Function, left, right
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Bound, Compare, Difference, Term
from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side
from thetastream.testing.kinds import KINDS, Kind
from thetastream.testing.predicates import predicates
from thetastream.truth.oracle import matches

LEFT, RIGHT = Side.LEFT, Side.RIGHT
PAIRS: dict[str, tuple[Kind, Kind]] = {
    "a": (KINDS["int"], KINDS["float"]),
    "b": (KINDS["string"], KINDS["string"]),
    "c": (KINDS["timestamp"], KINDS["timestamp"]),
}


def band(low: Any, high: Any, minuend: Side = LEFT, strict: bool = False) -> Difference:
    return Difference(
        minuend,
        None if low is None else Bound(low, strict),
        None if high is None else Bound(high, strict),
    )


def only_term(text: str) -> Term:
    predicate = Predicate.parse(text)
    assert not predicate.residuals
    (term,) = predicate.terms
    return term


# --- Terms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [f for f in Function if f.compares])
def test_comparisons(op: Function) -> None:
    assert only_term(f"l.x {op.value} r.y").arms == ((Compare(op),),)
    assert only_term(f"r.y {op.value} l.x").arms == ((Compare(op.flip()),),)
    assert only_term(f"NOT (l.x {op.value} r.y)").arms == ((Compare(op.negate()),),)


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("abs(l.x - r.x) <= 5", [[band(-5, 5)]]),
        ("abs(r.x - l.x) < 5", [[band(-5, 5, RIGHT, strict=True)]]),
        ("5 >= abs(l.x - r.x)", [[band(-5, 5)]]),
        ("abs(l.x - r.x) <= 2 * 30", [[band(-60, 60)]]),
        ("abs(l.x - r.x) > 5", [[band(None, -5, strict=True)], [band(5, None, strict=True)]]),
        ("abs(l.x - r.x) = 5", [[band(5, 5)], [band(-5, -5)]]),
        ("abs(l.x - r.x) = 0", [[band(0, 0)]]),
        ("l.x - r.x <= 5", [[band(None, 5)]]),
        ("l.x - r.x + 1 <= 5", [[band(None, 4)]]),
        ("l.x - r.x != 5", [[band(None, 5, strict=True)], [band(5, None, strict=True)]]),
        ("r.x - l.x >= 1.5", [[band(Decimal("1.5"), None, RIGHT)]]),
        ("l.x BETWEEN r.x - 1 AND r.x + 2", None),
        ("l.x - r.x BETWEEN -1 AND 2", [[band(-1, None), band(None, 2)]]),
        ("l.x < r.x + 2", [[Compare(Function.LT, None, 2)]]),
        ("l.x - 3 >= 2 + r.x", [[Compare(Function.GE, -3, 2)]]),
        ("l.t - r.t <= INTERVAL '5' SECOND", [[band(None, Interval(5 * 10**9))]]),
        ("l.x = r.x OR l.x = r.x + 1", [[Compare(Function.EQ)], [Compare(Function.EQ, None, 1)]]),
        ("l.x IN (r.x, r.x)", [[Compare(Function.EQ)]]),
    ],
)
def test_terms(text: str, arms: list[list[Any]] | None) -> None:
    if arms is None:
        arms = [[Compare(Function.GE, None, -1), Compare(Function.LE, None, 2)]]
    assert only_term(text).arms == tuple(map(tuple, arms))


def test_linear_mixtures_are_regrouped_by_side() -> None:
    term = only_term("l.a - r.x + l.b > r.y - 1")
    assert str(term.left) == "l.a + l.b"
    assert str(term.right) == "r.x + r.y"
    assert term.arms == ((band(-1, None, strict=True),),)
    term = only_term("l.x + r.x <= 3")
    assert (str(term.left), str(term.right)) == ("l.x", "-(r.x)")


def test_conditions_on_the_same_expressions_are_one_term() -> None:
    predicate = Predicate.parse("l.x >= r.x - 1 AND l.y = r.y AND l.x < r.x + 2")
    assert len(predicate.terms) == 2
    assert len(predicate.terms[0].arms[0]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "l.x = r.x OR l.y = r.y",
        "l.x * r.x < 5",
        "abs(l.x - r.x) <= l.y + r.y",
        "abs(l.x - r.x) >= l.y",
        "l.x = r.x OR l.x IS NULL",
        "abs(l.x - r.x) != 3",
        "(l.x < r.x) = TRUE",
    ],
)
def test_what_no_term_covers_is_a_residual(text: str) -> None:
    predicate = Predicate.parse(text)
    assert not predicate.terms
    assert len(predicate.residuals) == 1


def test_conjuncts_over_one_side_are_filters() -> None:
    predicate = Predicate.parse("l.x > 0 AND l.x = r.x AND (r.y = 1 OR r.z IS NULL)")
    assert [str(f) for f in predicate.filters(LEFT)] == ["l.x > 0"]
    assert [str(f) for f in predicate.filters(RIGHT)] == ["r.y = 1 OR r.z IS NULL"]
    assert len(predicate.terms) == 1


@pytest.mark.parametrize(
    ("text", "equality", "is_band", "interval"),
    [
        ("l.x = r.x", True, True, True),
        ("l.x = r.x + 1", False, True, True),
        ("l.x < r.x", False, False, True),
        ("l.x != r.x", False, False, False),
        ("abs(l.x - r.x) <= 1", False, True, True),
        ("r.x - l.x <= 1", False, False, True),
        ("l.x >= r.x AND l.x - r.x < 3", False, True, True),
        ("l.x >= r.x AND r.x - l.x < 3", False, False, True),
        ("abs(l.x - r.x) >= 1", False, False, False),
    ],
)
def test_shapes(text: str, equality: bool, is_band: bool, interval: bool) -> None:
    term = only_term(text)
    assert (term.is_equality, term.is_band, term.is_interval) == (equality, is_band, interval)


@pytest.mark.parametrize(
    ("text", "symmetric"),
    [
        ("abs(l.x - r.x) <= 1", True),
        ("l.x = r.x AND abs(l.y - r.y) < 2", True),
        ("l.x != r.x", True),
        ("l.x < r.x", False),
        ("l.x - r.x BETWEEN -1 AND 2", False),
        ("l.x = r.y", False),
        ("l.x = r.x + 1", False),
        ("l.x = r.x AND l.y > 0", False),
    ],
)
def test_symmetry(text: str, symmetric: bool) -> None:
    assert Predicate.parse(text).is_symmetric is symmetric


# --- Text ---------------------------------------------------------------------------------------


@given(predicates(PAIRS))
def test_text_round_trips(text: str) -> None:
    predicate = Predicate.parse(text)
    again = Predicate.parse(str(predicate))
    assert again == predicate
    assert hash(again) == hash(predicate)
    assert [str(t) for t in again.terms] == [str(t) for t in predicate.terms]


def test_terms_can_be_compared() -> None:
    assert only_term("l.x < r.x") == only_term("l.x < r.x")
    assert only_term("l.x < r.x") != only_term("l.y < r.x")


def test_a_predicate_comes_from_text_an_expression_or_a_predicate() -> None:
    text = Predicate.parse("abs(l.x - r.x) <= 0.5 AND l.y < r.y")
    built = Predicate.of((abs(left.x - right.x) <= 0.5) & (left.y < right.y))
    assert built == text
    assert Predicate.of(text) is text
    assert Predicate.of(str(text)) == text
    assert text != Predicate.parse("l.y < r.y")
    assert text.columns(LEFT) == ["x", "y"]


# --- Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("", "is empty", ""),
        ("   ", "is empty", ""),
        ("l.x = ", "cannot parse", "="),
        ("l.x = r.x)", "cannot parse", ")"),
        ("x = r.x", "ambiguous side of column 'x'", "x"),
        ("m.x = r.x", "unknown side 'm'", "m.x"),
        ("l.a.b = r.x", "field of a struct", "l.a.b"),
        ("foo(l.x) = r.x", "the function foo is not supported", "foo"),
        ("l.x = r.x AND sinn(l.x) > 0", "Did you mean 'SIN'", "sinn"),
        ("power(l.x) = r.x", "POWER takes 2 arguments; got 1", "power"),
        ("log(l.x) = r.x", r"write LN\(x\) or LOG10\(x\)", "log"),
        ("overlaps(l.s, l.e, r.s) AND l.x = r.x", "OVERLAPS takes 4 arguments", "overlaps"),
        ("contains(l.s) AND l.x = r.x", "CONTAINS takes 3 arguments", "contains"),
        ("cast(l.x as blob) = r.x", "CAST takes the types", None),
        ("l.d > DATE '2024-13-01' AND l.x = r.x", "is not a date", "'2024-13-01'"),
        ("l.t > TIMESTAMP 'now' AND l.x = r.x", "is not a timestamp", "'now'"),
        ("l.t = r.t + interval '1 month'", "no fixed length", None),
        ("l.x = 1", "right .* does not occur", None),
        ("r.x BETWEEN 1 AND 2", "left .* does not occur", None),
        ("1 = 1", "left .* and right .* does not occur", None),
        ("abs(l.x - r.x) <= -1", "band is empty", None),
        ("abs(l.x - r.x) < 0", "band is empty", None),
        ("l.x BETWEEN r.x + 5 AND r.x - 5", "band is empty", None),
        ("l.x = r.x AND l.x = r.x + 1", "band is empty", None),
    ],
)
def test_refusals_point_at_the_offending_part(text: str, message: str, marked: str | None) -> None:
    with pytest.raises(PredicateError, match=message) as caught:
        Predicate.parse(text)
    if marked:
        assert caught.value.span is not None
        start, end = caught.value.span
        assert text[start:end].startswith(marked)
        assert "^" in str(caught.value)


def test_only_predicates_are_predicates() -> None:
    with pytest.raises(PredicateError, match="got int"):
        Predicate.of(5)  # type: ignore[arg-type]


def test_an_or_is_not_empty_because_one_of_its_arms_is() -> None:
    predicate = Predicate.parse("abs(l.x - r.x) >= 5 AND l.x > r.x")
    assert matches(predicate, {"x": 9}, {"x": 1})
    assert not matches(predicate, {"x": 1}, {"x": 9})


@pytest.mark.parametrize("constant", ["1 = 2", "FALSE", "NULL", "'a' = 'b'"])
def test_a_constant_that_is_not_true_matches_nothing(constant: str) -> None:
    assert not matches(f"l.x = r.x AND {constant}", {"x": 1}, {"x": 1})
    assert matches("l.x = r.x AND TRUE AND 1 = 1", {"x": 1}, {"x": 1})


def test_prefixes_are_terms() -> None:
    (term,) = Predicate.parse("starts_with(l.s, r.p)").terms
    assert str(term) == "STARTSWITH(l.s, r.p)"
    assert term.is_prefix
    assert not term.is_band
    predicate = Predicate.parse("r.s LIKE l.p")
    assert [str(node) for node in predicate.residuals] == ["r.s LIKE l.p"]
    assert [term.is_implied for term in predicate.terms] == [True]
    assert not Predicate.parse("starts_with(l.s, r.s)").is_symmetric
    for text in ("NOT starts_with(l.s, r.p)", "l.s NOT LIKE r.p", "l.s LIKE concat(l.p, r.p)"):
        assert not Predicate.parse(text).terms, text


def test_a_width_of_one_side_implies_two_ends() -> None:
    for text in ("abs(l.x - r.x) <= r.w", "r.w > abs(r.x - l.x)"):
        predicate = Predicate.parse(text)
        assert [str(node) for node in predicate.residuals] == [str(predicate)]
        assert all(term.is_implied for term in predicate.terms)
        assert [str(term) for term in predicate.terms] == [
            "l.x >= LOWEST_WITHIN(r.x, r.w)",
            "l.x <= HIGHEST_WITHIN(r.x, r.w)",
        ]
    with pytest.raises(PredicateError, match="LOWEST_WITHIN is not supported"):
        Predicate.parse("l.x >= LOWEST_WITHIN(r.x, r.w)")
