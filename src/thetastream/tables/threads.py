"""Work shared among threads in order, a few steps ahead of the reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
C = TypeVar("C")
STEP = 8  # items that a thread computes before it waits for the reader


def in_order(work: Callable[[C], Iterator[T]], chunks: Iterable[C], threads: int) -> Iterator[T]:
    """The items of ``work(chunk)`` for each chunk, in the order of the chunks.

    Chunks are read by the caller's thread. Each of the next ``threads`` chunks is begun by a
    thread, which stops after ``STEP`` items until they are read, so memory stays bounded.
    """
    if threads == 1:
        for chunk in chunks:
            yield from work(chunk)
        return
    pool = ThreadPoolExecutor(threads)
    begun: deque[_Begun[T]] = deque()
    try:
        for chunk in chunks:
            begun.append(_Begun(pool, work(chunk)))
            if len(begun) > threads:
                yield from begun.popleft().read()
        while begun:
            yield from begun.popleft().read()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Begun(Generic[T]):
    """An iterator that is advanced by a pool, one step at a time."""

    def __init__(self, pool: ThreadPoolExecutor, items: Iterator[T]) -> None:
        self._pool = pool
        self._items = items
        self._step: Future[tuple[list[T], bool]] = pool.submit(self._advance)

    def _advance(self) -> tuple[list[T], bool]:
        """The next items, and whether those were the last."""
        taken: list[T] = []
        for item in self._items:
            taken.append(item)
            if len(taken) == STEP:
                return taken, False
        return taken, True

    def read(self) -> Iterator[T]:
        while True:
            taken, ended = self._step.result()
            if not ended:
                self._step = self._pool.submit(self._advance)
            yield from taken
            if ended:
                return
