"""Blocks of a relation kept in memory, and which of them stay (SSIJ, Section IV-C).

Blocks lie in slots of one arena, so that a kernel joins stream rows with all of them in one call.
``slots[leaf]`` is where a leaf lies, or -1. A slot's *uses* are the questions it answered since the
last join phase, and a quarter of those before: where few rows wait, few uses say little.

What a join phase will read is known before it is read, and so are its uses: the inverted index
holds them. So a limit is found, above which blocks, cached or to be read, will be in the cache when
the phase is over; whatever is below it is evicted at once, or not kept at all.
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
    """Which blocks stay.

    >>> Policy.of("lru")
    <Policy.LRU: 'lru'>
    """

    UTILITY = "utility"
    LRU = "lru"
    NONE = "none"

    @classmethod
    def of(cls, name: str | Policy) -> Policy:
        """Read it from its name."""
        return read_choice(cls, "cache", name)


class Keeping:
    """Which of the leaves that a join phase reads will stay, decided before the first is read."""

    __slots__ = ("_limit", "_skip", "_ties")

    def __init__(self, limit: int, ties: int, skip: int) -> None:
        self._limit = limit  # asked more often: stays
        self._ties = ties  # asked exactly so often: so many of them stay
        self._skip = skip  # of the order of reading, so many do not stay

    def chosen(self, counts: Array) -> NDArray[np.bool_]:
        """Which of the next leaves stay, by how often they are asked for."""
        keep = np.minimum(counts, _TALLY - 1) > self._limit
        even = np.flatnonzero(np.minimum(counts, _TALLY - 1) == self._limit)[: self._ties]
        keep[even] = True
        self._ties -= even.size
        keep[: self._skip] = False
        self._skip = max(0, self._skip - counts.size)
        return keep


class BlockCache:
    """Slots for as many blocks of ``leaves`` leaves as the budget could hold.

    What it holds is noted as ``memory.cached``; the other parts of the budget come first.
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
        self._dirty = 0  # free slots whose memory was not given back
        self._clock = 0
        self.count = 0
        self._note()

    @property
    def slot_bytes(self) -> int:
        """Bytes that one block takes."""
        return self.block_bytes + _PER_SLOT

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks held; those of the table of leaves are in ``fixed_bytes``."""
        return self.count * self.slot_bytes

    @property
    def fixed_bytes(self) -> int:
        """Bytes that do not depend on what is held."""
        return self.slots.nbytes

    @property
    def room(self) -> int:
        """Blocks that may be here now, as far as the other parts of the budget leave room."""
        return min(self.most, self._memory.for_cache // self.slot_bytes)

    def used(self) -> Array:
        """Slots in use."""
        return np.flatnonzero(self._leaves >= 0)

    def split(self, questions: Array) -> tuple[Array, Array, Array]:
        """Questions to leaves that are here, where the images of these begin, and the others.

        Every question that is answered is a use of its slot. ``questions`` is overwritten.
        """
        slots, missing = np.empty_like(questions), np.empty_like(questions)
        hits = split_by_cache(questions, questions.size, self.slots, self.uses, slots, missing)
        misses = questions.size - hits
        self._counters.hits += hits
        self._counters.misses += misses
        self._touch(slots[:hits])
        return questions[:hits], slots[:hits] * self.block_bytes, missing[:misses]

    def _touch(self, places: Array) -> None:
        """Note that slots were used now."""
        self._clock += 1
        if self.policy is Policy.LRU:
            self._stamps[places] = self._clock

    def put(self, leaves: Array, buffer: NDArray[np.uint8], offsets: Array, uses: Array) -> None:
        """Copy images of leaves that are not here, the first ones, as long as there is room."""
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
        """Evict blocks until rows may take ``needed`` bytes more; whether they then fit."""
        memory = self._memory
        over = memory.cached + needed - memory.for_cache
        if over > 0 and self.count:
            # A little more than is needed, so that it is not done for every batch.
            self.evict(max(-(-over // self.slot_bytes), self.count >> 6))
        return memory.fits(needed)

    def evict(self, count: int) -> int:
        """Take out the least useful blocks; gives how many went."""
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
        """Empty slots; their memory is given back once it is much."""
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
            self._give_back()

    def _give_back(self) -> None:
        idle = np.flatnonzero(self._resident & (self._leaves < 0))
        if idle.size:
            cuts = np.flatnonzero(np.diff(idle) > 1) + 1
            for run in np.split(idle, cuts):
                first, last = int(run[0]), int(run[-1]) + 1
                release(self.arena, first * self.block_bytes, last * self.block_bytes)
            self._resident[idle] = False
        self._dirty = 0

    def plan_phase(self, questions: Array) -> Keeping:
        """Decide which blocks stay in a join phase with these sorted questions.

        Blocks that are here and will not stay are evicted now.
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
            # What is read is newer than what was here, and what is read last is newest.
            self.evict(self.count - max(0, room - wanted))
            return Keeping(-1, 0, max(0, wanted - room))
        used = self.used()
        own = np.minimum(self.uses[used], _TALLY - 1)
        both = tally + np.bincount(own, minlength=_TALLY)
        above = np.cumsum(both[::-1])[::-1] - both  # blocks that are asked for more often
        limit = int(np.argmax(above <= room))  # those asked for exactly so often stay in part
        ties = min(int(room - above[limit]), int(both[limit]))
        staying = min(int(np.count_nonzero(own == limit)), ties)
        leaving = np.concatenate([used[own < limit], used[own == limit][staying:]])
        if leaving.size:
            self._drop(leaving)
        return Keeping(limit, ties - staying, 0)

    def age(self) -> None:
        """End of a join phase: older uses count half."""
        self.uses >>= 2

    @property
    def leaves_held(self) -> Array:
        """The leaf in each slot that is used, in the order of the slots."""
        return self._leaves[self.used()]

    def rename(self, leaves: Array, count: int) -> None:
        """Leaves have other numbers now: those of ``leaves_held``, -1 where one is gone."""
        used = self.used()
        self._drop(used[leaves < 0])
        kept, leaves = used[leaves >= 0], leaves[leaves >= 0]
        self.slots = np.full(count, -1, self._kind)
        self._leaves[kept] = leaves
        self.slots[leaves] = kept

    def clear(self) -> None:
        """Take everything out."""
        self.evict(self.count)

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
