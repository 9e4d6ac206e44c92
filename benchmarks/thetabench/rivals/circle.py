"""Leaves of a relation cut into steps of consecutive blocks, for a join that reads it in a circle.

A step is what one sequential read brings: leaves that follow each other on disk, of a limited
number of blocks together with free ones between them. On a relation as it was built these are
neighbours in key order; after splits a step's leaves form several *runs* of neighbours in key
order. Cost: O(leaves log leaves) once, 16 bytes per leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from thetabench.arrays import Array
from thetastream.relation.files.fences import Fences


class Circle:
    """Steps of at most ``most`` blocks each, or of one leaf that is wider."""

    def __init__(self, fences: Fences, most: int) -> None:
        order = np.argsort(fences.blocks, kind="stable")
        starts = fences.blocks[order]
        ends = starts + fences.all_spans[order]
        edges = [0]
        while edges[-1] < order.size:
            fits = int(np.searchsorted(ends, starts[edges[-1]] + most, side="right"))
            edges.append(max(fits, edges[-1] + 1))
        self._edges = edges
        self.steps = len(edges) - 1
        self._spans = [
            (int(starts[first]), int(ends[stop - 1] - starts[first]))
            for first, stop in pairwise(edges)
        ]
        self.largest = max([1, *(count for _, count in self._spans)])
        step_of = np.repeat(np.arange(self.steps), np.diff(edges))
        by_key = np.lexsort((order, step_of))  # step by step, each in key order
        self._leaves, self._starts = order[by_key], starts[by_key]

    def span(self, at: int) -> tuple[int, int]:
        """The first block of a step, and how many blocks are read."""
        return self._spans[at]

    def leaves(self, at: int) -> tuple[Array, Array]:
        """The leaves of a step in key order, and their first blocks."""
        part = slice(self._edges[at], self._edges[at + 1])
        return self._leaves[part], self._starts[part]

    def runs(self, at: int) -> Iterator[tuple[int, int]]:
        """The leaves of a step as intervals ``[begin, end)`` of neighbours in key order."""
        leaves, _ = self.leaves(at)
        for run in np.split(leaves, np.flatnonzero(np.diff(leaves) != 1) + 1):
            yield int(run[0]), int(run[-1]) + 1
