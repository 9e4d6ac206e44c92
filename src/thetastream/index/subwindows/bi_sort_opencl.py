"""BI-Sort on an accelerator: sorted subwindows whose main arrays live on an OpenCL device.

    host                                device
    insertion buffer  7  20  31   ──→   main array   3   5   6 │ 9  14  15 │ 15  21
    sorted, at most `buffer` rows       index array  3         │ 9         │ 15

A chain like that of ``bi-sort``. The device's mergers merge a batch that outgrows the buffer into
the main array, and the indexer samples the index array again. A probe sends the bounds of all boxes
to the device; partitioners and probers find the records ⟨start, end⟩ of a subwindow; the host
searches the buffer. Records become pairs on the host, as they are read.

Invariants (``check``): those of ``bi-sort``.

Cost for subwindows of ``n`` rows: insert of ``b`` rows O(b log b) on the host if they are not
sorted, and O(n + b) steps on the device per merge; probe O(log n) per box and subwindow on the
device, less when boxes ascend, plus O(1) per match when read. Starting a kernel costs tens of
microseconds, so batches must be large. Bytes: 16 per row and 8 per partition, on the device; a
device with its own memory has a mirror of them on the host.

Why not on the host? ``bi-sort`` is the same there; a device pays off when it has more memory
bandwidth than the processor, or when the processor is busy with other work.

Paper: PanJoin, Sections III-D, III-E and IV. Departures are named in ``opencl/units.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.subwindows.bi_sort import BUFFER, BiSort
from thetastream.index.subwindows.bi_sorted import BiSorted, SortedView
from thetastream.index.subwindows.opencl import MainArray, OpenclDevice, find
from thetastream.index.subwindows.subwindow import SUBWINDOWS, Subwindow


class OnDevice(BiSorted):
    """A sorted subwindow whose main array is on a device; the host sees it, or has a mirror."""

    kind: ClassVar[str] = "bi-sort-opencl"

    def __init__(self, size: int, parts: int, buffer: int, device: OpenclDevice) -> None:
        super().__init__(size, max(1, parts), buffer, None)
        self._parts = parts
        self._device = device
        self._main: MainArray | None = None

    def _merge_into_main(self, keys: Array, ids: Array) -> None:
        """By the mergers, into a new array: views keep the old one."""
        rows = np.stack([keys, ids])
        if self._main is None:
            self._main = MainArray.of(self._device, rows, self._parts)
        else:
            self._main = self._main.merged(rows, self._parts)
        self._device.wait()
        self._keys, self._ids = self._main.rows
        self._samples, self.step = self._main.index, self._main.width

    def _main_view(self, before: int, after: int) -> SortedView:
        assert self._main is not None
        return _DeviceView(before, after, self._main, self._device)

    @property
    def nbytes(self) -> int:
        """Those on the device, and the buffer."""
        main = 0 if self._main is None else self._main.nbytes
        return main + sum(array.nbytes for array in self._waiting)


class _DeviceView(SortedView):
    """A main array; it never changes."""

    __slots__ = ("_device", "_main")

    def __init__(self, before: int, after: int, main: MainArray, device: OpenclDevice) -> None:
        keys, ids = main.rows
        super().__init__(before, after, keys, ids, main.size, main.index, main.width)
        self._main = main
        self._device = device

    def records(self, lows: Array, highs: Array) -> tuple[Array, Array, Array]:
        """By partitioners and probers."""
        if not lows.size:
            return super().records(lows, highs)
        bounds = self._device.put(lows), self._device.put(highs)
        starts, stops = self._device.get(self._main.places(*bounds, lows.size), 2, lows.size)
        return np.array(starts), np.maximum(starts, stops), self._ids  # empty boxes stop at once


class BiSortOpenCL(BiSort):
    """Sorted subwindows on an OpenCL device.

    >>> index = BiSortOpenCL(capacity=16, buffer=2)
    >>> index.insert(np.array([30, 10, 20]), np.array([0, 1, 2]))
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(np.array([15]), np.array([40]))]
    [([0, 0], [2, 0])]
    """

    name: ClassVar[str] = "bi-sort-opencl"
    summary: ClassVar[str] = "PanJoin's BI-Sort: sorted subwindows on an OpenCL device"

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        subwindows: int = SUBWINDOWS,
        partitions: int = 0,
        buffer: int = BUFFER,
        device: str = "",
    ) -> None:
        super().__init__(capacity, columns, subwindows, partitions, buffer=buffer)
        self.device = device
        self._device = find(device)

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        return OnDevice(size, self.partitions, self.buffer, self._device)

    @property
    def details(self) -> dict[str, Any]:
        return {**super().details, "device": self._device.name}
