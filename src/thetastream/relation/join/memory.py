"""The budget of a join and who holds how much of it (SSIJ, Section IV-A).

Five parts share the budget: the index, the cached blocks, rows that arrived, rows that wait with
their questions, and room to work in (a read, a lookup, a piece of the answer). What the others do
not need is the cache's; it shrinks when rows come and grows when they have gone. Each part notes
what it holds whenever that changes: ``Arrivals``, ``Waiting``, ``BlockCache``, ``Workspace``.
"""

from __future__ import annotations

from dataclasses import dataclass

from thetastream.errors import RelationError
from thetastream.relation.disk.size import show_size

_LEAST_BLOCKS = 8


@dataclass
class Memory:
    """Bytes; ``split`` is the share that the cache has when shares are fixed."""

    budget: int
    split: float | None = None
    index: int = 0
    cached: int = 0
    arrived: int = 0
    waiting: int = 0
    work: int = 0
    peak: int = 0

    @property
    def rows(self) -> int:
        """Bytes of stream rows."""
        return self.arrived + self.waiting

    @property
    def held(self) -> int:
        """Bytes in use."""
        return self.index + self.cached + self.rows + self.work

    @property
    def free(self) -> int:
        """Bytes for rows and cached blocks together."""
        return self.budget - self.index - self.work

    @property
    def for_rows(self) -> int:
        """The most that stream rows may hold: all that is free, or their fixed share."""
        return self.free if self.split is None else int(self.free * (1 - self.split))

    @property
    def for_cache(self) -> int:
        """The most that cached blocks may hold now: what rows leave, or their fixed share."""
        if self.split is None:
            return max(0, self.free - self.rows)
        return max(0, min(int(self.free * self.split), self.free - self.rows))

    @property
    def is_full(self) -> bool:
        """Whether stream rows hold all that they may hold."""
        return self.rows >= self.for_rows

    def fits(self, needed: int) -> bool:
        """Whether stream rows may take ``needed`` bytes more."""
        return self.rows + needed <= self.for_rows

    def note(self) -> None:
        """Remember the most that was held."""
        self.peak = max(self.peak, self.held)

    def require(self, block_bytes: int, row_bytes: int) -> None:
        """RelationError when the index and the least of everything else do not fit."""
        least = self.index + _LEAST_BLOCKS * block_bytes + 1024 * row_bytes
        if self.budget < least:
            advice = f"give at least {show_size(least * 1.01)}"
            if 2 * self.index > least:
                advice += ", or build the relation with larger blocks"
            raise RelationError(
                f"memory={show_size(self.budget)} is too small: the index of the relation takes "
                f"{show_size(self.index)}, and some blocks and rows must fit besides; {advice}"
            )
