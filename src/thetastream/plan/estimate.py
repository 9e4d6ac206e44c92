"""What a layout costs per fresh row, by the structure under it.

How many rows a box holds is estimated by ``selectivity.py``. Costs are nanoseconds on one core, of
the order of the figures in ``benchmarks/results``; only their ratios matter. A fresh row asks its
boxes, and is then stored itself:

                   a box is searched in               a row is stored by
    sorted runs    a few runs                         merges: 12 steps in each run but the last
    zoned runs     the same, blocks by their zones    the same merges, of several columns
    permutations   a few structures (``spo-join``)    sorts and merges of every column
    subwindows     all of them (``panjoin``)          a merge into the newest, or a partition of it
    trees          by the equations of ``cost.py``, with constants that can be calibrated (``ibwj``)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from thetastream.index.permuted.permuted import BIT_NS, SORT_NS, WORD_NS
from thetastream.index.registry import parameters
from thetastream.index.subwindows.subwindow import SUBWINDOWS
from thetastream.plan.constants import Constants
from thetastream.plan.cost import Cost, predict
from thetastream.plan.layout import Layout, Reach
from thetastream.plan.selectivity import ZONE, Selectivity

__all__ = ["MATCH_NS", "Estimate", "estimate", "tree_estimate"]

SEARCH_NS = 45.0  # one box in one run
RUNS = 3.0
CHECK_NS = 2.0  # one candidate, short ranges
SCAN_NS = 0.35  # one candidate, long ranges (vector loop)
LONG = 128.0
BESIDE_NS = 0.2  # one field beside the first column, on one candidate
MATCH_NS = 12.0
LOOP_NS = 1.0  # one row of a nested loop
MERGE_NS = 1.5  # one step of a merge
MERGE_STEPS = 12.0  # of a row in one run: the ratio of the sizes of neighbours
HELD = SUBWINDOWS + 1.0  # subwindows of a chain: those that fill the window, and the oldest
SUBWINDOW_NS = 45.0  # one box in one subwindow
PARTITION_NS = 25.0  # one row into its partition of a subwindow (RaP-Table, WiB⁺-Tree)
EDGE_NS = 15.0  # the high edge of a box in one run, which zones need
SUPER_NS = 0.3  # one zone of 64 blocks that is passed over
BLOCK_NS = 20.0  # one block that is read
OFFSET_NS = 40.0  # one box in one column of a structure
PERMUTE_NS = 5.0  # one step of a merge in one column
PERMUTED_STEPS = 4.0  # the ratio of the sizes of neighbouring structures


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a layout is expected to cost per fresh row."""

    layout: Layout
    boxes: float
    candidates: float
    nanoseconds: float
    insert: float = 0.0  # part of it; 0 where the steps say it
    steps: Cost | None = None  # of an index-based window join, tuple by tuple
    constants: str = ""  # where those of the steps come from

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        facts = {
            **self.layout.as_dict(),
            "boxes per row": round(self.boxes, 2),
            "candidates per row": round(self.candidates, 2),
            "estimated ns per row": round(self.nanoseconds, 1),
        }
        if self.insert:
            facts["of which for its insert"] = round(self.insert, 1)
        if self.steps is not None:
            steps = {step: round(cost, 1) for step, cost in self.steps.as_dict().items()}
            facts["ns per tuple, by step"] = steps
            facts["constants of the cost model"] = self.constants
        return facts


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be priced: a layout, what rows ask of it, and the traffic."""

    layout: Layout
    known: Selectivity
    reach: Reach
    rows: float
    batch: float

    @property
    def candidates(self) -> float:
        return self.rows * self.reach.share

    @property
    def matching(self) -> float:
        """Nanoseconds for the matches themselves."""
        return self.rows * self.known.joint * MATCH_NS

    @property
    def checking(self) -> float:
        """Nanoseconds for the fields beside the first column, and for the matches."""
        return self.candidates * BESIDE_NS * len(self.layout.checks) + self.matching

    def estimate(self, search: float, insert: float, candidates: float | None = None) -> Estimate:
        found = self.candidates if candidates is None else candidates
        return Estimate(self.layout, self.reach.boxes, found, search + insert, insert)


def estimate(
    layout: Layout, known: Selectivity, rows: float, batch: float, lost: float = 0.0
) -> Estimate:
    """What a layout costs; a share ``lost`` of the rows cannot be told apart by it."""
    return _price(layout)(_Work(layout, known, layout.reach(known, lost), rows, batch))


def _price(layout: Layout) -> Callable[[_Work], Estimate]:
    """The price list of the structure under a layout."""
    if layout.index in _BY_COLUMNS and layout.driver is not None and layout.checks:
        return _BY_COLUMNS[layout.index]
    if layout.index == "nested-loop":
        return _scanned
    return _chained if "subwindows" in parameters(layout.index) else _in_runs


# --- Structures ----------------------------------------------------------------------------------


def _in_runs(work: _Work) -> Estimate:
    """Sorted runs: a search in a few of them, then a range of candidates."""
    search = work.reach.boxes * RUNS * SEARCH_NS
    return work.estimate(search + _reading(work) + work.checking, _runs_insert(work))


def _chained(work: _Work) -> Estimate:
    """A chain of subwindows: a search in each."""
    search = work.reach.boxes * HELD * SUBWINDOW_NS
    return work.estimate(search + _reading(work) + work.checking, _chain_insert(work))


def _scanned(work: _Work) -> Estimate:
    """A nested loop: every row is passed, once per box."""
    return work.estimate(work.rows * work.reach.boxes * LOOP_NS + work.matching, 0.0)


def _zoned(work: _Work) -> Estimate:
    """Sorted runs with zone maps: of the rows in the driver's range only some blocks are read."""
    layout, known, rows = work.layout, work.known, work.rows
    assert layout.driver is not None
    within = work.candidates
    blocks = within / ZONE * min(known.met(layout.driver, f, rows) for f in layout.checks)
    search = work.reach.boxes * RUNS * (SEARCH_NS + EDGE_NS)
    search += within / ZONE**2 * SUPER_NS + blocks * BLOCK_NS
    insert = _runs_insert(work) * (layout.columns + 1) / 2
    return work.estimate(search + work.matching, insert, blocks * ZONE)


