"""What all peers share: a window as plain NumPy columns, and the order of the steps of a push."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from thetabench.contestant import Stopwatch, pairs, self_pairs
from thetabench.query import Query, Values
from thetastream.side import Side


class WindowJoin(ABC):
    """The driver. A peer says how it matches fresh rows; it may also store rows in its own way."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]

    def __init__(self, query: Query, **options: str) -> None:
        assert not options, f"{self.name} does not take these options: {options}"
        self._query = query
        self._watch = Stopwatch()
        self._stored = {side: SlidingColumns(query.window) for side in Side}

    @classmethod
    def supports(cls, query: Query) -> bool:
        return True

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return 0.0

    # --- What a peer implements -----------------------------------------------------------------

    def fresh(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """Arriving rows in the form that the other steps take."""
        return columns_of(rows)

    @abstractmethod
    def match(self, side: Side, fresh: Any, stored: Side) -> tuple[Any, Any]:
        """Ids of fresh rows and of the stored rows that they match."""

    def insert(self, side: Side, fresh: Any) -> None:
        """Store fresh rows."""
        self._stored[side].append(fresh)

    def expire(self, side: Side) -> None:
        """Forget all but the last ``window`` rows."""
        self._stored[side].expire()

    # --- The steps in their order ---------------------------------------------------------------

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        for side, rows in zip(Side, (left, right), strict=True):
            if rows is not None:
                self.store(side, self.fresh(rows))

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        fresh = self.fresh(rows)
        if not self._query.self_join:
            ids = self.match(side, fresh, side.other)
            self.store(side, fresh)
            return pairs(side, *ids)
        with self._watch.phase("insert"):  # first: rows of a push meet each other, too
            self.insert(side, fresh)
        ids = self.match(side, fresh, side)
        with self._watch.phase("expire"):
            self.expire(side)
        return self_pairs(*ids)

    def store(self, side: Side, fresh: Any) -> None:
        """Store fresh rows; the oldest leave."""
        with self._watch.phase("insert"):
            self.insert(side, fresh)
        with self._watch.phase("expire"):
            self.expire(side)

    def phases(self) -> Mapping[str, float]:
        return self._watch.seconds

    def index_bytes(self) -> int:
        return 0


def columns_of(rows: pa.Table | pa.RecordBatch) -> dict[str, Values]:
    """The columns of a batch as NumPy arrays, without a copy when it has one chunk."""
    return {name: rows.column(name).to_numpy() for name in rows.schema.names}


class SlidingColumns:
    """The stored rows of one side. Positions are ids: the first row ever appended has id 0.

    ::

        |···expired···|######## window ########|······free······|
                      first                    last

    New rows are written behind ``last``; when the buffer is full, the window moves to its front.
    With a buffer of at least ``1.25 × window`` rows that copies at most four rows per new row.
    Views and Arrow arrays over the window share its memory, so they are valid until the next
    ``append``.
    """

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
        """A column of the stored rows, oldest first, without a copy."""
        return self._columns[name][self._first : self._last]

    def take(self, name: str, ids: Values) -> Values:
        """The values of a column for stored ids."""
        return np.asarray(self.view(name)[ids - self.start])

    def arrow(self) -> pa.Table:
        """The stored rows as an Arrow table over the same memory."""
        return pa.table({name: pa.array(self.view(name)) for name in self._columns})

    def _make_room(self, fresh: Mapping[str, Values], rows: int) -> None:
        stored = len(self)
        slack = max(self._window, rows) // 4
        for name, values in fresh.items():
            old = self._columns.get(name, values[:0])
            new = old
            if len(old) <= stored + rows + slack // 2:
                new = np.empty(max(stored + rows, self._window) + slack, dtype=values.dtype)
            new[:stored] = old[self._first : self._last]
            self._columns[name] = new
        self._first, self._last = 0, stored
