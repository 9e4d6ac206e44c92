"""One line of ``panjoin.csv``.

Columns that the other result files have too mean the same here. A file holds figures of several
runs: those that are measured again replace their own lines and leave the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PanResult"]


@dataclass(frozen=True)
class PanResult:
    """What one contestant did in one cell."""

    figure: str
    contestant: str
    axis: str
    place: float
    """Where it stands on the axis."""
    work: str
    """insert, equi, band, slide, phases, join or splitters: see ``Work``."""
    structure: str
    """Name of the index; of the tactic of a ``StreamJoin``."""
    parameters: str
    rows: int
    """N_Sub, or the window where it has several subwindows."""
    batch: int
    """N_Bat: rows per insertion, boxes per probe, rows per push."""
    matches: float
    """S, as wanted; what came is ``pairs`` / ``tuples``."""
    output: str
    """How answers were given: pairs, ranges, rows or count."""
    distribution: str
    status: str
    """``ok``, or ``not run`` (for the reason given). A wrong answer ends the run."""
    reason: str = ""
    tuples: int = 0
    """Timed tuples: rows inserted, boxes asked, rows pushed; rows of a subwindow for splitters."""
    batches: int = 0
    """Timed batches."""
    seconds: float = 0.0
    tuples_per_s: float = 0.0
    ns_per_tuple: float = 0.0
    cpu_share: float = 0.0
    """Processor seconds per second."""
    pairs: int = 0
    """Pairs of the timed tuples, whether or not they were written down."""
    checked_tuples: int = 0
    """Tuples whose answer, or presence, was compared with the reference; untimed ones included."""
    verified: bool = False
    index_bytes: int = 0
    bytes_per_row: float = 0.0
    splitter_error: float = 0.0
    """Normalised mean absolute error of the partitions of a subwindow; 10f."""
    outside_share: float = 0.0
    """Share of a subwindow's rows outside the range its splitters were made from; 10f."""
    iterations: int = 0
    """Adjustments until the error stayed below 0.1, in the worst case fell no more; -1: never."""
    bound: int = 0
    """The paper's limit of adjustments in the worst case."""
    result_share: float = 0.0
    """Share of the time that giving rows takes, against counting them; 15c."""
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
