"""Which rows each partition receives: targets are collected per row and listed by partition.

Three rows whose homes are 2, 0 and 0; the second one is also sent to partition 2:

    marks         row 0 → {2}             row 1 → {0, 2}       row 2 → {0}
    deliveries    partition 0: rows 1, 2  partition 1: none    partition 2: rows 0, 1 (a copy)

Rows that go only to their homes need no marks: they are counted and listed by home.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thetastream._jit.arrays import Array, Mask, Words
from thetastream.engine.partition.kernels import routes


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Partition ``p`` receives ``rows[edges[p]:edges[p + 1]]``.

    ``copies`` marks those that are copies there; None for a side that has none.
    """

    rows: Array
    copies: Mask | None
    edges: Array

    @classmethod
    def undivided(cls, rows: int) -> Deliveries:
        """All rows to the only partition."""
        return cls(np.arange(rows), None, np.array([0, rows]))

    @property
    def targets(self) -> Array:
        """The partition of each delivery."""
        return np.repeat(np.arange(self.edges.size - 1), np.diff(self.edges))


class Marks:
    """Collects where rows go. Rows that have a ``home`` are sent there first."""

    def __init__(self, rows: int, partitions: int, home: Array | None = None) -> None:
        self._rows = rows
        self._partitions = partitions
        self._home = None if home is None else np.ascontiguousarray(home)

    @cached_property
    def _words(self) -> Words:
        """The targets as bits, made when a row is first sent beyond its home."""
        words = np.zeros((-(-self._partitions // 64), self._rows), np.uint64)
        if self._home is not None:
            routes.mark(self._home, self._or_all(None), words)
        return words

    def send(self, targets: Array, wanted: Mask | None) -> None:
        """Send rows to a partition each."""
        routes.mark(np.ascontiguousarray(targets), self._or_all(wanted), self._words)

    def send_to_cells(self, first: Array, last: Array, wanted: Mask | None) -> None:
        """Send rows to the partitions of the cells ``first .. last``."""
        routes.mark_cells(first, last, self._or_all(wanted), self._partitions, self._words)

    def send_everywhere(self, wanted: Mask | None) -> None:
        """Send rows to all partitions."""
        last = np.full(self._rows, self._partitions - 1)
        self.send_to_cells(np.zeros(self._rows, np.int64), last, wanted)

    def unsent(self) -> Mask:
        """Rows that go nowhere yet."""
        return np.asarray((self._words == 0).all(axis=0))

    def deliveries(self) -> Deliveries:
        """All marked targets, by partition."""
        if "_words" not in self.__dict__:
            return self._at_home()
        counts = np.zeros(64 * self._words.shape[0], np.int64)
        routes.count_targets(self._words, counts)
        edges = np.concatenate([[0], np.cumsum(counts)])
        rows, copies = np.empty(edges[-1], np.int64), np.empty(edges[-1], np.bool_)
        home = np.full(self._rows, -1) if self._home is None else self._home
        routes.list_targets(self._words, home, edges[:-1].copy(), rows, copies)
        return Deliveries(rows, copies, edges[: self._partitions + 1])

    def _at_home(self) -> Deliveries:
        """Send every row to its home only. Packing is 1.2 to 2 times as fast as with marks."""
        assert self._home is not None
        counts = np.bincount(self._home, minlength=self._partitions)
        edges, rows = np.concatenate([[0], np.cumsum(counts)]), np.empty(self._rows, np.int64)
        routes.list_homes(self._home, edges[:-1].copy(), rows)
        return Deliveries(rows, None, edges)

    def _or_all(self, wanted: Mask | None) -> Mask:
        return np.ones(self._rows, np.bool_) if wanted is None else wanted
