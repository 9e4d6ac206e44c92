"""The order in which the batches of two files are pushed, as if both were live streams.

With event times or arrival ranks the side that lags comes next, so that both advance together and
the window stays small. With neither, batches alternate: left, right, left, right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from thetastream.side import Side

Push = dict[str, pa.RecordBatch]
Streams = Mapping[Side, Iterable[pa.RecordBatch]]


def alternate(streams: Streams) -> Iterator[Push]:
    """One batch of each side per push."""
    for batches in zip_longest(*streams.values()):
        yield {
            side.value: batch
            for side, batch in zip(streams, batches, strict=True)
            if batch is not None
        }


def in_step(streams: Streams, columns: Mapping[Side, str]) -> Iterator[Push]:
    """One batch per push, of the side whose largest time or rank so far is the smaller one."""
    batches = {side: iter(stream) for side, stream in streams.items()}
    reached: dict[Side, float] = dict.fromkeys(streams, float("-inf"))
    while batches:
        side = min(batches, key=lambda side: reached[side])
        batch = next(batches[side], None)
        if batch is None:
            del batches[side]
            continue
        latest = pc.max(_ordinal(batch, columns[side])).as_py()
        if latest is not None:
            reached[side] = max(reached[side], latest)
        yield {side.value: batch}


def _ordinal(batch: pa.RecordBatch, column: str) -> pa.Array:
    """A column as numbers that compare across both sides, whatever the unit of time."""
    values = batch.column(column)
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return values.cast(pa.timestamp("ns"), safe=False).cast(pa.int64())
    if pa.types.is_time(values.type):
        return values.cast(pa.time64("ns")).cast(pa.int64())
    return values
