"""The contestants of the Spark benchmark: thetastream, what Spark users write today, and an echo.

All take the same two streams: keys, and ``t``, an integer event time. The join's answer has
the columns of both sides, the right ones with the suffix ``_right``.

``bucketed``
    The equi-join that Spark can run: the right side is exploded into every bucket that its band
    touches, then equality on the bucket, the exact band and the time condition. Buckets are
    ``BUCKET_BANDS`` bands wide.
``echo``
    The operator's pipeline with nothing to do: rows are packed and shuffled as for ``theta_join``,
    a ``transformWithState`` operator unpacks them and gives them back. It keeps no state, and has
    neither the report column of ``theta_join`` nor its metrics. Copies that a band sends to a
    neighbour cell travel, but are not given back.
``rejoin``
    A ``foreachBatch`` that keeps the rows of the window and joins them anew: batch × window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thetastream.partition import COPY
from thetastream.side import How, Side
from thetastream.spark.frames import METRICS, as_frame
from thetastream.spark.operator import theta_join
from thetastream.spark.packing import PACKED, read_blob
from thetastream.spark.session import placed_keys
from thetastream.spark.spec import JoinSpec
from thetastream.spark.types import arrow_schema
from thetastream.spark.worker import PackTask, pickled
from thetastream.window import TimeWindow

__all__ = ["Rejoin", "Task", "bucketed", "echo", "theta"]

BUCKET_BANDS = 4
_ROWS = 65_536


@dataclass(frozen=True)
class Task:
    """What a contestant has to do."""

    on: str
    """The predicate."""
    width: int
    """Its band, 0 when it has none."""
    window: int
    """Largest distance of the event times of a pair."""
    partitions: int
    state_path: str | None = None
    """Where runs go, if not to the state store."""


def theta(left: DataFrame, right: DataFrame, task: Task) -> DataFrame:
    """Thetastream."""
    window = TimeWindow(task.window, time="t")
    return theta_join(
        left,
        right,
        task.on,
        window=window,
        partitions=task.partitions,
        state_path=task.state_path,
    )


def bucketed(left: DataFrame, right: DataFrame, task: Task) -> DataFrame:
    """Join on hand-made buckets, with Spark's stream-stream join."""
    size = BUCKET_BANDS * task.width
    near, far = f"floor((x - {task.width}) / {size})", f"floor((x + {task.width}) / {size})"
    ones = left.select(
        F.expr("timestamp_millis(t)").alias("ts"),
        "x",
        F.expr(f"floor(x / {size})").alias("bucket"),
    ).withWatermark("ts", "0 seconds")
    others = right.select(
        F.expr("timestamp_millis(t)").alias("ts_right"),
        F.col("x").alias("x_right"),
        F.explode(F.expr(f"sequence({near}, {far})")).alias("bucket_right"),
    ).withWatermark("ts_right", "0 seconds")
    window = f"INTERVAL {task.window} MILLISECONDS"
    pairs = ones.join(
        others,
        F.expr(
            f"bucket = bucket_right AND abs(x - x_right) <= {task.width} "
            f"AND ts_right >= ts - {window} AND ts_right <= ts + {window}"
        ),
    )
    return pairs.selectExpr(
        "x", "unix_millis(ts) AS t", "x_right", "unix_millis(ts_right) AS t_right"
    )


def echo(left: DataFrame, right: DataFrame, task: Task, *, copies: int) -> DataFrame:
    """Pack, shuffle, unpack; every row comes back ``copies`` times.

    With one copy it comes as it is, ``t`` and keys; with two it is given the width of a pair.
    """
    spark = left.sparkSession
    spec = _spec(spark, left, right, task)
    payload = pickled(spec)
    packed = []
    for side, frame in ((Side.LEFT, left), (Side.RIGHT, right)):
        blobs = frame.mapInArrow(PackTask(payload, side.value), from_arrow_schema(PACKED))
        packed.append(blobs.withWatermark("time", "1 milliseconds").drop("time"))
    fields = list(left.schema.fields)
    names = [field.name for field in fields]
    schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
    if copies > 1:
        twins = [f"`{field.name}_right` {field.dataType.simpleString()}" for field in fields]
        schema = ", ".join([schema, *twins])
    return (
        packed[0]
        .unionByName(packed[1])
        .groupBy("partition")
        .transformWithStateInPandas(Echo(tuple(names), copies), schema, "Append", "EventTime")
    )


