"""Answers of structures that change in place, kept as snapshots.

Before such a structure changes, it settles the questions that are still open: it computes and keeps
their pairs or, if there are very many, leaves them a copy of the rows to read. A question whose
answer is no longer referenced costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet, ref

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.data.kernels.pairs import keep_inside
from thetastream.index.base import Answer, Pair

S = TypeVar("S")
KEPT = 1 << 18  # pairs of an open question that are computed and kept; above, rows are copied


class StructureView(Protocol):
    """What a question reads: the structure as it is, or a copy."""

    @property
    def beside(self) -> Array:
        """The key columns that are checked on candidates, by ``id & mask``."""

    @property
    def mask(self) -> int: ...

    def begin(self) -> Array:
        """A cursor at the first box."""

    def ended(self, cursor: Array, boxes: int) -> bool:
        """Whether all boxes were read."""

    def read(self, lows: Array, highs: Array, cursor: Array, positions: Array, rows: Array) -> int:
        """Write pairs from the cursor on and move it; returns how many."""

    def copy(self) -> StructureView:
        """A copy of the same rows. Cursors stay valid in it."""


class Kept(ABC):
    """A question whose answer may be computed before it is read, and kept."""

    def __init__(self) -> None:
        self._chunks: list[Pair] | None = None

    @abstractmethod
    def read(self) -> Iterator[Pair]:
        """The chunks. Readers that were open when chunks were kept continue with those."""

    def keep(self, most: int) -> bool:
        """Compute the answer and keep it, unless it has more than ``most`` pairs."""
        chunks, total = [], 0
        for chunk in self.read():
            chunks.append(chunk)
            total += chunk[0].size
            if total > most:
                return False
        self._chunks = chunks
        return True


class Question(Kept):
    """Boxes, and what their answer is read from: the structure, a copy of it, or kept chunks."""

    def __init__(
        self, now: Callable[[], StructureView], lows: Array, highs: Array, limit: int
    ) -> None:
        super().__init__()
        self._now = now
        self._lows, self._highs = lows, highs
        self._limit = limit
        self._first = np.ascontiguousarray(lows[0]), np.ascontiguousarray(highs[0])
        self.view: StructureView | None = None

    def read(self) -> Iterator[Pair]:
        count = 0
        cursor = self._now().begin()
        room = min(self._limit, max(256, 4 * self._first[0].size))
        while self._chunks is None:
            chunk, room = self._next(cursor, room)
            if chunk is None:
                return
            count += 1
            yield chunk
        yield from islice(self._chunks, count, None)

    def _next(self, cursor: Array, room: int) -> tuple[Pair | None, int]:
        """The next chunk; chunks double as long as they are full."""
        view = self.view or self._now()
        lows, highs = self._first
        while not view.ended(cursor, lows.size):
            positions, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            filled = view.read(lows, highs, cursor, positions, rows)
            if filled == room:
                room = min(self._limit, 2 * room)
            positions, rows = positions[:filled], rows[:filled]
            if len(view.beside):
                filled = keep_inside(
                    positions, rows, view.beside, view.mask, self._lows, self._highs
                )
                positions, rows = positions[:filled], rows[:filled]
            if filled:
                return (positions, rows), room
        return None, room


class Questions(Generic[S]):
    """The open questions of one structure, its ``owner``; ``now`` makes a view of it.

    Questions hold the owner, but this holds it weakly: a structure that is dropped is freed at
    once, without waiting for the garbage collector.
    """

    def __init__(self, owner: S, now: Callable[[S], StructureView]) -> None:
        self._owner = ref(owner)
        self._make = now
        self._open: WeakSet[Question] = WeakSet()

    @property
    def _now(self) -> Callable[[], StructureView]:
        owner = self._owner()
        assert owner is not None, "the caller holds the structure"
        return partial(self._make, owner)

    def ask(self, lows: Array, highs: Array, limit: int) -> Answer:
        """Open a question."""
        question = Question(self._now, lows, highs, limit)
        self._open.add(question)
        return Answer(question.read)

    def settle(self) -> None:
        """Before a change: make open questions independent of the structure."""
        if not self._open:
            return
        copy: StructureView | None = None
        for question in list(self._open):
            if question.keep(KEPT):
                continue
            if copy is None:
                copy = self._now().copy()
            question.view = copy
        self._open.clear()
