"""Match rates: wanted and counted agree, whichever way the parameter was found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from thetastream.datasets import (
    DISTRIBUTIONS,
    Shape,
    band_width,
    correlated,
    gaussian,
    gaussian_band_width,
    inequality_offset,
    measured_match_rate,
    uniform,
    uniform_band_width,
)
from thetastream.datasets.keys import KeyType
from thetastream.datasets.rates import Keys, pair_chance
from thetastream.errors import DataError

BAND, INEQUALITIES = Shape.BAND, Shape.INEQUALITIES


def nested_loop(
    shape: Shape, parameter: float, sides: Sequence[tuple[Keys, ...]], window: int
) -> float:
    """Count matches per row that arrives at a full window, pair by pair."""

    def matches(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
        if shape is BAND:
            return all(abs(a - b) <= parameter for a, b in zip(left, right, strict=True))
        return left[0] - parameter < right[0] and left[1] + parameter > right[1]

    streams = [list(zip(*(column.tolist() for column in side), strict=True)) for side in sides]
    found = rows = 0
    for i in range(window, len(streams[0])):
        if len(streams) == 1:
            stored = streams[0][i - window : i]
            found += sum(matches(streams[0][i], e) + matches(e, streams[0][i]) for e in stored)
            rows += 1
        else:
            left, right = streams
            found += sum(matches(left[i], e) for e in right[i - window : i])
            found += sum(matches(e, right[i]) for e in left[i + 1 - window : i + 1])
            rows += 2
    return found / rows


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("shape", Shape)
def test_counting_agrees_with_a_nested_loop(shape: Shape, sides: int) -> None:
    rng = np.random.default_rng(sides)
    keys = [(rng.integers(0, 9, 60), rng.integers(0, 9, 60)) for _ in range(sides)]
    for parameter in (-1, 0, 1, 2):
        for window in (1, 7, 59):
            counted = measured_match_rate(shape, parameter, *keys, window=window, sample=60)
            assert counted == pytest.approx(nested_loop(shape, parameter, keys, window))


def test_a_thinned_count_is_near_the_full_one() -> None:
    keys = uniform(60_000, domain=1000)
    full = measured_match_rate(BAND, 2, keys, window=30_000, sample=2000)
    thinned = measured_match_rate(BAND, 2, keys, window=30_000)  # 16,384 rows, half of each window
    assert thinned == pytest.approx(full, rel=0.03)


def test_chance_of_a_pair() -> None:
    assert pair_chance(8, 2.0) == 0.25
    assert pair_chance(8, 2.0, self_join=True) == 0.125
    assert pair_chance(8, 16.0, self_join=True) == 1


@pytest.mark.parametrize(
    ("window", "rate", "self_join"), [(8, 0, False), (8, 8.5, False), (8, 17, True), (8, -1, True)]
)
def test_impossible_rates_are_refused(window: int, rate: float, self_join: bool) -> None:
    with pytest.raises(DataError, match="match_rate must be above 0"):
        pair_chance(window, rate, self_join=self_join)


def test_a_window_of_no_rows_is_refused() -> None:
    with pytest.raises(DataError, match="at least 1 row"):
        pair_chance(0, 1.0)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("domain", [16, 1000])
def test_uniform_integer_width_is_the_best_one(domain: int, columns: int) -> None:
    axis = np.arange(domain)
    gaps = np.abs(axis[:, None] - axis)
    chances = [float((gaps <= d).mean()) ** columns for d in range(domain)]
    for rate in (0.5, 2.0, 30.0, 64.0):
        width = uniform_band_width(domain, window=64, match_rate=rate, columns=columns)
        roots = np.array(chances) ** (1 / columns)
        assert width == int(np.argmin(np.abs(roots - (rate / 64) ** (1 / columns))))


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_closed_forms_are_exact(kind: str, columns: int, self_join: bool) -> None:
    wanted = {"window": 500, "match_rate": 20.0, "columns": columns, "self_join": self_join}
    make = DISTRIBUTIONS[kind]
    if kind == "uniform":
        width = uniform_band_width(2.0**31, integer=False, **wanted)  # type: ignore[arg-type]
    else:
        width = gaussian_band_width(2.0**31 / 8, **wanted)  # type: ignore[arg-type]
    keys = [
        tuple(make(20_000, seed=10 * side + c, dtype="float64") for c in range(columns))
        for side in range(1 if self_join else 2)
    ]
    counted = measured_match_rate(BAND, width, *keys, window=500)
    assert counted == pytest.approx(20, rel=0.03)


def test_everything_matches_at_the_largest_rate() -> None:
    assert uniform_band_width(1.0, window=5, match_rate=5, integer=False) == 1.0
    assert uniform_band_width(100, window=5, match_rate=5) in (99, 100)
    assert gaussian_band_width(1.0, window=5, match_rate=5) == math.inf


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if "zipf" not in name])
def test_tuned_band_on_every_distribution(name: str, dtype: KeyType, self_join: bool) -> None:
    make = DISTRIBUTIONS[name]
    keys = [make(12_000, seed=s, dtype=dtype) for s in range(1 if self_join else 2)]
    width = band_width(*keys, window=1000, match_rate=5.0, seed=1, sample=6000)
    assert isinstance(width, int if dtype == "int64" else float)
    counted = measured_match_rate(BAND, width, *keys, window=1000, seed=2, sample=12_000)
    assert counted == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize("name", ["zipf", "zipf-permuted"])
def test_tuned_band_on_duplicates_gives_the_nearest(name: str) -> None:
    keys = [DISTRIBUTIONS[name](6000, seed=s) for s in range(2)]
    assert band_width(*keys, window=1000, match_rate=0.5, sample=500) == 0  # equal keys are more
    width = band_width(*keys, window=1000, match_rate=500.0, sample=2000)
    counted = measured_match_rate(BAND, width, *keys, window=1000, sample=6000)
    assert counted == pytest.approx(500, rel=0.1)


def test_tuned_band_in_two_dimensions() -> None:
    keys = [tuple(gaussian(12_000, seed=10 * s + c) for c in range(2)) for s in range(2)]
    width = band_width(*keys, window=2000, match_rate=5.0, sample=6000)
    counted = measured_match_rate(BAND, width, *keys, window=2000, seed=5, sample=12_000)
    assert counted == pytest.approx(5, rel=0.05)
    exact = gaussian_band_width(2.0**31 / 8, window=2000, match_rate=5.0, columns=2)
    assert width == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("rate", [10.0, 400.0, 900.0])
def test_tuned_offset(rate: float, dtype: KeyType) -> None:
    keys = [correlated(12_000, 0.95, seed=s, dtype=dtype) for s in range(2)]
    offset = inequality_offset(*keys, window=1000, match_rate=rate, sample=6000)
    counted = measured_match_rate(INEQUALITIES, offset, *keys, window=1000, seed=3, sample=12_000)
    assert counted == pytest.approx(rate, rel=0.05)
    (a, b), right = keys
    shifted = (np.asarray(a - offset), np.asarray(b + offset))  # the same offset, put into the data
    plain = measured_match_rate(INEQUALITIES, 0, shifted, right, window=1000, seed=3, sample=12_000)
    assert plain == counted


def test_tuning_a_self_join_by_offset() -> None:
    keys = correlated(8000, 0.9)
    offset = inequality_offset(keys, window=1000, match_rate=10.0, sample=4000)
    counted = measured_match_rate(INEQUALITIES, offset, keys, window=1000, sample=8000)
    assert counted == pytest.approx(10, rel=0.08)


def test_short_data_is_tuned_by_chance() -> None:
    keys = [uniform(3000, seed=s) for s in range(2)]
    width = band_width(*keys, window=1 << 20, match_rate=1 << 15, sample=1500)
    exact = uniform_band_width(2**31, window=1 << 20, match_rate=1 << 15)
    assert width == pytest.approx(exact, rel=0.05)


def test_tuning_is_seeded() -> None:
    keys = [uniform(5000, seed=s) for s in range(2)]
    first, again, other = (
        band_width(*keys, window=1000, match_rate=2.0, seed=s, sample=500) for s in (1, 1, 2)
    )
    assert first == again != other


def test_too_few_rows() -> None:
    keys = uniform(3)
    with pytest.raises(DataError, match="at least 4 rows"):
        band_width(keys, window=2, match_rate=1.0)
    with pytest.raises(DataError, match="never meet a full window of 3"):
        measured_match_rate(BAND, 1, keys, window=3)


def test_columns_of_different_length() -> None:
    with pytest.raises(DataError, match="same number of rows"):
        measured_match_rate(BAND, 1, uniform(5), uniform(6), window=2)
