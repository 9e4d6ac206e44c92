"""Arrival by rank: with ``CountWindow(order=…)`` rows wait until their place is known.

Ranks of one side never fall, so a left row of rank ``k`` may be processed once the right side has
shown a rank of ``k`` or more, and a right row once the left side has gone beyond ``k`` (equal
ranks: left first). What is processed, and in which order, then depends on the ranks alone and not
on how the streams were cut into pushes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.fresh import Fresh
from thetastream.data.batch import to_keys
from thetastream.errors import DataError
from thetastream.schema import Domain
from thetastream.side import Side

__all__ = ["Census", "Waiting", "concatenated", "read_ranks", "ready"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


def ready(ranks: Array, side: Side, other: int | None) -> int:
    """How many rows may be processed, given the last rank that the other side has shown."""
    if other is None:
        return 0
    return int(np.searchsorted(ranks, other, "right" if side is Side.LEFT else "left"))


@dataclass
class Census:
    """The ranks of all rows of a side, in whichever partition of the join the rows are.

    ``pending`` are the ranks of rows that wait, ascending; ``released`` rows came before them.
    """

    pending: Array = field(default_factory=lambda: np.empty(0, np.int64))
    released: int = 0
    last: int | None = None

    @property
    def seen(self) -> int:
        """How many rows the side has had."""
        return self.released + self.pending.size

    def add(self, ranks: Array) -> None:
        """Take note of rows, in the order of their ranks."""
        if ranks.size:
            self.pending = np.concatenate([self.pending, ranks])
            self.last = int(ranks[-1])

    def before(self, ranks: Array, side: Side) -> Array:
        """How many rows arrived before rows of the other ``side`` with these ranks."""
        if side is Side.LEFT:
            return self.released + np.searchsorted(self.pending, ranks, "left")
        return self.released + np.searchsorted(self.pending, ranks, "right")

    def release(self, count: int) -> None:
        """The first ``count`` rows have been processed."""
        self.released += count
        self.pending = self.pending[count:]


@dataclass
class Waiting:
    """Rows of one side whose turn has not come."""

    rows: Fresh | None = None
    ranks: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return self.ranks.size

    def add(self, rows: Fresh) -> None:
        """Put rows behind those that wait already."""
        assert rows.ranks is not None
        self.rows = rows if self.rows is None else concatenated(self.rows, rows)
        self.ranks = np.concatenate([self.ranks, rows.ranks])

    def release(self, count: int) -> tuple[Fresh | None, Array]:
        """Take the first ``count`` rows out."""
        if self.rows is None or not count:
            return None, self.ranks[:0]
        ranks, self.ranks = self.ranks[:count], self.ranks[count:]
        out = sliced(self.rows, 0, count)
        self.rows = sliced(self.rows, count, len(self.rows)) if self.ranks.size else None
        return out, ranks


def read_ranks(
    batch: pa.RecordBatch,
    name: str,
    domain: Domain,
    side: Side,
    last: int | None,
    *,
    rising: bool = True,
) -> Array:
    """The arrival ranks of a batch; DataError when one is NULL, or falls though it must not."""
    ranks, valid = to_keys(batch.column(name), domain, f"{side.alias}.{name}")
    if valid is not None:
        raise DataError(
            f"the order column {name!r} of the {side.value} side has NULLs; every row needs a rank"
        )
    falls = rising and bool(np.any(ranks[1:] < ranks[:-1]))
    if falls or (last is not None and ranks.size and ranks[0] < last):
        raise DataError(
            f"the order column {name!r} of the {side.value} side falls; rows of one side must come "
            "in the order of their ranks"
        )
    return ranks


def concatenated(*pieces: Fresh) -> Fresh:
    """The rows of all pieces, of which there is at least one, in that order."""
    if len(pieces) == 1:
        return pieces[0]
    table = pa.Table.from_batches([piece.batch for piece in pieces])
    whole = [pa.concat_arrays(column.chunks) for column in table.unify_dictionaries().columns]
    return Fresh(
        pieces[0].side,
        pa.RecordBatch.from_arrays(whole, schema=table.schema),
        [np.concatenate(keys) for keys in zip(*(piece.keys for piece in pieces), strict=True)],
        _joined(pieces, [piece.valid for piece in pieces], missing=True),
        _all([piece.times for piece in pieces]),
        timed=_joined(pieces, [piece.timed for piece in pieces], missing=True),
        positions=_all([piece.positions for piece in pieces]),
        numbers=_all([piece.numbers for piece in pieces]),
        copies=_joined(pieces, [piece.copies for piece in pieces], missing=False),
    )


def _all(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _joined(pieces: Sequence[Fresh], masks: Sequence[Mask | None], *, missing: bool) -> Mask | None:
    if all(mask is None for mask in masks):
        return None
    parts = [
        np.full(len(piece), missing) if mask is None else mask
        for piece, mask in zip(pieces, masks, strict=True)
    ]
    return np.concatenate(parts)


def sliced(rows: Fresh, start: int, stop: int) -> Fresh:
    """Rows ``[start, stop)``."""

    def cut(values: Any) -> Any:
        return None if values is None else values[start:stop]

    return Fresh(
        rows.side,
        rows.batch.slice(start, stop - start),
        [key[start:stop] for key in rows.keys],
        cut(rows.valid),
        None,
        positions=cut(rows.positions),
        copies=cut(rows.copies),
    )
