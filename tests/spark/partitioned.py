"""Scenarios through the pipeline without Spark: any partitioning, compared with the oracle."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

from thetastream.errors import OptionError, SchemaError
from thetastream.plan.tactic import Tactic
from thetastream.side import How
from thetastream.spark.state.opening import open_partition
from thetastream.spark.state.record import Meta
from thetastream.testing import assert_same_pairs
from thetastream.testing.driver import run_oracle
from thetastream.testing.streams import Scenario
from thetastream.window import CountWindow

from .simulate import Simulation, numbered, pairs_of, spec_of, tables_of

SCHEMES = st.sampled_from(["auto", "auto", "cells", "matrix", "hash"])
WIDTHS = st.sampled_from([None, None, 1, 3])
SEEDS = st.integers(0, 2**32)


def planned(scenario: Scenario, partitions: int, scheme: str, width: Any) -> Any:
    """A spec; examples whose scheme does not fit the predicate are passed over."""
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
        alone = spec.how in (How.INNER, How.SEMI) and seed % 2 == 0
        spec = replace(spec, state_path=str(root / "state"), in_files=alone)
    simulation = Simulation(spec, random.Random(seed), root)
    for push in numbered(scenario):
        simulation.push(tables_of(push))
    return simulation


def check_restored(
    scenario: Scenario, partitions: int, seed: int, tactic: Tactic, folder: Path
) -> None:
    """Steps run again, engines rebuilt from what was saved: the answer is that of the oracle."""
    if isinstance(scenario.window, CountWindow):
        scenario = with_ranks(scenario, seed)
    spec = replace(planned(scenario, partitions, "auto", None), tactic=tactic)
    compare(scenario, simulate(scenario, spec, seed, folder), run_oracle(scenario))


def with_ranks(scenario: Scenario, seed: int) -> Scenario:
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


def compare(scenario: Scenario, simulation: Simulation, truth: Any) -> None:
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
    for batch in finished(simulation):
        simulation.pairs += pairs_of(batch)
    assert_same_pairs(simulation.pairs, truth.pairs, left=left, right=right, note=scenario)


def finished(simulation: Simulation) -> Any:
    """End the streams by hand: restore every partition once more and flush it."""
    for key in simulation.spec.keys:
        store = simulation.store(key)
        record = store.read_meta()
        assert record is not None
        meta = Meta.of(record, "here")
        root = simulation.root / "lost"
        held, _ = open_partition(store, simulation.spec, meta, str(key), root)
        yield from held.partition.finish()
