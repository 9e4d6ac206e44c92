"""Testing thetastream, and testing with it: strategies, assertions, and the battery of checks.

    from hypothesis import given
    from thetastream.testing import assert_same_pairs, run_engine, run_oracle, scenarios

    @given(scenarios())
    def test_my_join(scenario):
        assert_same_pairs(run_engine(scenario).pairs, run_oracle(scenario).pairs)

``kinds``, ``predicates``, ``streams`` and ``parameters`` are the strategies, ``driver`` runs engine
and oracle, ``assertions`` compares, ``index_checks``, ``join_checks``, ``window_checks`` and
``aggregates`` are the battery. The room imports the public names, the registries and the oracles.

``INDEX_CHECKS`` and ``JOIN_CHECKS`` run over everything that is registered; see docs/testing.md.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("hypothesis") is None:
    raise ImportError("thetastream.testing needs hypothesis: pip install thetastream[dev]")

from thetastream.testing.aggregates import agree_on_aggregates, all_aggregates
from thetastream.testing.assertions import assert_same_pairs
from thetastream.testing.driver import JoinFactory, Outcome, make_join, run_engine, run_oracle
from thetastream.testing.index_checks import INDEX_CHECKS, IndexCheck, IndexFactory, tiny
from thetastream.testing.join_checks import JOIN_CHECKS, JoinCheck
from thetastream.testing.kinds import KINDS, PAIRINGS, Kind
from thetastream.testing.parameters import drawable, parameters_of
from thetastream.testing.predicates import (
    conjunctions,
    conjuncts,
    filters,
    predicates,
    residuals,
    terms,
)
from thetastream.testing.streams import (
    MODES,
    Scenario,
    count_scenarios,
    keys,
    recut,
    scenarios,
    session_scenarios,
    time_scenarios,
    unbounded_scenarios,
)
from thetastream.testing.window_checks import __all__ as _registered  # noqa: F401

__all__ = [
    "INDEX_CHECKS",
    "JOIN_CHECKS",
    "KINDS",
    "MODES",
    "PAIRINGS",
    "IndexCheck",
    "IndexFactory",
    "JoinCheck",
    "JoinFactory",
    "Kind",
    "Outcome",
    "Scenario",
    "agree_on_aggregates",
    "all_aggregates",
    "assert_same_pairs",
    "conjunctions",
    "conjuncts",
    "count_scenarios",
    "drawable",
    "filters",
    "keys",
    "make_join",
    "parameters_of",
    "predicates",
    "recut",
    "residuals",
    "run_engine",
    "run_oracle",
    "scenarios",
    "session_scenarios",
    "terms",
    "time_scenarios",
    "tiny",
    "unbounded_scenarios",
]
