"""Calibrating batches: from bills and costs back to prices, and measuring itself, small."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thetastream.calibration import batches, measure, trees
from thetastream.calibration.batches import Timed, fitted
from thetastream.prices.batches import Prices
from thetastream.prices.constants import CALIBRATED, Constants, calibration_file

ALONE = [{name: 1.0} for name in Prices().as_dict()]


def timed(bills: list[dict[str, float]], truth: Prices) -> list[Timed]:
    return [Timed(bill, truth.of(bill)) for bill in bills]


def test_a_machine_like_the_one_of_the_defaults_keeps_them() -> None:
    assert fitted(timed(ALONE, Prices())) == Prices()


@pytest.mark.parametrize("slower", [0.25, 1.0, 3.0])
def test_a_slower_machine_is_slower_in_everything(slower: float) -> None:
    truth = Prices(**{name: slower * price for name, price in Prices().as_dict().items()})
    seen = {"push": 0.001, "search": 2.0, "merge": 9.0}
    found = fitted(timed([seen], truth)).as_dict()
    for name, price in truth.as_dict().items():  # also those that were in no bill
        assert found[name] == pytest.approx(price, rel=0.01)


def test_a_step_that_costs_more_than_others_is_found() -> None:
    """Among joins that share all other steps."""
    truth = replace(Prices(), merge=16.0, match=0.4)
    rng = np.random.default_rng(1)
    names = ("search", "miss", "merge", "match", "check")
    bills = [{name: float(rng.integers(0, 40)) for name in names} for _ in range(60)]
    found = fitted(timed(bills, truth))
    assert found.merge == pytest.approx(truth.merge, rel=0.15)
    assert found.match < 0.8
    assert found.search == pytest.approx(truth.search, rel=0.15)
    errors = [abs(math.log(found.of(each.bill) / each.nanoseconds)) for each in timed(bills, truth)]
    assert max(errors) < 0.1


def test_no_price_falls_to_nothing() -> None:
    """Costs that make no sense leave all prices within sight of the others."""
    odd = [Timed({"search": 1.0}, 28.0), Timed({"search": 1.0, "merge": 100.0}, 28.0)]
    found = fitted(odd)
    assert all(price > 0 for price in found.as_dict().values())
    assert found.merge < Prices().merge


def test_prices_that_auto_goes_by_are_on_a_bill() -> None:
    """So that none is guessed. Those of the rule of subwindows follow the machine as a whole."""
    seen: set[str] = set()
    for trial in batches._TRIALS:
        for window, batch in ((11, 4), (11, 11)):
            join = batches._Join(
                trial.condition(1 << window),
                window=batches.CountWindow(1 << window),
                tactic=trial.tactic,
            )
            rng = np.random.default_rng(1)
            for _ in range(3):
                batches._push(join, rng, 1 << window, 1 << 9)
            for side in batches.Side:
                seen |= {step for step, count in join.bill(side, 1 << batch).items() if count}
    larger = {"miss", "far", "ranks_apart", "bit", "word"}  # only in windows that are too slow here
    rule = {"subwindow_far", "leaf_far", "view", "view_tree", "cut"}
    assert set(Prices().as_dict()) - seen <= larger | rule


def test_measuring_gives_prices_that_can_be_used() -> None:
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "ROWS", 64)
        patch.setattr(batches, "FILLING", 64)
        found = batches.measure(((6, 5),), notice=told.append)
    assert told == ["windows of 2^6 rows, pushes of 2^5"]
    assert all(0 < price < math.inf for price in found.as_dict().values())


@pytest.mark.parametrize("quick", [True, False])
def test_a_calibration_is_stored_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    truth, prices = Constants(window=5.0), Prices(search=7.0)
    monkeypatch.setattr(trees, "measure", lambda *_, **__: replace(truth, source=CALIBRATED))
    monkeypatch.setattr(batches, "measure", lambda *_, **__: prices)
    made, path = measure.calibrate(quick=quick)
    assert path == calibration_file()
    assert (made.window, made.batches.search) == (5.0, 7.0)
    assert Constants.load() == made
