"""A push, as one straight line:

    keys     compute what is compared of every fresh row       ``keyed``; may fail, changes nothing
    admit    drop late rows; rows wait for their turn          ``lifetime``, ``collector``
    ask      due rows probe the stored rows of the other side  ``probe``, ``emit``
    store    due rows are stored, old rows leave the index     ``stream``
    expire   rows that nothing can meet any more leave         ``lifetime``
    emit     return the parts of the output, to be read        ``emit``

The engine is composed of a *lifetime* (which rows wait, meet and leave, by the kind of window), an
*emitter* (what is returned for matches) and a *collector* (which gathers small pushes). The caller
supplies global facts, such as the frontier of event time, with every push (``Outside``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np
import pyarrow as pa

from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.data.number_columns import numbers
from thetastream.engine.collector import Collector
from thetastream.engine.emit.aggregates import Aggregates
from thetastream.engine.emit.base import Emitter, Task
from thetastream.engine.emit.bounded import Counts, RangeRecords
from thetastream.engine.emit.pairs import Pairs
from thetastream.engine.lifetime.base import Setting, lifetime_of
from thetastream.engine.outside import Outside
from thetastream.engine.parts.batches import OutputPart
from thetastream.engine.planner import Planner
from thetastream.engine.probe import Probe
from thetastream.engine.query import Query, Traits
from thetastream.engine.single_key import check_ranges
from thetastream.engine.stream import Stream
from thetastream.metrics import Counters, SideCounters
from thetastream.output_mode import Output
from thetastream.shape import OutputShape, fixed_shape
from thetastream.side import Side

_BOUNDED: dict[Output, type[Emitter]] = {Output.COUNT: Counts, Output.RANGES: RangeRecords}


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push: parts of the output, and the rows it stored."""

    parts: list[OutputPart]
    stored: list[Fresh] = field(default_factory=list)


class Meeting(Protocol):
    """Another way to probe and store due rows than a batch at a time."""

    def meet(self, due: Sequence[Fresh]) -> list[OutputPart]:
        """Match the rows and store them in their streams."""


def shape_of(query: Query, schemas: Mapping[Side, pa.Schema]) -> OutputShape:
    """The output columns of a query."""
    fixed = fixed_shape(query.output)
    if fixed is not None:
        return fixed
    left, right = schemas[Side.LEFT], schemas[Side.RIGHT]
    return OutputShape.of(left, right, query.how, query.suffix, query.columns, query.aggregates)


