"""What is refused, and what explain says, where other things than rows are given."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, PredicateError, StateError
from thetastream.output_mode import Output
from thetastream.tuplewise.parallel import ParallelJoin

# --- Errors --------------------------------------------------------------------------------------


def test_names() -> None:
    for output in Output:
        assert Output.of(output) is Output.of(output.value) is Output.of(output.value.upper())


@pytest.mark.parametrize("output", ["count", "ranges"])
@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_only_inner_joins_are_counted(output: str, how: str) -> None:
    with pytest.raises(OptionError, match=f"output='{output}' is for inner joins; got how='{how}'"):
        ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), how=how, output=output)


@pytest.mark.parametrize("output", ["pairs", "count", "ranges"])
def test_columns_need_rows(output: str) -> None:
    with pytest.raises(OptionError, match="columns= selects columns of the rows"):
        ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), columns=["x"], output=output)


@pytest.mark.parametrize(
    ("on", "options", "message"),
    [
        ("l.x < r.x", {"window": ts.TimeWindow(5, time="t")}, "a time window is a condition"),
        ("l.x < r.x", {"window": ts.CountWindow(5, order="t")}, "with ranks every row"),
        ("l.x < r.x", {"self_join": True}, "in a self-join a row meets only those before it"),
        ("l.x < r.x", {"collect": 8}, "when rows are collected"),
        ("l.x < r.x", {"tactic": "nested-loop"}, "tactic='nested-loop' does not keep"),
        ("l.x = r.x", {"tactic": "hash"}, "sorted arrays.*'ordered/sorted-runs'"),
        ("l.x = r.x", {"tactic": "ibwj"}, "sorted arrays.*'ordered/sorted-runs'"),
        ("l.x < r.x", {"tactic": "ordered/b+tree"}, "tactic='ordered/b.tree' does not keep"),
    ],
)
def test_ranges_that_would_not_be_exact(on: str, options: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"window": ts.CountWindow(9), **options}
    with pytest.raises(OptionError, match=message) as error:
        ts.StreamJoin(on, output="ranges", **asked)
    assert "output='count' or output='pairs'" in str(error.value)


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("l.x * r.x > 3", "decided by the order of one key"),
        ("l.x < r.x AND l.x * r.x > 3", "decided by the order of one key"),
        ("l.s < r.s", "decided by the order of one key"),
        ("l.x < r.x AND l.y < r.y", "of the left side this one compares 2: l.x, l.y"),
        ("l.x < r.x AND l.x > r.y", "of the right side this one compares 2: r.x, r.y"),
    ],
)
def test_predicates_without_ranges(on: str, message: str) -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("s", pa.string())])
    with pytest.raises(PredicateError, match=message) as error:
        ts.StreamJoin(on, window=ts.CountWindow(9), output="ranges", schemas=(schema, schema))
    assert "output='count' or output='pairs'" in str(error.value)


@pytest.mark.parametrize("output", ["rows", "pairs", "count"])
def test_only_ranges_can_be_materialised(output: str) -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), output=output)
    result = join.push(left=pa.table({"x": [1]}), right=pa.table({"x": [2]}))
    for call in (lambda: result.pairs(), lambda: result.stored(0)):
        with pytest.raises(StateError, match=f"output='ranges'; this one has output='{output}'"):
            call()


@pytest.mark.parametrize("output", ["count", "ranges"])
def test_the_parallel_join_refuses_what_it_cannot_give(output: str) -> None:
    with pytest.raises(OptionError, match=f"no output='{output}'.*StreamJoin"):
        ParallelJoin("l.x < r.x", window=ts.CountWindow(9), output=output)


def test_explain_says_what_is_given() -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), output="count")
    assert join.explain().as_dict()["output"] == "count"
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9))
    assert "output" not in join.explain().as_dict()
