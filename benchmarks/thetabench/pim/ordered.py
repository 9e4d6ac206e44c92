"""The join that everyone can write: an ordered set per side from PyPI, tuple by tuple.

A stored row is one integer, ``key << 32 | number``, so that a range scan of the set gives numbers
and equal keys are no special case. Codes are made for many tuples at a time, in NumPy; what is left
in the loop is what the join is: a range scan, a removal, an insertion. The sets of
:mod:`thetabench.peers` do this for batches in key order; here the order is that of arrival.

Keys must fit into 32 bits and rows be fewer than 2³².
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from thetabench.arrays import Array
from thetabench.contestant import optional

_BITS = 32
_LAST = (1 << _BITS) - 1
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1

KINDS: dict[str, tuple[str, str, str, str]] = {
    "btrees": ("BTrees.LLBTree", "LLTreeSet", "keys", "insert"),
    "sortedcontainers": ("sortedcontainers", "SortedList", "irange", "add"),
}
"""Per library: the module, the set, its range scan (closed) and its insertion."""


class OrderedSetJoin:
    """A join of two count windows on ordered sets of one of ``KINDS``."""

    def __init__(self, kind: str, windows: tuple[int, int]) -> None:
        module, name, self._scan, self._add = KINDS[kind]
        self._make: Callable[[list[int]], Any] = getattr(optional(module), name)
        self._windows = windows
        self._sets: list[Any] = []
        self._queues: list[deque[int]] = []
        self._next = [0, 0]

    def fill(self, sides: Array, keys: Array) -> None:
        """Load the windows, sorted, without asking for matches."""
        assert not self._sets, "filled once, before the first run"
        for side in range(2):
            codes = (keys[sides == side] << _BITS) | np.arange(np.count_nonzero(sides == side))
            self._next[side] = len(codes)
            codes = codes[-self._windows[side] :]
            self._queues.append(deque(codes.tolist()))
            self._sets.append(self._make(np.sort(codes).tolist()))

    def run(
        self, sides: Array, keys: Array, lows: Array, highs: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Join tuples in arrival order; the pairs come at once."""
        right = sides == 1
        before = np.cumsum(right) - right
        numbers = np.where(right, self._next[1] + before, self._next[0] + np.arange(len(sides)))
        numbers -= np.where(right, 0, before)
        for side in range(2):
            self._next[side] += int(np.count_nonzero(sides == side))
        found, ends = self._joined(
            sides.tolist(),
            ((keys << _BITS) | numbers).tolist(),
            (np.maximum(lows, _LEAST) << _BITS).tolist(),
            ((np.minimum(highs, _MOST) << _BITS) | _LAST).tolist(),
        )
        if found:
            positions = np.repeat(np.arange(len(ends)), np.diff(np.array(ends), prepend=0))
            yield positions, np.array(found, np.int64) & _LAST

    def _joined(
        self, sides: list[int], codes: list[int], lows: list[int], highs: list[int]
    ) -> tuple[list[int], list[int]]:
        """The loop itself: codes of all rows that were met, and where each tuple's end."""
        scans, inserts, removals = (
            [getattr(held, name) for held in self._sets]
            for name in (self._scan, self._add, "remove")
        )
        queues, windows = self._queues, self._windows
        found: list[int] = []
        ends: list[int] = []
        extend, end = found.extend, ends.append
        for side, code, low, high in zip(sides, codes, lows, highs, strict=True):
            extend(scans[1 - side](low, high))
            end(len(found))
            queue = queues[side]
            if len(queue) == windows[side]:
                removals[side](queue.popleft())
            inserts[side](code)
            queue.append(code)
        return found, ends
