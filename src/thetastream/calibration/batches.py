"""Measures what steps cost in structures that take many rows at a time: joins are timed and fitted.

A join runs with a fixed tactic, and the processor time of its index is measured. The cost model
says how often a row took which step (its *bill*). The prices are those that best explain the costs
of many such joins.

Some steps always occur together, so no join tells their prices apart. Prices are therefore
regularised towards the defaults, scaled by how much slower or faster this machine is overall: a
price deviates from that only as far as the measured costs require.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.engine.stream import RoleIndex
from thetastream.metrics import Spent
from thetastream.prices.batches import Bill, Prices
from thetastream.side import Side
from thetastream.stream_join import StreamJoin
from thetastream.window.count import CountWindow

Notice = Callable[[str], None]

QUICK = ((11, 8), (11, 12), (14, 8), (14, 12))  # log2 of the rows of windows and of pushes
FULL = (*QUICK, (17, 8), (17, 12), (17, 15), (19, 13))
TIMES = 3  # groups of pushes; the best counts
ROWS = 1 << 15  # per group, at least, and four pushes
FILLING = 1 << 14  # rows of a push while the window fills, at least
HOLD = 0.005  # weight of the defaults, relative to a measured cost
MOST = 8.0  # the largest factor between a price and its scaled default
_SWEEPS = 200
_SPAN = 1 << 40


@dataclass(frozen=True, slots=True)
class Timed:
    """The measured cost of a row in nanoseconds, and its steps."""

    bill: Bill
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class _Trial:
    """A join to time: a condition with placeholders for widths, the tactic, matches per row."""

    about: str
    on: str
    tactic: str
    matches: float
    largest: int = 62  # log2 of the largest window

    def condition(self, window: int) -> str:
        """The condition that has this number of matches in a window."""
        share = min(self.matches / window, 0.125)
        return self.on.format(
            band=int(_SPAN * share / 2),
            square=int(_SPAN * share**0.5 / 2),
            corner=int(_SPAN * (1 - (2 * share) ** 0.5)),
        )


_BAND = "abs(l.x - r.x) <= {band}"
_SQUARE = "abs(l.x - r.x) <= {square} AND abs(l.y - r.y) <= {square}"
_CORNER = "l.x > r.x + {corner} AND l.y < r.y"
_TRIALS = (
    _Trial("a band", _BAND, "ordered/sorted-runs", 2.0),
    _Trial("a band with many matches", _BAND, "ordered/sorted-runs", 300.0),
    _Trial("a band in zoned runs", _BAND, "ordered/zoned-runs", 30.0),
    _Trial("a band in subwindows", _BAND, "panjoin", 2.0),
    _Trial("a band with many matches in subwindows", _BAND, "panjoin", 300.0),
    _Trial("an equality", "l.k = r.k", "hash", 1.0),
    _Trial("two bands in cells", _SQUARE, "cells", 2.0),
    _Trial("two bands in sorted runs", _SQUARE, "ordered/sorted-runs", 2.0),
    _Trial("two bands in zoned runs", _SQUARE, "ordered/zoned-runs", 2.0),
    _Trial("two inequalities in zoned runs", _CORNER, "ordered/zoned-runs", 8.0, 17),
    _Trial("two inequalities in sorted runs", _CORNER, "ordered/sorted-runs", 8.0, 14),
    _Trial("two inequalities in permutations", _CORNER, "spo-join", 8.0, 17),
    _Trial("two bands in permutations", _SQUARE, "spo-join", 2.0, 17),
    _Trial("every row against every row", _BAND, "nested-loop", 2.0, 11),
)


def measure(sizes: Sequence[tuple[int, int]] = FULL, *, notice: Notice | None = None) -> Prices:
    """Measure the prices at windows and pushes of these sizes (logarithms of rows)."""
    timed: list[Timed] = []
    for window, batch in sizes:
        if notice is not None:
            notice(f"windows of 2^{window} rows, pushes of 2^{batch}")
        for trial in _TRIALS:
            if window <= trial.largest:
                timed += _timed(trial, 1 << window, 1 << batch)
    return fitted(timed)


def _timed(trial: _Trial, window: int, batch: int) -> list[Timed]:
    """Time both sides of a join with full windows."""
    rng = np.random.default_rng(window)
    join = _Join(
        trial.condition(window), window=CountWindow(window), tactic=trial.tactic, columns=["x"]
    )
    for _ in range(-(-window // max(FILLING, batch)) + 1):
        _push(join, rng, window, max(FILLING, batch))
    pushes = max(4, ROWS // batch)
    for _ in range(pushes):
        _push(join, rng, window, batch)
    best = dict.fromkeys(Side, math.inf)
    for _ in range(TIMES):
        join.begin()
        for _ in range(pushes):
            _push(join, rng, window, batch)
        best = {side: min(best[side], join.cost(side)) for side in Side}
    return [Timed(join.bill(side, batch), best[side]) for side in Side]


class _Join(StreamJoin):
    """A join that exposes the costs of its indexes."""

    def _role_index(self, side: Side) -> RoleIndex:
        assert self._engine is not None
        return self._engine.streams[side].indexes[side]

    def begin(self) -> None:
        """Count costs from now on."""
        for side in Side:
            self._role_index(side).spent = Spent()

    def cost(self, side: Side) -> float:
        """Nanoseconds per row."""
        cost = self._role_index(side).spent.per_row
        return math.inf if cost is None else cost

    def bill(self, side: Side, batch: int) -> Bill:
        """The steps that a row takes in pushes of this size."""
        assert self._engine is not None
        return self._engine.planner.appraised(side, self._engine.by_role, batch).bill


def _push(join: StreamJoin, rng: np.random.Generator, window: int, rows: int) -> None:
    def batch() -> pa.RecordBatch:
        keys = {name: rng.integers(0, _SPAN, rows) for name in ("x", "y")}
        return pa.record_batch({**keys, "k": rng.integers(0, window, rows)})

    for _ in join.push(left=batch(), right=batch()):
        pass


# --- From bills to prices ------------------------------------------------------------------------


def fitted(timed: Sequence[Timed], defaults: Prices | None = None) -> Prices:
    """The prices that minimise the squared relative errors of measured costs.

    A price that occurs in no bill is scaled by the overall speed of the machine.
    """
    usual = Prices() if defaults is None else defaults
    costs = usual.as_dict()
    names = list(costs)
    parts = np.array([[each.bill.get(n, 0.0) * costs[n] for n in names] for each in timed])
    measured = np.array([each.nanoseconds for each in timed])
    whole = float(np.exp(np.median(np.log(measured / parts.sum(axis=1)))))
    factors = whole * _factors(whole * parts / measured[:, None])
    pairs = zip(names, factors, strict=True)
    return Prices(**{name: float(f"{costs[name] * factor:.3g}") for name, factor in pairs})


def _factors(parts: NDArray[np.float64]) -> NDArray[Any]:
    """Column factors that bring every row near 1, regularised to 1, by coordinate descent."""
    factors = np.ones(parts.shape[1])
    left = 1.0 - parts.sum(axis=1)
    hold = HOLD * len(parts) / len(factors)
    for _ in range(_SWEEPS):
        for at, part in enumerate(parts.T):
            weight = float(part @ part)
            better = (float(part @ left) + weight * factors[at] + hold) / (weight + hold)
            better = min(max(better, 1 / MOST), MOST)
            left -= part * (better - factors[at])
            factors[at] = better
    return factors
