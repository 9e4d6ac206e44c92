"""Structures that grow from cell to cell, their keys and the right answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from thetabench.contestant import Unavailable
from thetabench.ordered.load import Array, Load, Truth
from thetabench.ordered.minutes import Minutes
from thetabench.ordered.plan import BATCH, Cell, Contestant, Keys
from thetabench.structures import made
from thetastream.index import Index

__all__ = ["Held", "Maker", "Stock", "make"]

Maker = Callable[[Contestant, int], Index]
T = TypeVar("T")


def make(who: Contestant, capacity: int) -> Index:
    """Make an empty structure, or say why it cannot be had."""
    return made(who.structure, capacity, who.parameters)


@dataclass
class Held:
    """A structure that holds the first ``count`` rows of a load."""

    who: Contestant
    index: Index
    load: Load
    count: int = 0

    def next(self, rows: int) -> tuple[Array, Array]:
        """Keys and ids of the next rows, which are counted as inserted."""
        self.count += rows
        return self.load.batch(self.count - rows, self.count)

    def fill(self, stop: int, batch: int = BATCH) -> None:
        """Insert rows up to ``stop``."""
        while self.count < stop:
            self.index.insert(*self.next(min(batch, stop - self.count)))


class Stock:
    """All that cells share: keys, one growth at a time, the truth about its size.

    ``most``: how many keys of a kind some cell needs.
    """

    def __init__(self, most: Mapping[Keys, int], seed: int, make: Maker = make) -> None:
        self.make = make
        self.seed = seed
        self._most = most
        self._loads: dict[Keys, Load] = {}
        self._truth: tuple[Keys, int, Truth] | None = None
        self._grown: list[Held | Unavailable] = []
        self._growth: object = None
        self._minutes: Minutes | None = None
        self._kept: dict[Hashable, Any] = {}

    def load(self, kind: Keys) -> Load:
        """The keys."""
        if kind not in self._loads:
            self._minutes = None
            self._kept.clear()
            self._loads[kind] = Load(kind, self._most[kind], self.seed)
        return self._loads[kind]

    def truth(self, kind: Keys, size: int) -> Truth:
        """What the first keys must answer."""
        if self._truth is None or self._truth[:2] != (kind, size):
            self._truth = kind, size, self.load(kind).truth(size)
        return self._truth[2]

    def growth(self, cell: Cell) -> list[Held | Unavailable]:
        """The structures of a cell, as an earlier one of the same growth has left them."""
        load = self.load(cell.keys)
        recipe = (cell.keys, [(who.structure, who.parameters) for who in cell.contestants])
        counts = [held.count for held in self._grown if isinstance(held, Held)]
        if recipe != self._growth or max(counts, default=0) > cell.size - cell.step:
            self.shed()  # first, so that both are not there at a time
            self._grown = [self.new(who, load, cell.size) for who in cell.contestants]
            self._growth = recipe
        for who, held in zip(cell.contestants, self._grown, strict=True):
            if isinstance(held, Held):
                held.who = who  # at its place in this cell
        return self._grown

    def new(self, who: Contestant, load: Load, capacity: int) -> Held | Unavailable:
        """An empty structure, or why there is none."""
        try:
            return Held(who, self.make(who, capacity), load)
        except Unavailable as error:
            return error

    def minutes(self, per_minute: int, count: int) -> Minutes:
        """Reports of some minutes; structures and keys go first."""
        if self._minutes is None or (self._minutes.per_minute, len(self._minutes)) != (
            per_minute,
            count,
        ):
            self.clear()
            self._minutes = Minutes(per_minute, count, self.seed)
        return self._minutes

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Something about the minutes that takes long to make; made once."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def shed(self) -> None:
        """Forget structures, and keep the keys."""
        self._truth = None
        self._grown = []
        self._growth = None

    def clear(self) -> None:
        """Forget everything that takes room."""
        self.shed()
        self._loads.clear()
        self._kept.clear()
        self._minutes = None
