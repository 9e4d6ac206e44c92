"""Threads that share the work of a probe, and pairs that they compute ahead of the reader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from thetastream.index.base import Pair

_KEPT = 1 << 20  # pairs that a probe may compute ahead of its reader


class PairsAhead:
    """The pairs of a probe: first those computed ahead, then the others as they are read."""

    def __init__(self, pairs: Iterator[Pair]) -> None:
        self._pairs = pairs
        self._ahead: list[Pair] = []

    def look_ahead(self) -> None:
        """Compute pairs, up to a limit."""
        total = 0
        for pair in self._pairs:
            self._ahead.append(pair)
            total += pair[0].size
            if total > _KEPT:
                return

    def __iter__(self) -> Iterator[Pair]:
        ahead, self._ahead = self._ahead, []
        yield from ahead
        yield from self._pairs


@cache
def pool(threads: int) -> ThreadPoolExecutor | None:
    """Threads that share the work inside a subwindow; None for one."""
    return ThreadPoolExecutor(threads, thread_name_prefix="subwindow") if threads > 1 else None
