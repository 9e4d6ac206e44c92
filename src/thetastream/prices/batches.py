"""What a step costs in structures that take many rows at a time: prices by name, and bills.

A structure is priced by saying how often it takes which step. The steps and how often they are
taken make a *bill*: what it comes to is a sum, the largest items are what ``explain()`` shows, and
bills of joins that were timed are what ``thetastream index calibrate`` fits the prices to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

Bill = Mapping[str, float]
"""How often each step is taken per fresh row, by the name of its price."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds per step. The defaults are fitted to ``thetastream bench planner``.

    >>> Prices(search=10.0, miss=2.0).of({"search": 2.0, "miss": 1.0})
    22.0
    """

    # a push, however few rows it has
    push: float = 130_000.0
    push_cells: float = 190_000.0
    push_column: float = 57_000.0
    push_chain: float = 160_000.0
    push_permuted: float = 300_000.0
    # a row, before it asks
    prepare: float = 20.0
    prepare_hash: float = 55.0
    prepare_cells: float = 75.0
    resort: float = 40.0
    # a box
    search: float = 28.0
    miss: float = 14.0
    edge: float = 10.0
    subwindow: float = 45.0
    subwindow_far: float = 11.0
    leaf_far: float = 14.0
    view: float = 17_000.0
    view_tree: float = 3_500.0
    zone: float = 0.3
    block: float = 80.0
    fetch: float = 60.0
    far: float = 10.0
    ranks: float = 20.0
    ranks_apart: float = 450.0
    ranks_shared: float = 75.0
    bit: float = 1.0
    word: float = 3.0
    # a row that is looked at
    check: float = 2.4
    check_beside: float = 5.0
    pass_by: float = 0.2
    field: float = 0.2
    match: float = 1.0
    loop: float = 1.0
    # a row that is stored
    merge: float = 3.2
    move: float = 1.0
    partition: float = 25.0
    cut: float = 30.0
    sort: float = 25.0
    permute: float = 8.0

    def of(self, bill: Bill) -> float:
        """What a bill comes to."""
        return sum((count * float(getattr(self, step)) for step, count in bill.items()), 0.0)

    def items(self, bill: Bill, least: float = 0.02) -> dict[str, str]:
        """The items of a bill in words, the largest first; those below a share are left out."""
        whole = self.of(bill) or 1.0
        prices = {step: getattr(self, step) for step in bill}
        ranked = sorted(bill, key=lambda step: -bill[step] * prices[step])
        return {
            WORDS[step]: f"{bill[step]:.3g} × {prices[step]:g} ns"
            for step in ranked
            if bill[step] * prices[step] >= least * whole
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


WORDS = {
    "push": "a push of a side",
    "push_cells": "a push of a side, in cells",
    "push_column": "a push, per column beside the first",
    "push_chain": "a push, more for a chain of subwindows",
    "push_permuted": "a push, more for permutations",
    "prepare": "a row sorted, its boxes and its keys made",
    "prepare_hash": "the same, with hashes",
    "prepare_cells": "the same, with cells",
    "resort": "a row sorted once more, as the other side is kept in another order",
    "search": "a box in the runs of a window that fits the first caches",
    "miss": "the same, per doubling of the window above that",
    "edge": "the high edge of a box, which zones need",
    "subwindow": "a box in one subwindow",
    "subwindow_far": "a box in a sorted subwindow, per doubling of rows above boxes",
    "leaf_far": "a box in partitions or leaves, per doubling of rows above boxes",
    "view": "a probe of one array of a subwindow, however few its boxes",
    "view_tree": "a call of a WiB⁺-Tree, more than of others",
    "zone": "a zone of 64 blocks that is passed over",
    "block": "a block that is read",
    "fetch": "a first block of a box, which nothing has fetched yet",
    "far": "the same, per doubling of the window above the first caches",
    "ranks": "a block of ranks that is read in permutations",
    "ranks_apart": "a first block of ranks of a box",
    "ranks_shared": "the same, if boxes lie so dense that they share them",
    "bit": "a bit of a sweep, set or cleared",
    "word": "64 bits that are read",
    "check": "a candidate with nothing else to check",
    "check_beside": "a candidate with other fields to check, in a block with a match",
    "pass_by": "the same, in a block without one (vector loop)",
    "field": "a field beside the first column, on one candidate",
    "match": "a match",
    "loop": "a row of a nested loop",
    "merge": "a step of a merge",
    "move": "a row that a merge moves in a sorted subwindow",
    "partition": "a row into its partition of a subwindow",
    "cut": "a row's share of the cuts of leaves",
    "sort": "a row sorted in one column of a permutation",
    "permute": "a step of a merge in one column of a permutation",
}
"""What each price is for."""

assert set(WORDS) == {field.name for field in fields(Prices)}
