"""Executes a read plan group by group, reading ahead while the current group is in use.

Consecutive sequences of a plan form a *group* as long as their blocks fit a bound; a longer
sequence is a group of its own. Groups use the buffers in turn:

    this thread    │ wait for 0 │  join 0  │  join 1  │wait for 2│ join 2 │
    background     │   read 0   │  read 1  │  read 2             │
    buffer             0            1          0

So a buffer is overwritten only after the caller has requested the next group. On a simulated device
nothing runs in the background: a group is read when it is requested.

Memory: ``ahead + 1`` times the largest group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from thetastream._jit.arrays import Array, Bytes
from thetastream.relation.disk.device import Device, aligned
from thetastream.relation.disk.readplan import ReadPlan


class BlockSource(Protocol):
    """Reads blocks of a device, such as a snapshot of a relation."""

    @property
    def device(self) -> Device:
        """Where the blocks come from."""

    def read(self, starts: Array, counts: Array, buffer: Bytes) -> None:
        """See ``Device.read``; called by another thread if the device allows it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that were read together, and the wanted leaves in them: ``[first, stop)``.

    The buffer holds them one after another until the next group is requested.
    """

    buffer: Bytes
    first: int
    stop: int
    offsets: Array
    """Where in the buffer each wanted leaf begins, in bytes: of leaf ``first + i`` at ``i``."""


class Buffers:
    """Memory for groups, reused from plan to plan to avoid allocating pages again.

    One reader at a time may use it.
    """

    def __init__(self) -> None:
        self._arrays: list[Bytes] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(array.size for array in self._arrays)

    def take(self, count: int, nbytes: int) -> list[Bytes]:
        """``count`` buffers of at least ``nbytes`` bytes; smaller ones are replaced."""
        for which in range(count):
            if which == len(self._arrays):
                self._arrays.append(aligned(nbytes))
            elif self._arrays[which].size < nbytes:
                self._arrays[which] = aligned(0)  # freed before the new one is allocated
                self._arrays[which] = aligned(nbytes)
        return self._arrays[:count]

    def shrink(self, nbytes: int) -> None:
        """Drop buffers until at most ``nbytes`` bytes are left."""
        while self._arrays and self.nbytes > nbytes:
            self._arrays.pop()


class BlockReader:
    """Iterates over the groups of a plan. Close it, or use it as a context manager.

    ``ahead`` groups are read in the background while one is in use.
    """

    def __init__(
        self,
        source: Device | BlockSource,
        plan: ReadPlan,
        limit_blocks: int,
        ahead: int = 1,
        buffers: Buffers | None = None,
    ) -> None:
        assert limit_blocks >= 1, "room for at least 1 block to read into"
        device = cast(Device, getattr(source, "device", source))
        self._read = source.read
        self._plan = plan
        self._block_bytes = device.block_bytes
        self._edges = _edges(plan.counts, limit_blocks)
        self._places = np.concatenate([[0], np.cumsum(plan.counts)])
        # The place of each leaf, in blocks, if all groups were stored one after another.
        self._leaf_edges = [*plan.firsts[self._edges[:-1]].tolist(), plan.blocks.size]
        leaves = np.diff(plan.firsts, append=plan.blocks.size)
        self._leaf_places = plan.blocks + np.repeat(self._places[:-1] - plan.starts, leaves)
        self._next = self._begun = 0
        lanes = min(max(ahead, 0) + 1 if device.background else 1, max(self.groups, 1))
        self._own = buffers is None
        self._buffers = Buffers() if buffers is None else buffers
        largest = int(np.diff(self._places[self._edges]).max(initial=0))
        self._memory = self._buffers.take(lanes, largest * self._block_bytes)
        self._thread = ThreadPoolExecutor(1, "thetastream-ahead") if lanes > 1 else None
        self._under_way: deque[Future[None]] = deque()

    @property
    def groups(self) -> int:
        """Number of groups of the plan."""
        return len(self._edges) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(memory.size for memory in self._memory)

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Group]:
        return self

    def __next__(self) -> Group:
        """The next group; invalidates the buffer of the previous one."""
        if self._next >= self.groups:
            self.close()
            raise StopIteration
        try:
            if self._thread is None:
                self._fetch(self._next)
            else:
                while self._begun < min(self._next + len(self._memory), self.groups):
                    self._under_way.append(self._thread.submit(self._fetch, self._begun))
                    self._begun += 1
                self._under_way.popleft().result()
        except BaseException:
            self.close()
            raise
        self._next += 1
        return self._group(self._next - 1)

    def close(self) -> None:
        """Cancel further reads, wait for the thread, and release the reader's own buffers."""
        self._next = self.groups
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True, cancel_futures=True)
        self._under_way.clear()
        self._memory = []
        if self._own:
            self._buffers = Buffers()

    def _fetch(self, group: int) -> None:
        low, high = self._edges[group], self._edges[group + 1]
        self._read(self._plan.starts[low:high], self._plan.counts[low:high], self._buffer(group))

    def _buffer(self, group: int) -> Bytes:
        blocks = int(self._places[self._edges[group + 1]] - self._places[self._edges[group]])
        return self._memory[group % len(self._memory)][: blocks * self._block_bytes]

    def _group(self, group: int) -> Group:
        first, stop = self._leaf_edges[group], self._leaf_edges[group + 1]
        places = self._leaf_places[first:stop] - self._places[self._edges[group]]
        return Group(self._buffer(group), first, stop, places * self._block_bytes)


def _edges(counts: Array, limit: int) -> list[int]:
    """Where groups begin, and the number of sequences at the end."""
    stops = np.cumsum(counts)
    edges = [0]
    while edges[-1] < counts.size:
        done = int(stops[edges[-1] - 1]) if edges[-1] else 0
        fits = int(np.searchsorted(stops, done + limit, side="right"))
        edges.append(max(fits, edges[-1] + 1))
    return edges
