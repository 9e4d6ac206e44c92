"""The workloads of the planner's benchmark: joins that ask for different layouts.

A workload makes the keys of two streams for a window, so that an arriving row matches ``rate`` rows
of the full window, or an eighth of it in windows that are too small for that. Band widths, lengths
and offsets follow from the rate in closed form, or by bisection of the exact chance. A term is text
for the join and a function of NumPy for the nested loop that answers are compared with.

Inequalities with few matches on keys that are not correlated have most rows match nothing: left
keys are shifted towards the end of the right ones until the rate is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench.feed import Feed
from thetabench.query import Query
from thetastream.datasets.keys import DOMAIN, zipf
from thetastream.datasets.rates import uniform_band_width
from thetastream.datasets.workloads import numbered, w2

Columns = dict[str, NDArray[Any]]
Term = tuple[str, Callable[[Columns, Columns], NDArray[Any]]]
_LEAST = 8  # part of a window that a row matches at most
_FEW = 64  # keys
_ZIPF = 1 << 16  # keys
_NOISE = 0.1  # of anti-correlated keys
_STEP = 1 << 11  # by which drifting keys move with every row


@dataclass(frozen=True)
class Made:
    """The rows of a workload for one window: keys of both sides, and the terms of its predicate."""

    left: Columns
    right: Columns
    terms: tuple[Term, ...]

    @property
    def predicate(self) -> str:
        """The terms as text."""
        return " AND ".join(text for text, _ in self.terms)

    def holds(self, left: Columns, right: Columns) -> NDArray[np.bool_]:
        """Which pairs match."""
        return np.asarray(np.logical_and.reduce([holds(left, right) for _, holds in self.terms]))

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
    terms: int = 2
    """Of the predicate."""

    def made(self, window: int, rows: int, seed: int = 0) -> Made:
        """Keys of ``rows`` rows per side, for a window of `window` rows."""
        rng = np.random.default_rng([seed, window])
        return self.make(rng, window, rows, min(self.rate, window / _LEAST))


# --- Terms ---------------------------------------------------------------------------------------


def _near(column: str, width: float) -> Term:
    """A band."""
    return (
        f"abs(l.{column} - r.{column}) <= {width}",
        lambda left, right: np.abs(left[column] - right[column]) <= width,
    )


_SAME: Term = "l.k = r.k", lambda left, right: left["k"] == right["k"]
_LESS: Term = "l.a < r.a", lambda left, right: left["a"] < right["a"]
_MORE: Term = "l.b > r.b", lambda left, right: left["b"] > right["b"]
_BEGINS: Term = "l.s <= r.e", lambda left, right: left["s"] <= right["e"]
_ENDS: Term = "l.e >= r.s", lambda left, right: left["e"] >= right["s"]
_INSIDE: Term = (
    "l.t BETWEEN r.s AND r.e",
    lambda left, right: (right["s"] <= left["t"]) & (left["t"] <= right["e"]),
)


def _made(columns: Callable[[], Columns], *terms: Term) -> Made:
    """Both sides are made alike, the left one first."""
    return Made(columns(), columns(), terms)


# --- One term ------------------------------------------------------------------------------------


def _band(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    width = uniform_band_width(DOMAIN, window=window, match_rate=rate)
    return _made(lambda: {"x": rng.integers(0, DOMAIN, rows)}, _near("x", width))


def _drifting(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    """Keys in a range as wide as they drift in one window; half of it is met on average."""
    drift = np.arange(rows) * _STEP
    return _made(
        lambda: {"x": drift + rng.integers(0, window * _STEP, rows)},
        _near("x", round(rate * _STEP)),
    )


def _equality(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    return _made(lambda: {"k": rng.integers(0, round(window / rate), rows)}, _SAME)


# --- Two terms -----------------------------------------------------------------------------------


def _correlated(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    made = w2(window, rows, match_rate=rate, seed=int(rng.integers(1 << 31)))
    return Made(_arrays(made.left), _arrays(made.right), (_LESS, _MORE))


def _arrays(table: Any) -> Columns:
    return {name: table.column(name).to_numpy() for name in ("a", "b")}


def _anti_correlated(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    """What one inequality passes the other passes too, but for some noise."""
    worse = np.linspace(0, 1, 1001)  # by how much noise may undo the shift, in half of the pairs

    def chance(shift: float) -> float:
        noisy = np.maximum(1 - shift - _NOISE * worse, 0) ** 2
        return ((1 - shift) ** 2 + float(np.average(noisy, weights=1 - worse))) / 4

    def opposed() -> Columns:
        a = rng.random(rows)
        return {"a": a, "b": 1 - a + _NOISE * rng.random(rows)}

    return _shifted(_made(opposed, _LESS, _MORE), _bisected(chance, rate / window))


def _independent(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    made = _made(lambda: {"a": rng.random(rows), "b": rng.random(rows)}, _LESS, _MORE)
    return _shifted(made, 1 - math.sqrt(2 * math.sqrt(rate / window)))


def _shifted(made: Made, shift: float) -> Made:
    """Left keys nearer to the end of the right ones, for both inequalities."""
    left = {"a": made.left["a"] + shift, "b": made.left["b"] - shift}
    return replace(made, left=left)


def _bands(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    width = uniform_band_width(DOMAIN, window=window, match_rate=rate, columns=2)
    return _made(
        lambda: {name: rng.integers(0, DOMAIN, rows) for name in "xy"},
        _near("x", width),
        _near("y", width),
    )


def _keyed_band(keys: Iterable[NDArray[Any]], rng: np.random.Generator, chance: float) -> Made:
    """Equality and a band that a pair is in by a chance."""
    width = uniform_band_width(DOMAIN, window=DOMAIN, match_rate=min(1.0, chance) * DOMAIN)
    left, right = ({"k": own, "x": rng.integers(0, DOMAIN, own.size)} for own in keys)
    return Made(left, right, (_SAME, _near("x", width)))


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
    return _made(lambda: {"k": rng.integers(0, values, rows), "a": rng.random(rows)}, _SAME, _LESS)


def _overlap(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    return _made(lambda: _intervals(rng, rows, rate / window / 2), _BEGINS, _ENDS)


def _point(rng: np.random.Generator, window: int, rows: int, rate: float) -> Made:
    left = {"t": rng.integers(0, DOMAIN, rows)}
    return Made(left, _intervals(rng, rows, rate / window), (_INSIDE,))


def _intervals(rng: np.random.Generator, rows: int, length: float) -> Columns:
    """Intervals with uniform starts and lengths, of a mean length in parts of the domain."""
    starts = rng.integers(0, DOMAIN, rows)
    return {"s": starts, "e": starts + rng.integers(0, max(1, round(2 * length * DOMAIN)), rows)}


def _bisected(chance: Callable[[float], float], wanted: float) -> float:
    """Where a falling chance is as wanted."""
    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > wanted else (low, middle)
    return high


_ALL = (
    Workload("band-2", "one band", 2.0, _band, 1),
    Workload("band-300", "one band, many matches", 300.0, _band, 1),
    Workload("correlated", "two inequalities, correlated keys", 10.0, _correlated),
    Workload("anti-correlated", "two inequalities, anti-correlated keys", 10.0, _anti_correlated),
    Workload("independent", "two inequalities, independent keys", 10.0, _independent),
    Workload("two-bands", "two bands", 5.0, _bands),
    Workload("few-keys", "equality on 64 keys and a band", 10.0, _few_keys),
    Workload("many-keys", "equality on w keys and an inequality", 0.5, _many_keys),
    Workload("overlap", "overlap of intervals", 10.0, _overlap),
    Workload("point", "point in interval", 10.0, _point),
    Workload("zipf", "equality on Zipf keys and a band", 10.0, _zipf),
    Workload("drift", "one band, drifting keys", 2.0, _drifting, 1),
    Workload("equality", "equality alone", 2.0, _equality, 1),
)
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
"""Every workload by name."""
