"""Pairs of matching rows, first matches of a semi join, and rows without a match.

Pairs are computed while they are read. If matches must be known at once (outer, semi and anti
joins, several threads), up to ``EAGER_PAIRS`` of a probe are kept; a larger answer is computed
again, so that it never needs much memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.boxes.fresh import Fresh
from thetastream.data.rows import RowsView, gathered
from thetastream.engine.emit import base
from thetastream.engine.emit.base import Emitter, Task, fresh_numbers
from thetastream.engine.parts.batches import Flow, GatheredPart, OutputPart, rechunked
from thetastream.engine.probe import Matches, Probe, collect
from thetastream.side import How, Side


class Pairs(Emitter):
    """Rows of the output, or pairs of arrival numbers."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._shape = task.shape
        self._numbered = task.query.output.numbered
        self._ways = 2 if task.mirrored else 1
        self._inner, self._semi = task.query.how is How.INNER, task.query.how is How.SEMI
        self._paired = task.query.how.pairs

    def answer(self, rows: Fresh, probe: Probe | None) -> list[OutputPart]:
        if probe is None:
            return []
        task = self._task
        marker = None if self._inner else _Marker(task, probe)
        see = marker.see if marker is not None and marker.needed else None
        matches = collect(probe, task.pool, see, base.EAGER_PAIRS)
        if marker is not None and self._semi:
            return self.final(Side.LEFT, marker.newly())
        if not self._paired:
            return []
        return self._pairs(self._led(matches, probe), probe)

    def _led(self, matches: Matches, probe: Probe) -> Matches:
        """Keep only pairs whose leading row is at home here; its home returns the others."""
        lead, mine = self._task.traits.led, probe.rows.places.copies
        if lead is None or (probe.side is lead and mine is None):
            return matches
        copies = self._task.streams[lead].copies
        assert copies is not None
        fresh_leads = probe.side is lead
        is_copy, first = (mine, 0) if fresh_leads else (copies.values, copies.first)
        assert is_copy is not None

        def led(pairs: Iterable[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
            for fresh_rows, ids in pairs:
                keep = ~is_copy[(fresh_rows if fresh_leads else ids) - first]
                self._counters.matches -= int(np.count_nonzero(~keep))
                if keep.any():
                    yield fresh_rows[keep], ids[keep]

        rest = matches.rest
        later = None if rest is None else lambda: led(rest())
        return Matches(list(led(matches.chunks)), later)

    def _pairs(self, matches: Matches, probe: Probe) -> list[OutputPart]:
        if not matches.chunks and matches.rest is None:
            return []
        views = self._views(probe)
        side, role, ways = probe.side, probe.role, self._ways

        def gather(pair: tuple[Array, Array], exchanged: bool) -> pa.RecordBatch:
            """Gather the rows of pairs; if exchanged, each row in the other role."""
            started = perf_counter()
            fresh_rows, ids = pair
            taken = {role: (views[side], fresh_rows), side: (views[role], ids)}
            if not exchanged:
                taken = {side: taken[role], role: taken[side]}
            batch = gathered(self._shape.schema, self._shape.origin, taken, ids.size)
            self._counters.seconds["gather"] += perf_counter() - started
            return batch

        if matches.rest is None:
            pairs = list(rechunked(matches.chunks, self._size))
            return [
                GatheredPart(lambda i: gather(pairs[i // ways], i % ways == 1), ways * len(pairs))
            ]

        def flow() -> Iterator[pa.RecordBatch]:
            for pair in rechunked(matches, self._size):
                for way in range(ways):
                    yield gather(pair, way == 1)

        return [Flow(flow)]

    def _views(self, probe: Probe) -> dict[Side, RowsView]:
        if not self._numbered:
            return probe.views
        return {probe.side: fresh_numbers(probe), probe.role: probe.stream.number_view()}

    def final(self, role: Side, ids: Array) -> list[OutputPart]:
        """Return stored rows alone, with NULLs for the other side's columns."""
        if not ids.size:
            return []
        stream, size = self._task.streams[role], self._size
        view: RowsView = stream.number_view() if self._numbered else stream.rows.view()

        def gather(i: int) -> pa.RecordBatch:
            piece = ids[i * size : (i + 1) * size]
            with self._counters.timed("gather"):
                taken = {role: (view, piece)}
                return gathered(self._shape.schema, self._shape.origin, taken, piece.size)

        return [GatheredPart(gather, -(-ids.size // size))]


class _Marker:
    """Flags the rows of pairs as matched; collects left rows that matched for the first time."""

    def __init__(self, task: Task, probe: Probe) -> None:
        self._streams = task.streams
        self._first = probe.first
        self._newly: list[Array] = []
        # (role, True for the fresh row of a pair); a mirrored pair stands for both orders.
        places = [(probe.side, True), (probe.role, False)]
        if task.mirrored:
            places += [(probe.role, True), (probe.side, False)]
        self._places = [(r, fresh) for r, fresh in places if r in task.streams[r].matched]

    @property
    def needed(self) -> bool:
        """Whether any flag is stored at all."""
        return bool(self._places)

    def see(self, fresh_rows: Array, ids: Array) -> None:
        """Flag the rows of pairs."""
        for role, fresh in self._places:
            new = self._streams[role].mark(role, fresh_rows + self._first if fresh else ids)
            if role is Side.LEFT:
                self._newly.append(new)

    def newly(self) -> Array:
        """Ids of left rows whose first match was among the pairs."""
        return np.concatenate(self._newly) if self._newly else np.empty(0, np.int64)
