"""The contestants of the Spark benchmark: thetastream, what Spark users write today, empty joiners.

All take the same two streams: keys, and ``t``, an integer event time. The join's answer has
the columns of both sides, the right ones with the suffix ``_right``.

``bucketed``
    The equi-join that Spark can run: the right side is exploded into every bucket that its band
    touches, then equality on the bucket, the exact band and the time condition. Buckets are
    ``BUCKET_BANDS`` bands wide.
``equi``
    Spark's stream-stream join of the same rows by equality: of cells as wide as the band reaches,
    so that a row has as many matches. Another question, but the one that Spark answers.
``empty``
    The plan of ``theta_join`` with a joiner that has nothing to do: rows are packed and shuffled, a
    ``transformWithState`` operator unpacks them, its reports are observed and filtered away. It
    keeps no state. Either it returns every row twice, as wide as a pair: the answer of the join in
    volume. Or its whole answer is one row per partition, how many rows came and the sum of their
    times. Copies that a band sends to a neighbour cell travel, but are not counted. ``in_files``:
    in ``mapInArrow``, a plan without a state store.
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
    as in W2. ``SLICES`` per key domain, which is taken to be [0, 1): the fastest of 64 to 4,096.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thetabench.spark.job import counted, observed
from thetabench.spark.reference import cell_width
from thetastream.engine.partition.partition import COPY
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.spark.blobs import read_blob
from thetastream.spark.columns import answer_columns
from thetastream.spark.columns import observed as observed_reports
from thetastream.spark.frames import METRICS, as_frame, report_frame
from thetastream.spark.session import placed_keys
from thetastream.spark.theta.operator import theta_join
from thetastream.spark.theta.packing import PACKED
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.worker import PackTask, pickled
from thetastream.spark.types import arrow_schema
from thetastream.window import TimeWindow

BUCKET_BANDS = 4
SLICES = 1024
_ROWS = 65_536


@dataclass(frozen=True)
class Seat:
    """A contestant in a session: what its query does, and where its files are."""

    name: str
    """Of the seat."""
    contestant: str
    saved: str
    """The feed: its files appear, one micro-batch after the other, …"""
    source: str
    """… in the folders ``left`` and ``right`` below this one."""
    files: int
    """Files per side and micro-batch."""
    on: str
    """The condition, over ``l`` and ``r``."""
    count: str
    checksum: str
    """Spark SQL of the number of rows of the answer, and of its checksum."""
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


def theta(left: DataFrame, right: DataFrame, seat: Seat) -> DataFrame:
    """Thetastream."""
    return theta_join(
        left,
        right,
        seat.on,
        window=TimeWindow(seat.window, time="t"),
        tactic=seat.tactic,
        partitions=seat.partitions,
        state_path=seat.state_path,
    )


def bucketed(left: DataFrame, right: DataFrame, seat: Seat) -> DataFrame:
    """Join on hand-made buckets, with Spark's stream-stream join."""
    size = BUCKET_BANDS * seat.width
    near, far = f"floor((x - {seat.width}) / {size})", f"floor((x + {seat.width}) / {size})"
    ones = left.withColumn("bucket", F.expr(f"floor(x / {size})"))
    others = right.withColumn("bucket", F.explode(F.expr(f"sequence({near}, {far})")))
    return _stream_join(ones, others, f"l.bucket = r.bucket AND {seat.on}", seat)


def equi(left: DataFrame, right: DataFrame, seat: Seat) -> DataFrame:
    """Join on equality of the key's cell, with Spark's stream-stream join."""
    cell = F.expr(f"x DIV {cell_width(seat.width)}")
    ones, others = (frame.withColumn("cell", cell) for frame in (left, right))
    return _stream_join(ones, others, "l.cell = r.cell", seat)


def _stream_join(left: DataFrame, right: DataFrame, on: str, seat: Seat) -> DataFrame:
    """Spark's join, with the time condition and the watermarks by which it drops old rows."""
    frames = [
        frame.withColumn("ts", F.expr("timestamp_millis(t)"))
        .drop("t")
        .withWatermark("ts", "0 seconds")
        .alias(side.alias)
        for side, frame in zip(Side, (left, right), strict=True)
    ]
    window = f"INTERVAL {seat.window} MILLISECONDS"
    timed = f"r.ts >= l.ts - {window} AND r.ts <= l.ts + {window}"
    return (
        frames[0]
        .join(frames[1], F.expr(f"{on} AND {timed}"))
        .selectExpr(
            *("l.x", "unix_millis(l.ts) AS t"),
            *("r.x AS x_right", "unix_millis(r.ts) AS t_right"),
        )
    )


def empty(
    left: DataFrame, right: DataFrame, seat: Seat, *, copies: int, in_files: bool
) -> DataFrame:
    """Pack, shuffle, unpack; every row comes back ``copies`` times, or is only counted."""
    schemas = {
        side: arrow_schema(frame.schema, side.value)
        for side, frame in zip(Side, (left, right), strict=True)
    }
    spec = spec_of(seat, schemas, placed_keys(left.sparkSession, seat.partitions))
    payload = pickled(spec)
    packed = []
    for side, frame in zip(Side, (left, right), strict=True):
        blobs = frame.mapInArrow(PackTask(payload, side.value), from_arrow_schema(PACKED))
        if not in_files:
            blobs = blobs.withWatermark("time", "1 milliseconds")
        packed.append(blobs.drop("time"))
    output = spec.output if copies else pa.schema([("rows", pa.int64()), ("times", pa.int64())])
    schema = from_arrow_schema(output.append(pa.field(METRICS, pa.string())))
    united = packed[0].unionByName(packed[1])
    nothing = Nothing(tuple(left.columns), output, copies)
    if in_files:
        joined = united.repartition(seat.partitions, "partition").mapInArrow(nothing, schema)
    else:
        joined = united.groupBy("partition").transformWithStateInPandas(
            Empty(nothing), schema, "Append", "EventTime"
        )
    return observed_reports(joined, "empty", "0", "partitions")


