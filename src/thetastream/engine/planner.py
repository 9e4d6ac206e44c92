"""Keeps plans fitting: samples recent keys, and moves an index when another layout is cheaper."""

from __future__ import annotations

import numpy as np

from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.engine.output.answer import settled
from thetastream.engine.query import Query
from thetastream.engine.stream import Stored, Stream
from thetastream.metrics import Counters
from thetastream.plan.choice import BATCH, choose, sample
from thetastream.side import Side
from thetastream.window import CountWindow

__all__ = ["Planner"]

_OFTEN = 16


class Planner:
    """Chooses layouts, first by the kind of terms, then by observed keys.

    Keys are looked at before the 1st, 4th, 16th … probe of an index.
    """

    def __init__(self, query: Query, binding: Binding, counters: Counters) -> None:
        self._query = query
        self._binding = binding
        self._counters = counters
        self._tactic = query.dealt_tactic
        self._pairless = bool(query.output.bounded or query.aggregates) and settled(binding)
        self._samples: dict[Side, Fresh] = {}
        self._batches = dict.fromkeys(Side, BATCH)
        self._probes = dict.fromkeys(Side, 0)
        self._due = dict.fromkeys(Side, 1)

    def first(self, role: Side) -> Stored:
        """An empty index for rows in a role, before anything is known of them."""
        rows = self._expected(role, None)
        slide, pairless = self._slide, self._pairless
        choice = choose(self._binding, role, self._tactic, rows, slide=slide, pairless=pairless)
        return Stored(choice, max(1, round(rows)))

    def look(self, fresh: dict[Side, Fresh]) -> None:
        """Keep a sample of arriving keys: of every push at first, now and then later."""
        if self._counters.pushes < _OFTEN or self._counters.pushes % _OFTEN == 0:
            for side, rows in fresh.items():
                if len(rows):
                    self._samples[side] = sample(rows)

    def note_insert(self, role: Side, rows: int) -> None:
        """Rows are stored in a role: how many come at a time, on average of late."""
        if rows:
            self._batches[role] += (rows - self._batches[role]) / _OFTEN

    def review(self, role: Side, stream: Stream) -> None:
        """Before a probe: see whether the index should be laid out another way."""
        self._probes[role] += 1
        if self._probes[role] < self._due[role] or len(self._samples) < 2:
            return
        self._due[role] = 4 * self._probes[role]
        stored = stream.stored[role]
        choice = choose(
            self._binding,
            role,
            self._tactic,
            self._expected(role, stream),
            self._stored_sample(role, stream),
            self._samples[role.other],
            stored.choice,
            batch=self._batches[role],
            slide=self._slide,
            pairless=self._pairless,
        )
        if choice.layout is stored.choice.layout:
            stored.choice = choice
        else:
            stored.move(choice)
            self._counters.replans += 1

    def _stored_sample(self, role: Side, stream: Stream) -> Fresh:
        """A sample of a stored side: recent keys; with aggregates the times of stored rows.

        Rows that arrive together are near in time, which is all that a pair asks. A left row with
        aggregates looks back only, and would see nothing of right rows that arrive with it.
        """
        found = self._samples[role]
        if not self._query.aggregates or stream.times is None or found.times is None:
            return found
        held = stream.times.values
        times = held[np.linspace(0, held.size - 1, found.times.size).astype(np.int64)]
        return Fresh(found.side, found.batch, found.keys, None, times)

    @property
    def _slide(self) -> int:
        """Rows that leave at a time; 0 where rows leave one by one, or by time."""
        window = self._query.window
        return (window.slide or 0) if isinstance(window, CountWindow) else 0

    def _expected(self, role: Side, stream: Stream | None) -> float:
        """Rows that the window will hold: known for counts, observed for times."""
        if isinstance(self._query.window, CountWindow):
            return float(self._query.window.size(role))
        return 100_000.0 if stream is None else float(max(len(stream.rows), 1000))
