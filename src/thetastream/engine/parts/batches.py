"""From match pairs to record batches: lazy, of bounded size, and safe to interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.data.results import Result
from thetastream.engine.parts.records import Records
from thetastream.errors import DataError, StateError
from thetastream.metrics import Counters
from thetastream.output_mode import Output
from thetastream.shape import COUNTS
from thetastream.side import Side

Pair = tuple[Array, Array]


class OutputPart(Protocol):
    """Some of the rows of a push."""

    def read(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end. An interrupted call can be repeated."""


class GatheredPart:
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

    ``start`` returns all batches from the first on, the same ones each time: an interrupt ends the
    generator in use, and a new one is then advanced to where the last one stopped.
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
        # If interrupted here, _batches is None, and the next call starts a new generator.
        batch = next(batches, None)
        self._delivered, self._batches = self._delivered + 1, batches
        return batch


class Batches(Result):
    """The rows of one push. Iterate it; what you do not read costs little and is not lost.

    Rows are gathered when they are asked for, from a snapshot taken by the push, so reading may be
    put off until after later pushes. After an interrupt (Ctrl-C) reading can go on. ``schema`` is
    None while the columns of one side are unknown.
    """

    def __init__(
        self,
        parts: list[OutputPart],
        counters: Counters,
        output: Output = Output.ROWS,
        schema: pa.Schema | None = None,
    ) -> None:
        self._parts = parts
        self._counters = counters
        self._output = output
        self._schema = schema
        self._records = [part for part in parts if isinstance(part, Records)]
        self._runs = 0
        for records in self._records:
            records.first_run = self._runs
            self._runs += records.runs

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows; StateError before the columns of both sides are known."""
        if self._schema is None:
            raise StateError(
                "the columns of the result are not known yet: push rows of both sides first, or "
                "pass schemas="
            )
        return self._schema

    def __next__(self) -> pa.RecordBatch:
        while self._parts:
            batch = self._parts[0].read()
            if batch is not None:
                self._counters.output_rows += batch.num_rows
                return batch
            self._parts = self._parts[1:]
        raise StopIteration

    def pairs(self, limit: int = 65_536) -> Iterator[tuple[Array, Array]]:
        """With ``output="ranges"``: the pairs that the records stand for, as they are read.

        Returns arrival numbers ``(left, right)`` in arrays of at most ``limit``, from the snapshot
        taken by the push. Reading the records before or after makes no difference.
        """
        self._need_ranges("pairs()")
        return (pair for records in self._records for pair in records.pairs(limit))

    def stored(self, run: int) -> Array:
        """With ``output="ranges"``: the rows of a run, into which ``start`` and ``stop`` point.

        Returns arrival numbers of the other side's rows, in the order of their keys.
        """
        self._need_ranges("stored(run)")
        for records in self._records:
            if records.first_run <= run < records.first_run + records.runs:
                return records.stored(run)
        raise DataError(f"there is no run {run}; the runs of this result are 0 to {self._runs - 1}")

    def _need_ranges(self, call: str) -> None:
        if self._output is not Output.RANGES:
            raise StateError(
                f"{call} is for joins with output='ranges'; this one has "
                f"output={self._output.value!r}: read its batches"
            )


def rechunked(pairs: Iterable[Pair], limit: int) -> Iterator[Pair]:
    """Join short chunks, so that batches are well filled but never exceed the limit."""
    chunk: list[Pair] = []
    size = 0
    for rows, ids in pairs:
        for start in range(0, rows.size, limit):
            piece = (rows[start : start + limit], ids[start : start + limit])
            if size + piece[0].size > limit:
                yield _joined(chunk)
                chunk, size = [], 0
            chunk.append(piece)
            size += piece[0].size
    if size:
        yield _joined(chunk)


def _joined(chunk: list[Pair]) -> Pair:
    if len(chunk) == 1:
        return chunk[0]
    return np.concatenate([a for a, _ in chunk]), np.concatenate([b for _, b in chunk])


def counted(side: Side, numbers: Array, counts: Array, size: int) -> Iterator[pa.RecordBatch]:
    """Batches of ``output="count"``: rows with at least one match, at most ``size`` per batch."""
    matched = np.flatnonzero(counts)
    for start in range(0, matched.size, size):
        at = matched[start : start + size]
        columns = [pa.repeat(side.value, at.size), pa.array(numbers[at]), pa.array(counts[at])]
        yield pa.RecordBatch.from_arrays(columns, schema=COUNTS)
