"""One line of ``spo.csv``.

Columns that the other result files have too mean the same here. A file holds figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SpoResult"]


@dataclass(frozen=True)
class SpoResult:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str
    place: float
    """Where it stands on the axis."""
    work: str
    """probe, grow, slide, insert, memory, merge or join: see ``Work``."""
    structure: str
    """Name of the index; of a whole join the peer, as in ``thetastream:tactic=auto``."""
    parameters: str
    query: str
    window: int
    """Rows stored: of the window, or of the growing part when it is full."""
    slide: int
    """Rows per insertion while the window was filled."""
    batch: int
    """Rows that ask at a time, as planned …"""
    asked: int
    """… and as there was time for."""
    rate: float
    """Matches per arriving row at the full window, as wanted; what came is ``pairs / tuples``."""
    output: str
    distribution: str
    """synthetic, or taxi."""
    status: str
    """``ok``, or ``not run`` (for the reason given). A wrong answer ends the run."""
    reason: str = ""
    tuples: int = 0
    """Timed rows."""
    batches: int = 0
    seconds: float = 0.0
    tuples_per_s: float = 0.0
    ns_per_tuple: float = 0.0
    p50_us: float = 0.0
    """Microseconds per row, where single rows ask."""
    p75_us: float = 0.0
    p95_us: float = 0.0
    p99_us: float = 0.0
    max_us: float = 0.0
    cpu_share: float = 0.0
    """Processor seconds per second."""
    pairs: int = 0
    """Pairs of the timed rows."""
    pairs_per_tuple: float = 0.0
    checked_tuples: int = 0
    """Rows whose answer, or presence, was compared with the reference; untimed ones included."""
    verified: bool = False
    index_bytes: int = 0
    bytes_per_row: float = 0.0
    runs: float = 0.0
    """Structures that a probe visits, at the end."""
    merges: float = 0.0
    merge_ms: float = 0.0
    """Milliseconds of one merge."""
    stall_ms: float = 0.0
    """Milliseconds of the longest insertion."""
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
