"""An ordered structure in two sorted arrays: the least that ``OrderedIndex`` can stand on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thetastream.index.ordered.ordered_index import OrderedIndex

from ..keys import Array


class Plain(OrderedIndex):
    """Rows in arrays; everything by NumPy. Not registered."""

    name: ClassVar[str] = "sorted-runs"  # the battery wants a name that is known
    summary: ClassVar[str] = "two sorted arrays"

    def __init__(self, capacity: int = 4, columns: int = 1, **settings: Any) -> None:
        super().__init__(capacity, columns, **settings)
        self._clear()

    def _put(self, keys: Array, ids: Array) -> None:
        keys, ids = np.concatenate([self.keys, keys]), np.concatenate([self.ids, ids])
        order = np.lexsort([ids, keys])
        self.keys, self.ids = keys[order], ids[order]

    def _take_out(self, keys: Array, ids: Array) -> int:
        gone = np.isin(self.ids, ids)
        self.keys, self.ids = self.keys[~gone], self.ids[~gone]
        return int(np.count_nonzero(gone))

    def _find(self, keys: Array) -> Array:
        at = np.searchsorted(self.keys, keys, side="right") - 1
        there = (at >= 0) & (self.keys[at] == keys) if self.keys.size else np.zeros(keys.size, bool)
        return np.where(there, self.ids[at] if self.ids.size else -1, -1)

    def _read(self, lows: Array, highs: Array, before: int, cursor: Array, *out: Array) -> int:
        positions, keys, ids = out
        filled = 0
        while cursor[0] < lows.size:
            box = int(cursor[0])
            begun = cursor[2] >= 0
            at = int(np.searchsorted(self.keys, cursor[1] if begun else lows[box]))
            at += int(cursor[2]) if begun else 0
            while at < self.keys.size and self.keys[at] <= highs[box]:
                if filled == positions.size:
                    first = int(np.searchsorted(self.keys, self.keys[at]))
                    cursor[1:] = self.keys[at], at - first
                    return filled
                if self.ids[at] >= before:
                    positions[filled], ids[filled] = box, self.ids[at]
                    if keys.size:
                        keys[filled] = self.keys[at]
                    filled += 1
                at += 1
            cursor[:] = box + 1, 0, -1
        return filled

    def _rows(self) -> tuple[Array, Array]:
        return self.keys.copy(), self.ids.copy()

    def _clear(self) -> None:
        self.keys = self.ids = np.empty(0, np.int64)

    @property
    def _held(self) -> int:
        return self.keys.size

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.keys.nbytes + self.ids.nbytes
