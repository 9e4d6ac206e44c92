"""What a step costs in structures that take many rows at a time: prices by name, and bills.

A structure is priced by how often it takes which step. The steps and their frequencies make a
*bill*. Its total is a sum, its largest items are what ``explain()`` shows, and ``thetastream index
calibrate`` fits the prices to the bills of joins that were timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Bill = Mapping[str, float]
"""How often each step is taken per fresh row, by the name of its price."""


def _price(nanoseconds: float, words: str) -> float:
    """A price by default, and what it is for."""
    return field(default=nanoseconds, metadata={"words": words})


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds per step. The defaults are fitted to ``thetastream bench planner``.

    >>> Prices(search=10.0, miss=2.0).of({"search": 2.0, "miss": 1.0})
    22.0
    """

    # a push, however few rows it has
    push: float = _price(130_000.0, "a push of a side")
    push_cells: float = _price(115_000.0, "a push of a side, in cells")
    push_column: float = _price(57_000.0, "a push, per column beside the first")
    push_chain: float = _price(160_000.0, "a push, more for a chain of subwindows")
    push_permuted: float = _price(300_000.0, "a push, more for permutations")
    # a row, before it asks
    prepare: float = _price(20.0, "a row sorted, its boxes and its keys made")
    prepare_hash: float = _price(55.0, "the same, with hashes")
    prepare_cells: float = _price(75.0, "the same, with cells")
    # a box
    search: float = _price(28.0, "a box in the runs of a window that fits the first caches")
    miss: float = _price(14.0, "the same, per doubling of the window above that")
    edge: float = _price(10.0, "the high edge of a box, which zones need")
    subwindow: float = _price(45.0, "a box in one subwindow")
    subwindow_far: float = _price(
        11.0, "a box in a sorted subwindow, per doubling of rows above boxes"
    )
    leaf_far: float = _price(
        14.0, "a box in partitions or leaves, per doubling of rows above boxes"
    )
    view: float = _price(17_000.0, "a probe of one array of a subwindow, however few its boxes")
    view_tree: float = _price(3_500.0, "a call of a WiB⁺-Tree, more than of others")
    zone: float = _price(0.3, "a zone of 64 blocks that is passed over")
    block: float = _price(80.0, "a block that is read")
    fetch: float = _price(60.0, "a first block of a box, which nothing has fetched yet")
    far: float = _price(10.0, "the same, per doubling of the window above the first caches")
    ranks: float = _price(20.0, "a block of ranks that is read in permutations")
    ranks_apart: float = _price(450.0, "a first block of ranks of a box")
    ranks_shared: float = _price(75.0, "the same, if boxes lie so dense that they share them")
    bit: float = _price(1.0, "a bit of a sweep, set or cleared")
    word: float = _price(3.0, "64 bits that are read")
    # a row that is looked at
    check: float = _price(2.4, "a candidate with nothing else to check")
    check_beside: float = _price(
        5.0, "a candidate with other fields to check, in a block with a match"
    )
    pass_by: float = _price(0.2, "the same, in a block without one (vector loop)")
    field: float = _price(0.2, "a field beside the first column, on one candidate")
    match: float = _price(1.0, "a match")
    loop: float = _price(1.0, "a row of a nested loop")
    # a row that is stored
    merge: float = _price(3.2, "a step of a merge")
    move: float = _price(1.0, "a row that a merge moves in a sorted subwindow")
    partition: float = _price(25.0, "a row into its partition of a subwindow")
    cut: float = _price(30.0, "a row's share of the cuts of leaves")
    sort: float = _price(25.0, "a row sorted by one column, or its other key moved along")
    permute: float = _price(8.0, "a step of a merge in one column of a permutation")

    def of(self, bill: Bill) -> float:
        """The total of a bill."""
        return sum((count * float(getattr(self, step)) for step, count in bill.items()), 0.0)

    def items(self, bill: Bill, least: float = 0.02) -> dict[str, str]:
        """The items of a bill in words, largest first, without those below a share of the total."""
        total = self.of(bill) or 1.0
        costs = {step: count * float(getattr(self, step)) for step, count in bill.items()}
        return {
            WORDS[step]: f"{bill[step]:.3g} × {_rounded(getattr(self, step)):g} ns"
            for step in sorted(bill, key=lambda step: -costs[step])
            if costs[step] >= least * total
        }

    def scaled(self, factor: float) -> Prices:
        """All prices times a factor."""
        return Prices(**{name: price * factor for name, price in self.as_dict().items()})

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _rounded(price: float) -> float:
    """Three digits of a price."""
    return float(f"{price:.3g}")


WORDS: dict[str, str] = {price.name: price.metadata["words"] for price in fields(Prices)}
"""What each price is for."""
