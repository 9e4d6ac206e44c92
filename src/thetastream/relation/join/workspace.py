"""Working memory, a part of the budget: for look-ups, plans, reads and pieces of the answer.

The part that does not depend on the thresholds is fixed when a join starts. Read buffers and the
memory of an online phase depend on the thresholds, so these are bounded here by the budget.
"""

from __future__ import annotations

from dataclasses import replace

from thetastream.relation.disk.reader import Buffers
from thetastream.relation.join.memory import Memory
from thetastream.relation.pacing.tuning import Thresholds

_GROUP_BLOCKS = 256
_LARGE = 32_000_000  # bytes: smaller budgets have a smaller share of working memory
_PER_QUESTION = 48  # three arrays of questions, and their boxes
_PER_LEAF = 64  # its place, its questions, the plan
_PER_ROW = 56  # keys, bounds, order, leaves


class Workspace:
    """Working memory; its bytes are recorded as ``memory.work``.

    ``row_bytes`` is the approximate size of a stream row, ``answer_bytes`` the memory for building
    the answer. Each read has ``lanes`` buffers: two if one is read while the other is joined.
    """

    def __init__(
        self, memory: Memory, block_bytes: int, row_bytes: int, answer_bytes: int, lanes: int
    ) -> None:
        share = memory.budget // (64 if memory.budget >= _LARGE else 128)
        self.questions = max(256, min(65_536, share // _PER_QUESTION))
        """Questions per step of an online phase."""
        self.leaves = max(128, min(65_536, share // _PER_LEAF))
        """Leaves per plan of a join phase."""
        self.row_bytes = row_bytes
        self.per_row = _PER_ROW + row_bytes
        """Bytes per row of an online phase."""
        self.fixed_bytes = answer_bytes + self.questions * _PER_QUESTION + self.leaves * _PER_LEAF
        """Bytes that do not depend on the thresholds."""
        self.buffers = Buffers()
        self.read_blocks = 1
        """Blocks read and joined as a group."""
        self._memory = memory
        self._block_bytes = lanes * block_bytes

    def reserve(self, thresholds: Thresholds) -> Thresholds:
        """Reserve the memory that thresholds need; return them, bounded by what fits."""
        memory, block = self._memory, self._block_bytes
        room = memory.budget - memory.index - self.fixed_bytes
        thresholds = replace(
            thresholds,
            max_scan=max(1, min(thresholds.max_scan, room // 2 // block)),
            input_rows=max(1, min(thresholds.input_rows, room // 8 // self.per_row)),
        )
        # Short reads are joined in groups, which share the overhead per group.
        some = memory.budget // 32 // block
        self.read_blocks = max(thresholds.max_scan, min(_GROUP_BLOCKS, some))
        reads = self.read_blocks * block
        self.buffers.shrink(reads)
        memory.work = reads + thresholds.input_rows * self.per_row + self.fixed_bytes
        memory.note()
        return thresholds
