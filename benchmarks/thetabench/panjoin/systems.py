"""Figure 15 and workload W1: whole windows of several subwindows, and whole joins."""

from __future__ import annotations

from functools import partial
from typing import Any

from thetabench.figure import Figure, Sizes, power
from thetabench.panjoin.joins import REPEATED
from thetabench.panjoin.plan import Cell, Contestant, Work
from thetastream.datasets.keys import DOMAIN

__all__ = ["FIGURES", "HOME", "TACTICS"]

HOME = "ordered"
"""The engine's default: sorted runs."""
STRUCTURES = ("rap-table", "wib-tree", "bi-sort")
TACTICS = (*(f"panjoin/{name}" for name in STRUCTURES), HOME)


def _join(
    tactic: str, place: float, rows: int, batch: int, matches: float, output: str, **more: Any
) -> Contestant:
    """A ``StreamJoin``; ``label`` is the tactic, unless given."""
    label = str(more.pop("label", tactic))
    return Contestant(
        label, tactic, place, Work.JOIN, rows, min(batch, rows), matches, output=output, **more
    )


def _over_batches(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    return [
        Cell("15a", tuple(_join(t, batch, rows, batch, 1.0, "count", distribution=REPEATED)
                          for t in TACTICS))
        for batch in (1 << e for e in (8, 10, 12, 15, 18, 20))
        if batch <= rows
    ]  # fmt: skip


def _over_matches(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    return [
        Cell("15b", tuple(_join(t, s, rows, 1 << 15, s, "count") for t in TACTICS))
        for s in (1 << e for e in (0, 2, 5, 8, 11, 14))
        if s <= rows / 8
    ]


def _results(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    return [
        Cell("15c", tuple(
            _join(t, s, rows, 1 << 15, s, output, label=f"{t}, {output}")
            for t in TACTICS
            for output in ("rows", "count")
        ))
        for s in (1 << e for e in (0, 2, 4, 6, 8, 10))
        if s <= rows / 8
    ]  # fmt: skip


def _workers(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    made = []
    for subwindows in (2, 4, 8, 16, 32):
        who = []
        for name in STRUCTURES:
            for workers in (1, 2):
                parameters = (("subwindows", subwindows), ("workers", workers), *_domain(name))
                for s in (1.0, 64.0):
                    count = "one worker" if workers == 1 else f"{workers} workers"
                    label = f"{name}, {count}, S = {power(s)}"
                    who.append(Contestant(label, name, subwindows, Work.SLIDE, rows,
                                          min(1 << 15, rows // 4), s, parameters))  # fmt: skip
        made.append(Cell("15d", tuple(who), 0.5))
    return made


def _comparison(figure: str, window: int, exponents: tuple[int, ...], sizes: Sizes) -> list[Cell]:
    """What a probe costs in a window of 16 subwindows."""
    rows = sizes.window(window)
    made = []
    for s in (1 << e for e in exponents):
        if s > rows / 8:
            continue
        shared: dict[str, Any] = {
            "place": s, "work": Work.BAND, "rows": rows, "batch": min(1 << 15, rows), "matches": s
        }  # fmt: skip
        who = [
            Contestant(name, name, **shared, parameters=(("subwindows", 16), *_domain(name)),
                       output="ranges" if name == "bi-sort" else "pairs")
            for name in STRUCTURES
        ]  # fmt: skip
        scan = (("subwindows", 16), ("inside", "nested-loop"))
        who.append(Contestant("nested-loop", "subwindows", **shared, parameters=scan))
        made.append(Cell(figure, tuple(who)))
    return made


def _domain(name: str) -> tuple[tuple[str, Any], ...]:
    return (("domain", (0, DOMAIN - 1)),) if name == "rap-table" else ()


def _w1(sizes: Sizes) -> list[Cell]:
    made = []
    for rows in sizes.windows(20, 23):
        for batch in (1 << e for e in (10, 13, 15)):
            if batch <= rows:
                who = (
                    _join(t, batch, rows, batch, 2.0, "rows", label=f"{t}, w = {power(rows)}")
                    for t in TACTICS
                )
                made.append(Cell("w1", tuple(who), 2.0))
    return made


FIGURES: tuple[Figure[Cell], ...] = (
    Figure("15a", "join, equality, S = 1", "batch", _over_batches),
    Figure("15b", "join, band", "selectivity", _over_matches),
    Figure("15c", "join, band: rows against their number", "selectivity", _results,
           ("tuples_per_s", "result_share")),
    Figure("15d", "moving window: workers and subwindows", "subwindows", _workers),
    Figure("15e", "band probing against nested loops, 16 subwindows", "selectivity",
           partial(_comparison, "15e", 23, (0, 2, 4, 6, 8, 10, 12))),
    Figure("15f", "band probing against nested loops, a larger window", "selectivity",
           partial(_comparison, "15f", 24, (0, 6, 12))),
    Figure("w1", "workload W1 against the default index", "batch", _w1),
)  # fmt: skip
"""In the order of the paper."""
