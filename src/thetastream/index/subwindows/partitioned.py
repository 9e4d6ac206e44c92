"""A subwindow cut into ranges of keys: splitters, and an LLAT that holds the rows of each range.

The RaP-Table and the LLAT index consist of these. The loops are in ``kernels/rap`` and
``kernels/llat``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.base import Pair, chunks
from thetastream.index.runs.kernels.ranges import BLOCK
from thetastream.index.subwindows.kernels import llat, rap
from thetastream.index.subwindows.kernels.llat import Llat
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView

Histograms = tuple[Array, Array, Array]
"""Rows, least and largest key of every partition."""

ROWS_PER_PART = 64
"""Rows of a partition, unless the number of partitions is set."""


def new_table(entries: int, width: int, taken: int) -> Llat:
    """An empty table; the first ``taken`` entries belong to partitions."""
    facts = np.zeros(llat.FACTS, np.int64)
    facts[llat.WIDTH], facts[llat.USED], facts[llat.TAKEN] = width, taken, entries
    return Llat(
        np.empty(entries * width + llat.BLOCK, np.int64),
        np.empty(entries * width, np.int64),
        np.zeros(entries, np.int64),
        np.full(entries, -1),
        np.arange(entries),
        facts,
    )


def check_table(table: Llat, firsts: Array) -> list[Array]:
    """Assert the invariants of a table; returns the keys of each partition, by its first entry.

    Every entry in use belongs to one partition; all entries of a partition but the last are full.
    """
    width, used = int(table.facts[llat.WIDTH]), int(table.facts[llat.USED])
    assert used <= table.facts[llat.TAKEN] and table.facts[llat.ROWS] == table.sizes[:used].sum()
    seen: list[int] = []
    keys: list[Array] = []
    for first in firsts.tolist():
        entries = [first]
        while table.nexts[entries[-1]] >= 0:
            assert table.sizes[entries[-1]] == width, "an entry is left only when it is full"
            entries.append(int(table.nexts[entries[-1]]))
        assert table.lasts[first] == entries[-1]
        seen += entries
        parts = [table.keys[e * width : e * width + table.sizes[e]] for e in entries]
        keys.append(np.concatenate(parts))
    assert sorted(seen) == list(range(used)), "every entry in use belongs to one partition"
    return keys


def dump_table(table: Llat, rows: int) -> Pair:
    """Keys and ids of the ``rows`` rows of a table, in any order."""
    keys, ids = np.empty(rows, np.int64), np.empty(rows, np.int64)
    llat.dump_table(table, keys, ids)
    return keys, ids


def adjusted(seen: Histograms, parts: int) -> Array:
    """Splitters for ``parts`` partitions of keys spread like these. O(P)."""
    splitters = np.empty(parts - 1, np.int64)
    rap.adjust(*seen, splitters)
    return splitters


class Partitioned(Subwindow):
    """Rows of a subwindow by range of keys. Invariants: see ``check``.

    Room: ``2 P`` entries of ``ceil(σ · size / P)`` rows are enough for any distribution. Only a
    partition whose entries are all full takes a further entry. With all ``P`` reserved ones taken,
    at least P entries would be full, so more than ``σ · size`` rows stored: more than fit.
    """

    kind: ClassVar[str] = "llat"

    def __init__(self, size: int, splitters: Array, sigma: float) -> None:
        super().__init__(size)
        self.parts = splitters.size + 1
        self.cuts = splitters
        width = max(1, math.ceil(size / self.parts * sigma))
        self.table = new_table(2 * self.parts, width, self.parts)

    def insert(self, keys: Array, ids: Array) -> None:
        """Two steps of a rebounding search and a write per row, for a sorted batch."""
        rap.insert_rows(self.table, self.cuts, keys, ids, np.empty(BLOCK, np.int64))
        self.rows += ids.size

    def views(self, before: int, after: int) -> list[SubwindowView]:
        return [_View(before, after, self.table, self.cuts)]

    def histograms(self) -> Histograms:
        """Rows, least and largest key of every partition. O(rows)."""
        counts, lows, highs = (np.empty(self.parts, np.int64) for _ in range(3))
        llat.histogram(self.table, self.parts, counts, lows, highs)
        return counts, lows, highs

    def splitters(self, parts: int) -> Array:
        """By the adjustment algorithm (Section III-B1). O(rows) for the histograms, O(P) for it."""
        return adjusted(self.histograms(), parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.table) + self.cuts.nbytes

    def dump(self) -> Pair:
        return dump_table(self.table, self.rows)

    def check(self) -> None:
        assert np.all(self.cuts[:-1] <= self.cuts[1:]), "splitters must ascend"
        assert self.table.sizes.size == 2 * self.parts
        for part, keys in enumerate(check_table(self.table, np.arange(self.parts))):
            assert np.all(np.searchsorted(self.cuts, keys, "right") == part)
        if self.rows <= self.size:
            # The proof of sufficiency: fewer entries are full than are reserved.
            width = int(self.table.facts[llat.WIDTH])
            assert width * self.parts >= self.size
            assert np.count_nonzero(self.table.sizes == width) <= self.parts


class _View(SubwindowView):
    """Rows are never moved, so a view reads the table itself."""

    __slots__ = ("_cuts", "_table")

    def __init__(self, before: int, after: int, table: Llat, cuts: Array) -> None:
        super().__init__(before, after)
        self._table, self._cuts = table, cuts

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[Pair]:
        scratch = np.empty(2 * BLOCK, np.int64)

        def step(cursor: Array, filled: int, positions: Array, ids: Array) -> int:
            return rap.probe_rows(
                self._table, self._cuts, lows, highs, self.before, self.after, cursor, filled,
                positions, ids, scratch,
            )  # fmt: skip

        return chunks(lows.size, limit, np.array([0, -1, 0, 0]), step)
