"""Matching and what is given for it.

Pairs, first matches of a semi join and unmatched rows; or ranges and counts instead of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.data.rows import BatchView, NumberView, RowsView
from thetastream.engine.output.batches import (
    Flow,
    Part,
    Pieces,
    Source,
    counted,
    gathered,
    rechunked,
)
from thetastream.engine.output.records import Records
from thetastream.engine.probe import Matches, Probe, collect
from thetastream.engine.query import Query
from thetastream.engine.stream import Stream
from thetastream.metrics import Counters
from thetastream.output_mode import Output
from thetastream.side import How, Side

__all__ = ["Matcher"]

Array = NDArray[np.int64]
EAGER_PAIRS = 1 << 20


class Matcher:
    """Turns fresh rows and a stored stream into parts of the output.

    Pairs are computed while they are read. Where matches must be known at once (outer, semi and
    anti joins, several threads), up to ``EAGER_PAIRS`` of a probe are kept from that; a larger
    answer is computed again, so that it never needs much memory.
    """

    def __init__(self, query: Query, binding: Binding, source: Source, counters: Counters) -> None:
        self._query = query
        self._binding = binding
        self._source = source
        self._counters = counters
        self.pool = ThreadPoolExecutor(query.threads) if query.threads > 1 else None

    def close(self) -> None:
        """Let the threads go."""
        if self.pool is not None:
            self.pool.shutdown(wait=False)

    def match(
        self,
        rows: Fresh,
        first: int,
        role: Side,
        streams: dict[Side, Stream],
        window: tuple[Array, Array] | None = None,
    ) -> list[Part]:
        """Match fresh rows, of ids ``first …``, against the rows stored in ``role``.

        ``window`` gives per fresh row the arrival window ``[low, high)`` of stored ids.
        """
        stored = streams[role].stored[role]
        views = {rows.side: BatchView(rows.batch), role: streams[role].rows.view()}
        probe = Probe(
            self._binding,
            rows,
            stored.choice.layout,
            stored.index,
            views,
            self._counters,
            window,
            self._query.batch_rows,
            weight=2 if self._query.mirrored else 1,
        )
        output, how = self._query.output, self._query.how
        if output is Output.RANGES:
            return self._records(probe, first)
        if output is Output.COUNT:
            return self._counts(probe, _fresh_numbers(rows, first))
        if output.numbered:
            views = {rows.side: _fresh_numbers(rows, first), role: streams[role].number_view()}
        if how is How.INNER:
            matches = collect(probe, self.pool, None, EAGER_PAIRS)
            return self._pairs(self._led(matches, rows, streams), rows.side, role, views)
        marker = _Marker(self._query, streams, rows.side, role, first)
        see = marker.see if marker.needed else None
        matches = collect(probe, self.pool, see, EAGER_PAIRS)
        if how is How.SEMI:
            return self.rows(Side.LEFT, streams[Side.LEFT], marker.newly())
        if not how.pairs:
            return []
        return self._pairs(self._led(matches, rows, streams), rows.side, role, views)

    def _led(self, matches: Matches, rows: Fresh, streams: dict[Side, Stream]) -> Matches:
        """Only pairs whose leading row is at home here; the others are given by its home."""
        lead = self._query.led
        if lead is None or (rows.side is lead and rows.copies is None):
            return matches
        copies = streams[lead].copies
        assert copies is not None
        fresh_leads = rows.side is lead
        held, first = (rows.copies, 0) if fresh_leads else (copies.values, copies.first)
        assert held is not None

        def led(pairs: Iterable[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
            for fresh_rows, ids in pairs:
                keep = ~held[(fresh_rows if fresh_leads else ids) - first]
                self._counters.matches -= int(np.count_nonzero(~keep))
                if keep.any():
                    yield fresh_rows[keep], ids[keep]

        rest = matches.rest
        if rest is None:
            return Matches(list(led(matches.chunks)))
        return Matches(list(led(matches.chunks)), lambda: led(rest()))

    def _pairs(
        self, matches: Matches, side: Side, role: Side, views: dict[Side, RowsView]
    ) -> list[Part]:
        if not matches.chunks and matches.rest is None:
            return []
        swapped = {side: views[role], role: views[side]}
        ways = 2 if self._query.mirrored else 1

        def gather(pair: tuple[Array, Array], exchanged: bool) -> pa.RecordBatch:
            """The rows of pairs; exchanged: each row in the other role."""
            fresh_rows, ids = pair
            with self._counters.timed("gather"):
                if exchanged:
                    taken = {side: ids, role: fresh_rows}
                    return gathered(self._source, swapped, taken, ids.size)
                return gathered(self._source, views, {side: fresh_rows, role: ids}, ids.size)

        if matches.rest is None:
            pairs = list(rechunked(matches.chunks, self._query.batch_rows))
            return [Pieces(lambda i: gather(pairs[i // ways], i % ways == 1), ways * len(pairs))]

        def flow() -> Iterator[pa.RecordBatch]:
            for pair in rechunked(matches, self._query.batch_rows):
                for way in range(ways):
                    yield gather(pair, way == 1)

        return [Flow(flow)]

    def _records(self, probe: Probe, first: int) -> list[Part]:
        """Where the matches lie: found at once, as no search takes longer for many matches."""
        owners, found, negated = probe.ranges()
        size = self._query.batch_rows
        records = Records.of(probe.fresh.side, owners + first, found, negated=negated, size=size)
        self._counters.matches += records.matches
        return [records]

    def _counts(self, probe: Probe, numbers: NumberView) -> list[Part]:
        """How many matches each fresh row has: from ranges at once, or from pairs when read."""
        side, size = probe.fresh.side, self._query.batch_rows
        rows = numbers.of(np.arange(len(probe.fresh)))
        if probe.settled:
            counts = probe.counts()
            self._counters.matches += int(counts.sum())
            return [Flow(partial(counted, side, rows, counts, size))]
        matches = collect(probe, self.pool, None, EAGER_PAIRS)
        sides = list(Side) if self._query.mirrored else [side]

        def flow() -> Iterator[pa.RecordBatch]:
            counts = np.zeros(rows.size, np.int64)
            for fresh_rows, _ in matches:
                np.add.at(counts, fresh_rows, 1)
            for one in sides:
                yield from counted(one, rows, counts, size)

        return [Flow(flow)]

    def rows(self, role: Side, stream: Stream, ids: Array) -> list[Part]:
        """Stored rows alone, the other side's columns NULL."""
        if not ids.size:
            return []
        numbered, size = self._query.output.numbered, self._query.batch_rows
        view: RowsView = stream.number_view() if numbered else stream.rows.view()

        def gather(i: int) -> pa.RecordBatch:
            piece = ids[i * size : (i + 1) * size]
            with self._counters.timed("gather"):
                return gathered(self._source, {role: view}, {role: piece}, piece.size)

        return [Pieces(gather, -(-ids.size // size))]


def _fresh_numbers(rows: Fresh, first: int) -> NumberView:
    """The arrival numbers of fresh rows, whose ids are ``first …``."""
    return NumberView(first) if rows.numbers is None else NumberView(0, rows.numbers)


class _Marker:
    """Flags the rows of pairs as matched; remembers left rows that matched for the first time."""

    def __init__(
        self, query: Query, streams: dict[Side, Stream], side: Side, role: Side, first: int
    ) -> None:
        self._streams = streams
        self._first = first
        self._newly: list[Array] = []
        # (role, True for the fresh row of a pair); a mirrored pair stands for both orders.
        places = [(side, True), (role, False)]
        if query.mirrored:
            places += [(role, True), (side, False)]
        self._places = [(r, fresh) for r, fresh in places if r in streams[r].matched]

    @property
    def needed(self) -> bool:
        """Whether any flag is kept at all."""
        return bool(self._places)

    def see(self, fresh_rows: Array, ids: Array) -> None:
        """Take note of pairs."""
        for role, fresh in self._places:
            new = self._streams[role].mark(role, fresh_rows + self._first if fresh else ids)
            if role is Side.LEFT:
                self._newly.append(new)

    def newly(self) -> Array:
        """Ids of left rows whose first match was among the pairs."""
        return np.concatenate(self._newly) if self._newly else np.empty(0, np.int64)
