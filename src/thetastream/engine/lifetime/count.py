"""Count windows at work: by arrival, by rank, of a stream with itself, and with collected rows.

Let ``p(x)`` be the position of a row on its side, ``c(x)`` the number of rows of the other side
that arrived before it, and ``low(x) = oldest(c(x))`` the lowest position that it meets as the later
row of a pair (``window/count.py``).

*By arrival* a side probes, is stored, and pushes old rows out at once. So all stored rows are in
the window of every probing row.

*By rank* rows wait until the other side has reached their rank (``boxes/arrival.py``). Both sides
are stored, then every row looks back on the interval of positions that follows from its ``c(x)``.

*A stream joined with itself*: arrival is the place in the stream, and every row looks back.

*Collected rows* are processed later than they arrived (``collector.py``). This is exact because

    x and y meet   if and only if   p(x) >= low(y)  and  p(y) >= low(x)

Let ``x`` be the earlier one. They meet if and only if ``p(x) >= low(y)``, by definition, and the
second condition always holds: ``low(x) < c(x) <= p(y)``, as ``y`` came after ``x``. As ``low``
never falls along a side, the rows ``x`` with ``low(x) <= p(y)`` are a prefix of their side. So a
fresh row meets the stored rows of one interval of positions, ``[low(y), first x with low(x) >
p(y))``. A stored row ``y`` is met by no row ``x`` that has ``low(x) > p(y)``. Rows that come have
the ``c`` of all rows of ``y``'s side, collected ones have at least the ``c`` of the first of them;
so ``y`` stays until ``low`` of the smaller of both has passed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.arrival import Census, Waiting, order_domain, read_ranks, ready
from thetastream.boxes.fresh import Fresh
from thetastream.data.rows import Ring
from thetastream.engine.lifetime.base import Interval, Lifetime, Setting
from thetastream.engine.outside import Outside
from thetastream.side import Side


def by_count(facts: Setting) -> Lifetime:
    """The lifetime of a count window, for the kind of join."""
    if facts.query.self_join:
        return ByPlace(facts)
    if facts.query.window.order is not None:
        return ByRank(facts)
    if facts.collector is None:
        return ByArrival(facts)
    return CollectedBack(facts) if facts.query.aggregates else Collected(facts)


class Counted(Lifetime):
    """What all count windows share: ranks, if there are any, and positions."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        self.census = {side: Census() for side in Side}
        self._domain = order_domain(self.window.order, facts.binding.schemas)

    def ranked(self, fresh: Sequence[Fresh]) -> list[Fresh]:
        """Read the ranks, which must not fall along a side, nor from one push to the next."""
        if self._domain is None:
            return list(fresh)
        lasts = {side: self.census[side].last for side in Side}
        ranked = []
        for rows in fresh:
            side, name = rows.side, self.window.order[rows.side.position]
            ranks = read_ranks(rows.batch, name, self._domain, side, lasts[side])
            if ranks.size:
                lasts[side] = int(ranks[-1])
            ranked.append(rows.placed(ranks=ranks))
        return ranked

    def admit(self, fresh: Sequence[Fresh], outside: Outside) -> Sequence[Fresh]:
        for side, ranks in outside.ranks.items():
            self.census[side].add(ranks)
        return fresh

    def resume(self, census: Mapping[Side, Census], waiting: Sequence[Fresh]) -> None:
        """Replace what is known of all ranks, and the rows that wait."""
        self.census.update(census)

    def last(self, rows: Fresh) -> int:
        positions = rows.places.positions
        assert positions is not None
        return int(positions[-1])


class ByArrival(Counted):
    """Rows of a push arrive left first, then right; each pushes an old row of its side out."""

    eager = True

    def floor(self, side: Side) -> int:
        stream = self.streams[side].rows
        oldest: int = self.window.oldest(stream.next, side)
        return oldest if oldest > stream.first else stream.first


class ByPlace(Counted):
    """A stream joined with itself: a row's arrival is its place."""

    def _since(self, rows: Fresh, ids: Array, role: Side) -> Array:
        positions = rows.places.positions
        stream = self.streams[Side.LEFT]
        return stream.first_at(self.window.oldest(ids if positions is None else positions, role))

    def _oldest(self, seen: int) -> int:
        return int(min(self.window.oldest(seen, role) for role in Side))

    def floor(self, side: Side) -> int:
        stream = self.streams[side]
        placed = stream.positions is not None
        oldest = self._oldest(self.census[side].seen if placed else stream.rows.next)
        return max(stream.first_at(oldest), stream.rows.first)

    def horizon(self, side: Side) -> int | None:
        return self._oldest(self.census[side].seen)


