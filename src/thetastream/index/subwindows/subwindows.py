"""Subwindows that choose what is inside: another structure for each, as the traffic asks for.

    ┌─────────┬───────────┬──────────┬─────────┐
    │ wib-tree│ rap-table │ rap-table│ bi-sort │◄── inserts
    └─────────┴───────────┴──────────┴─────────┘
      values    steady, small batches   larger batches, or many matches per box
      unknown

PanJoin, Section V-A4. When a subwindow opens, what was observed since the last one opened decides:

1. large batches or many matches per box: BI-Sort;
2. otherwise, keys spread like those of the subwindow before: RaP-Table;
3. otherwise (they increase, drift, or are not known yet): WiB⁺-Tree.

A batch is large when merging it in costs less than BI-Sort's faster probes save: a batch of b rows
moves ``n / b`` rows of a subwindow of n, each row is probed for in every subwindow, and a probe of
BI-Sort saves about as much as 128 moves. In the paper, with one subwindow of 8 M rows per node,
that is a batch of 64 k.

The choice never changes an answer. It is shown by ``details`` (with the reason) and ``statistics``
(``switches``). ``inside`` fixes the structure; "nested-loop" is the baseline.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thetastream.errors import suggest
from thetastream.index.base import Array
from thetastream.index.registry import refused
from thetastream.index.subwindows.bi_sort import BUFFER, check_partitions
from thetastream.index.subwindows.bi_sorted import BiSorted
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.llat import SIGMA
from thetastream.index.subwindows.partitioned import ROWS_PER_PART
from thetastream.index.subwindows.rap_table import Adjusted, splitter_error
from thetastream.index.subwindows.scanned import Scanned
from thetastream.index.subwindows.subwindow import SUBWINDOWS, Subwindow, sampled_splitters
from thetastream.index.subwindows.wib_tree import FANOUT
from thetastream.index.subwindows.wide_tree import WideTree
from thetastream.index.threads import pool

__all__ = ["MANY", "MOVES", "STEADY", "Subwindows"]

MOVES = 128
"""Rows that may be moved per inserted row and subwindow probed, for BI-Sort to be worth it."""

MANY = 1024.0
"""Matches per box in a full subwindow from which copying them out costs more than finding them."""

STEADY = 0.5
"""Error of a subwindow's rows over the splitters of the one before, up to which keys are steady."""

_PARTS = 64  # parts that keys are compared by
_SAMPLE = 4096
_KINDS = ("bi-sort", "rap-table", "wib-tree", "nested-loop")


class Subwindows(Chain):
    """A chain whose subwindows may differ in structure."""

    name: ClassVar[str] = "subwindows"
    summary: ClassVar[str] = "a chain of subwindows, the structure chosen for each"

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        subwindows: int = SUBWINDOWS,
        inside: str = "auto",
        partitions: int = 0,
        threads: int = 1,
        workers: int = 1,
    ) -> None:
        super().__init__(capacity, columns, subwindows, threads, workers)
        check_partitions(self.name, partitions)
        if inside not in ("auto", *_KINDS):
            kinds = ", ".join(_KINDS)
            raise refused(
                self.name,
                f"inside must be auto, {kinds}; got {inside!r}",
                suggest(inside, _KINDS),
            )
        self.inside = inside
        self.partitions = partitions
        self._drift: float | None = None  # error over the predecessor's splitters
        self._known: Array | None = None  # splitters of the last closed subwindow

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        kind, why = self._chosen(size)
        made = self._made(kind, size, previous, keys)
        made.why = why
        return made

    def _chosen(self, size: int) -> tuple[str, str]:
        """The rule: which structure, and why."""
        if self.inside != "auto":
            return self.inside, "as asked for"
        batch, matches = self.observed.batch, self.observed.selectivity
        if matches >= MANY:
            return "bi-sort", f"{matches:,.0f} matches per box"
        moves = size / max(batch, BUFFER)
        if moves <= MOVES * self.subwindows:
            return "bi-sort", f"batches of {batch:,.0f} rows move {moves:,.1f} rows per row"
        small = f"small batches ({batch:,.0f} rows), few matches per box ({matches:,.1f})"
        if self._drift is None:
            return "wib-tree", f"{small}; the spread of keys is not known yet"
        if self._drift <= STEADY:
            return "rap-table", f"{small}; keys are steady (error {self._drift:.2f})"
        return "wib-tree", f"{small}; keys drift (error {self._drift:.2f})"

    def _made(self, kind: str, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        parts = self.partitions or max(1, size // ROWS_PER_PART)
        if kind == "bi-sort":
            return BiSorted(size, parts, BUFFER, pool(self.threads), self.threads)
        if kind == "wib-tree":
            return WideTree(size, parts, FANOUT, sorted_leaves=False)
        if kind == "nested-loop":
            return Scanned(size)
        cuts = previous.splitters(parts) if previous else sampled_splitters(keys, parts)
        return Adjusted(size, cuts, SIGMA)

    def closed(self, inside: Subwindow) -> None:
        """See whether its keys were spread like those before."""
        keys = inside.dump()[0]
        sample = np.sort(keys[:: max(1, keys.size // _SAMPLE)])
        if self._known is not None:
            places = np.searchsorted(self._known, sample, "right")
            self._drift = splitter_error(np.bincount(places, minlength=_PARTS))
        self._known = sample[np.arange(1, _PARTS) * sample.size // _PARTS]

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "inside": self.inside, "partitions": self.partitions}

    @property
    def details(self) -> dict[str, Any]:
        facts = {**super().details, "observed rows per insert": round(self.observed.batch, 1)}
        facts["observed matches per box and full subwindow"] = round(self.observed.selectivity, 2)
        facts["rule"] = (
            f"bi-sort for {MANY:,.0f} matches per box, or batches that move at most "
            f"{MOVES * self.subwindows:,} rows per row; else rap-table for steady keys; "
            "else wib-tree"
        )
        return facts
