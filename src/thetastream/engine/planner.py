"""Keeps plans fitting: samples recent keys, and moves an index when another layout is cheaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.boxes.keys import Keys
from thetastream.engine.output.answer import settled
from thetastream.engine.query import Query
from thetastream.engine.stream import Stored, Stream
from thetastream.metrics import Counters
from thetastream.plan.choice import BATCH, choose, sample
from thetastream.side import Side

__all__ = ["Planner"]

_OFTEN = 16


class Planner:
    """Chooses layouts, first by the kind of terms, then by observed keys.

    Keys are looked at before the 1st, 4th, 16th … push that asks an index.
    """

    def __init__(self, query: Query, binding: Binding, counters: Counters) -> None:
        self._query = query
        self._binding = binding
        self._counters = counters
        self._tactic = query.dealt_tactic
        self._pairless = bool(query.output.bounded or query.aggregates) and settled(binding)
        self._samples: dict[Side, Keys] = {}
        self._batches: dict[Side, float] = {}  # rows of a push, on average of late
        self._pushes = dict.fromkeys(Side, 0)
        self._probes = dict.fromkeys(Side, 0)
        self._due = dict.fromkeys(Side, 1)

    def first(self, role: Side) -> Stored:
        """An empty index for rows in a role, before anything is known of them."""
        rows = self._expected(role, None)
        slide, pairless = self._query.window.slide_rows, self._pairless
        choice = choose(self._binding, role, self._tactic, rows, slide=slide, pairless=pairless)
        return Stored(choice, max(1, round(rows)))

    def push(self, fresh: Sequence[Fresh], streams: Mapping[Side, Stream]) -> None:
        """Before a push: see whether the indexes that it asks should be laid out another way.

        Keys are sampled from every push at first, now and then later.
        """
        due = []
        for rows in fresh:
            count = rows.batch.num_rows
            if not count:
                continue
            for role, keys in rows.roles.items():
                self._pushes[role] += 1
                if self._pushes[role] <= _OFTEN or self._pushes[role] % _OFTEN == 0:
                    self._samples[role] = sample(keys)
                known = self._batches.get(role, float(count))
                self._batches[role] = known + (count - known) / _OFTEN
                asked = Side.RIGHT if role is Side.LEFT else Side.LEFT
                self._probes[asked] += 1
                if self._probes[asked] >= self._due[asked] and asked in streams[asked].stored:
                    due.append(asked)
        if due and len(self._samples) == len(Side):
            arriving = {rows.side: rows.batch.num_rows for rows in fresh}
            for role in due:
                self._review(role, streams[role], arriving.get(role, 0))

    def _review(self, role: Side, stream: Stream, arriving: int) -> None:
        self._due[role] = 4 * self._probes[role]
        stored = stream.stored[role]
        choice = choose(
            self._binding,
            role,
            self._tactic,
            self._expected(role, stream, arriving),
            self._stored_sample(role, stream),
            self._samples[role.other],
            stored.choice,
            batch=self._batches.get(role, BATCH),
            slide=self._query.window.slide_rows,
            pairless=self._pairless,
        )
        if choice.layout is stored.choice.layout:
            stored.choice = choice
        else:
            stored.move(choice)
            self._counters.replans += 1

    def _stored_sample(self, role: Side, stream: Stream) -> Keys:
        """A sample of a stored side: recent keys; with aggregates the times of stored rows.

        Rows that arrive together are near in time, which is all that a pair asks. A left row with
        aggregates looks back only, and would see nothing of right rows that arrive with it.
        """
        found = self._samples[role]
        if not self._query.aggregates or stream.times is None or found.times is None:
            return found
        held = stream.times.values
        if not held.size:
            return found
        times = held[np.linspace(0, held.size - 1, found.times.size).astype(np.int64)]
        return Keys(found.side, found.keys, times, found.count)

    def _expected(self, role: Side, stream: Stream | None, arriving: int = 0) -> float:
        """Rows that the window will hold: known for counts, observed otherwise."""
        known = self._query.window.expected(role)
        if known is not None:
            return float(known)
        return 100_000.0 if stream is None else float(max(len(stream.rows) + arriving, 1000))
