"""WiB⁺-Tree: subwindows in a B⁺-tree with wide, unsorted leaves.

    bounds     [ 21 | 66 | ∞ ]              inner nodes: small, sorted, in the cache
                 │    │     └──► 93 71 80
                 │    └──► 40 66 41 50 44   leaves: wide, in the order of arrival, in an LLAT
                 └──► 9 3 21 5 14

PanJoin, Section III-C (*Wide B⁺-Tree*). A row is appended to its leaf; a full leaf is cut in two
about its median. So inserts move no rows, and the tree follows any keys, even increasing ones. Rows
of one key stay in one leaf; such a leaf may outgrow its entry of the LLAT.

Invariants (``check``): bounds ascend, none occurs twice, the last is the largest integer; keys of a
leaf lie above the bound before it, up to its own; only a leaf of one key has more than one entry.

Cost: insert a step or two in the nodes of bounds for sorted batches, a write, and O(1) amortised
for cuts; probe the same search, and a scan of the leaves it touches. Bytes: 16 per place; leaves
are 69 % full on average, and there is room for some more; 16 per leaf for the bounds.

Departures: a leaf is cut by selecting its median, not by sorting it: O(width). The number of
entries grows on demand, as cuts depend on the keys; the LLAT's bound of 2 P is for given splitters.
``sorted_leaves=True`` keeps leaves sorted: the baseline that the paper compares with.
"""

from __future__ import annotations

from typing import ClassVar

from thetastream._jit.arrays import Array
from thetastream.index.registry import checked
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.subwindow import Subwindow
from thetastream.index.subwindows.wide_tree import WideTree

FANOUT = 64


class WibTree(Chain):
    """Subwindows in a B⁺-tree with wide, unsorted leaves."""

    name: ClassVar[str] = "wib-tree"
    summary: ClassVar[str] = "subwindows in a B⁺-tree with wide, unsorted leaves"

    def configure(self, *, fanout: int = FANOUT, sorted_leaves: bool = False) -> None:
        checked(self.name, fanout=(fanout, 3))
        self.fanout = fanout
        self.sorted_leaves = sorted_leaves

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        return WideTree(size, self.parts(size), self.fanout, self.sorted_leaves)
