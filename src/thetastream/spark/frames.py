"""Arrow batches as the pandas frames that Spark's stateful operator expects, without a copy.

Spark turns the frames back into Arrow, column by column. A column here is a pandas extension array
that holds the Arrow array and returns it as it is, so values of any type, nested ones too, pass
through untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa

METRICS = "__metrics"


class ArrowColumn(pd.arrays.ArrowExtensionArray):  # type: ignore[misc]
    """An Arrow array in a pandas column."""

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        """The array in one chunk, as Spark's conversion expects it."""
        chunks = self._pa_array
        return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()

    def map(self, mapper: Callable[[Any], Any], na_action: Any = None) -> ArrowColumn:
        """Spark maps nested Python values to Arrow's; these are Arrow's already."""
        return self


def _series(array: pa.Array) -> Any:
    return pd.Series(ArrowColumn(array), copy=False)


def as_frame(batch: pa.RecordBatch) -> Any:
    """An answer, with an empty column for the report."""
    columns = {
        name: _series(array) for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }
    columns[METRICS] = _series(pa.nulls(batch.num_rows, pa.string()))
    return pd.DataFrame(columns, copy=False)


def report_frame(schema: pa.Schema, text: str, known: dict[str, Any]) -> Any:
    """One row that holds a report; its other columns are NULL, but for those that are known."""
    columns = {
        field.name: _series(pa.array([known.get(field.name)], field.type)) for field in schema
    }
    columns[METRICS] = _series(pa.array([text], pa.string()))
    return pd.DataFrame(columns, copy=False)


def as_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """An answer in Arrow, with an empty column for the report."""
    return batch.append_column(METRICS, pa.nulls(batch.num_rows, pa.string()))


def report_batch(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """One row that holds a report; its other columns are NULL."""
    columns = {field.name: pa.nulls(1, field.type) for field in schema}
    return pa.record_batch({**columns, METRICS: pa.array([text], pa.string())})
