"""BI-Sort on an accelerator: sorted subwindows that live on an OpenCL device.

The window is a chain of subwindows. Inserts go to the newest; the oldest is dropped whole, and its
rows that have expired before that are left out of answers. A subwindow is PanJoin's BI-Sort:

    host                                device
    insertion buffer  7  20  31   ──→   main array   3   5   6 │ 9  14  15 │ 15  21
    sorted, at most `buffer` rows       index array  3         │ 9         │ 15

A batch that is larger than the buffer, or that fills it, is merged into the main array by the
device's mergers, and the indexer samples the index array anew. To probe, the bounds of all boxes go
to the device once; partitioners and probers find the records ⟨start, end⟩ of each subwindow; the
host searches the buffers. Records become pairs on the host, as they are read.

With several key columns rows are sorted by the first, and the others are tested on the host.

Invariants (``check``):

- all subwindows but the newest are full; ids of a subwindow are above those of older ones; one
  whose rows have all expired is gone;
- keys of a main array and of a buffer ascend; a buffer has fewer than ``buffer`` rows;
- entry ``i`` of an index array is the first key of partition ``i``.

Cost for subwindows of ``n`` rows: insert of ``b`` rows O(b log b) on the host if they are not
sorted, and O(n + b) steps on the device per merge; probe O(subwindows · log n) per box on the
device, less when boxes ascend, plus O(1) per match when read. Starting a kernel costs tens of
microseconds, so batches must be large. Bytes: 8 per key column + 8 for the id + 8 per partition, on
the device; a device with memory of its own has a mirror of them on the host.

Why not on the host? ``bi-sort`` is the same there; a device pays when it has more memory bandwidth
than the processor, or when the processor is wanted for other work.

Paper: PanJoin, Sections III-D, III-E and IV. Departures are named in ``opencl/units.py``; here:
the buffer is kept sorted, so it is searched and not scanned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from thetastream.errors import RegistryError
from thetastream.index.base import CHUNK, Answer, Array, Index, Ranges, register
from thetastream.index.run import Live, Run, sorted_rows
from thetastream.index.subwindow import SUBWINDOWS
from thetastream.opencl import MainArray, find

__all__ = ["BiSortOpenCL"]


@dataclass(frozen=True, slots=True)
class _Subwindow:
    """Rows with ids in ``[first, last]``. Never changed, so an answer may keep it."""

    main: MainArray | None
    buffer: Array  # key columns and ids, as a main array's rows
    first: int
    last: int

    def __len__(self) -> int:
        return (self.main.size if self.main else 0) + int(self.buffer.shape[1])

    def runs(self) -> list[Run]:
        """The main array and the buffer, as the host sees them, unless empty."""
        held = [self.main.rows] if self.main else []
        held += [self.buffer] if self.buffer.size else []
        return [Run(rows[:-1], rows[-1], self.first, self.last) for rows in held]


@register
class BiSortOpenCL(Index):
    """Sorted subwindows on an OpenCL device.

    >>> index = BiSortOpenCL(capacity=16, buffer=2)
    >>> index.insert(np.array([30, 10, 20]), np.array([0, 1, 2]))
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(np.array([15]), np.array([40]))]
    [([0, 0], [0, 2])]
    """

    name: ClassVar[str] = "bi-sort-opencl"
    summary: ClassVar[str] = "PanJoin's BI-Sort: sorted subwindows on an OpenCL device"
    ranged: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        subwindows: int = SUBWINDOWS,
        partitions: int = 0,
        buffer: int = 1024,
        device: str = "",
    ) -> None:
        super().__init__(capacity, columns)
        if subwindows < 1 or partitions < 0 or buffer < 1:
            raise RegistryError(
                "subwindows and buffer must be at least 1, partitions at least 0; got "
                f"{subwindows}, {buffer} and {partitions}"
            )
        self.subwindows = subwindows
        self.partitions = partitions
        self.buffer = buffer
        self.device = device
        self._device = find(device)
        self._full = -(-capacity // subwindows)  # rows of a full subwindow
        self._chain: tuple[_Subwindow, ...] = ()
        self._before = 0
        self._live: list[Live] | None = None  # of the runs, once counted
        self._merges = 0
        self._merged_rows = 0
        self._merge_seconds = 0.0

    def insert(self, keys: Array, ids: Array) -> None:
        """O(b log b) for b rows, O(b) if they are sorted; per merge O(rows of a subwindow)."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        if np.any(matrix[0, :-1] > matrix[0, 1:]):
            matrix, ids = sorted_rows(matrix, ids)
        rows = np.vstack([matrix, ids])
        first, *others = self._parts(rows)
        if first.size:
            self._chain = (*self._chain[:-1], self._added(self._chain[-1], first))
        self._chain += tuple(self._added(None, part) for part in others)
        self._drop()

    def _parts(self, rows: Array) -> list[Array]:
        """Rows for the newest subwindow, then for each one to open: in the order of their ids."""
        room = self._full - len(self._chain[-1]) if self._chain else 0
        ids = rows[-1]
        if ids.size <= room:
            return [rows]
        opened = np.sort(ids)[room :: self._full]  # the first id of each
        homes = np.searchsorted(opened, ids, side="right")
        order = np.argsort(homes, kind="stable")
        ends = np.cumsum(np.bincount(homes, minlength=opened.size + 1))
        return np.split(rows[:, order], ends[:-1], axis=1)

    def _added(self, old: _Subwindow | None, rows: Array) -> _Subwindow:
        """A subwindow with sorted rows more: in its buffer, or in its main array if too many."""
        main, first, last = None, int(rows[-1].min()), int(rows[-1].max())
        if old is not None:
            main, first, last = old.main, min(old.first, first), max(old.last, last)
            if old.buffer.size:
                rows = np.concatenate([old.buffer, rows], axis=1)
                rows = rows[:, np.argsort(rows[0], kind="stable")]
        if rows.shape[1] >= self.buffer:
            main, rows = self._merged(main, rows), rows[:, :0]
        return _Subwindow(main, rows, first, last)

    def _merged(self, main: MainArray | None, rows: Array) -> MainArray:
        started = time.perf_counter()
        if main is None:
            main = MainArray.of(self._device, rows, self.partitions)
        else:
            main = main.merged(rows, self.partitions)
            self._merges += 1
            self._merged_rows += main.size
        self._device.wait()
        self._merge_seconds += time.perf_counter() - started
        return main

    def _drop(self) -> None:
        """Forget subwindows that have expired whole; count live rows anew when next asked."""
        self._chain = tuple(held for held in self._chain if held.last >= self._before)
        self._live = None

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """O(subwindows · log n) per box now, on the device; its matches as they are read."""
        if self.columns == 1:
            return Answer(partial(self.ranges(lows, highs).pairs, limit))
        low, high = self._matrix(lows), self._matrix(highs)
        places = self._places(low[0], high[0])
        runs = [run for held in self._chain for run in held.runs()]
        return Answer(partial(_pairs, runs, places, low, high, self._before, limit))

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """O(subwindows · log n) per box, and O(n) once after rows of the oldest have expired."""
        if self.columns > 1:
            return super().ranges(lows, highs)
        places = self._places(self._matrix(lows)[0], self._matrix(highs)[0])
        live = self._live
        if live is None:
            runs = [run for held in self._chain for run in held.runs()]
            live = self._live = [Live.of(run, self._before) for run in runs]
        for rows, found in zip(live, places, strict=True):
            found[:] = rows.places(found)
        return _records(places, tuple(rows.ids for rows in live))

    def _places(self, lows: Array, highs: Array) -> Array:
        """Per run where the rows of each box start, and where they stop; expired ones included."""
        boxes = lows.size
        if not boxes or not self._chain:
            return np.empty((sum(len(held.runs()) for held in self._chain), 2, boxes), np.int64)
        sent = self._device.put(lows), self._device.put(highs)
        asked = [held.main and held.main.places(*sent, boxes) for held in self._chain]
        found = []
        for held, places in zip(self._chain, asked, strict=True):
            if places is not None:
                found.append(self._device.get(places, 2, boxes))
            if held.buffer.size:
                keys = held.buffer[0]
                edges = np.searchsorted(keys, lows), np.searchsorted(keys, highs, "right")
                found.append(np.stack(edges))
        return np.stack(found)

    def expire(self, before: int) -> None:
        """O(subwindows)."""
        if before > self._before:
            self._before = before
            self._drop()

    def __len__(self) -> int:
        """O(subwindows), and O(n) for one that has expired in part."""
        return sum(
            len(held)
            if held.first >= self._before
            else sum(int(np.count_nonzero(run.ids >= self._before)) for run in held.runs())
            for held in self._chain
        )

    @property
    def nbytes(self) -> int:
        """Those on the device, and the buffers."""
        return sum(
            held.buffer.nbytes + (held.main.nbytes if held.main else 0) for held in self._chain
        )

    @property
    def parameters(self) -> dict[str, Any]:
        own = ("subwindows", "partitions", "buffer", "device")
        return {**super().parameters, **{word: getattr(self, word) for word in own}}

    @property
    def statistics(self) -> dict[str, float]:
        return {
            "runs": len(self._chain),
            "merges": self._merges,
            "merged_rows": self._merged_rows,
            "merge_seconds": self._merge_seconds,
        }

    @property
    def details(self) -> dict[str, Any]:
        chain = [{"structure": self.name, "rows": len(held)} for held in self._chain]
        return {"subwindows": chain, "device": self._device.name}

    def dump(self) -> tuple[Array, Array]:
        runs = [run for held in self._chain for run in held.runs()]
        none = np.empty((self.columns, 0), np.int64)
        keys = np.concatenate([none, *(run.keys for run in runs)], axis=1)
        ids = np.concatenate([none[0], *(run.ids for run in runs)])
        order = np.argsort(ids)
        order = order[ids[order] >= self._before]
        return np.ascontiguousarray(keys[:, order]), ids[order]

    def check(self) -> None:
        for held in self._chain:
            assert 0 < len(held) <= self._full and held.last >= self._before
            assert held.buffer.shape[1] < self.buffer, "a buffer must be merged when it is full"
            for run in held.runs():
                column = run.keys[0]
                assert run.keys.shape == (self.columns, len(run))
                assert np.all(column[:-1] <= column[1:]), "keys must ascend"
                inside = held.first <= run.ids.min() and run.ids.max() <= held.last
                assert inside, "ids must lie between the subwindow's first and last"
            if held.main:
                sampled = held.main.rows[0, :: held.main.width]
                assert np.array_equal(held.main.index, sampled), "index must sample the main array"
        for older, newer in pairwise(self._chain):
            assert len(older) == self._full, "only the newest subwindow may have room"
            assert older.last < newer.first, "ids of subwindows must ascend"
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        assert ids.size == len(self)


def _records(places: Array, ids: tuple[Array, ...]) -> Ranges:
    """Records of the boxes that have rows, from ``places[run, start or stop, box]``."""
    boxes, runs = np.nonzero(places[:, 0].T < places[:, 1].T)
    return Ranges(boxes, runs, places[runs, 0, boxes], places[runs, 1, boxes], ids)


def _pairs(
    runs: list[Run], places: Array, lows: Array, highs: Array, before: int, limit: int
) -> Iterator[tuple[Array, Array]]:
    """Pairs whose further keys lie in the box too, and that have not expired."""
    for run, found in zip(runs, places, strict=True):
        for boxes, rows in _records(found[None], (np.arange(len(run)),)).pairs(CHUNK):
            keys = run.keys[1:, rows]
            inside = (lows[1:, boxes] <= keys) & (keys <= highs[1:, boxes])
            kept = np.all(inside, axis=0) & (run.ids[rows] >= before)
            positions, ids = boxes[kept], run.ids[rows[kept]]
            for at in range(0, ids.size, limit):
                yield positions[at : at + limit], ids[at : at + limit]
