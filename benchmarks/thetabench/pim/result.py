"""One line of ``pim.csv``.

Columns that the other result files have too mean the same here. A file holds figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PimResult"]


@dataclass(frozen=True)
class PimResult:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str
    place: float
    """Where it stands on the axis."""
    structure: str
    window: int
    window_right: int
    self_join: bool
    threads: int
    """0: one thread, without concurrency control."""
    task_size: int
    merge: str
    parameters: str
    distribution: str
    match_rate: float
    """As wanted; what came is ``pairs`` / ``tuples``."""
    share: float
    status: str
    """``ok``, or ``not run`` (for the reason given). A wrong answer ends the run."""
    reason: str = ""
    tuples: int = 0
    """Timed tuples: whole cycles of merges."""
    seconds: float = 0.0
    tuples_per_s: float = 0.0
    ns_per_tuple: float = 0.0
    fill_s: float = 0.0
    """Seconds to fill the windows, without searches."""
    cpu_share: float = 0.0
    """Processor seconds per second."""
    pairs: int = 0
    """Pairs of the timed tuples."""
    checked_tuples: int = 0
    """Tuples whose answer was compared with the reference, untimed ones included."""
    checksum: str = ""
    verified: bool = False
    ns_search: float = 0.0
    """Nanoseconds per tuple, by step, the cost of looking at the clock included."""
    ns_descend: float = 0.0
    """Of ``ns_search``: going down, as measured with boxes that hold nothing."""
    ns_scan: float = 0.0
    """Of ``ns_search``: the rest, reading rows."""
    ns_delete: float = 0.0
    ns_insert: float = 0.0
    ns_merge: float = 0.0
    merges: int = 0
    merge_ms: float = 0.0
    """Milliseconds of one merge."""
    index_bytes: int = 0
    bytes_per_row: float = 0.0
    """``index_bytes`` over the rows of full windows."""
    tasks: int = 0
    """Tasks whose latency was looked at: all, or in ``merge`` those that overlap a merge."""
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0
    max_us: float = 0.0
    """Microseconds per task."""
    top_share: float = 0.0
    """Part of all inserts that went to the busiest subindex."""
    idle_share: float = 0.0
    """Part of the subindexes with less than a hundredth of the average."""
    predicted_ns: float = 0.0
    """What the cost model says, per tuple and by step."""
    predicted_search: float = 0.0
    predicted_delete: float = 0.0
    predicted_insert: float = 0.0
    predicted_merge: float = 0.0
    constants: str = ""
    """Where the constants of the cost model come from."""
    scale: float = 1.0
    versions: str = ""
    cpu: str = ""
    cores: int = 0
    memory_bytes: int = 0
    system: str = ""
    python: str = ""
    date: str = ""

    @property
    def ran(self) -> bool:
        """Whether there are numbers."""
        return self.status == "ok"