class Engine:
    """The state of a join whose columns are known.

    ``skipped`` counts the rows of each side that left the window before the columns were known.
    ``meeting`` makes a ``Meeting``, which replaces the indexes of the streams.
    """

    def __init__(
        self,
        query: Query,
        binding: Binding,
        counters: Counters,
        side_counters: Mapping[Side, SideCounters],
        skipped: Mapping[Side, int],
        traits: Traits | None = None,
        meeting: Callable[[Engine], Meeting] | None = None,
    ) -> None:
        self.query = query
        self.binding = binding
        self.traits = traits or Traits()
        self.shape = shape_of(query, binding.schemas)
        self.counters = counters
        self._side_counters = side_counters
        if query.output is Output.RANGES:
            check_ranges(binding)
        self._numbered = dict(skipped)
        self._roles = {side: query.roles(side) for side in query.streams}
        self._stores = {side: query.stores(side) for side in query.streams}
        self._folded = {side: self._measured(side) for side in query.streams}
        self.streams = {side: self._new_stream(side, skipped[side]) for side in query.streams}
        # A self-joined stream is found under both roles.
        self.by_role = {side: self.streams.get(side, self.streams[Side.LEFT]) for side in Side}
        self.collector = Collector(query, skipped) if query.collects else None
        self.lifetime = lifetime_of(
            Setting(query, binding, self.streams, side_counters, self.collector)
        )
        task = Task(query, binding, self.traits, self.shape, counters, self.by_role)
        self.mirrored = task.mirrored
        emitter = Aggregates if query.aggregates else _BOUNDED.get(query.output, Pairs)
        self._emitter = emitter(task)
        self._weight = 2 if task.mirrored else 1
        self.planner = Planner(query, binding, counters)
        if meeting is None:
            for side, stream in self.streams.items():
                for role in self._indexed(side):
                    stream.index_as(role, self.planner.first(role))
        self._asked = {side: self._asked_roles(side) for side in self.streams}
        self._kept = {
            side: [r for r in query.roles(side) if query.always_returns(r) and r in stream.matched]
            for side, stream in self.streams.items()
        }
        self._meeting = None if meeting is None else meeting(self)

    def _new_stream(self, side: Side, first: int) -> Stream:
        query, schema = self.query, self.binding.schemas[side]
        columns = self._payload(side)
        stream = Stream(
            schema,
            [name for name in schema.names if name in columns],
            timed=bool(self.binding.time_columns),
            tracked=query.tracked(side),
            first=first,
            placed=self.traits.placed,
            copied=self.traits.led in query.roles(side),
            numbered=self._numbers_differ,
            measured=self._folded[side],
            ordered={name for role in query.roles(side) for name in self.binding.in_order(role)},
        )
        stream.sweeps = self.traits.renumbers
        return stream

    def _payload(self, side: Side) -> set[str]:
        """The columns that a stream stores: those of the output and those of residuals.

        Left rows that probe later also keep the columns they probe with.
        """
        query, roles = self.query, self.query.roles(side)
        columns = {
            name for node in self.binding.residuals for r in roles for name in node.columns(r)
        }
        if query.aggregates and side is Side.RIGHT:
            return columns
        if not query.output.numbered:
            columns.update(name for role in roles for name in self.shape.names(role))
        if query.aggregates:
            columns.update(query.predicate.columns(side))
            columns.update(name for s, name in self.binding.time_columns.items() if s is side)
        return columns

    def _measured(self, side: Side) -> dict[str, str]:
        """The columns of a stream that are folded, and their names in messages."""
        if side is Side.LEFT:
            return {}
        names = [one.column for one in self.query.aggregates if one.column is not None]
        return {name: f"{side.alias}.{name}" for name in names}

    def _indexed(self, side: Side) -> tuple[Side, ...]:
        """The roles in which a stream needs an index."""
        if side is Side.LEFT and (self.query.aggregates or self.lifetime.one_way):
            return ()  # nothing looks for left rows
        return (side,) if self.mirrored else self.query.roles(side)

    def _asked_roles(self, side: Side) -> list[tuple[Side, Side]]:
        """The side on which rows of a stream probe, and the role of the rows they probe."""
        if not self.query.asks(side) or (side is Side.RIGHT and self.lifetime.one_way):
            return []
        if not self.query.self_join:
            return [(side, side.other)]
        return [(role.other, role) for role in self.streams[side].indexes]

    # --- Before anything changes ----------------------------------------------------------------

    def keyed(self, batches: Sequence[tuple[Side, pa.RecordBatch]]) -> list[Fresh]:
        """Compute keys, times and ranks of fresh rows. Bad input raises before a state changes."""
        started = perf_counter()
        fresh = []
        for side, batch in batches:
            for name, what in self._folded[side].items():
                if pa.types.is_decimal(batch.schema.field(name).type):
                    numbers(batch.column(name), what)  # refuse values that no fold can take
            keys = self.binding.keys
            roles = {role: keys(role, batch) for role in self._roles[side]}
            fresh.append(Fresh(side, batch, roles))
        ranked = self.lifetime.ranked(fresh)
        self.counters.seconds["keys"] += perf_counter() - started
        return ranked

    def restore(self, stored: Sequence[Fresh]) -> None:
        """Restore rows that were stored before, at most one value per stream.

        Layouts are chosen from the keys of all of them, then each index is built, once.
        """
        firsts = [self.append(rows) for rows in stored]
        started = perf_counter()
        self.planner.resume(stored, self.by_role)
        self.counters.seconds["plan"] += perf_counter() - started
        for rows, first in zip(stored, firsts, strict=True):
            self._index(rows, first, self.streams[rows.side].rows.first)

    # --- One push -------------------------------------------------------------------------------

    def push(self, fresh: Sequence[Fresh], outside: Outside) -> Pushed:
        """Process fresh rows; return the parts of the output that follow, and the rows stored."""
        if self._numbers_differ:
            fresh = [self._number(rows) for rows in fresh]
        for rows in fresh:
            self._count(rows)
        rows_in = self.lifetime.admit(fresh, outside)
        waits = False
        if self.collector is not None:
            rows_in = self.collector.collect(rows_in, outside.now)
            waits = not rows_in  # no row is due while the rows that decide it are being collected
        due = [] if waits else self.lifetime.due(rows_in)
        parts = self._arrive(due)
        if self.counters.pushes % 8 == 0:
            self._measure()
        return Pushed(parts, [rows for rows in due if rows.batch.num_rows])

    def finish(self) -> Pushed:
        """End the streams: process the waiting rows and emit the unmatched ones."""
        rest = [] if self.collector is None else self.collector.rest()
        due = self.lifetime.due(rest, last=True)
        parts = self._arrive(due)
        for side, stream in self.streams.items():
            for role in self._kept[side]:
                parts += self._emitter.final(role, stream.unmatched(role, stream.rows.next))
            self.lifetime.end(side)
        self._emitter.close()
        return Pushed(parts, [rows for rows in due if rows.count])

    def _arrive(self, due: Sequence[Fresh]) -> list[OutputPart]:
        """Probe with due rows and store them; expire rows that nothing can meet any more."""
        lifetime = self.lifetime
        parts: list[OutputPart] = []
        if self._meeting is not None:
            parts += self._meeting.meet(due)
        else:
            started = perf_counter()
            self.planner.push(due, self.by_role)
            self.counters.seconds["plan"] += perf_counter() - started
            if lifetime.looks_back:
                firsts = [self._store(rows) for rows in due]
                for rows, first in zip(due, firsts, strict=True):
                    parts += self._ask(rows, first)
            else:
                for rows in due:
                    parts += self._ask_and_store(rows)
                if lifetime.eager:
                    return parts
        for side in self.streams:
            parts += self._leave(side)
        return parts

    def append(self, rows: Fresh) -> int:
        """Store the payload of rows; return the id of the first."""
        if not self._stores[rows.side]:
            return 0
        started = perf_counter()
        first = self.streams[rows.side].append(rows)
        self.counters.seconds["insert"] += perf_counter() - started
        return first

    def _store(self, rows: Fresh) -> int:
        """Store rows and index them; return the id of the first."""
        first = self.append(rows)
        self._index(rows, first, self.streams[rows.side].rows.first)
        return first

    def _index(self, rows: Fresh, first: int, before: int) -> None:
        started = perf_counter()
        for role, role_index in self.streams[rows.side].indexes.items():
            role_index.replace(rows.roles[role], first, before)
        self.counters.seconds["insert"] += perf_counter() - started

    def _ask_and_store(self, rows: Fresh) -> list[OutputPart]:
        """Probe the other side with rows, then store them."""
        side, lifetime = rows.side, self.lifetime
        first = self.append(rows)
        parts = self._ask(rows, first)
        if not lifetime.eager:
            self._index(rows, first, self.streams[side].rows.first)
            return parts
        before, stream = lifetime.floor(side), self.streams[side]
        self._index(rows, first, before)
        for role in self._kept[side]:
            parts += self._emitter.final(role, stream.unmatched(role, before))
        started = perf_counter()
        stream.expire(before)
        self.counters.seconds["expire"] += perf_counter() - started
        return parts

    def _ask(self, rows: Fresh, first: int) -> list[OutputPart]:
        """Probe stored rows with fresh ones, whose ids are ``first …``."""
        parts: list[OutputPart] = []
        for side, role in self._asked[rows.side]:
            stream = self.by_role[role]
            seen = self.lifetime.sees(rows, first, role)
            probe = None
            if rows.batch.num_rows and stream.rows.next > stream.rows.first:
                facts = (self.binding, rows, first, side, stream, self.counters)
                probe = Probe(*facts, seen, self.query.batch_rows, self._weight)
            parts += self._emitter.answer(rows, probe)
        return parts

    def _leave(self, side: Side) -> list[OutputPart]:
        """Emit the unmatched rows among those that nothing can meet any more, and drop them all."""
        parts: list[OutputPart] = []
        for role in self._kept[side]:
            parts += self._emitter.final(role, self.lifetime.final(side, role))
        started = perf_counter()
        self.lifetime.forget(side)
        self.counters.seconds["expire"] += perf_counter() - started
        return parts

    # --- Counting -------------------------------------------------------------------------------

    @property
    def _numbers_differ(self) -> bool:
        """Whether arrival numbers are returned and differ from ids, by late rows and sweeps."""
        return self.query.output.numbered and self.query.window.timed

    def _number(self, rows: Fresh) -> Fresh:
        """Assign arrival numbers to rows, late ones included."""
        first = self._numbered[rows.side]
        self._numbered[rows.side] = first + rows.count
        return rows.placed(numbers=np.arange(first, first + rows.count))

    def _count(self, rows: Fresh) -> None:
        counters, keys = self._side_counters[rows.side], rows.roles[rows.side]
        counters.null_keys += keys.null_keys
        counters.nan_keys += keys.nan_keys
        counters.empty_intervals += keys.empty_intervals
        if keys.timed is not None:
            counters.null_times += int(np.count_nonzero(~keys.timed))

    def _measure(self) -> None:
        size = sum(stream.nbytes for stream in self.streams.values())
        self.counters.peak_bytes = max(self.counters.peak_bytes, size)

    def waiting_rows(self, side: Side) -> int:
        """Rows of a side that have arrived and are not processed yet."""
        collected = 0 if self.collector is None else self.collector.rows(side)
        return self.lifetime.waiting_rows(side) + collected

    def check(self) -> None:
        """Assert every invariant. For tests."""
        for stream in self.streams.values():
            stream.check()
        if self.collector is not None:
            self.collector.check()
        self.lifetime.check()
