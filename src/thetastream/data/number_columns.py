"""Columns as numbers that can be folded, kept by row id beside the window.

An aggregated column becomes int64 or float64 once, when its rows are stored; a fold then reads
numbers by id and never an Arrow value:

    type of the column          number
    whole numbers, booleans     themselves
    uint64                      minus 2^63, which keeps the order
    decimals                    unscaled, at most 18 digits
    dates, times, durations     ticks of their unit; days for dates
    floats                      themselves as float64, -0.0 as 0.0
    anything else               0: such columns are only counted

``aggregate.answer`` turns results back. Cost: O(1) per row; 8 bytes, plus one if NULLs occur.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Bytes, Mask
from thetastream.data.batch import plain, to_floats, to_keys, valid_mask
from thetastream.data.rows import Ring
from thetastream.errors import DataError
from thetastream.schema import Domain, KeyKind, kind_of, tick, value_type


@dataclass(frozen=True, slots=True)
class Values:
    """Numbers by row, as folds and mappers read them: row ``id`` has ``array[id - first]``.

    ``valid``, if not empty, is 0 where a row has no value (NULL); such rows do not count. ``owner``
    identifies the column across calls: an index may keep some of its values in order.
    """

    array: NDArray[Any]
    first: int = 0
    valid: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    owner: object = None

    def __post_init__(self) -> None:
        if self.array.ndim != 1 or self.array.dtype not in (np.int64, np.float64):
            raise DataError(
                "values must be a one-dimensional array of int64 or float64; got "
                f"{self.array.dtype} of shape {self.array.shape}. Convert it with astype"
            )
        if self.valid.size and self.valid.shape != self.array.shape:
            raise DataError(
                f"valid has {self.valid.size} entries for {self.array.size} values; the numbers "
                "must be equal"
            )

    @classmethod
    def of(cls, values: Any) -> Values | None:
        """Wrap an array whose entry ``id`` belongs to row ``id``; None stays None."""
        if values is None or isinstance(values, Values):
            return values
        return cls(np.ascontiguousarray(values))


def number_dtype(kind: pa.DataType) -> type[np.int64] | type[np.float64]:
    """The dtype that values of a type are converted to."""
    return np.float64 if pat.is_floating(value_type(kind)) else np.int64


def numbers(values: pa.Array | pa.ChunkedArray, what: str) -> tuple[NDArray[Any], Mask | None]:
    """Values as numbers, and where they are not NULL (None if there are no NULLs).

    DataError for a decimal of more than 18 digits.
    """
    values = plain(values)
    if pat.is_floating(values.type):
        return to_floats(values) + 0.0, valid_mask(values)
    kind = kind_of(values.type)
    if kind is None or not kind.is_ordered:
        return np.zeros(len(values), np.int64), valid_mask(values)
    return to_keys(values, _own_domain(kind, values.type), what)


def _own_domain(kind: KeyKind, type_: pa.DataType) -> Domain:
    """The domain of values that are compared only with values of their own type."""
    if kind is KeyKind.DECIMAL:
        return Domain(kind, scale=type_.scale)
    return Domain(kind, tick=tick(type_)) if kind.is_temporal else Domain(kind)


class NumberColumn:
    """An aggregated column of a stored stream: grows at the end, shrinks at the front."""

    def __init__(self, kind: pa.DataType, what: str, first: int) -> None:
        self._what = what
        self._values = Ring(number_dtype(kind), first)
        self._valid: Ring | None = None

    def append(self, column: pa.Array) -> None:
        """Add the values of rows that are stored."""
        values, valid = numbers(column, self._what)
        if valid is not None and self._valid is None:
            self._valid = Ring(np.uint8, self._values.first)
            self._valid.append(np.ones(self._values.size, np.uint8))
        if self._valid is not None:
            self._valid.append(np.ones(values.size, np.uint8) if valid is None else valid)
        self._values.append(values)

    def view(self) -> Values:
        """A snapshot: rows stored or expired later do not change it."""
        valid = {} if self._valid is None else {"valid": self._valid.values}
        return Values(self._values.values, self._values.first, owner=self, **valid)

    def rings(self) -> list[Ring]:
        """The arrays it keeps, for code that expires and moves rows."""
        return [ring for ring in (self._values, self._valid) if ring is not None]
