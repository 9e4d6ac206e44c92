"""A join of two finite tables: one side is stored, the other is streamed past it.

    source ──▶ stored side ──▶ one index             built once, never changed
                                  ▲
    source ──▶ chunk ──▶ keys ──▶ boxes ──▶ pairs ──▶ rows of the output, in bounded pieces
               chunk …                                a chunk is forgotten when it is done

Only the stored side and its index are held, and two or three chunks. A row of the streamed side is
complete when its chunk is done: it is emitted alone, or as a semi row, right then. Flags, one byte
per stored row, remember which stored rows matched; those that are due are emitted at the end.

Threads take one chunk each, with all its steps; output stays in the order of the chunks. Cost:
O(s log s) to store s rows, one probe per streamed row, and the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Mask
from thetastream._jit.compiling import prepare
from thetastream.boxes import kernels as box_kernels
from thetastream.boxes.binding import Binding, bind, check_columns, refuse_untyped
from thetastream.boxes.fresh import Fresh
from thetastream.boxes.keys import Keys
from thetastream.data import kernels as data_kernels
from thetastream.data.batch import check_first, one_batch
from thetastream.data.frames import RowSource
from thetastream.data.results import Result
from thetastream.data.rows import BatchView, NumberView, RowsView, check_gatherable, gathered
from thetastream.display.facts import Facts
from thetastream.engine.engine import Engine, shape_of
from thetastream.engine.outside import Outside
from thetastream.engine.parts.batches import counted, rechunked
from thetastream.engine.probe import Probe
from thetastream.engine.query import Query
from thetastream.engine.report import explanation, row_bytes, snapshot, warn_of_nested_loop
from thetastream.engine.stream import RoleIndex, Stream
from thetastream.errors import SchemaError
from thetastream.metrics import Counters, Metrics, SideCounters
from thetastream.output_mode import Output
from thetastream.plan import kernels as plan_kernels
from thetastream.plan.choice import sample
from thetastream.plan.explanation import Explanation
from thetastream.side import How, Side
from thetastream.tables.progress import ProgressBar
from thetastream.tables.reading import chunks_of, measured, sample_of, typed
from thetastream.tables.threads import in_order
from thetastream.tables.ways import FiniteWay, ways


class FiniteJoin(Result):
    """The rows of a join of two finite tables, found while they are read.

    ``explain()`` says which side is stored and why, ``metrics()`` what was done so far. ``stored``
    and ``chunk`` overrule the plan: the stored side, and the rows streamed at a time.
    """

    def __init__(
        self,
        query: Query,
        sources: Mapping[Side, RowSource],
        *,
        progress: bool | None = None,
        stored: Side | None = None,
        chunk: int | None = None,
    ) -> None:
        prepare(data_kernels, box_kernels, plan_kernels)
        self._query = query
        schemas = {side: source.schema for side, source in sources.items()}
        for side, schema in schemas.items():
            check_first(schema, side.value)
            check_gatherable(schema, side.value)
            check_columns(query.predicate, query.window, side, schema)
        columns = {side: query.predicate.expression.columns(side) for side in Side}
        sources = typed(sources, columns, self._fits)
        schemas = {side: source.schema for side, source in sources.items()}
        for side, schema in schemas.items():
            refuse_untyped(query.predicate, query.window, side, schema)
        self._binding = bind(query.predicate, query.window, schemas, back=bool(query.aggregates))
        warn_of_nested_loop(query.predicate, query.tactic, self._binding, 4)
        self._shape = shape_of(query, schemas)
        self._sources = measured(sources)
        self.kind, self.types = sources[Side.LEFT].kind, sources[Side.LEFT].types
        self._samples, self._rows = self._sampled()
        self._way = self._plan(self._allowed(stored), self._samples)
        self._chunk = self._way.chunk if chunk is None else chunk
        self._counters = Counters()
        self._side_counters = {side: SideCounters() for side in Side}
        self._parts: list[Counters] = [self._counters]
        self._chunk_counters: list[SideCounters] = []  # of the streamed side
        self._streams: Mapping[Side, Stream] = {}
        self._progress = progress
        self._batches = self._run()

    @property
    def schema(self) -> pa.Schema:
        return self._shape.schema

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self._counters.output_rows += batch.num_rows
        return batch

    def explain(self, *, verbose: bool = False) -> Explanation:
        """Which side is stored and how, and why; ``verbose`` adds the plans that were rejected."""
        facts = dict(explanation(self._query, self._binding, [self._way.choice]).as_dict())
        stored = self._way.stored
        rows = self._sources[stored].rows
        size = row_bytes(self._binding.schemas[stored]) + 8 * (1 + self._way.choice.layout.columns)
        facts["window"] = "none: two finite tables"
        facts["way"] = self._way.as_dict()
        facts["memory"] = (
            f"about {size:,} bytes per {stored.value} row"
            + (f" × {rows:,} rows = {rows * size / 1e6:,.1f} MB" if rows is not None else "")
            + f"; the {stored.other.value} rows are streamed and not kept"
        )
        return Explanation.of(facts, verbose=verbose)

    def metrics(self) -> Metrics:
        """Counters, sizes and times so far."""
        whole = Counters()
        for part in self._parts:
            for name in ("pushes", "matches", "output_rows", "candidates"):
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
            for phase, seconds in part.seconds.items():
                whole.seconds[phase] += seconds
        sides = {side: replace(counters) for side, counters in self._side_counters.items()}
        for chunk in self._chunk_counters:
            _note(sides[self._way.stored.other], chunk)
        return snapshot(whole, sides, self._streams, dict.fromkeys(Side, 0), {})

    def _shown(self) -> tuple[str, Facts]:
        _, columns = super()._shown()
        how, stored = self._query.how.value, self._way.stored
        title = f"{how} join on {self._query.predicate}, {stored.value} side stored; columns:"
        return title, columns

    def _fits(self, schemas: Mapping[Side, pa.Schema]) -> bool:
        """Whether the condition can compare columns of these types."""
        try:
            bind(self._query.predicate, self._query.window, schemas)
        except SchemaError:
            return False
        return True

    # --- Planning -------------------------------------------------------------------------------

    def _sampled(self) -> tuple[dict[Side, Keys], dict[Side, float]]:
        """Some keys of both sides, and their rows; a side of unknown length is a long one."""
        samples, rows = {}, {}
        sources = self._sources
        for side in Side:
            sources[side], some = sample_of(sources[side], self._query.predicate.columns(side))
            samples[side] = sample(self._binding.keys(side, some))
            known = sources[side].rows
            rows[side] = float("inf") if known is None else float(known)
        most = 10 * max(size for size in rows.values() if size != float("inf"))
        return samples, {side: min(size, most) for side, size in rows.items()}

    def _allowed(self, stored: Side | None) -> list[Side]:
        """The sides that may be stored; one whose length is unknown is streamed."""
        if self._query.aggregates or self._query.output is Output.COUNT:
            return [Side.RIGHT]  # every left row has one answer
        if stored is not None:
            return [stored]
        return [side for side in Side if self._sources[side].rows is not None]

    def _plan(self, allowed: Iterable[Side], spanned: Mapping[Side, Keys]) -> FiniteWay:
        """The cheapest way, with boxes bounded by the spans of these rows."""
        facts = (self._query.dealt_tactic, self._rows, self._samples)
        planned: list[FiniteWay] = []
        for side in allowed:
            binding = self._binding
            if not self._query.aggregates:
                binding = binding.spanned(side, spanned[side])
            planned += ways(binding, *facts, [side])
        return min(planned, key=lambda way: way.seconds)

    def _settled(self, side: Side, keys: Keys) -> FiniteWay:
        """The way for all stored rows: their spans may be wider than those of the sample."""
        if not any(field.implied for field in self._way.choice.layout.fields):
            return self._way
        return self._plan([side], {side: keys})

    # --- Running --------------------------------------------------------------------------------

    def _run(self) -> Iterator[pa.RecordBatch]:
        stored = self._way.stored
        streamed = self._sources[stored.other]
        bar = ProgressBar(streamed.rows, self._progress)
        try:
            chunks = chunks_of(self._checked(stored.other, streamed), self._chunk)
            if self._query.aggregates:
                yield from self._aggregated(chunks, bar)
                return
            batch = self._read(stored)
            keys = self._binding.keys(stored, batch)
            self._way = self._settled(stored, keys)
            table = StoredSide(keys, self._way, batch, self._query)
            self._streams = {stored: table.stream}
            _note(self._side_counters[stored], table.fresh.keys)
            facts = (self._query, self._binding, self._shape, table)
            work = PastStored(*facts, self._parts, self._chunk_counters)
            yield from in_order(work.chunk, self._followed(chunks, bar), self._query.threads)
            yield from work.rest()
        finally:
            bar.end()

    def _read(self, side: Side) -> pa.RecordBatch:
        """All rows of the stored side as one batch; one chunk is not copied."""
        batch = one_batch(self._sources[side].read_all())
        self._side_counters[side].rows += batch.num_rows
        return batch

    def _checked(self, side: Side, source: RowSource) -> Iterator[pa.RecordBatch]:
        for batch in source.batches:
            self._side_counters[side].rows += batch.num_rows
            yield batch

    def _followed(
        self, chunks: Iterable[pa.RecordBatch], bar: ProgressBar
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The chunks with the number of their first row; shows the progress."""
        first = 0
        for chunk in chunks:
            bar.update(first, sum(part.matches for part in self._parts))
            yield first, chunk
            first += chunk.num_rows

    def _aggregated(
        self, chunks: Iterable[pa.RecordBatch], bar: ProgressBar
    ) -> Iterator[pa.RecordBatch]:
        """One row per left row: the engine of streams stores the right side only."""
        nothing = dict.fromkeys(Side, 0)
        counters = self._counters
        engine = Engine(self._query, self._binding, counters, self._side_counters, nothing)
        self._streams = engine.streams
        try:
            engine.push(engine.keyed([(Side.RIGHT, self._read(Side.RIGHT))]), Outside())
            for _, chunk in self._followed(chunks, bar):
                for part in engine.push(engine.keyed([(Side.LEFT, chunk)]), Outside()).parts:
                    while (batch := part.read()) is not None:
                        yield batch
        finally:
            engine.finish()


