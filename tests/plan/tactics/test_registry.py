"""A new tactic is a module and a line in the registry: this test adds one, and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import thetastream as ts
from thetastream.cli.app import app
from thetastream.errors import PredicateError
from thetastream.plan.choice import choose
from thetastream.plan.estimate import Estimate, Traffic
from thetastream.plan.layout import Layout, Ordered
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics import registry
from thetastream.plan.tactics.family import Family, Options
from thetastream.side import Side
from thetastream.testing import assert_same_pairs, make_join, run_engine, run_oracle
from thetastream.testing.streams import Scenario

from ..test_layout import bound

BAND = "abs(l.x - r.x) <= 2"


class LastTerm(Ordered):
    tactic = "last-term"


class LastTermFamily(Family):
    """The last field drives; it costs nothing, so that ``auto`` takes it."""

    name: ClassVar[str] = "last-term"
    summary: ClassVar[str] = "the last term drives"
    needs: ClassVar[str] = "it has no last term"
    takes_structure: ClassVar[bool] = True

    def structures(self) -> Sequence[str]:
        return ("b-tree", "sorted-runs")

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        return [
            LastTerm(known.fields, known.fields[-1], index, options.of(index))
            for index in options.structures
            if known.fields
        ]

    def estimate(
        self, layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0
    ) -> Estimate:
        return Estimate(layout, 1.0, 1.0, 0.0)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "thetastream.plan.tactics.last_term", sys.modules[__name__])
    monkeypatch.setitem(registry._TACTICS, "last-term", "last_term:LastTermFamily")
    yield
    registry.family.cache_clear()


def test_it_is_listed_and_named() -> None:
    assert ts.tactics()[-1] == "last-term"
    listed = json.loads(CliRunner().invoke(app, ["index", "--json"]).stdout)["tactics"][-1]
    assert listed == {
        "name": "last-term",
        "summary": "the last term drives",
        "structures": ["b-tree", "sorted-runs"],
    }
    assert ts.Tactic("last-term", node_bytes=256).structures == ("b-tree",)
    assert ts.Tactic("last-term/pim-tree", depth=1).index == "pim-tree"


def test_auto_asks_it() -> None:
    best = choose(bound(f"{BAND} AND l.y < r.y"), Side.LEFT, "auto", 1e5)
    assert best.layout.tactic == "last-term"
    assert str(best.layout.driver) == "l.y < r.y"
    again = choose(bound(f"{BAND} AND l.y < r.y"), Side.LEFT, "auto", 1e5, current=best)
    assert again.layout is best.layout


def test_it_says_what_it_needs() -> None:
    with pytest.raises(PredicateError, match="'last-term' cannot serve .*it has no last term; use"):
        choose(bound("l.x * r.x = 4"), Side.LEFT, "last-term", 1e5)


@pytest.mark.parametrize("tactic", ["last-term", "last-term/pim-tree(depth=1)", "auto"])
def test_it_joins(tactic: str) -> None:
    table = pa.table({"x": [1, 5, 2, 9, 4], "y": [3, 1, 4, 1, 5]})
    scenario = Scenario(((table, table), (table, None)), f"{BAND} AND l.y < r.y", ts.CountWindow(4))
    truth = run_oracle(scenario)
    assert truth.pairs
    assert_same_pairs(run_engine(scenario, make_join(tactic)).pairs, truth.pairs)
