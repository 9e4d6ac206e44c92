"""How fast a query was once it ran: the time of its micro-batches, and what it went into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

_LOGS = ("walCommit", "commitOffsets", "latestOffset", "getBatch")


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch, and its milliseconds as Spark reports them."""

    rows: int
    milliseconds: Mapping[str, int]
    engine: float = 0.0
    """Seconds of the join's engine, partitions added up."""
    partitions: int = 1
    """Partitions that had rows; they share the engine's seconds."""

    def seconds(self, *names: str) -> float:
        """Seconds of a micro-batch, or of some of its parts."""
        return sum(self.milliseconds.get(name, 0) for name in names or ("triggerExecution",)) / 1000


@dataclass
class Tempo:
    """The micro-batches of a query that had rows. The first one starts workers: it is left out."""

    batches: list[MicroBatch] = field(default_factory=list)

    def add(self, batch: MicroBatch) -> None:
        """Add a micro-batch."""
        if batch.rows:
            self.batches.append(batch)

    @property
    def later(self) -> list[MicroBatch]:
        """The micro-batches after the start-up; the only one, if there is one."""
        return self.batches[1:] or self.batches

    @property
    def rows_per_second(self) -> float:
        """Rows over the time that Spark worked on them; waiting for files does not count.

        >>> tempo = Tempo([MicroBatch(9, {"triggerExecution": s}) for s in (9000, 500, 1000)])
        >>> tempo.rows_per_second, Tempo().rows_per_second
        (12.0, 0.0)
        """
        spent = sum(batch.seconds() for batch in self.later)
        return sum(batch.rows for batch in self.later) / spent if spent else 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Median seconds of a micro-batch, and of its parts.

        ``engine`` is ours, per partition: partitions work at the same time on machines with as many
        cores. Of the ``tasks``, the rest is reading, packing, shuffling and writing.
        """
        if not self.batches:
            return {}
        parts = {
            "all": [batch.seconds() for batch in self.later],
            "planning": [batch.seconds("queryPlanning") for batch in self.later],
            "logs": [batch.seconds(*_LOGS) for batch in self.later],
            "tasks": [batch.seconds("addBatch") for batch in self.later],
            "engine": [batch.engine / max(batch.partitions, 1) for batch in self.later],
        }
        return {name: median(values) for name, values in parts.items()}
