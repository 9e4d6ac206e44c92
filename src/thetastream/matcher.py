"""Matching and its rows: pairs, first matches of a semi join, unmatched rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.binding import Binding, Fresh
from thetastream.metrics import Counters
from thetastream.output import Flow, Part, Pieces, Source, gathered, rechunked
from thetastream.probe import Matches, Probe, collect
from thetastream.query import Query
from thetastream.rows import BatchView, RowsView
from thetastream.side import How, Side
from thetastream.stream import Stream

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
        self._pool = ThreadPoolExecutor(query.threads) if query.threads > 1 else None

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)

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
        how = self._query.how
        if how is How.INNER:
            matches = collect(probe, self._pool, None, EAGER_PAIRS)
            return self._pairs(self._led(matches, rows, streams), rows.side, role, views)
        marker = _Marker(self._query, streams, rows.side, role, first)
        see = marker.see if marker.needed else None
        matches = collect(probe, self._pool, see, EAGER_PAIRS)
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

    def rows(self, role: Side, stream: Stream, ids: Array) -> list[Part]:
        """Stored rows alone, the other side's columns NULL."""
        if not ids.size:
            return []
        view, size = stream.rows.view(), self._query.batch_rows

        def gather(i: int) -> pa.RecordBatch:
            piece = ids[i * size : (i + 1) * size]
            with self._counters.timed("gather"):
                return gathered(self._source, {role: view}, {role: piece}, piece.size)

        return [Pieces(gather, -(-ids.size // size))]


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
