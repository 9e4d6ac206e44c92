"""The input buffer: rows that have arrived but not been looked up (SSIJ, Section IV-A)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.data.batch import joined
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.waiting import Segment


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows taken from the input buffer, and when they arrived."""

    batch: pa.RecordBatch
    segments: list[Segment]

    def segments_of(self, rows: Array) -> list[Segment]:
        """When some of the rows arrived."""
        if len(self.segments) == 1:
            return [Segment(rows.size, self.segments[0].arrived)]
        ends = np.cumsum([segment.rows for segment in self.segments])
        counts = np.bincount(
            np.searchsorted(ends, rows, side="right"), minlength=len(self.segments)
        )
        return [
            Segment(int(count), segment.arrived)
            for count, segment in zip(counts, self.segments, strict=True)
            if count
        ]


class Arrivals:
    """Batches in order of arrival, with their times; counted in ``memory``."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._batches: deque[tuple[pa.RecordBatch, float]] = deque()
        self.rows = 0

    def append(self, batch: pa.RecordBatch, arrived: float) -> None:
        """Add rows."""
        self._batches.append((batch, arrived))
        self.rows += batch.num_rows
        self._memory.arrived += batch.nbytes
        self._memory.note()

    def take(self, wanted: int) -> ArrivedRows:
        """Remove and return the first rows, at most ``wanted``; there must be one."""
        batches: list[pa.RecordBatch] = []
        segments: list[Segment] = []
        while self._batches and wanted > 0:
            batch, arrived = self._batches.popleft()
            self._memory.arrived -= batch.nbytes
            if batch.num_rows > wanted:
                rest = batch.slice(wanted)
                self._batches.appendleft((rest, arrived))
                self._memory.arrived += rest.nbytes
                batch = batch.slice(0, wanted)
            batches.append(batch)
            segments.append(Segment(batch.num_rows, arrived))
            wanted -= batch.num_rows
            self.rows -= batch.num_rows
        return ArrivedRows(joined(batches), segments)

    @property
    def oldest(self) -> float:
        """When the first of the rows arrived."""
        return self._batches[0][1]

    def clear(self) -> None:
        """Drop all rows."""
        self._batches.clear()
        self.rows = self._memory.arrived = 0

    def check(self) -> None:
        """Assert that rows and bytes are counted correctly."""
        assert self._memory.arrived == sum(batch.nbytes for batch, _ in self._batches)
        assert self.rows == sum(batch.num_rows for batch, _ in self._batches)
