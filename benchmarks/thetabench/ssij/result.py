"""One line of ``ssij.csv``.

Columns that the other result files have too mean the same here. A file holds figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SsijResult"]


@dataclass(frozen=True)
class SsijResult:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str
    place: float
    """Where it stands on the axis."""
    work: str
    """service, sustained, deadline, burst, plan, index or system: see ``Work``."""
    method: str
    parameters: str
    distribution: str
    """What the stream is like."""
    skew: float
    device: str
    """disk, ssd, object-store (simulated time), or direct (real time)."""
    table_rows: int
    keys: int
    """Domain of the table's keys."""
    fill: float
    stream_rows: int
    status: str
    """``ok``, or ``not run`` (for the reason given). A wrong answer ends the run."""
    reason: str = ""
    memory: float = 0.0
    """Budget as a share of the table's bytes on disk."""
    budget_bytes: int = 0
    peak_bytes: int = 0
    """The most that was accounted for."""
    table_bytes: int = 0
    blocks: int = 0
    index_bytes: int = 0
    index_mb_10gb: float = 0.0
    """Megabytes of index for a table of 10 GB."""
    rows_per_s: float = 0.0
    """Stream rows per second; simulated seconds unless the device is ``direct``."""
    seconds: float = 0.0
    """From the first row to the last answer; simulated, or real and without the checking."""
    cpu_us: float = 0.0
    """Real processor time per stream row, microseconds, in every case."""
    matches: int = 0
    hit_share: float = 0.0
    """Share of the questions that were answered from the cache."""
    seeks: int = 0
    blocks_read: int = 0
    blocks_wasted: int = 0
    blocks_per_row: float = 0.0
    """Blocks read per stream row."""
    cached_blocks: int = 0
    online_phases: int = 0
    join_phases: int = 0
    latency_p50: float = 0.0
    """Seconds from arrival to answer."""
    latency_p99: float = 0.0
    met_share: float = 0.0
    """Share of deadlines that were met, at 0.8 of the sustainable rate."""
    nominal_per_s: float = 0.0
    """Of bursts: rows per second before the burst."""
    burst_ms: float = 0.0
    """How long a burst is borne."""
    plan_cost_ms: float = 0.0
    """What a read plan costs on the device."""
    plan_ms: float = 0.0
    """Real time to make it …"""
    plan_share: float = 0.0
    """… and that as a share of the phase."""
    checked: int = 0
    """Stream rows whose answers were compared with the reference."""
    verified: bool = False
    scale: float = 1.0
    versions: str = ""
    cpu: str = ""
    cores: int = 0
    memory_bytes: int = 0
    """Of the machine."""
    system: str = ""
    python: str = ""
    date: str = ""

    @property
    def ran(self) -> bool:
        """Whether there are numbers."""
        return self.status == "ok"
