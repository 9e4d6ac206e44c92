"""Arrow values of one length and one type: the small steps of every evaluation."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Mask
from thetastream.data.batch import to_floats, valid_mask


def spread(values: pa.Array, length: int) -> pa.Array:
    """Values of this length; a single one is repeated."""
    if len(values) == length:
        return values
    assert len(values) == 1
    return pa.repeat(values[0], length)


def align(*arrays: pa.Array) -> list[pa.Array]:
    """Arrays of the same length; single values are repeated."""
    length = next((len(values) for values in arrays if len(values) != 1), 1)
    return [spread(values, length) for values in arrays]


def null_mask(*arrays: pa.Array) -> Mask | None:
    """Where one of several values is NULL; None if there are no NULLs."""
    masks = [~valid for valid in map(valid_mask, arrays) if valid is not None]
    return reduce(np.logical_or, masks) if masks else None


def to_double(values: pa.Array) -> pa.Array:
    """Numbers as 64-bit floats."""
    if pat.is_null(values.type):
        return values.cast(pa.float64())
    if pat.is_float64(values.type):
        return values
    return pa.array(to_floats(values), mask=null_mask(values))


def doubles(values: pa.Array) -> NDArray[np.float64]:
    """Numbers as 64-bit floats, NULLs as zero; only read them, they may be those of the array."""
    if pat.is_float64(values.type) and not values.null_count:
        return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return to_floats(values)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are strings."""
    return bool(pat.is_string(kind) or pat.is_large_string(kind))
