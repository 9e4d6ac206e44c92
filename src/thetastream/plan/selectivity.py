"""What share of a window a box holds: measured on samples of both sides, or assumed.

The share of a field is the part of the stored rows inside a fresh row's interval. The stored sample
is sorted and the ranks of the interval's edges are interpolated, so that shares far below one
sample row are still distinguished. Before any rows are known, shares typical of the kind of term
are assumed.

The joint share of two correlated fields is not the product of their shares:

    second │        · ·                    a box asks for the lower right part. Each field alone
    key    │      · ·                      passes half of the rows, both together a few: in the
           │    · ·  ┌──────               order of the first key, only blocks near the corner
           │  · ·    │ box                 have second keys inside the box
           └──────────────── first key

``joint`` is the share that passes all fields, counted on pairs of sample rows. If a few fresh rows
match most of the stored ones, a part of the sample has too few of those, so all of it is counted.
``met`` is the share
of blocks of stored rows, in the order of one field, whose zone in another meets the box: what an
index with zone maps has to read. A block of the sample stands for a longer one of the window, so
``met`` is measured for two lengths and extrapolated to the length that 64 rows of the window have
in the sample. That is right for correlated fields; in uncorrelated ones, 64 rows spread as far as
two. The truth lies between both, and so does the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.plan.kernels.sampling import count_inside, count_met, shares_inside

ASKED = 512  # fresh rows whose boxes are used, unless a few of them hold most of the rows
BOXES = 128  # of the fresh sample, for comparing all with all
SHORT, LONG = 2, 8  # sample rows in a block
ZONE = 64  # rows in a block of the index
LEAST = 4  # pairs inside for a count to be trusted


@dataclass(frozen=True)
class Selectivity:
    """Shares of the fields of a stored side."""

    fields: tuple[Field, ...]
    stored: Keys | None
    fresh: Keys | None

    @classmethod
    def of(cls, fields: Sequence[Field], stored: Keys | None, fresh: Keys | None) -> Selectivity:
        """From samples of both sides; shares are assumed if one of them is missing or empty."""
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
        if self.fresh is None:
            return dict.fromkeys(self.fields, 1.0)
        return {
            field: max(1.0, float(np.count_nonzero(low <= high)) / low.shape[1])
            for field, (low, high) in self._edges.items()
        }

    @cached_property
    def joint(self) -> float:
        """The part of the window inside whole boxes."""
        product: float = math.prod(self.shares.values(), start=1.0)
        if not self.sampled or len(self.fields) < 2:
            return product
        ranked = sorted(self.fields, key=lambda field: self.shares[field])
        keys = np.stack([self._keys(field)[self._orders[ranked[0]]] for field in ranked])
        edges = self._edges if self._uneven else self._some
        arms = max(low.shape[0] for low, _ in edges.values())
        boxes = int(edges[ranked[0]][0].shape[1])
        lows = np.full((len(ranked), arms, boxes), 1, np.int64)
        highs = np.zeros_like(lows)
        for place, field in enumerate(ranked):
            low, high = edges[field]
            lows[place, : low.shape[0]], highs[place, : high.shape[0]] = low, high
        counts = np.zeros(1, np.int64)
        count_inside(keys, lows, highs, counts)
        inside, pairs = int(counts[0]), boxes * int(keys.shape[1])
        return inside / pairs if inside >= LEAST else min(product, LEAST / pairs)

    def met(self, along: Field, other: Field, rows: float) -> float:
        """Of the blocks inside the interval of ``along``, the share whose zone meets ``other``."""
        if not self.sampled:
            return 1.0
        length = ZONE * self._keys(along).size / max(rows, 1.0)
        if length >= LONG:
            return self._met(along, other, round(length))
        short, long = self._met(along, other, SHORT), self._met(along, other, LONG)
        slope = max(0.0, (long - short) / (LONG - SHORT))
        extrapolated = max(short - slope * (SHORT - length), self.joint / self.shares[along])
        return min(1.0, math.sqrt(extrapolated * max(extrapolated, short)))

    def _met(self, along: Field, other: Field, length: int) -> float:
        """The same for blocks of ``length`` sample rows, remembered."""
        if (along, other, length) in self._shares_met:
            return self._shares_met[along, other, length]
        order = self._orders[along]
        keys, beside = self._keys(along)[order], self._keys(other)[order]
        heads = np.arange(0, keys.size, length)
        first, last = keys[heads], keys[np.append(heads[1:], keys.size) - 1]
        least, most = np.minimum.reduceat(beside, heads), np.maximum.reduceat(beside, heads)
        counts = np.zeros(2, np.int64)
        count_met(first, last, least, most, *self._some[along], *self._some[other], counts)
        passed, met = counts.tolist()
        share = met / passed if passed else 0.0
        self._shares_met[along, other, length] = share
        return share

    def _share(self, field: Field) -> float:
        """Mean share of the stored sample inside the intervals of the fresh sample."""
        if self.fresh is None:
            return _assumed(field)
        return min(1.0, max(float(self._inside[field].mean()), 1e-9))

    def busy(self, field: Field) -> float:
        """The share of fresh rows whose intervals hold most of the rows inside a field's intervals.

        1 if all intervals hold equally many, 1/n if one of n holds everything.
        """
        if self.fresh is None:
            return 1.0
        inside = self._inside[field]
        return _effective(inside) / inside.size

    # --- Computed once ---------------------------------------------------------------------------

    @cached_property
    def _shares_met(self) -> dict[tuple[Field, Field, int], float]:
        return {}

    @cached_property
    def _orders(self) -> dict[Field, Array]:
        """The order of stored rows by the key of each field."""
        return {field: np.argsort(self._keys(field)) for field in self.fields}

    @cached_property
    def _inside(self) -> dict[Field, NDArray[np.float64]]:
        """For each field, the share of the stored sample inside a fresh row's intervals."""
        inside = dict(self._inside_some)
        for field in self._uneven:
            inside[field] = self._covered(field, 1)
        return inside

    @cached_property
    def _inside_some(self) -> dict[Field, NDArray[np.float64]]:
        """The same for ``ASKED`` fresh rows."""
        assert self.fresh is not None
        step = -(-len(self.fresh) // ASKED)
        return {field: self._covered(field, step) for field in self.fields}

    @cached_property
    def _uneven(self) -> list[Field]:
        """Fields in which a few fresh rows match most stored rows, so that all are compared."""
        if len(self.fields) < 2:
            return []
        some = self._inside_some.items()
        return [field for field, inside in some if _effective(inside) < BOXES]

    def _covered(self, field: Field, step: int) -> NDArray[np.float64]:
        """The share of the stored sample inside the intervals of every ``step``-th fresh row."""
        low, high = _every(self._edges[field], step)
        inside = np.empty(low.shape[1])
        shares_inside(self._keys(field)[self._orders[field]], low, high, inside)
        return inside

    @cached_property
    def _edges(self) -> dict[Field, tuple[Array, Array]]:
        """Low and high edges of the fresh sample's intervals, ``(arms, boxes)`` of each field."""
        assert self.fresh is not None
        pieces = {field: field.pieces(self.fresh) for field in self.fields}
        return {
            field: (np.stack([low for low, _ in arms]), np.stack([high for _, high in arms]))
            for field, arms in pieces.items()
        }

    @cached_property
    def _some(self) -> dict[Field, tuple[Array, Array]]:
        """The same for a few fresh rows."""
        assert self.fresh is not None
        step = -(-len(self.fresh) // BOXES)
        return {field: _every(edges, step) for field, edges in self._edges.items()}

    def _keys(self, field: Field) -> Array:
        assert self.stored is not None
        return field.keys(self.stored)


def _every(edges: tuple[Array, Array], step: int) -> tuple[Array, Array]:
    """The edges of every ``step``-th box."""
    low, high = edges
    return np.ascontiguousarray(low[:, ::step]), np.ascontiguousarray(high[:, ::step])


def _effective(inside: NDArray[np.float64]) -> float:
    """How many boxes account for most of what is inside: (Σx)² / Σx², all if they are alike."""
    squares = float((inside**2).sum())
    return float(inside.sum()) ** 2 / squares if squares else float(inside.size)


def _assumed(field: Field) -> float:
    if field.is_time:
        return 0.7
    if field.is_point:
        return 1e-4
    if field.width is not None:
        return 1e-3
    return 0.4 if all(bound.term.is_interval for bound in field.terms) else 0.9
