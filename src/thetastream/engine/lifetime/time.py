"""Event time at work: late rows are dropped, and rows that the frontier has passed leave.

Event times alone decide a pair, as one more term of the condition, so rows look back only in a
self-join. The frontier of all earlier rows, collected or not, decides whether a pushed row is late.
A row is final when neither a row at the frontier nor the oldest collected row of the other side can
meet it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thetastream._jit.arrays import LEAST, Array
from thetastream.boxes.fresh import Fresh
from thetastream.engine.lifetime.base import Lifetime, Setting
from thetastream.engine.outside import Outside
from thetastream.metrics import SideCounters
from thetastream.side import Side


class ByTime(Lifetime):
    """Rows meet by event time, and leave as the frontier passes."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        self._time = facts.binding.bound
        self._frontier: int | None = None

    def admit(self, fresh: Sequence[Fresh], outside: Outside) -> Sequence[Fresh]:
        self._frontier = outside.frontier
        return without_late(fresh, outside.late, self._facts.counters)

    def _bound(self, role: Side) -> int | None:
        """Rows with an event time below this are final in a role."""
        frontier, collector = self._frontier, self._facts.collector
        if frontier is None:
            return None
        if collector is not None:
            # Of a self-join's one stream, and of both with aggregates, any collected row counts.
            every = self._facts.query.self_join or bool(self._facts.query.aggregates)
            sides = tuple(self.streams) if every else (role.other,)
            frontier = min(
                [frontier, *(t for s in sides if (t := collector.oldest(s)) is not None)]
            )
        return int(self._time.expired_below(frontier, role))

    def final(self, side: Side, role: Side) -> Array:
        bound = self._bound(role)
        if bound is None:
            return np.empty(0, np.int64)
        return self.streams[side].unmatched_older(role, bound)

    def forget(self, side: Side) -> None:
        oldest = self.horizon(side)
        if oldest is not None:
            stream = self.streams[side]
            stream.expire(stream.first_younger(oldest))
            stream.expire_older(oldest)
            stream.sweep(oldest)

    def horizon(self, side: Side) -> int | None:
        bounds = [self._bound(role) for role in self._facts.query.roles(side)]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if known else None

    def last(self, rows: Fresh) -> int:
        times = rows.keys.known_times()
        return int(times.max()) if times.size else LEAST

    def check(self) -> None:
        query, frontier = self._facts.query, self._frontier
        if query.aggregates and self._facts.collector is None and frontier is not None:
            left = self.streams[Side.LEFT]
            assert left.times is not None
            answered = left.matched[Side.LEFT].values
            assert left.copies is not None or np.all(answered == (left.times.values < frontier))


def without_late(
    fresh: Sequence[Fresh], late: int | None, counters: Mapping[Side, SideCounters]
) -> list[Fresh]:
    """The rows that are not late; the others are counted where they are at home."""
    if late is None:
        return list(fresh)
    return [_kept(rows, late, counters[rows.side]) for rows in fresh]


def _kept(rows: Fresh, late: int, counters: SideCounters) -> Fresh:
    keys, copies = rows.keys, rows.places.copies
    assert keys.times is not None
    gone = keys.times < late
    if keys.timed is not None:
        gone &= keys.timed
    if not gone.any():
        return rows
    counters.dropped += int(np.count_nonzero(gone if copies is None else gone & ~copies))
    return rows.filter(~gone)
