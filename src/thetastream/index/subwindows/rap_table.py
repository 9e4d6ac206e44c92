"""RaP-Table: subwindows cut into ranges of keys, cut anew for each subwindow.

    splitters      10       20       30                 of the subwindow that closes
    rows         2      3       9        2              count, least and largest key per partition
                        ▼ bal: every 4 rows
    new splitters       12    19    25                  of the one that opens

PanJoin, Section III-B (*Range Partition Table*). Rows are kept by partition in an LLAT. When a
subwindow opens, its splitters follow from the three histograms of its predecessor by the adjustment
algorithm (``kernels/rap.adjust``): where the prefix sum of the counts reaches a multiple of N / P,
assuming that keys are spread evenly inside a partition. A few adjustments turn any start into even
partitions, at most ``ceil(log_P(range of keys))`` in the worst case (Figure 4). With ``memory``
above 1 the new splitters combine those of the last ``memory`` predecessors.

Invariants (``check``): those of an LLAT; splitters ascend; every key lies between the splitters of
its partition.

Cost: insert two steps of a rebounding search for sorted batches, and a write; probe the same search
and a scan of the partitions it touches; O(subwindow) for the histograms when one closes. Bytes: ``2
σ · 16`` per row of room, and 8 per partition.

Weakness: values that increase leave the range that the splitters were made for, and all fall into
the last partition; a probe then scans most of the subwindow. This is detected when a subwindow
closes (``outside_share``) and reported (``details``, ``statistics``); ``wib-tree`` has no such
weakness.

Errata: see ``kernels/rap.adjust``. Departures: histograms are made when a subwindow closes, which
is cheaper than keeping them up to date; the first splitters come from the first rows unless
``domain`` is set.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.registry import checked
from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.llat import SIGMA, LlatIndex
from thetastream.index.subwindows.partitioned import Histograms, Partitioned, adjusted
from thetastream.index.subwindows.subwindow import Subwindow

OUTSIDE = 0.25
"""Share of rows outside their predecessor's range above which values count as running away."""

_KEPT = 1000  # subwindows whose figures are remembered


class Adjusted(Partitioned):
    """A partitioned subwindow whose splitters come from its predecessors."""

    kind: ClassVar[str] = "rap-table"


class RapTable(LlatIndex):
    """Subwindows in ranges of keys that follow their distribution."""

    name: ClassVar[str] = "rap-table"
    summary: ClassVar[str] = "subwindows cut into ranges of keys, cut anew for each"

    def configure(
        self, *, sigma: float = SIGMA, memory: int = 1, domain: tuple[int, int] | None = None
    ) -> None:
        super().configure(sigma=sigma, domain=domain)
        checked(self.name, memory=(memory, 1))
        self.memory = memory
        self.errors: list[float] = []
        self.outside: list[float] = []
        self._earlier: list[Array] = []
        self._seen: Histograms | None = None  # of the last closed subwindow

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        parts = self.parts(size)
        if self._seen is None:
            return Adjusted(size, self.first_splitters(parts, keys), self.sigma)
        self._earlier = [*self._earlier[1 - self.memory :], adjusted(self._seen, parts)]
        if self.memory == 1 or any(known.size != parts - 1 for known in self._earlier):
            self._earlier = self._earlier[-1:]
        together = np.sort(np.concatenate(self._earlier))
        count = len(self._earlier)
        return Adjusted(size, together[count // 2 :: count].copy(), self.sigma)

    def closed(self, inside: Subwindow) -> None:
        """Record how even the partitions are, and whether keys have left their range."""
        assert isinstance(inside, Partitioned)
        if self._seen is not None:
            _, lows, highs = self._seen
            outside = llat.count_outside(inside.table, lows.min(), highs.max())
            self.outside = [*self.outside[-_KEPT:], outside / inside.rows]
        self._seen = inside.histograms()
        self.errors = [*self.errors[-_KEPT:], splitter_error(self._seen[0])]

    @property
    def statistics(self) -> dict[str, float]:
        return {
            **super().statistics,
            "splitter_error": self.errors[-1] if self.errors else 0.0,
            "outside_share": self.outside[-1] if self.outside else 0.0,
        }

    @property
    def details(self) -> dict[str, Any]:
        facts = {**super().details, "error of the splitters, by subwindow": self.errors[-8:]}
        if self.outside and self.outside[-1] > OUTSIDE:
            facts["note"] = (
                f"{self.outside[-1]:.0%} of the last subwindow's keys lie outside the range of the "
                "one before: values that run away are not divided well; wib-tree suits them"
            )
        return facts


def splitter_error(counts: Array) -> float:
    """Mean deviation of the partitions' rows from an even share, in shares.

    >>> splitter_error(np.array([4, 4])), splitter_error(np.array([8, 0]))
    (0.0, 1.0)
    """
    even = counts.mean()
    return float(np.abs(counts - even).mean() / even) if even else 0.0