def spec_of(seat: Seat, schemas: dict[Side, pa.Schema], keys: tuple[int, ...]) -> JoinSpec:
    """The spec that ``theta_join`` makes of the same call."""
    left, right = (schemas[side].names for side in Side)
    return JoinSpec(
        on=seat.on,
        window=TimeWindow(seat.window, time="t"),
        how=How.INNER,
        self_join=False,
        tactic=Tactic(seat.tactic),
        suffix="_right",
        schemas=schemas,
        answer=answer_columns(left, right, How.INNER, "_right", None),
        keys=keys,
        scheme="auto",
        cell_width=None,
        batch_rows=_ROWS,
        event_time=None,
        original=seat.on,
    )


class Nothing:
    """Returns the rows that it gets, in batches of the size of the join's; or only counts them."""

    def __init__(self, names: tuple[str, ...], output: pa.Schema, copies: int) -> None:
        self._names = names
        self._output = output
        self._copies = copies

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """An answer with a column for reports, and one report."""
        blobs = (blob.as_buffer() for batch in batches for blob in batch.column("blob"))
        for answer in self.answers(blobs):
            yield answer.append_column(METRICS, pa.nulls(answer.num_rows, pa.string()))
        report = {name: pa.nulls(1, pa.int64()) for name in self._output.names}
        yield pa.record_batch({**report, METRICS: pa.array(["{}"])})

    def answers(self, blobs: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """The answer to packed rows; all columns are integers."""
        count = times = 0
        for blob in blobs:
            if not len(blob):
                continue
            batch = read_blob(blob)
            if COPY in batch.schema.names:
                batch = batch.filter(pc.invert(batch.column(COPY)))
            if self._copies:
                yield from self._returned(batch.select(list(self._names)))
            else:
                count += batch.num_rows
                times += pc.sum(batch.column("t")).as_py() or 0
        if not self._copies:
            yield pa.RecordBatch.from_pylist([{"rows": count, "times": times}], self._output)

    def _returned(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            wide = pa.RecordBatch.from_arrays(2 * part.columns, names=self._output.names)
            for _ in range(self._copies):
                yield wide

    def reported(self) -> Any:
        """A report as a frame."""
        return report_frame(self._output, "{}", {})


class Empty(StatefulProcessor):
    """The same in ``transformWithState``."""

    def __init__(self, nothing: Nothing) -> None:
        self._nothing = nothing

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        blobs = (blob for frame in rows for blob in frame["blob"].tolist())
        yield from map(as_frame, self._nothing.answers(blobs))
        yield self._nothing.reported()

    def close(self) -> None:
        """Nothing is held open."""


class Rejoin:
    """Joins every batch with the window, in Spark SQL, inside ``foreachBatch``.

    Micro-batches stay cached until their last row has left the window. ``blocks`` says whether
    pairs are found by blocks or by comparing them all.
    """

    def __init__(self, seat: Seat, *, blocks: bool = False) -> None:
        self._seat = seat
        self._pairs = self._by_blocks if blocks else self._compared
        self._kept: list[tuple[int, DataFrame]] = []
        self._tops: dict[str, int] = {}
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
        told = answer.observe(seen, *counted(self._seat.checksum))
        told.write.format("noop").mode("overwrite").save()
        self.answers.append(observed(seen.get))
        self._keep(fresh, {row["side"]: row["top"] for row in tops})

    def _compared(self, left: DataFrame, right: DataFrame, fresh: Side) -> DataFrame:
        """All pairs; the side that is fresh is broadcast."""
        if fresh is Side.LEFT:
            left = F.broadcast(left)
        else:
            right = F.broadcast(right)
        return self._joined(left, right, self._exact)

    def _by_blocks(self, left: DataFrame, right: DataFrame, fresh: Side) -> DataFrame:
        """For ``l.a < r.a AND l.b > r.b``."""
        right = right.withColumn("block", F.expr(f"floor(a * {SLICES})"))
        zones = right.groupBy("block").agg(F.max("a").alias("top"), F.min("b").alias("bottom"))
        near = left.join(F.broadcast(zones), F.expr("a < top AND b > bottom"))
        near = near.drop("top", "bottom")
        return self._joined(near, right, f"l.block = r.block AND {self._exact}")

    @property
    def _exact(self) -> str:
        window = self._seat.window
        return f"({self._seat.on}) AND r.t BETWEEN l.t - {window} AND l.t + {window}"

    def _joined(self, left: DataFrame, right: DataFrame, on: str) -> DataFrame:
        names = [name for name in left.columns if name != "block"]
        return (
            left.alias("l")
            .join(right.alias("r"), F.expr(on))
            .selectExpr(
                *(f"l.{name}" for name in names), *(f"r.{name} AS {name}_right" for name in names)
            )
        )

    def _keep(self, fresh: DataFrame, tops: dict[str, int]) -> None:
        """Keep what a later row can meet; the times of a side rise, and it may send no rows."""
        self._tops |= tops
        self._kept.append((max(tops.values()), fresh))
        if len(self._tops) == len(Side):
            while self._kept[0][0] <= min(self._tops.values()) - self._seat.window:
                self._kept.pop(0)[1].unpersist()


def _of(side: Side, rows: DataFrame) -> DataFrame:
    return rows.where(F.col("side") == side.value).drop("side")
