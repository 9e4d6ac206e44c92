"""Strings and binary in flat arrays: one of bytes, and one of where each value starts.

    rows      100 │ 101 │ 102 │         data    p e a r │ f i g │ p l u m
    starts    40  │ 44  │ 47  │ 51      first byte at 40, which is the origin

A gather copies bytes from one place, and pairs are compared where they lie: O(bytes) both. Places
count all bytes that the column ever had, so that they stay the same when rows leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Bytes, Mask
from thetastream.condition.expression import Call, Column, Expression, Function
from thetastream.data.batch import valid_mask
from thetastream.data.kernels.byte_pairs import (
    begin_pairs,
    compare_pairs,
    equal_pairs,
    gather_bytes,
    places_of,
)
from thetastream.data.kernels.prefixes import prefix_keys
from thetastream.data.memory import bytes_of, is_large
from thetastream.errors import DataError

if TYPE_CHECKING:
    from thetastream.data.rows import Ring

_LIMIT = 2**31 - 1
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class BytesView:
    """A snapshot of strings or binary values; row ``first`` is at position 0 of ``starts``.

    ``known`` are the keys of their first eight bytes: empty if the column does not keep them, None
    if they are made when they are needed.
    """

    kind: pa.DataType
    data: Bytes
    starts: Array
    origin: int
    valid: Mask | None
    first: int
    known: Array | None = None

    @classmethod
    def of(cls, array: pa.Array) -> BytesView:
        """The values of an array, as rows ``0 …``."""
        return cls(array.type, *bytes_of(array), 0, valid_mask(array), 0)

    @cached_property
    def prefixes(self) -> Array:
        """The keys of the first eight bytes, or none."""
        if self.known is not None:
            return self.known
        return prefixes_of(self.data, self.starts - self.origin)

    def take(self, ids: Array) -> pa.Array:
        """The values of the rows, in the order of ``ids``."""
        at = ids - self.first
        places = np.empty(at.size + 1, np.int64)
        places_of(self.starts, at, places)
        if not is_large(self.kind) and places[-1] > _LIMIT:
            raise DataError(
                f"{at.size} values of type {self.kind} have more than 2 GiB together; cast the "
                f"column to large_{self.kind}"
            )
        taken = np.empty(int(places[-1]), np.uint8)
        gather_bytes(self.data, self.starts, self.origin, at, taken)
        bitmap = None
        if self.valid is not None:
            bitmap = pa.py_buffer(np.packbits(self.valid.take(at), bitorder="little"))
        offsets = places if is_large(self.kind) else places.astype(np.int32)
        parts = [bitmap, pa.py_buffer(offsets), pa.py_buffer(taken)]
        return pa.Array.from_buffers(self.kind, at.size, parts)


class BytesColumn:
    """A column of strings or binary of a growing and shrinking stream."""

    def __init__(
        self, kind: pa.DataType, first: int, ring: type[Ring], *, ordered: bool = False
    ) -> None:
        self._kind = kind
        self._ring = ring
        self._data = ring(np.uint8)
        self._starts = ring(np.int64, first)
        self._starts.append(np.zeros(1, np.int64))
        self._prefixes = ring(np.int64, first) if ordered else None
        self._valid: Ring | None = None

    def append(self, array: pa.Array) -> None:
        """Add rows at the end."""
        data, places = bytes_of(array)
        if array.null_count and self._valid is None:
            self._valid = self._ring(np.bool_, self._starts.first)
            self._valid.append(np.ones(self._starts.size - 1, np.bool_))
        if self._valid is not None:
            self._valid.append(array.is_valid().to_numpy(zero_copy_only=False))
        if self._prefixes is not None:
            self._prefixes.append(prefixes_of(data, places))
        self._starts.append(places[1:] + self._starts.values[-1])
        self._data.append(data)

    def expire(self, before: int) -> None:
        """Drop rows below ``before``, which is at most the end."""
        self._data.expire(int(self._starts.values[before - self._starts.first]))
        for ring in (self._starts, self._prefixes, self._valid):
            if ring is not None:
                ring.expire(before)

    def view(self) -> BytesView:
        """A snapshot."""
        starts, data = self._starts, self._data
        valid = None if self._valid is None else self._valid.values
        known = _NONE if self._prefixes is None else self._prefixes.values
        places = starts.values, data.first
        return BytesView(self._kind, data.values, *places, valid, starts.first, known)

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        rings = (self._data, self._starts, self._prefixes, self._valid)
        return sum(ring.nbytes for ring in rings if ring is not None)

    def clear(self) -> None:
        """Drop all rows; the next one is row 0."""
        for ring in (self._data, self._starts, self._prefixes):
            if ring is not None:
                ring.clear()
        self._starts.append(np.zeros(1, np.int64))
        self._valid = None


def prefixes_of(data: Bytes, places: Array) -> Array:
    """The keys of the first eight bytes of values."""
    keys = np.empty(places.size - 1, np.int64)
    prefix_keys(data, places, keys)
    return keys


# --- Pairs --------------------------------------------------------------------------------------

Place = tuple[BytesView, Array]


def pair_mask(node: Expression, find: Callable[[Column], Place | None]) -> Mask | None:
    """Where a comparison of two columns of bytes is true; None for any other condition.

    ``find`` returns the column, and the row of each pair.
    """
    if not isinstance(node, Call):
        return None
    if node.function in (Function.AND, Function.OR):
        parts = [pair_mask(arg, find) for arg in node.args]
        masks = [part for part in parts if part is not None]
        unite = np.logical_and if node.function is Function.AND else np.logical_or
        return reduce(unite, masks) if len(masks) == len(parts) else None
    if not (node.function.compares or node.function is Function.STARTS_WITH):
        return None
    places = [find(arg) for arg in node.args if isinstance(arg, Column)]
    found = [place for place in places if place is not None]
    return _compared(node.function, *found) if len(found) == len(node.args) else None


def _compared(function: Function, left: Place, right: Place) -> Mask:
    """Where a comparison is true."""
    (a, ids), (b, others) = left, right
    at, other_at, mask = ids - a.first, others - b.first, np.empty(ids.size, np.bool_)
    first, second = (a.data, a.starts, a.origin, at), (b.data, b.starts, b.origin, other_at)
    if function in (Function.EQ, Function.NE):
        equal_pairs(*first, *second, mask)
        mask = mask if function is Function.EQ else ~mask
    elif function is Function.STARTS_WITH:
        begin_pairs(*first, *second, mask)
    else:
        signs = np.empty(ids.size, np.int64)
        compare_pairs(*first, *second, a.prefixes, b.prefixes, signs)
        mask = _SIGNS[function](signs, 0)
    for view, rows in ((a, at), (b, other_at)):
        if view.valid is not None:
            mask = mask & view.valid[rows]
    return mask


_SIGNS: dict[Function, Callable[[Array, int], Mask]] = {
    Function.LT: np.less,
    Function.LE: np.less_equal,
    Function.GT: np.greater,
    Function.GE: np.greater_equal,
}
