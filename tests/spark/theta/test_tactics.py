"""``theta_join`` with parameters: they reach every partition, and no answer depends on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import OptionError, RegistryError
from thetastream.spark import explain, theta_join
from thetastream.spark.theta.worker import pickled
from thetastream.testing import assert_same_pairs, parameters_of, run_oracle
from thetastream.testing.kinds import KINDS
from thetastream.testing.streams import Scenario, scenarios
from thetastream.window import TimeWindow

from ...scale import scaled
from ..drive import (
    closed,
    go_on,
    join_streams,
    pairs_of,
    read_sink,
    sources,
    stream,
    without_closing,
)
from ..partitioned import check_restored
from ..simulate import spec_of

TWO = "abs(l.x - r.x) <= 2 AND l.v < r.v"
TIME = TimeWindow(("9 s", "4 s"), time="t", lateness="2 s")
INTS = [(KINDS["int"], KINDS["int"])]
NAMES = ("pim-tree", "spo-join", "bi-sort", "rap-table", "sorted-runs")


@settings(max_examples=scaled(60))
@given(
    scenarios(INTS, on="abs(l.a - r.a) <= 1 AND l.b < r.b", columns=2, self_join=None, max_rows=14),
    st.integers(1, 3),
    st.integers(0, 2**32),
    st.sampled_from(NAMES).flatmap(
        lambda name: parameters_of(name).map(lambda drawn: ts.Tactic(name, **drawn))
    ),
)
def test_partitions_that_are_restored_and_repeated(
    tmp_path_factory: Any, scenario: Scenario, partitions: int, seed: int, tactic: ts.Tactic
) -> None:
    check_restored(scenario, partitions, seed, tactic, tmp_path_factory.mktemp("runs"))


def test_tactic_and_workers_are_no_part_of_the_fingerprint() -> None:
    scenario = Scenario(tuple(stream(3, pushes=1)), TWO, TIME)
    spec = spec_of(scenario, 2)
    for other in ("pim-tree(depth=1)", "panjoin"):
        changed = replace(spec, tactic=ts.Tactic(other), workers=1)
        assert changed.fingerprint == spec.fingerprint
        assert changed.query.tactic == ts.Tactic(other)
    dealt = replace(spec, tactic=ts.Tactic("panjoin"), workers=2)
    assert dealt.fingerprint == spec.fingerprint
    assert dealt.query.dealt_tactic == ts.Tactic("panjoin", workers=2)
    assert b"panjoin" in pickled(dealt)


def test_parameters_reach_a_stream(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(closed(stream(11, pushes=3))), TWO, TIME, "full")
    tactic = ts.Tactic("spo-join", background=True, elements=2)
    ran = join_streams(spark, tmp_path, scenario, tactic=tactic, workers=2, partitions=2)
    truth = run_oracle(scenario)
    assert_same_pairs(ran.pairs, list(without_closing(scenario, truth.pairs)), note=scenario)
    left, right = sources(spark, tmp_path / "again", scenario)
    found = explain(theta_join(left, right, TWO, TIME, tactic=str(tactic), workers=2)).as_dict()
    assert found["tactic asked for"] == "spo-join(background=true, elements=2)"
    for plan in found["plan"]:
        told = plan["chosen"]["parameters"]
        assert told == {"background": True, "elements": 2, "workers": 2}


def test_a_changed_tactic_goes_on_from_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    scenario = Scenario(tuple(closed(stream(19, pushes=4))), TWO, TIME, "left")
    tactics = ["pim-tree(depth=1)", "panjoin(subwindows=2)", "auto", "spo-join", "im-tree(slots=4)"]
    assert len(tactics) == len(scenario.pushes)
    for number, tactic in enumerate(tactics, start=1):
        go_on(spark, tmp_path, scenario, number, tactic=tactic, partitions=2)
    found = pairs_of(read_sink(spark, tmp_path))
    expected = list(without_closing(scenario, run_oracle(scenario).pairs))
    assert_same_pairs(found, expected, note=scenario)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tactic": "pimtree"}, RegistryError, "Did you mean 'pim-tree'"),
        ({"tactic": "pim-tree(dept=3)"}, RegistryError, "it has merge_ratio: float = 0.0625, dep"),
        ({"tactic": "pim-tree(depth=a)"}, RegistryError, "depth must be of type int"),
        ({"tactic": "pim-tree(depth=-9)"}, RegistryError, "depth must be at least -1; got -9"),
        ({"workers": 2}, OptionError, "workers=2 needs tactic='panjoin' or tactic='spo-join'"),
        ({"workers": 0}, OptionError, "workers must be a whole number of at least 1; got 0"),
        ({"collect": 100}, TypeError, "unexpected keyword argument 'collect'"),
    ],
)
def test_what_is_wrong_shows_before_anything_runs(
    spark: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    frame = spark.createDataFrame(pa.table({"x": [1], "v": [2], "t": [3]}))
    with pytest.raises(error, match=message):
        theta_join(frame, frame, "l.x < r.x", TimeWindow(5, time="t"), **options)
