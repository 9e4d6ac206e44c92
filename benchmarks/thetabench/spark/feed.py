"""The input of a measurement: both streams as Parquet files, a few per micro-batch.

Rows of a side carry their keys and ``t``, their event time: 1, 2, 3, … in arrival order. A *fill*
micro-batch, if there is one, brings as many rows per side as the window holds; the others are of
one size. Spark takes files in the order of their modification times, so these are set one second
apart.

    batch     0 (fill)     1          2          3
    left      1 … w      … w + h    … w + 2h   … w + 3h
    right     1 … w      … w + h    … w + 2h   … w + 3h        h = batch / 2
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thetabench.query import Query
from thetastream.datasets.workloads import WORKLOADS
from thetastream.errors import DataError
from thetastream.side import Side

FILES = 2
_FIRST_TIME = 1_700_000_000


@dataclass(frozen=True)
class Shape:
    """What makes a feed: same shape, same files."""

    workload: str
    window: int
    """Rows per side that the time window holds: one per unit of time."""
    batch: int
    """Rows of a micro-batch, both sides together."""
    batches: int
    """Micro-batches of that size."""
    fill: bool
    """Whether a micro-batch that fills the window comes first."""
    seed: int = 0
    files: int = FILES
    """Files per side and micro-batch, so that both cores scan."""

    def __post_init__(self) -> None:
        if self.batch < 2 * self.files or self.batch % 2 or self.batches < 1 or self.window < 1:
            raise DataError(
                f"a feed needs a window of at least 1 row, at least 1 micro-batch, and an even "
                f"number of rows in it, at least {2 * self.files}; got window {self.window}, "
                f"{self.batches} micro-batches of {self.batch} rows."
            )

    @property
    def edges(self) -> list[int]:
        """Rows of one side before each micro-batch, and at the end.

        >>> Shape("W1", 100, 40, 2, fill=True).edges
        [0, 100, 120, 140]
        """
        first = [0, self.window] if self.fill else [0]
        half = self.batch // 2
        return first + [first[-1] + half * (number + 1) for number in range(self.batches)]


@dataclass(frozen=True)
class Feed:
    """Both streams of a shape, with their predicate."""

    shape: Shape
    query: Query
    tables: dict[Side, pa.Table]

    @classmethod
    def of(cls, shape: Shape) -> Feed:
        """Make the rows. Same shape, same rows."""
        rows = shape.edges[-1]
        made = WORKLOADS[shape.workload](shape.window, rows, seed=shape.seed)
        assert made.right is not None, "a workload of two streams"
        times = pa.array(np.arange(1, rows + 1, dtype=np.int64))
        tables = {
            side: table.drop_columns(["id"]).append_column("t", times)
            for side, table in ((Side.LEFT, made.left), (Side.RIGHT, made.right))
        }
        return cls(shape, Query.of(made), tables)

    @property
    def batches(self) -> int:
        """How many micro-batches there are, the fill included."""
        return len(self.shape.edges) - 1

    def rows(self, batch: int) -> int:
        """Rows of a micro-batch, both sides together."""
        return 2 * (self.shape.edges[batch + 1] - self.shape.edges[batch])

    @cached_property
    def packed_bytes(self) -> float:
        """Bytes of a row in Arrow's format, all its columns: what must travel and be kept."""
        table = self.tables[Side.LEFT]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return int(sink.getvalue().size) / int(table.num_rows)

    def save(self, folder: Path) -> None:
        """Write the files of all micro-batches."""
        for side, table in self.tables.items():
            (folder / side.value).mkdir(parents=True, exist_ok=True)
            for batch, (start, end) in enumerate(
                zip(self.shape.edges, self.shape.edges[1:], strict=False)
            ):
                cuts = np.linspace(start, end, self.shape.files + 1).astype(int)
                for part in range(self.shape.files):
                    path = folder / side.value / _name(batch, part)
                    rows = table.slice(cuts[part], cuts[part + 1] - cuts[part])
                    pq.write_table(rows, path, compression="none", use_dictionary=False)
                    moment = _FIRST_TIME + self.shape.files * batch + part
                    os.utime(path, (moment, moment))


def link(saved: Path, folder: Path, batch: int) -> list[Path]:
    """Let the files of a micro-batch appear in a contestant's folder; returns them."""
    files = []
    for side in Side:
        (folder / side.value).mkdir(parents=True, exist_ok=True)
        for path in sorted((saved / side.value).glob(_name(batch, "*"))):
            files.append(folder / side.value / path.name)
            os.link(path, files[-1])
    return files


def _name(batch: int, part: int | str) -> str:
    return f"{batch:05}-{part}.parquet"
