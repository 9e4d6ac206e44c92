"""A subwindow without any order: every box is tested against every row.

What SplitJoin, ScaleJoin and handshake join do inside their nodes; the baseline of PanJoin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.runs.kernels import scan as scans
from thetastream.index.runs.kernels.scan import scan
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView, sampled_splitters


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

    def splitters(self, parts: int) -> Array:
        return sampled_splitters(self.dump()[0], parts)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._ids.nbytes

    def dump(self) -> tuple[Array, Array]:
        return self._keys[0, : self.rows], self._ids[: self.rows]

    def check(self) -> None:
        assert self.rows <= self.size


class _View(SubwindowView):
    """The rows that were there; rows are only ever added behind them."""

    __slots__ = ("_ids", "_keys")

    def __init__(self, before: int, after: int, keys: Array, ids: Array) -> None:
        super().__init__(before, after)
        self._keys, self._ids = keys, ids

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[tuple[Array, Array]]:
        keys = self._keys.reshape(1, -1)
        edges = lows.reshape(1, -1), highs.reshape(1, -1)
        cursor = np.zeros(2, np.int64)
        while cursor[0] < lows.size:
            positions, ids = np.empty(limit, np.int64), np.empty(limit, np.int64)
            filled = scan(keys, self._ids, *edges, cursor, 0, positions, ids)
            live = (ids[:filled] >= self.before) & (ids[:filled] < self.after)
            if live.any():
                yield positions[:filled][live], ids[:filled][live]
