"""What a layout costs per fresh row, by the structure under it.

How many rows a box holds is estimated by ``selectivity.py``. Costs are nanoseconds on one core,
fitted to the steps that ``thetastream bench planner`` measures (sort, probe, insert and merge; the
gathering of payload is the same for all). A fresh row is prepared, asks its boxes, and is then
stored itself; a push costs something whatever it holds:

                   a box is searched in               a row is stored by
    sorted runs    a few runs                         merges: 12 steps in each run but the last
    zoned runs     the same, blocks by their zones    the same merges
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

COLUMN_PUSH_NS = 57_000.0  # one push of a side, for every column beside the first
CHAIN_PUSH_NS = 160_000.0  # more, for a chain of subwindows
PERMUTED_PUSH_NS = 300_000.0  # more, for permutations
SEARCH_NS = 28.0  # one box in the runs of a window that fits the first caches
MISS_NS = 14.0  # the same, for every doubling of the window above CACHED rows
CACHED = 1 << 14
DENSE = 32.0  # rows per box below which neighbouring boxes share what they fetch
SPARSE = 1024.0  # rows per box above which each box starts anew
NEAR, ANEW = 0.6, 1.5  # times a miss, for dense and for sparse boxes
EDGED = 1.7  # times a search, if both edges of a box are looked up in zoned runs
CHECK_NS = 2.4  # one candidate, if nothing else is to be checked
BESIDES_NS = 5.0  # one candidate with other fields to check, in a block with a match
SCAN_NS = 0.2  # the same, in a block without one (vector loop)
BESIDE_NS = 0.2  # one field beside the first column, on one candidate
MATCH_NS = 1.0
LOOP_NS = 1.0  # one row of a nested loop
MERGE_NS = 3.2  # one step of a merge
COLUMN_MERGE = 0.1  # more, for every further column
MERGE_STEPS = 12.0  # of a row in one run: the ratio of the sizes of neighbours
HELD = SUBWINDOWS + 1.0  # subwindows of a chain: those that fill the window, and the oldest
SUBWINDOW_NS = 45.0  # one box in one subwindow
PARTITION_NS = 25.0  # one row into its partition of a subwindow (RaP-Table, WiB⁺-Tree)
EDGE_NS = 10.0  # the high edge of a box, which zones need
SUPER_NS = 0.3  # one zone of 64 blocks that is passed over
BLOCK_NS = 80.0  # one block that is read
FETCH_NS = 60.0  # more, for the FIRST blocks of a box: nothing has fetched them yet
FAR_NS = 10.0  # more, for every doubling of the window above CACHED rows
FIRST = 1.5
RANKS_NS = 20.0  # one block of ranks that is read in permutations
FETCHED = 8.0  # blocks of a box in permutations that nothing has fetched yet
OFFSETS = 5.0  # searches of a box in the columns of all structures of permutations
APART_NS = 450.0  # one of the first blocks that a box reads in permutations
SHARED_NS = 75.0  # the same, if boxes lie so dense that they share them
PERMUTE_NS = 8.0  # one step of a merge in one column
PERMUTED_STEPS = 4.0  # the ratio of the sizes of neighbouring structures


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a layout is expected to cost per fresh row."""

    layout: Layout
    boxes: float
    candidates: float
    nanoseconds: float
    insert: float = 0.0  # part of it; 0 where the steps say it
    push: float = 0.0  # part of it: a push, shared by its rows
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
        if self.push:
            facts["of which for its share of a push"] = round(self.push, 1)
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

    @property
    def far(self) -> float:
        """How far from the caches a row of the window is: doublings above those that fit them.

        Boxes that lie close share what they fetch.
        """
        doublings = max(0.0, math.log2(max(self.rows, 1.0) / CACHED))
        return doublings * (NEAR if self.dense else ANEW if self.sparse else 1.0)

    @property
    def dense(self) -> bool:
        """Whether neighbouring boxes of a push touch the same rows."""
        return self.rows <= DENSE * self.batch

    @property
    def sparse(self) -> bool:
        """Whether boxes of a push are so far apart that each starts anew."""
        return self.rows > SPARSE * self.batch

    @property
    def search(self) -> float:
        """Nanoseconds to find where a box begins in the runs of the window."""
        return SEARCH_NS + MISS_NS * self.far

    @property
    def busy(self) -> float:
        """The share of boxes that hold anything to speak of."""
        driver = self.layout.driver
        return 1.0 if driver is None else max(self.known.busy(driver), 1e-3)

    def fetched(self, candidates: float) -> float:
        """Nanoseconds for the blocks of candidates, and for the first one of a box, or two."""
        first = self.busy * min(candidates / self.busy, 1.0) * FIRST
        found = first * (FETCH_NS + FAR_NS * self.far)
        return found + candidates / ZONE * (BLOCK_NS + FAR_NS / 2 * self.far)

    def estimate(
        self, search: float, insert: float, candidates: float | None = None, push: float = 0.0
    ) -> Estimate:
        found = self.candidates if candidates is None else candidates
        whole_push = push + self.layout.push_ns + COLUMN_PUSH_NS * len(self.layout.checks)
        push = whole_push / max(self.batch, 1.0)
        whole = search + insert + self.layout.prepare_ns + push
        return Estimate(self.layout, self.reach.boxes, found, whole, insert, push)


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
    search = work.reach.boxes * work.search
    if work.layout.index == "zoned-runs":
        search = EDGED * search + work.fetched(work.candidates)
    return work.estimate(search + _reading(work) + work.checking, _runs_insert(work))


