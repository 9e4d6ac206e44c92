"""The workloads of the planner's benchmark: joins that ask for different layouts.

A workload makes the keys of two streams for a window, so that an arriving row matches ``rate`` rows
of the full window, or an eighth of it in windows that are too small for that. Band widths, lengths
and offsets follow from the rate in closed form, or by bisection of the exact chance. ``holds`` is
the predicate once more, in NumPy, for the nested loop that answers are compared with.

Inequalities with few matches on keys that are not correlated have most rows match nothing: left
keys are shifted towards the end of the right ones until the rate is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.feed import Feed
from thetabench.query import Query
from thetastream.datasets.keys import DOMAIN, zipf
from thetastream.datasets.rates import uniform_band_width
from thetastream.datasets.workloads import numbered, w2
from thetastream.errors import RegistryError, suggest

Columns = dict[str, NDArray[Any]]
Holds = Callable[[Columns, Columns], NDArray[np.bool_]]
_LEAST = 8  # part of a window that a row matches at most
_FEW = 64  # keys
_ZIPF = 1 << 16  # keys
_NOISE = 0.1  # of anti-correlated keys
_STEP = 1 << 11  # by which drifting keys move with every row


@dataclass(frozen=True)
class Made:
    """The rows of a workload for one window: text, keys of both sides, and who matches."""

    predicate: str
    left: Columns
    right: Columns
    holds: Holds

    def feed(self, window: int, batch: int) -> Feed:
        """The rows as a full window and pushes after it."""
        query = Query(self.predicate, (), window)
        tables = (numbered(**columns).combine_chunks() for columns in (self.left, self.right))
        return Feed(query, batch, window, *tables)


Maker = Callable[[np.random.Generator, int, int, float], Made]


@dataclass(frozen=True)
class Workload:
    """A join by name."""

    name: str
    about: str
    rate: float
    """Matches per arriving row, at a full window."""
    make: Maker

    def made(self, window: int, rows: int, seed: int = 0) -> Made:
        """Keys of ``rows`` rows per side, for a window of so many."""
        rng = np.random.default_rng([seed, window])
        return self.make(rng, window, rows, min(self.rate, window / _LEAST))


def chosen(names: Sequence[str]) -> list[Workload]:
    """The workloads asked for, or all."""
    for name in names:
        if name not in WORKLOADS:
            raise RegistryError(
                f"workload must be one of {', '.join(WORKLOADS)}; got {name!r}."
                f"{suggest(name, WORKLOADS)}"
            )
    return [workload for name, workload in WORKLOADS.items() if name in names or not names]


# --- One term ------------------------------------------------------------------------------------


def _band(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    width = uniform_band_width(DOMAIN, window=window, match_rate=rate)
    left, right = ({"x": rng.integers(0, DOMAIN, rows)} for _ in range(2))
    return Made(f"abs(l.x - r.x) <= {width}", left, right, _within("x", width))


def _drifting(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    """Keys in a range as wide as they drift in one window; half of it is met on average."""
    width = round(rate * _STEP)
    left, right = (
        {"x": np.arange(rows) * _STEP + rng.integers(0, window * _STEP, rows)} for _ in range(2)
    )
    return Made(f"abs(l.x - r.x) <= {width}", left, right, _within("x", width))


def _equality(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    left, right = ({"k": rng.integers(0, round(window / rate), rows)} for _ in range(2))
    return Made("l.k = r.k", left, right, _equal)


# --- Two terms -----------------------------------------------------------------------------------


def _correlated(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    made = w2(window, rows, match_rate=rate, seed=int(rng.integers(1 << 31)))
    assert made.right is not None
    left, right = (
        {name: table.column(name).to_numpy() for name in ("a", "b")}
        for table in (made.left, made.right)
    )
    return _inequalities(left, right)


def _anti_correlated(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    """What one inequality passes the other passes too, but for some noise."""
    worse = np.linspace(0, 1, 1001)  # by how much noise may undo the shift, in half of the pairs

    def chance(shift: float) -> float:
        noisy = np.maximum(1 - shift - _NOISE * worse, 0) ** 2
        return ((1 - shift) ** 2 + float(np.average(noisy, weights=1 - worse))) / 4

    shift = _bisected(chance, rate / window)
    left, right = (_opposed(rng, rows) for _ in range(2))
    return _inequalities({"a": left["a"] + shift, "b": left["b"] - shift}, right)


def _opposed(rng: np.random.Generator, rows: int) -> Columns:
    a = rng.random(rows)
    return {"a": a, "b": 1 - a + _NOISE * rng.random(rows)}


def _independent(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    shift = 1 - math.sqrt(2 * math.sqrt(rate / window))
    left, right = ({"a": rng.random(rows), "b": rng.random(rows)} for _ in range(2))
    return _inequalities({"a": left["a"] + shift, "b": left["b"] - shift}, right)


def _inequalities(left: Columns, right: Columns) -> Made:
    def holds(one: Columns, other: Columns) -> NDArray[np.bool_]:
        return np.asarray((one["a"] < other["a"]) & (one["b"] > other["b"]))

    return Made("l.a < r.a AND l.b > r.b", left, right, holds)


def _bands(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    width = uniform_band_width(DOMAIN, window=window, match_rate=rate, columns=2)
    left, right = (
        {"x": rng.integers(0, DOMAIN, rows), "y": rng.integers(0, DOMAIN, rows)} for _ in range(2)
    )
    near = _within("x", width), _within("y", width)
    text = f"abs(l.x - r.x) <= {width} AND abs(l.y - r.y) <= {width}"
    return Made(text, left, right, lambda one, other: near[0](one, other) & near[1](one, other))


def _keyed_band(keys: Iterable[NDArray[Any]], rng: np.random.Generator, chance: float) -> Made:
    """Equality and a band that a pair is in by a chance."""
    width = uniform_band_width(DOMAIN, window=DOMAIN, match_rate=min(1.0, chance) * DOMAIN)
    left, right = ({"k": own, "x": rng.integers(0, DOMAIN, own.size)} for own in keys)
    near = _within("x", width)
    text = f"l.k = r.k AND abs(l.x - r.x) <= {width}"
    return Made(text, left, right, lambda one, other: _equal(one, other) & near(one, other))


def _few_keys(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    keys = [rng.integers(0, _FEW, rows) for _ in range(2)]
    return _keyed_band(keys, rng, _FEW * rate / window)


def _zipf(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    shares = 1 / np.arange(1, _ZIPF + 1)
    same = float(np.sum((shares / shares.sum()) ** 2))
    keys = [zipf(rows, seed=rng, domain=_ZIPF, distinct=_ZIPF, permuted=True) for _ in range(2)]
    return _keyed_band(keys, rng, rate / window / same)


def _many_keys(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    """As many keys as rows; the inequality passes half of the pairs."""
    values = round(window / rate / 2)
    left, right = ({"k": rng.integers(0, values, rows), "a": rng.random(rows)} for _ in range(2))

    def holds(one: Columns, other: Columns) -> NDArray[np.bool_]:
        return np.asarray(_equal(one, other) & (one["a"] < other["a"]))

    return Made("l.k = r.k AND l.a < r.a", left, right, holds)


def _overlap(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    left, right = (_intervals(rng, rows, rate / window / 2) for _ in range(2))

    def holds(one: Columns, other: Columns) -> NDArray[np.bool_]:
        return np.asarray((one["s"] <= other["e"]) & (one["e"] >= other["s"]))

    return Made("l.s <= r.e AND l.e >= r.s", left, right, holds)


def _point(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    left = {"t": rng.integers(0, DOMAIN, rows)}
    right = _intervals(rng, rows, rate / window)

    def holds(one: Columns, other: Columns) -> NDArray[np.bool_]:
        return np.asarray((other["s"] <= one["t"]) & (one["t"] <= other["e"]))

    return Made("l.t BETWEEN r.s AND r.e", left, right, holds)


def _intervals(rng: np.random.Generator, rows: int, length: float) -> Columns:
    """Intervals with uniform starts and lengths, of a mean length in parts of the domain."""
    starts = rng.integers(0, DOMAIN, rows)
    return {"s": starts, "e": starts + rng.integers(0, max(1, round(2 * length * DOMAIN)), rows)}


# --- Parts of predicates -------------------------------------------------------------------------


def _within(column: str, width: float) -> Holds:
    return lambda one, other: np.asarray(np.abs(one[column] - other[column]) <= width)


def _equal(one: Columns, other: Columns) -> NDArray[np.bool_]:
    return np.asarray(one["k"] == other["k"])


def _bisected(chance: Callable[[float], float], wanted: float) -> float:
    """Where a falling chance is as wanted."""
    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > wanted else (low, middle)
    return high


_ALL = (
    Workload("band-2", "one band", 2.0, _band),
    Workload("band-300", "one band, many matches", 300.0, _band),
    Workload("correlated", "two inequalities, correlated keys", 10.0, _correlated),
    Workload("anti-correlated", "two inequalities, anti-correlated keys", 10.0, _anti_correlated),
    Workload("independent", "two inequalities, independent keys", 10.0, _independent),
    Workload("two-bands", "two bands", 5.0, _bands),
    Workload("few-keys", "equality on 64 keys and a band", 10.0, _few_keys),
    Workload("many-keys", "equality on w keys and an inequality", 0.5, _many_keys),
    Workload("overlap", "overlap of intervals", 10.0, _overlap),
    Workload("point", "point in interval", 10.0, _point),
    Workload("zipf", "equality on Zipf keys and a band", 10.0, _zipf),
    Workload("drift", "one band, drifting keys", 2.0, _drifting),
    Workload("equality", "equality alone", 2.0, _equality),
)
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
"""Every workload by name."""
