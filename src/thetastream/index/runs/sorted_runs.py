"""The default index: immutable sorted runs in geometric sizes.

Every insert sorts its rows into a new run. Runs are ordered oldest first; while the last but one is
at most ``ratio`` times as long as the last, the two are merged. So sizes fall by more than
``ratio`` from run to run: one long run holds almost the whole window, a few short ones take the
inserts.

    ratio 12  ┌────────────────────────────────────────────┐ ┌───────┐ ┌──┐
              │ 1,048,576 rows, merged every 87,382        │ │ 65,536│ │4k│  ← fresh rows
              └────────────────────────────────────────────┘ └───────┘ └──┘

Each run carries a router (``kernels/search.py``), so a box costs one or two cache misses per run.
With several key columns, runs are sorted by the first; the others are stored in the same order and
tested while the interval of the first is read.

Invariants (``check``):

- keys of a run ascend in the first column; no id occurs twice; every id lies in ``[run.first,
  run.last]``;
- each run is more than ``ratio`` times as long as the next;
- a router entry is the first position of its slot;
- a run whose ids have all expired is gone, and at most half of a run's rows are expired.

Cost for window ``w``, insert of ``b`` rows, ``R = log_ratio(w / b) + 1`` runs: insert O(b log b)
and amortised O(ratio · R) merge steps per row; probe O(R) slot look-ups per box plus its matches.
Bytes: 8 per key column + 8 for the id + 4 to 8 / ``slot`` for the router.

A box is a range of each run, so ``ranges`` returns where its matches lie and how many there are
without reading them. A mapper reads only those rows, and caches columns that are read repeatedly in
the order of the run (``held.py``). Expired rows of a run are left out: a prefix count, made once
for all probes between two changes, turns places among all rows into places among the live ones.

Runs are immutable while an answer can still read them. With no answer open, a long run is merged in
place: it lies in arrays with some spare room and moves to their front or back, whichever is free,
so no fresh memory has to be cleared; that halves the cost of its merge.

Why not one sorted array into which every batch is merged? It costs O(w / b) per row: with small
batches it does nothing but merge. Why not equal subwindows, dropped whole (PanJoin)? A probe
visits all of them. The two-tier idea is that of PIM-Tree Section 3.2 and PanJoin Section III-F.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index, Pair, Ranges, live_rows
from thetastream.index.folding import Fold
from thetastream.index.registry import checked
from thetastream.index.runs.held import HeldValues
from thetastream.index.runs.kernels import merge, ranges, search
from thetastream.index.runs.kernels.merge import merge_runs, merge_to_back
from thetastream.index.runs.kernels.ranges import BLOCK, find_ranges
from thetastream.index.runs.kernels.search import probe_boxes, probe_run
from thetastream.index.runs.run import Live, Run, count_matches, sorted_rows

_STEP = 64  # keys per sample in a search of ranges


class SortedRuns(Index):
    """Immutable sorted runs in geometric sizes. The default.

    >>> index = SortedRuns(capacity=16)
    >>> index.insert(np.array([30, 10, 20]), np.array([0, 1, 2]))
    >>> [(p.tolist(), i.tolist()) for p, i in index.probe(np.array([15]), np.array([40]))]
    [([0, 0], [2, 0])]
    """

    name: ClassVar[str] = "sorted-runs"
    summary: ClassVar[str] = "immutable sorted runs in geometric sizes, with a router each"
    ranged: ClassVar[bool] = True

    def __init__(
        self, capacity: int = 1 << 20, columns: int = 1, ratio: int = 12, slot: int = 8
    ) -> None:
        super().__init__(capacity, columns)
        checked(self.name, ratio=(ratio, 1), slot=(slot, 1))
        prepare(merge, search)
        self.ratio = ratio
        self.slot = slot
        self._runs: tuple[Run, ...] = ()
        self._before = 0
        self._merges = 0
        self._merged_rows = 0
        self._merge_seconds = 0.0
        self._answers: WeakSet[Answer | Ranges] = WeakSet()
        self._live: dict[int, Live] = {}
        self._held = HeldValues()

    def insert(self, keys: Array, ids: Array) -> None:
        """O(b log b) for b rows, plus amortised O(ratio) merge steps per row and run."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        first, last = int(ids.min()), int(ids.max())
        if np.all(matrix[0, :-1] <= matrix[0, 1:]):
            keys, ids = matrix.copy(), np.array(ids, dtype=np.int64)
        else:
            keys, ids = sorted_rows(matrix, ids)
        fresh = Run(keys, ids, first, last)
        self._live = {}
        self._runs = (*self._runs, fresh)
        self._settle()

    def _settle(self) -> None:
        """Merge neighbours that are close in size, the youngest first; drop what has expired."""
        started = time.perf_counter()
        runs = [run for run in self._runs if run.last >= self._before]
        at = len(runs) - 2
        while at >= 0:
            if runs[at].ids.size > self.ratio * runs[at + 1].ids.size:
                at -= 1
                continue
            merged = self._merged(runs[at], runs[at + 1])
            runs[at : at + 2] = [] if merged is None else [merged]
            self._runs = tuple(runs)
            at = min(at, len(runs) - 2)
        self._runs = tuple([run if run.router.size else self._finished(run) for run in runs])
        self._merge_seconds += time.perf_counter() - started

    def _finished(self, run: Run) -> Run:
        """A run with all that a probe needs."""
        return run.routed(self.slot)

    def _merged(self, older: Run, newer: Run) -> Run | None:
        self._merges += 1
        self._merged_rows += older.ids.size + newer.ids.size
        if older.room is not None and older.ids.size >= 4 * newer.ids.size and not self._answers:
            place = self._merged_in_place(older.room, older, newer)
            if place is not None:
                return self._run_in(older.room, *place, older, newer)
        total = older.ids.size + newer.ids.size
        # Room to merge in place later: plenty for short runs, which still grow; little for long
        # ones, which hold it for a long time.
        size = max(total + total // 16, min(2 * total, self.capacity // 6))
        room = np.empty((self.columns, size), np.int64), np.empty(size, np.int64)
        length = merge_runs(*older.place, *newer.place, self._before, *room)
        return self._run_in(room, 0, length, older, newer)

    def _merged_in_place(self, room: Pair, older: Run, newer: Run) -> tuple[int, int] | None:
        """Merge inside the room of the older run, to the side that has space; None without any.

        Only when no answer is open: an answer reads runs as they were.
        """
        size, stop = room[1].size, older.start + older.ids.size
        if older.start >= newer.ids.size:
            return 0, merge_runs(*older.place, *newer.place, self._before, *room)
        if size - stop >= newer.ids.size:
            start = merge_to_back(*older.place, *newer.place, self._before)
            return start, size - start
        return None

    def _run_in(self, room: Pair, start: int, length: int, older: Run, newer: Run) -> Run | None:
        if not length:
            return None
        if 5 * length < 4 * room[1].size and room[1].size > self.capacity // 6:
            # Many rows had expired: a long run keeps only a little spare room.
            room = room[0][:, start : start + length].copy(), room[1][start : start + length].copy()
            start = 0
        keys, ids = room[0][:, start : start + length], room[1][start : start + length]
        first = max(self._before, min(older.first, newer.first))
        last = max(older.last, newer.last)
        return Run(keys, ids, first, last, room, start)

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """O(runs) look-ups per box, plus its matches, as they are read."""
        boxes = self._matrix(lows), self._matrix(highs)
        answer = Answer(partial(self._pairs, self._runs, *boxes, self._before, limit))
        self._answers.add(answer)
        return answer

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """O(runs · log n) per box, and O(n) once after rows have expired."""
        if self.columns > 1:
            return super().ranges(lows, highs)
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        starts, stops = self._places(low, high)
        live = [self._live_rows(at) for at in range(len(self._runs))]
        for at, rows in enumerate(live):
            starts[at], stops[at] = rows.places(starts[at]), rows.places(stops[at])
        answer = Ranges.of(starts, stops, [rows.ids for rows in live])
        self._answers.add(answer)
        return answer

    def counts(self, lows: Array, highs: Array) -> Array:
        """O(runs) searches per box; where rows have expired O(matches), or O(n) if that is less."""
        if self.columns > 1:
            return super().counts(lows, highs)
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        starts, stops = self._places(low, high)
        counts = np.zeros(low.size, np.int64)
        for at, run in enumerate(self._runs):
            if run.first >= self._before:
                counts += stops[at] - starts[at]
            else:
                live = partial(self._live_rows, at)
                count_matches(starts[at], stops[at], run.ids, self._before, live, counts)
        return counts

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """Two searches per box and run, then a pass over its rows."""
        if self.columns > 1:
            super().fold_boxes(lows, highs, fold)
        elif fold.counting:
            fold.counts += self.counts(lows, highs)
        else:
            places = self._places(self._matrix(lows)[0], self._matrix(highs)[0])
            self._held.fold(self._runs, *places, self._before, fold)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[Pair]:
        """Rows of a key range in key order: the ranges of all runs, sorted together."""
        if self.columns > 1:
            return super().scan(low, high, buffer=buffer)
        return self._in_order(np.array([low], np.int64), np.array([high], np.int64), buffer)

    def _in_order(self, low: Array, high: Array, buffer: int) -> Iterator[Pair]:
        starts, stops = self._places(low, high)
        if not self._runs:
            return
        slices = list(zip(self._runs, starts[:, 0].tolist(), stops[:, 0].tolist(), strict=True))
        keys = np.concatenate([run.keys[0, start:stop] for run, start, stop in slices])
        ids = np.concatenate([run.ids[start:stop] for run, start, stop in slices])
        order = np.lexsort([ids, keys])
        order = order[ids[order] >= self._before]
        for start in range(0, order.size, buffer):
            at = order[start : start + buffer]
            yield keys[at], ids[at]

    def _places(self, low: Array, high: Array) -> Pair:
        """Where each box begins and ends in each run."""
        prepare(ranges)
        starts, stops = (np.empty((len(self._runs), low.size), np.int64) for _ in range(2))
        scratch = np.empty(2 * BLOCK, np.int64)
        for at, run in enumerate(self._runs):
            keys = run.keys[0]
            if low.size * _STEP < keys.size:  # few boxes: search for each separately
                starts[at] = np.searchsorted(keys, low)
                stops[at] = np.maximum(np.searchsorted(keys, high, side="right"), starts[at])
                continue
            edges = (low, high, starts[at], stops[at], scratch)
            find_ranges(keys, keys.size, keys[::_STEP].copy(), _STEP, *edges)
        return starts, stops

    def _live_rows(self, at: int) -> Live:
        """The live rows of a run, computed once between two changes."""
        if at not in self._live:
            run, before = self._runs[at], self._before
            all_live = run.first >= before
            self._live[at] = Live(run.ids, None) if all_live else Live.of(run.ids, before)
        return self._live[at]

    def _pairs(
        self, runs: tuple[Run, ...], lows: Array, highs: Array, before: int, limit: int
    ) -> Iterator[Pair]:
        """Chunks start small, for a few matches per box, and double as long as they are full."""
        boxes = lows.shape[1]
        room = min(limit, max(256, 4 * boxes))
        positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        filled = 0
        for run in runs:
            cursor = self._cursor()
            while cursor[0] < boxes:
                chunk = positions, rows
                filled = self._read(run, (lows, highs), before, cursor, filled, chunk)
                if filled == room:
                    yield positions, rows
                    room = min(limit, 2 * room)
                    positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
                    filled = 0
        if filled:
            yield positions[:filled], rows[:filled]

    def _cursor(self) -> Array:
        """Where to start reading a run: at box 0, which is not begun."""
        return np.array([0, -1])

    def _read(
        self, run: Run, boxes: Pair, before: int, cursor: Array, filled: int, chunk: Pair
    ) -> int:
        """Append the pairs of one run from the cursor on; returns the new fill."""
        router = (run.low, run.shift, run.router)
        if self.columns == 1:
            keys, (lows, highs) = run.keys[0], boxes
            edges = lows[0], highs[0]
            return int(probe_run(keys, run.ids, *router, *edges, before, cursor, filled, *chunk))
        return int(probe_boxes(*run.place, *router, *boxes, before, cursor, filled, *chunk))

    def expire(self, before: int) -> None:
        """O(runs); a run that has expired by half is rewritten without the expired rows."""
        if before <= self._before:
            return
        self._before = before
        self._live = {}
        trimmed = [self._trimmed(run) for run in self._runs]
        if any(kept is not run for kept, run in zip(trimmed, self._runs, strict=True)):
            self._runs = tuple(run for run in trimmed if run is not None)
            self._settle()

    def _trimmed(self, run: Run) -> Run | None:
        if run.last < self._before:
            return None
        span = run.last - run.first + 1
        if run.first >= self._before or (self._before - run.first) * 2 <= span:
            return run
        live = run.ids >= self._before
        keys = np.ascontiguousarray(run.keys[:, live])
        return Run(keys, run.ids[live], self._before, run.last) if keys.size else None

    def __len__(self) -> int:
        """Counted on demand, O(n)."""
        return sum(int(np.count_nonzero(run.ids >= self._before)) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs) + self._held.nbytes

    @property
    def statistics(self) -> dict[str, float]:
        return {
            "runs": len(self._runs),
            "merges": self._merges,
            "merged_rows": self._merged_rows,
            "merge_seconds": self._merge_seconds,
        }

    def dump(self) -> Pair:
        return live_rows([(run.keys, run.ids) for run in self._runs], self.columns, self._before)

    def check(self) -> None:
        for run in self._runs:
            column = run.keys[0]
            assert run.keys.shape == (self.columns, run.ids.size) and len(run) > 0
            if run.room is not None:
                assert np.shares_memory(run.ids, run.room[1][run.start : run.start + len(run)])
            assert np.all(column[:-1] <= column[1:]), "keys must ascend"
            assert run.first <= run.ids.min() and run.ids.max() <= run.last >= self._before
            slots = (column.astype(np.uint64) - np.uint64(run.low % 2**64)) >> np.uint64(run.shift)
            expected = np.searchsorted(slots, np.arange(run.router.size, dtype=np.uint64))
            assert np.array_equal(run.router, expected), "a router entry is the start of its slot"
        sizes = [len(run) for run in self._runs]
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        assert ids.size == len(self)
        assert all(a > self.ratio * b for a, b in pairwise(sizes)), sizes
