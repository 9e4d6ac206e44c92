"""What explain says of a condition before it runs."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, PredicateError

NUMBERS = pa.schema([("x", pa.float64()), ("w", pa.float64()), ("s", pa.string())])


@pytest.mark.parametrize(
    ("on", "advice"),
    [
        ("abs(l.x - r.x) / l.x <= 0.01", "compare with a product"),
        ("l.x = r.x OR l.w = r.w", "join once per part"),
        ("l.x * r.x > 5", "add a comparison"),
        ("l.s NOT LIKE r.s", "add a comparison"),
        ("abs(l.x - r.x) <= l.w + r.w", "add a comparison"),
    ],
)
def test_nested_loops_and_how_to_avoid_them(on: str, advice: str) -> None:
    for schemas in ((), (NUMBERS, NUMBERS)):
        facts = ts.explain(on, *schemas).as_dict()
        assert facts["candidates"].startswith("a nested loop")
        ((part, said),) = facts["checked on candidates"].items()
        assert part == str(ts.Predicate.parse(on))
        assert advice in said


@pytest.mark.parametrize(
    ("on", "how"),
    [
        ("abs(l.x - r.x) <= l.w", "an interval around l.x, as wide as l.w to either side"),
        ("r.w / 2 > abs(l.x - r.x)", "an interval around r.x, as wide as r.w / 2 to either side"),
        ("l.s LIKE r.s", "the text in front of wildcards"),
    ],
)
def test_what_is_found_by_what_it_implies(on: str, how: str) -> None:
    for schemas in ((), (NUMBERS, NUMBERS)):
        facts = ts.explain(on, *schemas).as_dict()
        assert facts["candidates"] == "an index finds them"
        (said,) = facts["checked on candidates"].values()
        assert said == f"found by {how}, and compared here"


def test_a_type_without_such_an_interval_is_a_nested_loop() -> None:
    wide = pa.schema([("x", pa.decimal128(30, 2)), ("w", pa.float64())])
    facts = ts.explain("abs(l.x - r.x) <= l.w", wide, wide).as_dict()
    assert facts["candidates"].startswith("a nested loop")
    assert "write r.x BETWEEN" in facts["checked on candidates"]["ABS(l.x - r.x) <= l.w"]


def test_parts() -> None:
    on = "abs(l.x - r.x) <= 1 AND l.s = r.s AND l.w > 0 AND l.x * r.w > 2"
    facts = ts.explain(on, NUMBERS, pa.table({"x": [1.0], "w": [1.0], "s": ["a"]})).as_dict()
    assert facts["candidates"] == "an index finds them"
    assert facts["indexed"] == ["l.x - r.x >= -1 AND l.x - r.x <= 1", "l.s = r.s"]
    assert "hash" in facts["checked on candidates"]["l.s = r.s"]
    assert "add a comparison" in facts["checked on candidates"]["l.x * r.w > 2"]
    assert facts["checked on single rows"] == ["l.w > 0"]
    join = ts.StreamJoin(on, window=ts.CountWindow(5), schemas=(NUMBERS, NUMBERS))
    assert join.explain().as_dict()["parts"] == facts


def test_bad_input() -> None:
    with pytest.raises(PredicateError, match="no column 'y'"):
        ts.explain("l.y = r.x", NUMBERS, NUMBERS)
    with pytest.raises(OptionError, match="both sides, or none"):
        ts.explain("l.x = r.x", NUMBERS)
    with pytest.raises(OptionError, match="got dict"):
        ts.explain("l.x = r.x", {}, {})  # type: ignore[arg-type]
