"""What travels to Spark's Python workers for a stream joined to a table, and what stays in them.

The rows of the table travel as one Arrow file, which Spark copies to every host; worker processes
map it into memory, so a host holds its rows once. Each process builds an index of its own when it
meets the first rows, and keeps it between tasks.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkFiles, TaskContext

from thetastream.condition.custom import Custom
from thetastream.condition.predicate import Predicate
from thetastream.engine.query import Query
from thetastream.errors import DataError, StateError
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.spark.blobs import conformed, parcels, write_blob
from thetastream.spark.frames import as_batch, report_batch
from thetastream.spark.payload import read_payload
from thetastream.spark.state.digest import digest_of
from thetastream.window import Unbounded

if TYPE_CHECKING:
    from thetastream.tables.prepared import PreparedTable

_PARCEL_ROWS = 1 << 17
_PARCEL_BYTES = 64 << 20
_BLOB_BYTES = 8 << 20
_LIMIT = 8  # tables kept in a process
_READY: OrderedDict[bytes, PreparedTable] = OrderedDict()


@dataclass(frozen=True)
class TableSpec:
    """A join of a stream with a table, as plain values.

    ``schemas`` hold the columns that travel, ``gathered`` the columns of the answer by the engine's
    names, ``output`` the same as Spark receives them. ``file`` is the table's, as Spark names it;
    without it, ``data`` holds the same bytes.
    With ``reports`` the last row of a task is its report.
    """

    on: str
    how: How
    stored: Side
    tactic: Tactic
    suffix: str
    schemas: dict[Side, pa.Schema]
    gathered: tuple[str, ...]
    output: pa.Schema
    batch_rows: int
    reports: bool
    residual: Custom | None
    file: str = ""
    digest: str = ""
    data: bytes | None = None

    @cached_property
    def query(self) -> Query:
        """The query of the engine: no window, as the table does not change."""
        predicate = Predicate.of(self.on, self.residual)
        columns = tuple(dict.fromkeys(self.gathered))
        options = (self.tactic, self.suffix, columns, 1, self.batch_rows)
        return Query(predicate, Unbounded(), self.how, False, *options)


class ReadTask:
    """Hands the rows of a table to the driver, as blobs."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for parcel in parcels(batches, _PARCEL_ROWS, _BLOB_BYTES):
            blob = pa.array([write_blob(parcel).to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([blob], ["blob"])


class TableTask:
    """Joins the rows of one task, in ``mapInArrow``."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec: TableSpec = read_payload(self._payload, "thetastream.tables.prepared")
        started = perf_counter()
        counted = {"rows": 0, "output_rows": 0}
        table, origin = _ready(self._payload, spec)
        opened = perf_counter() - started
        streamed = spec.schemas[spec.stored.other]
        rows = (conformed(batch, streamed) for batch in batches if batch.num_rows)
        for parcel in parcels(rows, _PARCEL_ROWS, _PARCEL_BYTES):
            counted["rows"] += parcel.num_rows
            for answer in table.join(parcel):
                counted["output_rows"] += answer.num_rows
                columns = [answer.column(name) for name in spec.gathered]
                batch = pa.RecordBatch.from_arrays(columns, schema=spec.output)
                yield as_batch(batch) if spec.reports else batch
        if spec.reports and counted["rows"]:
            report = counted | _report(spec, table, origin)
            report |= {"open_seconds": opened, "seconds": perf_counter() - started}
            yield report_batch(spec.output, json.dumps(report))


def _report(spec: TableSpec, table: PreparedTable, origin: str) -> dict[str, Any]:
    """What a task did, under the names of a partition's report."""
    whole, null_keys = table.drained()
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    phases = {f"{name}_seconds": round(spent, 6) for name, spent in whole.seconds.items()}
    return phases | {
        "partition": task,
        "partitions": task + 1,
        "origin": origin,
        "matches": whole.matches,
        "null_keys": null_keys,
        "memory_bytes": table.nbytes,
        "state_bytes": 0,
        "runs": 0,
        "watermark": 0,
    }


def _ready(payload: bytes, spec: TableSpec) -> tuple[PreparedTable, str]:
    """The table of this process, and whether it was here (a hit) or had to be read (attach)."""
    from thetastream.tables.prepared import PreparedTable

    if payload in _READY:
        _READY.move_to_end(payload)
        return _READY[payload], "hit"
    table = PreparedTable(spec.query, spec.schemas, spec.stored, _rows(spec))
    _READY[payload] = table
    while len(_READY) > _LIMIT:
        _READY.popitem(last=False)
    return table, "attach"


def _rows(spec: TableSpec) -> pa.RecordBatch:
    """The rows of the table: mapped from the file of this host, or out of the query's plan."""
    whole = _mapped(spec) if spec.data is None else pa.py_buffer(spec.data)
    with pa.ipc.open_file(whole) as reader:
        return reader.get_batch(0)


def _mapped(spec: TableSpec) -> pa.Buffer:
    path = SparkFiles.get(spec.file)
    try:
        with pa.memory_map(path) as source:
            whole = source.read_buffer()
    except FileNotFoundError:
        raise StateError(
            f"the rows of the static DataFrame are not on this host: Spark was to copy them to "
            f"{path}. Call theta_join again in a running session, and start the query from it"
        ) from None
    if digest_of(whole) != spec.digest:
        raise DataError(
            f"{path} does not hold the rows of the static DataFrame any more; start the query again"
        )
    return whole
