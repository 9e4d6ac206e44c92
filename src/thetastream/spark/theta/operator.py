"""``theta_join``: two DataFrames in, one out, on any comparison.

    left  ─ select + side expressions ─ mapInArrow(pack) ─ watermark ┐
                                                                     ├ union ─ group by partition ┐
    right ─ select + side expressions ─ mapInArrow(pack) ─ watermark ┘                            │
      rows of the answer ─ observe(metrics) ─ transformWithState(join) ───────────────────────────┘

Streams run in ``transformWithState``, with Spark's checkpoints and watermark. Static DataFrames
take the same path without the state: each partition is joined at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from thetastream.aggregate import Aggregate, Summary, check_aggregates, of_right, read_aggregates
from thetastream.boxes.arrival import order_domain
from thetastream.condition.custom import PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.engine.report import warn_of_nested_loop
from thetastream.errors import IdleTasksWarning, OptionError, SchemaError, StateError, WindowError
from thetastream.options.checks import read_columns, read_count, read_text
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.spark.columns import answer_columns, label_of, shipped, travelling
from thetastream.spark.expressions import split
from thetastream.spark.session import (
    check_streaming,
    check_workers,
    default_partitions,
    idle_tasks,
    placed_keys,
    task_keys,
)
from thetastream.spark.starting import watch
from thetastream.spark.state.checkpoint import fingerprints_in, nearest
from thetastream.spark.state.fingerprint import keys_in, refuse_another
from thetastream.spark.state.folder import read_location
from thetastream.spark.table.operator import join_table
from thetastream.spark.theta.explanation import remember
from thetastream.spark.theta.pipeline import has_watermarks, static_pipeline, streaming_pipeline
from thetastream.spark.theta.spec import JoinSpec, returns_later
from thetastream.spark.types import arrow_schema, check_names, known_types
from thetastream.window import Unbounded, Window


def theta_join(
    left: DataFrame,
    right: DataFrame | None,
    on: str | Predicate | Expression,
    window: Window | None = None,
    how: str | How = "inner",
    *,
    tactic: str | Tactic = "auto",
    workers: int = 1,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    partitioning: str = "auto",
    cell_width: float | None = None,
    event_time: str | None = None,
    state_path: str | None = None,
    checkpoint: str | None = None,
    batch_rows: int = 65_536,
    aggregate: Mapping[str, str | tuple[str, str]] | None = None,
    residual: PairFunction | None = None,
    memory: str | int = "512 MB",
    name: str | None = None,
) -> DataFrame:
    """Join two DataFrames, streaming or static, on any conjunction of comparisons.

    ``on`` is SQL over ``l`` and ``r``; an expression over one side may be any Spark SQL. With
    ``right=None``, or the same DataFrame twice, every ordered pair of two different rows of one
    stream is joined. ``window``, ``how``, ``tactic``, ``suffix``, ``columns``, ``aggregate`` and
    ``residual`` are those of ``StreamJoin``; a count window needs ``order``. A residual function is
    pickled, as Spark pickles its UDFs, and gets all columns of both DataFrames. ``workers`` are
    threads of every partition. There is no ``collect``: the trigger decides how many rows a
    micro-batch holds. ``partitions`` (default: one per core) and ``partitioning`` (``auto``,
    ``hash``, ``cells``, ``matrix``) say how the work is shared; ``cell_width`` sets the width of a
    band's cells. ``event_time`` names one more output column, the later event time of a pair, on
    which an aggregation or another join can follow. ``state_path`` is a folder that every executor
    can reach, one per join, for the rows of the window; without it they are in Spark's state
    store, which is slower to write. ``checkpoint`` is the folder that the query's
    ``checkpointLocation`` names: the partitions are taken from it, and the checkpoint of another
    join is refused here, not only at the start. ``name`` is what metrics and Spark's plans call the
    join, and a query without a name.

    Two static DataFrames need no window, nor does a stream with a static one. That table is read
    when this is called; if it is larger than ``memory``, it is sorted on disk. ``how`` must not
    keep its rows.

    ``thetastream.spark.explain(result)`` shows how the join runs.
    """
    spark = left.sparkSession
    self_join = right is None or right is left
    frames = {Side.LEFT: left, Side.RIGHT: left if right is None else right}
    mode = How.of(how)
    streams = [frame.isStreaming for frame in frames.values()]
    streaming = any(streams)
    columns = read_columns(columns)
    texts = {"event_time": event_time, "state_path": state_path, "checkpoint": checkpoint}
    for option, value in {"suffix": suffix, "name": name, **texts}.items():
        if value is not None or option == "suffix":
            read_text(option, value)
    for side, frame in frames.items():
        check_names(frame.schema, side.value)
    if streaming and not all(streams):
        others = {
            "partitions": partitions,
            "cell_width": cell_width,
            "aggregate": aggregate,
            **texts,
        }
        given = {option: value for option, value in others.items() if value is not None}
        if partitioning != "auto":
            given["partitioning"] = partitioning
        if workers != 1:
            given["workers"] = workers
        _check_table(frames, window, given)
        return join_table(
            frames,
            on,
            mode,
            tactic=tactic,
            suffix=suffix,
            columns=columns,
            batch_rows=batch_rows,
            residual=residual,
            memory=memory,
            name=name,
        )
    if window is None and not streaming:
        window = Unbounded()
    else:
        _check_window(window)
    assert window is not None
    parts = split(on, frames)
    custom = shipped(on, residual, frames)
    asked = () if aggregate is None else of_right(read_aggregates(aggregate))
    _check_aggregated(asked, frames[Side.RIGHT], event_time)
    other, aggregated = frames[Side.RIGHT].columns, [one.name for one in asked]
    answer = answer_columns(left.columns, other, mode, suffix, columns, aggregated)
    shown = travelling(frames, parts, window, answer, asked, self_join, str(on), custom)
    if event_time is not None:
        _check_event_time(event_time, answer, window, mode, frames, streaming)
    in_files = (
        streaming
        and state_path is not None
        and event_time is None
        and not returns_later(mode, asked)
        and not has_watermarks(frames, window)
    )
    if streaming:
        check_streaming(spark, stateful=not in_files)
    check_workers(spark)
    spec = JoinSpec(
        on=parts.on,
        window=window,
        how=mode,
        self_join=self_join,
        tactic=Tactic.of(tactic),
        workers=workers,
        suffix=suffix,
        schemas={side: arrow_schema(frame.schema, side.value) for side, frame in shown.items()},
        answer=answer,
        keys=_keys(spark, partitions, in_files),
        scheme=partitioning,
        cell_width=cell_width,
        batch_rows=batch_rows,
        event_time=event_time,
        original=str(on),
        state_path=state_path if streaming else None,
        aggregates=asked,
        in_files=in_files,
        residual=custom,
        name=name,
        multiples=parts.multiples,
    )
    if spec.state_path is not None:
        read_location(spec.state_path)
    if checkpoint is not None and streaming:
        spec = _as_stored(spark, spec, checkpoint, given=partitions is not None)
    with parts.naming(str(on)):
        _ = spec.query, spec.routing  # errors of the join show here, not in a task
    order_domain(window.order, spec.schemas)
    warn_of_nested_loop(spec.predicate, spec.tactic, spec.binding, 2, str(on))
    facts = {
        "computed": {s.value: parts.computed[s] for s in Side if parts.computed[s]},
        "written": parts.written,
        "mode": "streaming" if streaming else "batch: every partition is joined at once",
    }
    types = _output_types(spec, shown)
    if streaming:
        spec = replace(spec, label=label_of(name, *spec.fingerprint.values()))
        if not in_files and (slow := idle_tasks(spark, spec.partitions)):
            warnings.warn(slow, IdleTasksWarning, stacklevel=2)
            facts["slow"] = slow
        result = streaming_pipeline(spec, frames, shown, types)
        title = None if name is None else spec.title("join")
        folder = spec.state_path if in_files else None
        watch(result, title, partial(_check_start, spark, spec), folder)
    else:
        result = static_pipeline(spec, shown, types)
    remember(result, spec, facts)
    return result


# --- Before anything runs -----------------------------------------------------------------------


def _check_table(frames: dict[Side, DataFrame], window: Any, given: dict[str, Any]) -> None:
    """Refuse what has no meaning for a stream joined to a table."""
    table = next(side for side in Side if not frames[side].isStreaming)
    says = f"the {table.value} side is a static DataFrame and the other a stream"
    if window is not None:
        raise StateError(
            f"{says}: rows of a table do not expire, so leave out window=, and every stream row "
            "meets the whole table. For a window, read the table as a stream too; for a table "
            "larger than memory, use relation_join"
        )
    if given:
        names = ", ".join(f"{option}={value!r}" for option, value in given.items())
        raise OptionError(
            f"{says}, which needs no state and no shuffle, so {names} has no meaning; leave it out"
        )


def _check_window(window: Any) -> None:
    if window is None:
        raise WindowError(
            "a join of two streams without a window would keep every row for ever; pass a "
            "TimeWindow('10 minutes', time=…) or a CountWindow(size, order=…)"
        )
    if not isinstance(window, Window):
        raise WindowError(f"window must be a TimeWindow or a CountWindow; got {window!r}")
    if not window.parted:
        raise WindowError(
            "on Spark a window must be a TimeWindow or a CountWindow, whose rows can be dealt to "
            f"partitions; got {window}. StreamJoin takes it, in one process"
        )
    if window.by_arrival:
        raise WindowError(
            "rows of a DataFrame have no order of arrival: a CountWindow on Spark needs "
            "order='column', whose values rank the rows of both sides"
        )


def _as_stored(spark: SparkSession, spec: JoinSpec, checkpoint: str, *, given: bool) -> JoinSpec:
    """The join with the partitions of its checkpoint; StateError if that is of another join."""
    fingerprints = fingerprints_in(spark, checkpoint, spec.state_path if spec.in_files else None)
    if not fingerprints:
        return spec
    stored = nearest(fingerprints, spec.fingerprint)
    keys = keys_in(stored)
    if not given or len(keys) == spec.partitions:
        spec = replace(spec, keys=keys)
    refuse_another(stored, spec.fingerprint, checkpoint)
    return spec


def _check_start(spark: SparkSession, spec: JoinSpec, checkpoint: str) -> None:
    """StateError for a query that is started from the checkpoint of another join.

    A checkpoint that the driver cannot read is left to the workers.
    """
    try:
        found = fingerprints_in(spark, checkpoint, spec.state_path if spec.in_files else None)
    except (OptionError, PySparkException, pa.ArrowException, OSError):
        return
    if found:
        refuse_another(nearest(found, spec.fingerprint), spec.fingerprint, checkpoint)


def _check_aggregated(
    aggregates: Sequence[Aggregate], right: DataFrame, event_time: str | None
) -> None:
    if not aggregates:
        return
    if event_time is not None:
        raise OptionError(
            "event_time is for pairs: a row with aggregates has the event time of its left row, "
            "and is given only after the watermark has passed it, so an operator that follows "
            "would drop it as late. Write the result to a sink, and read it as a new stream"
        )
    check_aggregates(aggregates, known_types(right.schema), "the right side")
    check_names(
        T.StructType([T.StructField(a.name, T.LongType()) for a in aggregates]), "aggregated"
    )


def _check_event_time(
    name: str,
    answer: tuple[tuple[str, Side, str], ...],
    window: Window,
    how: How,
    frames: dict[Side, DataFrame],
    streaming: bool,
) -> None:
    if name in {column for column, _, _ in answer}:
        raise SchemaError(
            f"event_time={name!r} names a column that the answer has already; choose another name"
        )
    if not window.timed:
        raise WindowError("event_time needs a TimeWindow: a count window has no event time")
    if how is not How.INNER and streaming:
        raise OptionError(
            f"event_time is for inner joins: a {how.value} join returns unmatched rows only after "
            "the watermark has passed them, so an operator that follows would drop them as late. "
            "Write the result to a sink, and read it as a new stream"
        )
    for side in Side:
        column = window.columns(side)["time"]
        kind = frames[side].schema[column].dataType
        if not isinstance(kind, T.TimestampType):
            raise SchemaError(
                f"event_time needs timestamps; {side.alias}.{column} is {kind.simpleString()}"
            )


def _keys(spark: SparkSession, partitions: int | None, in_files: bool) -> tuple[int, ...]:
    number = default_partitions(spark) if partitions is None else partitions
    number = read_count("partitions", number)
    return task_keys(spark, number) if in_files else placed_keys(spark, number)


def _output_types(spec: JoinSpec, shown: dict[Side, DataFrame]) -> list[tuple[str, T.DataType]]:
    aggregates = {one.name: one for one in spec.aggregates}
    types = [
        (name, _summary_type(aggregates[name], shown[side]))
        if name in aggregates
        else (name, shown[side].schema[column].dataType)
        for name, side, column in spec.answer
    ]
    if spec.event_time is not None:
        types.append((spec.event_time, T.TimestampType()))
    return types


def _summary_type(aggregate: Aggregate, frame: DataFrame) -> T.DataType:
    """The type of an aggregate; that of its column for min and max."""
    if aggregate.function is Summary.COUNT:
        return T.LongType()
    if aggregate.function is Summary.MEAN:
        return T.DoubleType()
    assert aggregate.column is not None
    kind = frame.schema[aggregate.column].dataType
    if aggregate.function is not Summary.SUM:
        return kind
    if isinstance(kind, T.DecimalType):
        return T.DecimalType(38, kind.scale)
    return T.DoubleType() if isinstance(kind, T.FractionalType) else T.LongType()
