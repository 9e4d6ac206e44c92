"""Aggregates over matches: the engine's against the oracle's, over any scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

import thetastream as ts
from thetastream.aggregate import Summary
from thetastream.errors import PredicateError
from thetastream.schema import kind_of
from thetastream.testing.driver import ROW, JoinFactory, numbered
from thetastream.testing.join_checks import Trial, check
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import Scenario, count_scenarios, scenarios
from thetastream.truth import aggregate_oracle, oracle

Rows = dict[int, Mapping[str, Any]]


def all_aggregates(scenario: Scenario) -> dict[str, Any]:
    """Every function of every column of the right side, except sums that may overflow."""
    asked: dict[str, Any] = {"n": "count"}
    right = scenario.table(1)
    for name in [] if right is None else "abc":
        if name in right.column_names:
            kind = kind_of(right.schema.field(name).type)
            for function in Summary:
                if function.takes(kind) and not _may_overflow(function, right[name]):
                    asked[f"{function.value} {name}"] = (f"r.{name}", function.value)
    return asked


def _may_overflow(function: Summary, column: Any) -> bool:
    if function is not Summary.SUM or not pa.types.is_integer(column.type):
        return False
    return any(value is not None and abs(value) >= 2**62 for value in column.to_pylist())


def run_aggregates(
    scenario: Scenario,
    asked: Mapping[str, Any],
    make: JoinFactory | None = None,
    *,
    lazy: bool = False,
    **options: Any,
) -> tuple[Rows, Any]:
    """Run the engine; return its rows by the number of each left row, and its metrics."""
    join = (make or ts.StreamJoin)(scenario.on, window=scenario.window, aggregate=asked, **options)
    answers: list[Iterator[Any]] = []
    for left, right in numbered(scenario):
        answer = join.push(left=left, right=right)
        answers.append(answer if lazy else iter(list(answer)))
        join.check()
    answers.append(join.flush())
    rows: Rows = {}
    for answer in answers:
        for batch in answer:
            for row in oracle.read(batch, [ROW, *asked]):
                number = row[ROW]
                assert number not in rows, f"left row {number} was returned twice\n{scenario}"
                rows[number] = {name: row[name] for name in asked}
    return rows, join.metrics()


def agree_on_aggregates(
    scenario: Scenario,
    make: JoinFactory | None = None,
    asked: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Assert that the engine returns what the oracle returns."""
    asked = all_aggregates(scenario) if asked is None else asked
    rows, metrics = run_aggregates(scenario, asked, make, **options)
    truth = aggregate_oracle.aggregate(scenario.pushes, scenario.on, scenario.window, asked)
    assert rows.keys() == truth.keys(), (sorted(rows), sorted(truth), scenario)
    for number, row in truth.items():
        for name, value in row.items():
            actual = rows[number][name]
            assert alike(actual, value), (number, name, actual, value, scenario)
    if scenario.table(1) is not None and "n" in asked and asked["n"] == "count":
        assert metrics.matches == sum(row["n"] for row in truth.values()), scenario


def alike(a: Any, b: Any) -> bool:
    """Equal, floats up to the last digits of a sum, NaN equal to itself."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)
    return type(a) is type(b) and bool(a == b)


# --- In the battery -----------------------------------------------------------------------------


@check
def aggregates_of_matches(trial: Trial) -> None:
    """Aggregates over the matches of any predicate, as the oracle says."""

    @trial.forall(40, scenarios(modes=("inner",)))
    def exact(scenario: Scenario) -> None:
        _agree(trial, scenario)


@check
def aggregates_where_one_key_decides(trial: Trial) -> None:
    """A band over a count window of many rows and few keys, which structures fold themselves."""
    numbers = [(KINDS[name], KINDS[name]) for name in ("int", "finite")]

    @trial.forall(
        40, count_scenarios(numbers, on="abs(l.a - r.a) <= 1", modes=("inner",), max_rows=30)
    )
    def exact(scenario: Scenario) -> None:
        _agree(trial, scenario)


def _agree(trial: Trial, scenario: Scenario) -> None:
    try:
        agree_on_aggregates(scenario, trial.make)
    except PredicateError:
        if not trial.may_refuse:
            raise
