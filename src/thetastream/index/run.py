"""A run: rows in the order of their first key, with a router; and those of them that live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thetastream.index.base import Array
from thetastream.kernels.bisort import count_live
from thetastream.kernels.search import build_router

__all__ = ["Live", "Run", "count_matches", "sorted_rows"]

_NO_ROUTER = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted rows. ``keys`` and ``ids`` are the part ``[start, start + n)`` of ``room``, if any."""

    keys: Array
    ids: Array
    first: int
    last: int
    room: tuple[Array, Array] | None = None
    start: int = 0
    low: int = 0
    shift: int = 0
    router: NDArray[np.int32] = field(default_factory=lambda: _NO_ROUTER)

    def routed(self, slot: int) -> Run:
        """With a router of one entry per ``slot / 2`` to ``slot`` rows."""
        column = self.keys[0]
        low, high = int(column[0]), int(column[-1])
        shift = max(0, (high - low).bit_length() - max(1, column.size // slot).bit_length())
        router = np.empty(((high - low) >> shift) + 2, np.int32)
        build_router(column, low, shift, router)
        place = (self.first, self.last, self.room, self.start)
        return Run(self.keys, self.ids, *place, low, shift, router)

    def __len__(self) -> int:
        return self.ids.size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, unused room included."""
        held = self.room if self.room is not None else (self.keys, self.ids)
        return held[0].nbytes + held[1].nbytes + self.router.nbytes


@dataclass(frozen=True, slots=True)
class Live:
    """The rows of a sorted array that have not expired, and how many lie before each place."""

    ids: Array
    before: Array | None

    @classmethod
    def of(cls, ids: Array, before: int) -> Live:
        """Those with an id of at least ``before``, where some are below. O(n)."""
        live = ids >= before
        return cls(ids[live], np.concatenate([[0], np.cumsum(live)]))

    def places(self, at: Array) -> Array:
        """Places among the live rows, from places among all."""
        return at if self.before is None else self.before[at]


def count_matches(
    starts: Array, stops: Array, ids: Array, before: int, live: Callable[[], Live], counts: Array
) -> int:
    """Add to each box the rows in its range that have not expired; gives how many there are.

    One by one if they are fewer than the rows of the array, else by ``live``.
    """
    if (stops - starts).sum() < ids.size:
        return count_live(starts, stops, ids, before, counts)
    rows = live()
    found = rows.places(stops) - rows.places(starts)
    counts += found
    return int(found.sum())


def sorted_rows(matrix: Array, ids: Array) -> tuple[Array, Array]:
    """Rows in the order of the first column."""
    order = np.argsort(matrix[0])
    keys = np.empty_like(matrix)
    for column, target in zip(matrix, keys, strict=True):
        column.take(order, out=target, mode="clip")
    return keys, np.ascontiguousarray(ids[order], dtype=np.int64)
