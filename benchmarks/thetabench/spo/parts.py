"""Figures 7–10, 14 and 15: the mutable and the immutable part by themselves, and real trips."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from thetabench.figure import Figure, Parameters, Sizes, power, sized
from thetabench.spo.measure import LATENCIES
from thetabench.spo.plan import (
    TAXI,
    Cell,
    Contestant,
    Rows,
    Work,
    fitting,
    rows,
)

__all__ = ["BATCH", "ELEMENTS", "FIGURES", "SHARE", "Kind", "asking", "per_term", "spo_join"]

BATCH = 1 << 10
"""Rows that ask at a time, where it is not one."""
ELEMENTS = 10
"""The paper's processing elements: parts of a slide."""
SHARE = 0.1
"""Matches per row over the window in the paper's Q3: 5 % of the pairs, in both roles."""
_SLIDES = 10  # of a window

Kind = tuple[str, str, Parameters]
"""Label, structure, parameters."""


def per_term(inner: str, intersect: str = "bits") -> Parameters:
    """One structure per term, and how their answers are intersected."""
    return (("inner", inner), ("intersect", intersect))


def spo_join(window: int, slide: int, elements: int = 1, **more: Any) -> dict[str, Any]:
    """Settings of a contestant ``spo-join`` whose mutable part is half full at the beginning.

    ``elements`` 0: as many as the structure itself divides a slide by.
    """
    part = max(1, slide // (elements or -(-slide // 4096)))
    parameters = {"slide": slide, "elements": elements, **more}
    return {
        "structure": "spo-join", "window": window, "parameters": tuple(parameters.items()),
        "slide": part, "tail": part // 2, "cycle": part,
    }  # fmt: skip


PO: Kind = ("po-join", "po-join", ())
LIST: Kind = ("po-join, one per slide", "po-join", (("ratio", 0),))
ZONES: Kind = ("zoned-runs", "zoned-runs", ())
CSS_BITS: Kind = ("css-tree, bits", "per-term", per_term("css-tree"))
CSS_HASH: Kind = ("css-tree, hash", "per-term", per_term("css-tree", "hash"))
BITS: Kind = ("bits", "per-term", per_term("b+tree"))
HASH: Kind = ("hash", "per-term", per_term("b+tree", "hash"))


def asking(
    kinds: Sequence[Kind], place: float, work: Work, which: Rows, window: int,
    batches: Sequence[int] = (1, BATCH), slide: int = 0,
) -> list[Contestant]:  # fmt: skip
    """Structures asked row by row, and batch by batch."""
    room = max(1, window // 4) if work is Work.GROW else window
    return [
        Contestant(label if batch == 1 else f"{label}, batch {power(batch)}", structure, place,
                   work, which, window, batch, parameters, slide)
        for batch in fitting(batches, room)
        for label, structure, parameters in kinds
    ]  # fmt: skip


# --- Figures 7, 8, 9: throughput of the parts ----------------------------------------------------


def _immutable(
    figure: str, query: str, rate: float, windows: Sequence[int], kinds: Sequence[Kind],
    sizes: Sizes,
) -> list[Cell]:  # fmt: skip
    """Full windows of ten slides. A rate below 1 is a part of the window."""
    made = []
    for window in sized(sizes, *windows):
        which = rows(sizes, query, window, rate if rate >= 1 else rate * window)
        made.append(Cell(figure, tuple(asking(kinds, window, Work.PROBE, which, window))))
    return made


def _mutable(
    figure: str, query: str, rate: float, slides: Sequence[int], sizes: Sizes
) -> list[Cell]:
    """Parts of up to a slide, of a window of ten."""
    made = []
    for slide in sized(sizes, *slides):
        which = rows(sizes, query, slide * _SLIDES, rate)
        made.append(Cell(figure, tuple(asking((BITS, HASH), slide, Work.GROW, which, slide))))
    return made


# --- Figure 10: latency --------------------------------------------------------------------------


def _latency(sizes: Sizes) -> list[Cell]:
    window, slide = _windows(sizes, 1_000_000)
    which = rows(sizes, "Q1", window, 10.0)
    who = [
        *asking((PO, ZONES, CSS_BITS), window, Work.PROBE, which, window, (1,)),
        *asking((BITS, HASH), window, Work.GROW, which, slide, (1,)),
        _whole("spo-join", which, window, slide, 1),
    ]
    return [Cell("10a", tuple(who), 2.0)]


def _thresholds(sizes: Sizes) -> list[Cell]:
    """δ1 = slide and δ2 = slide / elements."""
    window, slide = _windows(sizes, 3_000_000)
    which = rows(sizes, "Q1", window, 10.0)
    who: list[Contestant] = []
    for name, elements in (("δ1", 1), ("δ2", ELEMENTS)):
        part = max(16, slide // elements)
        po = (f"po-join, {name}", "po-join", (("ratio", 0),))
        bits = (f"bits, {name}", "per-term", per_term("b+tree"))
        who += asking((po,), window, Work.PROBE, which, window, (1,), slide=part)
        who += asking((bits,), window, Work.GROW, which, part, (1,))
        who.append(_whole(f"spo-join, {name}", which, window, slide, elements))
    return [Cell("10b", tuple(who), 2.0)]


def _whole(label: str, which: Rows, window: int, slide: int, elements: int) -> Contestant:
    settings = spo_join(window, slide, elements)
    return Contestant(label, place=window, work=Work.SLIDE, rows=which, **settings)


def _windows(sizes: Sizes, window: int) -> tuple[int, int]:
    (found,) = sized(sizes, window)
    return found, max(16, found // _SLIDES)


# --- Figures 14, 15: match rate ------------------------------------------------------------------


def _growing_rates(sizes: Sizes) -> list[Cell]:
    made = []
    for slide in sized(sizes, 25_000, 50_000, 75_000, 100_000):
        which = rows(sizes, "Q3", slide, SHARE * slide)
        who = asking((BITS, HASH), slide, Work.GROW, which, slide, (1, 64))
        made.append(Cell("14", tuple(who)))
    return made


def _largest_latency(sizes: Sizes) -> list[Cell]:
    made = []
    for slide in sized(sizes, 25_000, 50_000, 75_000, 100_000):
        window = slide * _SLIDES
        which = rows(sizes, "Q3", window, SHARE * window)
        who = []
        for workers in (1, 2):
            for label, ratio in (("", 4), (", one per slide", 0)):
                settings = {**spo_join(window, slide, workers=workers, ratio=ratio), "tail": 0}
                name = f"{'one worker' if workers == 1 else 'two workers'}{label}"
                who.append(Contestant(name, place=slide, work=Work.PROBE, rows=which, **settings))
        made.append(Cell("15", tuple(who)))
    return made


# --- Real trips ----------------------------------------------------------------------------------


def _trips(sizes: Sizes) -> list[Cell]:
    """The files once; then their rows again and again, to fill larger windows."""
    made = []
    for query, windows in (("Q2", (8_000, 200_000)), ("Q3", (24_000, 600_000))):
        for window in sized(sizes, *windows):
            which = Rows(query, window, SHARE * window, extra=1 << 11, source=TAXI)
            kinds = [
                (f"{query}: {label}", structure, parameters)
                for label, structure, parameters in (PO, ZONES, CSS_BITS, CSS_HASH)
            ]
            who = asking(kinds, window, Work.PROBE, which, window, (1, 64))
            made.append(Cell(TAXI, tuple(who)))
    return made


_ALL = (PO, LIST, ZONES, CSS_BITS, CSS_HASH)
_SOME = (PO, ZONES, CSS_BITS, CSS_HASH)
_WINDOW, _SLIDE = "window", "slide"
_Q1_WINDOWS = (1_000_000, 3_000_000, 5_000_000)
_Q2_WINDOWS = (200_000, 600_000, 1_000_000)
_Q3_WINDOWS = (600_000, 800_000, 1_000_000)
_SHOWN = ("tuples_per_s", "pairs_per_tuple")

FIGURES: tuple[Figure[Cell], ...] = (
    Figure("7a", "Q3, immutable part", _WINDOW,
           partial(_immutable, "7a", "Q3", 10.0, _Q3_WINDOWS, _ALL)),
    Figure("7b", "Q3, mutable part", _SLIDE,
           partial(_mutable, "7b", "Q3", 10.0, (60_000, 80_000, 100_000))),
    Figure("7c", "Q3, immutable part, 5 % of the pairs match", _WINDOW,
           partial(_immutable, "7c", "Q3", SHARE, (600_000, 1_000_000), _SOME)),
    Figure("8a", "Q2, immutable part", _WINDOW,
           partial(_immutable, "8a", "Q2", 5.0, _Q2_WINDOWS, _SOME)),
    Figure("8b", "Q2, mutable part", _SLIDE,
           partial(_mutable, "8b", "Q2", 5.0, (20_000, 60_000, 100_000))),
    Figure("9a", "Q1, immutable part", _WINDOW,
           partial(_immutable, "9a", "Q1", 10.0, _Q1_WINDOWS, (PO, ZONES, CSS_BITS))),
    Figure("9b", "Q1, mutable part", _SLIDE,
           partial(_mutable, "9b", "Q1", 10.0, (100_000, 300_000, 500_000))),
    Figure("10a", "Q1, latency per row", _WINDOW, _latency, LATENCIES),
    Figure("10b", "Q1, latency per row, δ1 and δ2", _WINDOW, _thresholds, LATENCIES),
    Figure("14", "Q3, mutable part, 5 % of the pairs match", _SLIDE, _growing_rates, _SHOWN),
    Figure("15", "Q3, immutable part, 5 % of the pairs match, latency", _SLIDE, _largest_latency,
           LATENCIES),
    Figure(TAXI, "Q2 and Q3 over taxi trips, immutable part", _WINDOW, _trips, _SHOWN),
)  # fmt: skip
"""In the order of the paper."""
