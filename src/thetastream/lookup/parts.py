"""The indexes of a window over one stream: a partial index per subwindow, or one for all.

Questions see rows by their moments (``clock.py``). If all rows of a part lie inside the period, its
answer is used as it is; if the period cuts the part, the moments of candidates are checked. So
answers are exact for any period, and a period of whole subwindows needs only the structure's own
mapper (Ordered Indexing, Section 3.3.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.base import Index
from thetastream.index.registry import create
from thetastream.index.slotted.ptwi import Ptwi

_BLOCK = 4096  # rows checked together to find the first live one


@dataclass(frozen=True, slots=True)
class WindowPart:
    """An index, the range of its rows' moments, and a lower bound of their ids."""

    index: Index
    least: int
    greatest: int
    first: int

    def inside(self, since: int, until: int) -> bool:
        """Whether all its rows lie in the period."""
        return since <= self.least and self.greatest <= until


class Parts(ABC):
    """Rows by key, maybe cut by moment."""

    index: Index

    def __init__(self) -> None:
        self._latest = LEAST
        self._disorder = -1  # rows above this id arrived in order of their moments

    def insert(self, keys: Array, ids: Array, moments: Array, good: Any) -> None:
        """Store the ``good`` rows; ids ascend and are above all earlier ones."""
        before = np.maximum.accumulate(np.concatenate([[self._latest], moments]))
        late = np.flatnonzero(moments < before[:-1])
        if late.size:
            self._disorder = int(ids[late[-1]])
        self._latest = int(before[-1])
        keys, ids, moments = keys[good], ids[good], moments[good]
        if ids.size:
            self._insert(keys, ids, moments)

    def in_order(self, part: WindowPart) -> bool:
        """Whether the newest row of a part is also its latest."""
        return part.first > self._disorder

    @abstractmethod
    def _insert(self, keys: Array, ids: Array, moments: Array) -> None: ...

    @abstractmethod
    def expire(self, horizon: int, moments: Array, first: int, following: int) -> int:
        """Drop rows before a moment; returns the least id still needed.

        ``moments`` are those of the rows from ``first`` on; the next row is ``following``.
        """

    @abstractmethod
    def between(self, since: int, until: int) -> Iterator[WindowPart]:
        """The parts that may hold rows of a period, the latest first."""


class _Slots(Parts):
    """A partial index per subwindow."""

    def __init__(self, index: Ptwi) -> None:
        super().__init__()
        self.index: Ptwi = index

    def _insert(self, keys: Array, ids: Array, moments: Array) -> None:
        self.index.insert(keys, ids, moments)

    def expire(self, horizon: int, moments: Array, first: int, following: int) -> int:
        self.index.expire_older(horizon)
        slots = self.index.slots_between(LEAST, MOST)
        return min((slot.first for slot in slots), default=following)

    def between(self, since: int, until: int) -> Iterator[WindowPart]:
        for slot in reversed(self.index.slots_between(since, until)):
            self.index.touch(1)
            yield WindowPart(slot.index, slot.least, slot.greatest, slot.first)


class _Whole(Parts):
    """One index for the whole window. Rows leave it in arrival order."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index
        self._least, self._greatest = MOST, LEAST
        self._first = 0

    def _insert(self, keys: Array, ids: Array, moments: Array) -> None:
        self.index.insert(keys, ids)
        self._least = min(self._least, int(moments.min()))
        self._greatest = max(self._greatest, int(moments.max()))

    def expire(self, horizon: int, moments: Array, first: int, following: int) -> int:
        """Amortised O(1) per row: checks rows from the oldest to the first that stays."""
        at = 0
        while at < moments.size:
            late = moments[at : at + _BLOCK] < horizon
            if not late.all():
                at += int(np.argmin(late))
                break
            at += late.size
        self._first = first + at
        self.index.expire(self._first)
        if at == moments.size:
            self._least, self._greatest = MOST, LEAST
        elif self._first > self._disorder:
            self._least = int(moments[at])
        return self._first

    def between(self, since: int, until: int) -> Iterator[WindowPart]:
        if self._least <= until and self._greatest >= since:
            yield WindowPart(self.index, self._least, self._greatest, self._first)


def parts_of(
    name: str, capacity: int, stride: int, subwindows: int, options: Mapping[str, Any]
) -> Parts:
    """Parts over a structure, cut by moment if its name starts with ``ptwi``."""
    if name.partition("/")[0] == Ptwi.name:
        index = create(name, capacity, subwindows=subwindows, stride=stride, **options)
        assert isinstance(index, Ptwi)
        return _Slots(index)
    return _Whole(create(name, capacity, **options))
