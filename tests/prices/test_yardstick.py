"""The speed of this machine scales the default prices, and changes no choice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.prices import yardstick
from thetastream.prices.batches import Prices
from thetastream.prices.constants import TREES_ONLY, Constants, calibration_file

REAL = yardstick.factor


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is three times as slow."""
    monkeypatch.setattr(yardstick, "factor", lambda: 3.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No calibration in it yet."""
    monkeypatch.setenv("THETASTREAM_CACHE", str(tmp_path))
    return tmp_path


def test_a_machine_has_a_speed() -> None:
    assert 0.0 < yardstick.measured() < np.inf


@pytest.mark.parametrize(("seen", "factor"), [(0.5, 0.5), (0.0, 1 / 8), (1e9, 8.0)])
def test_the_factor_has_limits(seen: float, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yardstick, "measured", lambda: seen)
    REAL.cache_clear()  # type: ignore[attr-defined]
    try:
        assert REAL() == factor
    finally:
        REAL.cache_clear()  # type: ignore[attr-defined]


def test_all_defaults_are_scaled(three: None, folder: Path) -> None:
    loaded, usual = Constants.load(), Constants()
    assert loaded.source == "defaults, × 3.00 for this machine"
    assert loaded.window == 3 * usual.window
    assert loaded.search == tuple((size, 3 * cost) for size, cost in usual.search)
    assert loaded.batches == Prices(
        **{name: 3 * price for name, price in usual.batches.as_dict().items()}
    )


def test_a_calibration_is_not_scaled(three: None, folder: Path) -> None:
    Constants(window=5.0).save()
    assert Constants.load().as_dict() == Constants(window=5.0).as_dict()


def test_prices_that_an_old_calibration_lacks_are_scaled(three: None, folder: Path) -> None:
    usual = Constants().as_dict()
    trees = {name: value for name, value in usual.items() if name != "batches"}
    calibration_file().write_text(json.dumps({"format": 1, "constants": trees}))
    loaded = Constants.load()
    assert loaded.source == TREES_ONLY
    assert loaded.window == usual["window"]
    assert loaded.batches.search == 3 * Prices().search


@pytest.mark.parametrize(
    "on", ["abs(l.x - r.x) <= 9", "l.x < r.x AND l.y > r.y", "l.x = r.x AND abs(l.y - r.y) <= 9"]
)
def test_a_slow_machine_chooses_alike(
    on: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    rows = pa.record_batch({name: rng.integers(0, 4096, 2048) for name in "xy"})
    plans = []
    for slow in (1.0, 3.0):
        monkeypatch.setattr(yardstick, "factor", lambda slow=slow: slow)
        join = ts.StreamJoin(on, window=ts.CountWindow(4096))
        list(join.push(left=rows, right=rows))
        plans.append(join.explain().as_dict()["plan"])
    for one, other in zip(*plans, strict=True):
        whole, third = other["chosen"], one["chosen"]
        assert (whole["index"], whole["first column"]) == (third["index"], third["first column"])
        assert whole["estimated ns per row"] == pytest.approx(
            3 * third["estimated ns per row"], rel=0.01
        )
        names = [[each["index"] for each in plan["considered"]] for plan in (one, other)]
        assert names[0] == names[1]
