"""One line of ``ordered.csv``.

Columns that the other result files have too mean the same here. A file holds figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OrderedResult"]


@dataclass(frozen=True)
class OrderedResult:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str
    place: float
    """Where it stands on the axis."""
    work: str
    """grow, delete, window, question or aggregate: see ``Work``."""
    structure: str
    """Name of the index; of a way or a peer its own name."""
    parameters: str
    distribution: str
    """linear road, or random."""
    size: int
    """Keys held; of windows rows per minute, of aggregates rows of the window."""
    batch: int
    """Rows per insertion."""
    status: str
    """``ok``, or ``not run`` (for the reason given). A wrong answer ends the run."""
    reason: str = ""
    operations: int = 0
    """Timed operations: keys inserted, found or removed, ranges, questions, rows that ask."""
    seconds: float = 0.0
    cpu_share: float = 0.0
    """Processor seconds per second."""
    ns_insert: float = 0.0
    """Nanoseconds per inserted key."""
    ns_find: float = 0.0
    """Nanoseconds per key that is looked up."""
    us_range: float = 0.0
    """Microseconds per range search …"""
    rows_per_range: float = 0.0
    """… that meets so many rows …"""
    ns_row: float = 0.0
    """… in so many nanoseconds each."""
    index_bytes: int = 0
    bytes_per_pair: float = 0.0
    empty_ms: float = 0.0
    """Milliseconds of the calls that empty an index: the hot path."""
    free_ms: float = 0.0
    """Milliseconds in which a dropped index is freed in the background."""
    tuples_per_s: float = 0.0
    """Rows per second."""
    longest_ms: float = 0.0
    """Milliseconds of the longest single call."""
    us_question: float = 0.0
    """Microseconds per question."""
    matches: int = 0
    """Rows that the timed ranges, questions or rows met."""
    checked: int = 0
    """Operations whose effect was compared with the reference."""
    verified: bool = False
    code_lines: int = 0
    """Lines of the modules that only this structure needs."""
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
