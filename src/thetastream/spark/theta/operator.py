"""``theta_join``: two DataFrames in, one out, on any comparison.

    left  ─ select + side expressions ─ mapInArrow(pack) ─ watermark ┐
                                                                     ├ union ─ group by partition ┐
    right ─ select + side expressions ─ mapInArrow(pack) ─ watermark ┘                            │
      rows of the answer ─ observe(metrics) ─ transformWithState(join) ───────────────────────────┘

Streams run in ``transformWithState``, with Spark's checkpoints and watermark. Static DataFrames
take the same path without the state: each partition is joined at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from thetastream.aggregate import Aggregate, Summary, check_aggregates, of_right, read_aggregates
from thetastream.boxes.arrival import order_domain
from thetastream.boxes.binding import check_columns
from thetastream.condition.custom import Custom, PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.duration import Interval
from thetastream.engine.report import warn_of_nested_loop
from thetastream.errors import OptionError, PredicateError, SchemaError, StateError, WindowError
from thetastream.options.checks import read_columns, read_count, read_text
from thetastream.plan.tactic import Tactic
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.expressions import Split, split
from thetastream.spark.frames import METRICS
from thetastream.spark.functions import ShippedFunction
from thetastream.spark.session import (
    check_streaming,
    default_partitions,
    placed_keys,
    task_keys,
)
from thetastream.spark.state.folder import read_location
from thetastream.spark.theta.explanation import remember
from thetastream.spark.theta.packing import PACKED
from thetastream.spark.theta.spec import JoinSpec, returns_later
from thetastream.spark.theta.worker import (
    JoinInFiles,
    JoinProcessor,
    PackTask,
    join_task,
    pickled,
)
from thetastream.spark.types import arrow_schema, check_names, known_types
from thetastream.window import EventTime, Window

OBSERVED = "thetastream"
_DELAY = "spark.watermarkDelayMs"
_numbers = count(1)


def theta_join(
    left: DataFrame,
    right: DataFrame | None,
    on: str | Predicate | Expression,
    window: Window,
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
    batch_rows: int = 65_536,
    aggregate: Mapping[str, str | tuple[str, str]] | None = None,
    residual: PairFunction | None = None,
) -> DataFrame:
    """Join two DataFrames, both streaming or both static, on any conjunction of comparisons.

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
    can reach, one per query, for the rows of the window; without it they are in Spark's state
    store, which is slower to write.

    ``thetastream.spark.explain(result)`` shows how the join runs.
    """
    spark = left.sparkSession
    self_join = right is None or right is left
    frames = {Side.LEFT: left, Side.RIGHT: left if right is None else right}
    mode = How.of(how)
    streaming = _is_streaming(frames)
    _check_window(window)
    columns = read_columns(columns)
    read_text("suffix", suffix)
    if event_time is not None:
        read_text("event_time", event_time)
    if state_path is not None:
        read_text("state_path", state_path)
    for side, frame in frames.items():
        check_names(frame.schema, side.value)
    parts = split(on)
    custom = _shipped(on, residual, frames)
    asked = () if aggregate is None else of_right(read_aggregates(aggregate))
    _check_aggregated(asked, frames[Side.RIGHT], event_time)
    other, aggregated = frames[Side.RIGHT].columns, [one.name for one in asked]
    answer = answer_columns(left.columns, other, mode, suffix, columns, aggregated)
    shown = _shown(frames, parts, window, answer, asked, self_join, str(on), custom)
    if event_time is not None:
        _check_event_time(event_time, answer, window, mode, frames, streaming)
    in_files = (
        streaming
        and state_path is not None
        and event_time is None
        and not returns_later(mode, asked)
        and not _has_watermarks(frames, window)
    )
    if streaming and not in_files:
        check_streaming(spark)
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
    )
    if spec.state_path is not None:
        read_location(spec.state_path)
    _ = spec.query, spec.routing  # errors of the join show here, not in a task
    order_domain(window.order, spec.schemas)
    warn_of_nested_loop(spec.predicate, spec.tactic, spec.binding, 2, str(on))
    types = _output_types(spec, shown)
    if streaming:
        result = _streaming(spec, frames, shown, types)
    else:
        result = _static(spec, shown, types)
    facts = {
        "computed": {s.value: parts.computed[s] for s in Side if parts.computed[s]},
        "mode": "streaming" if streaming else "batch: every partition is joined at once",
    }
    remember(result, spec, facts)
    return result


# --- Before anything runs -----------------------------------------------------------------------


def _is_streaming(frames: dict[Side, DataFrame]) -> bool:
    kinds = {side: frame.isStreaming for side, frame in frames.items()}
    if len(set(kinds.values())) > 1:
        table = next(side for side, streams in kinds.items() if not streams)
        raise StateError(
            f"the {table.value} side is a static DataFrame and the other a stream; theta_join "
            "takes two streams or two static DataFrames. Read the table as a stream too"
        )
    return kinds[Side.LEFT]


def _check_window(window: Any) -> None:
    if window is None:
        raise WindowError(
            "a join without a window would keep every row for ever; pass a "
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


def _shipped(
    on: str | Predicate | Expression,
    residual: PairFunction | None,
    frames: dict[Side, DataFrame],
) -> Custom | None:
    """The residual function as it travels, over the columns of both DataFrames."""
    built = on.custom if isinstance(on, Predicate) else None
    function = residual if residual is not None or built is None else built.function
    if function is None:
        return None
    Custom.of(function)  # refuse what is no function
    names = [frames[side].columns for side in Side]
    return Custom(ShippedFunction(function)).over(*names)


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


def answer_columns(
    left: Sequence[str],
    right: Sequence[str],
    how: How,
    suffix: str,
    columns: Sequence[str] | None,
    aggregates: Sequence[str] = (),
) -> tuple[tuple[str, Side, str], ...]:
    """The columns of the answer: name, side, and name there."""
    first, second = (pa.schema([(n, pa.null()) for n in names]) for names in (left, right))
    fields = [pa.field(name, pa.null()) for name in aggregates]
    shape = OutputShape.of(first, second, how, suffix, columns, fields=fields)
    return tuple((n, *place) for n, place in zip(shape.schema.names, shape.origin, strict=True))


def _shown(
    frames: dict[Side, DataFrame],
    parts: Split,
    window: Window,
    answer: tuple[tuple[str, Side, str], ...],
    aggregates: Sequence[Aggregate],
    self_join: bool,
    text: str,
    custom: Custom | None,
) -> dict[Side, DataFrame]:
    """Per side, the columns that travel: what the answer and the join read, nothing else."""
    predicate = parts.predicate(text)
    shown: dict[Side, DataFrame] = {}
    for side, frame in frames.items():
        roles = tuple(Side) if self_join else (side,)
        for role in roles:
            computed = [pa.field(name, pa.null()) for name in parts.computed[role]]
            known = [pa.field(name, pa.null()) for name in frame.columns]
            check_columns(predicate, window, role, pa.schema([*known, *computed]))
        if aggregates and side is Side.RIGHT:
            read = {one.column for one in aggregates if one.column is not None}
        else:
            read = {column for _, s, column in answer if s in roles}
        read |= {name for role in roles for name in predicate.columns(role)}
        read |= {name for role in roles for name in window.columns(role).values()}
        if custom is not None:
            read |= {name for role in roles for name in custom.names[role.position]}
        shown[side] = selected(frame, read, roles, parts, text)
    return shown


def selected(
    frame: DataFrame, read: Collection[str], roles: Sequence[Side], parts: Split, text: str
) -> DataFrame:
    """The columns that are read, and the expressions that Spark computes for these roles."""
    names = [name.replace("`", "``") for name in frame.columns if name in read]
    extra = [
        _computed(frame, name, sql, role, text)
        for role in roles
        for name, sql in parts.computed[role].items()
    ]
    return frame.select(*(F.col(f"`{name}`") for name in names), *extra)


def _computed(frame: DataFrame, name: str, sql: str, side: Side, text: str) -> Any:
    """A side expression as a column; PredicateError with Spark's reason if it is refused.

    It is tried as a condition, where Spark refuses what is not a function of one row: aggregates,
    window functions and ``explode``.
    """
    column = F.expr(sql)
    try:
        tried = frame.where(column.isNull())
        _ = tried.select(F.lit(1)).schema  # Connect knows the schema of a filter without asking
    except PySparkException as error:
        reason = str(error).split("\n")[0]
        raise PredicateError(
            f"Spark cannot compute {sql} on the {side.value} side: {reason}", text
        ) from None
    if not _is_deterministic(tried):
        raise PredicateError(
            f"{sql} on the {side.value} side is not deterministic, so a retried task would not "
            "find the same rows; compute it upstream and store it, or leave it out",
            text,
        )
    return column.alias(name)


def _is_deterministic(tried: DataFrame) -> bool:
    """Whether Spark considers the added condition deterministic; Connect does not say."""
    plan = getattr(tried, "_jdf", None)
    if plan is None:
        return True
    return bool(plan.queryExecution().analyzed().expressions().apply(0).deterministic())


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


def _has_watermarks(frames: dict[Side, DataFrame], window: Window) -> bool:
    """Whether Spark's own watermark of a time column decides what is late."""
    clock = cast("EventTime", window)
    return window.timed and any(
        _DELAY in frame.schema[clock.time[side.position]].metadata for side, frame in frames.items()
    )


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


