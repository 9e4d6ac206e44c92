"""What sqlglot marks on a node, instead of wrapping it."""

from __future__ import annotations

import pytest

from thetastream.condition.sql import parse
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
