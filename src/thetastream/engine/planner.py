"""Review plans: sample recent keys, and move an index when another layout is cheaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.boxes.keys import Keys
from thetastream.engine.query import Query
from thetastream.engine.single_key import settled
from thetastream.engine.stream import RoleIndex, Stream
from thetastream.metrics import Counters, Spent
from thetastream.plan.choice import BATCH, appraise, choose, sample
from thetastream.plan.estimate import Estimate, Traffic
from thetastream.plan.layout import Layout
from thetastream.plan.learned import Learned
from thetastream.side import Side

_OFTEN = 16
_ROWS = 1 << 14  # rows that must have arrived or probed before a plan is reviewed again
_ASKED, _SECONDS = 1 << 10, 0.2  # probing rows and processor time that a measured cost needs
_FAR = 2.0  # ratio of measured cost to estimate at which a plan is reviewed at once


LARGEST = float(1 << 24)  # rows for which an index makes room before they come


class Planner:
    """Chooses layouts, first by the kind of terms, then by observed keys and measured costs.

    A plan is reviewed before the first push that probes the index, then whenever four times as many
    rows (at least ``_ROWS``) were stored in it or have probed it, and when the measured cost is far
    from the estimate.
    """

    def __init__(self, query: Query, binding: Binding, counters: Counters) -> None:
        self._query = query
        self._binding = binding
        self._counters = counters
        self._tactic = query.dealt_tactic
        self._pairless = bool(query.output.bounded or query.aggregates) and settled(binding)
        self._samples: dict[Side, Keys] = {}
        self._batches: dict[Side, float] = {}  # rows per push, a moving average
        self._learned = {role: Learned() for role in Side}
        self._pushes = dict.fromkeys(Side, 0)
        self._passed = dict.fromkeys(Side, 0)  # rows that entered or probed a role's index
        self._due = dict.fromkeys(Side, 1)

    def first(self, role: Side) -> RoleIndex:
        """Make an empty index for rows in a role, before any row is known."""
        rows = self._expected(role, None)
        slide, pairless = self._query.window.slide_rows, self._pairless
        choice = choose(self._binding, role, self._tactic, rows, slide=slide, pairless=pairless)
        return RoleIndex(choice, round(min(max(1.0, rows), LARGEST)))

    def push(self, fresh: Sequence[Fresh], streams: Mapping[Side, Stream]) -> None:
        """Before a push: review the plans of the indexes that it probes.

        The first pushes are all sampled, later ones now and then.
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
                asked = role.other
                self._passed[role] += count
                self._passed[asked] += count
                if asked in streams[asked].indexes and self._is_due(asked, streams[asked]):
                    due.append(asked)
        if due and len(self._samples) == len(Side):
            arriving = {rows.side: rows.batch.num_rows for rows in fresh}
            for role in due:
                self._review(role, streams, arriving.get(role, 0))

    def resume(self, stored: Sequence[Fresh], streams: Mapping[Side, Stream]) -> None:
        """Choose layouts for rows about to be restored, if their indexes are still empty."""
        for rows in stored:
            for role, keys in rows.roles.items():
                self._samples[role] = sample(keys)
                self._passed[role] += rows.count
        if len(self._samples) < len(Side):
            return
        for role, stream in streams.items():
            if role in stream.indexes and not len(stream.indexes[role].index):
                self._review(role, streams, 0)

    def appraised(self, role: Side, streams: Mapping[Side, Stream], batch: float) -> Estimate:
        """Estimate the cost of the present layout, in pushes of ``batch`` rows."""
        stream = streams[role]
        traffic = Traffic(self._expected(role, stream), batch)
        samples = self._stored_sample(role, stream), self._samples[role.other]
        opposite = _settled_layout(role.other, streams)
        return appraise(self._binding, stream.indexes[role].choice, traffic, *samples, opposite)

    def _is_due(self, role: Side, stream: Stream) -> bool:
        if self._passed[role] >= self._due[role]:
            return True
        if self._pushes[role.other] % _OFTEN:
            return False
        role_index = stream.indexes[role]
        if not _is_full(stream, role_index):
            role_index.spent = Spent()  # rows in a small window are cheaper than estimated
            return False
        measured = self._measured(stream, role_index)
        if measured is None:
            return False
        return not 1 / _FAR <= measured / max(role_index.choice.best.nanoseconds, 1e-9) <= _FAR

    def _measured(self, stream: Stream, role_index: RoleIndex) -> float | None:
        """Nanoseconds per row since the plan was made and the window was full.

        None if there was little work, the window was still filling, or several threads probe.
        """
        spent = role_index.spent
        much = spent.asked >= _ASKED and spent.probe + spent.insert >= _SECONDS
        alone = self._query.threads == 1
        return spent.per_row if much and alone and _is_full(stream, role_index) else None

    def _review(self, role: Side, streams: Mapping[Side, Stream], arriving: int) -> None:
        self._due[role] = max(4 * self._passed[role], _ROWS)
        stream = streams[role]
        role_index, learned = stream.indexes[role], self._learned[role]
        measured = self._measured(stream, role_index)
        if measured is not None:
            learned.note(role_index.choice.best, measured)
        expected = self._expected(role, stream, arriving)
        choice = choose(
            self._binding,
            role,
            self._tactic,
            expected,
            self._stored_sample(role, stream),
            self._samples[role.other],
            role_index.choice,
            batch=self._batches.get(role, BATCH),
            slide=self._query.window.slide_rows,
            pairless=self._pairless,
            learned=learned,
            opposite=_settled_layout(role.other, streams),
            filled=len(stream.rows) / expected,
        )
        if choice.layout is role_index.choice.layout:
            role_index.keep(choice)
        else:
            self._counters.replans += bool(len(role_index.index))
            role_index.move(choice)

    def _stored_sample(self, role: Side, stream: Stream) -> Keys:
        """Sample a stored side: recent keys and, with aggregates, the times of stored rows.

        For pairs, recent times suffice: rows that arrive together are near in time. A left row with
        aggregates looks back only, so it would not see the right rows that arrive with it.
        """
        recent = self._samples[role]
        if not self._query.aggregates or stream.times is None or recent.times is None:
            return recent
        stored = stream.times.values
        if not stored.size:
            return recent
        times = stored[np.linspace(0, stored.size - 1, recent.times.size).astype(np.int64)]
        return Keys(recent.side, recent.keys, times, recent.count)

    def _expected(self, role: Side, stream: Stream | None, arriving: int = 0) -> float:
        """Rows the window will hold: known for a count window, otherwise observed."""
        known = self._query.window.expected(role)
        if known is not None:
            return float(known)
        return 100_000.0 if stream is None else float(max(len(stream.rows) + arriving, 1000))


def _is_full(stream: Stream, role_index: RoleIndex) -> bool:
    """Whether the window holds at least half of the rows that its plan was made for."""
    return 2 * len(stream.rows) >= role_index.choice.rows


def _settled_layout(role: Side, streams: Mapping[Side, Stream]) -> Layout | None:
    """The layout of a stored side, if it was chosen from observed keys."""
    index = streams[role].indexes.get(role)
    return index.layout if index is not None and index.choice.sampled else None
