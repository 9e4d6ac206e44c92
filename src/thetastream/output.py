"""From match pairs to record batches: lazily, in bounded sizes, nothing lost on an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.metrics import Counters
from thetastream.rows import RowsView
from thetastream.side import Side

__all__ = ["Batches", "Flow", "Part", "Pieces", "Source", "gathered", "rechunked"]

Array = NDArray[np.int64]
Pair = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Source:
    """The output columns: their schema, and the side and name each comes from."""

    schema: pa.Schema
    origin: list[tuple[Side, str]]


class Part(Protocol):
    """Some of the rows of a push."""

    def read(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end. An interrupted call may be made again."""


class Pieces:
    """A part whose rows are known: piece ``i`` is gathered when it is read."""

    __slots__ = ("_count", "_gather", "_next")

    def __init__(self, gather: Callable[[int], pa.RecordBatch], count: int) -> None:
        self._gather = gather
        self._count = count
        self._next = 0

    def read(self) -> pa.RecordBatch | None:
        if self._next == self._count:
            return None
        batch = self._gather(self._next)
        self._next += 1
        return batch


class Flow:
    """A part whose rows are computed as they are read.

    ``start`` gives the batches from the first on, the same ones each time it is called: an
    interrupt ends the generator in use, and a new one is then read up to where the last one was.
    """

    __slots__ = ("_batches", "_delivered", "_start")

    def __init__(self, start: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._start = start
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._delivered = 0

    def read(self) -> pa.RecordBatch | None:
        batches, self._batches = self._batches, None
        if batches is None:
            batches = islice(self._start(), self._delivered, None)
        # Interrupted in here, the generator is gone from _batches, and the next call starts anew.
        batch = next(batches, None)
        self._delivered, self._batches = self._delivered + 1, batches
        return batch


class Batches:
    """The rows of one push. Iterate it; what you do not read costs little and is not lost.

    Rows are gathered when they are asked for, from a snapshot taken by the push, so reading may be
    put off until after later pushes. After an interrupt (Ctrl-C) reading can go on.
    """

    def __init__(self, parts: list[Part], counters: Counters) -> None:
        self._parts = parts
        self._counters = counters

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while self._parts:
            batch = self._parts[0].read()
            if batch is not None:
                self._counters.output_rows += batch.num_rows
                return batch
            self._parts = self._parts[1:]
        raise StopIteration


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
        views[side].take(name, ids[side])
        if side in ids
        else pa.nulls(length, source.schema.field(at).type)
        for at, (side, name) in enumerate(source.origin)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=source.schema)
