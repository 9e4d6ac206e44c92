"""Seeded key columns: the distributions the papers use, and two correlated columns.

Every generator takes ``rows`` and, by keyword, ``seed`` (a number or a ``numpy`` generator, which
is then advanced), ``domain`` (the scale) and ``dtype`` (``"int64"``, rounded down, or
``"float64"``). The same arguments return the same keys. Cost: O(rows), 10–50 ns per key.

=====================  ===================================================  =====================
name                   keys                                                 domain
=====================  ===================================================  =====================
``uniform``            all equally likely                                   ``[0, domain)``
``gaussian``           mean ½ domain, deviation ⅛ domain                    around ``[0, domain)``
``gamma``              Gamma(k = 3, θ = 3), 64 units = domain               0 and above
``gamma-steep``        Gamma(k = 1, θ = 5), 64 units = domain               0 and above
``zipf``               rank i with weight 1 / i, small keys are frequent    ``[0, domain)``
``zipf-permuted``      the same, frequent keys anywhere                     ``[0, domain)``
``drifting-gaussian``  mean moves from ½ to 1½ domain in the middle part    around ``[0, 2 domain)``
``increasing``         row i is in the i-th step, never equal               ``[0, rows × step)``
=====================  ===================================================  =====================

"Around" means that rare keys lie outside (6 in 100,000 for the gaussian): they are kept, so that
the distribution is exact. Sources: PIM-Tree, section 5 (uniform, gaussian, gamma, drift); SSIJ,
section V (zipf "NoPerm" and "Random").
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thetastream.datasets.rates import Keys
from thetastream.errors import DataError

DOMAIN = 1 << 31
"""Default scale: 31-bit keys, as in the benchmarks of the papers."""

KeyType: TypeAlias = Literal["int64", "float64"]
Seed: TypeAlias = int | np.random.Generator


class Distribution(Protocol):
    """A seeded generator of one key column."""

    def __call__(self, rows: int, *, seed: Seed = 0, dtype: KeyType = "int64") -> Keys: ...


def uniform(rows: int, *, seed: Seed = 0, domain: float = DOMAIN, dtype: KeyType = "int64") -> Keys:
    """Keys that are uniform in ``[0, domain)``.

    >>> uniform(3, seed=7, domain=100).tolist()
    [94, 62, 68]
    """
    rng = seeded(rows, seed)
    if dtype == "int64":
        return rng.integers(0, int(domain), rows)
    return _typed(rng.random(rows) * domain, dtype)


def gaussian(
    rows: int,
    *,
    seed: Seed = 0,
    domain: float = DOMAIN,
    dtype: KeyType = "int64",
    mean: float = 0.5,
    sigma: float = 0.125,
) -> Keys:
    """Normal keys; ``mean`` and ``sigma`` (the standard deviation) are parts of ``domain``."""
    rng = seeded(rows, seed)
    return _typed(rng.normal(mean, sigma, rows) * domain, dtype)


def gamma(
    rows: int,
    *,
    seed: Seed = 0,
    domain: float = DOMAIN,
    dtype: KeyType = "int64",
    shape: float = 3.0,
    scale: float = 3.0,
) -> Keys:
    """Gamma keys (shape k, scale θ); 64 units of the distribution are one ``domain``."""
    rng = seeded(rows, seed)
    return _typed(rng.gamma(shape, scale, rows) * (domain / 64), dtype)


def zipf(
    rows: int,
    *,
    seed: Seed = 0,
    domain: float = DOMAIN,
    dtype: KeyType = "int64",
    skew: float = 1.0,
    distinct: int = 1 << 16,
    permuted: bool = False,
) -> Keys:
    """Keys with frequency proportional to ``1 / rank ** skew`` over ``distinct`` values.

    The values are evenly spaced in ``[0, domain)``. The most frequent is 0 and frequency falls with
    the value; with ``permuted=True`` frequent values are at seeded random places instead. Skew 0
    is uniform. Cost: O(rows × log distinct).

    Two streams get the same hot values only if they share the permutation: it depends on
    ``distinct`` alone, not on ``seed``.
    """
    if distinct < 1 or skew < 0:
        raise DataError(
            f"zipf needs distinct >= 1 and skew >= 0; got distinct={distinct}, skew={skew}."
        )
    rng = seeded(rows, seed)
    weights = np.arange(1, distinct + 1, dtype=np.float64) ** -skew
    below = np.cumsum(weights)
    ranks = np.searchsorted(below, rng.random(rows) * below[-1], side="right")
    ranks = np.minimum(ranks, distinct - 1)  # a product rounded up to the total
    if permuted:
        ranks = np.random.default_rng(distinct).permutation(distinct)[ranks]
    return _typed(ranks * (domain / distinct), dtype)


def drifting_gaussian(
    rows: int,
    *,
    seed: Seed = 0,
    domain: float = DOMAIN,
    dtype: KeyType = "int64",
    drift: float = 1.0,
    sigma: float = 0.125,
    phases: tuple[float, float, float] = (4, 10, 4),
) -> Keys:
    """Normal keys whose mean moves: still, then from ½ to ½ + ``drift`` domains, then still.

    ``drift`` is the paper's r (0 … 1): a larger r is a faster drift, as the moving phase has a
    fixed share of the rows. ``phases`` are the relative lengths of the three phases; the paper has
    4, 10 and 4 million tuples at a window of one million (PIM-Tree, figure 13).

    The paper writes σ = 0.125 in one experiment and σ² = 0.125 in this one; here 0.125 is σ in
    both. Use ``sigma=0.125**0.5`` for the other reading.
    """
    if min(phases) < 0 or sum(phases) <= 0:
        raise DataError(f"phases must be three lengths that are not negative; got {phases}.")
    rng = seeded(rows, seed)
    start = rows * phases[0] / sum(phases)
    stop = start + rows * phases[1] / sum(phases)
    mean = 0.5 + drift * np.interp(np.arange(rows), [start, max(stop, start + 1e-9)], [0.0, 1.0])
    return _typed((mean + rng.normal(0.0, sigma, rows)) * domain, dtype)


def increasing(rows: int, *, seed: Seed = 0, dtype: KeyType = "int64", step: int = 1024) -> Keys:
    """Strictly increasing keys: row i is uniform in ``[i × step, (i + 1) × step)``.

    Two such streams stay in step for ever. With ``step=1`` integers count the rows.
    """
    if step < 1:
        raise DataError(f"step must be at least 1; got {step}.")
    rng = seeded(rows, seed)
    base = np.arange(rows, dtype=np.int64) * step
    if dtype == "int64":
        return base + rng.integers(0, step, rows)
    return _typed(base + rng.random(rows) * (step * 0.999), dtype)  # never rounds to the next step


def correlated(
    rows: int,
    rho: float,
    *,
    seed: Seed = 0,
    domain: float = DOMAIN,
    dtype: KeyType = "float64",
    sigma: float = 0.125,
) -> tuple[Keys, Keys]:
    """Return two normal columns (mean ½ domain, deviation ``sigma``) with correlation ``rho``.

    ``rho`` is the expected Pearson coefficient, -1 … 1. The closer it is to 1, the rarer a pair
    of rows in opposite order in the two columns.

    >>> a, b = correlated(10_000, 0.9)
    >>> round(float(np.corrcoef(a, b)[0, 1]), 1)
    0.9
    """
    if not -1 <= rho <= 1:
        raise DataError(f"rho is a correlation, between -1 and 1; got {rho}.")
    rng = seeded(rows, seed)
    first = rng.normal(0.0, sigma, rows)
    second = rho * first + (1 - rho * rho) ** 0.5 * rng.normal(0.0, sigma, rows)
    return _typed((0.5 + first) * domain, dtype), _typed((0.5 + second) * domain, dtype)


DISTRIBUTIONS: dict[str, Distribution] = {
    "uniform": uniform,
    "gaussian": gaussian,
    "gamma": gamma,
    "gamma-steep": partial(gamma, shape=1.0, scale=5.0),
    "zipf": zipf,
    "zipf-permuted": partial(zipf, permuted=True),
    "drifting-gaussian": drifting_gaussian,
    "increasing": increasing,
}
"""Every distribution of one column by name; call with ``(rows, seed=…, dtype=…)``."""


def seeded(rows: int, seed: Seed) -> np.random.Generator:
    """The random generator of ``rows`` rows."""
    if rows < 0:
        raise DataError(f"rows must not be negative; got {rows}.")
    return np.random.default_rng(seed)


def _typed(values: NDArray[np.float64], dtype: KeyType) -> Keys:
    if dtype == "float64":
        return values
    if dtype != "int64":
        raise DataError(f"dtype must be 'int64' or 'float64'; got {dtype!r}.")
    return np.floor(values).astype(np.int64)
