"""Manager and workers: subwindows are dealt out, and asked by commands (PanJoin, Section III-A).

The manager of a window gives each new subwindow to the next worker in turn, and speaks to workers
by *commands*: create, insert, probe, expire. A worker carries its commands out one after the other,
so what is asked after an insert sees its rows; workers do not speak to each other. Feedback is the
result of a command: the manager waits for it before it needs it.

         manager ──► create(4), insert(4, rows) ──► worker 0   subwindows 0, 2, 4
                 ──► probe(1), probe(3) ──────────► worker 1   subwindows 1, 3
                 ◄── rows stored, pairs ◄──────────

On one machine workers are threads; one worker is the calling thread itself. On Spark a worker is a
partition of the operator. Workers of a kind (their number) serve all windows of a process, as a
node of the paper holds subwindows of both streams.
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
from thetastream.index.subwindows.part import Part, PartView
from thetastream.index.threads import Found

T = TypeVar("T")
Pair = tuple[Array, Array]
Key = tuple[int, int]  # the window and the number of a subwindow


@dataclass(frozen=True, slots=True)
class Status:
    """What a worker tells of a subwindow after a command."""

    rows: int
    full: bool


class Command(ABC):
    """Something to do with a subwindow."""

    @abstractmethod
    def run(self, held: MutableMapping[Key, Part]) -> Status:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Create(Command):
    """Hold a new subwindow."""

    key: Key
    part: Part

    def run(self, held: MutableMapping[Key, Part]) -> Status:
        held[self.key] = self.part
        return Status(0, False)


@dataclass(frozen=True, slots=True)
class Insert(Command):
    """Take rows; ``close`` when no further ones will come."""

    key: Key
    matrix: Array
    ids: Array
    close: bool = False

    def run(self, held: MutableMapping[Key, Part]) -> Status:
        part = held[self.key]
        if self.ids.size:
            part.insert(self.matrix, self.ids)
        if self.close:
            part.inside.close()
        return Status(part.rows, part.rows >= part.inside.size)


@dataclass(frozen=True, slots=True)
class Expire(Command):
    """Forget a subwindow."""

    key: Key

    def run(self, held: MutableMapping[Key, Part]) -> Status:
        held.pop(self.key, None)
        return Status(0, False)


@dataclass(frozen=True, slots=True)
class SubwindowProbe:
    """Look boxes ``[start, stop)`` up in a subwindow, as it was when the question was asked."""

    view: PartView
    lows: Array
    highs: Array
    limit: int
    start: int
    stop: int

    def found(self) -> Found:
        """The pairs, none computed yet."""
        return Found(self._pairs())

    def run(self) -> Found:
        """The pairs, computed ahead."""
        found = self.found()
        found.look_ahead()
        return found

    def _pairs(self) -> Iterator[Pair]:
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
    """Carries out commands in the order in which they are sent.

    Its subwindows go with their window, if that is dropped before they expire.
    """

    def __init__(self, queue: ThreadPoolExecutor | None) -> None:
        self._queue = queue
        self._held: WeakValueDictionary[Key, Part] = WeakValueDictionary()

    def send(self, command: Command) -> Future[Status]:
        """Have a command carried out; its feedback comes by the future."""
        return self._sent(lambda: command.run(self._held))

    def ask(self, probe: SubwindowProbe) -> Future[Found]:
        """Have pairs computed ahead."""
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
    """So many workers: threads with a queue each, or the calling thread when it is one."""
    if count == 1:
        return (Worker(None),)
    return tuple(
        Worker(ThreadPoolExecutor(1, thread_name_prefix=f"worker-{number}"))
        for number in range(count)
    )
