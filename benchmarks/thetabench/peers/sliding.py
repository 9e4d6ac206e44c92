"""A count window as plain NumPy columns, always contiguous, cheap to slide.

::

    |···expired···|######## window ########|······free······|
                  first                    last

New rows are written behind ``last``; when the buffer is full, the window moves to its front. With
a buffer of at least ``1.25 × window`` rows that copies at most four rows per new row. Views and
Arrow arrays over the window share its memory, so they are valid until the next ``append``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thetabench.query import Values


def columns_of(rows: pa.Table | pa.RecordBatch) -> dict[str, Values]:
    """Give the columns of a batch as NumPy arrays, without a copy when it has one chunk."""
    return {name: rows.column(name).to_numpy() for name in rows.schema.names}


class SlidingColumns:
    """The stored rows of one side. Positions are ids: the first row ever appended has id 0."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._columns: dict[str, Values] = {}
        self._first = self._last = 0
        self.end = 0
        """Id that the next appended row will have."""

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def start(self) -> int:
        """Id of the oldest stored row."""
        return self.end - len(self)

    def append(self, fresh: Mapping[str, Values]) -> None:
        """Store fresh rows; nothing is expired. O(rows), amortised."""
        rows = len(next(iter(fresh.values())))
        if not self._columns or self._last + rows > len(next(iter(self._columns.values()))):
            self._make_room(fresh, rows)
        for name, values in fresh.items():
            self._columns[name][self._last : self._last + rows] = values
        self._last += rows
        self.end += rows

    def expire(self) -> None:
        """Forget all but the last ``window`` rows. O(1)."""
        self._first = max(self._first, self._last - self._window)

    def view(self, name: str) -> Values:
        """Give a column of the stored rows, oldest first, without a copy."""
        return self._columns[name][self._first : self._last]

    def take(self, name: str, ids: Values) -> Values:
        """Give the values of a column for stored ids."""
        return np.asarray(self.view(name)[ids - self.start])

    def arrow(self) -> pa.Table:
        """Give the stored rows as an Arrow table over the same memory."""
        return pa.table({name: pa.array(self.view(name)) for name in self._columns})

    def _make_room(self, fresh: Mapping[str, Values], rows: int) -> None:
        stored = len(self)
        slack = max(self._window, rows) // 4
        for name, values in fresh.items():
            old = self._columns.get(name)
            if old is None or len(old) < stored + rows + slack // 2:
                new = np.empty(max(stored + rows, self._window) + slack, dtype=values.dtype)
            else:
                new = old
            if old is not None:
                new[:stored] = old[self._first : self._last]
            self._columns[name] = new
        self._first, self._last = 0, stored
