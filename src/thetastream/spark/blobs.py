"""Rows as blobs: Arrow streams that travel through Spark and are stored in its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch evenly into pieces of about ``limit`` bytes at most; none for no rows."""
    if not batch.num_rows:
        return
    size = -(-batch.num_rows // max(1, -(-batch.nbytes // limit)))
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def parcels(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Join batches until they have ``rows`` rows or ``size`` bytes; the last may be smaller."""
    from thetastream.data.batch import joined  # which loads kernels

    held: list[pa.RecordBatch] = []
    count = nbytes = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        nbytes += batch.nbytes
        if count >= rows or nbytes >= size:
            yield joined(held)
            held, count, nbytes = [], 0, 0
    if held:
        yield joined(held)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the names and types of the plan; Spark names time zones its own way."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_blob(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_blob(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """The batch of an Arrow stream, without a copy."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
