"""Match fresh rows against a stored side: from boxes to candidates to matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter, thread_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.condition.expression import Column
from thetastream.data.byte_columns import Place
from thetastream.data.kernels.pairs import keep_within
from thetastream.data.order import argsorted
from thetastream.data.rows import BatchView, RowsView
from thetastream.engine.single_key import opposite
from thetastream.engine.stream import Stream
from thetastream.index.base import Ranges
from thetastream.metrics import Counters
from thetastream.plan.layout import Boxes
from thetastream.side import Side

Pair = tuple[Array, Array]
_SORT_FROM = 64
_SLICE = 8192


class AnswerReader:
    """Reads an answer and counts its candidates (threads share no counter)."""

    pairs: Iterator[Pair]

    def __init__(self) -> None:
        self.candidates = 0

    def drain(self, counters: Counters) -> Iterator[Pair]:
        """Read to the end, adding candidates to the counters."""
        for pair in self.pairs:
            counters.candidates += self.candidates
            self.candidates = 0
            yield pair
        counters.candidates += self.candidates
        self.candidates = 0

    def take(self, limit: int) -> tuple[list[Pair], bool]:
        """Read chunks until the limit is passed; also return whether that was all."""
        chunks: list[Pair] = []
        total = 0
        for pair in self.pairs:
            chunks.append(pair)
            total += pair[0].size
            if total > limit:
                return chunks, False
        return chunks, True


@dataclass
class Probe:
    """Fresh rows of one side, matched against the other side's index.

    The rows have the ids ``first …``. ``window``, if given, holds the half-open range of ids that
    each fresh row may meet. ``weight`` is the number of matches per pair: 2 if it is also read
    mirrored.
    """

    binding: Binding
    rows: Fresh
    first: int
    side: Side
    stream: Stream
    counters: Counters
    window: tuple[Array, Array] | None
    limit: int
    weight: int = 1

    def __post_init__(self) -> None:
        self.role = self.side.other
        self.fresh = self.rows.roles[self.side]
        self.role_index = self.stream.indexes[self.role]
        self.layout, self.index = self.role_index.layout, self.role_index.index
        # Work is charged to the plan that probes, once matching begins.
        self._spent, self._unread, self._preparing = self.role_index.spent, self.fresh.count, 0.0
        # Snapshots of both sides' payload.
        self.views: dict[Side, RowsView] = {
            self.side: BatchView(self.rows.batch),
            self.role: self.stream.rows.view(),
        }

    def boxes(self) -> Boxes:
        """The boxes to probe, sorted by low edge so that neighbours touch the same keys."""
        seconds, started, working = self.counters.seconds, perf_counter(), thread_time()
        layout = self.layout
        at, keys = layout.arranged(self.fresh)
        sorted_at = perf_counter()
        boxes = layout.boxes(keys)
        keyed_at = perf_counter()
        if not layout.ordered and boxes.owners.size >= _SORT_FROM:
            order, _ = argsorted(boxes.lows[0])
            lows, highs = (np.take(edge, order, axis=1) for edge in (boxes.lows, boxes.highs))
            boxes = Boxes(lows, highs, boxes.owners[order])
        if at.size < self.fresh.count or layout.ordered:
            boxes.owners = at[boxes.owners]
        ended = perf_counter()
        seconds["keys"] += keyed_at - sorted_at
        seconds["sort"] += ended - keyed_at + sorted_at - started
        self._preparing += thread_time() - working
        return boxes

    @property
    def settled(self) -> bool:
        """Whether every candidate in the index's ranges is a match, with nothing left to check."""
        checked = self.layout.columns > 1 or self.binding.residuals or self.window is not None
        return self.index.ranged and not checked

    def counts(self) -> Array:
        """Count the matches of each fresh row of a settled probe, without writing a pair."""
        boxes = self.boxes()
        with self.timed():
            per_box = self.index.counts(
                np.ascontiguousarray(boxes.lows), np.ascontiguousarray(boxes.highs)
            )
        counts = np.zeros(self.fresh.count, np.int64)
        np.add.at(counts, boxes.owners, per_box)
        return counts

    def ranges(self) -> tuple[Array, Ranges, bool]:
        """The fresh row of each box of a settled probe, its ranges, and whether they are negated.

        If negated, every row that can match has one box, which holds the rows it does not match.
        """
        equality = opposite(self.layout.fields[0])
        if equality is None:
            boxes = self.boxes()
            return boxes.owners, self._ranges(boxes), False
        (term,) = self.layout.fields[0].members
        at, rows = self.layout.arranged(self.fresh)
        with self.counters.timed("keys"):
            ((low, high),) = equality.intervals(rows.side, rows.keys[term])
        return at, self._ranges(Boxes(low.reshape(1, -1), high.reshape(1, -1), at)), True

    def _ranges(self, boxes: Boxes) -> Ranges:
        with self.timed():
            return self.index.ranges(
                np.ascontiguousarray(boxes.lows), np.ascontiguousarray(boxes.highs)
            )

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside as matching, for the join and for its index.

        The index counts processor time, so that plans do not depend on what else is running, and
        the rows of answers that are read: an answer that is dropped costs next to nothing.
        """
        spent, started, working = self._spent, perf_counter(), thread_time()
        spent.asked += self._unread
        spent.probe += self._preparing
        self._unread, self._preparing = 0, 0.0
        try:
            yield
        finally:
            self.counters.seconds["probe"] += perf_counter() - started
            spent.probe += thread_time() - working

    def pairs(self, boxes: Boxes, *, boxed: bool = False) -> Callable[[], AnswerReader]:
        """Return a function that starts a reader of matches, ``(fresh rows, stored ids)``.

        The index is probed now: rows it stores later do not change the answer. With ``boxed`` the
        reader returns boxes instead of fresh rows.
        """
        lows, highs = np.ascontiguousarray(boxes.lows), np.ascontiguousarray(boxes.highs)
        answer = self.index.probe(lows, highs, limit=self.limit)
        owners = boxes.owners
        window = None if self.window is None else tuple(edge[owners] for edge in self.window)

        def start() -> AnswerReader:
            reader = AnswerReader()
            reader.pairs = self._filtered(reader, answer.again(), owners, window, boxed)
            return reader

        return start

    def _filtered(
        self,
        reader: AnswerReader,
        answer: Iterator[Pair],
        owners: Array,
        window: tuple[Array, ...] | None,
        boxed: bool,
    ) -> Iterator[Pair]:
        for positions, ids in answer:
            reader.candidates += positions.size
            if window is not None:
                kept = keep_within(positions, ids, *window)
                positions, ids = positions[:kept], ids[:kept]
            rows = owners[positions]
            if self.binding.residuals and rows.size:
                keep = self._residual(rows, ids)
                positions, rows, ids = positions[keep], rows[keep], ids[keep]
            if rows.size:
                yield positions if boxed else rows, ids

    def _residual(self, rows: Array, ids: Array) -> NDArray[np.bool_]:
        taken: dict[tuple[Side, str], pa.Array] = {}  # of columns that several residuals read
        at = {self.side: rows, self.role: ids}

        def lookup(column: Column) -> pa.Array:
            place = column.side, column.name
            if place not in taken:
                taken[place] = self.views[column.side].take(column.name, at[column.side])
            return taken[place]

        def find(column: Column) -> Place | None:
            view = self.views[column.side].as_bytes(column.name)
            return None if view is None else (view, at[column.side])

        mask = self.binding.residual_mask(lookup, rows.size, find)
        assert mask is not None
        return mask

    def split(self, boxes: Boxes) -> list[Boxes]:
        """Cut boxes into consecutive slices; their number does not depend on the threads."""
        if boxes.owners.size <= _SLICE:
            return [boxes]
        edges = np.linspace(0, len(boxes), -(-len(boxes) // _SLICE) + 1).astype(np.int64)
        return [
            Boxes(boxes.lows[:, a:b], boxes.highs[:, a:b], boxes.owners[a:b])
            for a, b in pairwise(edges)
        ]


@dataclass
class Matches:
    """The pairs of a probe: already computed, or computed as they are read."""

    chunks: list[Pair]
    rest: Callable[[], Iterator[Pair]] | None = None

    def __iter__(self) -> Iterator[Pair]:
        yield from self.chunks
        if self.rest is not None:
            yield from self.rest()


def collect(
    probe: Probe,
    pool: ThreadPoolExecutor | None,
    see: Callable[[Array, Array], None] | None,
    eager: int,
) -> Matches:
    """Return the pairs of a probe; ``see``, if given, is called with every pair now.

    Without ``see`` and threads, pairs are computed only as they are read: an unread result costs
    nothing. Otherwise up to ``eager`` pairs are computed at once and kept. If there are more, they
    are passed to ``see``, dropped, and computed again as they are read.

    Neither the rows nor their order depend on the number of threads: threads share slices of the
    boxes, which are the same for any number, and slices are joined in order. One thread reads later
    than several; by then a WiB⁺-Tree may have split its leaves and so moved rows.
    """
    boxes = probe.boxes()
    counters = probe.counters
    slices = probe.split(boxes)
    start = [probe.pairs(part) for part in slices]
    if see is None and pool is None:
        return Matches([], partial(_counted, probe, start, [0]))
    with probe.timed():
        readers = [begin() for begin in start]
        limit = eager // max(1, len(readers))
        if pool is None or len(readers) == 1:
            filled = [reader.take(limit) for reader in readers]
        else:
            filled = list(pool.map(lambda reader: reader.take(limit), readers))
        counters.candidates += sum(reader.candidates for reader in readers)
        if not all(done for _, done in filled):
            if see is not None:
                for begin in start:
                    for rows, ids in begin().drain(counters):
                        see(rows, ids)
            return Matches([], partial(_counted, probe, start, [0]))
        chunks = [chunk for part, _ in filled for chunk in part]
        counters.matches += probe.weight * sum(rows.size for rows, _ in chunks)
        if see is not None:
            for rows, ids in chunks:
                see(rows, ids)
        return Matches(chunks)


def _counted(
    probe: Probe, start: list[Callable[[], AnswerReader]], seen: list[int]
) -> Iterator[Pair]:
    """Read slice after slice and count time; count matches once, however often they are read."""
    read, counters = 0, probe.counters
    for begin in start:
        reader = begin()
        pairs = reader.pairs
        while True:
            try:
                with probe.timed():
                    pair = next(pairs, None)
            finally:
                counters.candidates += reader.candidates
                reader.candidates = 0
            if pair is None:
                break
            read += pair[0].size
            if read > seen[0]:
                counters.matches += probe.weight * (read - seen[0])
                seen[0] = read
            yield pair
