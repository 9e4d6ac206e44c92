"""Reading SQL text: what sqlglot marks on a node, errors that say what to write, constants."""

from __future__ import annotations

import pytest

from thetastream.condition.normalize import fold
from thetastream.condition.predicate import Predicate
from thetastream.condition.sql import parse
from thetastream.errors import PredicateError
from thetastream.spark.expressions import split


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("l.s NOT LIKE r.p", "NOT (l.s LIKE r.p)"),
        ("NOT l.s NOT LIKE r.p", "NOT (NOT (l.s LIKE r.p))"),
        ("l.s IS NOT NULL", "NOT (l.s IS NULL)"),
        ("l.x NOT IN (r.x, 1)", "NOT (l.x = r.x OR l.x = 1)"),
        ("l.x NOT BETWEEN 1 AND r.x", "NOT (l.x >= 1 AND l.x <= r.x)"),
    ],
)
def test_negations(text: str, meaning: str) -> None:
    assert str(parse(text)) == meaning
    assert parse(str(parse(text))).same(parse(text))
    if "r." in text:
        assert parse(split(text).on).same(parse(text))


@pytest.mark.parametrize(
    ("text", "message", "part"),
    [
        ("asinn(l.x) <= r.x", "asinn is not supported. Did you mean 'ASIN'?", "asinn"),
        ("haversine(l.a, l.b, r.a, r.b) < 5", "Write the distance out, as docs/", "haversine"),
        ("now() > l.t AND l.x = r.x", "Compare with a constant, or use a time window", "now"),
        ("Max(l.x, r.x) > 5", "the function Max is not supported. Write GREATEST", "Max"),
        ("levenshtein(l.s, r.s) < 3", "not supported. The functions are listed", "levenshtein"),
        ("abs(l.t - r.t) < INTERVAL '5 minuets'", "unit of time 'minuets'", "minuets"),
        ("abs(l.t - r.t) < INTERVAL '1' month", "'month' has no fixed length", "month"),
        ("(l.s, l.e) OVERLAPS (r.s, r.e)", "write OVERLAPS(l.s, l.e, r.s, r.e)", "l.s, l.e"),
    ],
)
def test_errors_show_the_part_and_say_what_to_write(text: str, message: str, part: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)].startswith(part)


def test_sums_of_intervals_are_constants() -> None:
    (term,) = Predicate.parse("l.t - r.t < INTERVAL '1' DAY + INTERVAL '2' HOURS").terms
    assert str(term) == "l.t - r.t < INTERVAL '26 hours'"
    assert str(fold(parse("INTERVAL '1' DAY - INTERVAL '24' HOURS"))) == "INTERVAL '0 seconds'"
    assert str(fold(parse("INTERVAL '1' DAY * 2"))) == "INTERVAL '1 day' * 2"


def test_large_numbers_are_written_with_an_exponent() -> None:
    for text in ("9e307", "1E-300", "123456789012345678901234567890"):
        node = parse(text)
        assert len(str(node)) <= 40
        assert parse(str(node)).same(node)
