"""The three queries of the SPO-Join paper (Section 5.2), with rows of a wanted match rate.

========  ==============================================================  ======================
name      predicate                                                        keys
========  ==============================================================  ======================
``Q1``    ``l.power < r.power AND l.cool > r.cool``                        correlated float64
``Q1=``   ``l.power = r.power AND l.cool = r.cool``                        uniform int64
``Q2``    ``abs(l.lon - r.lon) <= d AND abs(l.lat - r.lat) <= e``,         uniform int64
          self-join
``Q3``    ``l.distance > r.distance AND l.fare < r.fare``, self-join       correlated float64
========  ==============================================================  ======================

Correlated keys are those of workload W2: the closer the correlation, the rarer a pair whose two
keys are in opposite order. ``Q1=`` is the paper's Figure 22, Q1 with equality. Places are whole
numbers of ten-millionths of a degree, so that bands have exact edges. :func:`taxi_q2` and
:func:`taxi_q3` ask the same of real taxi trips. Same arguments, same data; O(rows).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.datasets.keys import seeded
from thetastream.datasets.rates import pair_chance, uniform_band_width
from thetastream.datasets.real import load_taxi_debs2015, load_taxi_yellow_2019
from thetastream.datasets.workloads import Workload, numbered, w2
from thetastream.errors import DataError

CITY = 1 << 24
"""Width and height of the city of Q2 in ten-millionths of a degree: about 1.7 degrees."""
TAXI_BAND = 0.03
"""Degrees; the paper's Q2."""
_DIGITS = 1_000_000  # the taxi file has six digits after the point
_COMMON = 1 / 8  # a chance that correlated keys with equal spread on both sides stay below


def q1(window: int, rows: int, *, match_rate: float = 10.0, seed: int = 0) -> Workload:
    """Q1: less power, yet more cooling. ``rows`` per side; W2 under its names in the paper."""
    workload = w2(window, rows, match_rate=match_rate, seed=seed)
    assert workload.right is not None
    left, right = (
        table.rename_columns(["power", "cool", "id"]) for table in (workload.left, workload.right)
    )
    predicate = "l.power < r.power AND l.cool > r.cool"
    return Workload("Q1", predicate, window, match_rate, False, left, right)


def q1_equal(window: int, rows: int, *, match_rate: float = 2.0, seed: int = 0) -> Workload:
    """Q1 with equality: both keys are uniform, over the number of values that yields the rate.

    With ``k`` values each a pair matches with the chance ``1 / k²``; ``k`` is a whole number, so
    the rate is met within ``1 / k``.

    >>> max(q1_equal(20_000, 10_000).left["power"].to_pylist())  # 2 of 20,000 are 1 of 100 × 100
    99
    """
    values = max(1, round(1 / math.sqrt(pair_chance(window, match_rate))))
    rng = seeded(rows, seed)
    left, right = (
        numbered(power=rng.integers(0, values, rows), cool=rng.integers(0, values, rows))
        for _ in range(2)
    )
    predicate = "l.power = r.power AND l.cool = r.cool"
    return Workload("Q1=", predicate, window, match_rate, False, left, right)


def q2(
    window: int, rows: int, *, match_rate: float = 5.0, seed: int = 0, share: float | None = None
) -> Workload:
    """Q2: a band on longitude and latitude, joined with itself. ``rows`` in total.

    ``share`` is the part of all pairs that the first band passes; then the second passes as many
    of the rest as the rate allows. Without it both bands are as wide as each other.
    """
    chance = pair_chance(window, match_rate, self_join=True)
    first = math.sqrt(chance) if share is None else share
    if not chance <= first <= 1:
        raise DataError(
            f"share must be between {chance:.3g}, as the match rate asks, and 1; got {share}."
        )
    wide, narrow = (
        uniform_band_width(CITY, window=window, match_rate=part * window)
        for part in (first, chance / first)
    )
    rng = seeded(rows, seed)
    left = numbered(lon=rng.integers(0, CITY, rows), lat=rng.integers(0, CITY, rows))
    return Workload("Q2", _band(int(wide), int(narrow)), window, match_rate, True, left, None)


def q3(window: int, rows: int, *, match_rate: float = 10.0, seed: int = 0) -> Workload:
    """Q3: a longer trip for less money, joined with itself. ``rows`` in total.

    Two rows in opposite order are one match, as one of them is the left one. At most an eighth
    of all ordered pairs can match.
    """
    chance = pair_chance(window, match_rate, self_join=True)
    if chance >= _COMMON:
        raise DataError(
            f"Q3 has a match rate below {window / 4:,.0f} for a window of {window:,} rows; "
            f"got {match_rate}. Use a larger window or a smaller rate."
        )
    keys = w2(window, rows, match_rate=chance * window, seed=seed).left
    left = keys.rename_columns(["distance", "fare", "id"])
    return Workload("Q3", _Q3, window, match_rate, True, left, None)


QUERIES: dict[str, Callable[..., Workload]] = {"Q1": q1, "Q1=": q1_equal, "Q2": q2, "Q3": q3}
"""Every query by name; call with ``(window, rows, match_rate=…, seed=…)``."""

_Q3 = "l.distance > r.distance AND l.fare < r.fare"


def taxi_q2(window: int, rows: int, *, folder: str | os.PathLike[str] | None = None) -> Workload:
    """Q2 over the DEBS 2015 taxi trips: pick-ups less than 0.03 degrees apart, both ways.

    Places are whole millionths of a degree, all digits that the file has. More ``rows`` than the
    file's located trips repeat them from the first on. ``match_rate`` is estimated.
    """
    trips = load_taxi_debs2015(folder, located=True)
    places = [
        np.rint(trips[name].to_numpy() * _DIGITS).astype(np.int64)
        for name in ("pickup_longitude", "pickup_latitude")
    ]
    width = round(TAXI_BAND * _DIGITS) - 1  # the paper's band is open
    lon, lat = (np.resize(keys, rows) for keys in places)
    near = [np.abs(keys[:, None] - keys) <= width for keys in map(_some, places)]
    share = float((near[0] & near[1]).mean())
    left = numbered(lon=lon, lat=lat)
    return Workload("Q2", _band(width, width), window, 2 * window * share, True, left, None)


def taxi_q3(window: int, rows: int, *, folder: str | os.PathLike[str] | None = None) -> Workload:
    """Q3 over yellow taxi trips of early 2019, in order of pick-up; repeated as in `taxi_q2`."""
    trips = load_taxi_yellow_2019(folder, sort=True)
    keys = [trips[name].to_numpy() for name in ("trip_distance", "fare_amount")]
    distance, fare = (np.resize(column, rows) for column in keys)
    some = [_some(column) for column in keys]
    share = float(((some[0][:, None] > some[0]) & (some[1][:, None] < some[1])).mean())
    left = numbered(distance=distance, fare=fare)
    return Workload("Q3", _Q3, window, 2 * window * share, True, left, None)


def _band(lon: int, lat: int) -> str:
    return f"abs(l.lon - r.lon) <= {lon} AND abs(l.lat - r.lat) <= {lat}"


def _some(keys: NDArray[Any], most: int = 1000) -> NDArray[Any]:
    """Up to ``most`` keys, evenly chosen."""
    return keys[:: max(1, len(keys) // most)]
