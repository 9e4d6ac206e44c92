"""A subwindow without any order: every box is tested against every row.

As in the nodes of SplitJoin, ScaleJoin and handshake join; the baseline of PanJoin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.runs.kernels import scan as scans
from thetastream.index.runs.nested_loop import scanned_pairs
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView


class Scanned(Subwindow):
    """Rows in the order in which they came."""

    kind: ClassVar[str] = "nested-loop"

    def __init__(self, size: int) -> None:
        super().__init__(size)
        prepare(scans)
        self._keys = np.empty((1, size), np.int64)
        self._ids = np.empty(size, np.int64)

    def insert(self, keys: Array, ids: Array) -> None:
        start, stop = self.rows, self.rows + ids.size
        self._keys[0, start:stop], self._ids[start:stop] = keys, ids
        self.rows = stop

    def views(self, before: int, after: int) -> list[SubwindowView]:
        return [_View(before, after, *self.dump())]

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._ids.nbytes

    def dump(self) -> tuple[Array, Array]:
        return self._keys[0, : self.rows], self._ids[: self.rows]

    def check(self) -> None:
        assert self.rows <= self.size


class _View(SubwindowView):
    """The rows that were there; rows are only ever appended."""

    __slots__ = ("_ids", "_keys")

    def __init__(self, before: int, after: int, keys: Array, ids: Array) -> None:
        super().__init__(before, after)
        self._keys, self._ids = keys, ids

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[tuple[Array, Array]]:
        keys, low, high = (array.reshape(1, -1) for array in (self._keys, lows, highs))
        for positions, ids in scanned_pairs(keys, self._ids, low, high, limit):
            live = (ids >= self.before) & (ids < self.after)
            if live.any():
                yield positions[live], ids[live]
