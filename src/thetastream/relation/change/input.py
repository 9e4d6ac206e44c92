"""The rows of a change, from whatever a build takes too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from thetastream.data import frames
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
        return one_batch(frame_table(rows, schema)), False
    if isinstance(rows, bytes) or not isinstance(rows, str | Path | Iterable):
        raise SchemaError(
            "expected rows as a pyarrow table, a record batch, a list or a reader of batches, a "
            "data frame, a dict of columns, a list of dicts, or the path of a file; got "
            f"{type(rows).__name__}"
        )
    source = open_source(rows, _no_folder)
    table = pa.Table.from_batches(source.batches, schema=source.schema)
    return one_batch(table), not isinstance(rows, str | Path)


def is_frame(rows: Any) -> bool:
    """Whether this is a data frame, that of Spark included, a dict or a list of dicts."""
    return is_spark(rows) or frames.is_frame(rows)


def frame_table(rows: Any, schema: pa.Schema | None = None) -> pa.Table:
    """A data frame as a table; that of Spark is collected. ``schema`` types dicts and lists."""
    if not is_spark(rows):
        return frames.batches_of(rows, schema, "the relation", infer=True).read_all()
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
