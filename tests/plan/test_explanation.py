"""Explanations: short by default, complete on request, with the same facts."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.plan.explanation import LINES, MORE, WIDTH, Explanation

FACTS = {
    "a": 1,
    "none": [],
    "list": [1, 2],
    "deep": {"b": 2},
    "many": [{"c": 3, "d": {"e": 4}}],
}


def test_the_long_text_renders_lists_and_dicts() -> None:
    assert Explanation.of(FACTS, verbose=True).splitlines() == [
        *("a: 1", "none: none", "list: 1, 2", "deep:", "  b: 2"),
        *("many:", "  - c: 3", "    d:", "      e: 4"),
    ]


def test_the_short_text_leaves_out_what_is_empty() -> None:
    short = Explanation.of({"a": 1, "none": [], "deep": {"b": 2, "c": [1, 2]}})
    assert short.splitlines() == ["a: 1", "deep: b 2; c 1, 2", MORE]


def test_the_short_text_is_bounded() -> None:
    short = Explanation.of({f"fact {i}": "long " * 100 for i in range(99)})
    lines = short.splitlines()
    assert len(lines) == LINES
    assert max(map(len, lines)) == WIDTH
    assert lines[-1] == MORE
    assert len(short.verbose.splitlines()) == 99


@pytest.mark.parametrize("tactic", ts.tactics())
def test_a_join_is_explained_in_few_lines(tactic: str) -> None:
    on = "l.a = r.a AND l.b < r.b AND abs(l.c - r.c) <= 2"
    if tactic == "spo-join":
        on = "l.a < r.a AND l.b < r.b"
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    join = ts.StreamJoin(
        on, window=ts.CountWindow(1000), tactic=tactic, schemas=(schema, schema), how="full"
    )
    text = join.explain()
    assert len(text.splitlines()) <= LINES
    assert "1,000 rows" in text
    assert "considered" not in text
    assert len(join.explain(verbose=True).splitlines()) > LINES
    assert join.explain().as_dict() == join.explain(verbose=True).as_dict()


def test_it_says_that_memory_grows_without_a_window() -> None:
    schema = pa.schema([("x", pa.int64())])
    join = ts.StreamJoin("l.x < r.x", window=ts.Unbounded(), schemas=(schema, schema))
    assert "bytes per left row" in join.explain()
    assert "rows never leave, so this grows" in join.explain()


def test_it_says_what_is_slow() -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9000))
    rows = pa.table({"x": list(range(4000))})
    for _ in range(2):
        join.push(left=rows, right=rows)
    assert "slow: a row meets" in join.explain()


def test_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    Explanation.of({"a": 1}).show()
    assert capsys.readouterr().out == f"a: 1\n{MORE}\n"
