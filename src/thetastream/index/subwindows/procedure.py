"""Manager and workers: workers hold subwindows and run commands (PanJoin, Section III-A).

The manager of a window deals each new subwindow to the next worker in turn, and sends workers
*commands*: create, insert, probe, expire. A worker runs its commands one after the other, so a
probe after an insert sees its rows; workers do not communicate with each other. The manager waits
for the result of a command when it needs it.

         manager ──► create(4), insert(4, rows) ──► worker 0   subwindows 0, 2, 4
                 ──► probe(1), probe(3) ──────────► worker 1   subwindows 1, 3
                 ◄── done, pairs ◄─────────────────

On one machine workers are threads; a single worker is the calling thread itself. On Spark a worker
is a partition of the operator. The ``n`` workers of ``workers(n)`` serve all windows of a process,
as a node of the paper holds subwindows of both streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.index.base import Pair
from thetastream.index.subwindows.part import Part, PartView
from thetastream.index.threads import PairsAhead

T = TypeVar("T")
Key = tuple[int, int]  # the window and the number of a subwindow


class Command(ABC):
    """An action on a subwindow."""

    @abstractmethod
    def run(self, held: MutableMapping[Key, Part]) -> None:
        """Carry it out on the subwindows of a worker."""


@dataclass(frozen=True, slots=True)
class Create(Command):
    """Hold a new subwindow."""

    key: Key
    part: Part

    def run(self, held: MutableMapping[Key, Part]) -> None:
        held[self.key] = self.part


@dataclass(frozen=True, slots=True)
class Insert(Command):
    """Store rows; ``close`` if no others will follow."""

    key: Key
    matrix: Array
    ids: Array
    close: bool = False

    def run(self, held: MutableMapping[Key, Part]) -> None:
        part = held[self.key]
        if self.ids.size:
            part.insert(self.matrix, self.ids)
        if self.close:
            part.inside.close()


@dataclass(frozen=True, slots=True)
class Expire(Command):
    """Drop a subwindow."""

    key: Key

    def run(self, held: MutableMapping[Key, Part]) -> None:
        held.pop(self.key, None)


@dataclass(frozen=True, slots=True)
class SubwindowProbe:
    """Look up boxes ``[start, stop)`` in a subwindow, as it was at the time of the probe."""

    view: PartView
    lows: Array
    highs: Array
    limit: int
    start: int
    stop: int

    def run(self) -> PairsAhead:
        """The pairs, computed ahead."""
        pairs = PairsAhead(self.pairs())
        pairs.look_ahead()
        return pairs

    def pairs(self) -> Iterator[Pair]:
        """The pairs, computed as they are read."""
        lows, highs = self.lows, self.highs
        if self.stop - self.start < lows.shape[1]:
            lows, highs = (
                np.ascontiguousarray(edge[:, self.start : self.stop]) for edge in (lows, highs)
            )
        for positions, ids in self.view.read(lows, highs, self.limit):
            if self.start:
                positions += self.start
            yield positions, ids


class Worker:
    """Runs commands in the order in which they are sent.

    It holds its subwindows weakly, so they go with their window if that is dropped first.
    """

    def __init__(self, queue: ThreadPoolExecutor | None) -> None:
        self._queue = queue
        self._held: WeakValueDictionary[Key, Part] = WeakValueDictionary()

    def send(self, command: Command) -> Future[None]:
        """Queue a command; the future ends when it is done."""
        return self._sent(lambda: command.run(self._held))

    def ask(self, probe: SubwindowProbe) -> Future[PairsAhead]:
        """Queue a probe whose pairs are computed ahead."""
        return self._sent(probe.run)

    def _sent(self, work: Callable[[], T]) -> Future[T]:
        if self._queue is not None:
            return self._queue.submit(work)
        done: Future[T] = Future()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        return done


@cache
def workers(count: int) -> tuple[Worker, ...]:
    """``count`` workers: threads with a queue each, or the calling thread if it is one."""
    if count == 1:
        return (Worker(None),)
    return tuple(
        Worker(ThreadPoolExecutor(1, thread_name_prefix=f"worker-{number}"))
        for number in range(count)
    )
