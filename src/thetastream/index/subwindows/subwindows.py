"""Subwindows that choose what is inside: for each, the structure with the least expected cost.

    ┌─────────┬───────────┬──────────┬─────────┐
    │ wib-tree│ rap-table │ rap-table│ bi-sort │◄── inserts
    └─────────┴───────────┴──────────┴─────────┘
      many rows, few boxes               larger batches, or many matches per box
      drift      steady

PanJoin, Section V-A4. When a subwindow opens, the choice follows from the traffic since the last
one opened: rows per insert, boxes per row and per probe, matches per box, and how the keys of the
last closed subwindow spread over the splitters of the one before. ``rule`` turns that into the
expected cost of each structure.

The choice never changes an answer. ``details`` (costs and reason) and ``statistics``
(``switches``) report it. ``inside`` fixes the structure; "nested-loop" is the baseline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.errors import suggest
from thetastream.index.registry import refused
from thetastream.index.subwindows.bi_sort import BUFFER
from thetastream.index.subwindows.bi_sorted import BiSorted
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.llat import SIGMA
from thetastream.index.subwindows.rap_table import Adjusted
from thetastream.index.subwindows.rule import Decision, Expected, crowded, crowding, decide
from thetastream.index.subwindows.scanned import Scanned
from thetastream.index.subwindows.subwindow import Subwindow, sampled_splitters
from thetastream.index.subwindows.wib_tree import FANOUT
from thetastream.index.subwindows.wide_tree import WideTree
from thetastream.index.threads import pool
from thetastream.prices.constants import Constants

_SAMPLE = 1024  # keys of a closed subwindow whose partitions are looked up
_TELLING = 256  # keys that are enough to detect a drift
_LOOKS = 16  # how often the partitions of a RaP-Table are checked while it fills
_NOTHING = np.empty(0, np.int64)
_KINDS = ("bi-sort", "rap-table", "wib-tree", "nested-loop")


class Subwindows(Chain):
    """A chain whose subwindows may differ in structure."""

    name: ClassVar[str] = "subwindows"
    summary: ClassVar[str] = "a chain of subwindows, the structure chosen for each"

    def configure(self, *, inside: str = "auto") -> None:
        if inside not in ("auto", *_KINDS):
            message = f"inside must be auto, {', '.join(_KINDS)}; got {inside!r}"
            raise refused(self.name, message, suggest(inside, _KINDS))
        self.inside = inside
        self._known: Array | None = None  # splitters of the last closed subwindow
        self._crowd: float | None = None  # of the last one, over those of its predecessor
        self._random = np.random.default_rng(0)
        self._decision: Decision | None = None
        self._placed = _NOTHING  # rows per partition of the newest, at the last check

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        if self.inside != "auto":
            return self._make(self.inside, size, previous, keys)
        self._placed = _NOTHING
        self._decision = decide(self._traffic(size, keys), Constants.load().batches)
        subwindow = self._make(self._decision.kind, size, previous, keys)
        subwindow.why = self._decision.why
        return subwindow

    def _traffic(self, size: int, keys: Array) -> Expected:
        seen, crowd = self.observed, self._crowd
        if crowd is not None and self._known is not None and keys.size >= _TELLING:
            crowd = max(crowd, crowding(keys, self._known, size))
        return Expected(
            size, seen.batch, seen.boxes_per_row, seen.boxes_per_probe, seen.selectivity, crowd,
            self.subwindows,
        )  # fmt: skip

    def _make(self, kind: str, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        parts = self.parts(size)
        if kind == "bi-sort":
            return BiSorted(size, parts, BUFFER, pool(self.threads), self.threads)
        if kind == "wib-tree":
            return WideTree(size, parts, FANOUT, sorted_leaves=False)
        if kind == "nested-loop":
            return Scanned(size)
        cuts = self._known
        if cuts is None or cuts.size != parts - 1:
            cuts = previous.splitters(parts) if previous else sampled_splitters(keys, parts)
        return Adjusted(size, cuts, SIGMA)

    def outgrown(self, inside: Subwindow) -> bool:
        """Whether keys crowd into few partitions of a RaP-Table."""
        if self.inside != "auto" or not isinstance(inside, Adjusted):
            return False
        if inside.rows - self._placed.sum() < max(_TELLING, inside.size // _LOOKS):
            return False
        placed = inside.histograms()[0]
        crowd = crowded(placed - self._placed if self._placed.size else placed, inside.size)
        self._placed = placed
        traffic = replace(self._traffic(inside.size, _NOTHING), crowd=crowd)
        if decide(traffic, Constants.load().batches).kind == "rap-table":
            return False
        self._crowd = crowd
        return True

    def closed(self, inside: Subwindow) -> None:
        """Measure how its keys spread over the splitters of the one before."""
        if self.inside != "auto":
            return
        if self._known is not None:
            places = self._random.integers(0, inside.rows, min(inside.rows, _SAMPLE))
            self._crowd = crowding(inside.dump()[0][places], self._known, inside.rows)
        self._known = inside.splitters(self.parts(inside.size))

    @property
    def details(self) -> dict[str, Any]:
        seen = self.observed
        facts = {
            **super().details,
            "observed rows per insert": round(seen.batch, 1),
            "observed boxes per row": round(seen.boxes_per_row, 3),
            "observed matches per box and full subwindow": round(seen.selectivity, 2),
        }
        if self._crowd is not None:
            facts["observed rows per partition"] = round(self._crowd, 1)
        if self._decision is not None:
            facts["expected ns per row"] = self._decision.as_dict()
        facts["rule"] = "the structure that is expected to cost least per stored row"
        if self.inside != "auto":
            facts["rule"] = f"{self.inside}, as asked for"
        return facts
