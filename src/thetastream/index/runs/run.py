"""A run: rows in the order of their first key, with a router; and its live rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.data.order import argsorted
from thetastream.index.runs.kernels.ranges import count_live
from thetastream.index.runs.kernels.search import build_router
from thetastream.index.runs.kernels.zones import build_zones, zone_counts

_NO_ROUTER = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Zones:
    """The least and the greatest key of every block and superblock, per column but the first.

    Column ``c`` of the keys is row ``c - 1``; the blocks' zones come before the superblocks'.
    """

    least: Array
    most: Array

    @classmethod
    def of(cls, keys: Array, start: int, stop: int) -> Zones:
        """Zones of the rows ``[start, stop)`` of a key matrix. O(n)."""
        shape = keys.shape[0] - 1, sum(zone_counts(keys.shape[1]))
        least, most = np.empty(shape, np.int64), np.empty(shape, np.int64)
        build_zones(keys, start, stop, least, most)
        return cls(least, most)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.least.nbytes + self.most.nbytes


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted rows. ``keys`` and ``ids`` are ``[start, start + n)`` of ``room``, if there is one."""

    keys: Array
    ids: Array
    first: int
    last: int
    room: tuple[Array, Array] | None = None
    start: int = 0
    low: int = 0
    shift: int = 0
    router: NDArray[np.int32] = field(default_factory=lambda: _NO_ROUTER)
    zones: Zones | None = None

    def routed(self, slot: int) -> Run:
        """With a router of one entry per ``slot / 2`` to ``slot`` rows."""
        column = self.keys[0]
        low, high = int(column[0]), int(column[-1])
        shift = max(0, (high - low).bit_length() - max(1, column.size // slot).bit_length())
        router = np.empty(((high - low) >> shift) + 2, np.int32)
        build_router(column, low, shift, router)
        return replace(self, low=low, shift=shift, router=router)

    def zoned(self) -> Run:
        """With zone maps."""
        keys, _, start, stop = self.place
        return replace(self, zones=Zones.of(keys, start, stop))

    @property
    def place(self) -> tuple[Array, Array, int, int]:
        """The arrays the rows lie in, unused room included, and where: ``[start, stop)``."""
        keys, ids = (self.keys, self.ids) if self.room is None else self.room
        return keys, ids, self.start, self.start + len(self)

    def __len__(self) -> int:
        return self.ids.size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, unused room included."""
        zones = 0 if self.zones is None else self.zones.nbytes
        keys, ids, _, _ = self.place
        return keys.nbytes + ids.nbytes + self.router.nbytes + zones


@dataclass(frozen=True, slots=True)
class Live:
    """The live rows of a sorted array, and how many of them lie before each place."""

    ids: Array
    before: Array | None

    @classmethod
    def of(cls, ids: Array, before: int) -> Live:
        """Those with an id of at least ``before``; at least one is below. O(n)."""
        live = ids >= before
        return cls(ids[live], np.concatenate([[0], np.cumsum(live)]))

    def places(self, at: Array) -> Array:
        """Places among the live rows, from places among all."""
        return at if self.before is None else self.before[at]


def count_matches(
    starts: Array, stops: Array, ids: Array, before: int, live: Callable[[], Live], counts: Array
) -> int:
    """Add to each box the number of live rows in its range; returns their total.

    Counts them one by one if they are fewer than the rows of the array, else by ``live``.
    """
    if (stops - starts).sum() < ids.size:
        return count_live(starts, stops, ids, before, counts)
    rows = live()
    matches = rows.places(stops) - rows.places(starts)
    counts += matches
    return int(matches.sum())


def sorted_rows(matrix: Array, ids: Array) -> tuple[Array, Array]:
    """Rows in the order of the first column."""
    keys = np.empty_like(matrix)
    order, keys[0] = argsorted(matrix[0])
    for column, target in zip(matrix[1:], keys[1:], strict=True):
        column.take(order, out=target, mode="clip")
    return keys, np.ascontiguousarray(ids[order], dtype=np.int64)
