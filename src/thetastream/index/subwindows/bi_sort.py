"""BI-Sort: subwindows kept sorted, with an insertion buffer and an index array.

    index array    3          14          21              every step-th key of the main array
    main array     3  5  6  9 14 15 15 18 21 30           sorted by key, with the ids beside it
    buffer         4 15 90                                small batches wait here, sorted too

PanJoin, Sections III-D to III-F (*Buffered Indexed Sort*). A batch of more than ``buffer`` rows, or
a buffer that would outgrow it, is merged into the main array, in place and from the back:
O(subwindow) shared by its rows. A search finds the partition in the index array, which is small
enough for the cache, then the place inside it. Each search of a sorted batch continues from the one
before, as in a merge.

The rows inside a box are a range of the main array, so an answer can be records ⟨start, end⟩
(``ranges``), whatever the number of matches; pairs are written when they are read.

Invariants (``check``): main array and buffer ascend; the index array is every step-th key; the
buffer has at most ``buffer`` rows.

Cost with S subwindows of n rows and batches of b: insert ``n / (2 b)`` moves per row; probe two
searches per box and subwindow, and its matches. Bytes: 16 per row, 8 / step for the index array;
the newest subwindow is allocated in full from the start.

Departures: the paper's buffer is unsorted and scanned by a nested loop; here it is sorted, which
costs O(buffer) per small batch and makes its answers ranges too. Several threads merge into a
second array (pieces of equal size), so they need twice the room of one subwindow.

Why not one sorted array for the whole window? Every batch would move all of it, and rows could not
expire by dropping an array. ``sorted-runs`` solves both differently, and merges less.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.base import Ranges
from thetastream.index.registry import checked
from thetastream.index.subwindows.bi_sorted import BiSorted, SortedView
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.subwindow import Subwindow
from thetastream.index.threads import pool

BUFFER = 1024


class BiSort(Chain):
    """Sorted subwindows; answers may be ranges."""

    name: ClassVar[str] = "bi-sort"
    summary: ClassVar[str] = "subwindows kept sorted, answers as ranges"
    ranged: ClassVar[bool] = True

    def configure(self, *, buffer: int = BUFFER) -> None:
        checked(self.name, buffer=(buffer, 1))
        self.buffer = buffer

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        return BiSorted(size, self.parts(size), self.buffer, pool(self.threads), self.threads)

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """Two searches per box and subwindow; O(subwindow) more where rows of one have expired."""
        if self.columns > 1:
            return super().ranges(lows, highs)
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        views = self._views()
        self.observed.ask(low.size)
        starts, stops = (np.empty((len(views), low.size), np.int64) for _ in range(2))
        rows: list[Array] = []
        for at, (_, view, share) in enumerate(views):
            assert isinstance(view.view, SortedView)
            starts[at], stops[at], ids = view.view.live(low, high)
            rows.append(ids)
            self.observed.add(low.size, share, int((stops[at] - starts[at]).sum()))
        # The answer keeps the views alive: while they are, no array is merged in place.
        return Ranges.of(starts, stops, rows, views)

    def counts(self, lows: Array, highs: Array) -> Array:
        """Two searches per box and subwindow; where rows have expired, O(matches) or O(rows)."""
        if self.columns > 1:
            return super().counts(lows, highs)
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        counts = np.zeros(low.size, np.int64)
        self.observed.ask(low.size)
        for _, view, share in self._views():
            assert isinstance(view.view, SortedView)
            self.observed.add(low.size, share, view.view.count(low, high, counts))
        return counts