def _note(counters: SideCounters, more: Keys | SideCounters) -> None:
    """Add what is known of the keys of some rows."""
    counters.null_keys += more.null_keys
    counters.nan_keys += more.nan_keys
    counters.empty_intervals += more.empty_intervals


class StoredSide:
    """The stored side: its rows, their index, and which of them have matched."""

    def __init__(self, keys: Keys, way: FiniteWay, batch: pa.RecordBatch, query: Query) -> None:
        self.side = way.stored
        self.fresh = Fresh(self.side, batch, {self.side: keys})
        self.rows: RowsView = BatchView(batch)
        self.view: RowsView = NumberView() if query.output.numbered else self.rows
        self.stream = Stream(batch.schema, [], timed=False, tracked=[])
        self.stream.rows.append(batch)
        index = RoleIndex(way.choice, max(1, batch.num_rows))
        self.stream.index_as(self.side, index)
        index.replace(keys, 0, 0)
        self.matched: Mask | None = None
        if query.how.tracks(self.side):
            self.matched = np.zeros(batch.num_rows, np.bool_)


class PastStored:
    """Joins chunks of the streamed side with the stored one. Chunks are independent."""

    def __init__(
        self,
        query: Query,
        binding: Binding,
        shape: Any,
        stored: StoredSide,
        parts: list[Counters],
        chunks: list[SideCounters],
    ) -> None:
        self._query, self._binding, self._stored, self._parts = query, binding, stored, parts
        self._chunks = chunks
        self._schema, self._origin = shape.schema, shape.origin
        self._side = stored.side.other
        self._size, self._how = query.batch_rows, query.how

    def chunk(self, numbered: tuple[int, pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the output that follow from one chunk."""
        first, batch = numbered
        counters = Counters(pushes=1)
        self._parts.append(counters)
        side, how = self._side, self._how
        with counters.timed("keys"):
            fresh = Fresh(side, batch, {side: self._binding.keys(side, batch)})
        noted = SideCounters()
        _note(noted, fresh.keys)
        self._chunks.append(noted)
        probe = self._probe(fresh, counters)
        view = NumberView(first) if self._query.output.numbered else probe.views[side]
        if self._query.output is Output.COUNT:
            numbers = np.arange(first, first + fresh.count)
            yield from counted(side, numbers, self._counts(probe, counters), self._size)
            return
        seen = np.zeros(fresh.count, np.bool_) if how.tracks(side) else None
        if seen is not None and not how.pairs:
            seen |= self._counts(probe, counters) > 0
        else:
            yield from self._pairs(probe, view, seen, counters)
        if seen is not None:
            at = np.flatnonzero(seen if how is How.SEMI else ~seen)
            with counters.timed("gather"):
                alone = list(self._alone(side, view, at))
            yield from alone

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Stored rows that are due at the end, matched or not."""
        matched, stored = self._stored.matched, self._stored
        if matched is not None:
            at = np.flatnonzero(matched if self._how is How.SEMI else ~matched)
            yield from self._alone(stored.side, stored.view, at)

    def _probe(self, fresh: Fresh, counters: Counters) -> Probe:
        side, stored = self._side, self._stored
        facts = (self._binding, fresh, 0, side, stored.stream, counters)
        probe = Probe(*facts, None, self._size)
        probe.views[stored.side] = stored.rows
        return probe

    def _pairs(
        self, probe: Probe, view: RowsView, seen: Mask | None, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        """Rows for pairs; flags both sides where flags are needed."""
        stored, matched, paired = self._stored, self._stored.matched, self._how.pairs
        for rows, ids in rechunked(self._found(probe, counters), self._size):
            if seen is not None:
                seen[rows] = True
            if matched is not None:
                matched[ids] = True
            if paired:
                with counters.timed("gather"):
                    taken = {self._side: (view, rows), stored.side: (stored.view, ids)}
                    batch = gathered(self._schema, self._origin, taken, ids.size)
                yield batch

    def _found(self, probe: Probe, counters: Counters) -> Iterator[tuple[Array, Array]]:
        """The pairs of a chunk, with the time that they take."""
        reader = probe.pairs(probe.boxes())()
        pairs = reader.pairs
        while True:
            with probe.timed():
                pair = next(pairs, None)
            if pair is None:
                break
            counters.matches += pair[0].size
            yield pair
        counters.candidates += reader.candidates

    def _counts(self, probe: Probe, counters: Counters) -> Array:
        """How many matches each streamed row has; pairs are not made if ranges decide."""
        if probe.settled:
            counts = probe.counts()
            counters.matches += int(counts.sum())
            return counts
        counts = np.zeros(probe.fresh.count, np.int64)
        for rows, _ in self._found(probe, counters):
            counts += np.bincount(rows, minlength=counts.size)
        return counts

    def _alone(self, side: Side, view: RowsView, at: Array) -> Iterator[pa.RecordBatch]:
        """Rows of one side, with NULLs for the columns of the other."""
        for start in range(0, at.size, self._size):
            some = at[start : start + self._size]
            yield gathered(self._schema, self._origin, {side: (view, some)}, some.size)
