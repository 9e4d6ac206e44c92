"""Reading boxes term by term: the sets of all terms, intersected, slice of boxes by slice.

``Bits`` and ``Lists`` are the two ways to intersect; both return pairs in ascending order of box,
and go on where full output arrays stopped them. A slice is computed from a ``TermView`` as a whole,
so a reader may be handed another view of the same rows between two slices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.permuted.kernels.term_sets import emit_lists, extract, meet_lists, open_boxes
from thetastream.index.permuted.terms import TermView

_SLICE_WORDS = 1 << 14  # words of the sets of a slice of boxes: 128 KB
_SLICE_IDS = 1 << 17  # ids in the lists of a slice, at most, if it has several boxes
_EPOCHS = 2**31


class TermReader(ABC):
    """Fills output arrays with the pairs of slices of boxes, as often as it is called."""

    def __init__(self, lows: Array, highs: Array, tally: Array) -> None:
        self.lows, self.highs, self.tally = lows, highs, tally
        self.first = self.stop = 0  # the slice of boxes that is being read

    @property
    def done(self) -> bool:
        """Whether all boxes were read and given."""
        return bool(self.first >= self.lows.shape[1])

    def fill(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        """Append pairs until all boxes are read or the arrays are full; gives the new fill."""
        while not self.done:
            if self.first == self.stop:
                self._begin(view)
            filled = self._give(view, filled, positions, rows)
            if self.first < self.stop:
                break
        return filled

    def _begin(self, view: TermView) -> None:
        """Intersect the terms of the next slice of boxes."""
        self.stop = min(self.first + self._count(view), self.lows.shape[1])
        opened = np.zeros(self.stop - self.first, np.int64)
        left = open_boxes(self.lows, self.highs, self.first, opened) if view.rows else 0
        self._meet(view, opened, left)

    def _end(self) -> None:
        self.first = self.stop

    @abstractmethod
    def _count(self, view: TermView) -> int:
        """How many boxes a slice has."""

    @abstractmethod
    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        """Intersect the terms of the boxes of the slice, of which ``left`` are open."""

    @abstractmethod
    def _give(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        """Append pairs of the slice; end it when all are given."""

    def _edges(self) -> Iterator[tuple[Array, Array]]:
        return zip(self.lows, self.highs, strict=True)


class Bits(TermReader):
    """A set of bits per box, and one for the term that is just read."""

    def _count(self, view: TermView) -> int:
        return max(1, _SLICE_WORDS // int(view.present.shape[1]))

    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        self._opened, self._cursor = opened, np.zeros(2, np.int64)
        self._bits = np.repeat(view.present, opened.size, axis=0)
        self._spots = np.empty(view.present.size, np.int64)
        spare = np.zeros_like(view.present)
        for term, edges in zip(view.terms, self._edges(), strict=True):
            if left:
                args = (opened, self._bits, spare, self.tally)
                left = term.meet(edges, self.first, view, *args)

    def _give(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        filled = extract(
            self._bits, self._opened, self.first, view.base, self._cursor, self._spots, filled,
            positions, rows, self.tally,
        )  # fmt: skip
        if self._cursor[0] == self._opened.size:
            self._end()
        return filled


class Scratch:
    """A hash table and three lists, kept from probe to probe: fresh memory would cost more."""

    def __init__(self) -> None:
        self.table = np.zeros(2, np.uint64)
        self.epoch = np.zeros(1, np.int64)
        self.rooms = [np.empty(0, np.int64) for _ in range(3)]

    def fit(self, entries: int, ids: int) -> None:
        """Have a table of so many entries at least, and lists of so many ids."""
        size = 1 << max(1, (entries - 1).bit_length())
        if self.table.size < size or self.epoch[0] > _EPOCHS:
            self.table, self.epoch[0] = np.zeros(size, np.uint64), 0
        if self.rooms[0].size <= ids:
            self.rooms = [np.empty(ids + 1, np.int64) for _ in self.rooms]


class Lists(TermReader):
    """A list of ids per box, and a hash table to intersect it with that of the next term."""

    def __init__(self, lows: Array, highs: Array, tally: Array, scratch: Scratch) -> None:
        super().__init__(lows, highs, tally)
        self._scratch = scratch

    def _count(self, view: TermView) -> int:
        return max(1, _SLICE_IDS // max(1, view.rows))

    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        held = self._scratch
        held.fit(max(2 * view.rows, 64 * view.present.size), view.rows * opened.size)
        self._cursor, self._ends = np.zeros(2, np.int64), np.zeros(opened.size, np.int64)
        ends, kept = np.zeros(opened.size, np.int64), 0
        self._ids = held.rooms[0][:0]
        for number, (term, edges) in enumerate(zip(view.terms, self._edges(), strict=True)):
            where = self.first, view, opened
            if number == 0:
                self._ids = term.collect(edges, *where, self._ends, held.rooms[0])
                opened &= np.diff(self._ends, prepend=0) > 0
            elif opened.any():
                ids = term.collect(edges, *where, ends, held.rooms[1])
                target = held.rooms[2 if kept == 0 else 0]
                count = meet_lists(
                    self._ids, self._ends, ids, ends, view.base, 64 * view.present.size,
                    held.table, held.epoch, opened, target, self.tally,
                )  # fmt: skip
                self._ids, kept = target[:count], 2 - kept

    def _give(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        start = self.first
        filled = emit_lists(self._ids, self._ends, start, self._cursor, filled, positions, rows)
        if self._cursor[0] == self._ends.size:
            self._end()
        return filled
