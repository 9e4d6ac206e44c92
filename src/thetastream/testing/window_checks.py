"""The battery for windows that are neither counts nor spans of time: sessions, and none at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from thetastream.testing.join_checks import Trial, check, same
from thetastream.testing.streams import Scenario, recut, session_scenarios, unbounded_scenarios

__all__: list[str] = []


@check
def sessions(trial: Trial) -> None:
    """Any predicate and mode over sessions, keyed or not, late rows and NULLs included."""

    @trial.forall(120, session_scenarios(self_join=None))
    def exact(scenario: Scenario) -> None:
        trial.agrees(scenario, check=True)


@check
def collected_sessions(trial: Trial) -> None:
    """Rows of sessions may be collected; the answer over the whole stream stays the same."""

    @trial.forall(40, session_scenarios(self_join=None), st.integers(1, 5))
    def exact(scenario: Scenario, collect: int) -> None:
        trial.agrees(scenario, check=True, collect=collect)


@check
def sessions_cut_anew(trial: Trial) -> None:
    """Any cutting of the same arrivals into pushes returns the same sessions."""

    @trial.forall(50, st.data())
    def invariant(data: Any) -> None:
        scenario = data.draw(session_scenarios(self_join=None, punctual=True))
        first, second = trial.engine(scenario), trial.engine(data.draw(recut(scenario)))
        if first is not None and second is not None:
            same(scenario, second.pairs, first.pairs)


@check
def without_a_window(trial: Trial) -> None:
    """Any predicate and mode when rows never leave."""

    @trial.forall(60, unbounded_scenarios(self_join=None), st.sampled_from([None, 2, 4]))
    def exact(scenario: Scenario, collect: int | None) -> None:
        trial.agrees(scenario, check=True, collect=collect)
