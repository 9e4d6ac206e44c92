"""The steps of a push, for each kind of window.

Streams are stored in the order in which rows of a pair must find each other: the later row of a
pair, or the one that is processed later, probes the earlier one, so every pair is found once.

    count, time     left: append, probe right, index   then right: append, probe left, index
    count by rank   both: append, index                then both look back by their rank
    self-join       append, index                      then look back, in either role

Rows expire, and unmatched rows are emitted, when no row that may still come can meet them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.arrival import Census, Waiting, read_ranks, ready
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.engine.matcher import Matcher
from thetastream.engine.output.answer import check_ranges
from thetastream.engine.output.batches import NUMBERS, Part, Source
from thetastream.engine.planner import Planner
from thetastream.engine.query import Query
from thetastream.engine.stream import Stored, Stream
from thetastream.errors import SchemaError
from thetastream.metrics import Counters, SideCounters
from thetastream.output_mode import Output
from thetastream.schema import Domain, common_domain, output_schema, select
from thetastream.side import Side
from thetastream.window import CountWindow

__all__ = ["Engine", "order_domain"]

Array = NDArray[np.int64]
Rows = dict[Side, Fresh]


class Engine:
    """The state of a join whose columns are known.

    ``skipped`` rows of each side had left the window before the columns were known.

    One engine of a partitioned join sees some of the rows only. What follows from all of them is
    told it before each push: the ``frontier`` of event time, and the ``census`` of ranks. The rows
    that a push has stored are in its ``journal``; whoever saves them can ``restore`` them.
    """

    def __init__(
        self,
        query: Query,
        binding: Binding,
        counters: Counters,
        side_counters: dict[Side, SideCounters],
        skipped: Mapping[Side, int],
    ) -> None:
        self.query = query
        self.binding = binding
        self.waiting = {side: Waiting() for side in Side}
        self.census = {side: Census() for side in Side}
        self.frontier: int | None = None
        self.journal: list[Fresh] = []
        self._counters = counters
        self._side_counters = side_counters
        self._order = order_domain(query, binding)
        if query.output is Output.RANGES:
            check_ranges(binding)
        source = self._source = NUMBERS if query.output.numbered else self._columns()
        self._numbered = dict(skipped)
        self._planner = Planner(query, binding, counters)
        self._matcher = Matcher(query, binding, source, counters)
        self.streams = {s: self._new_stream(s, source, skipped[s]) for s in query.streams}
        # A self-joined stream is found under both roles.
        self._by_role = {side: self.streams.get(side, self.streams[Side.LEFT]) for side in Side}

    def _columns(self) -> Source:
        schemas, query = self.binding.schemas, self.query
        whole = output_schema(schemas[Side.LEFT], schemas[Side.RIGHT], query.how, query.suffix)
        return Source(*select(*whole, query.columns))

    def _new_stream(self, side: Side, source: Source, first: int) -> Stream:
        schema, columns = self.binding.schemas[side], self._payload(side, source)
        stream = Stream(
            schema,
            [name for name in schema.names if name in columns],
            timed=self.binding.time is not None,
            tracked=self._tracked(side),
            first=first,
            placed=self.query.partitioned and isinstance(self.query.window, CountWindow),
            copied=self.query.led in self.query.roles(side),
            numbered=self._numbers_differ,
            measured=self._measured(side),
        )
        stream.stored = self._indexes(side)
        return stream

    def _payload(self, side: Side, source: Source) -> set[str]:
        """The columns that a stream keeps: those of the output, and those of residuals."""
        roles = self.query.roles(side)
        columns = {
            name for node in self.binding.residuals for r in roles for name in node.columns(r)
        }
        if not self.query.output.numbered:
            columns.update(name for role, name in source.origin if role in roles)
        return columns

    def _tracked(self, side: Side) -> list[Side]:
        """The roles of a stream in which it is remembered whether a row has been dealt with."""
        return [role for role in self.query.roles(side) if self.query.how.tracks(role)]

    def _measured(self, side: Side) -> Mapping[str, str]:
        """The columns of a stream that are folded, and what they are called in messages."""
        return {}

    def _indexes(self, side: Side) -> dict[Side, Stored]:
        """The indexes of a stream, still empty."""
        return {role: self._planner.first(role) for role in self.query.indexed(side)}

    # --- Before anything changes ----------------------------------------------------------------

    def keyed(self, batches: dict[Side, pa.RecordBatch], lasts: dict[Side, int | None]) -> Rows:
        """Keys, times and ranks of fresh rows. Raises for bad input, before any change of state.

        ``lasts`` holds the last rank of each side and is moved on.
        """
        with self._counters.timed("keys"):
            if self.query.self_join and Side.LEFT in batches:
                batches = dict.fromkeys(Side, batches[Side.LEFT])
            found = {side: self.binding.fresh(side, batch) for side, batch in batches.items()}
            if self._order is not None:
                assert isinstance(self.query.window, CountWindow)
                assert self.query.window.order is not None
                for side, rows in found.items():
                    name = self.query.window.order[side.position]
                    rows.ranks = read_ranks(rows.batch, name, self._order, side, lasts[side])
                    if rows.ranks.size:
                        lasts[side] = int(rows.ranks[-1])
        return found

    def restore(self, fresh: Rows, matched: Mapping[Side, NDArray[np.bool_]]) -> None:
        """Take back rows that were stored before, with their match flags per role."""
        (side,) = {rows.side for rows in fresh.values()} & set(self.query.streams)
        stream = self.streams[side]
        first = self._append(stream, fresh[side])
        for role, flags in matched.items():
            ring = stream.matched[role]
            ring.values[first - ring.first :] = flags
        for role in stream.stored:
            self._index(stream, role, fresh[role], first, stream.rows.first)

    def horizon(self, side: Side) -> int | None:
        """Rows of a stream with an event time (or a position) below this meet nothing any more."""
        roles, window = self.query.roles(side), self.query.window
        if isinstance(window, CountWindow):
            census = self.census[side]
            count = census.seen if self.query.self_join else census.released
            return min(window.oldest(count, role) for role in roles)
        frontier, time = self._frontier(), self.binding.time
        assert time is not None
        if frontier is None:
            return None
        return min(time.expired_below(frontier, role) for role in roles)

    def waiting_rows(self, side: Side) -> int:
        """Rows of a side that were taken in and are not processed yet."""
        return len(self.waiting[side])

    def check(self) -> None:
        """Assert every invariant. For tests."""
        for stream in self.streams.values():
            stream.check()

    # --- One push -------------------------------------------------------------------------------

    def process(self, fresh: Rows) -> list[Part]:
        """Take rows in; give the parts of the output that follow."""
        fresh = self._admitted(fresh)
        parts = self._arrive_all(fresh)
        if self.binding.time is not None:
            self._note_times(fresh)
            parts += self._expire_old()
        self._measure()
        return parts

    @property
    def _numbers_differ(self) -> bool:
        """Whether arrival numbers are given and are not ids: late rows and sweeps part them."""
        return self.query.output.numbered and self.binding.time is not None

    def _number(self, fresh: Rows) -> None:
        """Give rows their arrival numbers, late ones included."""
        for side in self.query.streams:
            if side in fresh:
                first, count = self._numbered[side], len(fresh[side])
                for role in self.query.roles(side):
                    fresh[role].numbers = np.arange(first, first + count)
                self._numbered[side] = first + count

    def _admitted(self, fresh: Rows) -> Rows:
        """The rows that are not late; all of them are counted."""
        if self._numbers_differ:
            self._number(fresh)
        for side in self.query.streams:
            if side in fresh:
                self._count(side, fresh[side])
        if not self.query.partitioned:
            for side, rows in fresh.items():
                if rows.ranks is not None:
                    self.census[side].add(rows.ranks)
        return fresh if self.binding.time is None else self._without_late(fresh)

    def _measure(self) -> None:
        if self._counters.pushes % 8 == 0:
            held = sum(stream.nbytes for stream in self.streams.values())
            self._counters.peak_bytes = max(self._counters.peak_bytes, held)

    def finish(self) -> list[Part]:
        """The streams have ended: all that waits is processed, all that is unmatched is emitted."""
        parts = self._arrive_ranked({}, last=True) if self.query.ranked else []
        for side, stream in self.streams.items():
            parts += self._expire(side, stream.rows.next)
        self._matcher.close()
        return parts

    def _count(self, side: Side, rows: Fresh) -> None:
        counters = self._side_counters[side]
        counters.null_keys += rows.null_keys
        counters.nan_keys += rows.nan_keys
        if rows.timed is not None:
            counters.null_times += int(np.count_nonzero(~rows.timed))

    def _arrive_all(self, fresh: Rows) -> list[Part]:
        """Rows of all sides: be matched, and be stored."""
        self._planner.look(fresh)
        if self.query.self_join:
            return self._arrive_self(fresh)
        if self.query.ranked:
            return self._arrive_ranked(fresh, last=False)
        return [part for side in Side if side in fresh for part in self._arrive(fresh[side])]

    def _arrive(self, rows: Fresh) -> list[Part]:
        """Rows of one side: probe the other, then be stored."""
        side, stream = rows.side, self.streams[rows.side]
        first = self._stored(stream, rows)
        return self._match(rows, first, side.other) + self._keep(rows, first)

    def _keep(self, rows: Fresh, first: int) -> list[Part]:
        """Index stored rows, of ids ``first …``; rows that they push out of the window leave."""
        side, stream = rows.side, self.streams[rows.side]
        before = stream.rows.first
        if isinstance(self.query.window, CountWindow):
            before = max(before, self.query.window.oldest(stream.rows.next, side))
            # Expired first, so that merges leave the expired rows out.
            stream.stored[side].index.expire(before)
        self._index(stream, side, rows, first, before)
        return self._expire(side, before) if isinstance(self.query.window, CountWindow) else []

    def _arrive_self(self, fresh: Rows) -> list[Part]:
        """The later row of a pair finds the earlier one, in either role."""
        parts = self._match_self(fresh) if fresh else []
        window, stream = self.query.window, self.streams[Side.LEFT]
        if isinstance(window, CountWindow):
            seen = self.census[Side.LEFT].seen if self.query.partitioned else stream.rows.next
            oldest = min(window.oldest(seen, role) for role in Side)
            parts += self._expire(Side.LEFT, stream.first_at(oldest))
        return parts

    def _match_self(self, fresh: Rows) -> list[Part]:
        stream = self.streams[Side.LEFT]
        first = self._stored(stream, fresh[Side.LEFT])
        ids = np.arange(first, first + len(fresh[Side.LEFT]))
        positions = fresh[Side.LEFT].positions if self.query.partitioned else ids
        for role in stream.stored:
            self._index(stream, role, fresh[role], first, stream.rows.first)
        parts: list[Part] = []
        window = self.query.window
        for role in stream.stored:
            lows = np.full(ids.size, stream.rows.first)
            if isinstance(window, CountWindow):
                assert positions is not None
                lows = stream.first_at(window.oldest(positions, role))
            parts += self._match(fresh[role.other], first, role, (lows, ids))
        return parts

    def _arrive_ranked(self, fresh: Rows, *, last: bool) -> list[Part]:
        """Rows whose rank has come: both sides are stored first, then each looks back."""
        for side, rows in fresh.items():
            self.waiting[side].add(rows)
        shown = {side: self.census[side].last for side in Side}
        due: dict[Side, tuple[Fresh, Array]] = {}
        for side in Side:
            waiting = self.waiting[side]
            count = len(waiting) if last else ready(waiting.ranks, side, shown[side.other])
            released, ranks = waiting.release(count)
            if released is not None:
                due[side] = (released, ranks)
        parts = self._meet_ranked(due)
        window = self.query.window
        assert isinstance(window, CountWindow)
        for side in Side:
            census = self.census[side]
            pending = census.pending
            census.release(pending.size if last else ready(pending, side, shown[side.other]))
            oldest = window.oldest(census.released, side)
            parts += self._expire(side, self.streams[side].first_at(oldest))
        return parts

    def _meet_ranked(self, due: dict[Side, tuple[Fresh, Array]]) -> list[Part]:
        """Store and match rows whose turn has come; beside them their ranks."""
        firsts: dict[Side, int] = {}
        for side, (rows, _) in due.items():
            firsts[side] = self._store_ranked(rows)
        return [
            part
            for side, (rows, ranks) in due.items()
            for part in self._match(
                rows, firsts[side], side.other, self._ranked_window(side, ranks)
            )
        ]

    def _store_ranked(self, rows: Fresh) -> int:
        stream = self.streams[rows.side]
        first = self._stored(stream, rows)
        self._index(stream, rows.side, rows, first, stream.rows.first)
        return first

    def _ranked_window(self, side: Side, ranks: Array) -> tuple[Array, Array]:
        """The ids of the other side ``[low, high)`` that rows of these ranks look back on."""
        window, stored = self.query.window, self.streams[side.other]
        assert isinstance(window, CountWindow)
        counts = self.census[side.other].before(ranks, side)
        return stored.first_at(window.oldest(counts, side.other)), stored.first_at(counts)

    def _stored(self, stream: Stream, rows: Fresh) -> int:
        if self.query.partitioned:
            self.journal.append(rows)
        return self._append(stream, rows)

    def _append(self, stream: Stream, rows: Fresh) -> int:
        with self._counters.timed("insert"):
            return stream.append(rows)

    def _index(self, stream: Stream, role: Side, rows: Fresh, first: int, before: int) -> None:
        self._planner.note_insert(role, len(rows))
        with self._counters.timed("insert"):
            stream.stored[role].insert(rows, first, before)

    def _match(
        self, rows: Fresh, first: int, role: Side, window: tuple[Array, Array] | None = None
    ) -> list[Part]:
        stream = self._by_role[role]
        if not len(rows) or not len(stream.rows):
            return []
        self._planner.review(role, stream)
        return self._matcher.match(rows, first, role, self._by_role, window)

    def _expire(self, side: Side, before: int) -> list[Part]:
        """Rows below ``before`` meet nothing any more: emit the unmatched, forget them all."""
        stream = self.streams[side]
        parts: list[Part] = []
        for role in self.query.roles(side):
            if self.query.how.keeps(role):
                parts += self._matcher.rows(role, stream, stream.unmatched(role, before))
        with self._counters.timed("expire"):
            stream.expire(before)
        return parts

    # --- Event time -----------------------------------------------------------------------------

    def _frontier(self) -> int | None:
        """The smaller of both sides' largest event time, less the lateness; None before that."""
        assert self.binding.time is not None
        if self.query.partitioned:
            return self.frontier
        tops = [stream.max_time for stream in self.streams.values()]
        known = [top for top in tops if top is not None]
        return self.binding.time.frontier(min(known)) if len(known) == len(tops) else None

    def _without_late(self, fresh: Rows) -> Rows:
        frontier = self._frontier()
        if frontier is None:
            return fresh
        kept: Rows = {}
        for side, rows in fresh.items():
            assert rows.times is not None
            late = rows.times < frontier
            if rows.timed is not None:
                late &= rows.timed
            if late.any():
                if side in self.streams:
                    counted = late if rows.copies is None else late & ~rows.copies
                    self._side_counters[side].dropped += int(np.count_nonzero(counted))
                rows = rows.filter(~late)
            kept[side] = rows
        return kept

    def _note_times(self, fresh: Rows) -> None:
        for side, stream in self.streams.items():
            if side in fresh:
                stream.note_time(fresh[side])

    def _least_time(self, role: Side, frontier: int) -> int:
        """No row that is yet to be matched in a role has an event time below this."""
        return frontier

    def _expire_old(self) -> list[Part]:
        """Rows that the frontier has left behind are final."""
        frontier, time = self._frontier(), self.binding.time
        assert time is not None
        if frontier is None:
            return []
        parts: list[Part] = []
        for side, stream in self.streams.items():
            old = {
                role: time.expired_below(self._least_time(role.other, frontier), role)
                for role in self.query.roles(side)
            }
            for role, bound in old.items():
                if self.query.how.keeps(role):
                    ids = stream.unmatched_older(role, bound)
                    parts += self._matcher.rows(role, stream, ids)
            with self._counters.timed("expire"):
                oldest = min(old.values())
                stream.expire(stream.first_younger(oldest))
                stream.expire_older(oldest)
                if not self.query.partitioned:  # there, ids must stay those of the saved rows
                    stream.sweep(oldest)
        return parts


def order_domain(query: Query, binding: Binding) -> Domain | None:
    """How arrival ranks of both sides become comparable; None without an order."""
    if not isinstance(query.window, CountWindow) or query.window.order is None:
        return None
    names = query.window.order
    kinds = [binding.schemas[side].field(names[side.position]).type for side in Side]
    domain = common_domain(kinds[0], kinds[1], f"order {names}")
    if not domain.kind.is_ordered:
        raise SchemaError(f"the order columns must be numbers or times; got {kinds[0]}, {kinds[1]}")
    return domain
