"""What a layout costs per fresh row, by the structure under it.

``selectivity.py`` estimates how many rows a box holds. From that follows how often a row takes
which step: a *bill*, which the prices of ``prices/batches.py`` turn into nanoseconds. It covers
what ``metrics()`` measures as sort, probe, insert and merge; gathering payload costs the same for
all layouts. A fresh row is prepared, asks its boxes, and is then stored itself; a push also has a
fixed cost:

                   a box is searched in               a row is stored by
    sorted runs    a few runs                         merges: 12 steps in each run but the last
    zoned runs     the same, blocks by their zones    the same merges
    permutations   a few structures (``spo-join``)    sorts and merges of every column
    subwindows     all of them (``panjoin``)          a merge into the newest, or a partition of it
    trees          by the equations of ``cost.py``, tuple by tuple (``ibwj``)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thetastream.index.registry import parameters
from thetastream.index.subwindows.rule import storing
from thetastream.index.subwindows.subwindow import SUBWINDOWS
from thetastream.plan.cost import Cost, best_parameters, predict
from thetastream.plan.layout import Layout, Reach
from thetastream.plan.selectivity import ZONE, Selectivity
from thetastream.prices.batches import Bill, Prices
from thetastream.prices.constants import Constants

CACHED = 1 << 14  # rows of a window that fits the first caches
DENSE = 32.0  # rows per box below which neighbouring boxes share what they fetch
SPARSE = 1024.0  # rows per box above which boxes share nothing
NEAR, ANEW = 0.6, 1.5  # times a miss, for dense and for sparse boxes
EDGED = 1.7  # times a search, if both edges of a box are searched in zoned runs
COLUMN_MERGE = 0.1  # additional steps of a merge, per further column
MERGE_STEPS = 12.0  # of a row in one run: the ratio of the sizes of neighbours
HELD = SUBWINDOWS + 1.0  # subwindows of a chain: those that fill the window, and the oldest
FIRST = 1.5  # blocks of a box that are not in a cache yet
FETCHED = 8.0  # the same in permutations
OFFSETS = 5.0  # searches of a box in the columns of all structures of permutations
PERMUTED_STEPS = 4.0  # the ratio of the sizes of neighbouring structures


@dataclass(frozen=True, slots=True)
class Traffic:
    """What passes through an index: ``rows`` in the window, which arrive ``batch`` at a time.

    ``constants`` are the costs of steps on this machine.
    """

    rows: float
    batch: float
    constants: Constants = field(default_factory=Constants.load)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected cost of a layout per fresh row."""

    layout: Layout
    boxes: float
    candidates: float
    nanoseconds: float
    insert: float = 0.0  # part of it; 0 if it is in the steps
    push: float = 0.0  # part of it: a push, shared by its rows
    bill: Bill = field(default_factory=dict)
    steps: Cost | None = None  # of an index-based window join, tuple by tuple
    constants: Constants = field(default_factory=Constants)
    tuned: Mapping[str, Any] = field(default_factory=dict)  # parameters that suit the traffic
    factor: float = 1.0  # the correction by measured costs, already included

    def corrected(self, factor: float) -> Estimate:
        """The estimate times a factor learned from measured costs."""
        if factor == 1.0:
            return self
        costs = {name: getattr(self, name) * factor for name in ("nanoseconds", "insert", "push")}
        return replace(self, factor=self.factor * factor, **costs)

    def resorted(self) -> Estimate:
        """The same, if fresh rows are sorted once to ask the other side and again to be stored."""
        again = {"sort": float(self.layout.columns)}
        price = self.constants.batches.of(again)
        return replace(
            self,
            nanoseconds=self.nanoseconds + price,
            insert=self.insert + price,
            bill=_sum(self.bill, again),
        )

    def as_dict(self, *, items: bool = False) -> dict[str, Any]:
        """Plain values, optionally with the ``items`` of the bill."""
        facts = {
            **self.layout.as_dict(),
            "boxes per row": round(self.boxes, 2),
            "candidates per row": round(self.candidates, 2),
            "estimated ns per row": round(self.nanoseconds, 1),
        }
        if self.factor != 1.0:
            facts["corrected by measured costs"] = f"× {self.factor:.2f}"
        if self.insert:
            facts["of which for its insert"] = round(self.insert, 1)
        if self.push:
            facts["of which for its share of a push"] = round(self.push, 1)
        if self.steps is not None:
            steps = {step: round(cost, 1) for step, cost in self.steps.as_dict().items()}
            facts["ns per tuple, by step"] = steps
        if self.tuned:
            facts["chosen by Equations 5 and 6"] = dict(self.tuned)
        if items and self.bill:
            facts["steps per row × price"] = self.constants.batches.items(self.bill)
        if items or self.steps is not None:
            facts["constants of the cost model"] = self.constants.source
        return facts


