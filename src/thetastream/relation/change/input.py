"""The rows of a change, from whatever a build takes too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from thetastream.data.batch import one_batch
from thetastream.errors import RelationError, SchemaError
from thetastream.relation.files.sources import is_spark, open_source


def batch_of(rows: Any, schema: pa.Schema) -> tuple[pa.RecordBatch, bool]:
    """The caller's rows as one batch, and whether they come from Arrow, with types of their own."""
    if isinstance(rows, pa.RecordBatch):
        return rows, True
    if isinstance(rows, list | tuple) and not rows:
        return one_batch(pa.Table.from_batches([], schema=schema)), True
    if isinstance(rows, pa.Table):
        return one_batch(rows), True
    if is_frame(rows):
        return one_batch(frame_table(rows)), False
    if isinstance(rows, dict | bytes) or not isinstance(rows, str | Path | Iterable):
        raise SchemaError(
            "expected rows as a pyarrow table, a record batch, a list or a reader of batches, a "
            f"data frame or the path of a file; got {type(rows).__name__}: convert them, for "
            "example with pyarrow.Table.from_pylist"
        )
    source = open_source(rows, _no_folder)
    table = pa.Table.from_batches(source.batches, schema=source.schema)
    return one_batch(table), not isinstance(rows, str | Path)


def is_frame(rows: Any) -> bool:
    """Whether this is a data frame of pandas, Polars, Spark or the like."""
    return is_spark(rows) or (
        hasattr(rows, "__arrow_c_stream__")
        and not isinstance(rows, pa.Table | pa.RecordBatchReader | pa.ChunkedArray)
    )


def frame_table(rows: Any) -> pa.Table:
    """A data frame as a table; that of Spark is collected."""
    if not is_spark(rows):
        return pa.table(rows)
    if rows.isStreaming:
        raise RelationError(
            "a relation cannot be changed by a streaming DataFrame; change it in foreachBatch"
        )
    return rows.toArrow()


def _no_folder() -> Path:
    raise AssertionError("only Spark needs a folder")


def fitted(batch: pa.RecordBatch, exact: bool, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the relation, in its order; SchemaError names what differs.

    ``exact``: types must be those of the relation. Otherwise values are cast, if none changes.
    """
    names = batch.schema.names
    extra = [name for name in names if name not in schema.names]
    if extra or len(set(names)) < len(names):
        what = ", ".join(map(repr, extra)) if extra else "two columns of one name"
        raise SchemaError(
            f"the rows have {what}, which the relation does not have; it has "
            f"{', '.join(schema.names)}"
        )
    arrays = []
    for field in schema:
        if field.name not in names:
            raise SchemaError(
                f"the rows lack the column {field.name!r} of the relation; they have "
                f"{', '.join(names)}"
            )
        arrays.append(_of_type(batch.column(field.name), field, exact))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _of_type(array: pa.Array, field: pa.Field, exact: bool) -> pa.Array:
    if pat.is_null(array.type):
        return pa.nulls(len(array), field.type)
    if array.type.equals(field.type):
        return array
    try:
        if not exact:
            return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    raise SchemaError(
        f"column {field.name!r} of the rows has type {array.type}; the relation has it as "
        f"{field.type}: cast it"
    )