def _permuted(work: _Work) -> Estimate:
    """Permutations: the narrower of two columns is scanned by zones, or one is swept.

    A sweep sets every bit once for a batch of boxes.
    """
    layout, known, rows, batch = work.layout, work.known, work.rows, max(work.batch, 1.0)
    assert layout.driver is not None
    pair = sorted((layout.driver, layout.checks[0]), key=lambda field: known.shares[field])
    narrow = rows * known.shares[pair[0]]
    blocks = narrow / ZONE * known.met(pair[0], pair[1], rows)
    scan = narrow / ZONE**2 * SUPER_NS + blocks * BLOCK_NS
    sweep = rows / batch * BIT_NS + blocks * WORD_NS
    levels = max(0.0, math.log(max(rows, 1.0) / batch, PERMUTED_STEPS))
    insert = layout.columns * (SORT_NS + PERMUTE_NS * PERMUTED_STEPS * levels)
    search = work.reach.boxes * (RUNS * layout.columns * OFFSET_NS) + min(scan, sweep)
    return work.estimate(search + work.matching, insert, blocks * ZONE)


_BY_COLUMNS: dict[str, Callable[[_Work], Estimate]] = {
    "zoned-runs": _zoned,
    "spo-join": _permuted,
    "po-join": _permuted,
}
"""Structures that look at several key columns at once, where a layout has them."""


def tree_estimate(layout: Layout, known: Selectivity, rows: float) -> Estimate:
    """A tree of the index-based window join: by the equations, every box being a search."""
    work = _Work(layout, known, layout.reach(known), rows, 1.0)
    boxes, constants = work.reach.boxes, Constants.load()
    steps = predict(
        layout.index,
        max(rows, 1.0),
        work.candidates / boxes,
        parameters=layout.parameters,
        constants=constants,
    )
    steps = replace(steps, search=boxes * steps.search)
    total = steps.total + work.checking
    return Estimate(layout, boxes, work.candidates, total, steps=steps, constants=constants.source)


# --- Parts of prices -----------------------------------------------------------------------------


def _reading(work: _Work) -> float:
    """Nanoseconds for the candidates: long ranges are read by vector loops."""
    long = work.candidates / max(work.reach.boxes, 1.0) > LONG
    return work.candidates * (SCAN_NS if long or work.layout.index == "zoned-runs" else CHECK_NS)


def _runs_insert(work: _Work) -> float:
    """Into sorted runs: a row is merged into every run that is longer than a batch."""
    longer = max(0.0, math.log(max(work.rows, 1.0) / max(work.batch, 1.0), MERGE_STEPS))
    return MERGE_NS * (1 + MERGE_STEPS * longer)


def _chain_insert(work: _Work) -> float:
    """Into the newest subwindow, half full: by a merge of the batch, or into partitions."""
    held = max(work.rows, 1.0) / (HELD - 1) / 2
    return min(PARTITION_NS, MERGE_NS * (1 + held / max(work.batch, 1.0)))
