"""Strings and binary in order: indexed by their first bytes, exact in every mode."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, NestedLoopWarning, SchemaError
from thetastream.truth import oracle

from .join_rows import joined, rows

SOME = (
    "",
    "a",
    "ab",
    "abcdefgh",
    "abcdefghi",
    "abcdefgz",
    "a\0",
    "é",
    "日本語の文字",
    "%",
    "a%",
    "\\%",
)
WORDS = st.lists(
    st.one_of(st.none(), st.sampled_from(SOME), st.text("ab%_\0", max_size=10)), max_size=8
)
CONDITIONS = [
    "l.s < r.s",
    "l.s >= r.p",
    "l.s BETWEEN r.s AND r.p",
    "starts_with(l.s, r.p)",
    "starts_with(r.s, l.p)",
    "l.s LIKE r.p",
    "l.s LIKE concat(r.p, '%')",
    "(l.s < r.s OR starts_with(l.s, r.s))",
    "NOT (l.s < r.p) AND l.s != r.p",
    "l.s = r.s AND l.p < r.p",
]


def column(words: list[str | None], kind: Any) -> pa.Array:
    text = not any(map(pa.types.is_binary, [kind]))
    return pa.array([w if text or w is None else w.encode() for w in words], kind)


def side(words: list[str | None], kind: Any = None) -> pa.Table:
    kind = kind or pa.string()
    columns = {"s": column(words, kind), "p": column(words[::-1], kind)}
    return pa.table({"n": pa.array(range(len(words)), pa.int64()), **columns})


def found(join: ts.StreamJoin, pushes: list[Any]) -> list[tuple[Any, Any]]:
    batches = [*(batch for push in pushes for batch in join.push(*push)), *join.flush()]
    return [(row.get("left"), row.get("right")) for row in rows(batches)]


@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
@pytest.mark.parametrize("on", CONDITIONS)
@given(left=WORDS, right=WORDS)
def test_every_mode(on: str, how: str, left: list[Any], right: list[Any]) -> None:
    window, pushes = ts.CountWindow(5), [(side(left), side(right)), (side(right), side(left))]
    truth = oracle.join(pushes, on, window, how).pairs
    join = joined(on, window=window, how=how, output="pairs")
    assert Counter(found(join, pushes)) == Counter(truth)
    assert join.explain().as_dict()["parts"]["indexed"]
    join.check()


KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("on", CONDITIONS[:5])
@given(left=WORDS, right=WORDS)
def test_every_type_and_tables(on: str, kind: Any, left: list[Any], right: list[Any]) -> None:
    tables = side(left, kind), side(right, kind)
    truth = oracle.join([(side(left), side(right))], on, ts.Unbounded()).pairs
    pairs = ts.join_iter(*tables, on, output="pairs")
    assert Counter((row["left"], row["right"]) for row in rows(pairs)) == Counter(truth)


@pytest.mark.parametrize("tactic", ["ordered", "ibwj", "panjoin", "spo-join", "auto"])
def test_tactics(tactic: str) -> None:
    words = [f"{at * 7919 % 1000:03d}" * (1 + at % 5) for at in range(400)]
    on = "l.s BETWEEN r.s AND r.p AND l.n < r.n"
    pushes = [(side(words[:200]), side(words[200:])), (side(words[200:]), side(words[:200]))]
    truth = oracle.join(pushes, on, ts.CountWindow(150)).pairs
    join = joined(on, window=ts.CountWindow(150), tactic=tactic, output="pairs")
    assert Counter(found(join, pushes)) == Counter(truth)


def test_few_candidates_are_met() -> None:
    """Strings that differ in their first bytes are not compared with each other."""
    words = [f"{at:04d}-something" for at in range(1000)]
    for on in ("l.s BETWEEN r.s AND r.s || 'x'", "starts_with(l.s, r.s)"):
        join = joined(on, window=ts.CountWindow(2000))
        list(join.push(right=side([word[:4] for word in words])))
        assert len(rows(join.push(left=side(words)))) == 1000
        assert join.metrics().candidates == 1000, on


def test_explain_says_what_is_compared() -> None:
    schema = side([]).schema
    parts = ts.explain("l.s < r.s AND l.p LIKE r.p", schema, schema).as_dict()
    assert parts["candidates"] == "an index finds them"
    assert set(parts["checked on candidates"].values()) == {
        "strings are found by hash or prefix, and compared here",
        "found by the text in front of wildcards, and compared here",
    }


def test_what_order_does_not_help_warns() -> None:
    schema = side([]).schema
    with pytest.warns(NestedLoopWarning):
        joined("l.s != r.s", schemas=(schema, schema))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined("l.s LIKE r.p", schemas=(schema, schema))


def test_wrong_types() -> None:
    for on in ("starts_with(l.n, r.n)", "starts_with(l.s, r.n)", "l.s < r.n"):
        with pytest.raises(SchemaError, match="expected strings|cannot be compared"):
            joined(on, schemas=(side([]).schema, side([]).schema))
    mixed = side([]).schema.set(1, pa.field("s", pa.binary()))
    with pytest.raises(SchemaError, match="cannot be compared"):
        joined("starts_with(l.s, r.s)", schemas=(side([]).schema, mixed))


# --- Not UTF-8 ------------------------------------------------------------------------------------


def invalid(*words: bytes) -> pa.Table:
    """Bytes that are declared as strings."""
    raw = pa.array(words, pa.binary())
    strings = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    return pa.table({"n": range(len(raw)), "s": strings})


def test_bytes_that_are_not_utf8_compare_as_bytes() -> None:
    table = invalid(b"a\xff", b"a", b"\xfe")
    less = found(joined("l.s < r.s", output="pairs"), [(table, table)])
    assert sorted(less) == [(0, 2), (1, 0), (1, 2)]
    assert len(found(joined("l.s = r.s", output="pairs"), [(table, table)])) == 3
    assert len(found(joined("starts_with(l.s, r.s)", output="pairs"), [(table, table)])) == 4


@pytest.mark.parametrize(
    "text",
    [
        "UPPER(l.s) = r.s",
        "REVERSE(l.s) = r.s",
        "LENGTH(l.s) > 0",
        "REPLACE(l.s, r.s, 'x') = l.s",
    ],
)
def test_functions_refuse_what_is_not_utf8(text: str) -> None:
    join = joined(f"l.n = r.n AND {text}")
    join.push(right=invalid(b"a"))
    with pytest.raises(DataError, match="is not UTF-8; keep such values as binary"):
        rows(join.push(left=invalid(b"\xff")))
