"""Boxes of strings: every match lies in exactly one interval."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.boxes.binding import bind
from thetastream.boxes.box import intervals
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import to_keys
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

WORD = st.one_of(st.text("ab\0\x7f", max_size=10).map(str.encode), st.binary(max_size=9))
CONDITIONS: dict[str, Any] = {
    "l.s < r.s": operator.lt,
    "l.s <= r.s": operator.le,
    "l.s > r.s": operator.gt,
    "l.s >= r.s": operator.ge,
    "starts_with(l.s, r.s)": bytes.startswith,
    "starts_with(r.s, l.s)": lambda a, b: b.startswith(a),
    "(l.s < r.s OR starts_with(l.s, r.s))": lambda a, b: a < b or a.startswith(b),
    "(l.s >= r.s AND l.s != r.s)": operator.gt,
}
SCHEMA = pa.schema([("s", pa.binary())])


@pytest.mark.parametrize("fresh", Side)
@pytest.mark.parametrize("text", CONDITIONS)
@given(asking=WORD, stored=WORD)
def test_matches_lie_in_one_interval(text: str, fresh: Side, asking: bytes, stored: bytes) -> None:
    domain = Domain(KeyKind.PREFIX)
    (term,) = Predicate.parse(text).terms
    keys, key = (to_keys(pa.array([w], pa.binary()), domain)[0] for w in (asking, stored))
    inside = [low[0] <= key[0] <= high[0] for low, high in intervals(term, domain, fresh, keys)]
    assert sum(inside) <= 1
    pair = (asking, stored) if fresh is Side.LEFT else (stored, asking)
    if CONDITIONS[text](*pair):
        assert sum(inside) == 1


def test_what_is_bound() -> None:
    schemas = dict.fromkeys(Side, SCHEMA)

    def kinds(text: str, **options: Any) -> list[KeyKind]:
        return [b.domain.kind for b in bind(Predicate.parse(text), None, schemas, **options).terms]

    assert kinds("l.s < r.s") == [KeyKind.PREFIX]
    assert kinds("l.s = r.s") == [KeyKind.BYTES]
    assert kinds("l.s != r.s") == []
    assert kinds("l.s < r.s", text_in_order=False) == []
    bound = bind(Predicate.parse("l.s < r.s"), None, schemas)
    assert [str(node) for node in bound.residuals] == ["l.s < r.s"]
    assert bound.terms[0].domain.kind.is_ordered
    assert bound.fields(Side.LEFT)[0].width is None
