"""Band widths and offsets for a wanted match rate, and the counting that proves them.

The **match rate** is the number of matches (output pairs) an arriving row finds once the window is
full. In a join of two streams an arriving row meets the last ``window`` rows of the other stream,
so the rate is ``window`` × the chance that a pair matches. In a self-join it meets the last
``window`` rows of its own stream in both roles, as left row and as right row, so the rate is twice
that: one pair of rows inside a band counts as two matches, as in SQL.

Three ways to a parameter, from exact to general:

- :func:`uniform_band_width`, :func:`gaussian_band_width`: closed forms, no data needed;
- :func:`band_width`, :func:`inequality_offset`: from the data itself. A pair of rows matches when
  the parameter reaches a certain value; over the true windows of seeded sample rows, the wanted
  quantile of these values is the answer. That is what a bisection over the parameter would find,
  in one pass. It respects order, so drifting and increasing keys work too;
- :func:`measured_match_rate` counts the matches of a parameter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, cycle
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import DataError

Keys: TypeAlias = NDArray[np.int64] | NDArray[np.float64]
Columns: TypeAlias = Keys | tuple[Keys, ...]

_COMPARISONS = 1 << 28  # pairs compared by one call, unless the caller sets a sample
_ROWS = 1 << 14  # sample rows, unless the caller sets a sample
_KEPT = 1 << 16  # matches that a tuning considers


class Shape(Enum):
    """The shape of a join condition that has one parameter."""

    BAND = "band"
    """``abs(l.x - r.x) <= width`` in every column (any number of columns)."""

    INEQUALITIES = "inequalities"
    """``l.a - offset < r.a AND l.b + offset > r.b`` (two columns, in this order)."""

    def reach(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> NDArray[Any]:
        """Return the smallest parameter with which each pair matches (inequalities: just above).

        Columns broadcast: a scalar per column on one side, arrays on the other.
        """
        if self is Shape.BAND:
            gaps = [np.abs(a - b) for a, b in zip(left, right, strict=True)]
        else:
            gaps = [left[0] - right[0], right[1] - left[1]]
        return np.asarray(gaps[0] if len(gaps) == 1 else np.maximum.reduce(gaps))

    def holds(
        self, left: tuple[Any, ...], right: tuple[Any, ...], parameter: float
    ) -> NDArray[np.bool_]:
        """Say which pairs match, with the comparisons of the SQL text."""
        if self is Shape.BAND:
            return np.asarray(self.reach(left, right) <= parameter)
        below = left[0] - parameter < right[0]
        return np.asarray(below & (left[1] + parameter > right[1]))


def pair_chance(window: int, match_rate: float, *, self_join: bool = False) -> float:
    """Turn a match rate into the chance that one pair of rows matches.

    >>> pair_chance(1000, 2.0)
    0.002
    >>> pair_chance(1000, 2.0, self_join=True)
    0.001
    """
    if window < 1:
        raise DataError(f"window must be at least 1 row; got {window}.")
    most = 2 * window if self_join else window
    if not 0 < match_rate <= most:
        raise DataError(
            f"match_rate must be above 0 and at most {most} for a window of {window} rows; "
            f"got {match_rate}. Use a larger window or a smaller rate."
        )
    return match_rate / most


def uniform_band_width(
    domain: float,
    *,
    window: int,
    match_rate: float,
    columns: int = 1,
    self_join: bool = False,
    integer: bool = True,
) -> float:
    """Band width for independent uniform keys in ``[0, domain)``. Exact, O(1).

    With real keys a pair is within ``d`` with chance ``1 - (1 - d / n)²``; with integer keys with
    chance ``(n (2 d + 1) - d (d + 1)) / n²``, and the whole number nearest to the rate is returned.
    Several columns are independent: each has the ``columns``-th root of the chance.

    >>> uniform_band_width(2**31, window=2**20, match_rate=2.0)
    2048
    """
    chance = math.pow(pair_chance(window, match_rate, self_join=self_join), 1 / columns)
    if not integer:
        return domain * chance / (1 + math.sqrt(1 - chance))  # n (1 - √(1 - p)), no cancellation
    half = domain - 0.5  # d² - (2 n - 1) d + n (n p - 1) = 0, its smaller root
    constant = domain * (domain * chance - 1)
    width = constant / (half + math.sqrt(max(half * half - constant, 0.0)))

    def miss(d: int) -> float:
        return abs((domain * (2 * d + 1) - d * (d + 1)) / (domain * domain) - chance)

    low = max(math.floor(width), 0)
    return min((low, low + 1), key=miss)


def gaussian_band_width(
    sigma: float, *, window: int, match_rate: float, columns: int = 1, self_join: bool = False
) -> float:
    """Band width for independent normal keys of standard deviation ``sigma``. Exact, O(1).

    The difference of two such keys is normal with deviation ``sigma √2``.

    >>> round(gaussian_band_width(1.0, window=1000, match_rate=500.0), 4)  # half of all pairs
    0.9539
    """
    chance = math.pow(pair_chance(window, match_rate, self_join=self_join), 1 / columns)
    if chance == 1:
        return math.inf
    return sigma * math.sqrt(2) * NormalDist().inv_cdf((1 + chance) / 2)


def band_width(
    left: Columns,
    right: Columns | None = None,
    *,
    window: int,
    match_rate: float,
    seed: int = 0,
    sample: int | None = None,
) -> float:
    """Band width for keys of any distribution and order, from a seeded sample of rows.

    ``left`` and ``right`` are one key array or a tuple of them (one band in each column, of the
    same width); ``right=None`` is a self-join. Integer keys return a whole number. Keys with
    many duplicates may have no width with the wanted rate: the nearest is returned, and
    :func:`measured_match_rate` measures it.

    ``sample`` rows are compared with their whole windows. By default up to 16,384 rows are, and
    from large windows every row sees a random part, so that a call takes a few seconds. The
    relative error is about ``1 / √matches seen``: 1 % for a window of 10,000 rows, 4 % for a
    million, at rate 2. It is larger when few rows have most of the matches.
    """
    return _tuned(Shape.BAND, left, right, window, match_rate, seed, sample)


def inequality_offset(
    left: tuple[Keys, Keys],
    right: tuple[Keys, Keys] | None = None,
    *,
    window: int,
    match_rate: float,
    seed: int = 0,
    sample: int | None = None,
) -> float:
    """Offset ``c`` so that ``l.a - c < r.a AND l.b + c > r.b`` has the wanted match rate.

    The chance of a match grows with ``c`` from 0 to 1, so every rate can be had. Subtract it from
    the left ``a`` and add it to the left ``b`` to use it in plain ``l.a < r.a AND l.b > r.b``.
    Cost and error as in :func:`band_width`.
    """
    return _tuned(Shape.INEQUALITIES, left, right, window, match_rate, seed, sample)


def measured_match_rate(
    shape: Shape,
    parameter: float,
    left: Columns,
    right: Columns | None = None,
    *,
    window: int,
    seed: int = 0,
    sample: int | None = None,
) -> float:
    """Count matches per arriving row, over the true windows of a seeded sample of rows.

    Rows arrive in turns: left 0, right 0, left 1, right 1, … ``sample`` is as in
    :func:`band_width`; one as large as the data counts exactly, over every row that arrives at a
    full window.

    >>> keys = np.arange(100)
    >>> measured_match_rate(Shape.BAND, 1, keys, window=10)  # row i - 1, in both roles
    2.0
    >>> measured_match_rate(Shape.BAND, 1, keys, keys, window=10)
    1.5
    """
    sides = _sides(left, right)
    _full(sides, window)
    plan = _Plan.of(len(sides[0][0]), window, sample)
    matches = rows = 0
    for turn in _turns(sides, plan, seed):
        matches += sum(int(shape.holds(a, b, parameter).sum()) for a, b in turn)
        rows += 1
    return matches * plan.step / rows


def _sides(left: Columns, right: Columns | None) -> list[tuple[Keys, ...]]:
    """Return one tuple of columns for a self-join, two for a join of two streams."""
    both = [left] if right is None else [left, right]
    sides = [keys if isinstance(keys, tuple) else (keys,) for keys in both]
    if len({len(column) for side in sides for column in side}) != 1:
        raise DataError("key columns must have the same number of rows on both sides.")
    return sides


def _full(sides: list[tuple[Keys, ...]], window: int) -> None:
    rows = len(sides[0][0])
    if rows <= window:
        raise DataError(
            f"{rows} rows never meet a full window of {window}; make more rows than that."
        )


@dataclass(frozen=True)
class _Plan:
    """Which pairs to look at: ``sample`` of all rows, each with 1/``step`` of its window."""

    rows: int
    window: int
    sample: int
    step: int

    @classmethod
    def of(cls, rows: int, window: int, sample: int | None) -> _Plan:
        if sample is not None:
            return cls(rows, window, min(sample, rows - window), 1)
        sample = min(_ROWS, rows - window)
        return cls(rows, window, sample, math.ceil(sample * window / _COMPARISONS))


def _turns(
    sides: list[tuple[Keys, ...]], plan: _Plan, seed: int
) -> Iterator[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    """Yield, per sample row, ``(left, right)`` keys: the row against the rows of its window.

    A row of a self-join has two roles. A random first row makes the thinned window unbiased.
    """
    rng = np.random.default_rng(seed)
    arrivals = plan.window + rng.choice(plan.rows - plan.window, plan.sample, replace=False)
    arrivals.sort()
    firsts = rng.integers(0, plan.step, plan.sample)
    exact = plan.sample == plan.rows - plan.window
    for at, first, swap in zip(arrivals.tolist(), firsts.tolist(), cycle((0, 1)), strict=False):
        for role in (0, 1) if exact and len(sides) == 2 else (swap,):
            own, other = sides[role % len(sides)], sides[role - 1]
            end = at + role if len(sides) == 2 else at  # left i has arrived before right i
            fresh = tuple(column[at] for column in own)
            window = slice(end - plan.window + first, end, plan.step)
            stored = tuple(column[window] for column in other)
            if len(sides) == 1:
                yield [(fresh, stored), (stored, fresh)]
            else:
                yield [(stored, fresh) if role else (fresh, stored)]


def _tuned(
    shape: Shape,
    left: Columns,
    right: Columns | None,
    window: int,
    match_rate: float,
    seed: int,
    sample: int | None,
) -> float:
    """Return the parameter with which the wanted number of sampled pairs match."""
    sides = _sides(left, right)
    chance = pair_chance(window, match_rate, self_join=right is None)
    rows = len(sides[0][0])
    if rows < 4:
        raise DataError(f"at least 4 rows are needed to tune a match rate; got {rows}.")
    seen = min(window, rows // 2)  # short data: a smaller window, the same chance
    plan = _Plan.of(rows, seen, sample)
    turns = list(_turns(sides, plan, seed))  # views, no copies
    wanted = chance * seen / plan.step * sum(map(len, turns))
    thin = min(1.0, _KEPT / wanted)  # of very many matches a random part is enough
    rng = np.random.default_rng([seed, 1])
    tally = _Tally(wanted * thin)
    for a, b in chain.from_iterable(turns):
        reach = shape.reach(a, b)
        tally.add(reach if thin == 1 else reach[rng.random(len(reach)) < thin])
    return tally.nearest(shape)


class _Tally:
    """The smallest reaches seen so far, as distinct values with counts.

    Cut at the value where the wanted number is passed. That value can only fall, so little is
    kept after the first rows. Fresh values wait until they are worth a merge.
    """

    def __init__(self, wanted: float) -> None:
        self.wanted = wanted
        self.values: NDArray[Any] | None = None
        self.counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.full = False
        self.waiting: list[NDArray[Any]] = []

    def add(self, more: NDArray[Any]) -> None:
        if self.full and self.values is not None:
            more = more[more <= self.values[-1]]
        self.waiting.append(more)
        if sum(map(len, self.waiting)) >= len(self.counts):
            self.merge()

    def merge(self) -> None:
        fresh, times = np.unique(np.concatenate(self.waiting), return_counts=True)
        self.waiting = []
        if self.values is None:
            values, counts = fresh, times
        else:
            values, where = np.unique(np.concatenate([self.values, fresh]), return_inverse=True)
            both = np.concatenate([self.counts, times])
            counts = np.bincount(where, both, len(values)).astype(np.int64)
        last = int(np.searchsorted(np.cumsum(counts), self.wanted, side="right"))
        self.full = last < len(values)
        self.values, self.counts = values[: last + 1], counts[: last + 1]

    def nearest(self, shape: Shape) -> float:
        """Choose the value whose number of matches is nearest to the wanted one.

        A band holds at its value already; inequalities are strict and hold just above it.
        """
        if self.waiting:
            self.merge()
        assert self.values is not None
        best = int(np.argmin(np.abs(np.cumsum(self.counts) - self.wanted)))
        value = self.values[best].item()
        if shape is Shape.BAND:
            return value  # type: ignore[no-any-return]
        if isinstance(value, int):
            return value + 1
        above = self.values[best + 1].item() if best + 1 < len(self.values) else math.inf
        middle = (value + above) / 2
        return middle if value < middle < above else math.nextafter(value, math.inf)