@dataclass(frozen=True, slots=True)
class _Work:
    """What is priced: a layout, what rows ask of it, and the traffic."""

    layout: Layout
    known: Selectivity
    reach: Reach
    traffic: Traffic

    @property
    def rows(self) -> float:
        return self.traffic.rows

    @property
    def batch(self) -> float:
        return self.traffic.batch

    @property
    def prices(self) -> Prices:
        return self.traffic.constants.batches

    @property
    def candidates(self) -> float:
        return self.rows * self.reach.share

    @property
    def matches(self) -> float:
        return self.rows * self.known.joint

    @property
    def checking(self) -> Bill:
        """The steps for the fields beside the first column, and for matches."""
        return {"field": self.candidates * len(self.layout.checks), "match": self.matches}

    @property
    def far(self) -> float:
        """How far a row of the window is from the caches: doublings above the size that fits them.

        Boxes that are close share what they fetch.
        """
        doublings = max(0.0, math.log2(max(self.rows, 1.0) / CACHED))
        return doublings * (NEAR if self.dense else ANEW if self.sparse else 1.0)

    @property
    def dense(self) -> bool:
        """Whether neighbouring boxes of a push share rows."""
        return self.rows <= DENSE * self.batch

    @property
    def sparse(self) -> bool:
        """Whether boxes of a push are so far apart that they share nothing."""
        return self.rows > SPARSE * self.batch

    def searched(self, times: float) -> Bill:
        """The steps for finding the start of every box of a row in the runs of the window."""
        searches = times * self.reach.boxes
        return {"search": searches, "miss": searches * self.far}

    @property
    def busy(self) -> float:
        """The share of boxes that hold a relevant number of rows."""
        driver = self.layout.driver
        return 1.0 if driver is None else max(self.known.busy(driver), 1e-3)

    def fetched(self, candidates: float) -> Bill:
        """The steps for the blocks of candidates, and the first one or two of a box."""
        first = self.busy * min(candidates / self.busy, 1.0) * FIRST
        blocks = candidates / ZONE
        return {"fetch": first, "block": blocks, "far": (first + blocks / 2) * self.far}

    def estimate(
        self, *probe: Bill, insert: Bill, push: Bill, candidates: float | None = None
    ) -> Estimate:
        layout, batch = self.layout, max(self.batch, 1.0)
        candidates = self.candidates if candidates is None else candidates
        whole_push = {layout.pushed: 1.0, "push_column": float(len(layout.checks)), **push}
        share = {step: count / batch for step, count in whole_push.items()}
        bill = _sum({layout.prepared: 1.0}, *probe, insert, share)
        of = self.prices.of
        costs = (of(bill), of(insert), of(share))
        return Estimate(
            layout, self.reach.boxes, candidates, *costs, bill, constants=self.traffic.constants
        )


def _sum(*bills: Bill) -> Bill:
    """The sum of bills."""
    whole: dict[str, float] = {}
    for bill in bills:
        for step, count in bill.items():
            whole[step] = whole.get(step, 0.0) + count
    return whole


def estimate(layout: Layout, known: Selectivity, traffic: Traffic, lost: float = 0.0) -> Estimate:
    """What a layout costs, if it cannot distinguish a share ``lost`` of the rows."""
    return _price(layout)(_Work(layout, known, layout.reach(known, lost), traffic))


def _price(layout: Layout) -> Callable[[_Work], Estimate]:
    """The function that makes the bill for the structure of a layout."""
    if layout.index in _BY_COLUMNS and layout.driver is not None and layout.checks:
        return _BY_COLUMNS[layout.index]
    if layout.index == "nested-loop":
        return _scanned
    return _chained if "subwindows" in parameters(layout.index) else _in_runs


# --- Structures ----------------------------------------------------------------------------------


def _in_runs(work: _Work) -> Estimate:
    """Sorted runs: a search in a few of them, then a range of candidates."""
    probe = [work.searched(1.0)]
    if work.layout.index == "zoned-runs":
        probe = [work.searched(EDGED), work.fetched(work.candidates)]
    return work.estimate(*probe, _read(work), work.checking, insert=_into_runs(work), push={})


def _chained(work: _Work) -> Estimate:
    """A chain of subwindows: a search in each."""
    probe = {"subwindow": work.reach.boxes * HELD}
    insert, push = _into_chain(work), {"push_chain": 1.0}
    return work.estimate(probe, _read(work), work.checking, insert=insert, push=push)


