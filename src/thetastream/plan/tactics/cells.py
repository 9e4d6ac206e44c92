"""Tactic ``cells``: equalities and the cell of a band, then the order of another field.

Two bands become a few short ranges instead of one long range:

    prefix: cell of x     │ suffix: order of y
    ··· 17 │ 17 │ 17 │ 18 │ …            a box asks [y - d, y + d] in two cells

Prefix and suffix form one number, so any ordered index works. Both may be inexact, as all fields
are checked on the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, Array
from thetastream.boxes.field import Field
from thetastream.plan.kernels.cells import cell_ranges, cells_of_floats, cells_of_integers, quantize
from thetastream.plan.layout import NO_PARAMETERS, Boxes, Layout, Reach, hashed
from thetastream.plan.selectivity import Selectivity
from thetastream.plan.tactics.family import Family, Options
from thetastream.schema import KeyKind

PREFIX_BITS = 23
SUFFIX_BITS = 40
MULTIPLES = (1, 2, 4, 8)  # widths of a cell, in bands


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Maps keys to few steps: subtract, shift, clamp. Never falls as the key grows.

    It uses only as many steps as needed: keys of one prefix then lie close to those of the next,
    which suits the router of a run.
    """

    base: int
    shift: int
    steps: int = 1 << SUFFIX_BITS

    @classmethod
    def fit(cls, keys: Array) -> Quantizer:
        """Fit the observed range, plus half of it on either side."""
        if not keys.size:
            return cls(0, 16)
        low, high = int(keys.min()), int(keys.max())
        room = (high - low) // 2 + 1
        base = max(low - room, LEAST)
        span = high + room - base
        shift = max(0, span.bit_length() - SUFFIX_BITS)
        return cls(base, shift, (span >> shift) + 1)

    def clamped(self, keys: Array) -> float:
        """The share of keys clamped at either end, which cannot be distinguished."""
        steps = self.apply(keys)
        return float(np.mean((steps == 0) | (steps == self.steps - 1))) if keys.size else 0.0

    def apply(self, keys: Array) -> Array:
        """The steps of keys."""
        steps = np.empty(keys.size, np.int64)
        quantize(np.ascontiguousarray(keys), self.base, self.shift, self.steps, steps)
        return steps


class CellLayout(Layout):
    """A composite key: equalities and the cell of a band first, then the order of a field."""

    tactic = "cells"
    prepared, pushed = "prepare_cells", "push_cells"

    def __init__(
        self,
        fields: Sequence[Field],
        points: Sequence[Field],
        band: Field | None,
        multiple: int,
        suffix: Field,
        quantizer: Quantizer,
        index: str = "zoned-runs",
        parameters: Mapping[str, Any] = NO_PARAMETERS,
    ) -> None:
        super().__init__(fields, index, parameters)
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
        if self.band.domain.kind is KeyKind.FLOAT:
            return width
        return float(min(max(1, int(width)), 2**62))

    @property
    def checks(self) -> tuple[Field, ...]:
        return self.fields

    def _cells(self, keys: Array) -> Array:
        assert self.band is not None
        cells = np.empty(keys.size, np.int64)
        if self.band.domain.kind is KeyKind.FLOAT:
            cells_of_floats(keys, self._width, cells)
        else:
            cells_of_integers(keys, int(self._width), cells)
        return cells

    def _composite(self, prefix: Sequence[Array], suffix: Array) -> Array:
        """Combine prefixes and suffixes. Different prefixes may collide, as everything is checked.

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
        cells: list[Array] = []
        if self.band is not None:
            low, high = pieces[self.band]
            owners, cell = _spread(self._cells(low[owners]), self._cells(high[owners]), owners)
            cells = [cell]
        prefix = [*(pieces[field][0][owners] for field in self.points), *cells]
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
        ranges = np.empty((3, int((last - first).sum()) + owners.size), np.int64)
        fit = (self.quantizer.base, self.quantizer.shift, self.quantizer.steps)
        cell_ranges(owners, first, last, bottoms, tops, *fit, 1 << PREFIX_BITS, *ranges)
        return Boxes(*ranges)

    def reach(self, known: Selectivity, lost: float = 0.0) -> Reach:
        boxes = self._arms(known)
        share = math.prod(known.shares[field] for field in self.points)
        share *= max(known.shares[self.suffix], lost)
        if self.band is not None:
            share *= min(1.0, known.shares[self.band] * (1 + self.multiple))
            boxes *= 1 + 1 / self.multiple
        return Reach(boxes, share)

    def lost(self, known: Selectivity) -> float:
        """The share of keys that have drifted off an end of the suffix."""
        return (
            0.0 if known.stored is None else self.quantizer.clamped(self.suffix.keys(known.stored))
        )

    @property
    def identity(self) -> tuple[Any, ...]:
        return (*super().identity, self.points, self.band, self.multiple, self.suffix)

    @property
    def fit(self) -> Quantizer:
        return self.quantizer

    @property
    def fits_keys(self) -> bool:
        return True

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


class CellsFamily(Family):
    """Every band as cells of some widths, or equalities alone, and every other field as suffix."""

    name: ClassVar[str] = "cells"
    summary: ClassVar[str] = "equalities and the cell of a band, then the order of another term"
    needs: ClassVar[str] = "it needs an equality or a bounded band, and a second term"

    def structures(self) -> Sequence[str]:
        return ("zoned-runs",)

    def layouts(self, known: Selectivity, options: Options) -> list[Layout]:
        points = [field for field in known.fields if field.is_point]
        bands: list[Field | None] = [field for field in known.fields if field.has_cells]
        return [
            CellLayout(
                known.fields, points, band, multiple, suffix, _fitted(suffix, known), index,
                options.of(index),
            )
            for index in options.structures
            for band in ([None, *bands] if points else bands)
            for suffix in known.fields
            if suffix not in points and suffix is not band
            for multiple in (MULTIPLES if band is not None else (1,))
        ]  # fmt: skip


def _fitted(suffix: Field, known: Selectivity) -> Quantizer:
    """A quantizer for the stored keys, if some are known."""
    stored = known.stored
    return Quantizer.fit(np.empty(0, np.int64) if stored is None else suffix.keys(stored))