class ByRank(Counted):
    """Rows wait until the other side has reached their rank, then look back."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        self.looks_back = True
        self.waiting = {side: Waiting() for side in Side}
        self._due = dict.fromkeys(Side, 0)  # ranks that are due, and not released yet

    def resume(self, census: Mapping[Side, Census], waiting: Sequence[Fresh]) -> None:
        super().resume(census, waiting)
        self.waiting = {side: Waiting() for side in Side}
        for rows in waiting:
            self.waiting[rows.side].add(rows)

    def due(self, fresh: Sequence[Fresh], *, last: bool = False) -> Sequence[Fresh]:
        for rows in fresh:
            self.waiting[rows.side].add(rows)
        released = []
        for side, waiting in self.waiting.items():
            shown, census = self.census[side.other].last, self.census[side]
            rows_in = waiting.rows
            ranks = np.empty(0, np.int64) if rows_in is None else rows_in.places.ranks
            assert ranks is not None
            due = waiting.release(ranks.size if last else ready(ranks, side, shown))
            if due is not None:
                released.append(due)
            self._due[side] = census.pending.size if last else ready(census.pending, side, shown)
        return released

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        stream, ranks = self.streams[role], rows.places.ranks
        assert ranks is not None
        counts = self.census[role].before(ranks, rows.side)
        return stream.first_at(self.window.oldest(counts, role)), stream.first_at(counts)

    def floor(self, side: Side) -> int:
        stream = self.streams[side]
        processed = self.census[side].released + self._due[side]
        return max(int(stream.first_at(self.window.oldest(processed, side))), stream.rows.first)

    def forget(self, side: Side) -> None:
        super().forget(side)
        self.census[side].release(self._due[side])
        self._due[side] = 0

    def horizon(self, side: Side) -> int | None:
        return int(self.window.oldest(self.census[side].released, side))

    def waiting_rows(self, side: Side) -> int:
        return len(self.waiting[side])


class Collected(Counted):
    """By arrival, with collected rows: each side is processed when its buffer closes."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        assert facts.collector is not None
        self._collector = facts.collector
        # low(x) of the stored rows of each side
        self._lows = {side: Ring(np.int64, self.streams[side].rows.first) for side in Side}

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        assert rows.places.counts is not None
        lows = self.window.oldest(rows.places.counts, role)
        self._lows[rows.side].append(lows)
        others = self._lows[role]
        positions = np.arange(first, first + rows.count)
        return lows, others.first + np.searchsorted(others.values, positions, "right")

    def floor(self, side: Side) -> int:
        """The first stored row that a collected or future row of the other side may meet."""
        count = self._collector.least_count(side.other)
        oldest = self.window.oldest(self._collector.arrived[side] if count is None else count, side)
        return int(max(min(oldest, self.streams[side].rows.next), self.streams[side].rows.first))

    def forget(self, side: Side) -> None:
        super().forget(side)
        self._lows[side].expire(self.streams[side].rows.first)

    def end(self, side: Side) -> None:
        super().end(side)
        self._lows[side].expire(self.streams[side].rows.first)

    def check(self) -> None:
        for side, lows in self._lows.items():
            rows = self.streams[side].rows
            assert self._collector.arrived[side] == rows.next + self._collector.rows(side)
            assert self.floor(side) <= rows.first
            assert (lows.first, lows.size) == (rows.first, len(rows))
            assert np.all(np.diff(lows.values) >= 0)


class CollectedBack(Counted):
    """Collected rows with aggregates: right rows are stored, then left rows look back."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        assert facts.collector is not None
        self.looks_back = True
        self._collector = facts.collector

    def due(self, fresh: Sequence[Fresh], *, last: bool = False) -> Sequence[Fresh]:
        return sorted(fresh, key=lambda rows: rows.side is Side.LEFT)

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        counts = rows.places.counts
        assert counts is not None
        return self.window.oldest(counts, role), counts

    def floor(self, side: Side) -> int:
        stream = self.streams[side].rows
        oldest = self.window.oldest(self._collector.arrived[side], side)
        return int(max(min(oldest, stream.next), stream.first))
