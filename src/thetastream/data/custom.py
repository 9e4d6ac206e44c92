"""Calls of a user's residual function, and the checks of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from thetastream.condition.custom import Custom
from thetastream.condition.expression import Column
from thetastream.data.batch import plain
from thetastream.errors import DataError, SchemaError, ThetastreamError
from thetastream.side import Side


def custom_values(node: Custom, lookup: Callable[[Column], pa.Array], length: int) -> pa.Array:
    """Which pairs match; NULL where the function cannot say."""
    batches = [_batch(side, node, lookup, length) for side in Side]
    try:
        answer = node.function(*batches)
    except ThetastreamError:
        raise
    except Exception as error:
        raise DataError(
            f"the residual function {node.name} raised {type(error).__name__} on {length} "
            f"candidate pairs: {error}"
        ) from error
    return _checked(answer, node, length)


def _batch(
    side: Side, node: Custom, lookup: Callable[[Column], pa.Array], length: int
) -> pa.RecordBatch:
    names = node.names[side.position]
    arrays = [plain(lookup(Column(side, name))) for name in names]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _checked(found: Any, node: Custom, length: int) -> pa.Array:
    """The result as an Arrow array of booleans."""
    values = found
    if isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype == np.bool_:
        values = pa.array(found)
    elif isinstance(found, pa.ChunkedArray):
        values = plain(found)
    if not isinstance(values, pa.Array) or not pat.is_boolean(values.type):
        what = getattr(found, "dtype", getattr(found, "type", ""))
        raise SchemaError(
            f"the residual function {node.name} must return a boolean Arrow or NumPy array, one "
            f"value per pair; got {type(found).__name__}{f' of {what}' if what else ''}"
        )
    if len(values) != length:
        raise DataError(
            f"the residual function {node.name} must return one value per pair: it got {length} "
            f"pairs and returned {len(values)} values"
        )
    return values
