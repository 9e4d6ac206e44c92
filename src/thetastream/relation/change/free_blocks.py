"""Free blocks of the block file: where new leaves go.

They are not stored on disk but computed from the leaves, so they cannot contradict them. The next
transaction may take a freed block at once: its old contents stay in the block file, or in the
journal, for older snapshots.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from thetastream.relation.files.splices import Entries, runs


class FreeBlocks:
    """Numbers of free blocks, ascending, and the total number of blocks.

    Taking or freeing one costs a binary search and moving the numbers after it.
    """

    def __init__(self, numbers: list[int], end: int) -> None:
        self._numbers = numbers
        self.end = end

    @staticmethod
    def beside(entries: Entries, end: int) -> FreeBlocks:
        """The blocks below ``end`` that no leaf uses; O(end)."""
        free = np.ones(end, np.bool_)
        free[runs(entries.blocks, entries.spans)] = False
        return FreeBlocks(np.flatnonzero(free).tolist(), end)

    def copy(self) -> FreeBlocks:
        """An independent copy."""
        return FreeBlocks(self._numbers.copy(), self.end)

    def __len__(self) -> int:
        return len(self._numbers)

    def free(self, block: int, span: int) -> None:
        """Mark blocks ``[block, block + span)`` as free."""
        at = bisect_left(self._numbers, block)
        self._numbers[at:at] = range(block, block + span)

    def take(self, span: int, near: int) -> int:
        """Take ``span`` consecutive blocks: the free ones nearest to ``near``, or new ones.

        Near, so that one sequence may read both. Returns the first.
        """
        at = self._nearest(near) if span == 1 else self._consecutive(span)
        if at is None:
            first, self.end = self.end, self.end + span
            return first
        first = self._numbers[at]
        del self._numbers[at : at + span]
        return first

    def _nearest(self, near: int) -> int | None:
        numbers = self._numbers
        if not numbers:
            return None
        at = bisect_left(numbers, near)
        if at == len(numbers) or (at and near - numbers[at - 1] < numbers[at] - near):
            at -= 1
        return at

    def _consecutive(self, span: int) -> int | None:
        """Where ``span`` numbers in a row begin; O(free blocks): such leaves are rare."""
        numbers = np.array(self._numbers, np.int64)
        if len(numbers) < span:
            return None
        fits = numbers[span - 1 :] - numbers[: len(numbers) - span + 1] == span - 1
        return int(np.argmax(fits)) if fits.any() else None
