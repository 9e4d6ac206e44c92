"""The pipeline without Spark against the oracle: any partitioning, restarts, retries, cuttings."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetastream.side import Side
from thetastream.testing import assert_same_pairs
from thetastream.testing.driver import run_oracle
from thetastream.testing.streams import Scenario, count_scenarios, time_scenarios
from thetastream.window import CountWindow

from ...scale import scaled
from ..partitioned import SCHEMES, SEEDS, WIDTHS, compare, planned, simulate, with_ranks
from ..simulate import numbered, spec_of, whole

COUNT = 200


@settings(max_examples=scaled(COUNT))
@given(time_scenarios(self_join=None), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_time_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    spec = planned(scenario, partitions, scheme, width)
    root = tmp_path_factory.mktemp("runs")
    simulation = simulate(scenario, spec, seed, root)
    truth = run_oracle(scenario)
    compare(scenario, simulation, truth)
    assert simulation.late == truth.late


@settings(max_examples=scaled(COUNT))
@given(count_scenarios(self_join=None), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_count_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    scenario = with_ranks(scenario, seed)
    spec = planned(scenario, partitions, scheme, width)
    simulation = simulate(scenario, spec, seed, tmp_path_factory.mktemp("runs"))
    compare(scenario, simulation, run_oracle(scenario))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("term", ["l.b = r.b", "abs(l.a - r.a) <= 1"])
def test_rows_that_play_one_role_only(tmp_path: Path, term: str, side: str, how: str) -> None:
    """Of a self-join: they are at home where they can be met, and are unmatched nowhere else."""
    for seed in range(6):
        chance = random.Random(seed)
        table = pa.table(
            {
                "a": pa.array([chance.choice([None, 1, 2, 3, 50, 70]) for _ in range(8)]),
                "b": pa.array([chance.choice([None, "", "x"]) for _ in range(8)]),
                "c": pa.array([chance.choice([None, 0]) for _ in range(8)]),
            },
            pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())]),
        )
        on = f"{term} AND {side}.c IS NOT NULL"
        scenario = Scenario(((table, None),), on, CountWindow(4), how, self_join=True)
        scenario = with_ranks(scenario, seed)
        spec = spec_of(scenario, 2 + seed % 3)
        simulation = simulate(scenario, spec, seed, tmp_path / str(seed))
        compare(scenario, simulation, run_oracle(scenario))


BANDS = ["abs(l.a - r.a) <= 0.2 * l.a", "abs(l.a - r.a) <= 0.2 * abs(r.a)", "abs(l.a - r.a) <= 1"]
VALUES = [None, 0.0, -0.0, 1.0, 1.2, 0.8, -1.0, 50.0, 60.0, 1e308, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("equality", ["", "l.b = r.b AND "])
@pytest.mark.parametrize("band", BANDS)
def test_relative_bands_and_equalities_beside_bands(
    tmp_path: Path, band: str, equality: str, self_join: bool, how: str
) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        first, second = (
            pa.table(
                {
                    "a": pa.array([chance.choice(VALUES) for _ in range(12)], pa.float64()),
                    "b": pa.array([chance.choice([None, "", "x"]) for _ in range(12)], pa.string()),
                }
            )
            for _ in range(2)
        )
        pushes = ((first, None if self_join else second),)
        scenario = Scenario(pushes, equality + band, CountWindow(9), how, self_join=self_join)
        scenario = with_ranks(scenario, seed)
        spec = spec_of(scenario, 2 + seed % 3)
        assert spec.routing.name == "cells"
        simulation = simulate(scenario, spec, seed, tmp_path / str(seed))
        compare(scenario, simulation, run_oracle(scenario))


@settings(max_examples=scaled(COUNT))
@given(
    st.one_of(time_scenarios(self_join=None), count_scenarios(self_join=None)),
    st.integers(1, 5),
    SCHEMES,
)
def test_batch_mode(scenario: Scenario, partitions: int, scheme: str) -> None:
    if isinstance(scenario.window, CountWindow):
        scenario = with_ranks(scenario, partitions)
    spec = planned(scenario, partitions, scheme, None)
    once = scenario.with_pushes([(scenario.table(0), scenario.table(1))])
    truth = run_oracle(once)
    assert_same_pairs(whole(scenario, spec), truth.pairs, note=scenario)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_every_row_has_one_home(how: str) -> None:
    table = pa.table({"x": list(range(40)), "t": list(range(40))})
    from thetastream.window import TimeWindow

    window = TimeWindow(5, time="t")
    for on in ("l.x = r.x", "abs(l.x - r.x) <= 3", "l.x < r.x", "l.x - r.x BETWEEN 100 AND 102"):
        scenario = Scenario(((table, table),), on, window, how)
        spec = spec_of(scenario, 3)
        for side in Side:
            batch = numbered(scenario)[0][side.position].to_batches()[0]
            sent = spec.routing.route({side: spec.binding.keys(side, batch)})
            at_home = slice(None) if sent.copies is None else ~sent.copies
            homes = sorted(sent.rows[at_home].tolist())
            assert homes == list(range(40)), (on, side)
            assert len(set(zip(sent.rows, sent.targets, strict=True))) == sent.rows.size
