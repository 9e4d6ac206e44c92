"""Minutes of position reports, for windows that hold some of them (Ordered Indexing, Section 3.1).

Traffic runs until a minute has as many reports as are wanted; the minutes from then on are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.datasets.linear_road import linear_road_batches, road_key

__all__ = ["COLUMNS", "MINUTE", "WINDOW", "Minutes"]

Array = NDArray[np.int64]

COLUMNS = ("time", "xway", "dir", "seg", "vid", "speed")
MINUTE = 60
"""Seconds."""
WINDOW = 5
"""Minutes of the window."""
EXPRESSWAYS = 16
_WARM = 10  # minutes after which there is about as much traffic as is wanted


class Minutes:
    """``count`` minutes with at least ``per_minute`` reports each, or nearly so.

    Reports are numbered from 0 on; ``edges[m]`` is the first one of minute ``m``.
    """

    def __init__(self, per_minute: int, count: int, seed: int) -> None:
        self.per_minute = per_minute
        self.batches = list(_taken(per_minute, count, seed))
        self.edges = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        self.table = pa.Table.from_batches(self.batches)
        self.columns: dict[str, Array] = {n: self.table[n].to_numpy() for n in COLUMNS}
        self.keys = road_key(*(self.columns[name] for name in ("xway", "dir", "seg", "vid")))

    def __len__(self) -> int:
        """How many minutes there are."""
        return len(self.batches)

    def rows(self, first: int, stop: int) -> slice:
        """Where the reports of some minutes are."""
        return slice(int(self.edges[first]), int(self.edges[stop]))


def _taken(per_minute: int, count: int, seed: int) -> Iterator[pa.RecordBatch]:
    rate = max(1.0, per_minute / (2 * _WARM * EXPRESSWAYS))
    traffic = linear_road_batches(
        MINUTE, expressways=EXPRESSWAYS, rate=rate, growth=0.0, seed=seed, positions=True,
        columns=COLUMNS,
    )  # fmt: skip
    taken = 0
    while taken < count:
        batch = next(traffic)
        if taken or batch.num_rows >= per_minute:
            taken += 1
            yield batch
