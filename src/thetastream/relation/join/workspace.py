"""Room to work in, a part of the budget: for look-ups, plans, reads and pieces of the answer.

What does not depend on the thresholds is fixed when a join begins. Buffers of reads and what an
online phase takes per row follow the thresholds; so these are bounded here, by what the budget can
give for them.
"""

from __future__ import annotations

from dataclasses import replace

from thetastream.relation.disk.reader import Buffers
from thetastream.relation.join.memory import Memory
from thetastream.relation.pacing.tuning import Thresholds

_GROUP_BLOCKS = 256
_LARGE = 32_000_000  # bytes: of smaller budgets less is room to work in
_PER_QUESTION = 48  # three arrays of questions, and their boxes
_PER_LEAF = 64  # its place, its questions, the plan
_PER_ROW = 56  # keys, bounds, order, leaves


class Workspace:
    """Room to work in; what it takes is noted as ``memory.work``.

    ``row_bytes`` is a stream row, about; ``answer_bytes`` what the answer is made in. Each read has
    ``lanes`` buffers: two where one is read while the other is joined.
    """

    def __init__(
        self, memory: Memory, block_bytes: int, row_bytes: int, answer_bytes: int, lanes: int
    ) -> None:
        share = memory.budget // (64 if memory.budget >= _LARGE else 128)
        self.questions = max(256, min(65_536, share // _PER_QUESTION))
        """Questions that an online phase asks at a time."""
        self.leaves = max(128, min(65_536, share // _PER_LEAF))
        """Leaves that a join phase plans at a time."""
        self.row_bytes = row_bytes
        self.per_row = _PER_ROW + row_bytes
        """Bytes that an online phase needs for each of its rows."""
        self.fixed_bytes = answer_bytes + self.questions * _PER_QUESTION + self.leaves * _PER_LEAF
        """Bytes that do not depend on the thresholds."""
        self.lanes = lanes
        self.buffers = Buffers()
        self.read_blocks = 1
        """Blocks that are read and joined as a group."""
        self._memory = memory
        self._block_bytes = lanes * block_bytes

    def reserve(self, thresholds: Thresholds) -> Thresholds:
        """Take the room that thresholds need; gives them, bounded by what there is room for."""
        memory, block = self._memory, self._block_bytes
        room = memory.budget - memory.index - self.fixed_bytes
        thresholds = replace(
            thresholds,
            max_scan=max(1, min(thresholds.max_scan, room // 2 // block)),
            input_rows=max(1, min(thresholds.input_rows, room // 8 // self.per_row)),
        )
        # Short reads are joined in groups: what is done per group is then shared by many.
        some = memory.budget // 32 // block
        self.read_blocks = max(thresholds.max_scan, min(_GROUP_BLOCKS, some))
        reads = self.read_blocks * block
        self.buffers.shrink(reads)
        memory.work = reads + thresholds.input_rows * self.per_row + self.fixed_bytes
        memory.note()
        return thresholds
