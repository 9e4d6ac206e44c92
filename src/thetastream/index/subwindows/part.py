"""The rows of a subwindow with all their key columns.

A structure inside a subwindow stores one key per row. The other key columns are stored beside it,
in order of arrival, and are checked on candidates; the structure then holds the row's *slot* in
that order instead of its id.

    slot       0   1   2   3          ids ascend with slots, so an interval of ids is one of slots
    ids       12  13  17  18
    column 1   5   9   5   2
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.data.kernels.pairs import keep_inside
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView

_EVERY = -1  # a mask that keeps all bits of a slot


class Part:
    """A structure, and what lies beside it."""

    def __init__(self, inside: Subwindow, columns: int) -> None:
        self.inside = inside
        self.first = MOST  # the least id
        self.last = -1  # the largest one
        self._columns = columns
        self._ids = np.empty(0, np.int64)
        self._beside = np.empty((columns - 1, 0), np.int64)

    @property
    def rows(self) -> int:
        """Rows stored, expired ones included."""
        return self.inside.rows

    def insert(self, matrix: Array, ids: Array) -> None:
        """Store rows, sorted by the first column, with ids above all before."""
        self.first = min(self.first, int(ids.min()))
        self.last = max(self.last, int(ids.max()))
        rows = ids
        if self._columns > 1:
            order = np.argsort(ids)
            rows = np.empty_like(order)
            rows[order] = np.arange(self.rows, self.rows + ids.size)
            self._add(matrix[1:, order], ids[order])
        self.inside.insert(matrix[0], rows)

    def _add(self, columns: Array, ids: Array) -> None:
        start, stop = self.rows, self.rows + ids.size
        if stop > self._ids.size:
            room = max(stop + stop // 2, self.inside.size)
            grown, beside = np.empty(room, np.int64), np.empty((len(columns), room), np.int64)
            grown[:start], beside[:, :start] = self._ids[:start], self._beside[:, :start]
            self._ids, self._beside = grown, beside
        self._ids[start:stop], self._beside[:, start:stop] = ids, columns

    def views(self, before: int, after: int) -> list[PartView]:
        """The rows with an id in ``[before, after)``, as they are now."""
        ids = None
        if self._columns > 1:
            ids = self._ids[: self.rows]
            before, after = np.searchsorted(ids, [before, after]).tolist()
        return [PartView(view, ids, self._beside) for view in self.inside.views(before, after)]

    def living(self, before: int) -> int:
        """How many rows have an id of at least ``before``. O(rows) if some have not."""
        if self.first >= before:
            return self.rows
        return int(np.count_nonzero(self.dump()[1] >= before))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.inside.nbytes + self._ids.nbytes + self._beside.nbytes

    def dump(self) -> tuple[Array, Array]:
        """``(keys[columns, n], ids)`` of all rows, in any order."""
        keys, rows = self.inside.dump()
        if self._columns == 1:
            return keys.reshape(1, -1), rows
        return np.concatenate([keys.reshape(1, -1), self._beside[:, rows]]), self._ids[rows]

    def check(self) -> None:
        """Assert every invariant."""
        self.inside.check()
        _, ids = self.dump()
        assert ids.size == self.rows
        assert not ids.size or (ids.min(), ids.max()) == (self.first, self.last)
        slots = self._ids[: self.rows] if self._columns > 1 else np.sort(ids)
        assert np.all(slots[:-1] < slots[1:]), "an id may occur once"


class PartView:
    """A view of the structure and of what lies beside it: rows are only ever added to either."""

    __slots__ = ("_beside", "_ids", "view")

    def __init__(self, view: SubwindowView, ids: Array | None, beside: Array) -> None:
        self.view = view
        self._ids = ids
        self._beside = beside

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[tuple[Array, Array]]:
        """``(positions, ids)`` of the rows inside each box, at most ``limit`` at a time."""
        pairs = self.view.read(lows[0], highs[0], limit)
        if self._ids is None:
            yield from pairs
            return
        for positions, rows in pairs:
            kept = keep_inside(positions, rows, self._beside, _EVERY, lows, highs)
            if kept:
                yield positions[:kept], self._ids[rows[:kept]]
