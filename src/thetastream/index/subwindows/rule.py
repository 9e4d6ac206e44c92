"""Which structure suits a subwindow: the expected cost of each, as a bill over measured prices.

PanJoin, Section V-A4, says: BI-Sort for large batches or many matches, otherwise a RaP-Table, or a
WiB⁺-Tree where keys drift. The paper leaves open what "large" means. Here each structure has a
*bill* for one stored row during the life of its subwindow:

                 a row is stored                 a box in one subwindow
    bi-sort      a search, and the rows that     a search; one more array for what waits
                 its merge moves                 in the buffer
    rap-table    a write into its partition      a search, and its partition is read, however
                                                 full it is: drifting keys crowd into a few
    wib-tree     the same, and cuts of leaves    a search, and its leaf is read; every call
                                                 costs more, as a tree has more arrays

The cheapest wins. A RaP-Table needs splitters, so it is considered once two subwindows have shown
how the keys of one spread over the splitters of the other (``crowd``).

Departures: the paper's rule considers neither the number of boxes per stored row nor the cost of a
call. Both matter here: a window that is filled faster than it is probed is cheapest in partitions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.subwindows.bi_sort import BUFFER
from thetastream.index.subwindows.partitioned import ROWS_PER_PART
from thetastream.prices.batches import WORDS, Bill, Prices

_EDGES = 32  # rows of the blocks at the edges of a box, which are read one by one
_READ_AGAIN = 2.0  # rows skipped per match, beyond those of a sorted array
_TREE_CALLS = 2.0  # of a tree, per insert
_UNKNOWN = "the spread of keys is not known yet"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected traffic of a subwindow."""

    size: float
    """Rows of a full subwindow."""
    batch: float
    """Rows per insert."""
    boxes: float = 1.0
    """Boxes asked per stored row."""
    asked: float = 0.0
    """Boxes per probe; 0 for as many as rows per insert."""
    matches: float = 0.0
    """Rows of a full subwindow inside a box."""
    crowd: float | None = None
    """Rows in the partition of an average row, by the splitters of the subwindow before."""
    subwindows: int = 4

    @property
    def held(self) -> float:
        """Subwindows that a box is asked of: those that fill the window, and the oldest."""
        return self.subwindows + 1.0

    @property
    def probes(self) -> float:
        """Probes per stored row."""
        return self.boxes / max(self.asked or self.batch, 1.0)

    @property
    def apart(self) -> float:
        """How far apart the boxes of a probe lie: doublings from one row to the next box."""
        return max(0.0, math.log2(max(self.size, 1.0) / max(self.asked or self.batch, 1.0)))


@dataclass(frozen=True, slots=True)
class Decision:
    """The structure chosen, and what each was expected to cost."""

    kind: str
    why: str
    costs: Mapping[str, float]
    """Nanoseconds per stored row, by structure; one that is not considered is missing."""

    def as_dict(self) -> dict[str, float | str]:
        """Plain values."""
        shown: dict[str, float | str] = {kind: round(cost, 1) for kind, cost in self.costs.items()}
        return shown if "rap-table" in shown else {**shown, "rap-table": _UNKNOWN}


def decide(traffic: Expected, prices: Prices) -> Decision:
    """The cheapest structure for this traffic.

    >>> decide(Expected(size=1 << 14, batch=1 << 12), Prices()).kind
    'bi-sort'
    >>> decide(Expected(size=1 << 14, batch=16, crowd=64), Prices()).kind
    'rap-table'
    >>> decide(Expected(size=1 << 18, batch=1 << 10, boxes=0.01, crowd=1e5), Prices()).kind
    'wib-tree'
    """
    bills = {kind: _whole(kind, traffic) for kind in ("bi-sort", "rap-table", "wib-tree")}
    if traffic.crowd is None:
        del bills["rap-table"]
    costs = {kind: prices.of(bill) for kind, bill in bills.items()}
    best, second = sorted(costs, key=costs.__getitem__)[:2]
    saved = {
        step: (bills[second].get(step, 0.0) - bills[best].get(step, 0.0)) * getattr(prices, step)
        for step in bills[second]
    }
    most = WORDS[max(saved, key=saved.__getitem__)]
    why = (
        f"{costs[best]:,.0f} ns per row expected, {costs[second]:,.0f} in a {second}, most of the "
        f"difference is for {most}; {_seen(traffic)}"
    )
    return Decision(best, why, costs)


def _seen(traffic: Expected) -> str:
    spread = _UNKNOWN if traffic.crowd is None else f"rows per partition {traffic.crowd:,.0f}"
    return (
        f"rows per insert {traffic.batch:,.0f}, boxes per row {traffic.boxes:.3g}, "
        f"matches per box and subwindow {traffic.matches:,.1f}, {spread}"
    )


# --- Bills ---------------------------------------------------------------------------------------


def storing(kind: str, size: float, batch: float) -> Bill:
    """What it takes to store one row in a subwindow of ``size`` rows."""
    if kind == "rap-table":
        return {"partition": 1.0}
    if kind == "wib-tree":
        return {"partition": 1.0, "cut": 1.0}
    batch = max(batch, 1.0)
    merged = batch * (BUFFER // batch + 1)  # rows that are merged at a time
    moved = size / 2 / merged
    waiting = BUFFER / 2 / batch if batch <= BUFFER else 0.0
    return {"merge": 1 + 2 * math.log2(1 + moved), "move": moved + waiting}


def _whole(kind: str, traffic: Expected) -> Bill:
    """A stored row, the boxes asked of its subwindow as long as it lives, and their matches."""
    asked = {step: traffic.boxes * count for step, count in _asking(kind, traffic).items()}
    views = traffic.held * traffic.probes
    bill = {**storing(kind, traffic.size, traffic.batch), **asked, "view": views}
    if kind == "wib-tree":
        bill["view_tree"] = views + _TREE_CALLS / max(traffic.batch, 1.0)
    elif kind == "bi-sort" and traffic.batch <= BUFFER:
        bill["view"] = views + traffic.probes
    return bill


def _asking(kind: str, traffic: Expected) -> Bill:
    """One box in all subwindows."""
    held, matches = traffic.held, traffic.matches * traffic.subwindows
    far = held * traffic.apart
    bill = {"subwindow": held, "match": matches}
    if kind == "bi-sort":
        return {**bill, "subwindow_far": far}
    read = ROWS_PER_PART if kind == "wib-tree" or traffic.crowd is None else traffic.crowd
    looked_at = traffic.subwindows * min(traffic.matches, _EDGES)
    passed = held * read + _READ_AGAIN * matches
    return {**bill, "leaf_far": far, "pass_by": passed, "check": looked_at}


def crowding(sample: Array, splitters: Array, rows: int) -> float:
    """Rows in the partition of an average row, from a random sample of ``rows`` keys.

    >>> crowding(np.array([1, 2, 3, 4]), np.array([3]), 600)
    200.0
    >>> crowding(np.array([5, 6, 7, 8]), np.array([3]), 600)
    600.0
    """
    return crowded(np.bincount(np.searchsorted(splitters, sample, "right")), rows)


def crowded(counts: Array, rows: int) -> float:
    """The same, from the sampled rows of every partition."""
    size = int(counts.sum())
    pairs = size * (size - 1)
    return float(rows * np.sum(counts * (counts - 1)) / pairs) if pairs else float(rows)
