"""Aggregates over matches: one row per left row, over the right rows that it sees.

A left row sees the right rows that are in its window when it arrives and satisfy the predicate.
Right rows are stored and indexed, and never ask anything; left rows ask once, and nothing ever
looks for them.

    count window   arrival is the order of pushes (left first), or of ranks: the row at ``c(x)``
                   sees the positions ``[c(x) - size, c(x))`` of the right side. It asks at once, or
                   when its rank has come, and is not stored.
    time window    arrival is event time: the row at ``t`` sees right rows with times
                   ``[t - size, t]``, whenever they come. It waits in its stream until the frontier
                   has passed it, for then no such row can come any more; then it asks.

So the answer does not depend on how streams are cut into pushes, nor, with a time window, on the
order of arrival within the lateness.

*Collecting.* When either buffer closes, both are processed, the right one first. Then every right
row that came before a collected left row is stored, and left rows look at positions below their
``c(x)``, or at event times: what they see is what they would have seen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.aggregate import Aggregate, Summary, check_aggregates, result_fields
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.data.measure import numbers
from thetastream.data.rows import BatchView
from thetastream.engine.aggregates.summarizer import Summarizer
from thetastream.engine.collect import Buffer
from thetastream.engine.engine import Engine, Rows
from thetastream.engine.output.batches import Part, Source
from thetastream.engine.probe import Probe
from thetastream.engine.query import Query
from thetastream.metrics import Counters, SideCounters
from thetastream.schema import output_schema, select
from thetastream.side import Side
from thetastream.window import CountWindow

__all__ = ["Aggregating", "aggregated_source", "unmatched_rows"]

Array = NDArray[np.int64]
_ASKED = 1 << 16  # waiting rows that ask at a time


class Aggregating(Engine):
    """The state of a join that gives aggregates of matches."""

    def __init__(
        self,
        query: Query,
        binding: Binding,
        counters: Counters,
        side_counters: dict[Side, SideCounters],
        skipped: Mapping[Side, int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(query, binding, counters, side_counters, skipped)
        self.buffers = {side: Buffer() for side in Side}
        self._clock = clock
        self._arrived = skipped[Side.RIGHT]
        kinds = {field.name: field.type for field in binding.schemas[Side.RIGHT]}
        self._summarizer = Summarizer(
            query.aggregates, kinds, self._source.schema, query.batch_rows, counters
        )

    # --- What is kept ---------------------------------------------------------------------------

    def _columns(self) -> Source:
        return aggregated_source(self.query, self.binding.schemas)

    def _payload(self, side: Side, source: Source) -> set[str]:
        """Left rows wait with all that they ask; of right rows residuals may need something."""
        columns = {name for node in self.binding.residuals for name in node.columns(side)}
        if side is Side.LEFT:
            columns.update(name for role, name in source.origin if role is side)
            columns.update(self.query.predicate.columns(side))
            columns.update(name for s, name in self.binding.time_columns.items() if s is side)
        return columns

    def _tracked(self, side: Side) -> list[Side]:
        """Which left rows have been answered; those of count windows are answered at once."""
        return [side] if side is Side.LEFT and self.binding.time is not None else []

    def _measured(self, side: Side) -> dict[str, str]:
        if side is Side.LEFT:
            return {}
        names = [found.column for found in self.query.aggregates if found.column is not None]
        return {name: f"{side.alias}.{name}" for name in names}

    def keyed(self, batches: dict[Side, pa.RecordBatch], lasts: dict[Side, int | None]) -> Rows:
        """See ``Engine``; a value that no fold can take is refused here, too."""
        if Side.RIGHT in batches:
            for name, what in self._measured(Side.RIGHT).items():
                column = batches[Side.RIGHT].column(name)
                if pa.types.is_decimal(column.type):
                    numbers(column, what)
        return super().keyed(batches, lasts)

    def horizon(self, side: Side) -> int | None:
        """See ``Engine``; a left row is done with once the frontier has passed it."""
        if side is Side.LEFT and self.binding.time is not None:
            return self._frontier()
        return super().horizon(side)

    # --- One push -------------------------------------------------------------------------------

    def process(self, fresh: Rows) -> list[Part]:
        """Take rows in; give the rows of the output that follow."""
        if not self.query.collects:
            return super().process(fresh)
        fresh = self._admitted(fresh)
        self._planner.look(fresh)
        if self.binding.time is not None:
            self._note_times(fresh)
        now = self._clock()
        for side in Side:
            if side in fresh and len(fresh[side]):
                self._collect(fresh[side], now)
        closed = any(buffer.due(self.query, now) for buffer in self.buffers.values())
        parts = self._process_collected() if closed else []
        self._measure()
        return parts

    def _arrive(self, rows: Fresh) -> list[Part]:
        """Left rows ask, or wait for the frontier; right rows are stored."""
        if rows.side is Side.RIGHT:
            return self._keep(rows, self._stored(self.streams[Side.RIGHT], rows))
        if self.binding.time is None:
            return self._ask(rows)
        self._stored(self.streams[Side.LEFT], rows)
        return []

    def _meet_ranked(self, due: dict[Side, tuple[Fresh, Array]]) -> list[Part]:
        if Side.RIGHT in due:
            self._store_ranked(due[Side.RIGHT][0])
        if Side.LEFT not in due:
            return []
        rows, ranks = due[Side.LEFT]
        return self._ask(rows, self._ranked_window(Side.LEFT, ranks))

    def _ask(self, rows: Fresh, window: tuple[Array, Array] | None = None) -> list[Part]:
        """The aggregates of left rows; ``window`` gives per row the right ids ``[low, high)``."""
        stream = self.streams[Side.RIGHT]
        columns = {name: column.view() for name, column in stream.measured.items()}
        probe = None
        if len(rows) and len(stream.rows):
            self._planner.review(Side.RIGHT, stream)
            stored = stream.stored[Side.RIGHT]
            views = {Side.LEFT: BatchView(rows.batch), Side.RIGHT: stream.rows.view()}
            limit = self.query.batch_rows
            probe = Probe(
                self.binding, rows, stored.choice.layout, stored.index, views, self._counters,
                window, limit,
            )  # fmt: skip
        return self._summarizer.summarize(rows.batch, probe, columns, self._matcher.pool)

    def finish(self) -> list[Part]:
        """The streams have ended: every left row that waits is answered."""
        parts = self._process_collected() if self.query.collects else []
        if self.query.ranked:
            parts += self._arrive_ranked({}, last=True)
        if self.binding.time is not None:
            left = self.streams[Side.LEFT]
            parts += self._answer(left.unmatched(Side.LEFT, left.rows.next))
        for side, stream in self.streams.items():
            self._expire(side, stream.rows.next)
        self._matcher.close()
        return parts

    # --- Event time -----------------------------------------------------------------------------

    def _expire_old(self) -> list[Part]:
        """Left rows that the frontier has passed ask; right rows that none can see leave."""
        frontier, time = self._frontier(), self.binding.time
        assert time is not None
        if frontier is None:
            return []
        left = self.streams[Side.LEFT]
        parts = self._answer(left.unmatched_older(Side.LEFT, frontier))
        bounds = {Side.LEFT: frontier, Side.RIGHT: time.expired_below(frontier, Side.RIGHT)}
        with self._counters.timed("expire"):
            for side, oldest in bounds.items():
                stream = self.streams[side]
                stream.expire(stream.first_younger(oldest))
                stream.expire_older(oldest)
                if not self.query.partitioned:  # there, ids must stay those of the saved rows
                    stream.sweep(oldest)
        return parts

    def _answer(self, ids: Array) -> list[Part]:
        """Waiting left rows ask, with keys computed anew from what was kept of them."""
        left, schema = self.streams[Side.LEFT], self.binding.schemas[Side.LEFT]
        names, view = left.rows.columns, left.rows.view()
        parts: list[Part] = []
        for start in range(0, ids.size, _ASKED):
            some = ids[start : start + _ASKED]
            with self._counters.timed("gather"):
                arrays = [view.take(name, some) for name in names]
            kept = pa.schema([schema.field(name) for name in names])
            batch = pa.RecordBatch.from_arrays(arrays, schema=kept)
            with self._counters.timed("keys"):
                rows = self.binding.fresh(Side.LEFT, batch)
            parts += self._ask(rows)
        return parts

    # --- Collecting -----------------------------------------------------------------------------

    def _collect(self, rows: Fresh, now: float) -> None:
        buffer = self.buffers[rows.side]
        if self.query.ranked:
            self.waiting[rows.side].add(rows)
            buffer.note(len(rows), now)
            return
        buffer.add({rows.side: rows}, self._arrived, now)
        if rows.side is Side.RIGHT:
            self._arrived += len(rows)

    def _process_collected(self) -> list[Part]:
        """All collected rows, of both sides; right rows first, as left rows look for them."""
        buffers = self.buffers
        self.buffers = {side: Buffer() for side in Side}
        if self.query.ranked:
            return self._arrive_ranked({}, last=False)
        window, stream = self.query.window, self.streams[Side.RIGHT]
        if buffers[Side.RIGHT].rows:
            rows = buffers[Side.RIGHT].batch[0][Side.RIGHT]
            first = self._stored(stream, rows)
            self._index(stream, Side.RIGHT, rows, first, stream.rows.first)
        parts: list[Part] = []
        if buffers[Side.LEFT].rows:
            batch, counts = buffers[Side.LEFT].batch
            if isinstance(window, CountWindow):
                seen = (window.oldest(counts, Side.RIGHT), counts)
                parts += self._ask(batch[Side.LEFT], seen)
            else:
                parts += self._arrive(batch[Side.LEFT])
        if isinstance(window, CountWindow):
            return parts + self._expire(Side.RIGHT, window.oldest(self._arrived, Side.RIGHT))
        return parts + self._expire_old()

    # --- About itself ---------------------------------------------------------------------------

    def waiting_rows(self, side: Side) -> int:
        """Rows of a side that are collected or wait for their turn."""
        collected = 0 if self.query.ranked else self.buffers[side].rows
        return super().waiting_rows(side) + collected

    def check(self) -> None:
        """Assert every invariant. For tests."""
        super().check()
        left = self.streams[Side.LEFT]
        assert not left.stored, "nothing looks for left rows"
        if self.binding.time is None:
            assert not len(left.rows), "left rows of a count window are not stored"
        elif not self.query.partitioned and (frontier := self._frontier()) is not None:
            times, given = left.times, left.matched[Side.LEFT].values
            assert times is not None
            assert self.query.collects or np.all(given == (times.values < frontier))


def aggregated_source(query: Query, schemas: Mapping[Side, pa.Schema]) -> Source:
    """The output columns of a join with aggregates; SchemaError for what cannot be aggregated."""
    right = schemas[Side.RIGHT]
    check_aggregates(query.aggregates, right, "the right side")
    fields = result_fields(query.aggregates, right)
    whole = output_schema(schemas[Side.LEFT], right, query.how, query.suffix, fields)
    return Source(*select(*whole, query.columns))


def unmatched_rows(query: Query, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Left rows of a join whose right side never came: nothing is known of its columns."""
    aggregates = {found.name: found for found in query.aggregates}
    zeros = pa.array(np.zeros(batch.num_rows, np.int64))
    columns = {
        name: zeros if found.function is Summary.COUNT else pa.nulls(batch.num_rows, _unseen(found))
        for name, found in aggregates.items()
    }
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    schema, _ = output_schema(batch.schema, None, query.how, query.suffix, fields)
    schema, origin = select(schema, [(Side.LEFT, name) for name in schema.names], query.columns)
    arrays = [columns[n] if n in columns else batch.column(n) for _, n in origin]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unseen(found: Aggregate) -> pa.DataType:
    """The type of an aggregate whose column was never seen."""
    return pa.float64() if found.function is Summary.MEAN else pa.null()
