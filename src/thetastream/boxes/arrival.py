"""Arrival by rank: with ``CountWindow(order=…)`` rows wait until their place is known.

Ranks of one side never fall, so a left row of rank ``k`` may be processed once the right side has
shown a rank of ``k`` or more, and a right row once the left side has gone beyond ``k`` (equal
ranks: left first). What is processed, and in which order, then depends on the ranks alone and not
on how the streams were cut into pushes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh, concatenated
from thetastream.data.batch import to_keys
from thetastream.errors import DataError, SchemaError
from thetastream.schema import Domain, common_domain
from thetastream.side import Side


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
    """Rows of one stream whose turn has not come, in the order in which they came."""

    pieces: list[Fresh] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(piece.count for piece in self.pieces)

    @property
    def rows(self) -> Fresh | None:
        """All of them in one piece; None if there are none."""
        if len(self.pieces) > 1:
            self.pieces = [concatenated(self.pieces)]
        return self.pieces[0] if self.pieces else None

    def add(self, rows: Fresh) -> None:
        """Put rows behind those that wait already."""
        if rows.count:
            self.pieces.append(rows)

    def release(self, count: int) -> Fresh | None:
        """Take the first ``count`` rows out; None for none."""
        rows = self.rows
        if rows is None or not count:
            return None
        self.pieces = [rows.slice(count, rows.count)] if count < rows.count else []
        return rows if count == rows.count else rows.slice(0, count)


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


def order_domain(order: tuple[str, str] | None, schemas: Mapping[Side, pa.Schema]) -> Domain | None:
    """How arrival ranks of both sides become comparable; None without an order."""
    if order is None:
        return None
    kinds = [schemas[side].field(order[side.position]).type for side in Side]
    domain = common_domain(kinds[0], kinds[1], f"order {order}")
    if not domain.kind.is_ordered:
        raise SchemaError(f"the order columns must be numbers or times; got {kinds[0]}, {kinds[1]}")
    return domain
