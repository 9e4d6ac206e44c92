from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from thetastream.condition.predicate import Predicate
from thetastream.errors import DataError
from thetastream.side import Side
from thetastream.testing import (
    KINDS,
    MODES,
    PAIRINGS,
    Scenario,
    assert_same_pairs,
    count_scenarios,
    predicates,
    recut,
    run_oracle,
    scenarios,
    time_scenarios,
)
from thetastream.window import CountWindow, TimeWindow

INTS = {"a": (KINDS["int"], KINDS["int"]), "b": (KINDS["int"], KINDS["int"])}


def drawn(strategy: Any, count: int = 400) -> list[Any]:
    """Examples, always the same ones."""
    found: list[Any] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def test_every_kind_holds_its_values() -> None:
    for kind in KINDS.values():
        array = pa.array(kind.values, kind.type)
        assert array.null_count == 1
        assert len(kind.values) <= 13
    assert {kind for pair in PAIRINGS for kind in pair} == set(KINDS.values())


def test_predicates_of_every_shape_occur() -> None:
    texts = drawn(predicates(INTS))
    parsed = [Predicate.parse(text) for text in texts]
    assert {len(predicate.terms) for predicate in parsed} == {0, 1, 2, 3}
    assert any(predicate.residuals for predicate in parsed)
    assert any(predicate.filters(side) for predicate in parsed for side in Side)
    assert any(len(term.arms) > 2 for predicate in parsed for term in predicate.terms)
    assert any(term.is_equality for predicate in parsed for term in predicate.terms)
    words = ("BETWEEN", "!=", "abs", "NOT", " OR ", "%", "CASE", "IN (", "IS NULL", " < ", " > ")
    for word in words:
        assert any(word in text for text in texts), word


@given(scenarios(self_join=None))
def test_the_oracle_answers_every_scenario(scenario: Scenario) -> None:
    answer = run_oracle(scenario)
    assert len(set(answer.pairs)) == len(answer.pairs)
    assert repr(scenario).count("push ") == sum(t is not None for p in scenario.pushes for t in p)


def test_scenarios_of_every_shape_occur() -> None:
    found = drawn(scenarios(self_join=None))
    windows = [scenario.window for scenario in found]
    assert {scenario.how for scenario in found} == set(MODES)
    assert {scenario.self_join for scenario in found} == {True, False}
    assert {type(window) for window in windows} == {CountWindow, TimeWindow}
    assert {window.slide is None for window in windows} == {True, False}
    assert {window.sizes[0] == window.sizes[1] for window in windows} == {True, False}
    ranked = {window.order is None for window in windows if isinstance(window, CountWindow)}
    assert ranked == {True, False}
    tables = [table for scenario in found for push in scenario.pushes for table in push]
    assert any(table is None for table in tables)
    assert {0, 1, 2} <= {table.num_rows for table in tables if table is not None}
    tardy = drawn(time_scenarios(punctual=False), 200)
    assert sum(sum(run_oracle(scenario).late.values()) > 0 for scenario in tardy) >= 10
    nulls = [t["t"].null_count for t in tables if t is not None and "t" in t.schema.names]
    assert any(nulls)


@given(time_scenarios(self_join=None, punctual=True))
def test_punctual_scenarios_have_no_late_rows(scenario: Scenario) -> None:
    assert run_oracle(scenario).late == {"left": 0, "right": 0}


@given(st.data())
def test_a_recut_stream_has_the_same_answer(data: Any) -> None:
    scenario = data.draw(
        st.one_of(count_scenarios(self_join=None), time_scenarios(self_join=None, punctual=True))
    )
    other = data.draw(recut(scenario))
    assert_same_pairs(run_oracle(other).pairs, run_oracle(scenario).pairs, note=other)


@given(count_scenarios())
def test_ranks_never_fall(scenario: Scenario) -> None:
    try:
        run_oracle(scenario)
    except DataError as error:
        raise AssertionError("the strategy made ranks that fall") from error
