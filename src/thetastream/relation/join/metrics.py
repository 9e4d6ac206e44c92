"""Metrics of a join with a relation: counters, and a frozen snapshot of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thetastream.metrics import Items, Timer
from thetastream.relation.pacing.latency import Latencies


@dataclass(frozen=True, repr=False)
class RelationMetrics(Items):
    """A snapshot; ``metrics.hits`` and ``metrics["hits"]`` are the same.

    A question is one stream row put to one leaf of the relation: a *hit* is answered from the
    cache, a *miss* waits for a read. ``blocks_wasted`` were read only because they lay between
    wanted ones. ``candidates`` are pairs before conditions other than those on the key.
    Latencies are seconds from ``push`` to the last output of a row.
    """

    rows: int
    matches: int
    candidates: int
    output_rows: int
    null_keys: int
    nan_keys: int
    hits: int
    misses: int
    online_phases: int
    join_phases: int
    seeks: int
    blocks_read: int
    blocks_wasted: int
    cached_blocks: int
    evictions: int
    waiting_rows: int
    memory_bytes: int
    peak_bytes: int
    budget_bytes: int
    index_bytes: int
    deadlines_met: int
    deadlines_missed: int
    latency_p50: float | None
    latency_p99: float | None
    plan_seconds: float
    io_seconds: float
    join_seconds: float
    online_seconds: float
    version: int


@dataclass
class RelationCounters:
    """Counts and times that only grow."""

    rows: int = 0
    matches: int = 0
    candidates: int = 0
    output_rows: int = 0
    null_keys: int = 0
    nan_keys: int = 0
    hits: int = 0
    misses: int = 0
    online_phases: int = 0
    join_phases: int = 0
    seeks: int = 0
    blocks_read: int = 0
    blocks_wasted: int = 0
    evictions: int = 0
    deadlines_met: int = 0
    deadlines_missed: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("plan", "io", "join", "online"), 0.0)
    )

    def timed(self, phase: str) -> Timer:
        """Add the time spent inside a ``with`` block to a phase."""
        return Timer(self.seconds, phase)

    def snapshot(self, **now: int) -> RelationMetrics:
        """Freeze the counts; ``now`` holds the current values of the other fields."""
        counts = {
            name: getattr(self, name)
            for name in RelationMetrics.__dataclass_fields__
            if hasattr(self, name)
        }
        seconds: dict[str, Any] = {
            f"{phase}_seconds": spent for phase, spent in self.seconds.items()
        }
        p50, p99 = map(self.latencies.quantile, (0.5, 0.99))
        return RelationMetrics(**counts, **seconds, latency_p50=p50, latency_p99=p99, **now)
