"""A stream joined to a static DataFrame: no window, no state, no shuffle.

    table  ─ select + side expressions ─ collect ─ one Arrow file ─ copied to every host by Spark
                                                                            │
    stream ─ select + side expressions ─ mapInArrow(join) ─ observe(metrics) ─ rows of the answer

The table is read when ``theta_join`` is called, and indexed once per worker process. Every row of
the stream is answered when its task ends. A table larger than ``memory=`` goes to disk
(``on_disk``).
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from thetastream.boxes.binding import bind
from thetastream.condition.custom import PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import one_batch
from thetastream.engine.report import explanation, warn_of_nested_loop
from thetastream.errors import OptionError
from thetastream.plan.tactic import Tactic
from thetastream.relation.disk.size import read_size, show_size
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.blobs import conformed
from thetastream.spark.columns import (
    answer_columns,
    label_of,
    numbered,
    observed,
    shipped,
    travelling,
)
from thetastream.spark.expressions import Split, split
from thetastream.spark.frames import METRICS
from thetastream.spark.launch import launched
from thetastream.spark.relation.operator import mapped
from thetastream.spark.session import check_workers, described
from thetastream.spark.starting import watch
from thetastream.spark.state.digest import digest_of
from thetastream.spark.table.on_disk import (
    arriving,
    expected_bytes,
    key_of,
    put_on_disk,
    relation_spec,
)
from thetastream.spark.table.worker import TableSpec
from thetastream.spark.theta.explanation import remember_facts
from thetastream.spark.theta.pipeline import OBSERVED
from thetastream.spark.types import arrow_schema
from thetastream.tables.prepared import PreparedTable
from thetastream.window import Unbounded

_MODES = {
    Side.RIGHT: (How.INNER, How.LEFT, How.SEMI, How.ANTI),
    Side.LEFT: (How.INNER, How.RIGHT),
}
_folders: list[str] = []


def join_table(
    frames: dict[Side, DataFrame],
    on: str | Predicate | Expression,
    how: How,
    *,
    tactic: str | Tactic,
    suffix: str,
    columns: Sequence[str] | None,
    batch_rows: int,
    residual: PairFunction | None,
    memory: str | int,
    name: str | None,
) -> DataFrame:
    """Join a streaming DataFrame with a static one, on either side."""
    stored = next(side for side in Side if not frames[side].isStreaming)
    limit = read_size(memory)
    _check_mode(how, stored)
    parts = split(on, frames)
    text, window = str(on), Unbounded()
    custom = shipped(on, residual, frames)
    left, right = (frames[side].columns for side in Side)
    answer = answer_columns(left, right, how, suffix, columns)
    shown = travelling(frames, parts, window, answer, (), False, text, custom)
    schemas = {side: arrow_schema(frame.schema, side.value) for side, frame in shown.items()}
    kinds = [shown[side].schema[column].dataType for _, side, column in answer]
    types = [schemas[side].field(column).type for _, side, column in answer]
    spec = TableSpec(
        on=parts.on,
        how=how,
        stored=stored,
        tactic=Tactic.of(tactic),
        suffix=suffix,
        schemas=schemas,
        gathered=_gathered(answer, schemas, how, suffix),
        output=pa.schema([(n, kind) for (n, _, _), kind in zip(answer, types, strict=True)]),
        batch_rows=batch_rows,
        reports=True,
        residual=custom,
    )
    with parts.naming(text):
        binding = bind(spec.query.predicate, window, schemas)  # errors show here, not in a task
    warn_of_nested_loop(spec.query.predicate, spec.tactic, binding, 3, text)
    label = label_of(name, text, how, stored, spec.output)
    check_workers(frames[stored].sparkSession)
    with described(frames[stored].sparkSession, f"read the table of {label}"):
        rows = _collected(shown[stored], spec, limit)
    if not isinstance(rows, pa.RecordBatch):
        key = key_of(spec, binding, limit, frames[stored])
        with described(frames[stored].sparkSession, f"sort the table of {label}"):
            place = put_on_disk(spec, key, rows, limit, _folder())
        joining, more = relation_spec(spec, frames[stored].sparkSession, place, limit, text)
        named = [(n, kind) for (n, _, _), kind in zip(answer, kinds, strict=True)]
        result = mapped(shown[stored.other], joining, named, name, label)
        inside = {internal[2:]: written for internal, written in parts.written.items()}
        remember_facts(result, _head(stored, text, label) | more, parts.written | inside)
        return result
    title = "thetastream: join" + ("" if name is None else f" {name}")
    spec = replace(spec, **_sent(frames[stored].sparkSession, rows))
    task = launched(title, "thetastream.spark.table.worker:TableTask", pickle.dumps(spec))
    fields = [StructField(n, kind) for (n, _, _), kind in zip(answer, kinds, strict=True)]
    fields.append(StructField(METRICS, StringType()))
    joined = numbered(shown[stored.other]).mapInArrow(task, StructType(fields))
    result = observed(joined, OBSERVED, label, "partitions")
    watch(result, None if name is None else title)
    remember_facts(result, _facts(spec, parts, rows, text, label), parts.written)
    return result


# --- Before anything runs -----------------------------------------------------------------------


def _check_mode(how: How, stored: Side) -> None:
    modes = _MODES[stored]
    if how not in modes:
        raise OptionError(
            f"the {stored.value} side is a static DataFrame and the other a stream, so how must be "
            f"one of {', '.join(mode.value for mode in modes)}; got {how.value!r}, which returns "
            "rows of the table by whether a stream row matches them: a stream has no end after "
            "which that is known. Exchange the sides, or read the table as a stream and give a "
            "window"
        )


def _gathered(
    answer: Sequence[tuple[str, Side, str]],
    schemas: dict[Side, pa.Schema],
    how: How,
    suffix: str,
) -> tuple[str, ...]:
    """The engine's names for the columns of the answer: it sees only those that travel."""
    shape = OutputShape.of(schemas[Side.LEFT], schemas[Side.RIGHT], how, suffix)
    names = dict(zip(shape.origin, shape.schema.names, strict=True))
    return tuple(names[(side, column)] for _, side, column in answer)


