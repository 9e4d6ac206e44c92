"""Collecting: the rows of each side gather in their own buffer and are processed as one batch.

This is step 1 of PanJoin's procedure (Section III-A). A buffer closes when it holds ``collect``
rows or when ``collect_time`` has passed since its first row, whichever comes first (Section III-E);
then all its rows are sorted once, probe the other side, and are stored.

    collect=4      push 1     push 2     push 3      push 4
    left           a b        c          ·           d e f       closes at push 4 with 6 rows
    right          u          ·          v w x       ·           closes at push 3 with 4 rows
    processed                            u v w x     a b c d e f, against u v w x

**Collecting never changes the answer**: over the whole stream the same rows are returned, each
equally often. Only their time and order change. Batches are processed one after the other. In each
pair, the row of the later batch probes, and the other one is stored by then. So each pair is
examined exactly once, as long as (1) the arrival of its rows decides it, not the order of batches,
and (2) no row is dropped while a row that may meet it is still in a buffer. The lifetimes ensure
both; see ``lifetime/count.py`` and ``lifetime/time.py``.

If rows wait for their turn anyway (ranks, sessions), and with aggregates, all buffers close
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thetastream.boxes.fresh import Fresh, concatenated
from thetastream.engine.query import Query
from thetastream.side import Side


@dataclass
class Buffer:
    """The collected rows of one stream.

    A piece holds the rows of one push, with their ``c(x)``. ``oldest`` is the least event time,
    ``since`` the time at which the first row arrived.
    """

    pieces: list[Fresh] = field(default_factory=list)
    rows: int = 0
    since: float = 0.0
    oldest: int | None = None

    def add(self, piece: Fresh, now: float) -> None:
        """Add the rows of a push."""
        if not self.rows:
            self.since = now
        self.rows += piece.count
        self.pieces.append(piece)
        if piece.keys.times is not None:
            times = piece.keys.known_times()
            if times.size:
                least = int(times.min())
                self.oldest = least if self.oldest is None else min(self.oldest, least)

    def due(self, query: Query, now: float) -> bool:
        """Whether the buffer is full, or has been open long enough."""
        if not self.rows:
            return False
        if query.collect is not None and self.rows >= query.collect:
            return True
        wait = query.collect_time
        return wait is not None and now - self.since >= wait.nanoseconds / 10**9


class Collector:
    """The buffers of all streams. ``arrived`` counts the rows of each side, collected or not."""

    def __init__(self, query: Query, skipped: Mapping[Side, int]) -> None:
        self._query = query
        self._together = bool(query.aggregates) or query.window.waits
        self.buffers = {side: Buffer() for side in query.streams}
        self.arrived = dict(skipped)

    def collect(self, fresh: Iterable[Fresh], now: float) -> list[Fresh]:
        """Collect rows; return the batches that are complete."""
        for rows in fresh:
            if rows.count:
                before = self.arrived.get(rows.side.other, 0)
                counted = rows.placed(counts=np.full(rows.count, before))
                self.buffers[rows.side].add(counted, now)
                self.arrived[rows.side] = self.arrived.get(rows.side, 0) + rows.count
        due = [side for side, buffer in self.buffers.items() if buffer.due(self._query, now)]
        return self._close(list(self.buffers) if due and self._together else due)

    def rest(self) -> list[Fresh]:
        """All collected rows, as batches."""
        return self._close(list(self.buffers))

    def _close(self, sides: Sequence[Side]) -> list[Fresh]:
        closed = [self.buffers[side] for side in sides if self.buffers[side].rows]
        self.buffers.update({side: Buffer() for side in sides})
        return [concatenated(buffer.pieces) for buffer in closed]

    def rows(self, side: Side) -> int:
        """How many rows of a side are collected."""
        return self.buffers[side].rows if side in self.buffers else 0

    def oldest(self, side: Side) -> int | None:
        """The least event time among the collected rows of a side."""
        return self.buffers[side].oldest if side in self.buffers else None

    def least_count(self, side: Side) -> int | None:
        """``c(x)`` of the first collected row of a side."""
        pieces = self.buffers[side].pieces
        if not pieces:
            return None
        counts = pieces[0].places.counts
        assert counts is not None
        return int(counts[0])

    def check(self) -> None:
        """Assert every invariant. For tests."""
        for buffer in self.buffers.values():
            assert buffer.rows == sum(piece.count for piece in buffer.pieces)
