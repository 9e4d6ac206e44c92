"""What the Spark benchmark measures, and how contestants are named and chosen."""

from __future__ import annotations

import pytest

from thetabench.spark import plan
from thetabench.spark.goals import scores
from thetabench.spark.lines import COLUMNS
from thetabench.spark.plan import HOME, QUICK, measurements
from thetastream.errors import RegistryError

TACTIC = "theta_join:tactic=ordered"


def test_the_full_plan_is_the_workload_that_was_asked_for() -> None:
    found = measurements(plan.FULL)
    home = [one for one in found if one.part == "join"]
    for name in (HOME, plan.FILES):
        own = [one for one in home if one.contestant == name]
        assert [(one.window, one.batch, one.timed * one.batch) for one in own] == [
            (500_000, 500_000, 5_000_000),
            (500_000, 2_500_000, 5_000_000),
        ]
    assert all(one.untimed == 2 and one.fill for one in home)
    assert {one.part for one in found} == set(plan.PARTS)
    skipped = [one for one in found if one.skipped]
    assert [(one.contestant, one.batch) for one in skipped] == [("bucketed-rocksdb", 2_500_000)]
    restart = next(one for one in found if one.part == "restart")
    assert (restart.untimed - 2) * restart.batch >= 2 * restart.window, "the window is full"


def test_two_inequalities_in_micro_batches_of_a_hundred_thousand_rows() -> None:
    found = [one for one in measurements(plan.FULL) if one.part == "w2"]
    assert [(one.contestant, one.window, one.batch, one.timed) for one in found[:3]] == [
        (HOME, 50_000, 100_000, 10),
        (plan.REJOIN, 50_000, 100_000, 2),
        (plan.BLOCKS, 50_000, 100_000, 10),
    ]
    assert {one.batch for one in found[3:]} == {50_000}
    assert found[0].untimed == found[2].untimed > 2, "both are as warm"


def test_parts_can_be_chosen_and_ratios_bring_the_join_along() -> None:
    assert {one.part for one in measurements(QUICK, ["empty"])} == {"join", "empty"}
    assert {one.part for one in measurements(QUICK, ["w2"])} == {"w2"}
    with pytest.raises(RegistryError, match="Did you mean 'restart'"):
        measurements(QUICK, ["restrat"])
    small = plan.FULL.with_rows(1000)
    assert all(one.timed <= 2 for one in measurements(small) if one.part != "restart")


def test_contestants_can_be_chosen_with_a_tactic() -> None:
    from thetabench.spark.pipelines import _read

    chosen = measurements(QUICK, ["w2"], ["foreachBatch", TACTIC])
    assert [one.contestant for one in chosen] == 2 * [TACTIC, "foreachBatch"]
    with pytest.raises(RegistryError, match="Did you mean 'theta_join'"):
        measurements(QUICK, ["w2"], ["theta-join:tactic=ordered"])
    assert _read("theta_join-files:tactic=ordered/zoned-runs") == (
        "theta_join-files",
        {"tactic": "ordered/zoned-runs"},
    )
    assert _read("foreachBatch-blocks") == ("foreachBatch-blocks", {})
    for wrong in ("foreachBatch:tactic=ordered", "theta_join:tactics=ordered", "theta_join:auto"):
        with pytest.raises(RegistryError, match="theta_join:tactic=ordered; got"):
            _read(wrong)


def test_a_join_with_a_tactic_is_scored_like_the_join() -> None:
    results = [
        COLUMNS.line(figure="w2", contestant=name, batch=100, tuples_per_s=speed)
        for name, speed in ((TACTIC, 60.0), (plan.REJOIN, 2.0), (plan.BLOCKS, 15.0))
    ]
    plain, blocks = scores(results)
    assert (plain.value, plain.must, plain.aim, plain.verdict) == (30.0, 20, 50, "reached")
    assert (blocks.value, blocks.verdict) == (4.0, "reported")
