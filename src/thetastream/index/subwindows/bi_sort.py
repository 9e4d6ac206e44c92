"""BI-Sort: subwindows kept sorted, with an insertion buffer and an index array.

    index array    3          14          21              every step-th key of the main array
    main array     3  5  6  9 14 15 15 18 21 30           sorted by key, with the ids beside it
    buffer         4 15 90                                small batches wait here, sorted too

PanJoin, Sections III-D to III-F (*Buffered Indexed Sort*). A batch of more than ``buffer`` rows, or
a buffer that would outgrow it, is merged into the main array, in place and from the back:
O(subwindow) shared by its rows. A search finds the partition in the index array, which is small
enough for the cache, then the place inside it; searches of a sorted batch go on from each other, as
in a merge.

The rows inside a box are a range of the main array, so an answer can be given as records ⟨start,
end⟩ (``ranges``), whatever the number of matches; pairs are written when somebody reads them.

Invariants (``check``): main array and buffer ascend; the index array is every step-th key; the
buffer has at most ``buffer`` rows.

Cost with S subwindows of n rows and batches of b: insert ``n / (2 b)`` moves per row; probe two
searches per box and subwindow, and its matches. Bytes: 16 per row, 8 / step for the index array;
the newest subwindow has its room from the start.

Departures: the paper's buffer is unsorted and scanned by a nested loop; here it is sorted, which
costs O(buffer) per small batch and makes its answers ranges too. Several threads merge into a
second array (pieces of equal size), so they need twice the room of one subwindow.

Why not one sorted array for the whole window? Every batch would move all of it, and rows could not
expire by dropping an array. ``sorted-runs`` answers both another way, and merges less.
"""

from __future__ import annotations

from typing import Any, ClassVar

from thetastream._jit.arrays import Array
from thetastream.index.base import Ranges
from thetastream.index.registry import checked, refused
from thetastream.index.subwindows.bi_sorted import BiSorted
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.partitioned import ROWS_PER_PART
from thetastream.index.subwindows.subwindow import SUBWINDOWS, Subwindow
from thetastream.index.threads import pool

BUFFER = 1024


class BiSort(Chain):
    """Sorted subwindows; answers may be ranges."""

    name: ClassVar[str] = "bi-sort"
    summary: ClassVar[str] = "subwindows kept sorted, answers as ranges"
    ranged: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        subwindows: int = SUBWINDOWS,
        partitions: int = 0,
        buffer: int = BUFFER,
        threads: int = 1,
        workers: int = 1,
    ) -> None:
        super().__init__(capacity, columns, subwindows, threads, workers)
        check_partitions(self.name, partitions)
        checked(self.name, buffer=(buffer, 1))
        self.partitions = partitions
        self.buffer = buffer

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        parts = self.partitions or max(1, size // ROWS_PER_PART)
        return BiSorted(size, parts, self.buffer, pool(self.threads), self.threads)

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """Two searches per box and subwindow; O(subwindow) more where rows of one have expired."""
        return self._ranges(lows, highs) if self.columns == 1 else super().ranges(lows, highs)

    def counts(self, lows: Array, highs: Array) -> Array:
        """Two searches per box and subwindow; where rows have expired, O(matches) or O(rows)."""
        return self._counts(lows, highs) if self.columns == 1 else super().counts(lows, highs)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "partitions": self.partitions, "buffer": self.buffer}


def check_partitions(name: str, partitions: int) -> None:
    """Raise for a number of partitions below 0; 0 leaves it to the structure."""
    if partitions < 0:
        raise refused(
            name,
            f"partitions must be at least 1, or 0 for one per {ROWS_PER_PART} rows; "
            f"got {partitions}",
        )
