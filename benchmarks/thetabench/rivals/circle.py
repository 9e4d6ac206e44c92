"""Leaves of a relation cut into steps of consecutive blocks, for a join that reads it in a circle.

A step is what one sequential read brings: leaves one behind the other on disk, of no more than so
many blocks together with free ones between them. On a relation as it was built these are leaves
one behind the other in key order; after splits a step's leaves form several *runs* of neighbours in
key order. Cost: O(leaves log leaves) once where leaves have moved, O(1) memory where none has.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thetabench.arrays import Array
from thetastream.relation.files.fences import Fences


class Circle:
    """Steps of at most ``most`` blocks each, the widest leaf allowed for."""

    def __init__(self, fences: Fences, most: int) -> None:
        self._fences, self._most = fences, most
        self._plain = not fences.moved and fences.spans is None
        self._count = len(fences)
        if self._plain:
            self.steps = -(-self._count // most)
            self.largest = max(1, min(most, self._count))
            return
        blocks = fences.blocks
        spans = np.ones(self._count, np.int64) if fences.spans is None else fences.spans
        self._order = np.argsort(blocks, kind="stable")
        self._starts = blocks[self._order]
        self._ends = self._starts + spans[self._order]
        self._edges = self._cut()
        self.steps = len(self._edges) - 1
        self.largest = max([1, *(self.span(at)[1] for at in range(self.steps))])

    def _cut(self) -> list[int]:
        edges = [0]
        while edges[-1] < self._count:
            limit = self._starts[edges[-1]] + self._most
            fits = int(np.searchsorted(self._ends, limit, side="right"))
            edges.append(max(fits, edges[-1] + 1))
        return edges

    def span(self, at: int) -> tuple[int, int]:
        """The first block of a step, and how many blocks are read."""
        if self._plain:
            start = at * self._most
            return start, min(self._most, self._count - start)
        start = int(self._starts[self._edges[at]])
        return start, int(self._ends[self._edges[at + 1] - 1]) - start

    def leaves(self, at: int) -> tuple[Array, Array]:
        """The leaves of a step in key order, and their first blocks."""
        if self._plain:
            start, count = self.span(at)
            leaves = np.arange(start, start + count)
            return leaves, leaves
        part = slice(self._edges[at], self._edges[at + 1])
        order = np.argsort(self._order[part])
        return self._order[part][order], self._starts[part][order]

    def runs(self, at: int) -> Iterator[tuple[int, int]]:
        """The leaves of a step as intervals ``[begin, end)`` of neighbours in key order."""
        if self._plain:
            start, count = self.span(at)
            yield start, start + count
            return
        leaves, _ = self.leaves(at)
        breaks = np.flatnonzero(np.diff(leaves) != 1) + 1
        for run in np.split(leaves, breaks):
            yield int(run[0]), int(run[-1]) + 1
