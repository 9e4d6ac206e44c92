"""An index that grows: insertion, look-ups, memory, range search (Figures 4–12).

Before each size all structures are filled, untimed. Then all take turns: at inserting the last keys
before the size, at finding inserted keys, at range searches. For every size all keys must be there:
the sums of ids of boxes that together hold all keys are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from thetabench.arrays import Array
from thetabench.figure import Contestant
from thetabench.ordered.code import code_lines
from thetabench.ordered.contestant import BATCH, STRUCTURES, Cell, Operations, sums, weight
from thetabench.ordered.load import Load
from thetabench.race import TURNS, Values
from thetastream.index import Index
from thetastream.index.folding import Fold

FIRST_NEXT = "first/next"
"""Range search from the root for every key, of a structure that has a mapper too."""
FLAT = "flat array"
_PAIR_BYTES = 16
_WANTED = 50_000  # keys that are looked up at a time
_DRAWS = 16  # different ranges and look-ups, after which they come again


@dataclass
class Held:
    """An index that holds the first ``count`` rows of a load."""

    index: Index
    load: Load
    count: int = 0
    verified: int = 0
    """The last count at which all rows were looked for."""
    parts: list[Growing] = field(default_factory=list)
    """Trials whose columns belong to a line that is not complete."""

    def next(self, rows: int) -> tuple[Array, Array]:
        """Keys and ids of the next rows, which are counted as inserted."""
        self.count += rows
        return self.load.batch(self.count - rows, self.count)

    def fill(self, stop: int, batch: int = BATCH) -> None:
        """Insert rows up to ``stop``."""
        while self.count < stop:
            self.index.insert(*self.next(min(batch, stop - self.count)))


class Growing(Operations):
    """What one structure does at a size."""

    def __init__(self, who: Contestant, cell: Cell, held: Held, seed: int) -> None:
        super().__init__(who, cell)
        self.held, self._seed = held, seed

    @property
    def own(self) -> Values:
        return self.each(self.cell.measure)

    @property
    def columns(self) -> Values:
        return {**super().columns, "code_lines": code_lines(self.who.structure, STRUCTURES)}

    def draw(self) -> np.random.Generator:
        """What random questions are drawn from."""
        return np.random.default_rng((self._seed, self.steps % _DRAWS))

    def lines(self) -> Iterator[Values]:
        """A line, as soon as all of its columns are measured."""
        self.held.parts.append(self)
        if self.cell.rest:
            return
        parts, self.held.parts = self.held.parts, []
        own = {name: value for part in parts for name, value in part.own.items()}
        for count in ("tuples", "seconds", "cpu", "pairs", "checked"):
            setattr(self, count, sum(getattr(part, count) for part in parts))
        yield {**self.columns, **own}

    def finish(self) -> None:
        """Look for every key, once per size."""
        if self.held.verified != self.held.count:
            self.look_for_all(self.held.index, self.held.load.truth(self.held.count))
            self.held.verified = self.held.count


class Inserting(Growing):
    """The last keys before a size is reached, a third of them per turn."""

    def turn(self, number: int, seconds: float) -> None:
        """Insert a third, whatever the time."""
        stop = self.cell.size - self.cell.step * (TURNS - number) // TURNS
        while rows := min(BATCH, stop - self.held.count):
            batch = self.held.next(rows)
            self.timed(partial(self.held.index.insert, *batch))
            self.count(rows)  # all of them are looked for at the end


class Finding(Growing):
    """Keys among those inserted, chosen at random, are looked up."""

    def __init__(self, who: Contestant, cell: Cell, held: Held, seed: int) -> None:
        super().__init__(who, cell, held, seed)
        ids_of(held.index, held.load.keys[:1])  # so that all is compiled

    def step(self) -> bool:
        right = self.draw().integers(0, self.held.count, min(_WANTED, self.held.count))
        keys = self.held.load.keys[right]
        self.compare("id", self.timed(lambda: ids_of(self.held.index, keys)), right)
        self.count(keys.size)
        return True


class Ranging(Growing):
    """Sums of ids over ranges: by the mapper, or by first and next."""

    def __init__(self, who: Contestant, cell: Cell, held: Held, seed: int) -> None:
        super().__init__(who, cell, held, seed)
        self._sums = partial(first_next if who.label.endswith(FIRST_NEXT) else sums, held.index)
        self._sums(held.load.keys[:1], held.load.keys[:1])  # so that all is compiled

    def step(self) -> bool:
        boxes = self.held.load.ranges(self.draw())
        truth = self.held.load.truth(self.held.count)
        self.compare("sum", self.timed(lambda: self._sums(*boxes)), truth.sums(*boxes))
        self.count(boxes[0].size, int(truth.counts(*boxes).sum()))
        return True

    @property
    def own(self) -> Values:
        return {
            **super().own,
            "rows_per_range": self.pairs / max(self.tuples, 1),
            "ns_row": 1e9 * self.seconds / max(self.pairs, 1),
        }


class Weighing(Growing):
    """Bytes of an index; nothing is timed."""

    def turn(self, number: int, seconds: float) -> None:
        self.checked = self.held.count  # all keys are looked for at the end

    @property
    def own(self) -> Values:
        return weight(self.held.index.nbytes, self.held.count)


class Flat(Operations):
    """A flat array of keys and ids, which needs no building to know its bytes."""

    def turn(self, number: int, seconds: float) -> None:
        self.checked = self.cell.size  # nothing is timed

    @property
    def own(self) -> Values:
        return weight(_PAIR_BYTES * self.cell.size, self.cell.size)


TRIALS: dict[str, type[Growing]] = {
    "ns_insert": Inserting,
    "ns_find": Finding,
    "us_range": Ranging,
    "bytes_per_pair": Weighing,
}
"""By the column that is measured."""


def ids_of(index: Index, keys: Array) -> Array:
    """The id of each key: a look-up, or a probe of a structure without one."""
    find: Callable[[Array], Array] | None = getattr(index, "find", None)
    if find is not None:
        return find(keys)
    answer = np.full(keys.size, -1, np.int64)
    for positions, ids in index.probe(keys, keys):
        answer[positions] = ids
    return answer


def first_next(index: Index, lows: Array, highs: Array) -> Array:
    """Sums of ids by first and next."""
    fold = Fold(None, lows.size)
    index.first_next(lows, highs, fold)  # type: ignore[attr-defined]
    return np.asarray(np.ma.filled(fold.result("sum"), 0))
