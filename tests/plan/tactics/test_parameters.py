"""Parameters at random: whatever a structure is told, answers are those of the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.index.registry import parameters
from thetastream.testing import (
    JOIN_CHECKS,
    JoinCheck,
    assert_same_pairs,
    drawable,
    make_join,
    parameters_of,
    run_engine,
    run_oracle,
    scenarios,
)
from thetastream.testing.kinds import KINDS

from ...scale import SHARE, scaled

NAMES = [name for name in ts.index.names() if parameters(name)]
INTS = [(KINDS["int"], KINDS["int"])]
ANY = st.one_of(
    scenarios(INTS, on=on, columns=2, self_join=None, max_rows=24)
    for on in (
        "l.a < r.a AND l.b > r.b",
        "abs(l.a - r.a) <= 3 AND l.b <= r.b",
        "l.a = r.a AND l.b <> r.b",
    )
)


def named(name: str) -> str:
    """A structure with the tactic that suits it."""
    return f"{ts.Tactic(name).family.name}/{name}"


def test_every_parameter_is_drawn() -> None:
    left_out = {(n, w) for n in NAMES for w in parameters(n) if w not in drawable(n)}
    assert left_out == {("bi-sort-opencl", "device")}, "a device is what the machine has"


@pytest.mark.parametrize("name", NAMES)
def test_drawn_parameters_are_accepted(name: str) -> None:
    @settings(max_examples=scaled(40))
    @given(parameters_of(name))
    def accepted(drawn: dict[str, Any]) -> None:
        asked = ts.Tactic(named(name), **drawn)
        asked.check()
        assert ts.Tactic(str(asked)) == asked

    accepted()


@pytest.mark.battery
@pytest.mark.parametrize("name", NAMES)
def test_answers_do_not_depend_on_parameters(name: str) -> None:
    @settings(max_examples=scaled(60))
    @given(parameters_of(name), ANY)
    def exact(drawn: dict[str, Any], scenario: Any) -> None:
        make = make_join(ts.Tactic(named(name), **drawn))
        outcome, truth = run_engine(scenario, make, check=True), run_oracle(scenario)
        assert_same_pairs(outcome.pairs, truth.pairs, note=scenario)
        assert outcome.late == truth.late

    exact()


@pytest.mark.slow
@pytest.mark.parametrize("check", JOIN_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", NAMES)
def test_the_battery(name: str, check: JoinCheck) -> None:
    @settings(max_examples=4, suppress_health_check=[HealthCheck.nested_given])
    @given(parameters_of(name))
    def passed(drawn: dict[str, Any]) -> None:
        check.run(make_join(ts.Tactic(named(name), **drawn)), SHARE / 4, may_refuse=True)

    passed()