def _spec(spark: SparkSession, left: DataFrame, right: DataFrame, task: Task) -> JoinSpec:
    """The spec that ``theta_join`` makes of the same call."""
    answer = [(name, Side.LEFT, name) for name in left.columns]
    answer += [(f"{name}_right", Side.RIGHT, name) for name in right.columns]
    return JoinSpec(
        on=task.on,
        window=TimeWindow(task.window, time="t"),
        how=How.INNER,
        self_join=False,
        tactic="auto",
        suffix="_right",
        schemas={
            side: arrow_schema(frame.schema, side.value)
            for side, frame in ((Side.LEFT, left), (Side.RIGHT, right))
        },
        answer=tuple(answer),
        keys=placed_keys(spark, task.partitions),
        scheme="auto",
        cell_width=None,
        batch_rows=_ROWS,
        event_time=None,
        original=task.on,
    )


class Echo(StatefulProcessor):
    """Gives back the rows that it gets, in batches of the size that the join gives."""

    def __init__(self, names: tuple[str, ...], copies: int) -> None:
        self._names = names
        self._copies = copies

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            for blob in frame["blob"].tolist():
                batch = read_blob(blob)
                if COPY in batch.schema.names:
                    batch = batch.filter(pc.invert(batch.column(COPY)))
                batch = batch.select(list(self._names))
                for start in range(0, batch.num_rows, _ROWS):
                    yield from self._given(batch.slice(start, _ROWS))

    def _given(self, batch: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if self._copies > 1:
            names = [*self._names, *(f"{name}_right" for name in self._names)]
            batch = pa.RecordBatch.from_arrays(2 * batch.columns, names=names)
        frame = as_frame(batch)
        del frame[METRICS]
        for _ in range(self._copies):
            yield frame

    def close(self) -> None:
        """Nothing is held open."""


class Rejoin:
    """Joins every batch with the window, in Spark SQL, inside ``foreachBatch``."""

    def __init__(self, task: Task, checksum: str) -> None:
        self._task = task
        self._checksum = checksum
        self._kept: dict[Side, DataFrame] = {}
        self.answers: list[tuple[int, int]] = []

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Join a micro-batch; ``side`` tells of which stream a row is."""
        batch = batch.persist()
        fresh = {side: batch.where(F.col("side") == side.value).drop("side") for side in Side}
        if self._kept:
            left, right = self._kept[Side.LEFT], self._kept[Side.RIGHT]
            answer = self._pairs(fresh[Side.LEFT], right.unionByName(fresh[Side.RIGHT]))
            answer = answer.unionByName(self._pairs(left, fresh[Side.RIGHT]))
        else:
            answer = self._pairs(fresh[Side.LEFT], fresh[Side.RIGHT])
        seen = Observation()
        answer.observe(
            seen, F.count(F.lit(1)).alias("count"), F.expr(self._checksum).alias("sum")
        ).write.format("noop").mode("overwrite").save()
        self.answers.append((int(seen.get["count"]), int(seen.get["sum"] or 0)))
        self._keep(fresh)
        batch.unpersist()

    def _pairs(self, left: DataFrame, right: DataFrame) -> DataFrame:
        near = f"r.t BETWEEN l.t - {self._task.window} AND l.t + {self._task.window}"
        pairs = left.alias("l").join(right.alias("r"), F.expr(f"({self._task.on}) AND {near}"))
        return pairs.selectExpr(
            *(f"l.{name}" for name in left.columns),
            *(f"r.{name} AS {name}_right" for name in right.columns),
        )

    def _keep(self, fresh: dict[Side, DataFrame]) -> None:
        """Keep the rows that a later one can meet, with their history cut off."""
        for side in Side:
            rows = fresh[side]
            if side in self._kept:
                rows = self._kept[side].unionByName(rows)
            top = rows.agg(F.max("t")).first()
            assert top is not None
            kept = rows.where(F.col("t") > top[0] - self._task.window).coalesce(2)
            self._kept[side] = kept.localCheckpoint()
