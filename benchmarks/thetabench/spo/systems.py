"""Figures 17 and 20–23, whole joins beside their peers, and what decides how to probe and merge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from thetabench.figure import Figure, Parameters, Sizes, power, sized
from thetabench.spo.measure import LATENCIES
from thetabench.spo.parts import BATCH, Kind, asking, per_term, spo_join
from thetabench.spo.plan import (
    Cell,
    Contestant,
    Rows,
    Work,
    fitting,
    rows,
)

__all__ = ["DUCKDB", "FIGURES", "PAPER_ROWS", "POLARS", "RATES", "ours"]

PAPER_ROWS = 6167.0
"""Rows per second of the paper's cluster, on average: Figure 17, 20 elements on 9 nodes."""
RATES = (10.0, 600.0, 2490.0)
"""Matches per row: ours, and the least and the most of the paper's Figure 14 (15 M matches of 25 K
rows, 249 M of 100 K)."""
DUCKDB, POLARS = "duckdb-range", "polars-where"
_BATCHES = (1 << 10, 1 << 13, 1 << 15)
_RATIOS = (0, 2, 4, 8, 12)
_SLIDES = 10
_MERGING: dict[str, dict[str, Any]] = {
    "one per slide": {"ratio": 0},
    "one per slide, in the background": {"ratio": 0, "background": True},
    "with neighbours": {},
    "with neighbours, in the background": {"background": True},
}
"""A slide becomes a structure; its neighbours may be merged with it."""


def ours(tactic: str) -> str:
    """A whole join of thetastream."""
    return f"thetastream:tactic={tactic}"


def _joins(
    figure: str, specs: Sequence[str], place: float, which: Rows, batch: int, note: str = "",
    weight: float = 2.0, parameters: Parameters = (),
) -> Cell:  # fmt: skip
    """Whole joins over the same rows."""
    who = [
        Contestant(f"{spec.rpartition('=')[2]}{note}", spec, place, Work.JOIN, which, which.window,
                   batch, parameters)
        for spec in specs
    ]  # fmt: skip
    return Cell(figure, tuple(who), weight)


# --- Figure 17: workers --------------------------------------------------------------------------


def _workers(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 1_000_000)
    (batch,) = fitting((1 << 12,), window)
    return [
        _joins("17", [ours("spo-join"), ours("auto")], threads, rows(sizes, "Q3", window, rate),
               batch, f", {rate:,.0f} matches per row", 1.0, (("threads", threads),))
        for threads in (1, 2)
        for rate in RATES
    ]  # fmt: skip


# --- Figures 20, 21: merging ---------------------------------------------------------------------


def _merges(sizes: Sizes) -> list[Cell]:
    made = []
    for slide in sized(sizes, 60_000, 80_000, 100_000):
        window = slide * _SLIDES
        which = rows(sizes, "Q3", window, 10.0, extra=12 * slide)
        who = []
        for label, more in _MERGING.items():
            settings = {**spo_join(window, slide, **more), "tail": 0}
            who.append(Contestant(label, place=slide, work=Work.MERGE, rows=which, **settings))
        made.append(Cell("20", tuple(who)))
    return made


