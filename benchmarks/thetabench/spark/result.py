"""One line of ``spark.csv``, and the file itself.

Columns that the other result files have too mean the same here; a *push* is a micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from thetabench.result import read_lines, write_lines


@dataclass(frozen=True)
class SparkResult:
    """What one contestant did over one feed."""

    experiment: str
    part: str
    workload: str
    predicate: str
    window: int
    batch: int
    partitions: int
    contestant: str
    status: str
    """``ok``, ``not run`` (for the reason given), or ``failed`` (an error, or a wrong answer)."""
    reason: str = ""
    tuples_per_s: float = 0.0
    """Rows of the timed micro-batches over the sum of their ``triggerExecution``."""
    tuples_per_s_low: float = 0.0
    """The slowest timed micro-batch."""
    tuples_per_s_high: float = 0.0
    p50_s: float = 0.0
    """Seconds per timed micro-batch."""
    max_s: float = 0.0
    pushes: int = 0
    """Timed micro-batches."""
    rows: int = 0
    seconds: float = 0.0
    first_s: float = 0.0
    """The first micro-batch, with the start of workers and compilers."""
    total_rows: int = 0
    """Rows of all micro-batches, the untimed ones too."""
    total_s: float = 0.0
    """Seconds of all micro-batches, those without data too."""
    add_batch_s: float = 0.0
    """Of ``p50_s``: the tasks themselves. What is left is Spark's planning and bookkeeping."""
    planning_s: float = 0.0
    bookkeeping_s: float = 0.0
    """Write-ahead log, offsets, commits."""
    ns_keys: float = 0.0
    ns_sort: float = 0.0
    ns_probe: float = 0.0
    ns_insert: float = 0.0
    ns_merge: float = 0.0
    ns_expire: float = 0.0
    ns_gather: float = 0.0
    ns_save: float = 0.0
    """Of ``theta_join``, nanoseconds per row, all partitions added up; so these overlap in time."""
    stored_rows: int = 0
    """Rows in the state after the last micro-batch, copies included."""
    packed_bytes: float = 0.0
    """Bytes of a row in Arrow's format."""
    written_bytes: float = 0.0
    """Bytes that the operator gave to the state store, per row of the timed micro-batches."""
    store_bytes: float = 0.0
    """Bytes of the state store's files in the checkpoint, per row of all micro-batches."""
    hits: int = 0
    attaches: int = 0
    rebuilds: int = 0
    """How often a partition was found alive, mapped, or read from the state store."""
    normal_s: float = 0.0
    """A restart: the median micro-batch before the query was stopped, the first left out."""
    cold_s: float = 0.0
    """A restart: the first micro-batch of the query's first start, which had no state."""
    slower_s: float = 0.0
    """A restart: ``first_s`` (the first micro-batch after it) less ``normal_s``."""
    checked_pushes: int = 0
    matches: int = 0
    checksum: str = ""
    verified: bool = False
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


def write(path: Path, results: Iterable[SparkResult]) -> None:
    """Write a result file; an older one of the same name is replaced."""
    write_lines(path, SparkResult, results)


def read(path: Path) -> list[SparkResult]:
    """Read a result file."""
    return read_lines(path, SparkResult, "thetastream bench spark", "of Spark")
