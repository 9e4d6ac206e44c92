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
    A ``foreachBatch`` that keeps the rows of the window and joins them anew: batch × window. Spark
    compares all pairs (``BroadcastNestedLoopJoin``), about 9 ns of a core each. Broadcasting the
    fresh rows, which are fewer, saved a tenth of that. What was tried without effect: sorting
    either side or both, the terms in another order, the time condition first, columns that are not
    nullable, more partitions. Slower, by four times: ``CartesianProduct``, no code generation.
``rejoin`` by blocks
    The same by hand-made zone maps: the right rows are cut into blocks of neighbouring first keys,
    a left row is joined with the blocks whose largest first and least second key let it in, and
    then by equality on the block, with the exact terms. That helps where the keys are correlated,
    as in W2. ``BLOCKS`` per key domain, which is taken to be [0, 1): the fastest of 64 to 4,096.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thetabench.spark.job import Job, counted, observed
from thetastream.engine.partition.partition import COPY
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.spark.blobs import read_blob
from thetastream.spark.frames import METRICS, as_frame
from thetastream.spark.session import placed_keys
from thetastream.spark.theta.operator import answer_columns, theta_join
from thetastream.spark.theta.packing import PACKED
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.worker import PackTask, pickled
from thetastream.spark.types import arrow_schema
from thetastream.window import TimeWindow

BUCKET_BANDS = 4
BLOCKS = 1024
_ROWS = 65_536


@dataclass(frozen=True)
class StreamJob(Job):
    """A join of two streams; options of ``theta_join`` follow its name."""

    source: str
    """Folder with the folders ``left`` and ``right``."""
    files: int
    """Files per side and micro-batch."""
    width: int
    """Band of the condition, 0 when it has none."""
    window: int
    """Largest distance of the event times of a pair."""
    partitions: int
    checkpoint: str
    state_path: str | None = None
    """Where runs go, if not to the state store."""
    tactic: str = "auto"
    """Tactic of ``theta_join``."""


def theta(left: DataFrame, right: DataFrame, job: StreamJob) -> DataFrame:
    """Thetastream."""
    return theta_join(
        left,
        right,
        job.on,
        window=TimeWindow(job.window, time="t"),
        tactic=job.tactic,
        partitions=job.partitions,
        state_path=job.state_path,
    )


def bucketed(left: DataFrame, right: DataFrame, job: StreamJob) -> DataFrame:
    """Join on hand-made buckets, with Spark's stream-stream join."""
    size = BUCKET_BANDS * job.width
    near, far = f"floor((x - {job.width}) / {size})", f"floor((x + {job.width}) / {size})"
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
    window = f"INTERVAL {job.window} MILLISECONDS"
    pairs = ones.join(
        others,
        F.expr(
            f"bucket = bucket_right AND abs(x - x_right) <= {job.width} "
            f"AND ts_right >= ts - {window} AND ts_right <= ts + {window}"
        ),
    )
    return pairs.selectExpr(
        "x", "unix_millis(ts) AS t", "x_right", "unix_millis(ts_right) AS t_right"
    )


def echo(left: DataFrame, right: DataFrame, job: StreamJob, *, copies: int) -> DataFrame:
    """Pack, shuffle, unpack; every row comes back ``copies`` times.

    With one copy it comes as it is, ``t`` and keys; with two it is given the width of a pair.
    """
    payload = pickled(_spec(left.sparkSession, left, right, job))
    packed = []
    for side, frame in ((Side.LEFT, left), (Side.RIGHT, right)):
        blobs = frame.mapInArrow(PackTask(payload, side.value), from_arrow_schema(PACKED))
        packed.append(blobs.withWatermark("time", "1 milliseconds").drop("time"))
    schema = ", ".join(
        f"`{field.name}{suffix}` {field.dataType.simpleString()}"
        for suffix in ("", "_right")[:copies]
        for field in left.schema.fields
    )
    grouped = packed[0].unionByName(packed[1]).groupBy("partition")
    echoing = Echo(tuple(left.columns), copies)
    return grouped.transformWithStateInPandas(echoing, schema, "Append", "EventTime")