# --- The pipelines ------------------------------------------------------------------------------


def numbered(frame: DataFrame) -> DataFrame:
    """The columns under other names, since theirs may hold dots."""
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))


def observed(joined: DataFrame, name: str, reports: str) -> DataFrame:
    """The rows of the answer; the others are reports, which Spark collects under a name."""
    found = joined.observe(f"{name}-{next(_numbers)}", F.collect_list(METRICS).alias(reports))
    return found.where(F.col(METRICS).isNull()).drop(METRICS)


def _packed(payload: bytes, side: Side, frame: DataFrame) -> DataFrame:
    return numbered(frame).mapInArrow(PackTask(payload, side.value), from_arrow_schema(PACKED))


def _united(packed: Sequence[DataFrame]) -> DataFrame:
    return packed[0] if len(packed) == 1 else packed[0].unionByName(packed[1])


def _static(
    spec: JoinSpec, shown: dict[Side, DataFrame], types: list[tuple[str, T.DataType]]
) -> DataFrame:
    payload = pickled(spec)
    packed = [_packed(payload, side, shown[side]) for side in spec.streams]
    schema = T.StructType([T.StructField(name, kind) for name, kind in types])
    return _united(packed).groupBy("partition").applyInArrow(join_task(payload), schema)


def _streaming(
    spec: JoinSpec,
    frames: dict[Side, DataFrame],
    shown: dict[Side, DataFrame],
    types: list[tuple[str, T.DataType]],
) -> DataFrame:
    payload = pickled(spec)
    fields = [T.StructField(name, kind) for name, kind in [*types, (METRICS, T.StringType())]]
    if spec.in_files:
        packed = [_packed(payload, side, shown[side]).drop("time") for side in spec.streams]
        joined = (
            _united(packed)
            .repartition(spec.partitions, "partition")
            .mapInArrow(JoinInFiles(payload), T.StructType(fields))
        )
        return observed(joined, OBSERVED, "partitions")
    clock = cast("EventTime", spec.window) if spec.window.timed else None
    packed = []
    for side in spec.streams:
        frame = _packed(payload, side, shown[side])
        if clock is not None and not _has_watermark(frames[side], clock, side):
            frame = frame.withWatermark("time", _delay(clock))
        # Without a time, a blob is never late for Spark: the join drops late rows itself.
        packed.append(frame.drop("time"))
    joined = (
        _united(packed)
        .groupBy("partition")
        .transformWithStateInPandas(
            JoinProcessor(payload, timed=clock is not None),
            T.StructType(fields),
            "Append",
            "None" if clock is None else "EventTime",
            eventTimeColumnName=spec.event_time or "",
        )
    )
    return observed(joined, OBSERVED, "partitions")


def _has_watermark(frame: DataFrame, window: EventTime, side: Side) -> bool:
    """Whether the time column already has a watermark, as the result of another join has."""
    name = window.time[side.position]
    if _DELAY not in frame.schema[name].metadata:
        return False
    if window.lateness:
        raise WindowError(
            f"column {name!r} of the {side.value} side has a watermark already, and the window has "
            f"a lateness of {window.lateness}: say it once, in withWatermark or as lateness"
        )
    return True


def _delay(window: EventTime) -> str:
    """The delay of Spark's watermark: one millisecond more than the lateness.

    For Spark a row is late if it is not above the watermark; here, if it is below the frontier.
    """
    lateness = window.lateness
    if isinstance(lateness, Interval):
        milliseconds, rest = divmod(lateness.nanoseconds, 1_000_000)
        if rest:
            raise WindowError(
                f"the lateness {lateness} is finer than a millisecond, in which Spark counts its "
                "watermark; round it up"
            )
    else:
        milliseconds = lateness
    return f"{milliseconds + 1} milliseconds"
