"""The pipelines of a join on Spark: what packs, joins and reports, in Spark's own operators.

    left  ─ mapInArrow(pack) ─ watermark ┐
                                         ├ union ─ group by partition ─ transformWithState(join) ─┐
    right ─ mapInArrow(pack) ─ watermark ┘                                                        │
      rows of the answer ─ observe(metrics) ───────────────────────────────────────────────────────┘

What runs in Python is *launched* (``launch``): it says what to install where the library is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils
from pyspark.util import PythonEvalType

from thetastream.duration import Interval
from thetastream.errors import WindowError
from thetastream.side import Side
from thetastream.spark.columns import numbered, observed
from thetastream.spark.frames import METRICS
from thetastream.spark.launch import LaunchedProcessor, launched, launched_join
from thetastream.spark.theta.packing import PACKED
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.worker import pickled
from thetastream.window import EventTime, Window

OBSERVED = "thetastream"
_DELAY = "spark.watermarkDelayMs"
_WORKER = "thetastream.spark.theta.worker"
Types = list[tuple[str, T.DataType]]


def static_pipeline(spec: JoinSpec, shown: dict[Side, DataFrame], types: Types) -> DataFrame:
    """Join two static DataFrames: every partition at once."""
    payload = pickled(spec)
    packed = [_packed(spec, payload, side, shown[side]) for side in spec.streams]
    schema = T.StructType([T.StructField(name, kind) for name, kind in types])
    joining = launched_join(spec.title("join"), f"{_WORKER}:join_task", payload)
    return _united(packed).groupBy("partition").applyInArrow(joining, schema)


def streaming_pipeline(
    spec: JoinSpec, frames: dict[Side, DataFrame], shown: dict[Side, DataFrame], types: Types
) -> DataFrame:
    """Join two streams, micro-batch by micro-batch."""
    payload = pickled(spec)
    fields = [T.StructField(name, kind) for name, kind in [*types, (METRICS, T.StringType())]]
    if spec.in_files:
        packed = [_packed(spec, payload, side, shown[side]).drop("time") for side in spec.streams]
        joining = launched(spec.title("join"), f"{_WORKER}:JoinInFiles", payload)
        joined = (
            _united(packed)
            .repartition(spec.partitions, "partition")
            .mapInArrow(joining, T.StructType(fields))
        )
        return observed(joined, OBSERVED, spec.label, "partitions")
    clock = cast("EventTime", spec.window) if spec.window.timed else None
    packed = []
    for side in spec.streams:
        frame = _packed(spec, payload, side, shown[side])
        if clock is not None and not _has_watermark(frames[side], clock, side):
            frame = frame.withWatermark("time", _delay(clock))
        # Without a time, a blob is never late for Spark: the join drops late rows itself.
        packed.append(frame.drop("time"))
    processor = LaunchedProcessor(f"{_WORKER}:JoinProcessor", payload, clock is not None)
    mode = "None" if clock is None else "EventTime"
    joined = _stateful(
        _united(packed).groupBy("partition"), processor, T.StructType(fields), mode, spec
    )
    return observed(joined, OBSERVED, spec.label, "partitions")


def _stateful(
    grouped: GroupedData,
    processor: StatefulProcessor,
    schema: T.StructType,
    mode: str,
    spec: JoinSpec,
) -> DataFrame:
    """``transformWithStateInPandas``, under the join's title in Spark's plans.

    PySpark names the function after a method of its own. So this takes the same steps with a named
    one. Spark Connect takes other steps, and keeps PySpark's name.
    """
    column, inner = spec.event_time or "", cast("Any", grouped)
    if not hasattr(inner, "_jgd"):
        return grouped.transformWithStateInPandas(
            processor, schema, "Append", mode, eventTimeColumnName=column
        )
    utils = TransformWithStateInPandasUdfUtils(processor, mode)
    function: Any = partial(utils.transformWithStateUDF)
    function.__name__ = spec.title("join")
    make: Any = pandas_udf
    udf = make(
        function,
        returnType=schema,
        functionType=PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_UDF,
    )
    frame, session = inner._df, inner.session
    call = udf(*(frame[name] for name in frame.columns))
    kind = session._jsparkSession.parseDataType(schema.json())
    java = inner._jgd.transformWithStateInPandas(call._jc, kind, "Append", mode, None, column)
    return DataFrame(java, session)


def _packed(spec: JoinSpec, payload: bytes, side: Side, frame: DataFrame) -> DataFrame:
    packing = launched(spec.title(f"pack {side.value}"), f"{_WORKER}:PackTask", payload, side.value)
    return numbered(frame).mapInArrow(packing, from_arrow_schema(PACKED))


def _united(packed: Sequence[DataFrame]) -> DataFrame:
    return packed[0] if len(packed) == 1 else packed[0].unionByName(packed[1])


# --- Watermarks ---------------------------------------------------------------------------------


def has_watermarks(frames: dict[Side, DataFrame], window: Window) -> bool:
    """Whether Spark's own watermark of a time column decides what is late."""
    clock = cast("EventTime", window)
    return window.timed and any(
        _DELAY in frame.schema[clock.time[side.position]].metadata for side, frame in frames.items()
    )


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
