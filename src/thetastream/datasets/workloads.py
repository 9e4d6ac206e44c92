"""The three workloads every benchmark and many tests use.

========  ==========================================================  ====================
name      predicate                                                    keys
========  ==========================================================  ====================
``W1``    ``abs(l.x - r.x) <= d``                                      uniform int64, 31 bit
``W2``    ``l.a < r.a AND l.b > r.b``                                  correlated float64
``W3``    ``abs(l.x - r.x) <= d AND abs(l.y - r.y) <= d``, self-join   uniform int64, 31 bit
========  ==========================================================  ====================

The parameter (band width, spread of the correlated keys) follows from the wanted match rate by a
closed form, so making a workload costs only the random numbers. Same arguments, same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.datasets.keys import DOMAIN, seeded
from thetastream.datasets.rates import pair_chance, uniform_band_width


@dataclass(frozen=True)
class Workload:
    """A join to run: its predicate, its count window and its input in arrival order."""

    name: str
    """``W1``, ``W2`` or ``W3``."""
    predicate: str
    """SQL text over ``l.`` and ``r.``."""
    window: int
    """Size of the count window, rows per side."""
    match_rate: float
    """Wanted matches (output pairs) per arriving row once the window is full."""
    self_join: bool
    """Whether ``left`` is joined with itself."""
    left: pa.Table
    """Key columns and an int64 column ``id``: 0, 1, 2, … in arrival order."""
    right: pa.Table | None
    """The same for the other side; ``None`` for a self-join."""


def w1(window: int, rows: int, *, match_rate: float = 2.0, seed: int = 0) -> Workload:
    """W1: a band on one key, ``abs(l.x - r.x) <= d``. ``rows`` per side.

    ``x`` is int64, uniform in ``[0, 2**31)``. The band width is exact up to rounding to an integer.

    >>> w1(1 << 20, 10).predicate
    'abs(l.x - r.x) <= 2048'
    """
    rng = seeded(rows, seed)
    width = uniform_band_width(DOMAIN, window=window, match_rate=match_rate)
    left, right = (numbered(x=rng.integers(0, DOMAIN, rows)) for _ in range(2))
    return Workload("W1", f"abs(l.x - r.x) <= {width}", window, match_rate, False, left, right)


def w2(window: int, rows: int, *, match_rate: float = 10.0, seed: int = 0) -> Workload:
    """W2: two inequalities on correlated keys, ``l.a < r.a AND l.b > r.b``. ``rows`` per side.

    On both sides ``a`` is uniform in ``[0, 1)`` and ``b = a + e`` with ``e`` uniform in ``[0, s)``:
    the smaller the spread ``s``, the stronger the correlation and the rarer a pair whose two
    keys are in opposite order. The chance of that is exactly ``s / 6 - s² / 24``, which is solved
    for ``s``. At rate 10 and a window of 50,000 rows ``s`` is 0.0012, at 500,000 rows 0.00012. Each
    inequality alone passes half of all pairs, so no index on one key helps.

    Rates above ``window / 8`` (small windows in tests) keep ``s = 1`` and shift the left keys by
    an offset, ``a - c`` and ``b + c``, found by bisection over the exact chance.
    """
    rng = seeded(rows, seed)
    chance = pair_chance(window, match_rate)
    spread = 2 - 2 * math.sqrt(1 - 6 * chance) if chance < 1 / 8 else 1.0
    left, right = (_correlated(rng, rows, spread) for _ in range(2))
    if chance > 1 / 8:
        shift = _shift(chance)
        left = (left[0] - shift, left[1] + shift)
    tables = [numbered(a=a, b=b) for a, b in (left, right)]
    return Workload("W2", "l.a < r.a AND l.b > r.b", window, match_rate, False, *tables)


def w3(window: int, rows: int, *, match_rate: float = 5.0, seed: int = 0) -> Workload:
    """W3: a band on two keys, joined with itself. ``rows`` in total.

    The predicate is ``abs(l.x - r.x) <= d AND abs(l.y - r.y) <= d``; ``x`` and ``y`` are int64,
    uniform in ``[0, 2**31)``. A matching pair of rows counts as two matches, ``(l, r)`` and
    ``(r, l)``, so a rate of 5 means 2.5 neighbours in the window.
    """
    rng = seeded(rows, seed)
    width = uniform_band_width(
        DOMAIN, window=window, match_rate=match_rate, columns=2, self_join=True
    )
    predicate = f"abs(l.x - r.x) <= {width} AND abs(l.y - r.y) <= {width}"
    left = numbered(x=rng.integers(0, DOMAIN, rows), y=rng.integers(0, DOMAIN, rows))
    return Workload("W3", predicate, window, match_rate, True, left, None)


WORKLOADS: dict[str, Callable[..., Workload]] = {"W1": w1, "W2": w2, "W3": w3}
"""Every workload by name; call with ``(window, rows, match_rate=…, seed=…)``."""


def _correlated(
    rng: np.random.Generator, rows: int, spread: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a = rng.random(rows)
    return a, a + spread * rng.random(rows)


def _shift(chance: float) -> float:
    """Solve ``P(-c < u < e + c) = chance`` for ``c`` in ``[0, 2]``.

    ``u`` and ``e``, the differences of two uniform numbers, have the density ``1 - |t|``.
    """

    def reached(c: float) -> float:
        u = np.linspace(max(-c, -1.0), 1.0, 2001)
        t = np.clip(u - c, -1.0, 1.0)
        above = np.where(t < 0, 1 - (1 + t) ** 2 / 2, (1 - t) ** 2 / 2)  # P(e > u - c)
        return float(np.trapezoid((1 - np.abs(u)) * above, u))

    low, high = 0.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < chance else (low, middle)
    return high


def numbered(**columns: NDArray[Any]) -> pa.Table:
    """Return a table of key columns, and ``id``."""
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "id": np.arange(rows, dtype=np.int64)})
