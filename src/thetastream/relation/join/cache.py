"""The cache of blocks, and its eviction policies (SSIJ, Section IV-C).

Blocks lie in slots of one arena, so that a kernel joins stream rows with all of them in one call.
``slots[leaf]`` is the slot of a leaf, or -1. A slot's *uses* are the questions it answered since
the last join phase, plus a quarter of its earlier uses: if few rows wait, few uses mean little.

The inverted index holds the leaves that a join phase will read, and their uses. So a limit is
computed in advance: blocks with more uses, cached or to be read, will be in the cache after the
phase; those with fewer are evicted at once, or not cached at all.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.options.checks import read_choice
from thetastream.relation.disk.device import aligned, release
from thetastream.relation.join.kernels.leaves import split_by_cache, tally_uses
from thetastream.relation.join.memory import Memory
from thetastream.relation.join.metrics import RelationCounters

_TALLY = 1024
_PER_SLOT = 8 + 8 + 8 + 8  # leaf, uses, last use, place in the list of free slots


class Policy(Enum):
    """The eviction policy.

    >>> Policy.of("lru")
    <Policy.LRU: 'lru'>
    """

    UTILITY = "utility"
    LRU = "lru"
    NONE = "none"

    @classmethod
    def of(cls, name: str | Policy) -> Policy:
        """The policy of a name."""
        return read_choice(cls, "cache", name)


class Keeping:
    """Which leaves that a join phase reads are cached, decided before the first is read."""

    __slots__ = ("_limit", "_skip", "_ties")

    def __init__(self, limit: int, ties: int, skip: int) -> None:
        self._limit = limit  # leaves with more uses are cached
        self._ties = ties  # number of leaves with exactly this many uses that are cached
        self._skip = skip  # number of leaves, in reading order, that are not cached

    def chosen(self, counts: Array) -> NDArray[np.bool_]:
        """Which of the next leaves are cached, by their uses."""
        keep = np.minimum(counts, _TALLY - 1) > self._limit
        even = np.flatnonzero(np.minimum(counts, _TALLY - 1) == self._limit)[: self._ties]
        keep[even] = True
        self._ties -= even.size
        keep[: self._skip] = False
        self._skip = max(0, self._skip - counts.size)
        return keep


class BlockCache:
    """Slots for as many blocks of ``leaves`` leaves as the budget could hold.

    Its bytes are recorded as ``memory.cached``; the other parts of the budget come first.
    """

    def __init__(
        self,
        block_bytes: int,
        leaves: int,
        policy: Policy,
        memory: Memory,
        counters: RelationCounters,
    ) -> None:
        self.policy = policy
        self.block_bytes = block_bytes
        self._memory = memory
        self._counters = counters
        most = max(1, min(memory.budget // block_bytes, leaves))
        self.most = 0 if policy is Policy.NONE else most
        self.arena = aligned(max(1, self.most) * block_bytes)
        """The bytes of all slots."""
        self._kind = np.int16 if self.most < 1 << 15 else np.int32
        self.slots: NDArray[np.signedinteger[Any]] = np.full(leaves, -1, self._kind)
        self.uses = np.zeros(self.most, np.int64)
        self._leaves = np.full(self.most, -1, np.int64)
        self._stamps = np.zeros(self.most, np.int64)
        self._free = np.arange(self.most - 1, -1, -1)
        self._resident = np.zeros(self.most, np.bool_)
        self._dirty = 0  # free slots whose memory was not released
        self._clock = 0
        self.count = 0
        self._note()

    @property
    def slot_bytes(self) -> int:
        """Bytes per block."""
        return self.block_bytes + _PER_SLOT

    @property
    def nbytes(self) -> int:
        """Bytes of the cached blocks, without ``fixed_bytes``."""
        return self.count * self.slot_bytes

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the table of leaves."""
        return self.slots.nbytes

    @property
    def room(self) -> int:
        """Blocks that may be cached now, given the other parts of the budget."""
        return min(self.most, self._memory.for_cache // self.slot_bytes)

    def used(self) -> Array:
        """Slots in use."""
        return np.flatnonzero(self._leaves >= 0)

    def split(self, questions: Array) -> tuple[Array, Array, Array]:
        """Questions to cached leaves, where the images of those begin, and the other questions.

        Every hit counts as a use of its slot. ``questions`` is overwritten.
        """
        slots, missing = np.empty_like(questions), np.empty_like(questions)
        hits = split_by_cache(questions, self.slots, self.uses, slots, missing)
        misses = questions.size - hits
        self._counters.hits += hits
        self._counters.misses += misses
        self._clock += 1
        if self.policy is Policy.LRU:
            self._stamps[slots[:hits]] = self._clock
        return questions[:hits], slots[:hits] * self.block_bytes, missing[:misses]

    def put(self, leaves: Array, buffer: NDArray[np.uint8], offsets: Array, uses: Array) -> None:
        """Cache images of leaves, the first ones, as long as there is room."""
        count = min(leaves.size, self.room - self.count)
        if count <= 0:
            return
        self._clock += 1
        size = self.block_bytes
        for at in range(count):
            slot = int(self._free[self.most - self.count - 1 - at])
            start = int(offsets[at])
            self.arena[slot * size : (slot + 1) * size] = buffer[start : start + size]
        taken = self._free[self.most - self.count - count : self.most - self.count][::-1]
        self._leaves[taken] = leaves[:count]
        self.slots[leaves[:count]] = taken
        self.uses[taken] = uses[:count]
        self._stamps[taken] = self._clock
        self._dirty -= int(np.count_nonzero(self._resident[taken]))
        self._resident[taken] = True
        self.count += count
        self._note()

    def make_room(self, needed: int) -> bool:
        """Evict blocks to make room for ``needed`` bytes of rows; return whether they fit."""
        memory = self._memory
        over = memory.cached + needed - memory.for_cache
        if over > 0 and self.count:
            # Slightly more than needed, so that not every batch evicts.
            self.evict(max(-(-over // self.slot_bytes), self.count >> 6))
        return memory.fits(needed)

    def evict(self, count: int) -> int:
        """Evict the least useful blocks; return how many were evicted."""
        used = self.used()
        count = min(count, used.size)
        if count <= 0:
            return 0
        worth = self._stamps if self.policy is Policy.LRU else self.uses
        if count < used.size:
            used = used[np.argpartition(worth[used], count - 1)[:count]]
        self._drop(used)
        return count

    def _drop(self, slots: Array) -> None:
        """Empty slots; their memory is released once it amounts to much."""
        self.slots[self._leaves[slots]] = -1
        self._leaves[slots] = -1
        self.uses[slots] = 0
        free = self.most - self.count
        self._free[free : free + slots.size] = slots
        self.count -= slots.size
        self._counters.evictions += slots.size
        self._note()
        self._dirty += slots.size
        if self._dirty * 32 > self.most:
            self._release_idle()

    def _release_idle(self) -> None:
        idle = np.flatnonzero(self._resident & (self._leaves < 0))
        if idle.size:
            cuts = np.flatnonzero(np.diff(idle) > 1) + 1
            for run in np.split(idle, cuts):
                first, last = int(run[0]), int(run[-1]) + 1
                release(self.arena, first * self.block_bytes, last * self.block_bytes)
            self._resident[idle] = False
        self._dirty = 0

    def plan_phase(self, questions: Array) -> Keeping:
        """Decide which blocks are cached during a join phase with these sorted questions.

        Cached blocks that are not kept are evicted now.
        """
        with self._counters.timed("plan"):
            return self._planned(questions, self.room)

    def _planned(self, questions: Array, room: int) -> Keeping:
        tally = np.zeros(_TALLY, np.int64)
        wanted = tally_uses(questions, tally)
        if self.policy is Policy.NONE or room <= 0:
            self.evict(self.count)
            return Keeping(_TALLY, 0, wanted)
        if self.policy is Policy.LRU:
            # Blocks that are read are newer than cached ones, and the last is the newest.
            self.evict(self.count - max(0, room - wanted))
            return Keeping(-1, 0, max(0, wanted - room))
        used = self.used()
        uses = np.minimum(self.uses[used], _TALLY - 1)
        both = tally + np.bincount(uses, minlength=_TALLY)
        above = np.cumsum(both[::-1])[::-1] - both  # blocks with more uses
        limit = int(np.argmax(above <= room))  # blocks with exactly this many uses stay in part
        ties = min(int(room - above[limit]), int(both[limit]))
        staying = min(int(np.count_nonzero(uses == limit)), ties)
        leaving = np.concatenate([used[uses < limit], used[uses == limit][staying:]])
        if leaving.size:
            self._drop(leaving)
        return Keeping(limit, ties - staying, 0)

    def age(self) -> None:
        """End of a join phase: earlier uses count a quarter."""
        self.uses >>= 2

    @property
    def leaves_held(self) -> Array:
        """The leaves of the used slots, in the order of the slots."""
        return self._leaves[self.used()]

    def rename(self, leaves: Array, count: int) -> None:
        """Renumber the leaves of ``leaves_held`` to ``leaves``; drop those that are -1."""
        used = self.used()
        self._drop(used[leaves < 0])
        kept, leaves = used[leaves >= 0], leaves[leaves >= 0]
        self.slots = np.full(count, -1, self._kind)
        self._leaves[kept] = leaves
        self.slots[leaves] = kept

    def _note(self) -> None:
        self._memory.cached = self.nbytes
        self._memory.note()

    def check(self) -> None:
        """Assert the invariants: both tables agree, no slot is used twice, free slots are free."""
        used = self.used()
        assert self._memory.cached == self.nbytes
        assert used.size == self.count
        assert np.array_equal(np.sort(self.slots[self._leaves[used]]), used)
        assert np.count_nonzero(self.slots >= 0) == self.count
        free = self._free[: self.most - self.count]
        assert np.array_equal(np.sort(np.concatenate([free, used])), np.arange(self.most))
