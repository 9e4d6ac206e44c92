"""The circular array of a partitioned temporal window index, and which subwindow a time lies in.

Ordered Indexing, Section 3.3.2, Figures 2 and 3. Time is cut into numbered subwindows of ``S``
units from ``T0`` on; subwindow ``n`` has position ``n mod M`` of the array:

    T0 = 1, S = 1, M = 5                     position  0    1    2    3    4
    after minute 5                                    @1   @2   @3   @4   @5
    minute 6: @1 is dropped, @6 opened                @6   @2   @3   @4   @5

Errata: the listed formulas mix ``M`` with the window; the position is ``((t - T0) div S) mod M``.

Departure from the paper, where opening a subwindow drops the one ``M`` before it: here rows leave
only by expiry, so a position may hold more than one subwindow, distinguished by their numbers.
That happens briefly when rows arrive before others leave, and for longer after a gap in time or a
row from the future. ``M`` doubles when more than ``2 M`` subwindows are live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.index.base import Index

_FAR = 2**62  # times farther from T0 are clamped


@dataclass(eq=False, slots=True)
class Slot:
    """A subwindow: its partial index, and facts about its rows, expired ones included."""

    number: int
    begin: int  # time
    index: Index
    rows: int = 0
    first: int = MOST  # least id
    last: int = -1  # largest id
    least: int = MOST  # least event time
    greatest: int = LEAST  # largest event time
    expired: int = 0  # rows with an id below this have left the partial index

    def insert(self, matrix: Array, ids: Array, times: Array) -> None:
        """Insert rows, with ids above all earlier ones."""
        self.index.insert(matrix, ids)
        self.rows += ids.size
        first, last = ends(ids)
        least, greatest = (first, last) if times is ids else ends(times)
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)

    def hides(self, before: int) -> bool:
        """Whether the partial index still holds rows with an id below ``before``."""
        return self.first < before and self.expired < before

    def __str__(self) -> str:
        return f"@{self.begin}"


@dataclass(frozen=True, slots=True)
class Calendar:
    """Where subwindows begin: ``origin`` is the paper's T0, ``stride`` its S."""

    origin: int
    stride: int

    def number(self, time: int) -> int:
        """``(t - T0) div S``, rounded down."""
        low, high = self._near
        return (min(max(time, low), high) - self.origin) // min(self.stride, _FAR)

    def numbers(self, times: Array) -> Array:
        """The numbers of many times; no difference overflows."""
        return (np.clip(times, *self._near) - self.origin) // min(self.stride, _FAR)

    @property
    def _near(self) -> tuple[int, int]:
        """The first and the last time that are not clamped."""
        return max(self.origin - _FAR, LEAST), min(self.origin + _FAR, MOST)

    @property
    def widest(self) -> bool:
        """Whether a longer stride would make no difference."""
        return self.stride >= _FAR

    def begin(self, number: int) -> int:
        """The time at which a subwindow begins."""
        return self.origin + number * self.stride


def ends(values: Array) -> tuple[int, int]:
    """The least and the largest of some values."""
    if values.size == 1:
        return int(values[0]), int(values[0])
    return int(values.min()), int(values.max())


@dataclass(slots=True)
class CircularArray:
    """Subwindows by position. Finding one is O(1), iterating O(M + subwindows)."""

    positions: int
    _held: list[list[Slot]] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._held = [[] for _ in range(self.positions)]

    def find(self, number: int) -> Slot | None:
        """The subwindow with a number."""
        here = self._held[number % self.positions]
        return next((slot for slot in here if slot.number == number), None)

    def put(self, slot: Slot) -> None:
        """Place a new subwindow; the array doubles when it holds too many."""
        slots = [slot]
        if self._count >= 2 * self.positions:
            slots = [*self, slot]
            self.positions *= 2
            self.__post_init__()
        for one in slots:
            self._held[one.number % self.positions].append(one)
        self._count += 1

    def remove(self, slot: Slot) -> None:
        """Remove a subwindow."""
        self._held[slot.number % self.positions].remove(slot)
        self._count -= 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Slot]:
        """All subwindows, by position."""
        for slots in self._held:
            yield from slots

    def drawn(self) -> list[str]:
        """The array as Figure 3 shows it."""
        return [" ".join(map(str, slots)) or "nil" for slots in self._held]

    def check(self) -> None:
        """Assert that subwindows are where their numbers say, each once."""
        assert len(self._held) == self.positions and self._count == sum(map(len, self._held))
        for position, slots in enumerate(self._held):
            assert all(slot.number % self.positions == position for slot in slots)
            assert len({slot.number for slot in slots}) == len(slots)
