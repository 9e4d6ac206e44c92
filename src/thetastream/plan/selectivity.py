"""What share of a window a box holds: measured on samples of both sides, or assumed.

The share of a field is the part of the stored rows inside a fresh row's interval. The stored sample
is sorted and the ranks of the interval's edges are interpolated, so that shares far below one
sample row can still be told apart. Before any rows are known, shares typical of the kind of term
are assumed.

Two fields together are more than the product of their shares when they hang together:

    second │        · ·                    a box asks for the lower right part. Each field alone
    key    │      · ·                      passes half of the rows, both together a few: in the
           │    · ·  ┌──────               order of the first key, only blocks near the corner
           │  · ·    │ box                 have second keys inside the box
           └──────────────── first key

``joint`` is the share that passes all fields, counted on pairs of sample rows. ``met`` is the share
of blocks of stored rows, in the order of one field, whose zone in another meets the box: what an
index with zone maps has to read. Blocks of the sample stand for longer ones of the window, so it is
measured for two lengths and carried on to the length that 64 rows of the window have in the sample.
That holds where fields are correlated; where they are not, 64 rows are spread as two are. The truth
lies between both, and so does the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys

__all__ = ["ZONE", "Selectivity"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]
BOXES = 128  # of the fresh sample, where all are compared with all
SHORT, LONG = 2, 8  # sample rows in a block
ZONE = 64  # rows in a block of the index
LEAST = 4  # pairs that must be inside for a count of them to be trusted


@dataclass(frozen=True)
class Selectivity:
    """Shares of the fields of a stored side."""

    fields: tuple[Field, ...]
    stored: Keys | None
    fresh: Keys | None

    @classmethod
    def of(cls, fields: Sequence[Field], stored: Keys | None, fresh: Keys | None) -> Selectivity:
        """From samples of both sides; assumed if one of them is missing or empty."""
        if stored is None or fresh is None or not (len(stored) and len(fresh)):
            stored = fresh = None
        return cls(tuple(fields), stored, fresh)

    @property
    def sampled(self) -> bool:
        """Whether shares were measured."""
        return self.stored is not None

    @cached_property
    def shares(self) -> dict[Field, float]:
        """The part of the window inside the interval of each field."""
        return {field: self._share(field) for field in self.fields}

    @cached_property
    def arms(self) -> dict[Field, float]:
        """How many intervals a box has in each field."""
        fresh = self.fresh
        if fresh is None:
            return dict.fromkeys(self.fields, 1.0)
        return {
            field: max(1.0, sum(float((low <= high).mean()) for low, high in field.pieces(fresh)))
            for field in self.fields
        }

    @cached_property
    def joint(self) -> float:
        """The part of the window inside whole boxes."""
        product = float(np.prod(list(self.shares.values()))) if self.fields else 1.0
        if not self.sampled or len(self.fields) < 2:
            return product
        inside = np.ones((0, 0), np.bool_)
        for field in self.fields:
            keys, pieces = self._keys(field), self._pieces(field)
            some = np.zeros((pieces[0][0].size, keys.size), np.bool_)
            for low, high in pieces:
                some |= (low[:, None] <= keys) & (keys <= high[:, None])
            inside = some if not inside.size else inside & some
        found = int(np.count_nonzero(inside))
        return found / inside.size if found >= LEAST else min(product, LEAST / inside.size)

    def met(self, along: Field, other: Field, rows: float) -> float:
        """The share of blocks met, of those inside the interval of ``along``, for a window."""
        if not self.sampled:
            return 1.0
        length = ZONE * self._keys(along).size / max(rows, 1.0)
        if length >= LONG:
            return self._met(along, other, round(length))
        short, long = self._met(along, other, SHORT), self._met(along, other, LONG)
        slope = max(0.0, (long - short) / (LONG - SHORT))
        carried = max(short - slope * (SHORT - length), self.joint / self.shares[along])
        return min(1.0, math.sqrt(carried * max(carried, short)))

    def _met(self, along: Field, other: Field, length: int) -> float:
        """The same for blocks of so many sample rows."""
        keys = self._keys(along)
        order = np.argsort(keys)
        heads = np.arange(0, keys.size, length)
        first, last = keys[order[heads]], keys[order[np.append(heads[1:], keys.size) - 1]]
        beside = self._keys(other)[order]
        least, most = np.minimum.reduceat(beside, heads), np.maximum.reduceat(beside, heads)
        passed = met = 0
        for low, high in self._pieces(along):
            within = (low[:, None] <= last) & (first <= high[:, None])
            passed += int(np.count_nonzero(within))
            meets = np.zeros_like(within)
            for bottom, top in self._pieces(other):
                meets |= (bottom[:, None] <= most) & (least <= top[:, None])
            met += int(np.count_nonzero(within & meets))
        return met / passed if passed else 0.0

    def _share(self, field: Field) -> float:
        """Mean share of the stored sample inside the intervals of the fresh sample."""
        if self.fresh is None:
            return _assumed(field)
        return min(1.0, max(float(self._inside[field].mean()), 1e-9))

    @cached_property
    def _inside(self) -> dict[Field, NDArray[np.float64]]:
        """For each field, the share of the stored sample inside every fresh row's intervals."""
        return {field: self._shares_inside(field) for field in self.fields}

    def _shares_inside(self, field: Field) -> NDArray[np.float64]:
        assert self.fresh is not None
        keys = np.sort(self._keys(field))
        inside = np.zeros(len(self.fresh))
        for low, high in field.pieces(self.fresh):
            ranks = np.maximum(_rank(keys, high, "right") - _rank(keys, low, "left"), 0.0)
            inside += np.where(low <= high, ranks, 0.0)
        return inside / keys.size

    def busy(self, field: Field) -> float:
        """The share of fresh rows that hold most of what is inside a field's intervals.

        1 when all intervals hold alike, 1/n when one of n holds everything: (Σx)² / (n Σx²).
        """
        if self.fresh is None:
            return 1.0
        inside = self._inside[field]
        squares = float((inside**2).sum())
        return float(inside.sum()) ** 2 / (inside.size * squares) if squares else 1.0

    def _keys(self, field: Field) -> Array:
        assert self.stored is not None
        return field.keys(self.stored)

    def _pieces(self, field: Field) -> list[tuple[Array, Array]]:
        """Intervals of some fresh rows."""
        assert self.fresh is not None
        pieces = field.pieces(self.fresh)
        step = -(-pieces[0][0].size // BOXES)
        return [(low[::step], high[::step]) for low, high in pieces]


def _assumed(field: Field) -> float:
    if field.is_time:
        return 0.7
    if field.is_point:
        return 1e-4
    if field.width is not None:
        return 1e-3
    intervals = all(bound.term.is_interval for bound in field.terms)
    return 0.4 if intervals else 0.9


def _rank(keys: Array, at: Array, side: Any) -> NDArray[np.float64]:
    """Rank among sorted keys, interpolated between neighbours."""
    right = np.searchsorted(keys, at, side=side)
    below = keys[np.maximum(right - 1, 0)].astype(np.float64)
    above = keys[np.minimum(right, keys.size - 1)].astype(np.float64)
    gap = above - below
    part = np.where(gap > 0, (at.astype(np.float64) - below) / np.where(gap > 0, gap, 1.0), 0.0)
    return np.asarray(right + np.clip(part, 0.0, 1.0), np.float64)
