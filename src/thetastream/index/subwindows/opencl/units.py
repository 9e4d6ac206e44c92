"""BI-Sort's main array on a device, and the units that write and read it.

    main array  keys    3   5   6 │ 9  14  15 │ 15  21      ascending, in partitions of `width` rows
                ids    41  12  77 │30  19  52 │ 60  18      beside them, in the same order
    index array         3         │ 9         │ 15          the first key of each partition

    mergers       a batch and the main array, both sorted, become a new main array; each merger
                  writes one piece of it, and finds its beginning by co-ranking
    indexer       samples the index array
    partitioners  find the partition of each bound by searching the index array
    probers       find the place of each bound within its partition: ⟨start, end⟩ of each box

A main array never changes, so a reader may keep it. Cost of a merge of ``b``
rows into ``m``: O(m + b), shared by the units; of a bound: O(log) of the partitions and of a
partition's rows, less when bounds ascend, as a search begins where the last one ended.

Paper: PanJoin, Section IV, with the batch mode of III-E. Departures: the paper's prober walks from
row to row; ours doubles its steps, so a long partition, or bounds in no order, cost a logarithm.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from thetastream._jit.arrays import Array
from thetastream.index.subwindows.opencl.device import OpenclDevice

WIDTH = 64  # rows of a partition, when the number of partitions is left to us


class MainArray:
    """Sorted rows on a device, with their index array. Immutable.

    Rows are a matrix: the first line is the keys, ascending; the others lie beside them.
    """

    def __init__(
        self, device: OpenclDevice, rows: Any, shape: tuple[int, int], partitions: int
    ) -> None:
        """Take a buffer of rows over, and have the indexer sample it."""
        self._device = device
        self._rows = rows
        self.lines, self.size = shape
        self.width = -(-self.size // partitions) if partitions else WIDTH
        self.partitions = -(-self.size // self.width)
        self._index = device.room(self.partitions)
        device.start("indexer", self.partitions, rows, self.width, self.partitions, self._index)

    @classmethod
    def of(cls, device: OpenclDevice, rows: Array, partitions: int = 0) -> MainArray:
        """Move sorted rows, at least one, to a device. ``partitions`` 0: of ``WIDTH`` rows each."""
        return cls(device, device.put(rows), (rows.shape[0], rows.shape[1]), partitions)

    def merged(self, rows: Array, partitions: int = 0, units: int = 0) -> MainArray:
        """A new main array with sorted rows added, at least one; of equal keys ours go first."""
        device, fresh = self._device, rows.shape[1]
        size = self.size + fresh
        into = device.room(self.lines * size)
        runs = (self._rows, self.size, device.put(rows), fresh, self.lines)
        device.start("merger", size, *runs, into, units=units)
        return MainArray(device, into, (self.lines, size), partitions)

    def targets(self, lows: Any, highs: Any, boxes: int, units: int = 0) -> Any:
        """A buffer with the partition of each lower, then of each upper bound."""
        targets = self._device.room(2 * boxes)
        index = (self._index, self.partitions, lows, highs, boxes)
        self._device.start("partitioner", 2 * boxes, *index, targets, units=units)
        return targets

    def places(self, lows: Any, highs: Any, boxes: int, units: int = 0) -> Any:
        """A buffer with where the rows of each box begin, then where they end.

        ``lows`` and ``highs`` are buffers of one inclusive bound per box, at least one.
        """
        places = self._device.room(2 * boxes)
        targets = self.targets(lows, highs, boxes, units)
        rows = (self._rows, self.size, self.width, lows, highs, boxes, targets)
        self._device.start("prober", 2 * boxes, *rows, places, units=units)
        return places

    @cached_property
    def rows(self) -> Array:
        """The rows, for the host to read: the paper's mirror in the manager node."""
        return self._device.get(self._rows, self.lines, self.size)

    @cached_property
    def index(self) -> Array:
        """The index array, for the host to read."""
        return self._device.get(self._index, self.partitions)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return 8 * (self.size * self.lines + self.partitions)
