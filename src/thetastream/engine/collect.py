"""Collecting: the rows of each side gather in a buffer of their own and are processed as one batch.

This is step 1 of PanJoin's procedure (Section III-A). A buffer closes when it holds ``collect``
rows or when ``collect_time`` has passed since its first row, whichever comes first (Section III-E);
then all its rows are sorted once, probe the other side, and are stored.

    collect=4      push 1     push 2     push 3      push 4
    left           a b        c          ·           d e f       closes at push 4 with 6 rows
    right          u          ·          v w x       ·           closes at push 3 with 4 rows
    processed                            u v w x     a b c d e f, against u v w x

**Collecting never changes the answer**: over the whole stream the rows are the same, each as often.
When they come, and in which order, does change. Why it is exact:

*Every pair once.* Batches are processed one after the other. Of a pair, the row whose batch comes
later probes the other one, which is stored by then; the earlier never sees the later. So each pair
is looked at exactly once, as long as (1) it is decided by the arrival of its rows and not by the
order of batches, and (2) no row is forgotten while one that may meet it is still in a buffer.

*Count windows.* Let ``p(x)`` be the position of a row on its side and ``c(x)`` the number of rows
of the other side that arrived before it; both are known when the row is pushed, and neither falls
along a side. Let ``low(x) = oldest(c(x))`` be the lowest position that ``x`` may meet as the later
row of a pair; ``low(x) < c(x)`` in all windows, and it never falls either.

    x and y meet   if and only if   p(x) >= low(y)  and  p(y) >= low(x)

For let ``x`` be the earlier one: then they meet if and only if ``p(x) >= low(y)``, by definition,
and the second condition holds by itself: ``low(x) < c(x) <= p(y)``, as ``y`` came after ``x``. As
``low`` never falls, the rows ``x`` with ``low(x) <= p(y)`` are a prefix of their side. So a fresh
row meets the stored rows of one interval of positions, ``[low(y), first x with low(x) > p(y))``.
A stored row ``y`` is met by no row ``x`` that has ``low(x) > p(y)``. Rows that come have the ``c``
of all rows of ``y``'s side, those in its buffer have at least the ``c`` of its first row; so ``y``
stays until ``low`` of the smaller of both has passed it.

*Time windows.* A pair is decided by event times alone. Late rows are told apart when they are
pushed, by the frontier of all rows pushed before, collected or not. A row expires, and is given as
unmatched, when neither a row at the frontier nor the oldest row in the other buffer can meet it.

*One stream with itself.* Arrival is the place in the stream, so cutting it into other batches
changes nothing. There is one buffer.

*Ranks* (``CountWindow(order=…)``). What is processed depends on ranks alone, however the streams
are cut. Rows wait for their turn anyway; they are looked at when either side's buffer closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from thetastream.boxes.arrival import concatenated
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.data.rows import Ring
from thetastream.engine.engine import Engine, Rows
from thetastream.engine.output.batches import Part
from thetastream.engine.query import Query
from thetastream.metrics import Counters, SideCounters
from thetastream.side import Side
from thetastream.window import CountWindow

__all__ = ["Buffer", "Collecting"]

Array = NDArray[np.int64]


@dataclass
class Buffer:
    """The collected rows of one stream.

    A piece is what one push brought, in each role that the stream plays; ``counts`` holds the
    ``c(x)`` of its rows. ``oldest`` is the least event time, ``since`` when the first row came.
    """

    pieces: list[Rows] = field(default_factory=list)
    counts: list[Array] = field(default_factory=list)
    rows: int = 0
    since: float = 0.0
    oldest: int | None = None

    def note(self, count: int, now: float) -> None:
        """Rows came."""
        if not self.rows:
            self.since = now
        self.rows += count

    def add(self, piece: Rows, arrived: int, now: float) -> None:
        """Keep the rows of a push, before which ``arrived`` rows of the other side had come."""
        rows = next(iter(piece.values()))
        self.note(len(rows), now)
        self.pieces.append(piece)
        self.counts.append(np.full(len(rows), arrived))
        times = rows.times if rows.timed is None or rows.times is None else rows.times[rows.timed]
        if times is not None and times.size:
            least = int(times.min())
            self.oldest = least if self.oldest is None else min(self.oldest, least)

    def due(self, query: Query, now: float) -> bool:
        """Whether it is full, or has been open for long enough."""
        if not self.rows:
            return False
        if query.collect is not None and self.rows >= query.collect:
            return True
        wait = query.collect_time
        return wait is not None and now - self.since >= wait.nanoseconds / 10**9

    @property
    def batch(self) -> tuple[Rows, Array]:
        """All rows in one piece, and their ``c(x)``."""
        roles = self.pieces[0]
        whole = {role: concatenated(*(piece[role] for piece in self.pieces)) for role in roles}
        return whole, np.concatenate(self.counts)


class Collecting(Engine):
    """An engine that processes a stream's rows when the stream's buffer closes."""

    def __init__(
        self,
        query: Query,
        binding: Binding,
        counters: Counters,
        side_counters: dict[Side, SideCounters],
        skipped: Mapping[Side, int],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(query, binding, counters, side_counters, skipped)
        self.buffers = {side: Buffer() for side in query.streams}
        self._clock = clock
        self._arrived = dict(skipped)
        # low(x) of the stored rows of each side, for count windows over two streams.
        self._lows: dict[Side, Ring] = {}
        if self._window is not None:
            self._lows = {side: Ring(np.int64, skipped[side]) for side in Side}

    @property
    def _window(self) -> CountWindow | None:
        """The window, if arrival over both sides decides who meets whom."""
        window, query = self.query.window, self.query
        by_arrival = isinstance(window, CountWindow) and not (query.self_join or query.ranked)
        return window if by_arrival and isinstance(window, CountWindow) else None

    # --- Taking rows in -------------------------------------------------------------------------

    def process(self, fresh: Rows) -> list[Part]:
        """Collect rows; process the batches that are complete."""
        fresh = self._admitted(fresh)
        self._planner.look(fresh)
        if self.binding.time is not None:
            self._note_times(fresh)
        now = self._clock()
        for side, buffer in self.buffers.items():
            if side in fresh and len(fresh[side]):
                self._collect(side, buffer, fresh, now)
        parts = self._process_closed(lambda buffer: buffer.due(self.query, now))
        self._measure()
        return parts

    def _collect(self, side: Side, buffer: Buffer, fresh: Rows, now: float) -> None:
        if self.query.ranked:
            self.waiting[side].add(fresh[side])
            buffer.note(len(fresh[side]), now)
        else:
            piece = {role: fresh[role] for role in self.query.roles(side)}
            buffer.add(piece, self._arrived[side.other], now)
            self._arrived[side] += len(fresh[side])

    def finish(self) -> list[Part]:
        """The streams have ended: process what was collected, emit all that is unmatched."""
        parts = [] if self.query.ranked else self._process_closed(lambda buffer: buffer.rows > 0)
        return parts + super().finish()

    # --- Processing -----------------------------------------------------------------------------

    def _process_closed(self, closed: Callable[[Buffer], bool]) -> list[Part]:
        ready = [side for side, buffer in self.buffers.items() if closed(buffer)]
        if self.query.ranked:
            if not ready:
                return []
            self.buffers = {side: Buffer() for side in self.buffers}
            return self._arrive_ranked({}, last=False)
        found = [self._process_batch(side) for side in ready]
        if self.binding.time is not None:
            found.append(self._expire_old())
        elif self._window is not None:
            found += [self._expire(side, self._oldest(side)) for side in Side]
        return list(chain.from_iterable(found))

    def _process_batch(self, side: Side) -> list[Part]:
        batch, counts = self.buffers[side].batch
        self.buffers[side] = Buffer()
        if self.query.self_join:
            return self._arrive_self(batch)
        if self._window is None:
            return self._arrive(batch[side])
        return self._arrive_counted(self._window, batch[side], counts)

    def _arrive_counted(self, window: CountWindow, rows: Fresh, counts: Array) -> list[Part]:
        """Rows of one side: probe their intervals of the other, then be stored."""
        side, stream = rows.side, self.streams[rows.side]
        first = self._stored(stream, rows)
        lows = window.oldest(counts, side.other)
        self._lows[side].append(lows)
        others = self._lows[side.other]
        highs = others.first + np.searchsorted(
            others.values, np.arange(first, stream.rows.next), "right"
        )
        parts = self._match(rows, first, side.other, (lows, highs))
        before = self._oldest(side)
        stream.stored[side].index.expire(before)
        self._index(stream, side, rows, first, before)
        return parts

    # --- What must stay -------------------------------------------------------------------------

    def _oldest(self, side: Side) -> int:
        """The first stored row that a row of the other side, collected or to come, may meet."""
        assert self._window is not None
        waiting = self.buffers[side.other].counts
        count = int(waiting[0][0]) if waiting else self._arrived[side]
        return min(self._window.oldest(count, side), self.streams[side].rows.next)

    def _least_time(self, role: Side, frontier: int) -> int:
        oldest = self.buffers[Side.LEFT if self.query.self_join else role].oldest
        return frontier if oldest is None else min(frontier, oldest)

    def _expire(self, side: Side, before: int) -> list[Part]:
        if side in self._lows:
            self._lows[side].expire(before)
        return super()._expire(side, before)

    # --- About itself ---------------------------------------------------------------------------

    def waiting_rows(self, side: Side) -> int:
        """Rows of a side that are collected or wait for their turn."""
        collected = 0 if self.query.ranked or side not in self.buffers else self.buffers[side].rows
        return super().waiting_rows(side) + collected

    def check(self) -> None:
        """Assert every invariant. For tests."""
        super().check()
        for side, buffer in self.buffers.items():
            held = sum(len(piece[side]) for piece in buffer.pieces)
            assert self.query.ranked or buffer.rows == held
            assert self.query.ranked or all(len(counts) for counts in buffer.counts)
            if self._window is not None:
                assert self._arrived[side] == self.streams[side].rows.next + buffer.rows
                assert self._oldest(side) <= self.streams[side].rows.first
        for side, lows in self._lows.items():
            stream = self.streams[side]
            assert (lows.first, lows.size) == (stream.rows.first, len(stream.rows))
            assert np.all(np.diff(lows.values) >= 0)
