"""Calibrating trees: from measured steps back to constants, and measuring itself, small."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from thetastream.calibration import trees as calibration
from thetastream.plan.cost import Cost, immutable_tree, mutable_tree, predict
from thetastream.prices.constants import CALIBRATED, Constants, Table

SIZES = (8, 10, 12, 14, 16, 18)
ROWS = [2.0**size for size in SIZES]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timings of small windows: what they find is of no use, but they are quick."""
    for name, value in {
        "QUICK": (5, 6, 7), "FULL": (5, 6), "_LONG": 64, "_SHORT": 64, "_TIMED": 64,
        "_REPEATS": 1, "_SCANNED": 5,
    }.items():  # fmt: skip
        monkeypatch.setattr(calibration, name, value)


def table(counts: list[float], least: float, most: float) -> Table:
    """Costs that are the same at first and then grow."""
    rise = [least, least, least, least + 0.1 * (most - least), 0.5 * (least + most), most]
    return tuple((round(math.log2(n), 2), cost) for n, cost in zip(counts, rise, strict=True))


def truth() -> Constants:
    leaves = [mutable_tree(rows, 32, 32).leaves for rows in ROWS]
    runs = [immutable_tree(rows, 32, 16).leaves for rows in ROWS]
    return Constants(
        search=table(leaves, 25.0, 300.0),
        insert=table(leaves, 70.0, 290.0),
        delete=table(leaves, 75.0, 350.0),
        immutable=table(runs, 20.0, 150.0),
        compare=table(ROWS, 4.0, 12.0),
        compare_run=table(ROWS, 3.0, 5.0),
        merge=table(ROWS, 2.0, 4.0),
        merge_young=table(ROWS, 15.0, 20.0),
        scan=0.25,
        window=50.0,
    )


def seen(known: Constants, size: int) -> calibration._Point:
    """What perfect measurements would be, if costs were as known."""
    rows, few = 2.0**size, calibration._FEW
    tree = predict("b+tree", rows, few, constants=known)
    merged, often = (
        predict("im-tree", rows, few, parameters={"merge_ratio": m}, constants=known)
        for m in (calibration._RATIO, calibration._SMALL)
    )
    more = [predict(name, rows, few + 1, constants=known).search for name in ("b+tree", "im-tree")]
    return calibration._Point(
        size,
        tree,
        merged,
        often.merge,
        more[0] - tree.search,
        more[1] - merged.search,
    )


def test_perfect_measurements_give_the_constants_back() -> None:
    known, base = truth(), calibration._Base(clock=20.0, start=25.0, window=50.0, scan=0.25)
    found = calibration._constants(base, [seen(known, size) for size in SIZES])
    assert found.source == CALIBRATED
    assert (found.scan, found.window) == (0.25, 50.0)
    for name, value in found.as_dict().items():
        if isinstance(value, tuple):
            expected = known.as_dict()[name]
            assert [size for size, _ in value] == [size for size, _ in expected]
            costs = [cost for _, cost in value]
            assert costs == pytest.approx([cost for _, cost in expected], rel=0.02), name


def test_timed_steps_are_scaled_to_the_whole() -> None:
    steps, factor = calibration._scaled(Cost(40.0, 20.0, 30.0, 10.0), 80.0)
    assert factor == pytest.approx(0.8)
    assert (steps.search, steps.delete, steps.insert, steps.merge) == pytest.approx((32, 16, 24, 8))
    assert calibration._scaled(Cost(1.0, 0.0, 1.0, 0.0), -5.0)[1] == 0.5


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([3, 2, 1], [2, 2, 2]),
        ([1, 5, 3, 4], [1, 4, 4, 4]),
        ([2, 1, 4, 3], [1.5, 1.5, 3.5, 3.5]),
        ([4, 4, 1], [3, 3, 3]),
        ([-3], [0]),
    ],
)
def test_costs_that_fall_are_averaged(costs: list[float], expected: list[float]) -> None:
    made = calibration._rising(list(enumerate(costs)))
    assert [cost for _, cost in made] == expected
    assert [size for size, _ in made] == list(range(len(costs)))


def test_every_constant_is_measured(small: None) -> None:
    told: list[str] = []
    made = calibration.measure((5, 6, 7), notice=told.append)
    assert told == [f"windows of 2^{size} rows" for size in (5, 6, 7)]
    assert made.source == CALIBRATED
    for name, value in made.as_dict().items():
        if name == "batches":
            continue
        if isinstance(value, tuple):
            assert len(value) == 3, name
            assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(value)), name
            assert all(0 <= cost < math.inf for _, cost in value), name
        else:
            assert 0 <= value < math.inf, name


def test_two_sizes_are_measured_however_long_it_takes(small: None) -> None:
    told: list[str] = []
    calibration.measure((5, 6, 7, 8), seconds=0.0, notice=told.append)
    assert told == ["windows of 2^5 rows", "windows of 2^6 rows"]
