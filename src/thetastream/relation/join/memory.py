"""The budget of a join and its parts (SSIJ, Section IV-A).

Five parts share the budget: the index, the cached blocks, rows that arrived, waiting rows with
their questions, and working memory (a read, a look-up, a piece of the answer). The cache gets what
the others do not need; it shrinks when rows arrive and grows when they leave. ``Arrivals``,
``StreamBuffer``, ``BlockCache`` and ``Workspace`` record their bytes whenever those change.
"""

from __future__ import annotations

from dataclasses import dataclass

from thetastream.errors import RelationError
from thetastream.relation.disk.size import show_size

_LEAST_BLOCKS = 8


@dataclass
class Memory:
    """Bytes per part; ``split`` is the cache's share if shares are fixed."""

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
        """Upper limit for stream rows: all that is free, or their fixed share."""
        return self.free if self.split is None else int(self.free * (1 - self.split))

    @property
    def for_cache(self) -> int:
        """Current limit for cached blocks: what rows leave, or their fixed share."""
        if self.split is None:
            return max(0, self.free - self.rows)
        return max(0, min(int(self.free * self.split), self.free - self.rows))

    @property
    def is_full(self) -> bool:
        """Whether stream rows have reached their limit."""
        return self.rows >= self.for_rows

    def fits(self, needed: int) -> bool:
        """Whether stream rows may take ``needed`` more bytes."""
        return self.rows + needed <= self.for_rows

    def note(self) -> None:
        """Update the peak."""
        self.peak = max(self.peak, self.held)

    def require(self, block_bytes: int, row_bytes: int) -> None:
        """RelationError if the index and the minimum of the other parts do not fit."""
        least = self.index + _LEAST_BLOCKS * block_bytes + 1024 * row_bytes
        if self.budget < least:
            advice = f"use at least {show_size(least * 1.01)}"
            if 2 * self.index > least:
                advice += ", or build the relation with larger blocks"
            raise RelationError(
                f"memory={show_size(self.budget)} is too small: the index of the relation takes "
                f"{show_size(self.index)}, and some blocks and rows must fit besides; {advice}"
            )
