"""The protocol between the engine and a window while a join runs.

A push asks these questions, in order:

    admit    which fresh rows take part (late ones do not)
    due      which rows are processed now; the others wait
    sees     which stored rows a row probes, as an interval of ids; None for all
    floor    the first stored row that a future row may meet
    final    rows that nothing can meet any more, and that never matched
    forget   drop the rows that nothing can meet any more

Rows probe and are stored in one of two orders. Usually the rows of a side probe first and are then
stored, left before right: in each pair, the row processed later probes. If rows *look back*, all
are stored first, and every row sees an interval of ids that ends before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.engine.collector import Collector
from thetastream.engine.outside import Outside
from thetastream.engine.query import Query
from thetastream.engine.stream import Stream
from thetastream.metrics import SideCounters
from thetastream.side import Side

Interval = tuple[Array, Array]


@dataclass(frozen=True)
class Setting:
    """What a lifetime is built from: the join, its state and its counters."""

    query: Query
    binding: Binding
    streams: Mapping[Side, Stream]
    counters: Mapping[Side, SideCounters]
    collector: Collector | None


class Lifetime:
    """The rules of a window for one join. By default all rows take part, and none leaves."""

    eager = False  # whether rows leave right after their side is stored, and not after the push
    one_way = False  # whether only left rows probe, and find all pairs

    def __init__(self, facts: Setting) -> None:
        self._facts = facts
        self.window: Any = facts.query.window
        self.streams = facts.streams
        self.looks_back = facts.query.self_join

    def ranked(self, fresh: Sequence[Fresh]) -> list[Fresh]:
        """Read what decides arrival. Bad input raises before any state changes."""
        return list(fresh)

    def admit(self, fresh: Sequence[Fresh], outside: Outside) -> Sequence[Fresh]:
        """The rows that take part."""
        return fresh

    def due(self, fresh: Sequence[Fresh], *, last: bool = False) -> Sequence[Fresh]:
        """The rows to process now, in order; all of them if this is the ``last`` call."""
        return fresh

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        """The ids ``[low, high)`` of the rows stored in ``role`` that each row probes.

        ``rows`` have the ids ``first …``. None means all rows stored so far.
        """
        if not self._facts.query.self_join:
            return None
        ids = np.arange(first, first + rows.count)
        return self._since(rows, ids, role), ids

    def _since(self, rows: Fresh, ids: Array, role: Side) -> Array:
        """In a self-join, the first id in ``role`` that each row probes."""
        return np.full(ids.size, self.streams[Side.LEFT].rows.first)

    def floor(self, side: Side) -> int:
        """The first id of a stream that an unprocessed row may meet."""
        return self.streams[side].rows.first

    def final(self, side: Side, role: Side) -> Array:
        """Rows that became final and never matched in a role; each is returned once."""
        return self.streams[side].unmatched(role, self.floor(side))

    def forget(self, side: Side) -> None:
        """Drop the rows of a stream that nothing can meet any more."""
        self.streams[side].expire(self.floor(side))

    def end(self, side: Side) -> None:
        """The stream has ended: drop all its rows."""
        self.streams[side].expire(self.streams[side].rows.next)

    def horizon(self, side: Side) -> int | None:
        """Saved rows whose last event time, or position, is below this can be dropped."""
        return None

    def last(self, rows: Fresh) -> int:
        """The largest event time, or position, of saved rows."""
        raise NotImplementedError

    def waiting_rows(self, side: Side) -> int:
        """Rows of a side that wait for their turn."""
        return 0

    def check(self) -> None:
        """Assert every invariant. For tests."""


def lifetime_of(facts: Setting) -> Lifetime:
    """The lifetime of a join's window: the class that the window names, loaded on first use."""
    module, _, name = facts.query.window.lifetime.partition(":")
    make = getattr(import_module(f"thetastream.engine.lifetime.{module}"), name)
    lifetime: Lifetime = make(facts)
    return lifetime
