"""Arrival by rank: with ``CountWindow(order=…)`` rows wait until their place is known.

Ranks of one side never fall, so a left row of rank ``k`` may be processed once the right side has
shown a rank of ``k`` or more, and a right row once the left side has gone beyond ``k`` (equal
ranks: left first). What is processed, and in which order, then depends on the ranks alone and not
on how the streams were cut into pushes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.batch import to_keys
from thetastream.binding import Fresh
from thetastream.errors import DataError
from thetastream.schema import Domain
from thetastream.side import Side

__all__ = ["Waiting", "read_ranks"]

Array = NDArray[np.int64]


@dataclass
class Waiting:
    """Rows of one side whose turn has not come."""

    rows: Fresh | None = None
    ranks: Array = field(default_factory=lambda: np.empty(0, np.int64))
    last: int | None = None

    def __len__(self) -> int:
        return self.ranks.size

    def add(self, rows: Fresh) -> None:
        """Put rows behind those that wait already."""
        assert rows.ranks is not None
        self.rows = rows if self.rows is None else concatenated(self.rows, rows)
        self.ranks = np.concatenate([self.ranks, rows.ranks])
        if rows.ranks.size:
            self.last = int(rows.ranks[-1])

    def release(self, count: int) -> tuple[Fresh | None, Array]:
        """Take the first ``count`` rows out."""
        if self.rows is None or not count:
            return None, self.ranks[:0]
        ranks, self.ranks = self.ranks[:count], self.ranks[count:]
        out = sliced(self.rows, 0, count)
        self.rows = sliced(self.rows, count, len(self.rows)) if self.ranks.size else None
        return out, ranks

    def ready(self, side: Side, other: int | None) -> int:
        """How many rows may be processed, given the last rank that the other side has shown."""
        if other is None:
            return 0
        return int(np.searchsorted(self.ranks, other, "right" if side is Side.LEFT else "left"))


def read_ranks(
    batch: pa.RecordBatch, name: str, domain: Domain, side: Side, last: int | None
) -> Array:
    """The arrival ranks of a batch; DataError when one is NULL or falls."""
    ranks, valid = to_keys(batch.column(name), domain, f"{side.alias}.{name}")
    if valid is not None:
        raise DataError(
            f"the order column {name!r} of the {side.value} side has NULLs; every row needs a rank"
        )
    falls = bool(np.any(ranks[1:] < ranks[:-1]))
    if falls or (last is not None and ranks.size and ranks[0] < last):
        raise DataError(
            f"the order column {name!r} of the {side.value} side falls; rows of one side must come "
            "in the order of their ranks"
        )
    return ranks


def concatenated(a: Fresh, b: Fresh) -> Fresh:
    """Rows of both, a first."""
    valid = None
    if a.valid is not None or b.valid is not None:
        valid = np.concatenate(
            [np.ones(len(x), np.bool_) if x.valid is None else x.valid for x in (a, b)]
        )
    batch = pa.Table.from_batches([a.batch, b.batch])
    whole = [pa.concat_arrays(column.chunks) for column in batch.unify_dictionaries().columns]
    keys = [np.concatenate(pair) for pair in zip(a.keys, b.keys, strict=True)]
    return Fresh(
        a.side, pa.RecordBatch.from_arrays(whole, schema=a.batch.schema), keys, valid, None
    )


def sliced(rows: Fresh, start: int, stop: int) -> Fresh:
    """Rows ``[start, stop)``."""
    return Fresh(
        rows.side,
        rows.batch.slice(start, stop - start),
        [key[start:stop] for key in rows.keys],
        None if rows.valid is None else rows.valid[start:stop],
        None,
    )