def _collected(
    table: DataFrame, spec: TableSpec, limit: int
) -> pa.RecordBatch | Iterator[pa.RecordBatch]:
    """The rows of the table; batch by batch if they are larger than ``memory``."""
    schema = spec.schemas[spec.stored]
    batches: Iterator[pa.RecordBatch]
    if expected_bytes(table) <= limit:
        batches = (conformed(batch, schema) for batch in numbered(table).toArrow().to_batches())
    else:
        batches = arriving(table, schema)
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > limit:
            return chain(held, batches)
    return one_batch(pa.Table.from_batches(held, schema))


def _sent(spark: SparkSession, rows: pa.RecordBatch) -> dict[str, Any]:
    """Have Spark copy the rows to every host, as a file named by its content.

    A Connect client cannot: files of its session do not reach the tasks of a stream. There, the
    rows travel in the query's plan.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data = sink.getvalue()
    try:
        context = spark.sparkContext
    except Exception:  # a Connect session has no context
        return {"data": data.to_pybytes()}
    digest = digest_of(data)
    name = f"thetastream-{digest.partition(':')[2][:32]}.arrow"
    path = os.path.join(_folder(), name)
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(data)
    context.addFile(path)
    return {"file": name, "digest": digest}


def _folder() -> str:
    """A folder for tables, which is removed when this process ends."""
    if not _folders:
        _folders.append(tempfile.mkdtemp(prefix="thetastream-tables-"))
        atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    return _folders[0]


def _head(stored: Side, text: str, label: str) -> dict[str, Any]:
    """What is joined, for the explanation."""
    return {
        "predicate": text,
        "name": label,
        "window": f"none: the {stored.value} side is a table, read when the join was made",
    }


def _facts(
    spec: TableSpec, parts: Split, rows: pa.RecordBatch, text: str, label: str
) -> dict[str, Any]:
    """What explains the join."""
    binding = bind(spec.query.predicate, spec.query.window, spec.schemas)
    nothing = spec.schemas[spec.stored.other].empty_table().to_batches()
    other = nothing[0] if nothing else pa.RecordBatch.from_pylist([], _other(spec))
    way = PreparedTable(spec.query, spec.schemas, spec.stored, rows).plan(other)
    known = dict(explanation(spec.query, binding, [way.choice]).as_dict())
    for name in ("predicate", "window", "memory"):
        del known[name]
    slow = known.pop("slow", [])
    return {
        **_head(spec.stored, text, label),
        "how": known.pop("how"),
        "mode": "streaming",
        "partitioning": "none: rows stay where they are, and every host has the whole table",
        "state": "none: every row is answered when its task ends",
        "memory": f"{rows.num_rows:,} rows of {show_size(rows.nbytes)} per host, and an index per "
        "worker",
        "slow": slow,
        "computed by Spark": {s.value: parts.computed[s] for s in Side if parts.computed[s]},
        **known,
    }


def _other(spec: TableSpec) -> pa.Schema:
    return spec.schemas[spec.stored.other]
