"""What travels to Spark's Python workers for ``relation_join``, and what stays in them.

A worker process keeps its ``RelationJoin`` from one task to the next, so that the cache of blocks
and all that it has learned of the stream are there for the next micro-batch. Nothing else
outlives a task: its rows are all answered before it ends, so a checkpoint needs no state of ours.

    task begins     the join is taken out; the relation is refreshed: updates are seen from here on
    rows            pushed; answers are given as they come
    rows end        flushed; the report is given; the join is put back
    abandoned       (a LIMIT that has enough) rows that wait are forgotten; the join is put back
    fails           the join is closed; the task that is tried again starts with a new one
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thetastream.errors import RelationError, StateError

if TYPE_CHECKING:
    from thetastream.relation.join.join import RelationJoin
    from thetastream.relation.store import Relation


REPORT = "__metrics"
COUNTED = (
    *("rows", "matches", "output_rows", "null_keys", "hits", "misses", "seeks", "blocks_read"),
    *("blocks_wasted", "online_phases", "join_phases"),
    *("plan_seconds", "io_seconds", "join_seconds", "online_seconds"),
)
"""Metrics that grow: a report tells by how much in this task."""
HELD = ("cached_blocks", "memory_bytes", "peak_bytes", "budget_bytes", "version")
"""Metrics of what is there now."""
_PARCEL_ROWS = 8192
_PARCEL_BYTES = 1 << 20
_LIMIT = 4  # joins kept in a process, each with a budget of its own
_HELD: OrderedDict[bytes, _Held] = OrderedDict()
_SPECS: dict[bytes, RelationSpec] = {}


@dataclass(frozen=True)
class RelationSpec:
    """A join of a stream with a relation, as plain values.

    ``stream`` are the columns that travel; ``relation`` those that the relation had when the join
    was planned. ``gathered`` are the columns of the answer as the engine calls them, ``output``
    the same as they are handed to Spark. With ``reports`` the last row of a task is its report.
    """

    path: str
    on: str
    memory: int
    how: str
    suffix: str
    stream: pa.Schema
    relation: pa.Schema
    gathered: tuple[str, ...]
    output: pa.Schema
    batch_rows: int
    reports: bool

    def engine(self, relation: Relation) -> RelationJoin:
        """The join; also made on the driver, so that what is wrong with it shows there."""
        from thetastream.relation.join.join import RelationJoin

        return RelationJoin(
            relation,
            self.on,
            memory=self.memory,
            how=self.how,
            suffix=self.suffix,
            columns=list(self.gathered),
            schema=self.stream,
            batch_rows=self.batch_rows,
        )


class RelationTask:
    """Joins the rows of one task, in ``mapInArrow``."""

    def __init__(self, spec: RelationSpec) -> None:
        self._payload = pickle.dumps(spec)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec = _spec(self._payload)
        held: _Held | None = None
        parcel = _Parcel()
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                if held is None:
                    held = _take(self._payload, spec)
                for rows in held.join.push(_conformed(batch, spec.stream)):
                    if parcel.add(rows):
                        yield _handed(parcel.take(), spec)
            if held is None:
                return
            for rows in held.join.flush():
                if parcel.add(rows):
                    yield _handed(parcel.take(), spec)
            if parcel.rows:
                yield _handed(parcel.take(), spec)
            if spec.reports:
                yield _report_row(held.report(), spec)
        except GeneratorExit:
            if held is not None:
                held.join.reset()
                _keep(self._payload, held)
            raise
        except BaseException:
            if held is not None:
                held.close()
            raise
        _keep(self._payload, held)


# --- What stays in the process ------------------------------------------------------------------


class _Held:
    """A join over an open relation; ``begin`` and ``report`` bracket a task."""

    def __init__(self, spec: RelationSpec) -> None:
        from thetastream.relation.store import Relation

        try:
            self.relation = Relation.open(spec.path)
        except RelationError as error:
            raise RelationError(
                f"{error} (every executor must reach the relation under this path)"
            ) from None
        try:
            self._check(spec)
            self.join = spec.engine(self.relation)
        except BaseException:
            self.relation.close()
            raise
        self.generation = self.relation.generation
        self.tasks = 0
        self.begin()

    def _check(self, spec: RelationSpec) -> None:
        if not self.relation.schema.equals(spec.relation):
            raise RelationError(
                f"the relation {spec.path!r} has been built again with other columns: it had "
                f"{_columns(spec.relation)}, and has {_columns(self.relation.schema)}; start the "
                "query again, so that it is planned with these"
            )

    def begin(self) -> None:
        """Remember where the counters stand."""
        self.tasks += 1
        self._start = perf_counter()
        metrics = self.join.metrics()
        self._before = {name: getattr(metrics, name) for name in COUNTED}

    def report(self) -> dict[str, Any]:
        """What the task did."""
        metrics = self.join.metrics()
        counted = {name: getattr(metrics, name) - self._before[name] for name in COUNTED}
        held = {name: getattr(metrics, name) for name in HELD}
        seconds = perf_counter() - self._start
        return {**counted, **held, "seconds": seconds, "warm": self.tasks > 1}

    def close(self) -> None:
        try:
            self.join.close()
        finally:
            self.relation.close()


def _take(payload: bytes, spec: RelationSpec) -> _Held:
    """The join of this process, with the relation as it is now; a new one if there is none."""
    held = _HELD.pop(payload, None)
    if held is not None:
        try:
            held.relation.refresh()
        except BaseException:
            held.close()
            raise
        if held.relation.generation == held.generation:
            held.begin()
            return held
        held.close()
    return _Held(spec)


def _keep(payload: bytes, held: _Held | None) -> None:
    """Keep a join for the next task; the one that was used least recently goes."""
    if held is None:
        return
    if payload in _HELD:
        _HELD.pop(payload).close()
    _HELD[payload] = held
    while len(_HELD) > _LIMIT:
        _HELD.popitem(last=False)[1].close()


def _spec(payload: bytes) -> RelationSpec:
    """The join behind the bytes, read once per process."""
    if payload not in _SPECS:
        try:
            found = pickle.loads(payload)
            import thetastream.relation.join.join
            import thetastream.relation.store  # noqa: F401
        except ImportError as error:
            raise StateError(
                f"this Python worker ({sys.executable}) cannot run thetastream: {error}. Install "
                "thetastream[spark] for the Python of every executor, or name one that has it: "
                "PYSPARK_PYTHON, or spark.pyspark.python"
            ) from None
        if not _SPECS:  # Spark collects garbage after every task, and our modules are none
            gc.collect()
            gc.freeze()
        if len(_SPECS) > 64:
            _SPECS.clear()
        _SPECS[payload] = found
    return _SPECS[payload]


# --- Rows ---------------------------------------------------------------------------------------


class _Parcel:
    """Rows of the answer on their way to Spark: a few larger batches instead of many small ones.

    A join within a small budget gives a hundred rows at a time, and each batch costs Spark more
    than its rows do. At most ``_PARCEL_BYTES`` and a batch are held, beside the budget.
    """

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self.rows = 0

    def add(self, batch: pa.RecordBatch) -> bool:
        """Put rows in; whether it is full now."""
        self._batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        return self.rows >= _PARCEL_ROWS or self._bytes >= _PARCEL_BYTES

    def take(self) -> pa.RecordBatch:
        """Take everything out, as one batch."""
        from thetastream.data.batch import joined

        batches, self._batches = self._batches, []
        self._bytes = self.rows = 0
        return joined(batches)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the names and types that were planned; Spark names zones its own way."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _handed(rows: pa.RecordBatch, spec: RelationSpec) -> pa.RecordBatch:
    """Rows of the answer as Spark takes them, with an empty column for the report."""
    from thetastream.spark.relation.types import handed

    columns = [
        handed(field.name, rows.column(name), field.type)
        for field, name in zip(spec.output, spec.gathered, strict=True)
    ]
    return _batch(columns, rows.num_rows, None, spec)


def _report_row(report: dict[str, Any], spec: RelationSpec) -> pa.RecordBatch:
    columns = [pa.nulls(1, field.type) for field in spec.output]
    return _batch(columns, 1, json.dumps(report), spec)


def _batch(
    columns: list[pa.Array], rows: int, report: str | None, spec: RelationSpec
) -> pa.RecordBatch:
    names = list(spec.output.names)
    if spec.reports:
        reports = pa.nulls(rows, pa.string()) if report is None else pa.array([report])
        columns = [*columns, reports]
        names.append(REPORT)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
