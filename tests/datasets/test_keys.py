"""Key columns: seeded, typed, in the documented domain, of the documented shape."""

from __future__ import annotations

import numpy as np
import pytest

from thetastream.datasets import (
    DISTRIBUTIONS,
    DOMAIN,
    correlated,
    drifting_gaussian,
    gamma,
    gaussian,
    increasing,
    uniform,
    zipf,
)
from thetastream.datasets.keys import KeyType
from thetastream.errors import DataError

ROWS = 20_000
RANGES = {  # where every key lies, and where nearly all of them do
    "uniform": ((0, DOMAIN), (0, DOMAIN)),
    "gaussian": ((-DOMAIN, 2 * DOMAIN), (0, DOMAIN)),
    "gamma": ((0, np.inf), (0, DOMAIN)),
    "gamma-steep": ((0, np.inf), (0, DOMAIN)),
    "zipf": ((0, DOMAIN), (0, DOMAIN)),
    "zipf-permuted": ((0, DOMAIN), (0, DOMAIN)),
    "drifting-gaussian": ((-DOMAIN, 3 * DOMAIN), (0, 2 * DOMAIN)),
    "increasing": ((0, ROWS * 1024), (0, ROWS * 1024)),
}


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_seeded_and_in_its_domain(name: str, dtype: KeyType) -> None:
    make = DISTRIBUTIONS[name]
    keys = make(ROWS, seed=3, dtype=dtype)
    assert keys.dtype == dtype
    assert keys.shape == (ROWS,)
    np.testing.assert_array_equal(keys, make(ROWS, seed=3, dtype=dtype))
    assert (keys != make(ROWS, seed=4, dtype=dtype)).any()
    (low, high), (usual_low, usual_high) = RANGES[name]
    assert keys.min() >= low
    assert keys.max() < high
    assert ((keys >= usual_low) & (keys < usual_high)).mean() > 0.9995


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_no_rows_and_negative_rows(name: str) -> None:
    assert DISTRIBUTIONS[name](0).shape == (0,)
    with pytest.raises(DataError, match="rows must not be negative"):
        DISTRIBUTIONS[name](-1)


def test_a_generator_as_seed_is_advanced() -> None:
    rng = np.random.default_rng(1)
    first, second = uniform(100, seed=rng), uniform(100, seed=rng)
    assert (first != second).any()
    np.testing.assert_array_equal(first, uniform(100, seed=1))


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DataError, match="'int64' or 'float64'"):
        gaussian(1, dtype="int32")  # type: ignore[arg-type]


def test_moments() -> None:
    keys = gaussian(100_000, domain=1.0, dtype="float64")
    assert keys.mean() == pytest.approx(0.5, abs=0.005)
    assert keys.std() == pytest.approx(0.125, abs=0.005)
    keys = gamma(100_000, domain=64.0, dtype="float64")
    assert keys.mean() == pytest.approx(9, abs=0.1)
    assert keys.var() == pytest.approx(27, abs=1)


def test_zipf_frequencies_and_places() -> None:
    plain = zipf(100_000, distinct=8, domain=8)
    counts = np.bincount(plain, minlength=8)
    expected = 100_000 / np.arange(1, 9) / (1 / np.arange(1, 9)).sum()
    np.testing.assert_allclose(counts, expected, rtol=0.05)

    permuted = np.bincount(zipf(100_000, distinct=8, domain=8, permuted=True), minlength=8)
    assert sorted(permuted) == sorted(counts)  # the same frequencies, elsewhere
    assert permuted.tolist() != counts.tolist()
    hot = {
        int(np.bincount(zipf(5000, seed=s, distinct=8, domain=8, permuted=True)).argmax())
        for s in range(4)
    }
    assert len(hot) == 1  # two streams share their hot keys


def test_zipf_without_skew_is_uniform() -> None:
    counts = np.bincount(zipf(80_000, distinct=8, domain=8, skew=0))
    np.testing.assert_allclose(counts, 10_000, rtol=0.05)


@pytest.mark.parametrize("wrong", [{"distinct": 0}, {"skew": -1.0}])
def test_zipf_refuses(wrong: dict[str, float]) -> None:
    with pytest.raises(DataError, match="zipf needs"):
        zipf(1, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("drift", [0.0, 0.4, 1.0])
def test_drift_has_three_phases(drift: float) -> None:
    keys = drifting_gaussian(180_000, domain=1.0, dtype="float64", drift=drift)
    assert keys[:40_000].mean() == pytest.approx(0.5, abs=0.01)
    assert keys[85_000:95_000].mean() == pytest.approx(0.5 + drift / 2, abs=0.01)
    assert keys[60_000:70_000].mean() == pytest.approx(0.5 + drift / 4, abs=0.01)
    assert keys[140_000:].mean() == pytest.approx(0.5 + drift, abs=0.01)


def test_drift_may_jump_but_not_go_back() -> None:
    keys = drifting_gaussian(2000, domain=1.0, dtype="float64", phases=(1, 0, 1), sigma=0.0)
    assert keys[:1000].tolist() == [0.5] * 1000
    assert keys[1001:].tolist() == [1.5] * 999
    with pytest.raises(DataError, match="phases"):
        drifting_gaussian(10, phases=(1, -1, 1))


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("step", [1, 3, 1024])
def test_increasing_is_strict_and_in_step(dtype: KeyType, step: int) -> None:
    keys = increasing(ROWS, dtype=dtype, step=step)
    assert (np.diff(keys) > 0).all()
    assert (np.floor(keys / step) == np.arange(ROWS)).all()


def test_increasing_refuses_a_step_of_zero() -> None:
    with pytest.raises(DataError, match="step"):
        increasing(1, step=0)


@pytest.mark.parametrize("rho", [-1.0, -0.5, 0.0, 0.9, 1.0])
def test_correlation(rho: float) -> None:
    a, b = correlated(50_000, rho, seed=2)
    assert float(np.corrcoef(a, b)[0, 1]) == pytest.approx(rho, abs=0.02)
    assert a.std() == pytest.approx(b.std(), rel=0.02)
    np.testing.assert_array_equal(correlated(50_000, rho, seed=2)[1], b)


def test_correlation_is_bounded() -> None:
    with pytest.raises(DataError, match="between -1 and 1"):
        correlated(1, 1.5)
