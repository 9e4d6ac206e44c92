"""What both working phases of a join with a relation share: the cache, the waiting rows, memory.

    rows that arrived ─ sort, look up ─┬─ leaf is cached ────────────────────────► answer
        (online.py)                    └─ leaf is on disk ─ wait ─┐
                        answer ◄─ join ◄─ read by the best plan ◄─┘  when enough rows wait
                                           (joining.py)

Both phases are generators that give the answer piece by piece, so a long one is never held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thetastream.relation.disk.clock import Clock, Costs
from thetastream.relation.disk.reader import Buffers
from thetastream.relation.disk.readplan import Planner
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.join.answer import Answers, value_bytes
from thetastream.relation.join.cache import BlockCache, Policy
from thetastream.relation.join.kernels.leaves import ZONE, zones_of
from thetastream.relation.join.matching import Matching
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import Counters
from thetastream.relation.join.waiting import Segment, Waiting
from thetastream.relation.pacing.tuning import Thresholds

__all__ = ["Engine", "Listener"]

Array = NDArray[np.int64]
_NONE = np.empty(0, np.int64)
_GROUP_BLOCKS = 256
_LARGE = 32_000_000  # bytes: of smaller budgets less is room to work in
_WORK_PER_QUESTION = 48  # three arrays of questions, and their boxes
_WORK_PER_LEAF = 64  # its place, its questions, the plan
_WORK_PER_ROW = 56  # keys, bounds, order, leaves


@dataclass
class Listener:
    """Who wants to hear of questions, and of rows that are done."""

    asked: Callable[[Array, int], None]
    answered: Callable[[float, float], None]
    done: Callable[[list[Segment]], None]
    read: Callable[[int, float], None]


class Engine:
    """Cache, waiting rows and budget of a join with one state of a relation."""

    def __init__(
        self,
        snapshot: Snapshot,
        matching: Matching,
        memory: Memory,
        policy: Policy,
        clock: Clock,
        counters: Counters,
        listener: Listener,
        planner: Planner,
        costs: Costs,
        batch_rows: int,
    ) -> None:
        self.matching = matching
        self.memory = memory
        self.clock = clock
        self.counters = counters
        self.listener = listener
        self.plan = planner
        self.costs = costs
        self.buffers = Buffers()
        self._policy = policy
        self.waiting = Waiting(matching)
        share = memory.budget // (64 if memory.budget >= _LARGE else 128)
        self.questions = max(256, min(65_536, share // _WORK_PER_QUESTION))
        self.segment = max(128, min(65_536, share // _WORK_PER_LEAF))
        """Leaves that a join phase plans at a time."""
        self.answers = Answers(matching, counters, clock, memory.budget, batch_rows)
        self.attach(snapshot)

    def attach(self, snapshot: Snapshot) -> None:
        """Work with this state of the relation from now on; nobody waits."""
        assert not self.waiting.rows
        self.snapshot = snapshot
        self.fences = snapshot.fences
        leaves = len(self.fences.firsts)
        block = snapshot.layout.block_bytes
        most = max(1, min(self.memory.budget // block, leaves))
        self.cache = BlockCache(block, most, leaves, self._policy)
        self._index_intervals()

    def renew(self, snapshot: Snapshot) -> None:
        """Go over to a later state of the relation; blocks that are still the same stay cached.

        The snapshot before must be open still: so the journal between both is there.
        """
        before, old = self.snapshot, self.cache
        same = before.state.current.generation == snapshot.state.current.generation
        if not same or len(snapshot.fences.firsts) > 2 * max(1, len(self.fences.firsts)):
            self.attach(snapshot)
            return
        assert not self.waiting.rows
        blocks = self.fences.blocks[old.leaves_held]
        self.snapshot, self.fences = snapshot, snapshot.fences
        old.rename(self._leaves_of(blocks, before.version), len(self.fences.firsts))
        self._index_intervals()

    def _leaves_of(self, blocks: Array, version: int) -> Array:
        """Leaves that lie in blocks now; -1 for blocks that changed after a version or are free."""
        order = np.argsort(self.fences.blocks)
        now = self.fences.blocks[order]
        at = np.minimum(np.searchsorted(now, blocks), now.size - 1)
        there = now[at] == blocks if now.size else np.zeros(blocks.size, np.bool_)
        overlay = self.snapshot.state.overlay
        if overlay is not None:
            there &= ~np.isin(blocks, overlay.changed_since(version))
        return np.where(there, order[at] if now.size else -1, -1)

    def _index_intervals(self) -> None:
        """Zones over the upper ends of intervals; and what all tables of the index take."""
        self.greatest = self.zones = _NONE
        if self.matching.ranged and self.fences.greatest is not None:
            self.greatest = np.array(self.fences.greatest)  # kernels take what may be written to
            self.zones = np.empty(-(-self.greatest.size // ZONE), np.int64)
            zones_of(self.greatest, self.zones)
        own = self.cache.fixed_bytes + self.greatest.nbytes + self.zones.nbytes
        self.memory.index = self.snapshot.state.index_bytes + own

    def use(self, thresholds: Thresholds) -> None:
        """Work with these thresholds from now on, as far as the budget allows."""
        block = self.snapshot.layout.block_bytes
        room = self.memory.budget - self.memory.index - self.work_bytes
        thresholds = replace(
            thresholds,
            max_scan=max(1, min(thresholds.max_scan, room // 2 // (block * self.scan_buffers))),
            input_rows=max(1, min(thresholds.input_rows, room // 8 // self.work_per_row)),
        )
        self.thresholds = thresholds
        # Short reads are joined in groups: what is done per group is then shared by many.
        some = self.memory.budget // 32 // (block * self.scan_buffers)
        self.read_blocks = max(thresholds.max_scan, min(_GROUP_BLOCKS, some))
        self.memory.work = (
            self.scan_buffers * self.read_blocks * block
            + thresholds.input_rows * self.work_per_row
            + self.work_bytes
        )
        self.buffers.shrink(self.scan_buffers * self.read_blocks * block)
        self.make_room(0)

    @property
    def scan_buffers(self) -> int:
        """Buffers for reads: two where one is read while the other is joined."""
        return 2 if self.snapshot.device.background else 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a stream row, about."""
        return sum(value_bytes(field.type) for field in self.matching.stream)

    @property
    def work_per_row(self) -> int:
        """Bytes that an online phase needs for each of its rows."""
        return _WORK_PER_ROW + self.row_bytes

    @property
    def work_bytes(self) -> int:
        """Room to work in that does not depend on the thresholds."""
        return (
            self.answers.nbytes
            + self.questions * _WORK_PER_QUESTION
            + self.segment * _WORK_PER_LEAF
        )

    # --- Memory ---------------------------------------------------------------------------------

    def account(self) -> None:
        """Note what is held now."""
        self.memory.waiting = self.waiting.nbytes
        self.memory.cached = self.cache.nbytes
        self.memory.note()

    def make_room(self, needed: int) -> bool:
        """Evict blocks until rows may take ``needed`` bytes more; whether they then fit."""
        self.account()
        over = self.memory.cached + needed - self.memory.for_cache
        if over > 0 and self.cache.count:
            # A little more than is needed, so that it is not done for every batch.
            slots = -(-over // self.cache.slot_bytes)
            self.cache.evict(max(slots, self.cache.count >> 6))
            self.account()
        return self.memory.rows + needed <= self.memory.for_rows

    @property
    def is_full(self) -> bool:
        """Whether waiting rows hold all that rows may hold."""
        return self.memory.rows >= self.memory.for_rows
