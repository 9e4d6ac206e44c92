"""StreamJoin: window joins of two streams of Arrow batches.

Bad input raises before any state changes. ``push`` updates the state; pairs are found and payload
is gathered from a snapshot while the result is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.compiling import prepare
from thetastream.aggregate import Summary, check_aggregates, of_right, read_aggregates
from thetastream.boxes import kernels as box_kernels
from thetastream.boxes.binding import Binding, bind, check_columns, refuse_untyped
from thetastream.boxes.fresh import Fresh
from thetastream.condition.custom import PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data import kernels as data_kernels
from thetastream.data.batch import conform
from thetastream.data.rows import check_gatherable
from thetastream.display.facts import Facts, Shown
from thetastream.duration import Interval
from thetastream.engine.engine import Engine
from thetastream.engine.outside import Outside, Tops
from thetastream.engine.parts.batches import Batches, Flow, OutputPart
from thetastream.engine.query import Query, patience
from thetastream.engine.report import explanation, snapshot, warn_of_nested_loop
from thetastream.errors import OptionError, StateError
from thetastream.interrupt import uninterrupted
from thetastream.metrics import Counters, Metrics, SideCounters
from thetastream.options.checks import read_columns
from thetastream.output_mode import Output
from thetastream.plan import kernels as plan_kernels
from thetastream.plan.explanation import Explanation
from thetastream.plan.tactic import Tactic
from thetastream.shape import NUMBERS, OutputShape, fixed_shape
from thetastream.side import How, Side
from thetastream.window import Window


class StreamJoin(Shown):
    """Join two streams on any conjunction of comparisons, exactly.

    ``on`` is SQL text over ``l`` and ``r``, a Predicate, or a Python expression. ``window`` is a
    CountWindow, a TimeWindow, a SessionWindow or Unbounded(). ``how`` is inner, left, right, full,
    semi or anti. With ``self_join=True`` one stream is pushed as ``left`` and joined with itself.
    ``columns`` keeps only those output columns. ``schemas`` declares the columns of both sides
    before the first push. ``output`` says what is returned for matches: rows, pairs of arrival
    numbers, ranges, or the count of each row's matches. ``aggregate``, such as ``{"n": "count",
    "avg": ("r.speed", "mean")}``, returns aggregates instead of pairs: one row per left row, with
    its columns and count, sum, min, max or mean over the right rows that it matches and that are in
    the window when it arrives.

    ``residual`` is a function of your own, which candidate pairs that satisfy ``on`` have to pass:
    ``f(left, right)`` gets two record batches, whose rows ``i`` are a pair, and returns a boolean
    array.

    ``threads`` split the matching of a push; ``workers`` are threads that share the parts of a
    window (tactics ``panjoin`` and ``spo-join``). The result is the same for any number of either.

    With ``collect`` or ``collect_time`` (a duration such as ``100 ms``) the rows of each side are
    collected, and processed together once there are ``collect`` rows or the first has waited that
    long; an empty push checks the ``clock``, which returns seconds. Over the whole stream the
    result stays the same.

    >>> import pyarrow as pa
    >>> from thetastream import CountWindow
    >>> join = StreamJoin("abs(l.x - r.x) <= 1", window=CountWindow(100))
    >>> _ = join.push(left=pa.record_batch({"x": [1, 5, 9]}))
    >>> [batch.to_pylist() for batch in join.push(right=pa.record_batch({"x": [4, 20]}))]
    [[{'x': 5, 'x_right': 4}]]
    """

    def __init__(
        self,
        on: str | Predicate | Expression,
        *,
        window: Window,
        how: str | How = "inner",
        tactic: str | Tactic = "auto",
        suffix: str = "_right",
        self_join: bool = False,
        threads: int = 1,
        workers: int = 1,
        collect: int | None = None,
        collect_time: str | timedelta | Interval | None = None,
        clock: Callable[[], float] = monotonic,
        batch_rows: int = 65_536,
        columns: Sequence[str] | None = None,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
        output: str | Output = "rows",
        aggregate: Mapping[str, str | tuple[str, str]] | None = None,
        residual: PairFunction | None = None,
    ) -> None:
        self._query = Query(
            Predicate.of(on, residual),
            window,
            How.of(how),
            self_join,
            Tactic.of(tactic),
            suffix,
            read_columns(columns),
            threads,
            batch_rows,
            workers=workers,
            collect=collect,
            collect_time=patience(collect_time),
            output=Output.of(output),
            aggregates=() if aggregate is None else of_right(read_aggregates(aggregate)),
        )
        warn_of_nested_loop(self._query.predicate, self._query.tactic, None, 2)
        if not callable(clock):
            raise OptionError(f"clock must be a function that returns seconds; got {clock!r}")
        if schemas is not None:
            _check_schemas(schemas)
        self._clock = clock
        self._counters = Counters()
        self._side_counters = {side: SideCounters() for side in Side}
        self._schemas: dict[Side, pa.Schema] = {}
        self._returned: pa.Schema | None = None  # the columns of the result
        self._engine: Engine | None = None
        self._tops = Tops(self._query.streams, None)
        self._early: list[tuple[Side, pa.RecordBatch]] = []
        self._skipped = dict.fromkeys(Side, 0)
        self._ready: list[OutputPart] = []  # parts of the output, not returned yet
        self._flushed = False
        self._broken = False
        prepare(data_kernels, box_kernels, plan_kernels)
        if schemas is not None:
            self._learn({Side.LEFT: schemas[0], Side.RIGHT: schemas[1]})

    def push(
        self,
        left: Any = None,
        right: Any = None,
    ) -> Batches:
        """Process fresh rows and return the rows of the join that follow from them.

        Rows are an Arrow, pandas or Polars frame, a DuckDB relation, a dict of columns, a list of
        dicts (if the columns are known), or a reader or iterator of these, which is read to its
        end. The result is an iterator of batches; ``.to_table()``, ``.to_pandas()`` and
        ``.to_polars()`` read all of it.

        The state is updated before this returns; the result may be read later. An interrupt
        (Ctrl-C) waits until the push is complete; the next push then returns its rows.
        """
        self._refuse_if_over()
        if self._query.self_join and right is not None:
            raise StateError("a self-join has one stream: push it as left")
        batches = {
            side: conform(data, self._schemas.get(side), side.value)
            for side, data in ((Side.LEFT, left), (Side.RIGHT, right))
            if data is not None
        }
        self._learn({side: batch.schema for side, batch in batches.items()})
        if self._engine is None:
            self._put_off(batches)
        else:
            steps = self._steps(self._engine, batches)
            with uninterrupted():
                self._run(self._engine, steps)
        for side, batch in batches.items():
            self._side_counters[side].rows += batch.num_rows
        self._counters.pushes += 1
        return self._deliver()

    def flush(self) -> Batches:
        """End both streams and return the remaining unmatched rows. No push can follow."""
        self._refuse_if_over()
        with uninterrupted():
            if self._engine is None:
                self._ready += self._one_sided()
                self._returned = self._one_sided_schema()
            else:
                self._run(self._engine, self._steps(self._engine, {}))
                self._ready += self._engine.finish().parts
            self._early = []
            self._flushed = True
        return self._deliver()

    def explain(self, *, verbose: bool = False) -> Explanation:
        """Which tactic, which index per side, why, at what estimated cost, in at most 25 lines.

        ``verbose`` adds the plans that were rejected, and how costs were estimated.
        """
        if self._engine is None:
            return explanation(self._query, None, [], verbose=verbose)
        streams = self._engine.streams.values()
        indexes = [index for stream in streams for index in stream.indexes.values()]
        return explanation(
            self._query,
            self._engine.binding,
            [index.choice for index in indexes],
            [{**index.spent.as_dict(), **index.index.details} for index in indexes],
            verbose=verbose,
        )

    def metrics(self) -> Metrics:
        """Counters, sizes and times up to now."""
        engine = self._engine
        waiting = {side: engine.waiting_rows(side) if engine else 0 for side in Side}
        for side, batch in self._early:
            waiting[side] += batch.num_rows
        streams = engine.streams if engine else {}
        largest = self._tops.largest
        return snapshot(self._counters, self._side_counters, streams, waiting, largest)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result; StateError before the columns of both sides are known."""
        return Batches([], self._counters, self._query.output, self._returned).schema

    def _shown(self) -> tuple[str, Facts]:
        metrics, query = self.metrics(), self._query
        facts = {"window": query.window, "how": query.how.value, "tactic": query.tactic}
        counts = {"rows in": metrics.rows, "rows stored": metrics.window_rows}
        return f"{type(self).__name__} on {query.predicate}", {
            **facts,
            **counts,
            "matches": metrics.matches,
        }

    def check(self) -> None:
        """Assert every invariant of the state. For tests."""
        if self._engine is not None:
            self._engine.check()

    def _refuse_if_over(self) -> None:
        if self._flushed:
            raise StateError("this join was flushed: the streams have ended; make a new StreamJoin")
        if self._broken:
            raise StateError(
                "an earlier push failed halfway, so results would be wrong; make a new StreamJoin"
            )

    def _learn(self, schemas: dict[Side, pa.Schema]) -> None:
        """Store schemas; create the engine once both are known."""
        if self._engine is not None:
            return
        query, known = self._query, dict(self._schemas)
        for side, schema in schemas.items():
            if side not in known:
                check_gatherable(schema, side.value)
                for role in query.roles(side):
                    check_columns(query.predicate, query.window, role, schema)
                    refuse_untyped(query.predicate, query.window, role, schema)
                    known[role] = schema
                if side is Side.RIGHT:
                    check_aggregates(query.aggregates, schema, "the right side")
        if len(known) == len(Side):
            back = bool(query.aggregates)
            binding = bind(query.predicate, query.window, known, back=back)
            self._engine = self._make_engine(query, binding)
            if query.predicate.terms:  # the columns' types decided it
                warn_of_nested_loop(query.predicate, query.tactic, binding, 3)
            self._tops = Tops(query.streams, binding.bound)
            self._returned = self._engine.shape.schema
        self._schemas = known

    def _make_engine(self, query: Query, binding: Binding) -> Engine:
        return Engine(query, binding, self._counters, self._side_counters, self._skipped)

    def _steps(self, engine: Engine, batches: dict[Side, pa.RecordBatch]) -> list[list[Fresh]]:
        """The rows to process: those put off earlier, then these. May raise; changes no state."""
        if not self._early:
            return [engine.keyed(list(batches.items()))]
        fresh = engine.keyed([*self._early, *batches.items()])
        early = len(self._early)
        return [*([rows] for rows in fresh[:early]), fresh[early:]]

    def _run(self, engine: Engine, steps: list[list[Fresh]]) -> None:
        try:
            for fresh in steps:
                self._ready += engine.push(fresh, self._outside(fresh)).parts
            self._early = []
        except BaseException:
            self._broken = True
            raise

    def _outside(self, fresh: list[Fresh]) -> Outside:
        """The time and order that follow from the rows of all pushes, this one included."""
        window, now = self._query.window, self._clock() if self._query.collects else 0.0
        if window.order is not None:
            ranks = {r.side: r.places.ranks for r in fresh if r.places.ranks is not None}
            return Outside(ranks=ranks, now=now)
        if not window.timed:
            return Outside(now=now)
        late = self._tops.frontier
        for rows in fresh:
            self._tops.note(rows)
        return Outside(late, self._tops.frontier, now=now)

    def _deliver(self) -> Batches:
        parts, self._ready = self._ready, []
        return Batches(parts, self._counters, self._query.output, self._returned)

    # --- While one side is unknown --------------------------------------------------------------

    def _put_off(self, batches: dict[Side, pa.RecordBatch]) -> None:
        """Keep rows until the other side's columns are known; nothing can match them before.

        Rows that leave a count window meanwhile are dropped, unless they must be emitted.
        """
        self._early += batches.items()
        window: Any = self._query.window
        for side in batches:
            if not window.by_arrival or self._query.always_returns(side):
                continue
            count = self._skipped[side] + sum(batch.num_rows for _, batch in self._early)
            while self._skipped[side] + self._early[0][1].num_rows <= window.oldest(count, side):
                self._skipped[side] += self._early.pop(0)[1].num_rows

    def _one_sided(self) -> list[OutputPart]:
        """Return rows with this side's columns alone: the other side never arrived."""
        parts: list[OutputPart] = []
        for side, batch in self._early:
            if self._query.always_returns(side):
                alone = self._alone(side, batch)
                parts.append(Flow(partial(_cut, alone, self._query.batch_rows)))
            self._skipped[side] += batch.num_rows
        return parts

    def _one_sided_schema(self) -> pa.Schema | None:
        """The columns of ``_one_sided``; None if no row of the known side is returned alone."""
        fixed = fixed_shape(self._query.output)
        if fixed is not None:
            return fixed.schema
        for side, schema in self._schemas.items():
            if self._query.always_returns(side):
                return self._alone(side, pa.RecordBatch.from_pylist([], schema)).schema
        return None

    def _alone(self, side: Side, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The output for rows whose partners never arrived, without the other side's columns."""
        query, count = self._query, batch.num_rows
        if query.output.numbered:
            numbers = pa.array(np.arange(count) + self._skipped[side])
            columns = [numbers if one is side else pa.nulls(count, pa.int64()) for one in Side]
            return pa.RecordBatch.from_arrays(columns, schema=NUMBERS.schema)
        if not query.aggregates:
            wanted = query.columns
            return batch.select([n for n in batch.schema.names if wanted is None or n in wanted])
        empty = {
            one.name: pa.array(np.zeros(count, np.int64))
            if one.function is Summary.COUNT
            else pa.nulls(count, pa.float64() if one.function is Summary.MEAN else pa.null())
            for one in query.aggregates
        }
        fields = [pa.field(name, column.type) for name, column in empty.items()]
        shape = OutputShape.of(
            batch.schema, None, query.how, query.suffix, query.columns, fields=fields
        )
        arrays = [empty[name] if name in empty else batch.column(name) for _, name in shape.origin]
        return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)


def _check_schemas(schemas: Any) -> None:
    is_pair = isinstance(schemas, tuple | list) and len(schemas) == len(Side)
    if not is_pair or not all(isinstance(schema, pa.Schema) for schema in schemas):
        raise OptionError(
            f"schemas must be a pair of Arrow schemas, those of left and right; got {schemas!r}"
        )


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)
