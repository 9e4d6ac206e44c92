"""Key columns of rows by id, in a ring, for structures that store only one key.

    id        …  1021  1022  1023  1024  1025  …
    slot         1021  1022  1023     0     1        slot = id & mask, here with 1,024 slots

A row of the ring is a key column; ``marks`` holds which row is in a slot, as ids may have gaps.
Adding and removing cost O(1) per row; the ring doubles when the span of live ids outgrows it.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array


class Beside:
    """``others`` key columns, and with ``keep_first`` the first one too, for deleting."""

    def __init__(self, others: int, *, keep_first: bool) -> None:
        self._keep_first = keep_first
        self._rows = np.empty((others + keep_first, 0), np.int64)
        self._marks = np.empty(0, np.int64)  # id + 1 of the row in a slot
        self._low = self._high = 0

    @property
    def columns(self) -> Array:
        """The columns that are checked on candidates."""
        return self._rows[1:] if self._keep_first else self._rows

    @property
    def mask(self) -> int:
        """Row ``id`` is in slot ``id & mask``."""
        return max(0, self._rows.shape[1] - 1)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._marks.nbytes

    def add(self, matrix: Array, ids: Array, before: int) -> None:
        """Store rows; ids are above all that were added before."""
        if not len(self._rows):
            return
        if self._low == self._high:
            self._low = int(ids.min())
        self._low = max(self._low, before)
        self._high = int(ids.max()) + 1
        if self._high - self._low > self._rows.shape[1]:
            self._grow(self._high - self._low)
        slots = ids & self.mask
        self._rows[:, slots] = matrix if self._keep_first else matrix[1:]
        self._marks[slots] = ids + 1

    def _grow(self, span: int) -> None:
        size = 1 << max(4, (span + span // 4).bit_length())
        rows, marks = np.empty((len(self._rows), size), np.int64), np.zeros(size, np.int64)
        ids = self._marks[self._marks > self._low] - 1
        rows[:, ids & (size - 1)] = self._rows[:, ids & self.mask]
        marks[ids & (size - 1)] = ids + 1
        self._rows, self._marks = rows, marks

    def rows(self, keys: Array, ids: Array) -> tuple[Array, Array]:
        """Rows with these first keys, by ascending id: all their key columns, and the ids."""
        order = np.argsort(ids)
        keys, ids = keys[order].reshape(1, -1), ids[order]
        if len(self.columns):
            keys = np.concatenate([keys, self.columns[:, ids & self.mask]])
        return keys, ids

    def leaving(self, before: int) -> tuple[Array, Array]:
        """First keys and ids of the rows below ``before``, in the order of their ids."""
        ids = np.arange(self._low, min(before, self._high))
        ids = ids[self._marks[ids & self.mask] == ids + 1] if self._marks.size else ids[:0]
        return self._rows[0, ids & self.mask], ids

    def expire(self, before: int) -> None:
        """Remove rows below ``before``."""
        self._low = min(max(self._low, before), max(self._high, before))
        self._high = max(self._high, self._low)
