"""An index that grows: insertion, look-ups, memory, range search (Figures 4–12).

Before a step all structures are filled up to it, untimed. Then all take turns: at inserting the
last keys of the step, at finding inserted keys, at range searches. At the end every key must be
there: the sums of ids of boxes that together hold all keys are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from thetabench.digest import VerificationError
from thetabench.ordered.code import code_lines
from thetabench.ordered.load import Array, Truth
from thetabench.ordered.plan import BATCH, Cell, Contestant, Measured
from thetabench.ordered.race import Columns, Say, Trial
from thetabench.ordered.stock import Held, Stock
from thetabench.trial import TURNS, take_turns
from thetastream.index import Index
from thetastream.index.folding import Fold

__all__ = ["FIRST_NEXT", "FLAT", "PAIR_BYTES", "Finding", "Growth", "Inserting", "Ranging"]

FIRST_NEXT = "first/next"
"""Range search from the root for every key, of a structure that has a mapper too."""
FLAT = "flat array"
PAIR_BYTES = 16
_WANTED = 50_000  # keys that are looked up at a time
_DRAWS = 16  # different ranges and look-ups, after which they come again
_ONLY = {"9": ("b-tree", "csb+tree")}
_NOT = {"8": ("csb+tree",)}


# --- What is timed -------------------------------------------------------------------------------


class Growing(Trial):
    """What one structure does in a step of its growth."""

    column: ClassVar[str]
    """What is measured …"""
    per_second: ClassVar[float] = 1e9
    """… and how many of it a second has."""

    def __init__(self, held: Held, who: Contestant, cell: Cell) -> None:
        super().__init__(who, cell)
        self.held = held

    @property
    def columns(self) -> Columns:
        """The columns of its line."""
        each = self.seconds / max(self.tuples, 1)
        return {**super().columns, self.column: each * self.per_second}


class Inserting(Growing):
    """The last keys before a size is reached, a third of them per turn."""

    column: ClassVar[str] = "ns_insert"

    def __init__(self, held: Held, cell: Cell) -> None:
        super().__init__(held, held.who, cell)
        self._edges = np.linspace(held.count, cell.size, TURNS + 1).astype(int).tolist()

    def advance(self, seconds: float) -> None:
        """Insert a third, whatever the time."""
        self._edges.pop(0)
        while self.step():
            self.steps += 1

    def step(self) -> bool:
        """Insert one batch."""
        rows = min(BATCH, self._edges[0] - self.held.count)
        if rows <= 0:
            return False
        keys, ids = self.held.next(rows)
        self.timed(lambda: self.held.index.insert(keys, ids))
        self.tuples += rows
        self.checked += rows  # all of them are looked for, when the step is over
        return True


class Finding(Growing):
    """Keys among those inserted, chosen at random, are looked up."""

    column: ClassVar[str] = "ns_find"

    def __init__(self, held: Held, cell: Cell, seed: int) -> None:
        super().__init__(held, held.who, cell)
        self._seed = seed
        found_ids(held.index, held.load.keys[:1])  # so that all is compiled

    def step(self) -> bool:
        """Look up a number of keys."""
        rng = np.random.default_rng((self._seed, self.steps % _DRAWS))
        right = rng.integers(0, self.held.count, min(_WANTED, self.held.count))
        keys = self.held.load.keys[right]
        found = self.timed(lambda: found_ids(self.held.index, keys))
        compare(self.name, "id", found, right)
        self.tuples += keys.size
        self.checked += keys.size
        return True


class Ranging(Growing):
    """Sums of ids over ranges: by the mapper, or by first and next."""

    column: ClassVar[str] = "us_range"
    per_second: ClassVar[float] = 1e6

    def __init__(
        self, held: Held, cell: Cell, seed: int, truth: Truth, *, iterate: bool = False
    ) -> None:
        label = f"{held.who.label}, {FIRST_NEXT}" if iterate else held.who.label
        super().__init__(held, replace(held.who, label=label), cell)
        self._truth = truth
        self._seed = seed
        self._sums = partial(first_next if iterate else sums, held.index)
        self._sums(held.load.keys[:1], held.load.keys[:1])  # so that all is compiled

    def step(self) -> bool:
        """Ask once."""
        rng = np.random.default_rng((self._seed, self.steps % _DRAWS))
        lows, highs = self.held.load.ranges(rng)
        found = self.timed(lambda: self._sums(lows, highs))
        compare(self.name, "sum", found, self._truth.sums(lows, highs))
        self.tuples += lows.size
        self.pairs += int(self._truth.counts(lows, highs).sum())
        self.checked += lows.size
        return True

    @property
    def columns(self) -> Columns:
        """Per range, and per row of it."""
        found = {
            "rows_per_range": self.pairs / max(self.tuples, 1),
            "ns_row": 1e9 * self.seconds / max(self.pairs, 1),
        }
        return {**super().columns, **found}


def found_ids(index: Index, keys: Array) -> Array:
    """The id of each key: a look-up, or a probe of a structure without one."""
    find: Callable[[Array], Array] | None = getattr(index, "find", None)
    if find is not None:
        return find(keys)
    found = np.full(keys.size, -1, np.int64)
    for positions, ids in index.probe(keys, keys):
        found[positions] = ids
    return found


def sums(index: Index, lows: Array, highs: Array) -> Array:
    """Sums of ids by the mapper; 0 where a box is empty."""
    found = index.map(lows, highs, "sum")
    return np.asarray(np.ma.filled(found, 0))


def first_next(index: Index, lows: Array, highs: Array) -> Array:
    """Sums of ids by first and next."""
    fold = Fold(None, lows.size)
    index.first_next(lows, highs, fold)  # type: ignore[attr-defined]
    return np.asarray(np.ma.filled(fold.result("sum"), 0))


def compare(who: str, what: str, found: Array, right: Array) -> None:
    """Raise unless an answer is right."""
    if np.array_equal(found, right):
        return
    wrong = int(np.flatnonzero(np.asarray(found) != right)[0]) if len(found) == len(right) else 0
    raise VerificationError(
        f"{who} gave a wrong answer: {what} {wrong} is {right[wrong]:,}, got {found[wrong]:,}. "
        "No result was written for this cell."
    )


# --- A step of growth ----------------------------------------------------------------------------


class Growth:
    """One step of all structures of a cell."""

    def __init__(self, cell: Cell, stock: Stock, seconds: float, say: Say) -> None:
        self._cell = cell
        self._stock = stock
        self._seconds = seconds
        self._say = say
        self._entered = stock.growth(cell)
        self._held = [held for held in self._entered if isinstance(held, Held)]

    def measured(self, shown: Mapping[str, Sequence[str]]) -> list[Measured]:
        """Measure what the figures of the cell show; ``shown`` are their columns."""
        wanted = {column for figure in self._cell.figures for column in shown[figure]}
        cell, seed = self._cell, self._stock.seed
        for held in self._held:
            self._say(f"{cell.label}: filling {held.who.label}")
            held.fill(cell.size - cell.step)
        found = {"ns_insert": self._race([Inserting(held, cell) for held in self._held])}
        truth = self._stock.truth(cell.keys, cell.size)
        if "ns_find" in wanted:
            found["ns_find"] = self._race([Finding(held, cell, seed) for held in self._held])
        if "us_range" in wanted:
            ranging = [Ranging(held, cell, seed, truth) for held in self._held]
            both = [held for held in self._held if hasattr(held.index, "first_next")]
            ranging += [Ranging(held, cell, seed, truth, iterate=True) for held in both]
            found["us_range"] = self._race(ranging)
        found["bytes_per_pair"] = self._weighed()
        for held in self._held:
            self._say(f"{cell.label}: checking {held.who.label}")
            lows, highs = truth.pieces()
            right = truth.sums(lows, highs)
            compare(f"{held.who.label} ({cell.label})", "sum", sums(held.index, lows, highs), right)
        return [
            line
            for figure in cell.figures
            for line in self._lines(figure, [found[c] for c in shown[figure] if c in found])
        ]

    def _race(self, trials: Sequence[Growing]) -> dict[Contestant, Columns]:
        """Let all take turns; give what they did."""
        take_turns(trials, self._seconds, lambda trial, turn: self._say(f"{trial.name}: {turn}"))
        return {trial.who: trial.columns for trial in trials}

    def _weighed(self) -> dict[Contestant, Columns]:
        size = self._cell.size
        flat = Contestant(FLAT, FLAT, self._cell.contestants[0].place)
        weights = {flat: PAIR_BYTES * size}
        weights |= {held.who: held.index.nbytes for held in self._held}
        return {
            who: {"index_bytes": weight, "bytes_per_pair": weight / size, "checked": size}
            for who, weight in weights.items()
        }

    def _lines(
        self, figure: str, kinds: Sequence[Mapping[Contestant, Columns]]
    ) -> Iterator[Measured]:
        """A line per contestant of a figure; several measures of one are put together."""
        rivals = {who.structure for who in self._cell.contestants}
        for entered, who in zip(self._entered, self._cell.contestants, strict=True):
            if not isinstance(entered, Held) and _shows(figure, who):
                yield Measured(figure, who, {}, str(entered))
        for who in dict.fromkeys(who for kind in kinds for who in kind):
            if not _shows(figure, who) or (len(kinds) > 1 and who.structure == FLAT):
                continue
            columns: Columns = {}
            for kind in kinds:
                columns = added(columns, kind.get(who, {}))
            if who.structure != FLAT:
                columns["code_lines"] = code_lines(who.structure, rivals)
            yield Measured(figure, who, columns)


def added(columns: Columns, more: Columns) -> Columns:
    """Columns of two measures: what both have is added up, but for the share of the processor.

    >>> added({"seconds": 1.0, "cpu_share": 1.0}, {"seconds": 3.0, "cpu_share": 0.5})
    {'seconds': 4.0, 'cpu_share': 0.625}
    """
    together = {**columns, **more}
    for name in columns.keys() & more.keys():
        together[name] = columns[name] + more[name]
    if "cpu_share" in columns and "cpu_share" in more:
        spent = sum(part["cpu_share"] * part["seconds"] for part in (columns, more))
        together["cpu_share"] = spent / max(together["seconds"], 1e-9)
    return together


def _shows(figure: str, who: Contestant) -> bool:
    if who.structure == FLAT:
        return True
    return who.structure in _ONLY.get(figure, (who.structure,)) and (
        who.structure not in _NOT.get(figure, ())
    )
