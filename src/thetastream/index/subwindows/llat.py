"""LLAT on its own: subwindows cut into fixed ranges of keys.

    splitters      10        20        30
    partition   0   │    1    │    2    │   3
    entry       0   │    1    │    2    │   3   │   4      5      6      7
               a a  │  b b b  │    ·    │  d d  │  b b     b      ·      ·
                    └───────────────────────────┴─►└─────►┘
                normal entries                  │ reserved entries

PanJoin, Section III-B2 (*Linked List Adaptive Table*). ``2 P`` entries hold the rows of P
partitions: one each, and P in reserve for partitions that outgrow theirs. An entry has room for ``σ
· n / P`` rows of a subwindow of n.

Invariants (``check``): every entry in use belongs to one partition; all entries of a partition but
the last are full; and the proof that 2 P entries are enough for any distribution: P entries hold at
least the whole subwindow, so at most P can be full.

The splitters come from the first rows (or are even over ``domain``) and never change: this is the
storage of the RaP-Table without its adjustment, and its baseline.

Cost: insert a search among P splitters, two steps for sorted batches, and a write; probe the same
search and a scan of the partitions it touches. Bytes: ``2 σ · 16`` per row of room.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.registry import refused
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.partitioned import Partitioned
from thetastream.index.subwindows.subwindow import Subwindow, sampled_splitters

SIGMA = 1.25


class LlatIndex(Chain):
    """Subwindows in fixed ranges of keys."""

    name: ClassVar[str] = "llat"
    summary: ClassVar[str] = "subwindows cut into fixed ranges of keys, in linked entries"

    def configure(self, *, sigma: float = SIGMA, domain: tuple[int, int] | None = None) -> None:
        if not sigma > 1:
            raise refused(self.name, f"sigma must be above 1; got {sigma}")
        if domain is not None and not domain[0] < domain[1]:
            raise refused(self.name, f"domain must be (low, high), low < high; got {domain}")
        self.sigma = sigma
        self.domain = domain
        self._cuts: Array | None = None

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        if self._cuts is None:
            self._cuts = self.first_splitters(self.parts(size), keys)
        return Partitioned(size, self._cuts, self.sigma)

    def first_splitters(self, parts: int, keys: Array) -> Array:
        """Even over the domain, or from the first rows."""
        if self.domain is None:
            return sampled_splitters(keys, parts)
        low, high = self.domain
        steps = [low + (high - low) * at // parts for at in range(1, parts)]
        return np.array(steps, np.int64)
