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
from thetastream.plan.choice import BATCH, appraise, choose, sample
from thetastream.plan.estimate import Estimate, Traffic
from thetastream.plan.layout import Layout
from thetastream.plan.learned import Learned
from thetastream.side import Side

_OFTEN = 16
_ROWS = 1 << 14  # that must have come or asked, before the next look at a plan
_ASKED, _SECONDS = 1 << 10, 0.2  # rows and processor time from which measured costs tell something
_FAR = 2.0  # how far apart estimate and measured cost are, for a plan to be made anew at once


class Planner:
    """Chooses layouts, first by the kind of terms, then by observed keys and measured costs.

    Keys are looked at before the first push that asks an index, and then whenever four times as
    many rows were stored in it or have asked it, ``_ROWS`` at least; or when what is measured is
    far from the estimate.
    """

    def __init__(self, query: Query, binding: Binding, counters: Counters) -> None:
        self._query = query
        self._binding = binding
        self._counters = counters
        self._tactic = query.dealt_tactic
        self._pairless = bool(query.output.bounded or query.aggregates) and settled(binding)
        self._samples: dict[Side, Keys] = {}
        self._batches: dict[Side, float] = {}  # rows of a push, on average of late
        self._learned = {role: Learned() for role in Side}
        self._pushes = dict.fromkeys(Side, 0)
        self._passed = dict.fromkeys(Side, 0)  # rows stored in the index of a role, or asking it
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
                self._passed[role] += count
                self._passed[asked] += count
                if asked in streams[asked].stored and self._is_due(asked, streams[asked]):
                    due.append(asked)
        if due and len(self._samples) == len(Side):
            arriving = {rows.side: rows.batch.num_rows for rows in fresh}
            for role in due:
                self._review(role, streams, arriving.get(role, 0))

    def appraised(self, role: Side, streams: Mapping[Side, Stream], batch: float) -> Estimate:
        """What the present layout is expected to cost now, in pushes of ``batch`` rows."""
        stream = streams[role]
        traffic = Traffic(self._expected(role, stream), batch)
        samples = self._stored_sample(role, stream), self._samples[role.other]
        opposite = _settled_layout(role.other, streams)
        return appraise(self._binding, stream.stored[role].choice, traffic, *samples, opposite)

    def _is_due(self, role: Side, stream: Stream) -> bool:
        if self._passed[role] >= self._due[role]:
            return True
        if self._pushes[role.other] % _OFTEN:
            return False
        stored = stream.stored[role]
        measured = self._measured(stream, stored)
        apart = 1.0 if measured is None else measured / max(stored.choice.best.nanoseconds, 1e-9)
        return not 1 / _FAR <= apart <= _FAR

    def _measured(self, stream: Stream, stored: Stored) -> float | None:
        """Nanoseconds per row since the plan was made.

        None if that was little work, if the window was still filling, or if a pool of threads asks.
        """
        spent = stored.spent
        much = spent.asked >= _ASKED and spent.probe + spent.insert >= _SECONDS
        full = 2 * len(stream.rows) >= stored.choice.rows
        return spent.per_row if much and full and self._query.threads == 1 else None

    def _review(self, role: Side, streams: Mapping[Side, Stream], arriving: int) -> None:
        self._due[role] = max(4 * self._passed[role], _ROWS)
        stream = streams[role]
        stored, learned = stream.stored[role], self._learned[role]
        measured = self._measured(stream, stored)
        if measured is not None:
            learned.note(stored.choice.best, measured)
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
            learned=learned,
            opposite=_settled_layout(role.other, streams),
        )
        if choice.layout is stored.choice.layout:
            stored.keep(choice)
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


def _settled_layout(role: Side, streams: Mapping[Side, Stream]) -> Layout | None:
    """The layout of a stored side, if it was chosen from observed keys."""
    stored = streams[role].stored.get(role)
    return stored.layout if stored is not None and stored.choice.sampled else None
