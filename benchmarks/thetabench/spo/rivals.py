"""Figures 11–13: SPO-Join against chained index, nested loops, PIM-Tree and B⁺-tree.

SPO-Join merges after at most 4,096 rows, as it does by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from thetabench.figure import Figure, Sizes, power, sized
from thetabench.spo.measure import LATENCIES
from thetabench.spo.parts import BATCH, Kind, asking, per_term, spo_join
from thetabench.spo.plan import Cell, Contestant, Rows, Work, rows

__all__ = ["CHAINS", "FIGURES", "LOOPS", "SPO"]

SPO = "spo-join"
CHAINS: tuple[Kind, ...] = (
    ("chained index, bits", "per-term", per_term("chained")),
    ("chained index, hash", "per-term", per_term("chained", "hash")),
    ("chained index of one term", "chained", ()),
)
LOOPS: tuple[Kind, ...] = (
    ("split-join", "split-join", (("workers", 2),)),
    ("nested-loop", "nested-loop", ()),
)
_SLIDES = 10


def _spo(place: float, work: Work, which: Rows, window: int, batch: int = 1) -> Contestant:
    label = SPO if batch == 1 else f"{SPO}, batch {power(batch)}"
    settings = spo_join(window, max(16, window // _SLIDES), elements=0)
    return Contestant(label, place=place, work=work, rows=which, batch=batch, **settings)


def _chains(figure: str, query: str, windows: Sequence[int], sizes: Sizes) -> list[Cell]:
    made = []
    for window in sized(sizes, *windows):
        which = rows(sizes, query, window, 10.0)
        who = [_spo(window, Work.SLIDE, which, window)]
        who += asking(CHAINS, window, Work.SLIDE, which, window, (1,))
        made.append(Cell(figure, tuple(who), 2.0))
    return made


def _loops(figure: str, query: str, windows: Sequence[int], sizes: Sizes) -> list[Cell]:
    made = []
    for window in sized(sizes, *windows):
        which = rows(sizes, query, window, 10.0)
        who = [_spo(window, Work.SLIDE, which, window, batch) for batch in (1, BATCH)]
        who += asking(LOOPS, window, Work.SLIDE, which, window)
        made.append(Cell(figure, tuple(who)))
    return made


_TREES: tuple[Kind, ...] = (
    ("pim-tree, two", "per-term", per_term("pim-tree")),
    ("b+tree, two", "per-term", per_term("b+tree")),
)


def _insertion(sizes: Sizes) -> list[Cell]:
    made = []
    for window in sized(sizes, 500_000, 2_000_000):
        which = rows(sizes, "Q1", window, 10.0)
        who = [_spo(window, Work.INSERT, which, window, batch) for batch in (1, BATCH)]
        who += asking(_TREES, window, Work.INSERT, which, window)
        made.append(Cell("12", tuple(who)))
    return made


def _memory(sizes: Sizes) -> list[Cell]:
    made = []
    for window in sized(sizes, 2_000_000, 8_000_000):
        which = rows(sizes, "Q1", window, 10.0, extra=1 << 10)
        others: list[Kind] = [
            ("po-join", "po-join", ()),
            ("zoned-runs", "zoned-runs", ()),
            *_TREES[:1],
        ]
        who = [_spo(window, Work.MEMORY, which, window)]
        who += asking(others, window, Work.MEMORY, which, window, (1,))
        made.append(Cell("13", tuple(who)))
    return made


_WINDOW = "window"

FIGURES: tuple[Figure[Cell], ...] = (
    Figure("11a", "Q3, latency per row, chained index", _WINDOW,
           partial(_chains, "11a", "Q3", (500_000, 1_000_000)), LATENCIES),
    Figure("11b", "Q3, nested loops", _WINDOW,
           partial(_loops, "11b", "Q3", (500_000, 1_000_000))),
    Figure("11c", "Q1, latency per row, chained index", _WINDOW,
           partial(_chains, "11c", "Q1", (1_000_000, 3_000_000)), LATENCIES),
    Figure("11d", "Q1, nested loops", _WINDOW,
           partial(_loops, "11d", "Q1", (1_000_000, 3_000_000))),
    Figure("12", "Q1, insertion", _WINDOW, _insertion, ("ns_per_tuple",)),
    Figure("13", "Q1, memory", _WINDOW, _memory, ("bytes_per_row",)),
)  # fmt: skip
"""In the order of the paper."""
