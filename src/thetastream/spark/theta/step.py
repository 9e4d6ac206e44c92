"""One micro-batch of one partition: what a Python worker does, independent of Spark.

Find the partition (alive here, attached, or rebuilt), push the rows, return the answer in Arrow
batches, save what changed, and report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thetastream._jit.arrays import Array
from thetastream.data.batch import joined
from thetastream.engine.partition.partition import POSITION, Partition
from thetastream.metrics import Metrics
from thetastream.side import Side
from thetastream.spark.blobs import read_blob
from thetastream.spark.payload import is_warm
from thetastream.spark.state.cache import Alive, default_root, remove_forgotten
from thetastream.spark.state.opening import catch_up, new_partition, open_partition
from thetastream.spark.state.record import Meta, StateStore, check_fingerprint
from thetastream.spark.state.state import OpenPartition
from thetastream.spark.theta.packing import AT, RANKS, ROWS, TIMES, frontier, in_milliseconds
from thetastream.spark.theta.spec import JoinSpec

ALIVE: Alive[OpenPartition] = Alive(limit=8)


@dataclass(frozen=True, slots=True)
class Packet:
    """A packed row that arrived: rows of one sender, or its ranks."""

    side: Side
    kind: int
    sender: int
    blob: bytes | pa.Buffer


def packets_in(batch: pa.RecordBatch) -> Iterator[Packet]:
    """Packed rows, from a batch of them; blobs are not copied."""
    columns: dict[str, list[Any]] = batch.drop_columns(["blob"]).to_pydict()
    return packets_of(columns | {"blob": [blob.as_buffer() for blob in batch.column("blob")]})


def packets_of(columns: dict[str, list[Any]]) -> Iterator[Packet]:
    """Packed rows, from lists of their columns."""
    sides = tuple(Side)
    for side, kind, sender, blob in zip(
        columns["side"], columns["kind"], columns["sender"], columns["blob"], strict=True
    ):
        yield Packet(sides[side], kind, sender, blob)


@dataclass
class Step:
    """A micro-batch of one partition. ``run`` returns the answer, then fills ``report``.

    ``watermark`` is Spark's, in milliseconds. Without one, the frontier follows from the event
    times that all earlier micro-batches have seen, which the record keeps.
    """

    spec: JoinSpec
    key: int
    store: StateStore
    watermark: int | None
    started: float = field(default_factory=perf_counter)
    report: dict[str, Any] = field(default_factory=dict)
    slept_until: int | None = None

    @property
    def where(self) -> str:
        """The partition in messages."""
        if self.key not in self.spec.keys:  # state of a join with other keys
            return f"the partition with group key {self.key}"
        return f"partition {self.spec.keys.index(self.key)} of {self.spec.partitions}"

    def run(
        self, packets: Iterable[Packet], *, wake: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Process the packets; save the state after the last batch has been returned.

        ``wake`` is the timer to be set; ``slept_until`` becomes the one set before.
        """
        arrived = list(packets)
        opening = perf_counter()
        opened, origin, fetched = self._open()
        opening = perf_counter() - opening
        self.slept_until, opened.meta.timer = opened.meta.timer, wake
        before = opened.partition.metrics()
        batches = arranged(self.spec, opened.partition, arrived)
        edge = self._frontier(opened.meta)
        answer = opened.partition.push(batches, frontier=edge)
        _note_times(opened.meta, arrived)
        for batch in answer:
            yield shaped(self.spec, batch)
        saving = perf_counter()
        opened.meta.tops = {side.value: top for side, top in opened.partition.tops.items()}
        opened.save(self.store, self.spec)
        if not self._is_bloated(opened):
            ALIVE.keep(opened.meta.lineage, opened)
        self.opened = opened
        self.report = self._report(opened, before, origin, fetched) | {
            "watermark": _watermark(self.spec, edge) if self.watermark is None else self.watermark,
            "open_seconds": round(opening, 6),
            "save_seconds": round(perf_counter() - saving, 6),
            "seconds": round(perf_counter() - self.started, 6),
        }

    def _frontier(self, meta: Meta) -> int | None:
        spec = self.spec
        if self.watermark is not None:
            return frontier(spec, self.watermark)
        if not spec.window.timed or len(meta.seen) < len(spec.streams):
            return None
        return int(spec.binding.bound.frontier(min(meta.seen.values())))

    def _open(self) -> tuple[OpenPartition, str, int]:
        """The partition, how it was found, and how many runs were read from the state store."""
        text = self.store.read_meta()
        if text is None:
            remove_forgotten(default_root())
            return new_partition(self.spec), "new", 0
        meta = Meta.of(text, self.where)
        check_fingerprint(meta, self.spec.fingerprint, self.where)
        alive = ALIVE.take(meta.lineage)
        if alive is not None and alive.partition.query.dealt_tactic == self.spec.query.dealt_tactic:
            if alive.meta.token == meta.token:
                return alive, "hit", 0
            if alive.meta.token in meta.ancestors:
                return alive, "catch-up", catch_up(alive, self.store, self.spec, meta, self.where)
        opened, fetched = open_partition(self.store, self.spec, meta, self.where)
        return opened, "rebuild" if fetched else "attach", fetched

    def _is_bloated(self, opened: OpenPartition) -> bool:
        """Whether most rows in memory are dead, behind a younger one; a restore drops them."""
        for side in self.spec.streams:
            kept = sum(run.rows for run in opened.meta.of_side(side))
            if opened.partition.rows(side) > 2 * kept + 4096:
                return True
        return False

    def _report(
        self, opened: OpenPartition, before: Metrics, origin: str, fetched: int
    ) -> dict[str, Any]:
        now = opened.partition.metrics()
        names = [
            *("rows", "matches", "output_rows", "dropped", "null_keys", "empty_intervals"),
            *("candidates", "merges"),
        ]
        facts: dict[str, Any] = {name: now[name] - before[name] for name in names}
        for side in self.spec.streams:
            then, current = before.sides[side.value], now.sides[side.value]
            facts[f"{side.value}_rows"] = current.rows - then.rows
            facts[f"{side.value}_dropped"] = current.dropped - then.dropped
            facts[f"{side.value}_stored"] = sum(run.rows for run in opened.meta.of_side(side))
            facts[f"{side.value}_waiting"] = current.waiting_rows
            if (top := opened.meta.tops.get(side.value)) is not None:
                facts[f"{side.value}_max_ms"] = in_milliseconds(self.spec, top)
        phases = ("keys", "sort", "probe", "insert", "merge", "expire", "gather")
        for phase in phases:
            name = f"{phase}_seconds"
            facts[name] = round(now[name] - before[name], 6)
        return facts | {
            "partition": self.spec.keys.index(self.key),
            "partitions": self.spec.partitions,
            "process": os.getpid(),
            "warm": is_warm(),
            "origin": origin,
            "fetched_runs": fetched,
            "runs": len(opened.meta.runs),
            "state_bytes": sum(run.bytes for run in opened.meta.runs),
            "written_bytes": opened.written,
            "compactions": opened.compactions,
            "memory_bytes": now.window_bytes,
        }


