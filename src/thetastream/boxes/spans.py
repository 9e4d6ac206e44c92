"""Spans: how far apart two key columns of stored rows lie, and what follows for boxes.

The start and the end of an interval, or two correlated measurements, lie close together. If the
distance is known for every stored row, an interval of one column implies one of the other:

    a fresh x asks     start <= x        end >= x + 1
    all rows have      1 <= end - start <= 400
    so also            start >= x + 1 - 400

An ordered index then reads the rows from x - 399 to x, and not half of the table. The implied
interval follows from integers alone, so it is exact whatever the keys stand for. It holds for the
rows that were measured and for no others: joins of finite tables use it, streams do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.window import saturating_add

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thetastream.boxes.field import Field
    from thetastream.boxes.keys import Keys

NARROW = 4  # times that a span is shorter than the column it bounds; longer ones bound too little


@dataclass(frozen=True, slots=True)
class Span:
    """``least <= beside - along <= most`` in all stored rows."""

    least: int
    most: int

    @classmethod
    def of(cls, along: Array, beside: Array) -> Span | None:
        """The span of two key columns; None if it does not say much, or leaves int64. O(n)."""
        if not along.size:
            return None
        low, high = int(along.min()), int(along.max())
        if int(beside.max()) - low > MOST or int(beside.min()) - high < LEAST:
            return None
        apart = beside - along
        span = cls(int(apart.min()), int(apart.max()))
        return span if NARROW * (span.most - span.least) < high - low else None

    def along(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The interval of ``along`` that holds all rows whose ``beside`` is in ``[low, high]``.

        >>> import numpy as np
        >>> [edge.tolist() for edge in Span(1, 400).along(np.array([500]), np.array([MOST]))]
        [[100], [9223372036854775806]]
        """
        return saturating_add(low, -self.most), saturating_add(high, -self.least)


def spans_of(fields: Sequence[Field], rows: Keys) -> dict[tuple[int, int], Span]:
    """The spans that bound a field by another one, by their places ``(along, beside)``."""
    _, able = rows.able()
    spans = {}
    for along, beside in permutations(range(len(fields)), 2):
        bounded = fields[along].is_point or fields[along].width is not None
        if bounded or fields[along].is_time or fields[beside].is_time:
            continue
        span = Span.of(fields[along].keys(able), fields[beside].keys(able))
        if span is not None:
            spans[along, beside] = span
    return spans
