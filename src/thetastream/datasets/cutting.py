"""Cut tables into batches, as they would arrive in a stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pyarrow as pa

from thetastream.errors import DataError
from thetastream.side import Side


def cut(table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in order, ``batch_rows`` per record batch; the last may be shorter.

    An empty table yields no batch. A table of one chunk is not copied; others are copied once.

    >>> [batch.num_rows for batch in cut(pa.table({"x": range(7)}), 3)]
    [3, 3, 1]
    """
    if batch_rows < 1:
        raise DataError(f"batch_rows must be at least 1; got {batch_rows}.")
    return _cut(table, batch_rows)


def interleave(
    left: pa.Table, right: pa.Table | None, batch_rows: int | tuple[int, int]
) -> Iterator[tuple[Side, pa.RecordBatch]]:
    """Yield the pushes of a run, alternating sides: left, right, left, right, …

    When one side has ended the other goes on alone. A pair of sizes keeps two streams of different
    speed in step, such as ``(1000, 4000)`` for four quotes per trade. ``right=None`` (a self-join)
    yields left pushes only.

    >>> table = pa.table({"x": range(3)})
    >>> [(side.value, batch.num_rows) for side, batch in interleave(table, table, (2, 3))]
    [('left', 2), ('right', 3), ('left', 1)]
    """
    sizes = batch_rows if isinstance(batch_rows, tuple) else (batch_rows, batch_rows)
    pushes = [cut(left, sizes[0]), cut(right, sizes[1]) if right is not None else iter(())]
    return (
        (side, batch)
        for turn in zip_longest(*pushes)
        for side, batch in zip(Side, turn, strict=True)
        if batch is not None
    )


def _cut(table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    whole = table.combine_chunks() if len(table.to_batches()) > 1 else table
    for start in range(0, whole.num_rows, batch_rows):
        part = whole.slice(start, batch_rows).combine_chunks()
        yield from part.to_batches()
