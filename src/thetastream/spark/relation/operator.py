"""``relation_join``: a DataFrame, streaming or static, enriched from a relation on disk.

    stream ─ select + side expressions ─ mapInArrow(join) ─ observe(metrics) ─ rows of the answer
                                              │
              RelationJoin of the worker process, kept between tasks ─ blocks of the relation

No shuffle and no state: every task joins its own rows with the whole relation, reading the blocks
that they need. Everything is answered when a task ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.errors import OptionError, PredicateError, RelationError, SchemaError, suggest
from thetastream.options.checks import read_columns, read_count, read_text
from thetastream.relation.disk.size import read_size, show_size
from thetastream.relation.store import Relation
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.columns import answer_columns, label_of, numbered, observed, selected
from thetastream.spark.expressions import Split, Splitter, is_plain, sides_of
from thetastream.spark.launch import launched
from thetastream.spark.relation.report import OBSERVED
from thetastream.spark.relation.worker import REPORT, RelationSpec
from thetastream.spark.session import check_workers
from thetastream.spark.starting import watch
from thetastream.spark.theta.explanation import remember_facts
from thetastream.spark.types import arrow_schema, check_names, spark_type

_MODES = (How.INNER, How.LEFT, How.SEMI, How.ANTI)
_Answer = Sequence[tuple[str, Side, str]]


def relation_join(
    stream: DataFrame,
    path: str | os.PathLike[str],
    on: str | Predicate | Expression,
    memory: str | int = "64 MB",
    how: str | How = "inner",
    *,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
    name: str | None = None,
) -> DataFrame:
    """Join a DataFrame with the relation at ``path``, which the driver and all executors can read.

    ``on`` is SQL over ``l``, the DataFrame, and ``r``, the relation, with a term on the relation's
    key; an expression over ``l`` alone may be any Spark SQL. ``how`` is inner, left, semi or anti.
    ``memory`` is what the join may hold *in each Python worker process*: Spark runs one per core.
    ``suffix``, ``columns`` and ``batch_rows`` are those of ``RelationJoin``; ``name`` is what
    metrics and Spark's plans call the join.

    An update of the relation is seen by tasks that begin after it. Each task sees one version.
    """
    mode = _mode(how)
    place = _place(path)
    columns = read_columns(columns)
    read_text("suffix", suffix)
    if name is not None:
        read_text("name", name)
    read_count("batch_rows", batch_rows)
    check_names(stream.schema, "left")
    text = on if isinstance(on, str) else str(Predicate.of(on))
    parts = _LeftSplitter(text, {Side.LEFT: stream}).split()
    with Relation.open(place) as relation:
        answer = answer_columns(stream.columns, relation.schema.names, mode, suffix, columns)
        shown = _shown(stream, parts, answer, text)
        travels = arrow_schema(shown.schema, "left")
        types = _types(answer, stream, relation.schema)
        spec = RelationSpec(
            path=place,
            on=parts.on,
            memory=read_size(memory),
            how=mode.value,
            suffix=suffix,
            stream=travels,
            relation=relation.schema,
            gathered=_gathered(answer, travels, relation.schema, mode, suffix),
            output=pa.schema([(name, to_arrow_type(kind, timezone="UTC")) for name, kind in types]),
            batch_rows=batch_rows,
            reports=stream.isStreaming,
        )
        with parts.naming(text):
            facts = tried(spec, relation, text)
    label = label_of(name, spec.path, spec.on, spec.how) if spec.reports else name or ""
    facts = {"join": facts.pop("join"), "name": label, **facts}
    check_workers(stream.sparkSession)
    facts["computed by Spark"] = dict(parts.computed[Side.LEFT]) or "nothing"
    facts["memory of each worker"] = show_size(spec.memory)
    facts["mode"] = "streaming" if stream.isStreaming else "batch"
    joined = mapped(shown, spec, types, name, label)
    remember_facts(joined, facts, parts.written)
    return joined


# --- Before anything runs -----------------------------------------------------------------------


def _mode(how: str | How) -> How:
    mode = How.of(how)
    if mode not in _MODES:
        raise OptionError(
            f"how must be one of {', '.join(m.value for m in _MODES)}; got {mode.value!r}, which "
            "returns the relation's rows that no stream row matches: a stream has no end after "
            "which that is known. Make a table that does end the left side, or use theta_join "
            "with a window"
        )
    return mode


def _place(path: str | os.PathLike[str]) -> str:
    """The absolute path, which every worker can use."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" in text:
        raise RelationError(
            f"a relation is read block by block from a folder, and {text!r} is not a folder; "
            "mount it where the driver and every executor reach it under one path"
        )
    return str(Path(text).absolute())


class _LeftSplitter(Splitter):
    """Extracts the left side's expressions; the engine computes those of the relation."""

    def _visit(self, node: Any, *, condition: bool) -> Any:
        if sides_of(node) == {Side.RIGHT} and not is_plain(node):
            return node.copy()
        return super()._visit(node, condition=condition)


def _shown(stream: DataFrame, parts: Split, answer: _Answer, text: str) -> DataFrame:
    """The columns that travel: those of the stream that the answer and the condition read."""
    read = set(parts.predicate(text).columns(Side.LEFT)) - set(parts.computed[Side.LEFT])
    for name in sorted(read.difference(stream.columns)):
        raise SchemaError(
            f"the condition reads l.{name}, but the left side has the columns "
            f"{', '.join(stream.columns)}.{suggest(name, stream.columns)}"
        )
    read |= {column for _, side, column in answer if side is Side.LEFT}
    return selected(stream, read, (Side.LEFT,), parts, text)


def _types(answer: _Answer, stream: DataFrame, relation: pa.Schema) -> list[tuple[str, DataType]]:
    """Names and Spark's types of the answer."""
    return [
        (name, stream.schema[column].dataType)
        if side is Side.LEFT
        else (name, spark_type(relation.field(column)))
        for name, side, column in answer
    ]


def _gathered(
    answer: _Answer, travels: pa.Schema, relation: pa.Schema, how: How, suffix: str
) -> tuple[str, ...]:
    """The engine's names for the columns of the answer: it sees only those that travel."""
    shape = OutputShape.of(travels, relation, how, suffix)
    names = dict(zip(shape.origin, shape.schema.names, strict=True))
    return tuple(names[(side, column)] for _, side, column in answer)


def tried(spec: RelationSpec, relation: Relation, text: str) -> dict[str, Any]:
    """Make the join once, so that errors show here and not in a task; return what it explains."""
    try:
        with spec.engine(relation) as join:
            facts = dict(join.explain().as_dict())
    except PredicateError as error:
        raise PredicateError(error.message, text) from None
    return {**facts, "join": f"{spec.how} on {text}"}


# --- The pipeline -------------------------------------------------------------------------------


def mapped(
    shown: DataFrame,
    spec: RelationSpec,
    types: list[tuple[str, DataType]],
    name: str | None,
    label: str,
) -> DataFrame:
    """Join the rows of a DataFrame with the relation."""
    fields = [StructField(name, kind) for name, kind in types]
    if spec.reports:
        fields.append(StructField(REPORT, StringType()))
    title = "thetastream: join relation" + ("" if name is None else f" {name}")
    task = launched(title, "thetastream.spark.relation.worker:RelationTask", spec.as_bytes())
    joined = numbered(shown).mapInArrow(task, StructType(fields))
    if not spec.reports:
        return joined
    result = observed(joined, OBSERVED, label, "tasks")
    watch(result, None if name is None else title)
    return result
