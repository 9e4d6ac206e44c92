"""Measures what steps cost in structures that take many rows at a time: joins, timed and fitted.

A join is run with a tactic that is named, and the processor time of its index is taken. The cost
model says how often a row took which step (its *bill*). Many joins give many bills, and the prices
are those that explain best what all of them cost.

Different steps often come together, so that no join tells their prices apart. Prices are therefore
held to the defaults, all of them multiplied by what this machine is slower or faster on the whole:
a price moves away from that only as far as the measured costs ask for it.
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
from thetastream.join import StreamJoin
from thetastream.metrics import Spent
from thetastream.prices.batches import Bill, Prices
from thetastream.side import Side
from thetastream.window.count import CountWindow

Notice = Callable[[str], None]

QUICK = ((11, 8), (11, 12), (14, 8), (14, 12))  # log2 of the rows of windows and of pushes
FULL = (*QUICK, (17, 8), (17, 12), (17, 15), (19, 13))
TIMES = 3  # groups of pushes, of which the best counts
ROWS = 1 << 15  # per group, at least, and four pushes
FILLING = 1 << 14  # rows of a push while the window fills, at least
HOLD = 0.005  # how much prices are held to the defaults, beside a measured cost
MOST = 8.0  # no price is further from the default, on the whole machine's scale
_SWEEPS = 200
_SPAN = 1 << 40


@dataclass(frozen=True, slots=True)
class Timed:
    """What a row cost in nanoseconds, and the steps it took."""

    bill: Bill
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class _Trial:
    """A join to time: a condition with gaps for widths, the tactic, and matches per row."""

    about: str
    on: str
    tactic: str
    matches: float
    largest: int = 62  # log2 of the largest window

    def condition(self, window: int) -> str:
        """The condition that gives so many matches in a window."""
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
    found: list[Timed] = []
    for window, batch in sizes:
        if notice is not None:
            notice(f"windows of 2^{window} rows, pushes of 2^{batch}")
        for trial in _TRIALS:
            if window <= trial.largest:
                found += _timed(trial, 1 << window, 1 << batch)
    return fitted(found)


def _timed(trial: _Trial, window: int, batch: int) -> list[Timed]:
    """Both sides of a join with full windows."""
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
    """A join that tells what its indexes cost."""

    def _role_index(self, side: Side) -> RoleIndex:
        assert self._engine is not None
        return self._engine.streams[side].indexes[side]

    def begin(self) -> None:
        """Count costs from now on."""
        for side in Side:
            self._role_index(side).spent = Spent()

    def cost(self, side: Side) -> float:
        """Nanoseconds per row."""
        found = self._role_index(side).spent.per_row
        return math.inf if found is None else found

    def bill(self, side: Side, batch: int) -> Bill:
        """The steps that a row takes in pushes of this size."""
        assert self._engine is not None
        return self._engine.planner.appraised(side, self._engine.streams[side], batch).bill


def _push(join: StreamJoin, rng: np.random.Generator, window: int, rows: int) -> None:
    def made() -> pa.RecordBatch:
        keys = {name: rng.integers(0, _SPAN, rows) for name in ("x", "y")}
        return pa.record_batch({**keys, "k": rng.integers(0, window, rows)})

    for _ in join.push(left=made(), right=made()):
        pass


# --- From bills to prices ------------------------------------------------------------------------


def fitted(timed: Sequence[Timed], defaults: Prices | None = None) -> Prices:
    """The prices that explain best what rows did cost, relative errors being squared.

    A price that is in no bill is multiplied by what the machine is slower or faster on the whole.
    """
    usual = Prices() if defaults is None else defaults
    costs = usual.as_dict()
    names = list(costs)
    parts = np.array([[each.bill.get(n, 0.0) * costs[n] for n in names] for each in timed])
    measured = np.array([each.nanoseconds for each in timed])
    whole = float(np.exp(np.median(np.log(measured / parts.sum(axis=1)))))
    factors = whole * _factors(whole * parts / measured[:, None])
    return Prices(**{n: _three_digits(costs[n] * f) for n, f in zip(names, factors, strict=True)})


def _factors(parts: NDArray[np.float64]) -> NDArray[Any]:
    """Factors of the columns that bring every row near 1, held to 1: one at a time, in turns."""
    factors = np.ones(parts.shape[1])
    left = 1.0 - parts.sum(axis=1)
    hold = HOLD * len(parts)
    for _ in range(_SWEEPS):
        for at, part in enumerate(parts.T):
            weight = float(part @ part)
            better = (float(part @ left) + weight * factors[at] + hold / len(factors)) / (
                weight + hold / len(factors)
            )
            better = min(max(better, 1 / MOST), MOST)
            left -= part * (better - factors[at])
            factors[at] = better
    return factors


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
