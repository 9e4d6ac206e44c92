"""The named experiments: Figures 8–14 of the PIM-Tree paper, and four of our own.

Figure 11d, the memory bandwidth, is missing: it needs the processor's counters, which a program
without special rights cannot read.

Windows and lists are chosen so that all of it takes less than 25 minutes on two cores. Where the
paper uses 16 threads there are two here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from thetabench import figure as plans
from thetabench.figure import Figure, Sizes, power
from thetabench.pim.contestant import Contestant
from thetabench.pim.plan import Cell
from thetabench.pim.stream import Shape
from thetastream.index.trees.pim_tree import PimTree

__all__ = ["FIGURES", "cells", "chosen"]

THREADS = 2
RATIOS = tuple(2.0**-e for e in range(6, -1, -1))
TASK_SIZES = (1, 2, 4, 8, 16, 32, 64)
DRIFTS = (0.0, 0.2, 0.6, 1.0)
ONE_THREAD = ("b+tree", "im-tree", "pim-tree")
NOT_MEASURED = {"11d": "memory bandwidth needs the processor's counters, which cannot be read here"}


def _threaded(structure: str, place: float, note: str = "", **more: object) -> Contestant:
    label = f"{structure}, {THREADS} threads{note}"
    return Contestant(label, structure, place, THREADS, **more)  # type: ignore[arg-type]


def _all_windows(
    name: str, contestants: Sequence[Contestant], exponents: Sequence[int], sizes: Sizes,
    weight: float = 1.0, self_join: bool = False,
) -> list[Cell]:  # fmt: skip
    """A cell per window size, with the same contestants in each."""
    made = []
    for window in sizes.windows(*exponents):
        placed = tuple(_at(who, window) for who in contestants)
        made.append(Cell(name, _shape(sizes, window, self_join=self_join), placed, weight))
    return made


def _at(who: Contestant, place: float, **more: object) -> Contestant:
    return Contestant(**{**vars(who), "place": place, **more})


def _shape(sizes: Sizes, window: int, **more: object) -> Shape:
    return Shape(window, seed=sizes.seed, **more)  # type: ignore[arg-type]


# --- Figure 8: existing approaches, insertion depth ----------------------------------------------


def _approaches(sizes: Sizes) -> list[Cell]:
    who = (
        Contestant("nested-loop", "nested-loop", 0),
        _threaded("nested-loop", 0),
        Contestant("b+tree", "b+tree", 0),
        _threaded("round-robin", 0),
        _threaded("optimistic-tree", 0),
    )
    return _all_windows("8a", who, (12, 14, 16, 18, 20), sizes, weight=0.5)


def _chains(sizes: Sizes) -> list[Cell]:
    who = [Contestant("b+tree", "b+tree", 1)]
    for length in (2, 3, 4, 6, 8):
        for name, immutable in (("B-chain", False), ("IB-chain", True)):
            settings = (("length", length), ("immutable", immutable))
            who.append(Contestant(name, "chained", length, parameters=settings))
    return [Cell("8b", _shape(sizes, sizes.window(20)), tuple(who), 0.7)]


def _depths(name: str, threads: int, sizes: Sizes) -> list[Cell]:
    made = []
    for window in sizes.windows(16, 18, 20):
        who = tuple(
            Contestant(f"w = {power(window)}", "pim-tree", depth, threads, (("depth", depth),))
            for depth in range(_levels(window) + 1)
        )
        made.append(Cell(name, _shape(sizes, window), who, 0.5))
    return made


def _levels(window: int) -> int:
    """Levels of inner nodes of T_S; subindexes at this depth belong to one leaf each."""
    recipe = PimTree.recipe(window)
    nodes, levels = -(-window // recipe.run_leaf), 0
    while nodes > 1:
        nodes, levels = -(-nodes // recipe.run_fanout), levels + 1
    return levels


# --- Figure 9: merge ratio, steps ----------------------------------------------------------------


def _ratios(name: str, structure: str, threads: int, sizes: Sizes) -> list[Cell]:
    made = []
    for window in sizes.windows(16, 18, 20):
        who = tuple(
            Contestant(f"w = {power(window)}", structure, m, threads, (("merge_ratio", m),))
            for m in RATIOS
        )
        made.append(Cell(name, _shape(sizes, window), who, 0.5))
    return made


def _steps(sizes: Sizes) -> list[Cell]:
    who = [Contestant(name, name, 0, steps=True) for name in ONE_THREAD]
    return _all_windows("9b", who, (17, 23), sizes)


# --- Figure 10: structures, match rate, task size ------------------------------------------------


def _structures(sizes: Sizes) -> list[Cell]:
    who = [Contestant(name, name, 0) for name in ONE_THREAD]
    return _all_windows("10a", who, range(16, 24), sizes)


def _rates(sizes: Sizes) -> list[Cell]:
    made = []
    window = sizes.window(20)
    for rate in (2.0**e for e in (-4, 1, 4, 7, 10)):
        who = [Contestant(name, name, rate) for name in ONE_THREAD]
        who.append(_threaded("pim-tree", rate))
        made.append(Cell("10b", _shape(sizes, window, match_rate=rate), tuple(who), 0.7))
    return made


def _tasks(name: str, record: bool, sizes: Sizes) -> list[Cell]:
    made = []
    for window in sizes.windows(16, 20):
        who = [
            Contestant(
                f"w = {power(window)}, {threads} thread{'s' * (threads > 1)}", "pim-tree", size,
                threads, task_size=size, record=record,
            )
            for size in TASK_SIZES
            for threads in (1, 2)
            if threads == THREADS or not record
        ]  # fmt: skip
        made.append(Cell(name, _shape(sizes, window), tuple(who), 0.7))
    return made


# --- Figure 11: memory, asymmetry ----------------------------------------------------------------


def _memory(sizes: Sizes) -> list[Cell]:
    full = ("merge_ratio", 1.0)
    who = (
        Contestant("b+tree", "b+tree", 0),
        Contestant("im-tree, m = 1", "im-tree", 0, parameters=(full,)),
        Contestant("pim-tree, m = 1", "pim-tree", 0, parameters=(full,)),
        Contestant(
            "pim-tree, m = 1, with merge buffer", "pim-tree", 0, THREADS, parameters=(full,),
        ),
        Contestant("pim-tree, m = 1/16", "pim-tree", 0),
    )  # fmt: skip
    return _all_windows("11a", who, (16, 18, 20), sizes, weight=0.1)


def _uneven_rates(sizes: Sizes) -> list[Cell]:
    made = []
    for window in sizes.windows(16, 20):
        for share in (0.5, 0.6, 0.7, 0.8, 0.9):
            who = (Contestant(f"w = {power(window)}", "pim-tree", share, THREADS),)
            made.append(Cell("11b", _shape(sizes, window, share=share), who, 0.7))
    return made


def _uneven_windows(sizes: Sizes) -> list[Cell]:
    made = []
    windows = sizes.windows(16, 18, 20)
    for left in windows:
        for right in windows:
            who = (Contestant(f"w of R = {power(left)}", "pim-tree", right, THREADS),)
            made.append(Cell("11c", _shape(sizes, left, window_right=right), who, 0.7))
    return made


# --- Figure 12: threads, distributions, self-join ------------------------------------------------


def _scaling(sizes: Sizes) -> list[Cell]:
    window = sizes.window(20)
    return [
        Cell(
            "12a",
            _shape(sizes, window, self_join=self_join),
            tuple(Contestant(label, "pim-tree", count, count) for count in range(5)),
        )
        for label, self_join in (("two-way join", False), ("self-join", True))
    ]


def _distributions(sizes: Sizes) -> list[Cell]:
    made = []
    for place, name in enumerate(("uniform", "gaussian", "gamma", "gamma-steep")):
        who = (Contestant("pim-tree", "pim-tree", place), _threaded("pim-tree", place))
        made.append(Cell("12b", _shape(sizes, sizes.window(20), distribution=name), who))
    return made


def _self_joins(sizes: Sizes) -> list[Cell]:
    who = [Contestant("b+tree", "b+tree", 0), Contestant("pim-tree", "pim-tree", 0)]
    who.append(_threaded("pim-tree", 0))
    return _all_windows("12c", who, (12, 14, 16, 18, 20, 22), sizes, 0.5, self_join=True)


# --- Figures 13 and 14: drift, blocking and non-blocking merge, merge cost -----------------------


def _inserts(sizes: Sizes) -> list[Cell]:
    who = [Contestant(f"m = {power(m)}", "pim-tree", 0, parameters=(("merge_ratio", m),))
           for m in (1 / 16, 1.0)]  # fmt: skip
    return [
        Cell(
            "13a",
            _shape(sizes, sizes.window(20), drift=r, self_join=True),
            tuple(_at(one, r) for one in who),
        )
        for r in DRIFTS
    ]


def _drifts(sizes: Sizes) -> list[Cell]:
    return [
        Cell(
            "13b",
            _shape(sizes, sizes.window(20), drift=r, self_join=True),
            (
                Contestant(f"r = {r:g}, one thread", "pim-tree", r),
                Contestant(f"r = {r:g}, {THREADS} threads", "pim-tree", r, THREADS),
            ),
        )
        for r in DRIFTS
    ]


def _multithreaded(sizes: Sizes) -> list[Cell]:
    who = (
        Contestant("b+tree", "b+tree", 0),
        Contestant("pim-tree", "pim-tree", 0),
        _threaded("optimistic-tree", 0),
        _threaded("pim-tree", 0),
        _threaded("pim-tree", 0, ", blocking merge", merge="blocking"),
    )
    return _all_windows("13c", who, (12, 14, 16, 18, 20, 22), sizes, weight=0.5)


def _merge_cost(sizes: Sizes) -> list[Cell]:
    who = [Contestant("pim-tree", "pim-tree", 0, steps=True)]
    return _all_windows("14", who, (14, 16, 18, 20, 21, 23), sizes, weight=0.7)


# --- Beyond the paper ----------------------------------------------------------------------------


def _peers(sizes: Sizes) -> list[Cell]:
    who = [Contestant(name, name, 0) for name in ("pim-tree", "btrees", "sortedcontainers")]
    return _all_windows("peers", who, (20,), sizes)


def _merges(sizes: Sizes) -> list[Cell]:
    who = tuple(
        Contestant(f"{merge} merge", "pim-tree", m, THREADS, (("merge_ratio", m),), merge=merge,
                   record=True)
        for m in (1 / 16, 1.0)
        for merge in ("non-blocking", "blocking")
    )  # fmt: skip
    return [Cell("merge", _shape(sizes, sizes.window(20)), who, 4.0)]


def _costs(sizes: Sizes) -> list[Cell]:
    who = []
    for name in (*ONE_THREAD, "chained", "round-robin"):
        who.append(Contestant(name, name, 0))
        who.append(Contestant(f"{name}, by step", name, 0, steps=True))
    return _all_windows("cost", who, (16, 20), sizes, weight=0.7)


_STEPS = ("ns_descend", "ns_scan", "ns_delete", "ns_insert", "ns_merge")
_LATENCY = ("p50_us", "p99_us", "p999_us")
_PREDICTED = ("search", "delete", "insert", "merge")

FIGURES: dict[str, Figure[Cell]] = {
    found.name: found
    for found in (
        Figure("8a", "nested loop, b+tree, round robin, a concurrent tree", "window", _approaches),
        Figure("8b", "chain length", "chain length", _chains, logarithmic=False),
        Figure("8c", "insertion depth, one thread", "insertion depth",
               partial(_depths, "8c", 0), logarithmic=False),
        Figure("8d", "insertion depth, parallel", "insertion depth",
               partial(_depths, "8d", THREADS), logarithmic=False),
        Figure("9a", "merge ratio, parallel", "merge ratio",
               partial(_ratios, "9a", "pim-tree", THREADS)),
        Figure("9b", "cost of each step", "window", _steps, _STEPS, stacked=True),
        Figure("9c", "merge ratio, im-tree", "merge ratio", partial(_ratios, "9c", "im-tree", 0)),
        Figure("9d", "merge ratio, pim-tree", "merge ratio", partial(_ratios, "9d", "pim-tree", 0)),
        Figure("10a", "b+tree, im-tree, pim-tree in one thread", "window", _structures),
        Figure("10b", "match rate", "match rate", _rates),
        Figure("10c", "task size: throughput", "task size", partial(_tasks, "10c", False)),
        Figure("10d", "task size: latency", "task size", partial(_tasks, "10d", True), _LATENCY),
        Figure("11a", "memory", "window", _memory, ("bytes_per_row",)),
        Figure("11b", "uneven rates of arrival", "share of R", _uneven_rates, logarithmic=False),
        Figure("11c", "uneven windows", "window of S", _uneven_windows),
        Figure("12a", "threads, and the cost of concurrency control", "threads", _scaling,
               logarithmic=False),
        Figure("12b", "distributions of keys", "distribution", _distributions, logarithmic=False),
        Figure("12c", "self-join", "window", _self_joins),
        Figure("13a", "inserts per subindex while a gaussian drifts", "r", _inserts,
               ("top_share", "idle_share"), logarithmic=False),
        Figure("13b", "throughput while a gaussian drifts", "phase", _drifts, logarithmic=False),
        Figure("13c", "one thread, two threads, blocking merge", "window", _multithreaded),
        Figure("14", "cost of a merge", "window", _merge_cost, ("merge_ms",)),
        Figure("peers", "against ordered sets from PyPI", "window", _peers),
        Figure("merge", "latency of tasks during a merge", "merge ratio", _merges,
               (*_LATENCY, "tuples_per_s")),
        Figure("cost", "predicted and measured cost", "window", _costs,
               ("ns_per_tuple", "predicted_ns",
                *(f"{kind}_{step}" for step in _PREDICTED for kind in ("ns", "predicted")))),
    )
}  # fmt: skip
"""Every experiment by name, in the order of the paper."""


def chosen(names: Sequence[str] = ()) -> list[Figure[Cell]]:
    """The experiments asked for, or all; a number alone asks for all parts of that figure.

    >>> [figure.name for figure in chosen(["9", "14"])]
    ['9a', '9b', '9c', '9d', '14']
    """
    return plans.chosen(FIGURES, names, NOT_MEASURED)


def cells(names: Sequence[str], sizes: Sizes) -> list[Cell]:
    """All cells of the experiments asked for."""
    return [cell for figure in chosen(names) for cell in figure.cells(sizes)]
