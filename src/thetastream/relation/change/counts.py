"""What a change did, in numbers."""

from __future__ import annotations


class ChangeCounts(int):
    """Rows of a change: inserted, replaced, and removed.

    As a number it is the rows written, or those removed if none was written.

    >>> counts = ChangeCounts(inserted=2, replaced=3)
    >>> int(counts), counts
    (5, ChangeCounts(inserted=2, replaced=3, removed=0))
    >>> int(ChangeCounts(removed=4))
    4
    """

    inserted: int
    """Rows put in, beyond those that took the place of others."""
    replaced: int
    """Rows that took the place of a row with the same key."""
    removed: int
    """Rows taken out without another one in their place."""

    def __new__(cls, *, inserted: int = 0, replaced: int = 0, removed: int = 0) -> ChangeCounts:
        """Count the rows of a change."""
        counts = super().__new__(cls, inserted + replaced or removed)
        counts.inserted, counts.replaced, counts.removed = inserted, replaced, removed
        return counts

    def __repr__(self) -> str:
        return (
            f"ChangeCounts(inserted={self.inserted}, replaced={self.replaced}, "
            f"removed={self.removed})"
        )

    def __str__(self) -> str:
        return f"{self.inserted:,} inserted, {self.replaced:,} replaced, {self.removed:,} removed"
