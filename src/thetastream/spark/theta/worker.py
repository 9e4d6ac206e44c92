"""What travels to Spark's Python workers: small objects that load the engine when they are called.

The join itself travels as pickled bytes (``payload``); the driver has parsed and bound its
condition.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thetastream.errors import StateError
from thetastream.spark.payload import read_payload

if TYPE_CHECKING:
    from thetastream.spark.theta.spec import JoinSpec
    from thetastream.spark.theta.step import Packet


def pickled(spec: JoinSpec) -> bytes:
    """A join as bytes, parsed, bound and planned: what a ``JoinSpec`` caches travels with it."""
    _ = spec.query, spec.routing, spec.output, spec.fingerprint
    return pickle.dumps(spec)


def _spec(payload: bytes) -> JoinSpec:
    """The join behind the bytes."""
    spec: JoinSpec = read_payload(
        payload, "thetastream.spark.frames", "thetastream.spark.theta.step"
    )
    return spec


class PackTask:
    """Packs the rows of one side, in ``mapInArrow``."""

    def __init__(self, payload: bytes, side: str) -> None:
        self._payload = payload
        self._side = side

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec = _spec(self._payload)
        from thetastream.side import Side
        from thetastream.spark.theta.packing import Packer

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        yield from Packer(spec, Side(self._side)).pack(batches, task)


def join_task(payload: bytes) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a function that joins a partition of two static DataFrames, for ``applyInArrow``.

    Spark reads its type hints to learn that it takes and returns batches.
    """

    def join(
        key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        spec = _spec(payload)
        from thetastream.spark.theta.step import join_whole, packets_in

        packets = [packet for batch in batches for packet in packets_in(batch)]
        yield from join_whole(spec, packets)

    return join


class JoinInFiles:
    """Joins a partition, micro-batch by micro-batch, in ``mapInArrow``; the state is in files.

    A task learns from Spark which query, micro-batch and partition it works on.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec = _spec(self._payload)
        from thetastream.spark.frames import as_batch, report_batch
        from thetastream.spark.state.manifests import Manifests
        from thetastream.spark.theta.step import Step, packets_in

        assert spec.state_path is not None
        task = _TaskFacts.of(spec)
        packets: list[Packet] = []
        for batch in batches:
            task.check(spec, batch.column("partition").to_pylist())
            packets += packets_in(batch)
        store = Manifests(spec.state_path, task.query, task.partition, task.batch)
        step = Step(spec, spec.keys[task.partition], store, None)
        for answer in step.run(packets):
            yield as_batch(answer)
        yield report_batch(spec.output, json.dumps(step.report))


class _TaskFacts(NamedTuple):
    """Which part of which micro-batch a task works on."""

    query: str
    batch: int
    partition: int

    @classmethod
    def of(cls, spec: JoinSpec) -> _TaskFacts:
        """What Spark says of the task that runs here."""
        context = TaskContext.get()
        named = ("sql.streaming.queryId", "streaming.sql.batchId")
        query, batch = (None if context is None else context.getLocalProperty(n) for n in named)
        if context is None or query is None or batch is None:
            raise StateError(
                "a join with its state in files has to run in a streaming query, and Spark names "
                "none here; leave out state_path"
            )
        task = cls(query, int(batch), context.partitionId())
        task.check(spec, [])
        return task

    def check(self, spec: JoinSpec, keys: Sequence[int]) -> None:
        """StateError if this task is not that of one partition, because Spark regrouped them."""
        number = self.partition
        if number >= spec.partitions or set(keys) - {spec.keys[number]}:
            received = f" and received rows of the group keys {sorted(set(keys))}" if keys else ""
            raise StateError(
                f"a join with its state in files needs a task for each of its {spec.partitions} "
                f"partitions; this is task {number}{received}. Something regrouped the "
                "partitions: a union of the join with other rows, coalesce (repartition works), or "
                "Spark itself (set spark.sql.adaptive.streaming.stateless.enabled to false). "
                "Write the result without it, or leave out state_path"
            )


# Types, not their text: Spark's state server would parse that twice, with a round trip each.
_RECORD = T.StructType([T.StructField("record", T.StringType())])
_NAME = T.StructType([T.StructField("name", T.StringType())])
_BLOB = T.StructType([T.StructField("blob", T.BinaryType())])


class JoinProcessor(StatefulProcessor):
    """Joins a partition, micro-batch by micro-batch, in ``transformWithState``."""

    def __init__(self, payload: bytes, timed: bool) -> None:
        self._payload = payload
        self._timed = timed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._meta = handle.getValueState("meta", _RECORD)
        self._blobs = handle.getMapState("blobs", _NAME, _BLOB)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        spec = _spec(self._payload)
        from thetastream.spark.theta.step import packets_of

        packets = [
            packet
            for frame in rows
            for packet in packets_of({name: frame[name].tolist() for name in frame.columns})
        ]
        yield from self._step(spec, int(key[0]), packets, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Time has passed without new rows: stored rows may have become final."""
        yield from self._step(_spec(self._payload), int(key[0]), [], timerValues, timer=True)

    def _step(
        self,
        spec: JoinSpec,
        key: int,
        packets: list[Any],
        timer_values: Any,
        *,
        timer: bool = False,
    ) -> Iterator[Any]:
        from thetastream.spark.frames import as_frame, report_frame
        from thetastream.spark.theta.step import Step

        watermark = timer_values.getCurrentWatermarkInMs() if self._timed else 0
        step = Step(spec, key, _SparkStore(self._meta, self._blobs), watermark)
        wake = watermark + 1 if self._timed and spec.wakes else None
        for batch in step.run(packets, wake=wake):
            yield as_frame(batch)
        if step.slept_until is not None and not timer:
            self._handle.deleteTimer(step.slept_until)
        if wake is not None:
            self._handle.registerTimer(wake)
        known = {}
        if spec.event_time is not None:
            known[spec.event_time] = _moment(watermark + 1)
        yield report_frame(spec.output, json.dumps(step.report), known)


def _moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


PART = 512 << 10


class _SparkStore:
    """Spark's state variables of the current group, as a ``StateStore``.

    A blob is split into parts, ``name.0``, ``name.1`` …; the first part begins with their number.
    Parts are small because a value is copied many times on its way to the state store, and a JVM is
    slow with arrays that fill most of a heap region: 6 MB in one value took three times as long as
    in parts of half a megabyte.
    """

    def __init__(self, meta: Any, blobs: Any) -> None:
        self._meta = meta
        self._blobs = blobs

    def read_meta(self) -> str | None:
        record = self._meta.get()
        return None if record is None else str(record[0])

    def write_meta(self, text: str) -> None:
        self._meta.update((text,))

    def get(self, name: str) -> bytes | None:
        first = self._blobs.getValue((f"{name}.0",))
        if first is None:
            return None
        count = int.from_bytes(first[0][:4], "little")
        parts = [bytes(first[0])[4:]]
        for number in range(1, count):
            part = self._blobs.getValue((f"{name}.{number}",))
            parts.append(b"" if part is None else bytes(part[0]))
        return b"".join(parts)

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        count = self._count(len(data))
        whole = b"".join((count.to_bytes(4, "little"), data))
        for number in range(count):
            part = whole[number * PART : (number + 1) * PART]
            self._blobs.updateValue((f"{name}.{number}",), (part,))

    def remove(self, name: str, size: int = 0) -> None:
        for number in range(self._count(size)):
            self._blobs.removeKey((f"{name}.{number}",))

    @staticmethod
    def _count(size: int) -> int:
        return -(-(size + 4) // PART)
