"""Aggregates over matches: the engine against the oracle, and everything that must not matter."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, OptionError, PredicateError, SchemaError
from thetastream.testing.aggregates import agree_on_aggregates, all_aggregates
from thetastream.testing.driver import make_join
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import (
    Scenario,
    count_scenarios,
    recut,
    scenarios,
    time_scenarios,
)

INNER = ("inner",)
INTS = [(KINDS["int"], KINDS["int"])]
FLOATS = [(KINDS["float"], KINDS["float"]), (KINDS["finite"], KINDS["finite"])]


# --- Against the oracle --------------------------------------------------------------------------


@given(count_scenarios(modes=INNER))
def test_count_windows(scenario: Scenario) -> None:
    agree_on_aggregates(scenario)


@given(time_scenarios(modes=INNER))
def test_time_windows(scenario: Scenario) -> None:
    agree_on_aggregates(scenario)


@given(scenarios(FLOATS, modes=INNER))
def test_special_floats(scenario: Scenario) -> None:
    agree_on_aggregates(scenario)


@pytest.mark.parametrize("tactic", [*ts.tactics(), "ordered/nested-loop", "ordered/b+tree"])
@given(scenario=scenarios(INTS, modes=INNER))
def test_every_tactic(tactic: str, scenario: Scenario) -> None:
    try:
        agree_on_aggregates(scenario, make_join(tactic))
    except PredicateError:
        if tactic == "auto":
            raise


@pytest.mark.parametrize("on", ["l.a = r.a", "l.a != r.a", "l.a < r.a", "abs(l.a - r.a) <= 1"])
@given(data=st.data())
def test_one_key_decides(on: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(INTS, on=on, modes=INNER, max_rows=30))
    agree_on_aggregates(scenario, batch_rows=data.draw(st.integers(1, 5)))


@pytest.mark.parametrize("options", [{"threads": 3}, {"batch_rows": 2}, {"lazy": True}])
@given(scenario=scenarios(modes=INNER))
def test_options(options: dict[str, Any], scenario: Scenario) -> None:
    agree_on_aggregates(scenario, **options)


@given(scenario=scenarios(modes=INNER), collect=st.integers(1, 8))
def test_collected_rows(scenario: Scenario, collect: int) -> None:
    agree_on_aggregates(scenario, collect=collect)


# --- Cutting -------------------------------------------------------------------------------------


@given(
    st.data(),
    st.one_of(count_scenarios(modes=INNER), time_scenarios(modes=INNER, punctual=True)),
)
def test_cutting_does_not_matter(data: st.DataObject, scenario: Scenario) -> None:
    agree_on_aggregates(scenario)
    agree_on_aggregates(data.draw(recut(scenario)), asked=all_aggregates(scenario))


# --- In particular -------------------------------------------------------------------------------

ASKED = {"n": "count", "avg": ("r.v", "mean"), "lo": ("r.v", "min"), "total": ("r.v", "sum")}


def rows(result: Any) -> list[dict[str, Any]]:
    return [row for batch in result for row in batch.to_pylist()]


def test_left_rows_do_not_see_right_rows_of_their_push() -> None:
    join = ts.StreamJoin("l.x <= r.x", window=ts.CountWindow(2), aggregate={"n": "count"})
    table = pa.table({"x": [1]})
    given_ = [rows(join.push(left=table, right=table))[0]["n"] for _ in range(4)]
    assert given_ == [0, 1, 2, 2]
    assert join.metrics().sides["left"].window_rows == 0


def test_time_windows_look_back_only() -> None:
    window = ts.TimeWindow(10, time="t", lateness=5)
    join = ts.StreamJoin("l.x = r.x", window=window, aggregate={"v": ("r.t", "max")})
    right = pa.table({"x": [1, 1, 1], "t": [3, 20, 12]})
    assert rows(join.push(left=pa.table({"x": [1, 1], "t": [12, 30]}), right=right)) == [
        {"x": 1, "t": 12, "v": 12}
    ]
    assert join.metrics().sides["left"].window_rows == 1
    assert rows(join.push(right=pa.table({"x": [1, 1], "t": [30, 14]}))) == []
    assert join.metrics().dropped == 1
    assert rows(join.flush()) == [{"x": 1, "t": 30, "v": 30}]


def test_an_answer_given_late_is_a_snapshot() -> None:
    on = "l.x < r.x AND l.x * r.x > 0"  # a residual: pairs are found while they are read
    join = ts.StreamJoin(on, window=ts.CountWindow(3), aggregate=ASKED)
    right = pa.table({"x": [1, 2, 3], "v": [1, 2, 3]})
    join.push(right=right)
    early = join.push(left=pa.table({"x": [1, 2]}))
    for _ in range(5):
        join.push(right=pa.table({"x": [9] * 1000, "v": [9] * 1000}))
    assert rows(early) == [
        {"x": 1, "n": 2, "avg": 2.5, "lo": 2, "total": 5},
        {"x": 2, "n": 1, "avg": 3.0, "lo": 3, "total": 3},
    ]


def test_columns_pick_and_order() -> None:
    join = ts.StreamJoin(
        "l.x <= r.x", window=ts.CountWindow(9), aggregate=ASKED, columns=["lo", "y", "n"]
    )
    join.push(right=pa.table({"x": [1, 5], "v": [2, None]}))
    (batch,) = join.push(left=pa.table({"x": [0, 9], "y": ["a", "b"]}))
    assert batch.schema.names == ["lo", "y", "n"]
    assert batch.to_pylist() == [{"lo": 2, "y": "a", "n": 2}, {"lo": None, "y": "b", "n": 0}]


def test_right_rows_that_never_come() -> None:
    for window in (ts.CountWindow(1), ts.TimeWindow(5, time="x")):
        join = ts.StreamJoin("l.x < r.x", window=window, aggregate=ASKED)
        assert rows(join.push(left=pa.table({"x": [1, 2]}))) == []
        assert join.metrics().sides["left"].waiting_rows == 2
        none = {"n": 0, "avg": None, "lo": None, "total": None}
        assert rows(join.flush()) == [{"x": 1, **none}, {"x": 2, **none}]


def test_known_columns_answer_at_once() -> None:
    schema = pa.schema([("x", pa.int64()), ("v", pa.float64())])
    join = ts.StreamJoin(
        "l.x < r.x", window=ts.CountWindow(1), aggregate=ASKED, schemas=(schema, schema)
    )
    (row,) = rows(join.push(left=pa.table({"x": [1], "v": [0.5]})))
    assert row == {"x": 1, "v": 0.5, "n": 0, "avg": None, "lo": None, "total": None}


def test_left_columns_of_any_type_are_given() -> None:
    left = pa.table(
        {
            "x": pa.array([1, None, 3]),
            "s": pa.array(["a", None, "b"]).dictionary_encode(),
            "l": pa.array([[1], [], None], pa.list_(pa.int8())),
        }
    ).append_column("t", pa.array([1, 2, None]))
    right = pa.table({"x": [0, 1, 2], "t": [1, 1, 2], "v": [1, 2, 3]})
    for window in (ts.CountWindow(9), ts.TimeWindow(5, time="t")):
        join = ts.StreamJoin("l.x >= r.x", window=window, aggregate={"n": "count"})
        join.push(right=right)
        found = [*rows(join.push(left=left)), *rows(join.flush())]
        assert sorted([{k: row[k] for k in left.column_names} for row in found], key=str) == sorted(
            left.to_pylist(), key=str
        )


def test_explain_says_when_pairs_are_made() -> None:
    schema = pa.schema([("x", pa.int64()), ("v", pa.float64()), ("o", pa.int64())])
    for on, window, said in (
        ("l.x < r.x AND l.x * r.x > 3", ts.CountWindow(9), "residuals are evaluated on pairs"),
        ("l.x < r.x", ts.CountWindow(9, order="o"), "own part of the window"),
        ("l.x < r.x", ts.TimeWindow(9, time="o"), "event time is compared"),
        ("l.x < r.x AND l.o < r.o", ts.CountWindow(9), "several key columns"),
        ("l.x < r.x", ts.CountWindow(9), "not made: the index folds"),
    ):
        join = ts.StreamJoin(on, window=window, aggregate=ASKED, schemas=(schema, schema))
        facts = join.explain().as_dict()
        assert said in facts["pairs"]
        assert facts["aggregates, one row per left row"]["avg"] == "mean(r.v)"
    assert "pairs" not in ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9)).explain().as_dict()


def test_many_rows_in_many_slices() -> None:
    """More boxes than one slice holds, and more waiting rows than ask at a time."""
    count = 100_000
    left = pa.table({"x": pa.array(range(count)), "t": pa.array([1] * count)})
    right = pa.table({"x": pa.array(range(0, count, 10)), "t": pa.array([0] * (count // 10))})
    for threads in (1, 2):
        for window in (ts.CountWindow(count), ts.TimeWindow(5, time="t")):
            join = ts.StreamJoin(
                "l.x - r.x BETWEEN 0 AND 9 OR l.x = r.x + 100",
                window=window,
                aggregate={"n": "count", "sum": ("r.x", "sum")},
                threads=threads,
            )
            join.push(right=right)
            batches = [*join.push(left=left), *join.flush()]
            table = pa.Table.from_batches(batches).sort_by("x")
            assert table.num_rows == count
            x = table["x"].to_numpy()
            n = 1 + ((x >= 100) & (x % 10 == 0))
            assert (table["n"].to_numpy() == n).all()
            assert (table["sum"].to_numpy() == x // 10 * 10 + (n - 1) * (x - 100)).all()


def test_right_rows_that_are_ahead_do_not_mislead_the_planner() -> None:
    """Left rows see none of the right rows that arrive with them, but many that are stored."""
    chance = np.random.default_rng(7)

    def table(time: int, count: int = 2000) -> pa.Table:
        return pa.table({"x": chance.integers(0, 10**6, count), "t": np.full(count, time)})

    join = ts.StreamJoin(
        "abs(l.x - r.x) <= 10", window=ts.TimeWindow(1000, time="t"), aggregate={"n": "count"}
    )
    for step in range(40):
        list(join.push(left=table(10 * step, 50), right=table(10 * step + 100)))
    (plan,) = join.explain().as_dict()["plan"]
    assert not plan["chosen"]["first column"].startswith("order of event time")


# --- Errors --------------------------------------------------------------------------------------

WINDOW = ts.CountWindow(9)
LEFT = pa.schema([("x", pa.int64()), ("v", pa.int64())])
RIGHT = pa.schema([("x", pa.int64()), ("s", pa.string()), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "left"}, "every left row returns one row, matched or not.*got how='left'"),
        ({"how": "semi"}, "how must be 'inner'"),
        ({"output": "count"}, "output must be 'rows'; got output='count'"),
        ({"self_join": True}, "aggregate= is for two streams"),
    ],
)
def test_joins_without_aggregates(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ts.StreamJoin("l.x < r.x", window=WINDOW, aggregate={"n": "count"}, **options)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "given by name"),
        ({"n": "counts"}, "Did you mean 'count'"),
        ({"n": ("l.v", "sum")}, "a column of the right side.*which is in every output row anyway"),
        ({"n": ("v", "sum")}, "written r.name.*got 'v'"),
        ({"n": ("r.w", "sum")}, "the right side has no column 'w'; it has x, s, v"),
        ({"n": ("r.s", "mean")}, "mean cannot be taken of column 's', which is string.*x, v"),
        ({"v": "count"}, "aggregate 'v' has the name of a column of the left side"),
    ],
)
def test_aggregates_that_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ts.StreamJoin("l.x < r.x", window=WINDOW, aggregate=asked, schemas=(LEFT, RIGHT))


def test_a_bad_column_is_refused_with_the_push_that_shows_it() -> None:
    join = ts.StreamJoin("l.x < r.x", window=WINDOW, aggregate={"n": ("r.w", "sum")})
    join.push(left=pa.table({"x": [1]}))
    with pytest.raises(SchemaError, match="the right side has no column 'w'"):
        join.push(right=pa.table({"x": [1]}))


def test_an_overflow_is_an_error_of_its_row() -> None:
    join = ts.StreamJoin("l.x <= r.x", window=WINDOW, aggregate={"total": ("r.v", "sum")})
    join.push(right=pa.table({"x": [1, 1], "v": [2**63 - 1, 2**63 - 1]}))
    bad, good = join.push(left=pa.table({"x": [1]})), join.push(left=pa.table({"x": [2]}))
    for _ in range(2):
        with pytest.raises(DataError, match="18446744073709551614, which does not fit a 64-bit"):
            rows(bad)
    assert rows(good) == [{"x": 2, "total": None}]


def test_a_decimal_of_too_many_digits_changes_nothing() -> None:
    join = ts.StreamJoin("l.x <= r.x", window=WINDOW, aggregate={"total": ("r.v", "sum")})
    kind = pa.decimal128(38, 0)
    join.push(right=pa.table({"x": [1], "v": pa.array([Decimal(7)], kind)}))
    join.push(left=pa.table({"x": [1]}))
    with pytest.raises(DataError, match="r.v: decimal"):
        join.push(right=pa.table({"x": [1], "v": pa.array([Decimal(10**20)], kind)}))
    assert rows(join.push(left=pa.table({"x": [1]}))) == [{"x": 1, "total": Decimal(7)}]