def _spec(spark: SparkSession, left: DataFrame, right: DataFrame, job: StreamJob) -> JoinSpec:
    """The spec that ``theta_join`` makes of the same call."""
    frames = {Side.LEFT: left, Side.RIGHT: right}
    return JoinSpec(
        on=job.on,
        window=TimeWindow(job.window, time="t"),
        how=How.INNER,
        self_join=False,
        tactic=Tactic("auto"),
        suffix="_right",
        schemas={side: arrow_schema(frame.schema, side.value) for side, frame in frames.items()},
        answer=answer_columns(left.columns, right.columns, How.INNER, "_right", None),
        keys=placed_keys(spark, job.partitions),
        scheme="auto",
        cell_width=None,
        batch_rows=_ROWS,
        event_time=None,
        original=job.on,
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
    """Joins every batch with the window, in Spark SQL, inside ``foreachBatch``.

    Micro-batches stay cached until their last row has left the window. ``blocks`` says whether
    pairs are found by blocks or by comparing them all.
    """

    def __init__(self, job: StreamJob, *, blocks: bool = False) -> None:
        self._job = job
        self._pairs = self._by_blocks if blocks else self._compared
        self._kept: list[tuple[int, DataFrame]] = []
        self.answers: list[tuple[int, int]] = []

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Join a micro-batch; ``side`` tells of which stream a row is."""
        fresh = batch.persist()
        tops = fresh.groupBy("side").agg(F.max("t").alias("top")).collect()
        kept = [rows for _, rows in self._kept]
        stored = reduce(DataFrame.unionByName, kept, fresh)
        answer = self._pairs(_of(Side.LEFT, fresh), _of(Side.RIGHT, stored), Side.LEFT)
        if kept:
            old = reduce(DataFrame.unionByName, kept)
            more = self._pairs(_of(Side.LEFT, old), _of(Side.RIGHT, fresh), Side.RIGHT)
            answer = answer.unionByName(more)
        seen = Observation()
        told = answer.observe(seen, *counted(self._job.checksum))
        told.write.format("noop").mode("overwrite").save()
        self.answers.append(observed(seen.get))
        self._keep(fresh, [row["top"] for row in tops])

    def _compared(self, left: DataFrame, right: DataFrame, fresh: Side) -> DataFrame:
        """All pairs; the side that is fresh is broadcast."""
        if fresh is Side.LEFT:
            left = F.broadcast(left)
        else:
            right = F.broadcast(right)
        return self._joined(left, right, self._exact)

    def _by_blocks(self, left: DataFrame, right: DataFrame, fresh: Side) -> DataFrame:
        """For ``l.a < r.a AND l.b > r.b``."""
        right = right.withColumn("block", F.expr(f"floor(a * {BLOCKS})"))
        zones = right.groupBy("block").agg(F.max("a").alias("top"), F.min("b").alias("bottom"))
        near = left.join(F.broadcast(zones), F.expr("a < top AND b > bottom"))
        near = near.drop("top", "bottom")
        return self._joined(near, right, f"l.block = r.block AND {self._exact}")

    @property
    def _exact(self) -> str:
        window = self._job.window
        return f"({self._job.on}) AND r.t BETWEEN l.t - {window} AND l.t + {window}"

    def _joined(self, left: DataFrame, right: DataFrame, on: str) -> DataFrame:
        names = [name for name in left.columns if name != "block"]
        return (
            left.alias("l")
            .join(right.alias("r"), F.expr(on))
            .selectExpr(
                *(f"l.{name}" for name in names), *(f"r.{name} AS {name}_right" for name in names)
            )
        )

    def _keep(self, fresh: DataFrame, tops: list[int]) -> None:
        """Keep what a later row can meet; times rise from one micro-batch to the next."""
        self._kept.append((max(tops), fresh))
        while self._kept[0][0] <= min(tops) - self._job.window:
            self._kept.pop(0)[1].unpersist()


def _of(side: Side, rows: DataFrame) -> DataFrame:
    return rows.where(F.col("side") == side.value).drop("side")
