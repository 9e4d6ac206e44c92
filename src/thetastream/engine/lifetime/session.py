"""Sessions at work: rows wait until their session is over, and then meet the rows of it.

A session is over when the frontier lies more than ``gap`` behind its last row: no row that may
still come continues it. Its rows are stored in the order of sessions, so that the rows of one
session have neighbouring ids, and every row looks at an interval of ids. Then all of them leave.

    waiting, by event time      1 2 3 6 9 │ 15 16 │ 24        gap 3, frontier 20
    over                        └───────┘   └───┘             24 waits on
    ids, session by session     7 8 9 …     12 13

Open sessions are looked at when one can have ended. That costs O(w log w) for w waiting rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.arrival import Waiting
from thetastream.boxes.fresh import Fresh
from thetastream.data.batch import plain, to_keys
from thetastream.engine.lifetime.base import Interval, Lifetime, Setting
from thetastream.engine.lifetime.time import without_late
from thetastream.engine.outside import Outside
from thetastream.schema import Domain, KeyKind, common_domain
from thetastream.side import Side
from thetastream.window.lengths import MAX, saturating_add

_NONE = -1  # the session of rows that have none: no event time, or no key


class BySession(Lifetime):
    """Rows wait for the end of their session, and look at the rows of it."""

    def __init__(self, facts: Setting) -> None:
        super().__init__(facts)
        self.looks_back = True
        self.one_way = not facts.query.self_join  # both rows of a pair are due at the same time
        self.waiting = {side: Waiting() for side in facts.query.streams}
        self._bound = facts.binding.bound
        self._frontier: int | None = None
        self._ends = MAX  # no waiting session ends before the frontier is above this
        self._sessions = {side: np.empty(0, np.int64) for side in facts.query.streams}
        self._key_domain: Domain | None = None
        if self.window.by is not None:
            columns = zip(Side, self.window.by, strict=True)
            kinds = [facts.binding.schemas[side].field(name).type for side, name in columns]
            what = f"session key {self.window.by}"
            self._key_domain = common_domain(kinds[0], kinds[1], what)

    def admit(self, fresh: Sequence[Fresh], outside: Outside) -> Sequence[Fresh]:
        self._frontier = outside.frontier
        return without_late(fresh, outside.late, self._facts.counters)

    def due(self, fresh: Sequence[Fresh], *, last: bool = False) -> Sequence[Fresh]:
        for rows in fresh:
            self.waiting[rows.side].add(rows)
            times = rows.keys.known_times()
            if times.size:
                self._ends = min(self._ends, int(saturating_add(times.min(), self._bound.gap)))
        frontier = MAX if last else self._frontier
        if not last and (frontier is None or frontier <= self._ends):
            return []
        waiting = {side: waiting.rows for side, waiting in self.waiting.items()}
        whole = {side: rows for side, rows in waiting.items() if rows is not None}
        return self._released(whole, None if last else frontier) if whole else []

    def _released(self, whole: dict[Side, Fresh], frontier: int | None) -> list[Fresh]:
        """Take the rows of ended sessions out, in the order of sessions."""
        times = np.concatenate([_times(rows) for rows in whole.values()])
        keys, able = self._identities(whole)
        sessions, ends = _sessions(times, keys, able, self._bound.gap)
        over = np.ones(ends.size, np.bool_) if frontier is None else ends < frontier
        self._ends = int(ends[~over].min(initial=MAX))
        # Rows without a session, -1, have nothing to wait for.
        out = np.append(over, True)[sessions]
        released, start = [], 0
        for side, rows in whole.items():
            mine, leaves = (part[start : start + rows.count] for part in (sessions, out))
            start += rows.count
            at = np.flatnonzero(leaves)
            at = at[np.argsort(mine[at], kind="stable")]
            self._sessions[side] = mine[at]
            stays = np.flatnonzero(~leaves)
            self.waiting[side] = Waiting([rows.take(stays)] if stays.size else [])
            if at.size:
                released.append(rows.take(at))
        return released

    def _identities(self, whole: dict[Side, Fresh]) -> tuple[Array, Mask]:
        """A number per session key, and which rows belong to a session at all."""
        timed = [
            np.ones(rows.count, np.bool_) if rows.keys.timed is None else rows.keys.timed
            for rows in whole.values()
        ]
        able = np.concatenate(timed)
        if self._key_domain is None:
            return np.zeros(able.size, np.int64), able
        keys, known = self._numbers(whole, self._key_domain)
        return keys, able & known

    def _numbers(self, whole: dict[Side, Fresh], domain: Domain) -> tuple[Array, Mask]:
        """The column ``by`` of all rows as numbers, side by side, and where it is not NULL.

        Equal values have equal numbers on both sides.
        """
        names = {side: self.window.by[side.position] for side in whole}
        columns = {side: rows.batch.column(names[side]) for side, rows in whole.items()}
        if domain.kind is KeyKind.BYTES:
            return _encoded([plain(column) for column in columns.values()])
        pairs = [
            to_keys(column, domain, f"{side.alias}.{names[side]}")
            for side, column in columns.items()
        ]
        known = [np.ones(k.size, np.bool_) if v is None else v for k, v in pairs]
        return np.concatenate([keys for keys, _ in pairs]), np.concatenate(known)

    def sees(self, rows: Fresh, first: int, role: Side) -> Interval | None:
        mine = self._sessions[rows.side]
        other = rows.side if self._facts.query.self_join else role
        theirs = self._sessions[other]
        start = self.streams[other].rows.next - theirs.size
        lows = start + np.searchsorted(theirs, mine, "left")
        highs = start + np.searchsorted(theirs, mine, "right")
        if self._facts.query.self_join:
            highs = np.arange(first, first + rows.count)
        return lows, np.where(mine == _NONE, lows, highs)

    def floor(self, side: Side) -> int:
        """All stored rows have met all their partners."""
        return self.streams[side].rows.next

    def forget(self, side: Side) -> None:
        super().forget(side)
        self._sessions[side] = np.empty(0, np.int64)

    def waiting_rows(self, side: Side) -> int:
        return len(self.waiting[side]) if side in self.waiting else 0

    def check(self) -> None:
        for stream in self.streams.values():
            assert not len(stream.rows), "rows of a session leave when it is over"


def _encoded(columns: list[pa.Array]) -> tuple[Array, Mask]:
    """Strings or binary values, numbered by first appearance."""
    text = pa.types.is_string(columns[0].type) or pa.types.is_large_string(columns[0].type)
    text = text or pa.types.is_string_view(columns[0].type)
    wide = pa.large_string() if text else pa.large_binary()
    whole = pa.concat_arrays([column.cast(wide) for column in columns])
    known = whole.is_valid().to_numpy(zero_copy_only=False)
    codes = whole.dictionary_encode().indices.fill_null(0)
    return codes.cast(pa.int64()).to_numpy(), known


def _times(rows: Fresh) -> Array:
    assert rows.keys.times is not None
    return rows.keys.times


def _sessions(times: Array, keys: Array, able: Mask, gap: int) -> tuple[Array, Array]:
    """The session of every row, and the last event time that would continue each session."""
    sessions = np.full(times.size, _NONE)
    at = np.flatnonzero(able)
    order = at[np.lexsort((times[at], keys[at]))]
    if not order.size:
        return sessions, np.empty(0, np.int64)
    reach, key = saturating_add(times[order], gap), keys[order]
    new = (key[1:] != key[:-1]) | (reach[:-1] < times[order][1:])
    sessions[order] = np.concatenate([[0], np.cumsum(new)])
    return sessions, np.append(reach[:-1][new], reach[-1])
