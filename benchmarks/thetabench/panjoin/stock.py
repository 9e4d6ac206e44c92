"""Filled subwindows, kept for the next cell that needs the same.

Filling eight million rows takes longer than probing them for a third of a second, and most figures
probe the same subwindows again and again. So they are kept, together with their rows and the
reference, until there is too much of it; what was not used for the longest time goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thetabench.digest import Digest
from thetabench.panjoin.load import Asked, Load, Rows
from thetabench.panjoin.plan import Contestant
from thetabench.panjoin.reference import Truth
from thetabench.panjoin.structures import Maker, Structure
from thetabench.shelf import Shelf

__all__ = ["Filled", "Stock"]

_STRUCTURES = 5 << 29  # bytes
_ROWS = 1 << 30
_FILL = 1 << 16  # rows per insertion while filling
_TAIL = 16


@dataclass
class Filled:
    """A structure that holds the first ``count`` rows of a load."""

    structure: Structure
    load: Load
    count: int = 0

    def fill(self, stop: int, batch: int = _FILL) -> None:
        """Insert rows up to ``stop``."""
        while self.count < stop:
            end = min(self.count + batch, stop)
            self.structure.insert(*self.load.sorted_batch(self.count, end))
            self.count = end

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return self.structure.nbytes


class Stock:
    """All that cells share."""

    def __init__(self, make: Maker) -> None:
        self.make = make
        self._loads = Shelf[Load](_ROWS)
        self._truths = Shelf[Truth](_ROWS)
        self._filled = Shelf[Filled](_STRUCTURES)
        self._digests: dict[tuple[Asked, int], Digest] = {}

    def load(self, rows: Rows) -> Load:
        """The rows themselves."""
        return self._loads.get(rows, lambda: Load(rows), lambda load: load.keys.nbytes)

    def truth(self, rows: Rows) -> Truth:
        """The reference over all rows of a load."""
        make = lambda: Truth(self.load(rows).keys)  # noqa: E731
        return self._truths.get(rows, make, lambda truth: truth.nbytes)

    def full(self, who: Contestant, rows: Rows) -> Filled:
        """A structure that holds all rows; nobody may change it."""
        return self._filled.get(
            ("full", *_recipe(who), rows), lambda: self._made(who, rows), lambda f: f.nbytes
        )

    def growing(self, who: Contestant, rows: Rows, start: int, most: int) -> Filled:
        """A structure that holds ``start`` rows, or up to ``most`` from earlier cells.

        Whoever has it may insert more.
        """
        key = ("growing", *_recipe(who), rows)
        held = self._filled.peek(key)
        if held is not None and not start <= held.count <= most:
            self._filled.drop(key)
        found = self._filled.get(key, lambda: self.fresh(who, rows), lambda f: 0)
        found.fill(start)
        self._filled.weigh(key, found.nbytes)
        return found

    def fresh(self, who: Contestant, rows: Rows) -> Filled:
        """An empty structure."""
        return Filled(self.make(who), self.load(rows))

    def digest(self, asked: Asked, step: int, find: Callable[[], Digest]) -> Digest:
        """The right answer of a step of a window that moves, found once."""
        if (asked, step) not in self._digests:
            self._digests[asked, step] = find()
        return self._digests[asked, step]

    def clear(self) -> None:
        """Forget everything that takes room."""
        for shelf in (self._loads, self._truths, self._filled):
            shelf.clear()

    def _made(self, who: Contestant, rows: Rows) -> Filled:
        made = self.fresh(who, rows)
        made.fill(rows.count - who.tail)
        made.fill(rows.count, _TAIL)
        return made


def _recipe(who: Contestant) -> tuple[Any, ...]:
    return who.structure, who.parameters, who.rows, who.tail
