"""What travels to Spark's Python workers for ``relation_join``, and what stays in them.

A worker process keeps its ``RelationJoin`` between tasks, so that the next micro-batch finds the
cache of blocks and what the join has learned about the stream. Nothing else outlives a task: all
its rows are answered before it ends, so a checkpoint needs no state of the join.

    task begins     take the join out; refresh the relation, so that updates are seen from here on
    rows            push them; return answers as they are found
    rows end        flush; return the report; put the join back
    abandoned       (a LIMIT is satisfied) drop the waiting rows; put the join back
    fails           close the join; a retried task starts with a new one
"""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkFiles

from thetastream.errors import RelationError
from thetastream.spark.blobs import conformed, parcels
from thetastream.spark.payload import read_payload

if TYPE_CHECKING:
    from thetastream.relation.join.join import RelationJoin
    from thetastream.relation.store import Relation


REPORT = "__metrics"
COUNTED = (
    *("rows", "matches", "output_rows", "null_keys", "hits", "misses", "seeks", "blocks_read"),
    *("blocks_wasted", "online_phases", "join_phases"),
    *("plan_seconds", "io_seconds", "join_seconds", "online_seconds"),
)
"""Counters: a report says how much they grew in this task."""
GAUGES = ("cached_blocks", "memory_bytes", "peak_bytes", "budget_bytes", "version")
"""Gauges: a report says what they are now."""
# A join within a small budget returns a hundred rows at a time, and a batch costs Spark more than
# its rows do. So rows are passed on in parcels of about this size, beside the budget.
_PARCEL_ROWS = 8192
_PARCEL_BYTES = 1 << 20
_LIMIT = 4  # joins kept in a process, each with a budget of its own
_WARM: OrderedDict[bytes, _WarmJoin] = OrderedDict()


@dataclass(frozen=True)
class RelationSpec:
    """A join of a stream with a relation, as plain values.

    ``stream`` are the columns that travel, ``relation`` those of the relation when the join was
    planned. ``gathered`` are the columns of the answer by the engine's names, ``output`` the same
    as Spark receives them. With ``reports`` the last row of a task is its report. ``archive`` names
    the folder as Spark has copied it to every host, if ``path`` is the driver's own.
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
    archive: str = ""

    def as_bytes(self) -> bytes:
        """How the join travels."""
        return pickle.dumps(self)

    def engine(self, relation: Relation) -> RelationJoin:
        """Make the join; the driver makes it too, so that errors show there."""
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

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec: RelationSpec = read_payload(
            self._payload, "thetastream.relation.join.join", "thetastream.relation.store"
        )
        arriving = (batch for batch in batches if batch.num_rows)
        first = next(arriving, None)
        if first is None:
            return
        warm = _take(self._payload, spec)
        try:
            answer = _answer(warm.join, chain([first], arriving), spec)
            for rows in parcels(answer, _PARCEL_ROWS, _PARCEL_BYTES):
                yield _handed(rows, spec)
            if spec.reports:
                yield _report_row(warm.report(), spec)
        except GeneratorExit:
            warm.join.reset()
            _keep(self._payload, warm)
            raise
        except BaseException:
            warm.close()
            raise
        _keep(self._payload, warm)


def _answer(
    join: RelationJoin, batches: Iterable[pa.RecordBatch], spec: RelationSpec
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from join.push(conformed(batch, spec.stream))
    yield from join.flush()


# --- What stays in the process ------------------------------------------------------------------


class _WarmJoin:
    """A join over an open relation; ``begin`` and ``report`` bracket a task."""

    def __init__(self, spec: RelationSpec) -> None:
        from thetastream.relation.store import Relation

        try:
            self.relation = Relation.open(
                SparkFiles.get(spec.archive) if spec.archive else spec.path
            )
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
        """Note the counters at the start of a task."""
        self.tasks += 1
        self._start = perf_counter()
        metrics = self.join.metrics()
        self._before = {name: getattr(metrics, name) for name in COUNTED}

    def report(self) -> dict[str, Any]:
        """What the task did."""
        metrics = self.join.metrics()
        counted = {name: getattr(metrics, name) - self._before[name] for name in COUNTED}
        gauges = {name: getattr(metrics, name) for name in GAUGES}
        seconds = perf_counter() - self._start
        return {**counted, **gauges, "seconds": seconds, "warm": self.tasks > 1}

    def close(self) -> None:
        try:
            self.join.close()
        finally:
            self.relation.close()


def _take(payload: bytes, spec: RelationSpec) -> _WarmJoin:
    """Take the join of this process, with its relation refreshed, or make a new one."""
    warm = _WARM.pop(payload, None)
    if warm is not None:
        try:
            warm.relation.refresh()
        except BaseException:
            warm.close()
            raise
        if warm.relation.generation == warm.generation:
            warm.begin()
            return warm
        warm.close()
    return _WarmJoin(spec)


def _keep(payload: bytes, warm: _WarmJoin) -> None:
    """Keep a join for the next task; drop the least recently used one."""
    if payload in _WARM:
        _WARM.pop(payload).close()
    _WARM[payload] = warm
    while len(_WARM) > _LIMIT:
        _WARM.popitem(last=False)[1].close()


# --- Rows ---------------------------------------------------------------------------------------


def _handed(rows: pa.RecordBatch, spec: RelationSpec) -> pa.RecordBatch:
    """Rows of the answer as Spark expects them, with an empty column for the report."""
    from thetastream.spark.types import handed

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
