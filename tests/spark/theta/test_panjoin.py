"""``theta_join`` with tactic ``panjoin``: workers are the partitions of the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.spark import explain, theta_join
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import Scenario, scenarios
from thetastream.window import CountWindow, TimeWindow

from ...scale import scaled
from ..drive import (
    check_restart,
    closed,
    join_streams,
    join_tables,
    ranked,
    sources,
    stream,
    without_closing,
)
from ..partitioned import check_restored

TACTICS = ("panjoin", "panjoin/bi-sort")
BAND = "abs(l.x - r.x) <= 2"
TIME = TimeWindow(("9 s", "4 s"), time="t", lateness="2 s")
INTS = [(KINDS["int"], KINDS["int"])]


@settings(max_examples=scaled(60))
@given(
    scenarios(INTS, on="abs(l.a - r.a) <= 1", self_join=None, max_rows=14),
    st.integers(1, 3),
    st.integers(0, 2**32),
    st.sampled_from(["panjoin", *(f"panjoin/{name}" for name in ("bi-sort", "rap-table", "llat"))]),
)
def test_partitions_that_are_restored_and_repeated(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, seed: int, tactic: str
) -> None:
    check_restored(scenario, partitions, seed, ts.Tactic(tactic), tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("tactic", TACTICS)
def test_a_band_over_a_time_window(spark: Any, tmp_path: Path, tactic: str) -> None:
    scenario = Scenario(tuple(closed(stream(11, pushes=4))), BAND, TIME, "full")
    ran = join_streams(spark, tmp_path, scenario, tactic=tactic, partitions=3)
    truth = run_oracle(scenario)
    assert_same_pairs(ran.pairs, list(without_closing(scenario, truth.pairs)), note=scenario)
    assert ran.late == sum(truth.late.values()) > 0


def test_a_count_window(spark: Any, tmp_path: Path) -> None:
    window = CountWindow((9, 6), order="o", slide=3)
    scenario = Scenario(ranked(closed(stream(31, pushes=3))), BAND, window)
    ran = join_streams(spark, tmp_path, scenario, tactic="panjoin/bi-sort", partitions=2)
    expected = list(without_closing(scenario, run_oracle(scenario).pairs))
    assert expected
    assert_same_pairs(ran.pairs, expected, note=scenario)


@pytest.mark.parametrize("tactic", TACTICS)
def test_tables(spark: Any, tactic: str) -> None:
    left, right = stream(7, pushes=1, number=60)[0]
    scenario = Scenario(((left, right),), BAND, TimeWindow("6 s", time="t"), "left")
    truth = run_oracle(scenario)
    assert_same_pairs(join_tables(spark, scenario, tactic=tactic), truth.pairs, note=scenario)


def test_a_query_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(closed(stream(19, pushes=5))), BAND, TIME, "left")
    check_restart(spark, tmp_path, scenario, 3, tactic="panjoin", partitions=2)


def test_explain_names_the_tactic(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(stream(3, pushes=1)), BAND, TIME)
    left, right = sources(spark, tmp_path, scenario)
    text = explain(theta_join(left, right, BAND, TIME, tactic="panjoin/bi-sort"), verbose=True)
    assert "tactic: panjoin" in text
    assert "index: bi-sort" in text
