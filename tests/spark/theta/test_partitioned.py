"""The pipeline without Spark against the oracle: any partitioning, restarts, retries, cuttings."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thetastream.errors import OptionError, SchemaError
from thetastream.side import How, Side
from thetastream.testing import assert_same_pairs
from thetastream.testing.driver import run_oracle
from thetastream.testing.streams import Scenario, count_scenarios, time_scenarios
from thetastream.window import CountWindow

from ...scale import scaled
from ..simulate import Simulation, numbered, spec_of, tables_of, whole

COUNT = 200
SCHEMES = st.sampled_from(["auto", "auto", "cells", "matrix", "hash"])
WIDTHS = st.sampled_from([None, None, 1, 3])
SEEDS = st.integers(0, 2**32)


def planned(scenario: Scenario, partitions: int, scheme: str, width: Any) -> Any:
    """A spec, or None where the scheme does not fit the predicate."""
    for position in (0,) if scenario.self_join else (0, 1):
        assume(any(push[position] is not None for push in scenario.pushes))
    spec = spec_of(scenario, partitions, scheme, width)
    try:
        _ = spec.routing
    except (OptionError, SchemaError):
        assume(False)
    return spec


def simulate(scenario: Scenario, spec: Any, seed: int, root: Path) -> Simulation:
    if seed % 3 == 0:  # runs in files of a folder, not in the state store
        spec = replace(spec, state_path=str(root / "state"))
    simulation = Simulation(spec, random.Random(seed), root)
    for push in numbered(scenario):
        simulation.push(tables_of(push))
    return simulation


@settings(max_examples=scaled(COUNT))
@given(time_scenarios(self_join=None), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_time_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    spec = planned(scenario, partitions, scheme, width)
    root = tmp_path_factory.mktemp("runs")
    simulation = simulate(scenario, spec, seed, root)
    truth = run_oracle(scenario)
    _compare(scenario, simulation, truth)
    assert simulation.late == truth.late


@settings(max_examples=scaled(COUNT))
@given(count_scenarios(self_join=None), st.integers(1, 5), SCHEMES, WIDTHS, SEEDS)
def test_count_windows(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, scheme: str, width: Any, seed: int
) -> None:
    scenario = ranked(scenario, seed)
    spec = planned(scenario, partitions, scheme, width)
    simulation = simulate(scenario, spec, seed, tmp_path_factory.mktemp("runs"))
    _compare(scenario, simulation, run_oracle(scenario))


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
        scenario = ranked(scenario, seed)
        spec = spec_of(scenario, 2 + seed % 3)
        simulation = simulate(scenario, spec, seed, tmp_path / str(seed))
        _compare(scenario, simulation, run_oracle(scenario))


def ranked(scenario: Scenario, seed: int) -> Scenario:
    """With ranks that rise, distinct on a side: rows of one rank have no order that all can see."""
    window, chance = scenario.window, random.Random(seed)
    assert isinstance(window, CountWindow)
    pushes, last = [], [0, 0]
    for push in scenario.pushes:
        tables: list[Any] = []
        for position, table in enumerate(push):
            if table is not None:
                if "o" in table.column_names:
                    table = table.drop_columns(["o"])
                ranks = []
                for _ in range(table.num_rows):
                    last[position] += chance.randint(1, 3)
                    ranks.append(last[position])
                table = table.append_column("o", pa.array(ranks, pa.int64()))
            tables.append(table)
        pushes.append((tables[0], tables[1]))
    ordered = CountWindow(window.sizes, order="o", slide=window.slide)
    return replace(scenario, pushes=tuple(pushes), window=ordered)


def _compare(scenario: Scenario, simulation: Simulation, truth: Any) -> None:
    """A stream has no end here, so unmatched rows and waiting rows may be held back."""
    left, right = scenario.table(0), scenario.table(1)
    got = simulation.pairs
    how = How.of(scenario.how)
    if how is How.INNER and not simulation.spec.ranked:
        assert_same_pairs(got, truth.pairs, left=left, right=right, note=scenario)
        return
    assert len(got) == len(set(got)), "a row came twice"
    extra = set(got) - set(truth.pairs)
    assert not extra, (extra, scenario)
    if not simulation.spec.ranked:
        pairs = {p for p in truth.pairs if None not in p or how is How.SEMI}
        assert pairs <= set(got), (pairs - set(got), scenario)
    _finish(simulation)
    assert_same_pairs(simulation.pairs, truth.pairs, left=left, right=right, note=scenario)


def _finish(simulation: Simulation) -> None:
    """End the streams by hand: restore every partition once more and flush it."""
    from thetastream.spark.state.state import Meta, open_partition

    from ..simulate import _pairs

    for store in simulation.stores.values():
        assert store.meta is not None
        meta = Meta.of(store.meta, "test")
        held, _ = open_partition(store, simulation.spec, meta, "test", simulation.root)
        for batch in held.partition.finish():
            simulation.pairs += _pairs(batch)


@settings(max_examples=scaled(COUNT))
@given(
    st.one_of(time_scenarios(self_join=None), count_scenarios(self_join=None)),
    st.integers(1, 5),
    SCHEMES,
)
def test_batch_mode(scenario: Scenario, partitions: int, scheme: str) -> None:
    if isinstance(scenario.window, CountWindow):
        scenario = ranked(scenario, partitions)
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
