"""A subwindow kept sorted: insertion buffer, main array, index array.

The BI-Sort index consists of these; one also takes the late rows of a closed subwindow. The loops
are in ``kernels/bisort``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar
from weakref import WeakSet

import numpy as np

from thetastream._jit.arrays import MOST, Array
from thetastream.index.base import Pair, chunks
from thetastream.index.runs.kernels.ranges import BLOCK, find_ranges
from thetastream.index.runs.run import Live, count_matches
from thetastream.index.subwindows.kernels import bisort
from thetastream.index.subwindows.subwindow import Subwindow, SubwindowView

_NOTHING = np.empty(0, np.int64)
_ALL = -1  # below all ids: no row has expired
_ALONE = 1 << 15  # rows below which a merge is not worth several threads


class BiSorted(Subwindow):
    """Rows sorted by key. A batch of at most ``buffer`` rows waits in a small sorted array.

    A batch is merged in place, from the back, or into a copy if a view still reads the array. With
    a pool of ``threads``, pieces of equal size are merged in parallel, into a second array.
    """

    kind: ClassVar[str] = "bi-sort"

    def __init__(
        self, size: int, parts: int, buffer: int, pool: ThreadPoolExecutor | None, threads: int = 1
    ) -> None:
        super().__init__(size)
        self.step = max(1, -(-size // parts))
        self.buffer = buffer
        self._pool = pool
        self._threads = threads
        self._keys = self._ids = _NOTHING
        self._spare: Pair | None = None
        self._count = 0
        self._least = MOST  # the least id
        self._samples = _NOTHING
        self._waiting = (_NOTHING, _NOTHING)
        self._views: WeakSet[SortedView] = WeakSet()
        self._merges = 0
        self._merged_rows = 0
        self._merge_seconds = 0.0

    def insert(self, keys: Array, ids: Array) -> None:
        """O(buffer) for a small batch; O(main array) when it is merged, shared by its rows."""
        self.rows += ids.size
        self._least = min(self._least, int(ids.min()))
        waiting = self._waiting[1]
        if waiting.size:
            keys, ids = _merged(*self._waiting, keys, ids)
        if ids.size <= self.buffer:
            if not waiting.size:
                keys, ids = keys.copy(), ids.copy()
            self._waiting = keys, ids
        else:
            self._waiting = (_NOTHING, _NOTHING)
            self._merge(keys, ids)

    def close(self) -> None:
        """Merge the buffer into the main array."""
        keys, ids = self._waiting
        if ids.size:
            self._waiting = (_NOTHING, _NOTHING)
            self._merge(keys, ids)
        self._spare = None

    def _merge(self, keys: Array, ids: Array) -> None:
        started = time.perf_counter()
        self._merge_into_main(keys, ids)
        self._count += ids.size
        self._merges += 1
        self._merged_rows += self._count
        self._merge_seconds += time.perf_counter() - started

    def _merge_into_main(self, keys: Array, ids: Array) -> None:
        """Merge rows into the main array and sample the index array again."""
        total = self._count + ids.size
        if self._pool is not None and total >= _ALONE:
            self._merge_in_pieces(keys, ids, total)
        else:
            if total > self._ids.size or self._views:
                room = self.size if total <= self.size else total + total // 2
                self._keys, self._ids = (_moved(a, self._count, room) for a in self._arrays)
            bisort.merge_in_place(self._keys, self._ids, self._count, keys, ids)
        self._samples = self._keys[: total : self.step].copy()

    def _merge_in_pieces(self, keys: Array, ids: Array, total: int) -> None:
        """As many pieces as threads, of equal size (Section III-G3)."""
        assert self._pool is not None
        spare = self._spare
        if spare is None or spare[1].size < total:
            room = max(total, self.size)
            spare = np.empty(room, np.int64), np.empty(room, np.int64)
        edges = np.linspace(0, total, self._threads + 1).astype(np.int64)
        jobs = [
            self._pool.submit(
                bisort.merge_piece, self._keys, self._ids, self._count, keys, ids, *spare, a, b
            )
            for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]
        for job in jobs:
            job.result()
        self._spare = None if self._views else self._arrays
        self._keys, self._ids = spare

    @property
    def _arrays(self) -> Pair:
        return self._keys, self._ids

    def views(self, before: int, after: int) -> list[SortedView]:
        """Of the main array and of the buffer, where they have rows."""
        views = []
        before = before if before > self._least else _ALL
        if self._count:
            views.append(self._main_view(before, after))
            self._views.add(views[0])
        keys, ids = self._waiting
        if ids.size:
            views.append(SortedView(before, after, keys, ids, ids.size, keys, 1))
        return views

    def _main_view(self, before: int, after: int) -> SortedView:
        main = (self._keys, self._ids, self._count, self._samples, self.step)
        return SortedView(before, after, *main)

    def splitters(self, parts: int) -> Array:
        """Taken from the main array."""
        keys = self._keys[: self._count] if self._count else self._waiting[0]
        if not keys.size:
            return np.zeros(parts - 1, np.int64)
        return keys[np.arange(1, parts) * keys.size // parts]

    @property
    def nbytes(self) -> int:
        arrays = [self._keys, self._ids, self._samples, *self._waiting, *(self._spare or ())]
        return sum(array.nbytes for array in arrays)

    def dump(self) -> Pair:
        keys, ids = self._waiting
        return (
            np.concatenate([self._keys[: self._count], keys]),
            np.concatenate([self._ids[: self._count], ids]),
        )

    def check(self) -> None:
        keys = self._keys[: self._count]
        assert np.all(keys[:-1] <= keys[1:]), "the main array must ascend"
        assert np.array_equal(self._samples, keys[:: self.step]), "the index array samples it"
        waiting = self._waiting[0]
        assert waiting.size <= self.buffer and np.all(waiting[:-1] <= waiting[1:])
        assert self._count + waiting.size == self.rows

    @property
    def work(self) -> dict[str, float]:
        return {
            "merges": self._merges,
            "merged_rows": self._merged_rows,
            "merge_seconds": self._merge_seconds,
        }


class SortedView(SubwindowView):
    """A sorted array as it was: it is not changed in place while a view is alive."""

    __slots__ = ("_count", "_ids", "_keys", "_samples", "_step")

    def __init__(
        self, before: int, after: int, keys: Array, ids: Array, count: int, samples: Array,
        step: int,
    ) -> None:  # fmt: skip
        super().__init__(before, after)
        self._keys, self._ids, self._count = keys, ids, count
        self._samples, self._step = samples, step

    def records(self, lows: Array, highs: Array) -> tuple[Array, Array, Array]:
        """Records: ``(starts, stops, ids)``."""
        starts, stops = np.empty(lows.size, np.int64), np.empty(lows.size, np.int64)
        find_ranges(
            self._keys, self._count, self._samples, self._step, lows, highs, starts, stops,
            np.empty(2 * BLOCK, np.int64),
        )  # fmt: skip
        return starts, stops, self._ids[: self._count]

    def live(self, lows: Array, highs: Array) -> tuple[Array, Array, Array]:
        """Records of live rows only: where some have expired, ids without these. O(rows) then."""
        starts, stops, ids = self.records(lows, highs)
        if self.before == _ALL:
            return starts, stops, ids
        rows = Live.of(ids, self.before)
        return rows.places(starts), rows.places(stops), rows.ids

    def count(self, lows: Array, highs: Array, counts: Array) -> int:
        """Add to each box the number of live rows inside it; returns their total."""
        starts, stops, ids = self.records(lows, highs)
        if self.before == _ALL:
            matches = stops - starts
            counts += matches
            return int(matches.sum())
        live = partial(Live.of, ids, self.before)
        return count_matches(starts, stops, ids, self.before, live, counts)

    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[Pair]:
        step = partial(bisort.expand, *self.records(lows, highs), self.before, self.after)
        yield from chunks(lows.size, limit, np.array([0, -1]), step)


def _merged(old_keys: Array, old_ids: Array, new_keys: Array, new_ids: Array) -> Pair:
    total = old_ids.size + new_ids.size
    keys, ids = np.empty(total, np.int64), np.empty(total, np.int64)
    bisort.merge_piece(old_keys, old_ids, old_ids.size, new_keys, new_ids, keys, ids, 0, total)
    return keys, ids


def _moved(array: Array, count: int, room: int) -> Array:
    moved = np.empty(room, np.int64)
    moved[:count] = array[:count]
    return moved
