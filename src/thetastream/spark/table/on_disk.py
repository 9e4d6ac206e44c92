"""A static DataFrame that is larger than ``memory=``: it becomes a table on disk.

    table ─ mapInArrow(blobs) ─ partition by partition to the driver ─ Relation.build ─┐
                                                        a folder, or an archive of it  │
    stream ─ mapInArrow(RelationTask) ─ observe(metrics) ─ rows of the answer ◀────────┘

The relation is sorted by the column that the condition narrows best, so a row reads only the blocks
that it asks for. From there on it is a ``relation_join``: the same task, metrics and modes.
In local mode workers open the driver's folder; otherwise Spark copies an archive of it to the
hosts.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thetastream.boxes.binding import Binding
from thetastream.condition.expression import Column, Function
from thetastream.condition.term import Compare, Term
from thetastream.errors import OptionError, ThetastreamError
from thetastream.relation.disk.size import show_size
from thetastream.relation.store import Relation
from thetastream.side import Side
from thetastream.spark.blobs import conformed, read_blob
from thetastream.spark.columns import numbered
from thetastream.spark.launch import launched
from thetastream.spark.relation.operator import tried
from thetastream.spark.relation.worker import RelationSpec
from thetastream.spark.table.worker import TableSpec

Key = str | tuple[str, str]
_LEAST = 64_000_000  # bytes with which a relation is built
_SHARE = 16_000_000  # bytes that every worker has at least
_LOWER = (Function.GT, Function.GE)
_UPPER = (Function.LT, Function.LE)


def arriving(table: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a table, while the driver holds those of one partition at a time."""
    task = launched("thetastream: read table", "thetastream.spark.table.worker:ReadTask")
    for row in numbered(table).mapInArrow(task, "blob binary").toLocalIterator():
        yield conformed(read_blob(bytes(row.blob)), schema)


def expected_bytes(table: DataFrame) -> int:
    """How large Spark expects a table to be; 0 under Spark Connect, which does not say."""
    plan = getattr(table, "_jdf", None)
    if plan is None:
        return 0
    return int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))


# --- The key ------------------------------------------------------------------------------------


def key_of(spec: TableSpec, binding: Binding, limit: int, table: DataFrame) -> Key:
    """What the table is to be sorted by; OptionError if it has to be in memory."""
    if not hasattr(table, "_jdf"):
        raise _refused(spec, limit, "Spark Connect cannot copy files to the hosts")
    if spec.stored is Side.LEFT:
        raise _refused(spec, limit, "only a table on the right can be joined from disk")
    if spec.residual is not None:
        raise _refused(spec, limit, "a residual function needs it in memory")
    terms = [b.term for b in binding.terms if isinstance(b.term.right, Column)]
    for chosen in (
        [_column(term) for term in terms if term.is_equality],
        [_column(term) for term in terms if term.is_band],
        _intervals(terms, spec.schemas[Side.RIGHT]),
        [_column(term) for term in terms if _comparison(term) is not None],
    ):
        if chosen:
            return chosen[0]
    raise _refused(spec, limit, "no term compares one of its columns in order")


def _column(term: Term) -> str:
    assert isinstance(term.right, Column)
    return term.right.name


def _comparison(term: Term) -> Function | None:
    """The operator of a term that is one plain comparison of two values in order."""
    if len(term.arms) != 1 or len(term.arms[0]) != 1:
        return None
    (condition,) = term.arms[0]
    if not isinstance(condition, Compare) or condition.op not in (*_LOWER, *_UPPER):
        return None
    return condition.op


def _intervals(terms: list[Term], schema: pa.Schema) -> list[Key]:
    """Columns between which a value of the stream lies: ``l.x BETWEEN r.lo AND r.hi``."""
    ends: dict[Any, dict[tuple[Function, ...], str]] = defaultdict(dict)
    for term in terms:
        op = _comparison(term)
        if op is not None and not term.arms[0][0].constants:
            side = _LOWER if op in _LOWER else _UPPER
            ends[term.left.key()].setdefault(side, _column(term))
    pairs = [(found[_LOWER], found[_UPPER]) for found in ends.values() if len(found) == 2]
    return [pair for pair in pairs if schema.field(pair[0]).type == schema.field(pair[1]).type]


def _refused(spec: TableSpec, limit: int, reason: str) -> OptionError:
    return OptionError(
        f"the static {spec.stored.value} side is larger than memory={show_size(limit)}, which is "
        f"for every host, and {reason}. Raise memory=, leave out columns with columns=, or build a "
        "table on disk (ts.Relation.build) and use relation_join"
    )


# --- The table ----------------------------------------------------------------------------------


def put_on_disk(
    spec: TableSpec, key: Key, rows: Iterator[pa.RecordBatch], limit: int, base: str
) -> str:
    """Build a relation in a folder of its own below ``base``; the folder."""
    place = os.path.join(tempfile.mkdtemp(prefix="relation-", dir=base), "table")
    ends: dict[str, Any] = {} if isinstance(key, str) else {"open_ends": False, "keep_empty": True}
    source = pa.RecordBatchReader.from_batches(spec.schemas[Side.RIGHT], rows)
    try:
        Relation.build(place, source, key, memory=max(limit, _LEAST), **ends).close()
    except ThetastreamError as error:
        raise _refused(spec, limit, f"it cannot be sorted by {key} on disk: {error}") from None
    return place


def relation_spec(
    spec: TableSpec, spark: SparkSession, place: str, limit: int, text: str
) -> tuple[RelationSpec, dict[str, Any]]:
    """The join with the relation, and what explains it."""
    workers = spark.sparkContext.defaultParallelism
    with Relation.open(place) as relation:
        joining = RelationSpec(
            path=place,
            on=spec.on,
            memory=max(limit // workers, _SHARE),
            how=spec.how.value,
            suffix=spec.suffix,
            stream=spec.schemas[Side.LEFT],
            relation=relation.schema,
            gathered=spec.gathered,
            output=spec.output,
            batch_rows=spec.batch_rows,
            reports=True,
            archive=_archived(spark, place),
        )
        known = tried(joining, relation, text)
        held = f"a table on disk of {relation.rows:,} rows, larger than memory={show_size(limit)}"
    del known["join"]
    facts = {
        "how": spec.how.value,
        "mode": "streaming",
        "partitioning": "none: rows stay where they are, and every host has the whole table",
        "state": "none: every row is answered when its task ends",
        "table": f"{held}; {show_size(joining.memory)} in memory per worker",
    }
    return joining, facts | known


def _archived(spark: SparkSession, place: str) -> str:
    """Have Spark copy the folder to every host; its name there, or none in local mode."""
    master = str(spark.sparkContext.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return ""
    name = f"thetastream-{os.path.basename(os.path.dirname(place))}"
    archive = os.path.join(os.path.dirname(place), f"{name}.tar")
    with tarfile.open(archive, "w") as files:
        for file in sorted(os.listdir(place)):
            files.add(os.path.join(place, file), file)
    spark.sparkContext.addArchive(f"{archive}#{name}")
    return name