def _split(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 1_000_000)
    which = rows(sizes, "Q3", window, 10.0, extra=max(window // 2, 1 << 12))
    made = []
    bits: Kind = ("mutable part", "per-term", per_term("b+tree"))
    po: Kind = ("immutable part", "po-join", ())
    for percent in (10, 20, 30, 40, 50):
        part = window * percent // 100
        who = [
            *asking((bits,), percent, Work.GROW, which, part),
            *asking((po,), percent, Work.PROBE, which, window - part),
        ]
        for batch in (1, BATCH):
            label = "spo-join" if batch == 1 else f"spo-join, batch {power(batch)}"
            settings = {**spo_join(window, part), "cycle": 0}
            who.append(Contestant(label, place=percent, work=Work.SLIDE, rows=which, batch=batch,
                                  **settings))  # fmt: skip
        made.append(Cell("21", tuple(who)))
    return made


# --- Figures 22, 23: equality --------------------------------------------------------------------


def _equality(figure: str, batch: int, sizes: Sizes) -> list[Cell]:
    made = []
    for slide in sized(sizes, 10_000, 30_000, 50_000):
        which = rows(sizes, "Q1=", slide * _SLIDES, 2.0)
        specs = [ours(tactic) for tactic in ("spo-join", "hash", "auto")]
        made.append(_joins(figure, specs, slide, which, batch, weight=1.0))
    return made


# --- W2 and W3 against peers ---------------------------------------------------------------------

_W2 = ("auto", "spo-join", "spo-join/po-join", "ordered/zoned-runs", "ordered/sorted-runs")
_W3 = ("auto", "spo-join", "spo-join/po-join", "ordered/zoned-runs")


def _w2(sizes: Sizes) -> list[Cell]:
    specs = [*map(ours, _W2), DUCKDB, POLARS]
    return _peers("w2", "W2", sized(sizes, 50_000, 500_000), 10.0, specs, sizes)


def _w3(sizes: Sizes) -> list[Cell]:
    specs = [*map(ours, _W3), "duckdb-bucket", "polars-bucket"]
    return _peers("w3", "W3", sized(sizes, 1_000_000), 5.0, specs, sizes)


def _peers(
    figure: str, query: str, windows: Sequence[int], rate: float, specs: Sequence[str], sizes: Sizes
) -> list[Cell]:
    return [
        _joins(figure, specs, batch, rows(sizes, query, window, rate), batch,
               f", w = {window:,}" if len(windows) > 1 else "")
        for window in windows
        for batch in fitting(_BATCHES, window)
    ]  # fmt: skip


# --- Ways to probe, and when to merge ------------------------------------------------------------

_WAYS: tuple[Kind, ...] = (
    *((f"po-join, {way}", "po-join", (("probing", way),)) for way in ("fill", "sweep", "scan")),
    ("po-join, auto", "po-join", (("probing", "auto"),)),
    ("zoned-runs", "zoned-runs", ()),
)


def _over_batches(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 1_000_000)
    which = rows(sizes, "Q1", window, 10.0)
    return [
        _ways("probing", batch, which, batch)
        for batch in fitting([1 << e for e in (0, 4, 7, 10, 12, 15)], which.after)
    ]


def _over_rates(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 1_000_000)
    rates = [10.0**e for e in range(6) if 10.0**e <= window / 8]
    return [
        _ways("correlation", rate, rows(sizes, "Q1", window, rate), min(BATCH, int(4e6 / rate)))
        for rate in rates
    ]


def _over_shares(sizes: Sizes) -> list[Cell]:
    """Two bands that pass ten rows together; the first passes more or less of all rows."""
    (window,) = sized(sizes, 1_000_000)
    least = 5.0 / window
    shares = [share for share in (2.0**-e for e in (1, 5, 9, 13, 17)) if share > least]
    return [
        _ways("selectivity", share, rows(sizes, "Q2", window, 10.0, share=share), BATCH)
        for share in shares
    ]


def _ways(figure: str, place: float, which: Rows, batch: int) -> Cell:
    who = [
        Contestant(label, structure, place, Work.PROBE, which, which.window, batch, parameters)
        for label, structure, parameters in _WAYS
    ]
    return Cell(figure, tuple(who))


def _policy(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 500_000)
    which = rows(sizes, "Q1", window, 10.0)
    made = []
    for ratio in _RATIOS:
        who = []
        for batch in fitting(_BATCHES[:2], window):
            note = f"batch {power(batch)}"
            shared: dict[str, Any] = {
                "place": ratio, "work": Work.SLIDE, "rows": which, "batch": batch
            }  # fmt: skip
            alone: dict[str, Any] = {"window": window, "slide": batch, "cycle": 16 * batch}
            alone["parameters"] = (("ratio", ratio),)
            who.append(Contestant(f"po-join, {note}", "po-join", **alone, **shared))
            for parts in (16, 64):
                settings = spo_join(window, max(16, window // parts), ratio=ratio)
                label = f"spo-join, slide w/{parts}, {note}"
                who.append(Contestant(label, **settings, **shared))
        made.append(Cell("policy", tuple(who)))
    return made


FIGURES: tuple[Figure[Cell], ...] = (
    Figure("17", "Q3, whole join by threads, batch 2^12", "threads", _workers),
    Figure("20", "Q3, merging", "slide", _merges,
           ("merge_ms", "stall_ms", "p50_us", "p95_us", "max_us")),
    Figure("21", "Q3, size of the mutable part, % of the window", "%", _split,
           logarithmic=False),
    Figure("22", "Q1 with equality, throughput", "slide", partial(_equality, "22", BATCH)),
    Figure("23", "Q1 with equality, latency per row", "slide", partial(_equality, "23", 1),
           LATENCIES),
    Figure("w2", "workload W2 against peers", "batch", _w2),
    Figure("w3", "workload W3 against peers", "batch", _w3),
    Figure("probing", "Q1, ways to probe, by batch", "batch", _over_batches),
    Figure("correlation", "Q1, ways to probe, by match rate", "match rate", _over_rates),
    Figure("selectivity", "two bands, ways to probe, by the first one's share", "share",
           _over_shares),
    Figure("policy", "Q1, merging neighbours", "ratio", _policy, logarithmic=False),
)  # fmt: skip
"""In the order of the paper."""
