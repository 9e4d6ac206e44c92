"""Rows to blobs: a few big rows per partition travel through Spark instead of many small ones.

A task packs its rows chunk by chunk: it computes keys, chooses targets (``routing``), and writes
the rows of each target as one Arrow stream. A single partition needs no choice, so only event times
are read. Rows of a side that can have copies carry a copy mark. Blobs of a chunk carry its largest
event time, from which Spark derives its watermark. For a count window every partition also receives
the ranks of all rows (8 bytes each), so that it knows the positions of its rows among all.

    partition  side  kind   sender  blob                  time
        3        0   rows     17    Arrow stream          00:00:07.123
        3        0   ranks    17    int64 …               NULL
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.boxes import kernels as box_kernels
from thetastream.boxes.arrival import order_domain, read_ranks
from thetastream.data import kernels as data_kernels
from thetastream.engine.partition import kernels
from thetastream.engine.partition.deliveries import Deliveries
from thetastream.engine.partition.partition import COPY, RANK
from thetastream.errors import DataError
from thetastream.plan import kernels as plan_kernels
from thetastream.schema import KeyKind
from thetastream.side import Side
from thetastream.spark.blobs import conformed, parcels, pieces, write_blob
from thetastream.spark.theta.spec import JoinSpec

AT = "__at"
ROWS, RANKS, NOTHING, TIMES = 0, 1, 2, 3
CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 256 << 20
BLOB_BYTES = 768 << 10
MOST_MILLISECONDS = 9_000_000_000_000_000
NO_TIME = -62_135_596_800_000  # 0001-01-01, which Spark's watermark never reaches

PACKED = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("side", pa.int8()),
        pa.field("kind", pa.int8()),
        pa.field("sender", pa.int64()),
        pa.field("blob", pa.binary()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
    ]
)
_BLOB = PACKED.get_field_index("blob")


class Packer:
    """Packs the rows of one stream for all partitions."""

    def __init__(self, spec: JoinSpec, side: Side) -> None:
        prepare(data_kernels, box_kernels, plan_kernels, kernels)
        self._spec = spec
        self._side = side
        self._schema = spec.schemas[side]
        self._roles = tuple(Side) if spec.self_join else (side,)

    def pack(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Packed rows, chunk by chunk."""
        rows = (conformed(batch, self._schema) for batch in batches if batch.num_rows)
        for number, chunk in enumerate(parcels(rows, CHUNK_ROWS, CHUNK_BYTES)):
            yield from self._packed(chunk, (task << 20) + number)

    def _packed(self, chunk: pa.RecordBatch, sender: int) -> Iterator[pa.RecordBatch]:
        spec = self._spec
        sent, top = self._sent(chunk)
        time = self._spark_time(top)
        ranks = self._ranks(chunk)
        rows, edges = sent.rows, sent.edges
        in_order = rows.size == chunk.num_rows and bool(np.all(rows[1:] == rows[:-1] + 1))
        moved = chunk if in_order else chunk.take(pa.array(rows))
        extra = {}
        assert (sent.copies is not None) == (self._side in spec.routing.copied)
        if sent.copies is not None:
            extra[COPY] = pa.array(sent.copies)
        if ranks is not None:
            extra |= {RANK: pa.array(ranks[rows]), AT: pa.array(rows)}
        for name, values in extra.items():
            moved = moved.append_column(name, values)
        for target, key in enumerate(spec.keys):
            if ranks is not None:
                yield self._row(key, RANKS, sender, ranks.tobytes(), None)
            if spec.in_files and top is not None:
                yield self._row(key, TIMES, sender, top.to_bytes(8, "little", signed=True), None)
            part = moved.slice(edges[target], edges[target + 1] - edges[target])
            if not part.num_rows and target == 0:
                # The first partition runs in every micro-batch. If the checkpoint is that of a join
                # with other group keys, it notices before a row is stored in a wrong place.
                yield self._row(key, NOTHING, sender, b"", time)
            for piece in pieces(part, BLOB_BYTES):
                yield self._row(key, ROWS, sender, write_blob(piece), time)

    def _sent(self, chunk: pa.RecordBatch) -> tuple[Deliveries, int | None]:
        """The targets of rows, and their largest event time; None if no row has one.

        Skipping keys packs a single partition at least 2.5 times as fast.
        """
        binding, first = self._spec.binding, self._roles[0]
        if self._spec.partitions == 1:
            time = _largest(*binding.times(first, chunk))
            return Deliveries.undivided(chunk.num_rows), time
        keys = {role: binding.keys(role, chunk) for role in self._roles}
        time = _largest(keys[first].times, keys[first].timed)
        return self._spec.routing.route(keys), time

    def _row(
        self, key: int, kind: int, sender: int, blob: bytes | pa.Buffer, time: int | None
    ) -> pa.RecordBatch:
        values = [key, self._side.position, kind, sender, None, time]
        arrays = [
            pa.array([value], field.type) for field, value in zip(PACKED, values, strict=True)
        ]
        data = blob if isinstance(blob, pa.Buffer) else pa.py_buffer(blob)
        edges = pa.py_buffer(np.array([0, data.size], np.int32))
        arrays[_BLOB] = pa.Array.from_buffers(pa.binary(), 1, [None, edges, data])
        return pa.RecordBatch.from_arrays(arrays, schema=PACKED)

    def _ranks(self, chunk: pa.RecordBatch) -> Array | None:
        order = self._spec.window.order
        domain = order_domain(order, self._spec.schemas)
        if order is None or domain is None:
            return None
        name = order[self._side.position]
        return read_ranks(chunk, name, domain, self._side, None, rising=False)

    def _spark_time(self, top: int | None) -> int | None:
        """The largest event time in microseconds, rounded to the milliseconds of a watermark.

        None if the window has no event time.
        """
        if not self._spec.window.timed:
            return None
        if top is None:
            return NO_TIME * 1000
        milliseconds = in_milliseconds(self._spec, top)
        if abs(milliseconds) > MOST_MILLISECONDS:
            raise DataError(
                f"the event time {top} is beyond what Spark's watermark can count "
                f"({MOST_MILLISECONDS} milliseconds, or units of an integer column)"
            )
        return milliseconds * 1000


def _largest(times: Array | None, timed: NDArray[np.bool_] | None) -> int | None:
    """The largest of the times that are known; None if there is none."""
    if times is None:
        return None
    known = times if timed is None else times[timed]
    return int(known.max()) if known.size else None


def in_milliseconds(spec: JoinSpec, time: int) -> int:
    """An event time in Spark's milliseconds; one unit of an integer time is a millisecond."""
    domain = spec.binding.time_domain
    return time if domain.kind is KeyKind.INTEGER else time * domain.tick // 1_000_000


def frontier(spec: JoinSpec, watermark: int) -> int | None:
    """The frontier in key units: one above Spark's watermark (ms), which is 0 before it is known.

    Rows below the frontier are late. For Spark, rows that are not above the watermark are late.
    """
    if watermark <= 0 or not spec.window.timed:
        return None
    first = watermark + 1
    domain = spec.binding.time_domain
    if domain.kind is KeyKind.INTEGER:
        return first
    return -(-first * 1_000_000 // domain.tick)
