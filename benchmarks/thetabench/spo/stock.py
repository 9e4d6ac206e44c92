"""Structures, filled and kept for the next contestant that needs the same.

A window of millions of rows takes longer to fill than to ask for a third of a second, and most
figures ask the same windows in several ways. Loads, full windows and right answers are kept until
there is too much of them; what was not used for the longest time goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import Digest
from thetabench.shelf import Shelf
from thetabench.spo.contestant import Contestant, Rows
from thetabench.spo.load import Load
from thetabench.spo.reference import Answers, Step, moving
from thetabench.structures import made
from thetastream.errors import DataError
from thetastream.index import Index

_STRUCTURES = 3 << 29  # bytes
_LOADS = 3 << 28

Maker = Callable[[Contestant], Index]


def make(who: Contestant) -> Index:
    """Make an empty structure over two key columns, or say why it cannot be had."""
    return made(who.structure, who.window, who.parameters, columns=2)


@dataclass
class Filled:
    """A structure that holds the rows ``first … count - 1`` of a load."""

    structure: Index
    load: Load
    count: int = 0
    first: int = 0

    def fill(self, stop: int, step: int) -> None:
        """Insert rows up to ``stop``."""
        while self.count < stop:
            self.structure.insert(*self.next(min(step, stop - self.count)))

    def next(self, rows: int) -> tuple[Array, Array]:
        """Keys and ids of the next rows, which are counted as inserted."""
        self.count += rows
        return self.load.batch(self.count - rows, self.count)

    def expire(self, before: int) -> None:
        """Forget the first rows."""
        self.structure.expire(before)
        self.first = before


class Stock:
    """Loads, full windows and right answers."""

    def __init__(self, maker: Maker) -> None:
        self._make = maker
        self._loads = Shelf[Load](_LOADS)
        self._answers = Shelf[Answers](_LOADS)
        self._full = Shelf[Filled](_STRUCTURES)
        self._moving: dict[tuple[Rows, Step], Digest] = {}

    def load(self, rows: Rows) -> Load:
        """The rows themselves."""
        try:
            return self._loads.get(rows, lambda: Load(rows), lambda load: load.nbytes)
        except DataError as error:
            raise Unavailable(str(error)) from None

    def answers(self, rows: Rows, window: int) -> Answers:
        """The right answers to fresh rows that ask a full window."""
        return self._answers.get(
            (rows, window), lambda: Answers(self.load(rows), window), lambda own: own.nbytes
        )

    def right(self, rows: Rows, steps: Sequence[Step]) -> list[Digest]:
        """The right answers of steps of a window that moves; each is computed once."""
        missing = [n for n, step in enumerate(steps) if (rows, step) not in self._moving]
        if missing:
            unknown = steps[missing[0] : missing[-1] + 1]
            for step, right in zip(unknown, moving(self.load(rows), unknown), strict=True):
                self._moving[rows, step] = right
        return [self._moving[rows, step] for step in steps]

    def full(self, who: Contestant) -> Filled:
        """A structure with a full window, which must not be changed."""
        key = (who.structure, who.parameters, who.rows, who.window, who.step, who.tail)
        return self._full.get(key, lambda: self.fresh(who), lambda own: own.structure.nbytes)

    def fresh(self, who: Contestant, count: int | None = None) -> Filled:
        """A structure of its own with a full window, or with the first ``count`` rows."""
        load = self.load(who.rows)  # before any structure, which may be missing
        held = Filled(self._make(who), load)
        stop = who.window if count is None else count
        held.fill(max(0, stop - who.tail), who.step)
        held.fill(stop, who.few)
        return held

    def tidy(self) -> None:
        """Forget what another figure will hardly need."""
        self._moving.clear()
