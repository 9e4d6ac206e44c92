"""Values as numbers that can be folded, and where they are kept: by id, beside the window.

An aggregated column becomes int64 or float64 once, when its rows are stored; a fold then reads
numbers by id and never an Arrow value:

    type of the column          number
    whole numbers, booleans     themselves
    uint64                      less 2^63, so that the order stays
    decimals                    unscaled, of at most 18 digits
    dates, times, durations     ticks of their unit; days for dates
    floats                      themselves as float64, -0.0 as 0.0
    anything else               0: such columns are only counted

``aggregate.answer`` turns results back. Cost: O(1) per row, 8 bytes, one more when NULLs occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Mask
from thetastream.data.batch import plain, to_floats, to_keys
from thetastream.data.rows import Ring
from thetastream.data.values import Values
from thetastream.schema import Domain, KeyKind, kind_of, tick, value_type

ALL_VALID = np.empty(0, np.uint8)


def number_dtype(kind: pa.DataType) -> type[np.int64] | type[np.float64]:
    """What values of a type become."""
    return np.float64 if pat.is_floating(value_type(kind)) else np.int64


def numbers(values: pa.Array | pa.ChunkedArray, what: str) -> tuple[NDArray[Any], Mask | None]:
    """The numbers of values, and where they are not NULL (None when they all are not).

    DataError for a decimal of more than 18 digits.
    """
    values = plain(values)
    if pat.is_floating(values.type):
        valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        return to_floats(values) + 0.0, valid
    kind = kind_of(values.type)
    if kind is None or not kind.is_ordered:
        valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        return np.zeros(len(values), np.int64), valid
    return to_keys(values, _own_domain(kind, values.type), what)


def _own_domain(kind: KeyKind, type_: pa.DataType) -> Domain:
    """The domain of values that meet only their like."""
    if kind is KeyKind.DECIMAL:
        return Domain(kind, scale=type_.scale)
    return Domain(kind, tick=tick(type_)) if kind.is_temporal else Domain(kind)


class Measured:
    """An aggregated column of a stored stream: grows at the end, shrinks at the front."""

    def __init__(self, kind: pa.DataType, what: str, first: int) -> None:
        self._what = what
        self._values = Ring(number_dtype(kind), first)
        self._valid: Ring | None = None

    def append(self, column: pa.Array) -> None:
        """Take the values of rows that are stored."""
        values, valid = numbers(column, self._what)
        if valid is not None and self._valid is None:
            self._valid = Ring(np.uint8, self._values.first)
            self._valid.append(np.ones(self._values.size, np.uint8))
        if self._valid is not None:
            ones = np.ones(values.size, np.uint8)
            self._valid.append(ones if valid is None else valid.astype(np.uint8))
        self._values.append(values)

    def view(self) -> Values:
        """A snapshot: rows stored or expired later do not change it."""
        valid = ALL_VALID if self._valid is None else self._valid.values
        return Values(self._values.values, self._values.first, valid, owner=self)

    def rings(self) -> list[Ring]:
        """What is kept, for whoever expires and moves rows."""
        return [self._values, *([self._valid] if self._valid is not None else [])]
