"""What a mapper accumulates for each box, and the values it reads (Ordered Indexing, Section 3.2).

fold = Fold(values, boxes=2)          the accumulators of two boxes, still empty
index.fold_boxes(lows, highs, fold)   rows of the boxes are added, however many there are
fold.result("mean")                   one number per box, masked where there is no value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream._jit.compiling import prepare
from thetastream.data.number_columns import Values
from thetastream.errors import DataError, suggest
from thetastream.index.kernels import fold as kernels
from thetastream.index.kernels.fold import fold_pairs

MAPPINGS = ("count", "sum", "min", "max", "mean")


class Fold:
    """Accumulators of count, sum, least and greatest, for a number of boxes. O(boxes) bytes."""

    __slots__ = ("carries", "counting", "counts", "greatest", "least", "totals", "values")

    def __init__(self, values: Values | None, boxes: int, *, counting: bool = False) -> None:
        """``counting``: only the counts are wanted, so a structure may skip the rest."""
        prepare(kernels)
        self.counting = counting and (values is None or not values.valid.size)
        self.values = values or Values(np.empty(0, np.int64))
        kind = self.values.array.dtype
        real = kind == np.float64
        self.counts = np.zeros(boxes, np.int64)
        self.totals, self.carries = np.zeros(boxes, kind), np.zeros(boxes, kind)
        self.least = np.full(boxes, np.nan if real else MOST, kind)
        self.greatest = np.full(boxes, -np.inf if real else LEAST, kind)

    @property
    def real(self) -> bool:
        """Whether values are floats."""
        return bool(self.totals.dtype == np.float64)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What mappers take: values, first, valid, and the accumulators."""
        values = self.values
        return (
            values.array, values.first, values.valid,
            self.counts, self.totals, self.carries, self.least, self.greatest,
        )  # fmt: skip

    def add(self, positions: Array, ids: Array, before: int = LEAST) -> None:
        """Add pairs of box and row; rows below ``before`` are left out."""
        fold_pairs(positions, ids, before, *self.arrays)

    # --- Results --------------------------------------------------------------------------------

    def result(self, mapping: str) -> Any:
        """One number per box: counts, or an array that is masked where a box has no value."""
        if mapping not in MAPPINGS:
            raise DataError(
                f"there is no mapping {mapping!r}; there are {', '.join(MAPPINGS)}, or pass a "
                f"function of (key, value, state).{suggest(mapping, MAPPINGS)}"
            )
        return self.counts if mapping == "count" else _RESULTS[mapping](self)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which boxes have no value."""
        none: NDArray[np.bool_] = self.counts == 0
        return none

    def sums(self) -> Any:
        """Sums; DataError where one of integers does not fit into 64 bits."""
        if self.real:
            return np.ma.array(self._real_sums(), mask=self.empty)
        high = self.carries + (self.totals >> 32)
        beyond = np.flatnonzero((high < -(2**31)) | (high >= 2**31))
        if beyond.size:
            exact = (int(self.carries[beyond[0]]) << 32) + int(self.totals[beyond[0]])
            raise DataError(
                f"a sum of integers is {exact}, which does not fit into 64 bits; take the mean, or "
                "aggregate the column as float64"
            )
        return np.ma.array((self.carries << 32) + self.totals, mask=self.empty)

    def _real_sums(self) -> NDArray[np.float64]:
        # The rounding error of an infinite or NaN total is meaningless.
        with np.errstate(invalid="ignore"):
            exact = self.totals + self.carries
        return np.where(np.isfinite(self.totals), exact, self.totals) + 0.0

    def means(self) -> Any:
        """Sums over counts, in floats; exact integers are divided once, at the end."""
        if self.real:
            total = self._real_sums()
        else:
            total = self.carries.astype(np.float64) * 2.0**32 + self.totals
        return np.ma.array(total / np.maximum(self.counts, 1), mask=self.empty)

    def smallest(self) -> Any:
        """The least value of each box."""
        return np.ma.array(self._ends(self.least), mask=self.empty)

    def largest(self) -> Any:
        """The greatest value of each box."""
        return np.ma.array(self._ends(self.greatest), mask=self.empty)

    def _ends(self, values: NDArray[Any]) -> NDArray[Any]:
        return values + 0.0 if self.real else values  # -0.0 is 0.0


_RESULTS: dict[str, Callable[[Fold], Any]] = {
    "sum": Fold.sums,
    "min": Fold.smallest,
    "max": Fold.largest,
    "mean": Fold.means,
}
