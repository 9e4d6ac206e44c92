"""The layout of tactic ``cells``: equalities and the cell of a band, then the order of a field.

See ``tactic.py`` for what a layout is. Prefix and suffix are one number, so that any ordered index
serves; both may be inexact, as all fields are checked on the rows found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thetastream.boxes.field import Field
from thetastream.plan.kernels.cells import cell_ranges, cells_of_floats, cells_of_integers, quantize
from thetastream.plan.tactic import Array, Boxes, Layout, hashed
from thetastream.schema import Kind

__all__ = ["SUFFIX_BITS", "Cells", "Quantizer"]

PREFIX_BITS = 23
SUFFIX_BITS = 40


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Fits keys into few steps: subtract, shift, hold at the ends. Never falls when the key grows.

    No more steps than are needed: keys of one prefix then lie close to those of the next, and the
    router of a run finds its way among them.
    """

    base: int
    shift: int
    steps: int = 1 << SUFFIX_BITS

    @classmethod
    def fit(cls, keys: Array) -> Quantizer:
        """Leave room for half the observed range on either side."""
        if not keys.size:
            return cls(0, 16)
        low, high = int(keys.min()), int(keys.max())
        room = (high - low) // 2 + 1
        base = max(low - room, -(2**63))
        span = high + room - base
        shift = max(0, span.bit_length() - SUFFIX_BITS)
        return cls(base, shift, (span >> shift) + 1)

    def held(self, keys: Array) -> float:
        """The share of keys that fall off either end; they are all rounded to one value."""
        steps = self.apply(keys)
        return float(np.mean((steps == 0) | (steps == self.steps - 1))) if keys.size else 0.0

    def apply(self, keys: Array) -> Array:
        """The rounded keys."""
        rounded = np.empty(keys.size, np.int64)
        quantize(np.ascontiguousarray(keys), self.base, self.shift, self.steps, rounded)
        return rounded


class Cells(Layout):
    """A composite key: equalities and the cell of a band in front, the order of a field behind."""

    tactic = "cells"
    index = "zoned-runs"

    def __init__(
        self,
        fields: Sequence[Field],
        points: Sequence[Field],
        band: Field | None,
        multiple: int,
        suffix: Field,
        quantizer: Quantizer,
    ) -> None:
        super().__init__(fields)
        self.points = tuple(points)
        self.band = band
        self.multiple = multiple
        self.suffix = suffix
        self.quantizer = quantizer
        self._width = self._cell_width()

    def _cell_width(self) -> float:
        if self.band is None:
            return 1.0
        assert self.band.width is not None
        width = self.band.width * self.multiple
        if self.band.domain.kind is Kind.FLOAT:
            return width
        return float(min(max(1, int(width)), 2**62))

    @property
    def checks(self) -> tuple[Field, ...]:
        return self.fields

    def _cells(self, keys: Array) -> Array:
        assert self.band is not None
        cells = np.empty(keys.size, np.int64)
        if self.band.domain.kind is Kind.FLOAT:
            cells_of_floats(keys, self._width, cells)
        else:
            cells_of_integers(keys, int(self._width), cells)
        return cells

    def _composite(self, prefix: Sequence[Array], suffix: Array) -> Array:
        """Prefixes that are equal stay equal; others may become so, as all is checked again.

        Cells alone keep their order, so that those of a stream fill a short range of numbers.
        """
        if self.points:
            top = hashed(prefix) >> np.int64(64 - PREFIX_BITS)
        else:
            top = prefix[0] + np.int64(1 << (PREFIX_BITS - 1))  # 0 and -1 stay neighbours
        return (top & np.int64((1 << PREFIX_BITS) - 1)) * np.int64(self.quantizer.steps) + suffix

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        prefix = [keys[field] for field in self.points]
        if self.band is not None:
            prefix.append(self._cells(keys[self.band]))
        return self._composite(prefix, self.quantizer.apply(keys[self.suffix]))

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        if not self.points:
            return self._cell_ranges(pieces, owners)
        prefix = [pieces[field][0] for field in self.points]
        if self.band is not None:
            low, high = pieces[self.band]
            owners, cells = _spread(self._cells(low[owners]), self._cells(high[owners]), owners)
            prefix = [*(part[owners] for part in prefix), cells]
        else:
            prefix = [part[owners] for part in prefix]
        low, high = pieces[self.suffix]
        bottoms = self.quantizer.apply(low[owners])
        lows = self._composite(prefix, bottoms)
        return Boxes(lows, lows - bottoms + self.quantizer.apply(high[owners]), owners)

    def _cell_ranges(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        """Without equalities: a range in every cell that the band of a row touches."""
        assert self.band is not None
        low, high = pieces[self.band]
        first, last = self._cells(low[owners]), self._cells(high[owners])
        bottoms, tops = (np.ascontiguousarray(edge) for edge in pieces[self.suffix])
        made = np.empty((3, int((last - first).sum()) + owners.size), np.int64)
        fit = (self.quantizer.base, self.quantizer.shift, self.quantizer.steps)
        cell_ranges(owners, first, last, bottoms, tops, *fit, 1 << PREFIX_BITS, *made)
        return Boxes(*made)

    def describe(self) -> str:
        parts = [str(field) for field in self.points]
        if self.band is not None:
            parts.append(f"cell of {self._width:g} of {self.band}")
        return f"({', '.join(parts)}), then order of {self.suffix}"


def _spread(first: Array, last: Array, owners: Array) -> tuple[Array, Array]:
    """One entry per cell in ``first .. last`` of every owner."""
    counts = last - first + 1
    total = int(counts.sum())
    at = np.repeat(np.arange(owners.size), counts)
    starts = np.cumsum(counts) - counts
    return owners[at], first[at] + (np.arange(total) - starts[at])
