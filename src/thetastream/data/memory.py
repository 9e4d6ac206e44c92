"""The memory of Arrow arrays as NumPy arrays, without a copy where that is possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes


def shared(values: NDArray[Any], owner: object) -> NDArray[Any]:
    """The same memory, marked as writable, because kernels take no others; only read it.

    The result keeps ``owner`` alive.
    """
    if not values.size or not values.flags.aligned:
        return values.copy()
    place, _ = values.__array_interface__["data"]
    return np.asarray(_Memory(owner, place, values.shape, values.dtype.str))


class _Memory:
    """Memory for NumPy, which keeps this object, and so the owner, alive."""

    def __init__(self, owner: object, place: int, shape: tuple[int, ...], kind: str) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (place, False),
            "shape": shape,
            "typestr": kind,
        }


def has_bytes(kind: pa.DataType) -> bool:
    """Whether values are strings or binary with offsets: no views, none of a fixed size."""
    text = pat.is_string(kind) or pat.is_large_string(kind)
    return bool(text or pat.is_binary(kind) or pat.is_large_binary(kind))


def is_large(kind: pa.DataType) -> bool:
    """Whether offsets have 64 bits."""
    return bool(pat.is_large_string(kind) or pat.is_large_binary(kind))


def bytes_of(values: pa.Array) -> tuple[Bytes, Array]:
    """The bytes of strings or binary values, and where each one starts; at last, the end.

    Only read the bytes: they may be those of the array.
    """
    if not has_bytes(values.type):
        values = values.cast(pa.large_binary())
    _, starts, data = values.buffers()
    width = np.int64 if is_large(values.type) else np.int32
    whole = np.frombuffer(starts or bytes(8), width)
    places: Array = whole[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first, size = int(places[0]), int(places[-1] - places[0])
    if first:
        places -= first
    if not size:
        return np.empty(0, np.uint8), places
    return np.asarray(_Memory(values, data.address + first, (size,), "|u1")), places
