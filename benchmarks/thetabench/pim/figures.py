"""The figures of the PIM-Tree paper, 8 to 14, and three of our own: cells, and what is claimed.

Figure 11d, the memory bandwidth, is missing: it needs the processor's counters, which a program
without special rights cannot read.

Windows and lists are chosen so that all of it takes less than 25 minutes on two cores. Where the
paper uses 16 threads there are two here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from thetabench.figure import Figure, Lines, Sizes, power
from thetabench.pim.contestant import Cell, Contestant
from thetabench.pim.stream import Shape
from thetabench.score import at_least, mean, ratio
from thetastream.index.trees.pim_tree import PimTree

THREADS = 2
RATIOS = tuple(2.0**-e for e in range(6, -1, -1))
TASK_SIZES = (1, 2, 4, 8, 16, 32, 64)
DRIFTS = (0.0, 0.2, 0.6, 1.0)
ONE_THREAD = ("b+tree", "im-tree", "pim-tree")
NOT_MEASURED = {"11d": "memory bandwidth needs the processor's counters, which cannot be read here"}

Plan = Callable[[Sizes], list[Cell]]


def _one(structure: str, label: str = "", place: float = 0, **more: Any) -> Contestant:
    return Contestant(label or structure, structure, place, **more)


def _two(structure: str, note: str = "", **more: Any) -> Contestant:
    return _one(structure, f"{structure}, {THREADS} threads{note}", threads=THREADS, **more)


def _cell(figure: str, sizes: Sizes, window: int, who: Iterable[Contestant], weight: float = 1.0,
          **shape: Any) -> Cell:  # fmt: skip
    return Cell(figure, tuple(who), weight, shape=Shape(window, seed=sizes.seed, **shape))


def _windows(figure: str, who: Sequence[Contestant], exponents: Iterable[int], weight: float = 1.0,
             **shape: Any) -> Plan:  # fmt: skip
    """A cell per window size, with the same contestants in each."""
    return lambda sizes: [
        _cell(figure, sizes, window, (replace(one, place=window) for one in who), weight, **shape)
        for window in sizes.windows(*exponents)
    ]


def _series(figure: str, structure: str, threads: int, setting: str,
            values: Callable[[int], Iterable[Any]]) -> Plan:  # fmt: skip
    """A cell per window size, with a contestant per value of a parameter."""

    def who(window: int) -> list[Contestant]:
        more = {"threads": threads}
        return [
            _one(structure, f"w = {power(window)}", value, parameters=((setting, value),), **more)
            for value in values(window)
        ]

    return lambda sizes: [
        _cell(figure, sizes, window, who(window), 0.5) for window in sizes.windows(16, 18, 20)
    ]


def _depths(window: int) -> range:
    """Levels of T_S; subindexes at the last belong to one leaf each."""
    recipe = PimTree.recipe(window)
    nodes, levels = -(-window // recipe.run_leaf), 0
    while nodes > 1:
        nodes, levels = -(-nodes // recipe.run_fanout), levels + 1
    return range(levels + 1)


def _ratios(window: int) -> Iterable[float]:
    return RATIOS


def _chains(sizes: Sizes) -> list[Cell]:
    who = [_one("b+tree", place=1)]
    for length in (2, 3, 4, 6, 8):
        for name, immutable in (("B-chain", False), ("IB-chain", True)):
            settings = (("length", length), ("immutable", immutable))
            who.append(_one("chained", name, length, parameters=settings))
    return [_cell("8b", sizes, sizes.window(20), who, 0.7)]


def _rates(sizes: Sizes) -> list[Cell]:
    return [
        _cell("10b", sizes, sizes.window(20),
              [*(_one(name, place=rate) for name in ONE_THREAD), _two("pim-tree", place=rate)],
              0.7, match_rate=rate)
        for rate in (2.0**e for e in (-4, 1, 4, 7, 10))
    ]  # fmt: skip


def _tasks(figure: str, threads: Sequence[int], record: bool) -> Plan:
    return lambda sizes: [
        _cell(figure, sizes, window, (
            _one("pim-tree", f"w = {power(window)}, {count} thread{'s' * (count > 1)}", size,
                 threads=count, task_size=size, record=record)
            for size in TASK_SIZES for count in threads
        ), 0.7)
        for window in sizes.windows(16, 20)
    ]  # fmt: skip


def _uneven_rates(sizes: Sizes) -> list[Cell]:
    return [
        _cell("11b", sizes, window,
              [_one("pim-tree", f"w = {power(window)}", share, threads=THREADS)], 0.7, share=share)
        for window in sizes.windows(16, 20) for share in (0.5, 0.6, 0.7, 0.8, 0.9)
    ]  # fmt: skip


def _uneven_windows(sizes: Sizes) -> list[Cell]:
    windows = sizes.windows(16, 18, 20)
    return [
        _cell("11c", sizes, left,
              [_one("pim-tree", f"w of R = {power(left)}", right, threads=THREADS)],
              0.7, window_right=right)
        for left in windows for right in windows
    ]  # fmt: skip


def _scaling(sizes: Sizes) -> list[Cell]:
    return [
        _cell("12a", sizes, sizes.window(20),
              [_one("pim-tree", label, count, threads=count) for count in range(5)],
              self_join=self_join)
        for label, self_join in (("two-way join", False), ("self-join", True))
    ]  # fmt: skip


def _distributions(sizes: Sizes) -> list[Cell]:
    return [
        _cell("12b", sizes, sizes.window(20),
              [_one("pim-tree", place=place), _two("pim-tree", place=place)], distribution=name)
        for place, name in enumerate(("uniform", "gaussian", "gamma", "gamma-steep"))
    ]  # fmt: skip


def _drifting(figure: str, who: Callable[[float], list[Contestant]]) -> Plan:
    return lambda sizes: [
        _cell(figure, sizes, sizes.window(20), who(r), drift=r, self_join=True) for r in DRIFTS
    ]


def _merges(sizes: Sizes) -> list[Cell]:
    who = [
        _one("pim-tree", f"{merge} merge", m, threads=THREADS, parameters=(("merge_ratio", m),),
             merge=merge, record=True)
        for m in (1 / 16, 1.0) for merge in ("non-blocking", "blocking")
    ]  # fmt: skip
    return [_cell("merge", sizes, sizes.window(20), who, 4.0)]


def _accuracy(lines: Lines) -> str:
    """How far predictions for whole joins are from what was measured."""
    whole = [line.predicted_ns / line.ns_per_tuple for line in lines if not line.ns_search]
    far = max((abs(part - 1) for part in whole), default=0.0)
    return (
        f"predictions for whole joins lie within {100 * far:.0f} % of what was measured. They were "
        "calibrated minutes before, with the same loops."
    )


_PLAIN = [_one(name) for name in ONE_THREAD]
_FULL = (("merge_ratio", 1.0),)
_STEPS = ("ns_descend", "ns_scan", "ns_delete", "ns_insert", "ns_merge")
_LATENCY = ("p50_us", "p99_us", "p999_us")
_PREDICTED = ("search", "delete", "insert", "merge")

_ALL = (
    Figure("8a", "nested loop, b+tree, round robin, a concurrent tree", "window",
           _windows("8a", [_one("nested-loop"), _two("nested-loop"), _one("b+tree"),
                           _two("round-robin"), _two("optimistic-tree")],
                    (12, 14, 16, 18, 20), 0.5),
           claim="(16 threads) nested loops fall with the window, index joins hardly do. Dividing "
           "the window brings a nested loop a factor of 8, an index join only 2.5. The Bw-tree is "
           "65 % slower than round robin at 2^14 and 75 % faster at 2^25.",
           holds=False,
           because="our round robin stays ahead of the concurrent tree: its threads exchange "
           "nothing, each runs through the whole queue, and results are put in order afterwards. "
           "That is the best case of the design, as with two threads a search visits only two "
           "trees. Dividing the window does bring a nested loop more than an index join."),
    Figure("8b", "chain length", "chain length", _chains, logarithmic=False,
           claim="the IB-chain is 50 % faster than the B-chain on average; length two is best for "
           "both, and longer chains are slower and slower.",
           holds=at_least(1.5, mean, ratio("IB-chain", "B-chain")),
           because="the IB-chain gains less at short chains: half of the work at length two is in "
           "the active B⁺-tree, which both have. The gain grows with the length."),
    Figure("8c", "insertion depth, one thread", "insertion depth",
           _series("8c", "pim-tree", 0, "depth", _depths), logarithmic=False, holds=True,
           claim="the depth matters little in one thread; the largest is somewhat slower."),
    Figure("8d", "insertion depth, parallel", "insertion depth",
           _series("8d", "pim-tree", THREADS, "depth", _depths), logarithmic=False,
           claim="(16 threads) with few subindexes threads wait for each other's locks; from depth "
           "3 on nothing is gained.",
           holds=True, because="too few subindexes make threads wait, too many cost a leaf each."),
    Figure("9a", "merge ratio, parallel", "merge ratio",
           _series("9a", "pim-tree", THREADS, "merge_ratio", _ratios),
           claim="(16 threads) m = 1 is best for every window; the ratio matters more for small "
           "windows.",
           holds=False,
           because="our merges read T_I along one chain and cost little, while a T_I as large as "
           "the window makes every insert and search slower. The paper's merges are costly to its "
           "16 threads. So m = 1/16 is the default for any number of threads."),
    Figure("9b", "cost of each step", "window",
           _windows("9b", [replace(one, steps=True) for one in _PLAIN], (17, 23)), _STEPS,
           stacked=True,
           claim="merging is 7 % and 11 % of the total at 2^17 and 2^23. Inserting is 1.5 and 2.6 "
           "times faster than in a B⁺-tree. At 2^17 searching a B⁺-tree is 75 % faster than "
           "searching the merge trees, at 2^23 it is the same.",
           holds=False,
           because="searching T_S is faster than searching the B⁺-tree already at 2^17: nodes are "
           "compared by vector code in both, but T_S has no references and its directory stays in "
           "the second-level cache. Deleting from the B⁺-tree costs as much as inserting, and the "
           "merge trees need not delete."),
    Figure("9c", "merge ratio, im-tree", "merge ratio",
           _series("9c", "im-tree", 0, "merge_ratio", _ratios), holds=True,
           claim="slow at both ends; 2^-3 is best at w = 2^16, 2^-4 at 2^23.",
           because="the best ratio falls from 2^-3 or more at 2^16 to 2^-4 at 2^20."),
    Figure("9d", "merge ratio, pim-tree", "merge ratio",
           _series("9d", "pim-tree", 0, "merge_ratio", _ratios), holds=True,
           claim="the same shape as for the IM-Tree, faster on the whole."),
    Figure("10a", "b+tree, im-tree, pim-tree in one thread", "window",
           _windows("10a", _PLAIN, range(16, 24)),
           claim="on average the IM-Tree is 50 % and the PIM-Tree 63 % faster than the B⁺-tree.",
           holds=at_least(1.6, mean, ratio("pim-tree", "b+tree")),
           because="the gain is largest where the window no longer fits the caches. PIM-Tree is "
           "ahead of IM-Tree by a few per cent in one thread, less than in the paper."),
    Figure("10b", "match rate", "match rate", _rates,
           claim="nothing changes up to a rate of 2^4; beyond it reading rows decides, threads "
           "lose their advantage, and immutable leaves are faster to read.",
           holds=False,
           because="throughput falls from the lowest rate on. Beyond 2^4 it is as in the paper: "
           "the gain of the merge trees grows with the match rate. Two threads lose their "
           "advantage already at 2^7: pairs are copied from the thread's buffer to the ordered "
           "output by one thread at a time."),
    Figure("10c", "task size: throughput", "task size", _tasks("10c", (1, THREADS), False),
           claim="(16 threads) gains up to four, little up to eight, nothing beyond.",
           holds=True, because="two threads gain up to eight, and a few per cent beyond."),
    Figure("10d", "task size: latency", "task size", _tasks("10d", (THREADS,), True), _LATENCY,
           claim="grows with the task size and with the window, as merges take longer.",
           holds=True),
    Figure("11a", "memory", "window",
           _windows("11a", [
               _one("b+tree"),
               _one("im-tree", "im-tree, m = 1", parameters=_FULL),
               _one("pim-tree", "pim-tree, m = 1", parameters=_FULL),
               _one("pim-tree", "pim-tree, m = 1, with merge buffer", threads=THREADS,
                    parameters=_FULL),
               _one("pim-tree", "pim-tree, m = 1/16"),
           ], (16, 18, 20), 0.1), ("bytes_per_row",),
           claim="the PIM-Tree with m = 1, merge buffer included, takes about twice the space of "
           "the B⁺-tree.",
           holds=True,
           because="less when merging in place, as T_S needs no second array; the buffer of the "
           "non-blocking merge is shared by the two sides. With the default m = 1/16 a PIM-Tree is "
           "*smaller* than a B⁺-tree, whose leaves are two thirds full."),
    Figure("11b", "uneven rates of arrival", "share of R", _uneven_rates, logarithmic=False,
           claim="somewhat faster the more uneven.", holds=True),
    Figure("11c", "uneven windows", "window of S", _uneven_windows,
           claim="enlarging one window costs less than enlarging both.", holds=True),
    Figure("12a", "threads, and the cost of concurrency control", "threads", _scaling,
           logarithmic=False,
           claim="concurrency control costs a single thread 40 % (two-way) and 26 % (self-join); "
           "eight threads are 4.6 and 4 times as fast as one with it.",
           holds=False,
           because="there are two cores, so more than two threads only get in each other's way. "
           "Concurrency control costs as much as in the paper, but the self-join pays more than "
           "the two-way join: its tuples insert into and search one tree."),
    Figure("12b", "distributions of keys", "distribution", _distributions, logarithmic=False,
           claim="uniform keys are 2–4 % faster.", holds=False,
           because="there is no difference beyond noise: T_S divides keys by rank."),
    Figure("12c", "self-join", "window",
           _windows("12c", [_one("b+tree"), _one("pim-tree"), _two("pim-tree")],
                    (12, 14, 16, 18, 20, 22), 0.5, self_join=True),
           claim="(16 threads) not worth it up to 2^15; from 2^16 on 7 times the B⁺-tree and 4 "
           "times the PIM-Tree in one thread.",
           holds=False,
           because="two threads first win back what concurrency control costs, so that they are "
           "worth it only for the largest windows."),
    Figure("13a", "inserts per subindex while a gaussian drifts", "r",
           _drifting("13a", lambda r: [
               _one("pim-tree", f"m = {power(m)}", r, parameters=(("merge_ratio", m),))
               for m in (1 / 16, 1.0)
           ]), ("top_share", "idle_share"), logarithmic=False,
           claim="(1024 subindexes, m = 1) even at r = 0; at r = 1 one subindex takes 77 % and "
           "70 % take next to none.",
           holds=False,
           because="inserts are far more even: a PIM-Tree of ours has more subindexes (2,048), and "
           "the gaussian moves less per merge, as with m = 1/16 ranges are adjusted 16 times as "
           "often as with m = 1."),
    Figure("13b", "throughput while a gaussian drifts", "phase",
           _drifting("13b", lambda r: [
               _one("pim-tree", f"r = {r:g}, one thread", r),
               _one("pim-tree", f"r = {r:g}, {THREADS} threads", r, threads=THREADS),
           ]), logarithmic=False,
           claim="(16 threads) a slow drift (r ≤ 0.2) costs nothing, a moderate one leaves 35 %, a "
           "fast one 16 % of the throughput, as threads wait for one lock. In the third phase it "
           "recovers.",
           holds=False,
           because="no phase is slower: inserts stay even (13a), and with two threads few meet at "
           "a lock."),
    Figure("13c", "one thread, two threads, blocking merge", "window",
           _windows("13c", [
               _one("b+tree"), _one("pim-tree"), _two("optimistic-tree"), _two("pim-tree"),
               _two("pim-tree", ", blocking merge", merge="blocking"),
           ], (12, 14, 16, 18, 20, 22), 0.5),
           claim="(16 threads) worth it from w = 2^14 on. From 2^15 to 2^25 7.5 times the B⁺-tree "
           "and 3.7 times the PIM-Tree in one thread, 2.2 times the Bw-tree. Blocking merges are "
           "slightly faster.",
           holds=False,
           because="in windows of 2^18 and less one thread without concurrency control is faster "
           "than two with it. Two threads beat our concurrent tree at every window. The "
           "non-blocking merge is the faster one, as the other thread need not wait."),
    Figure("14", "cost of a merge", "window",
           _windows("14", [_one("pim-tree", steps=True)], (14, 16, 18, 20, 21, 23), 0.7),
           ("merge_ms",), claim="linear in the number of rows.", holds=True,
           because="a little more from 2^18 on, as T_I's leaves are no longer in the caches."),
    Figure("peers", "against ordered sets from PyPI", "window",
           _windows("peers", [_one(name) for name in ("pim-tree", "btrees", "sortedcontainers")],
                    (20,)),
           because="one thread is compared; two threads would gain more."),
    Figure("merge", "latency of tasks during a merge", "merge ratio", _merges,
           (*_LATENCY, "tuples_per_s")),
    Figure("cost", "predicted and measured cost", "window",
           _windows("cost", [
               _one(name, f"{name}{', by step' * steps}", steps=steps)
               for name in (*ONE_THREAD, "chained", "round-robin") for steps in (False, True)
           ], (16, 20), 0.7),
           ("ns_per_tuple", "predicted_ns",
            *(f"{kind}_{step}" for step in _PREDICTED for kind in ("ns", "predicted"))),
           because=_accuracy),
)  # fmt: skip
FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}
"""Every experiment by name, in the order of the paper."""