def _chained(work: _Work) -> Estimate:
    """A chain of subwindows: a search in each."""
    search = work.reach.boxes * HELD * SUBWINDOW_NS
    read = search + _reading(work) + work.checking
    return work.estimate(read, _chain_insert(work), push=CHAIN_PUSH_NS)


def _scanned(work: _Work) -> Estimate:
    """A nested loop: every row is passed, once per box."""
    return work.estimate(work.rows * work.reach.boxes * LOOP_NS + work.matching, 0.0)


def _zoned(work: _Work) -> Estimate:
    """Sorted runs with zone maps: of the rows in the driver's range only some blocks are read."""
    layout, known, rows = work.layout, work.known, work.rows
    assert layout.driver is not None
    within = work.candidates
    blocks = within / ZONE * min(known.met(layout.driver, f, rows) for f in layout.checks)
    search = work.reach.boxes * (work.search + EDGE_NS)
    search += within / ZONE**2 * SUPER_NS
    search += work.fetched(max(blocks * ZONE, rows * known.joint))
    return work.estimate(search + work.matching, _runs_insert(work), blocks * ZONE)


def _permuted(work: _Work) -> Estimate:
    """Permutations: the narrower of two columns is scanned by zones, or one is swept.

    A sweep sets every bit once for a batch of boxes.
    """
    layout, known, rows, batch = work.layout, work.known, work.rows, max(work.batch, 1.0)
    assert layout.driver is not None
    pair = sorted((layout.driver, layout.checks[0]), key=lambda field: known.shares[field])
    narrow = rows * known.shares[pair[0]]
    blocks = narrow / ZONE * known.met(pair[0], pair[1], rows)
    scan = narrow / ZONE**2 * SUPER_NS + blocks * RANKS_NS
    sweep = rows / batch * BIT_NS + blocks * WORD_NS
    levels = max(0.0, math.log(max(rows, 1.0) / batch, PERMUTED_STEPS))
    insert = layout.columns * (SORT_NS + PERMUTE_NS * PERMUTED_STEPS * levels)
    search = work.reach.boxes * OFFSETS * work.search + min(scan, sweep)
    search += min(blocks, FETCHED) * (SHARED_NS if work.dense else APART_NS)
    return work.estimate(search + work.matching, insert, blocks * ZONE, PERMUTED_PUSH_NS)


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
    """Nanoseconds for the candidates: blocks without a match are passed by vector loops."""
    if work.layout.index == "zoned-runs":
        return work.candidates * SCAN_NS
    if not work.layout.checks:
        return work.candidates * CHECK_NS
    slow = min(work.candidates, ZONE * work.rows * work.known.joint)
    return slow * BESIDES_NS + (work.candidates - slow) * SCAN_NS


def _runs_insert(work: _Work) -> float:
    """Into sorted runs: a row is merged into every run that is longer than a batch."""
    longer = max(0.0, math.log(max(work.rows, 1.0) / max(work.batch, 1.0), MERGE_STEPS))
    beside = 1 + COLUMN_MERGE * (work.layout.columns - 1)
    return MERGE_NS * (1 + MERGE_STEPS * longer) * beside


def _chain_insert(work: _Work) -> float:
    """Into the newest subwindow, half full: by a merge of the batch, or into partitions."""
    held = max(work.rows, 1.0) / (HELD - 1) / 2
    return min(PARTITION_NS, MERGE_NS * (1 + held / max(work.batch, 1.0)))
