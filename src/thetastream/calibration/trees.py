"""Measures the constants of trees: short joins of growing windows, timed step by step.

Each constant comes from the simplest structure that shows it, at every size:

    b+tree               its three steps: λ_b^s, λ_b^d, λ_b^i; at a higher match rate: τ_c
    im-tree, m = 1/16    its search, less T_I: λ_ib^s; at a higher match rate: τ_c in runs
    im-tree, m = 1/64    merges with more rows of T_S per row of T_I
    nested-loop          a window of one row: the clock, and the cost of a tuple outside its index;
                         a larger one: passing a row

Everything else is predicted. Reading the clock costs some 25 ns, which is measured and subtracted.
It also keeps the processor from overlapping two steps, so the steps of a timed join do not add up
to the time of an untimed one; they are scaled to it.

The cost of a tree is the sum over its levels, and levels above the leaves are as large as the
leaves of smaller trees. So sizes are solved in ascending order: the rest of a search, after the
levels that are already known, is the cost of a leaf in a level of that size. Nodes in larger levels
never cost less; where noise says otherwise, neighbours are averaged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.plan.cost import Cost, Tree, immutable_tree, mutable_tree
from thetastream.prices.constants import CALIBRATED, Constants, Table, at
from thetastream.tuplewise.ibwj import IndexJoin

Notice = Callable[[str], None]

QUICK = (8, 11, 14, 17)  # log2 of window sizes
FULL = (7, 9, 11, 13, 15, 17, 19, 21)
SECONDS = {True: 4.0, False: 50.0}  # quick or not: after which no larger size is started
_LONG, _SHORT = 1 << 15, 1 << 13  # tuples per timing, at least: of a join, and of its steps
_PIECE = 1 << 10  # tuples between two readings of the steps
_TIMED = 1 << 16  # tuples of all timings of one kind, at least
_REPEATS = 3  # timings of one kind, at least
_PART = 8  # a timing is of at least this part of the window, for a whole number of merges
_FEW, _MANY = 2.0, 256.0  # match rates
_RATIO, _SMALL = 1 / 16, 1 / 64  # merge ratios; tuples timed of each side are a multiple
_SCANNED = 12
_SPAN = 1 << 62


def measure(
    sizes: Sequence[int] = FULL, *, seconds: float = math.inf, notice: Notice | None = None
) -> Constants:
    """Measure the constants at windows of ``2 ** size`` rows.

    Larger windows are skipped if they would not finish in ``seconds``; two are always measured.
    """
    base = _base()
    points: list[_Point] = []
    begin = time.perf_counter()
    pace = 0.0  # seconds per tuple of the last size
    for size in sizes:
        started = time.perf_counter()
        if len(points) > 1 and started - begin + pace * _work(size) > seconds:
            break
        if notice is not None:
            notice(f"windows of 2^{size} rows")
        points.append(_point(size, base))
        pace = (time.perf_counter() - started) / _work(size)
    return _constants(base, points)


def _work(size: int) -> float:
    """Roughly how many tuples are joined to measure a size."""
    return _TIMED + 3 * 2.0**size


# --- Measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Base:
    """Costs common to all structures.

    The clock per step, the fixed part of a search, a tuple outside its index, a scanned row.
    """

    clock: float
    start: float
    window: float
    scan: float


@dataclass(frozen=True, slots=True)
class _Point:
    """The measurements at one size; costs exclude the clock and all but the structure."""

    size: int
    tree: Cost  # b+tree
    merged: Cost  # im-tree
    merge_often: float  # per tuple, at the smaller merge ratio
    compare: float
    compare_run: float


def _base() -> _Base:
    timed, plain = _Bench("nested-loop", 0, steps=True), _Bench("nested-loop", 0)
    steps = timed.steps(_FEW)
    clock = steps["insert"]  # a nested loop inserts nothing: only the clock
    window = plain.total(_FEW)
    scanned = _Bench("nested-loop", _SCANNED).total(_FEW, _SHORT)
    return _Base(
        clock=clock,
        start=max(0.0, steps["search"] - clock),
        window=window,
        scan=max(0.0, scanned - window) / 2.0**_SCANNED,
    )


def _point(size: int, base: _Base) -> _Point:
    tree, compare, _ = _measured("b+tree", size, base)
    merged, compare_run, factor = _measured("im-tree", size, base, merge_ratio=_RATIO)
    often = factor * _Bench("im-tree", size, steps=True, merge_ratio=_SMALL).steps(None)["merge"]
    return _Point(size, tree, merged, often, compare, compare_run)


def _measured(name: str, size: int, base: _Base, **parameters: Any) -> tuple[Cost, float, float]:
    """The steps of a structure, the cost of a further match, and the scale of timed steps."""
    timed = _Bench(name, size, steps=True, **parameters)
    rate = min(_MANY, 2.0**size / 4)
    few, many = timed.steps(_FEW), timed.steps(rate, part=False)
    total = _Bench(name, size, **parameters).total(_FEW)
    steps = Cost(
        search=max(1.0, few["search"] - base.clock - base.start),
        delete=max(0.0, few["delete"] - base.clock),
        insert=max(1.0, few["insert"] - base.clock),
        merge=few["merge"],
    )
    scaled, factor = _scaled(steps, total - base.window)
    per_match = max(0.1, factor * (many["search"] - few["search"]) / (rate - _FEW))
    return scaled, per_match, factor


def _scaled(steps: Cost, total: float) -> tuple[Cost, float]:
    """Steps that add up to the time of an untimed join, and the factor."""
    factor = min(max(max(total, 1.0) / steps.total, 0.5), 1.5)
    return Cost(*(factor * part for part in astuple(steps))), factor


class _Bench:
    """A join with full windows of ``2 ** size`` rows on both sides, ready to be timed.

    Other work on the machine interrupts. So a join is timed by the processor time of its thread,
    and the best time counts. Steps use wall-clock time: they are timed in pieces so short that most
    are not interrupted, and the median counts. Merges are not in every piece, so they are summed,
    and the best sum counts.
    """

    def __init__(self, name: str, size: int, *, steps: bool = False, **parameters: Any) -> None:
        self._rows = 1 << size
        self._join = IndexJoin(name, (self._rows, self._rows), steps=steps, parameters=parameters)
        self._random = np.random.default_rng(size)
        self._fed = 0
        for start in range(0, 2 * self._rows, 1 << 18):
            self._run(min(1 << 18, 2 * self._rows - start), None)
        self._run(max(2, self._rows // _PART), None)  # so that rows have begun to leave

    def _feed(self, tuples: int, rate: float | None) -> tuple[Array, Array, Array, Array]:
        """Equally many tuples of both sides; without a rate they search for nothing."""
        keys = self._random.integers(0, _SPAN, tuples)
        reach = -1 if rate is None else int(_SPAN * rate / self._rows / 2)
        sides = self._random.permutation(np.arange(tuples) & 1)
        return sides, keys, keys - reach, keys + reach

    def _run(self, tuples: int, rate: float | None) -> float:
        """Join some more tuples; return nanoseconds per tuple."""
        feed = self._feed(tuples, rate)
        begin = time.thread_time_ns()
        for _ in self._join.run(*feed):
            pass
        took = time.thread_time_ns() - begin
        self._fed += tuples
        return took / tuples

    def _times(self, least: int) -> tuple[int, range]:
        """How many tuples to time at once, and how many times."""
        tuples = max(least, self._rows // _PART)
        return tuples, range(max(_REPEATS, _TIMED // tuples))

    def total(self, rate: float | None, least: int = 0) -> float:
        """Nanoseconds per tuple: the best of a few."""
        tuples, times = self._times(least or _LONG)
        return min(self._run(tuples, rate) for _ in times)

    def steps(self, rate: float | None, *, part: bool = True) -> dict[str, float]:
        """Nanoseconds per tuple and step, as reported by the join.

        Merges are incomplete unless a ``part`` of the window is timed.
        """
        tuples, times = self._times(_SHORT) if part else (_SHORT, range(_REPEATS))
        piece = min(_PIECE, tuples)
        parts = [[self._one(piece, rate) for _ in range(tuples // piece)] for _ in times]
        pieces = [costs for each in parts for costs in each]
        merges = [fmean(costs["merge"] for costs in each) for each in parts]
        middle = {step: median(costs[step] for costs in pieces) for step in pieces[0]}
        return {**middle, "merge": min(merges)}

    def _one(self, tuples: int, rate: float | None) -> dict[str, float]:
        before = {step: cost * self._fed for step, cost in self._join.costs.items()}
        self._run(tuples, rate)
        return {
            step: (cost * self._fed - before[step]) / tuples
            for step, cost in self._join.costs.items()
        }


# --- From steps to constants ---------------------------------------------------------------------


def _constants(base: _Base, points: Sequence[_Point]) -> Constants:
    rows = [2.0**point.size for point in points]
    trees = [mutable_tree(count, 32, 32) for count in rows]
    compare = _table(rows, [point.compare for point in points])
    search = _per_node(
        trees, [p.tree.search - _FEW * at(compare, n) for p, n in zip(points, rows, strict=True)]
    )
    leaves = [tree.leaves for tree in trees]
    inner = [tree.inner.visit(search) for tree in trees]
    known = Constants(
        search=search,
        insert=_left_over(leaves, [point.tree.insert for point in points], inner),
        delete=_left_over(leaves, [point.tree.delete for point in points], inner),
        compare=compare,
        scan=round(base.scan, 4),
        window=round(base.window, 1),
        source=CALIBRATED,
    )
    return _with_runs(known, rows, points)


def _with_runs(known: Constants, rows: Sequence[float], points: Sequence[_Point]) -> Constants:
    """Add the costs of the immutable tree and of merging."""
    half = _RATIO / 2
    run = [p.compare_run - half * at(known.compare, n) for p, n in zip(points, rows, strict=True)]
    compare_run = _table(rows, run)
    trees = [immutable_tree(count, 32, 16) for count in rows]

    searches = [
        point.merged.search
        - mutable_tree(half * count, 32, 32).visit(known.search)
        - _FEW * (at(compare_run, count) + half * at(known.compare, count))
        for point, count in zip(points, rows, strict=True)
    ]
    # A merge costs a / m + b per tuple: two merge ratios determine a and b.
    many, few = 1 / _SMALL, 1 / _RATIO
    a = [max(0.1, (p.merge_often - p.merged.merge) / (many - few)) for p in points]
    b = [max(0.0, p.merged.merge - few * cost) for p, cost in zip(points, a, strict=True)]
    return replace(
        known,
        compare_run=compare_run,
        immutable=_per_node(trees, searches),
        merge=_table(rows, a),
        merge_young=_table(rows, b),
    )


def _per_node(trees: Sequence[Tree], searches: Sequence[float]) -> Table:
    """λ by the nodes of a level, from the costs of searches in trees of ascending size."""
    costs: list[tuple[float, float]] = []
    for tree, search in zip(trees, searches, strict=True):
        cost = search - tree.inner.visit(tuple(costs)) if costs else search / tree.height
        costs.append((math.log2(tree.leaves), max(cost, 1.0)))
    return _rising(costs)


def _left_over(leaves: Sequence[float], costs: Sequence[float], inner: Sequence[float]) -> Table:
    """The rest of each step's cost, after the inner nodes: the cost of a leaf."""
    return _table(leaves, [max(1.0, c - i) for c, i in zip(costs, inner, strict=True)])


def _table(counts: Sequence[float], costs: Sequence[float]) -> Table:
    return _rising([(math.log2(count), cost) for count, cost in zip(counts, costs, strict=True)])


def _rising(entries: Sequence[tuple[float, float]]) -> Table:
    """Entries whose costs never fall: neighbours that do are averaged."""
    groups: list[list[float]] = []
    for _, cost in entries:
        groups.append([max(cost, 0.0)])
        while any(fmean(a) > fmean(b) for a, b in pairwise(groups[-2:])):
            groups[-2:] = [groups[-2] + groups[-1]]
    costs = [fmean(group) for group in groups for _ in group]
    return tuple(
        (round(size, 2), round(cost, 2)) for (size, _), cost in zip(entries, costs, strict=True)
    )
