"""Mappers: apply a mapping to all rows of a key range without listing them.

Ordered Indexing, Section 3.2: a second-order function over an index. Compiled loops fold built-in
mappings, inside the structure if it has its own mapper, else over the chunks of a probe. A user's
mapping is a function of ``(key, value, state)``, compiled and applied to a buffer of rows at a
time, in key order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from thetastream._jit.compiling import COMPILE_ERROR
from thetastream.data.number_columns import Values
from thetastream.errors import DataError
from thetastream.index.folding import Fold
from thetastream.index.kernels.mapping import Mapping, driver

if TYPE_CHECKING:
    from thetastream._jit.arrays import Array
    from thetastream.index.base import Index, Pair


_BUFFER = 4096  # rows per call of the user's mapping


def map_boxes(
    index: Index, low: Any, high: Any, mapping: str | Mapping, values: Any, state: Any
) -> Any:
    """See ``Index.map``."""
    lows, highs = np.asarray(low, np.int64), np.asarray(high, np.int64)
    if lows.shape != highs.shape:
        raise DataError(
            f"low and high must have the same shape; got {lows.shape} and {highs.shape}"
        )
    single = lows.ndim == (0 if index.columns == 1 else 1)
    lows, highs = (edge.reshape(index.columns, -1) for edge in (lows, highs))
    column = Values.of(values)
    if callable(mapping):
        begin = np.zeros(1) if state is None else np.atleast_1d(np.asarray(state))
        states = [
            _applied(index, *box, mapping, column, begin.copy()) for box in _each(lows, highs)
        ]
        if single:
            return states[0]
        return np.stack(states) if states else np.empty((0, *begin.shape), begin.dtype)
    if state is not None:
        raise DataError(f"state is for a mapping of your own; mapping={mapping!r} has none")
    fold = Fold(column, lows.shape[1], counting=mapping == "count")
    fold.result(mapping)  # an unknown mapping is refused before any work
    index.fold_boxes(lows, highs, fold)
    results = fold.result(mapping)
    if not single:
        return results
    return None if np.ma.is_masked(results[0]) else results[0].item()


def _each(lows: Array, highs: Array) -> Iterator[tuple[Any, Any]]:
    for at in range(lows.shape[1]):
        yield (lows[:, at], highs[:, at]) if len(lows) > 1 else (lows[0, at], highs[0, at])


def _applied(
    index: Index, low: Any, high: Any, mapping: Mapping, values: Values | None, state: Any
) -> Any:
    name = getattr(mapping, "__name__", "mapping")
    for keys, ids in index.scan(low, high, buffer=_BUFFER):
        first = keys if keys.ndim == 1 else np.ascontiguousarray(keys[0])
        rows, column = (ids, values) if values else (np.arange(ids.size), Values(ids))
        try:
            driver(mapping)(first, rows, column.array, column.first, column.valid, state)
        except COMPILE_ERROR as error:
            raise DataError(
                f"the mapping {name!r} cannot be compiled; it must be a function of (key, value, "
                f"state) that numba's nopython mode takes: {error}"
            ) from error
        except Exception as error:
            raise DataError(
                f"the mapping {name!r} raised {type(error).__name__}: {error}. The index is as it "
                "was; the state of this range is lost"
            ) from error
    return state


def rows_in_order(index: Index, low: Any, high: Any, buffer: int) -> Iterator[Pair]:
    """Scan any index: dump its rows and sort those inside. O(n log n)."""
    keys, ids = index.dump()
    edges = [np.asarray(edge, np.int64).reshape(-1, 1) for edge in (low, high)]
    inside = np.flatnonzero(np.all((edges[0] <= keys) & (keys <= edges[1]), axis=0))
    order = inside[np.argsort(keys[0, inside], kind="stable")]
    for start in range(0, order.size, buffer):
        at = order[start : start + buffer]
        rows = np.ascontiguousarray(keys[:, at])
        yield rows[0] if index.columns == 1 else rows, ids[at]
