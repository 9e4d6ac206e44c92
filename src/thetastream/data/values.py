"""Numbers by row, as folds and mappers read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import DataError


@dataclass(frozen=True, slots=True)
class Values:
    """A column of numbers by row: row ``id`` has ``array[id - first]``.

    ``valid``, when given, is 0 where a row has no value (NULL): such rows do not count. ``owner``
    stands for the column when it is given again: an index may keep some of its values in order.
    """

    array: NDArray[Any]
    first: int = 0
    valid: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    owner: object = None

    def __post_init__(self) -> None:
        if self.array.ndim != 1 or self.array.dtype not in (np.int64, np.float64):
            raise DataError(
                "values must be a one-dimensional array of int64 or float64; got "
                f"{self.array.dtype} of shape {self.array.shape}. Convert it with astype"
            )
        if self.valid.size and self.valid.shape != self.array.shape:
            raise DataError(
                f"valid has {self.valid.size} entries for {self.array.size} values; give as many"
            )

    @classmethod
    def of(cls, values: Any) -> Values | None:
        """From an array, whose entry ``id`` is that of row ``id``; None stays None."""
        if values is None or isinstance(values, Values):
            return values
        return cls(np.ascontiguousarray(values))
