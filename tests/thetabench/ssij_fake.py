"""A join in memory with known costs: what the harness finds out about it can be calculated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.ssij.contestant import Contestant, Device
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.join.metrics import RelationCounters, RelationMetrics
from thetastream.relation.store import Relation


class FakeJoin:
    """Joins ``group`` rows in ``seconds``; has room for ``room`` rows that wait."""

    due = None

    def __init__(
        self, table: pa.Table, clock: Any, *, group: int = 100, seconds: float = 0.01,
        room: int = 1000, wrong: bool = False,
    ) -> None:  # fmt: skip
        keys, rids = table["key"].to_numpy(), table["rid"].to_numpy()
        order = np.argsort(keys, kind="stable")
        self._keys, self._rids = keys[order], rids[order]
        self._clock = clock
        self._group, self._seconds, self._room, self._wrong = group, seconds, room, wrong
        self._waiting: list[tuple[int, int]] = []
        self.closed = False
        self.phases = 0
        self.pushed = 0

    def offer(self, rows: pa.RecordBatch) -> bool:
        if len(self._waiting) + rows.num_rows > self._room:
            return False
        self._waiting += zip(rows["key"].to_pylist(), rows["id"].to_pylist(), strict=True)
        return True

    def push(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.pushed += rows.num_rows
        self._waiting += zip(rows["key"].to_pylist(), rows["id"].to_pylist(), strict=True)
        return self.flush()

    def step(self) -> list[pa.RecordBatch] | None:
        return [self._joined()] if len(self._waiting) >= self._group else None

    def flush(self) -> Iterator[pa.RecordBatch]:
        while self._waiting:
            yield self._joined()

    def _joined(self) -> pa.RecordBatch:
        own, self._waiting = self._waiting[: self._group], self._waiting[self._group :]
        self.phases += 1
        if self._clock is not None:
            self._clock.wait_until(self._clock.now() + self._seconds)
        ids, rids = [], []
        for key, number in own[1:] if self._wrong else own:
            first, stop = np.searchsorted(self._keys, [key, key + 1])
            ids += [number] * int(stop - first)
            rids += self._rids[first:stop].tolist()
        return pa.record_batch({"id": pa.array(ids, pa.int64()), "rid": pa.array(rids, pa.int64())})

    def metrics(self) -> RelationMetrics:
        counters = RelationCounters(
            join_phases=self.phases, hits=30, misses=10, blocks_read=7, deadlines_met=999
        )
        sizes = ("memory_bytes", "peak_bytes", "budget_bytes", "index_bytes", "cached_blocks")
        waiting = len(self._waiting)
        return counters.snapshot(**dict.fromkeys(sizes, 0), waiting_rows=waiting, version=0)

    def close(self) -> None:
        self.closed = True


def make(
    who: Contestant, path: Path, budget: int, device: Device, schema: pa.Schema
) -> tuple[FakeJoin, Any]:
    """Start a fake instead of every contestant, on the table of a relation."""
    with Relation.open(path) as relation:
        table = relation.to_table()
    clock = SimulatedClock(PROFILES["disk"]) if device.simulated else None
    return FakeJoin(table, clock), clock