def arranged(
    spec: JoinSpec, partition: Partition, packets: list[Packet]
) -> dict[Side, pa.RecordBatch]:
    """The rows that arrived, per side, with the internal columns that the engine reads."""
    positions: dict[Side, dict[int, Any]] = {}
    if spec.ranked:
        ranks: dict[Side, dict[int, Array]] = {}
        for packet in packets:
            if packet.kind == RANKS:
                fresh = np.frombuffer(packet.blob, np.int64)
                ranks.setdefault(packet.side, {})[packet.sender] = fresh
        positions = partition.note_ranks(ranks)
    tables: dict[Side, list[pa.RecordBatch]] = {}
    for packet in packets:
        if packet.kind != ROWS:
            continue
        batch = read_blob(packet.blob)
        if spec.ranked:
            at = batch.column(AT).to_numpy()
            places = positions[packet.side][packet.sender][at]
            batch = batch.append_column(POSITION, pa.array(places))
        tables.setdefault(packet.side, []).append(batch.select(spec.stored(packet.side)))
    return {side: _whole(spec, batches) for side, batches in tables.items()}


def _watermark(spec: JoinSpec, edge: int | None) -> int:
    """The watermark in milliseconds, as Spark would have it for a frontier; 0 for none."""
    return 0 if edge is None else in_milliseconds(spec, edge) - 1


def _note_times(meta: Meta, packets: list[Packet]) -> None:
    """Note the largest event times of the micro-batch, for the frontier of the next one."""
    for packet in packets:
        if packet.kind == TIMES:
            side, top = packet.side.value, int.from_bytes(packet.blob, "little", signed=True)
            meta.seen[side] = max(meta.seen.get(side, top), top)


def _whole(spec: JoinSpec, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    batch = joined(batches)
    if spec.ranked:
        batch = batch.take(pc.sort_indices(batch, [(POSITION, "ascending")]))
    return batch


def shaped(spec: JoinSpec, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The engine's batch in the columns of the answer."""
    columns = [batch.column(name) for name in spec.gathered]
    if spec.event_time is not None:
        *columns, left, right = columns
        later = pc.fill_null(pc.less(left, right), pc.is_null(left))
        columns.append(pc.if_else(later, right, left))
    return pa.RecordBatch.from_arrays(columns, schema=spec.output)


def join_whole(spec: JoinSpec, packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
    """Join a partition of two static tables at once."""
    partition = spec.partition()
    batches = arranged(spec, partition, list(packets))
    for answer in (partition.push(batches), partition.finish()):
        for batch in answer:
            yield shaped(spec, batch)
