"""Arrival by rank: with ``CountWindow(order=…)`` rows wait until their place is known.

Ranks of one side never fall. So a left row of rank ``k`` may be processed once the right side has
reached rank ``k``, and a right row once the left side is beyond ``k`` (equal ranks: left first).
The order of processing then depends on the ranks alone, not on how the streams are cut into pushes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh, concatenated
from thetastream.data.batch import to_keys
from thetastream.errors import DataError, SchemaError
from thetastream.schema import Domain, common_domain
from thetastream.side import Side


def ready(ranks: Array, side: Side, other: int | None) -> int:
    """How many rows may be processed, given the last rank of the other side."""
    if other is None:
        return 0
    return int(np.searchsorted(ranks, other, "right" if side is Side.LEFT else "left"))


@dataclass
class Census:
    """The ranks of all rows of a side, in all partitions of the join.

    ``pending`` are the ascending ranks of waiting rows; ``released`` rows came before them.
    """

    pending: Array = field(default_factory=lambda: np.empty(0, np.int64))
    released: int = 0
    last: int | None = None

    @property
    def seen(self) -> int:
        """How many rows the side has received."""
        return self.released + self.pending.size

    def add(self, ranks: Array) -> None:
        """Register rows, in the order of their ranks."""
        if ranks.size:
            self.pending = np.concatenate([self.pending, ranks])
            self.last = int(ranks[-1])

    def before(self, ranks: Array, side: Side) -> Array:
        """How many rows arrived before rows of the other ``side`` with these ranks."""
        edge: Literal["left", "right"] = "left" if side is Side.LEFT else "right"
        return self.released + np.searchsorted(self.pending, ranks, edge)

    def release(self, count: int) -> None:
        """Mark the first ``count`` rows as processed."""
        self.released += count
        self.pending = self.pending[count:]


@dataclass
class Waiting:
    """Rows of one stream that wait for their turn, in order of arrival."""

    pieces: list[Fresh] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(piece.count for piece in self.pieces)

    @property
    def rows(self) -> Fresh | None:
        """All waiting rows in one piece; None if there are none."""
        if len(self.pieces) > 1:
            self.pieces = [concatenated(self.pieces)]
        return self.pieces[0] if self.pieces else None

    def add(self, rows: Fresh) -> None:
        """Add rows after those that already wait."""
        if rows.count:
            self.pieces.append(rows)

    def release(self, count: int) -> Fresh | None:
        """Remove and return the first ``count`` rows; None for none."""
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
    """The arrival ranks of a batch; DataError if one is NULL, or if ranks fall and must not."""
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
    """The domain in which arrival ranks of both sides are compared; None without an order."""
    if order is None:
        return None
    kinds = [schemas[side].field(order[side.position]).type for side in Side]
    domain = common_domain(kinds[0], kinds[1], f"order {order}")
    if not domain.kind.is_ordered:
        given = ", ".join(
            f"{side.alias}.{order[side.position]} {kinds[side.position]}" for side in Side
        )
        raise SchemaError(
            f"the order columns must be numbers or times; got {given}. Pass order= a column that "
            "ranks the rows of both sides, such as a number or a time of arrival"
        )
    return domain
