"""From match pairs to record batches: lazily, in bounded sizes, nothing lost on an interrupt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.interrupt import uninterrupted
from thetastream.metrics import Counters
from thetastream.rows import RowsView
from thetastream.side import Side

__all__ = ["Batches", "Part", "Source", "gathered", "rechunked"]

Array = NDArray[np.int64]
Pair = tuple[Array, Array]
Part = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Source:
    """The output columns: their schema, and the side and name each comes from."""

    schema: pa.Schema
    origin: list[tuple[Side, str]]


class Batches:
    """The rows of one push. Iterate it; what you do not read costs little and is not lost.

    Rows are gathered when they are asked for, from a snapshot taken by the push, so reading may be
    put off until after later pushes.
    """

    def __init__(self, parts: Iterable[Part], counters: Counters) -> None:
        self._parts = deque(parts)
        self._current: Iterator[pa.RecordBatch] | None = None
        self._ready: pa.RecordBatch | None = None
        self._counters = counters

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with uninterrupted():
            # An interrupt is delivered when this block ends: the batch waits in _ready.
            if self._ready is None:
                self._ready = self._advance()
        batch, self._ready = self._ready, None
        if batch is None:
            raise StopIteration
        return batch

    def _advance(self) -> pa.RecordBatch | None:
        while True:
            if self._current is None:
                if not self._parts:
                    return None
                self._current = self._parts.popleft()()
            batch = next(self._current, None)
            if batch is not None:
                self._counters.output_rows += batch.num_rows
                return batch
            self._current = None


def rechunked(pairs: Iterable[Pair], limit: int) -> Iterator[Pair]:
    """Join short chunks, so that batches come out well filled but never above the limit."""
    held: list[Pair] = []
    size = 0
    for rows, ids in pairs:
        for start in range(0, rows.size, limit):
            piece = (rows[start : start + limit], ids[start : start + limit])
            if size + piece[0].size > limit:
                yield _joined(held)
                held, size = [], 0
            held.append(piece)
            size += piece[0].size
    if size:
        yield _joined(held)


def _joined(held: list[Pair]) -> Pair:
    if len(held) == 1:
        return held[0]
    return np.concatenate([a for a, _ in held]), np.concatenate([b for _, b in held])


def gathered(
    source: Source, views: dict[Side, RowsView], ids: dict[Side, Array], length: int
) -> pa.RecordBatch:
    """One record batch; a side without ids gives NULLs."""
    arrays = [
        views[side].take(name, ids[side]) if side in ids else pa.nulls(length, field.type)
        for (side, name), field in zip(source.origin, source.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=source.schema)
