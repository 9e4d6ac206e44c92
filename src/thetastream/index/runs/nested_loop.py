"""The baseline: rows in arrival order, every box tested against every row.

    ids   12 13 14 15 16 17 18        probe: one pass over all live rows per box
    keys   7  3  9  3  1  8  2

It needs no order, so it serves any predicate; a join without an indexable term uses it. Invariant:
ids ascend. Cost for n rows: insert O(n) for a copy, probe O(n) per box, expire O(n) for a copy.
Bytes: 8 per key column + 8 for the id.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index, Pair, chunks
from thetastream.index.runs.kernels import scan as scans
from thetastream.index.runs.kernels.scan import scan


class NestedLoop(Index):
    """Every box against every row."""

    name: ClassVar[str] = "nested-loop"
    summary: ClassVar[str] = "rows in arrival order, every box tested against every row"

    def __init__(self, capacity: int = 1 << 20, columns: int = 1) -> None:
        super().__init__(capacity, columns)
        prepare(scans)
        self._keys = np.empty((columns, 0), np.int64)
        self._ids = np.empty(0, np.int64)

    def insert(self, keys: Array, ids: Array) -> None:
        """O(n) for a copy of the arrays."""
        matrix = self._matrix(keys)
        order = np.argsort(ids, kind="stable")
        joined = np.concatenate([self._keys, matrix[:, order]], axis=1)
        self._keys = np.ascontiguousarray(joined)
        self._ids = np.concatenate([self._ids, ids[order]])

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """O(n) per box."""
        boxes = self._matrix(lows), self._matrix(highs)
        return Answer(partial(scanned_pairs, self._keys, self._ids, *boxes, limit))

    def expire(self, before: int) -> None:
        """O(n) for a copy of what stays."""
        head = int(np.searchsorted(self._ids, before))
        if head:
            self._keys = np.ascontiguousarray(self._keys[:, head:])
            self._ids = self._ids[head:].copy()

    def __len__(self) -> int:
        return self._ids.size

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._ids.nbytes

    def dump(self) -> Pair:
        return self._keys, self._ids

    def check(self) -> None:
        assert self._keys.shape == (self.columns, self._ids.size)
        assert np.all(self._ids[:-1] < self._ids[1:]), "ids must ascend"


def scanned_pairs(keys: Array, ids: Array, lows: Array, highs: Array, limit: int) -> Iterator[Pair]:
    """The pairs of all rows and boxes that match, tested one by one."""
    boxes = lows.shape[1] if ids.size else 0
    return chunks(boxes, limit, np.zeros(2, np.int64), partial(scan, keys, ids, lows, highs))