def _scanned(work: _Work) -> Estimate:
    """A nested loop: every row is visited once per box."""
    probe = {"loop": work.rows * work.reach.boxes, "match": work.matches}
    return work.estimate(probe, insert={}, push={})


def _zoned(work: _Work) -> Estimate:
    """Sorted runs with zone maps: of the rows in the driver's range only some blocks are read."""
    layout, known, rows = work.layout, work.known, work.rows
    assert layout.driver is not None
    within = work.candidates
    blocks = within / ZONE * min(known.met(layout.driver, f, rows) for f in layout.checks)
    probe = {"edge": work.reach.boxes, "zone": within / ZONE**2, "match": work.matches}
    return work.estimate(
        probe,
        work.searched(1.0),
        work.fetched(max(blocks * ZONE, work.matches)),
        insert=_into_runs(work),
        push={},
        candidates=blocks * ZONE,
    )


def _permuted(work: _Work) -> Estimate:
    """Permutations: the narrower of two columns is scanned by zones, or one is swept.

    A sweep sets every bit once for a batch of boxes.
    """
    layout, known, rows, batch = work.layout, work.known, work.rows, max(work.batch, 1.0)
    assert layout.driver is not None
    pair = sorted((layout.driver, layout.checks[0]), key=lambda field: known.shares[field])
    narrow = rows * known.shares[pair[0]]
    blocks = narrow / ZONE * known.met(pair[0], pair[1], rows)
    ways = ({"zone": narrow / ZONE**2, "ranks": blocks}, {"bit": rows / batch, "word": blocks})
    levels = max(0.0, math.log(max(rows, 1.0) / batch, PERMUTED_STEPS))
    insert = {"sort": layout.columns, "permute": layout.columns * PERMUTED_STEPS * levels}
    first = "ranks_shared" if work.dense else "ranks_apart"
    return work.estimate(
        work.searched(OFFSETS),
        min(ways, key=work.prices.of),
        {first: min(blocks, FETCHED), "match": work.matches},
        insert=insert,
        push={"push_permuted": 1.0},
        candidates=blocks * ZONE,
    )


_BY_COLUMNS: dict[str, Callable[[_Work], Estimate]] = {
    "zoned-runs": _zoned,
    "spo-join": _permuted,
    "po-join": _permuted,
}
"""Structures that use several key columns at once, if a layout has them."""


def tree_estimate(layout: Layout, known: Selectivity, traffic: Traffic) -> Estimate:
    """A tree of the index-based window join: by the equations, with one search per box.

    Equations 5 and 6 also choose merge ratio and depth, unless they are given.
    """
    constants = traffic.constants
    work = _Work(layout, known, layout.reach(known), traffic)
    boxes, rows = work.reach.boxes, max(work.rows, 1.0)
    rate, given = work.candidates / boxes, layout.parameters
    tuned = best_parameters(layout.index, rows, rate, parameters=given, constants=constants)
    settings = {**given, **tuned}
    steps = predict(layout.index, rows, rate, parameters=settings, constants=constants)
    steps = replace(steps, search=boxes * steps.search)
    total = steps.total + constants.batches.of(work.checking)
    return Estimate(
        layout, boxes, work.candidates, total, steps=steps, constants=constants, tuned=tuned
    )


# --- Parts of bills ------------------------------------------------------------------------------


def _read(work: _Work) -> Bill:
    """The steps for candidates; vector loops skip blocks without a match."""
    if work.layout.index == "zoned-runs":
        return {"pass_by": work.candidates}
    if not work.layout.checks:
        return {"check": work.candidates}
    slow = min(work.candidates, ZONE * work.matches)
    return {"check_beside": slow, "pass_by": work.candidates - slow}


def _into_runs(work: _Work) -> Bill:
    """Inserting into sorted runs: a row is merged into every run longer than a batch."""
    longer = max(0.0, math.log(max(work.rows, 1.0) / max(work.batch, 1.0), MERGE_STEPS))
    beside = 1 + COLUMN_MERGE * (work.layout.columns - 1)
    return {"merge": (1 + MERGE_STEPS * longer) * beside}


def _into_chain(work: _Work) -> Bill:
    """Inserting into the newest subwindow, by the named structure or the cheapest."""
    size = max(work.rows, 1.0) / (HELD - 1)
    kinds = ("bi-sort", "rap-table", "wib-tree")
    named = [work.layout.index] if work.layout.index in kinds else kinds
    return min((storing(kind, size, work.batch) for kind in named), key=work.prices.of)
