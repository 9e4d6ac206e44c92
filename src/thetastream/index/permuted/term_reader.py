"""Reading boxes term by term: intersects the sets of all terms, one slice of boxes at a time.

``Bits`` and ``Lists`` are the two ways to intersect. Both write pairs in ascending order of box and
resume where full output arrays stopped them. A slice is computed from one ``TermView``, so a reader
may get another view of the same rows between two slices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.permuted.kernels.term_sets import emit_lists, extract, meet_lists, open_boxes
from thetastream.index.permuted.terms import Slice, TermView

_SLICE_WORDS = 1 << 14  # words in the sets of a slice of boxes: 128 KB
_SLICE_IDS = 1 << 17  # upper bound on ids in the lists of a slice of several boxes
_EPOCHS = 2**31


class TermReader(ABC):
    """Fills output arrays with the pairs of one slice of boxes after another."""

    def __init__(self, lows: Array, highs: Array, tally: Array) -> None:
        self.lows, self.highs, self.tally = lows, highs, tally
        self.first = self.stop = 0  # the current slice of boxes

    @property
    def done(self) -> bool:
        """Whether all pairs of all boxes were written."""
        return bool(self.first >= self.lows.shape[1])

    def fill(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        """Append pairs until all boxes are read or the arrays are full; returns the new fill."""
        while not self.done:
            if self.first == self.stop:
                self._begin(view)
            filled = self._write(view, filled, positions, rows)
            if self.first < self.stop:
                break
        return filled

    def _begin(self, view: TermView) -> None:
        """Intersect the terms of the next slice of boxes."""
        self.stop = min(self.first + self._count(view), self.lows.shape[1])
        opened = np.zeros(self.stop - self.first, np.int64)
        left = open_boxes(self.lows, self.highs, self.first, opened) if view.rows else 0
        self._meet(view, opened, left)

    @abstractmethod
    def _count(self, view: TermView) -> int:
        """The number of boxes in a slice."""

    @abstractmethod
    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        """Intersect the terms of the boxes of the slice, of which ``left`` are open."""

    @abstractmethod
    def _write(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        """Append pairs of the slice; when all are written, set ``first`` to ``stop``."""

    def _slices(self, view: TermView, opened: Array) -> list[Slice]:
        """The slice in each column."""
        edges = zip(self.lows, self.highs, strict=True)
        return [Slice(pair, self.first, view, opened) for pair in edges]


class Bits(TermReader):
    """A set of bits per box, and one for the current term."""

    def _count(self, view: TermView) -> int:
        return max(1, _SLICE_WORDS // int(view.present.shape[1]))

    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        self._opened, self._cursor = opened, np.zeros(2, np.int64)
        self._bits = np.repeat(view.present, opened.size, axis=0)
        self._spots = np.empty(view.present.size, np.int64)
        spare = np.zeros_like(view.present)
        for term, part in zip(view.terms, self._slices(view, opened), strict=True):
            if left:
                left = term.meet(part, self._bits, spare, self.tally)

    def _write(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        filled = extract(
            self._bits, self._opened, self.first, view.base, self._cursor, self._spots, filled,
            positions, rows, self.tally,
        )  # fmt: skip
        if self._cursor[0] == self._opened.size:
            self.first = self.stop
        return filled


class Scratch:
    """A hash table and three lists, reused between probes because fresh memory costs more."""

    def __init__(self) -> None:
        self.table = np.zeros(2, np.uint64)
        self.epoch = np.zeros(1, np.int64)
        self.rooms = [np.empty(0, np.int64) for _ in range(3)]

    def fit(self, entries: int, ids: int) -> None:
        """Make room for at least ``entries`` in the table and ``ids`` in each list."""
        size = 1 << max(1, (entries - 1).bit_length())
        if self.table.size < size or self.epoch[0] > _EPOCHS:
            self.table, self.epoch[0] = np.zeros(size, np.uint64), 0
        if self.rooms[0].size <= ids:
            self.rooms = [np.empty(ids + 1, np.int64) for _ in self.rooms]


class Lists(TermReader):
    """A list of ids per box, and a hash table to intersect it with the next term's list."""

    def __init__(self, lows: Array, highs: Array, tally: Array, scratch: Scratch) -> None:
        super().__init__(lows, highs, tally)
        self._scratch = scratch

    def _count(self, view: TermView) -> int:
        return max(1, _SLICE_IDS // max(1, view.rows))

    def _meet(self, view: TermView, opened: Array, left: int) -> None:
        scratch = self._scratch
        scratch.fit(max(2 * view.rows, 64 * view.present.size), view.rows * opened.size)
        self._cursor, self._ends = np.zeros(2, np.int64), np.zeros(opened.size, np.int64)
        ends, kept = np.zeros(opened.size, np.int64), 0
        self._ids = scratch.rooms[0][:0]
        slices = self._slices(view, opened)
        for number, (term, part) in enumerate(zip(view.terms, slices, strict=True)):
            if number == 0:
                self._ids = term.collect(part, self._ends, scratch.rooms[0])
                opened &= np.diff(self._ends, prepend=0) > 0
            elif opened.any():
                ids = term.collect(part, ends, scratch.rooms[1])
                target = scratch.rooms[2 if kept == 0 else 0]
                count = meet_lists(
                    self._ids, self._ends, ids, ends, view.base, 64 * view.present.size,
                    scratch.table, scratch.epoch, opened, target, self.tally,
                )  # fmt: skip
                self._ids, kept = target[:count], 2 - kept

    def _write(self, view: TermView, filled: int, positions: Array, rows: Array) -> int:
        start = self.first
        filled = emit_lists(self._ids, self._ends, start, self._cursor, filled, positions, rows)
        if self._cursor[0] == self._ends.size:
            self.first = self.stop
        return filled
