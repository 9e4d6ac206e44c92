"""Tactics: ways to lay out the keys of a side in an index, and to ask it for boxes.

A *layout* says what the first key column of an index is and which other columns lie beside it:

    ordered       the key of one field; the other fields are checked on candidates
    hash          a hash of all equality fields; O(1) look-up, the rest checked
    cells         a composite: (equalities, cell of one band) as prefix, the order of a last field
                  as suffix. Two bands become a few short ranges instead of one long one:

                      prefix: cell of x     │ suffix: order of y
                      ··· 17 │ 17 │ 17 │ 18 │ …            a box asks [y - d, y + d] in two cells

                  (``cells.py``)

    ibwj          like ordered, over a structure of the PIM-Tree paper: index-based window join
    spo-join      like ordered, over permutations between the orders of two fields: SPO-Join
    panjoin       like ordered, over a chain of subwindows of the PanJoin paper, dealt to workers
    nested-loop   no order at all

The first column may be inexact (hashes collide, suffixes are rounded down): it only has to contain
every match. Fields it does not decide exactly are checked beside it, so answers are always exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.data.kernels.hashing import mix, mix_into, unmix
from thetastream.errors import RegistryError, suggest
from thetastream.index.registry import defaults, structure

__all__ = [
    "Boxes",
    "Hashed",
    "Indexed",
    "Layout",
    "Ordered",
    "PanJoin",
    "Scan",
    "SpoJoin",
    "Tactic",
    "hashed",
    "read_tactic",
    "tactic_summary",
    "tactics",
]

Array = NDArray[np.int64]
SUBWINDOWS = "subwindows"  # the chain that chooses the structure of every subwindow
SPO = "spo-join"  # the structure that tactic ``spo-join`` means


@dataclass(slots=True)
class Boxes:
    """What fresh rows ask: box ``i`` belongs to fresh row ``owners[i]``."""

    lows: Array
    highs: Array
    owners: Array

    def __len__(self) -> int:
        return self.owners.size


class Layout(ABC):
    """How the rows of one side are keyed, and how the other side asks for them."""

    tactic: str
    index: str = "sorted-runs"
    parameters: Mapping[str, Any] = MappingProxyType({})  # of the index, besides its size
    ordered = False  # whether ``arranged`` gives rows in the order of their boxes

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)

    @property
    @abstractmethod
    def checks(self) -> tuple[Field, ...]:
        """Fields that lie beside the first column."""

    @abstractmethod
    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        """First key column of rows to store, from the keys of their fields."""

    @abstractmethod
    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        """Intervals of the first column; owners index the given pieces."""

    def arranged(self, rows: Keys) -> tuple[Array, Keys]:
        """The rows that can match, in an order that suits the index: positions and keys."""
        return rows.able()

    @property
    def columns(self) -> int:
        """How many key columns the index has."""
        return 1 + len(self.checks)

    def matrix(self, keys: Mapping[Field, Array], count: int) -> Array:
        """Key matrix of ``count`` rows to store, from the keys of their fields."""
        columns = [self.first_column(keys, count), *(keys[field] for field in self.checks)]
        return np.stack(columns) if len(columns) > 1 else columns[0].reshape(1, -1)

    def boxes(self, fresh: Keys) -> Boxes:
        """Boxes of fresh rows; empty ones are left out."""
        asked = [field.pieces(fresh) for field in self.fields]
        count = fresh.count
        parts = [
            self._part(dict(zip(self.fields, combination, strict=True)), count)
            for combination in product(*asked)
        ]
        if len(parts) == 1:
            return parts[0]
        lows, highs = (np.concatenate([getattr(p, n) for p in parts], axis=1) for n in _EDGES)
        return Boxes(lows, highs, np.concatenate([part.owners for part in parts]))

    def _part(self, pieces: dict[Field, tuple[Array, Array]], count: int) -> Boxes:
        """Boxes for one combination of arms."""
        owners = np.arange(count)
        for low, high in pieces.values():
            full = low <= high
            if not full.all():
                owners = owners[full[owners]]
        first = self.first_interval(pieces, owners)
        if not self.checks:
            return Boxes(first.lows.reshape(1, -1), first.highs.reshape(1, -1), first.owners)
        at = first.owners
        edges = [pieces[field] for field in self.checks]
        if at is not owners or at.size < count:  # else every row has one box
            edges = [(low[at], high[at]) for low, high in edges]
        lows = np.stack([first.lows, *(low for low, _ in edges)])
        highs = np.stack([first.highs, *(high for _, high in edges)])
        return Boxes(lows, highs, at)

    def field_keys(self, matrix: Array) -> dict[Field, Array]:
        """The keys of every field, back from a key matrix; for moving to another layout."""
        return dict(zip(self.checks, matrix[1:], strict=True))

    def as_dict(self) -> dict[str, Any]:
        """The layout in words."""
        return {
            "tactic": self.tactic,
            "index": self.index,
            **self.parameters,
            "first column": self.describe(),
            "checked on candidates": [str(field) for field in self.checks],
        }

    @abstractmethod
    def describe(self) -> str:
        """What the first column holds."""


_EDGES = ("lows", "highs")


class Ordered(Layout):
    """One field drives; its order is kept."""

    tactic = "ordered"

    def __init__(self, fields: Sequence[Field], driver: Field, index: str = "sorted-runs") -> None:
        super().__init__(fields)
        self.driver = driver
        self.ordered = not driver.is_time
        self.index = index

    @property
    def checks(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field is not self.driver)

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        return keys[self.driver]

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        low, high = pieces[self.driver]
        if owners.size == low.size:
            return Boxes(low, high, owners)
        return Boxes(low[owners], high[owners], owners)

    def arranged(self, rows: Keys) -> tuple[Array, Keys]:
        return rows.by_key(self.driver.members[0]) if self.ordered else rows.able()

    def field_keys(self, matrix: Array) -> dict[Field, Array]:
        return {self.driver: matrix[0], **super().field_keys(matrix)}

    def describe(self) -> str:
        return f"order of {self.driver}"


class Indexed(Ordered):
    """The index-based window join of the PIM-Tree paper: one field drives any of its structures."""

    tactic = "ibwj"


class PanJoin(Ordered):
    """PanJoin: one field drives a chain of subwindows, which are dealt to ``workers`` threads."""

    tactic = "panjoin"

    def __init__(
        self, fields: Sequence[Field], driver: Field, index: str = SUBWINDOWS, workers: int = 1
    ) -> None:
        super().__init__(fields, driver, index)
        if workers > 1:
            self.parameters = {"workers": workers}


class SpoJoin(Ordered):
    """SPO-Join: two fields are kept in order, with permutations between them.

    ``slide`` rows leave the window at a time, which is when fresh rows become a structure.
    """

    tactic = "spo-join"

    def __init__(
        self,
        fields: Sequence[Field],
        driver: Field,
        second: Field,
        index: str,
        workers: int = 1,
        slide: int = 0,
    ) -> None:
        super().__init__(fields, driver, index)
        self.second = second
        known = defaults(index)
        wanted = {"workers": workers if workers > 1 else 0, "slide": slide}
        self.parameters = {w: value for w, value in wanted.items() if value and w in known}

    @property
    def checks(self) -> tuple[Field, ...]:
        others = [f for f in self.fields if f is not self.driver and f is not self.second]
        return (self.second, *others)

    def describe(self) -> str:
        return f"orders of {self.driver} and {self.second}"


class Hashed(Layout):
    """All equality fields become one hash; a single one is scrambled one-to-one, so not checked."""

    tactic = "hash"

    def __init__(self, fields: Sequence[Field], points: Sequence[Field]) -> None:
        super().__init__(fields)
        self.points = tuple(points)

    @property
    def checks(self) -> tuple[Field, ...]:
        alone = len(self.points) == 1
        return tuple(f for f in self.fields if not (alone and f is self.points[0]))

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        return hashed([keys[field] for field in self.points])

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        hashes = hashed([pieces[field][0][owners] for field in self.points])
        return Boxes(hashes, hashes, owners)

    def field_keys(self, matrix: Array) -> dict[Field, Array]:
        keys = super().field_keys(matrix)
        if len(self.points) == 1:
            keys[self.points[0]] = np.empty(matrix.shape[1], np.int64)
            unmix(matrix[0], keys[self.points[0]])
        return keys

    def describe(self) -> str:
        return f"hash of {', '.join(map(str, self.points))}"


class Scan(Layout):
    """No order: every row is a candidate."""

    tactic = "nested-loop"
    index = "nested-loop"

    @property
    def checks(self) -> tuple[Field, ...]:
        return self.fields

    def first_column(self, keys: Mapping[Field, Array], count: int) -> Array:
        return np.zeros(count, np.int64)

    def first_interval(self, pieces: dict[Field, tuple[Array, Array]], owners: Array) -> Boxes:
        zeros = np.zeros(owners.size, np.int64)
        return Boxes(zeros, zeros, owners)

    def describe(self) -> str:
        return "nothing (nested loop)"


def hashed(columns: Sequence[Array]) -> Array:
    """One hash per row, from the keys of its columns."""
    hashes = np.empty(columns[0].size, np.int64)
    mix(np.ascontiguousarray(columns[0]), hashes)
    for column in columns[1:]:
        mix_into(np.ascontiguousarray(column), hashes)
    return hashes


@dataclass(frozen=True, slots=True)
class Tactic:
    """A named family of layouts."""

    name: str
    summary: str


_TACTICS = {
    "auto": Tactic("auto", "the cheapest of all by the cost model, from observed keys"),
    "ordered": Tactic("ordered", "one term drives an ordered index, the others are checked"),
    "ibwj": Tactic("ibwj", "index-based window join: one term drives the cheapest tree"),
    "panjoin": Tactic("panjoin", "one term drives a chain of subwindows, dealt to workers"),
    "spo-join": Tactic("spo-join", "two terms keep their orders, with permutations between them"),
    "hash": Tactic("hash", "equality terms by hash, the others are checked"),
    "cells": Tactic("cells", "equalities and the cell of a band, then the order of another term"),
    "nested-loop": Tactic("nested-loop", "every row against every row"),
}


_OVER_AN_INDEX = ("ordered", "ibwj", "panjoin", "spo-join")


def tactics() -> list[str]:
    """Names of all registered tactics."""
    return list(_TACTICS)


def tactic_summary(name: str) -> str:
    """One line on a tactic."""
    return _TACTICS[name].summary


def read_tactic(name: str) -> tuple[str, str | None]:
    """Split ``ibwj/pim-tree`` into tactic and index, and check both.

    The index may name what is inside it, as in ``ordered/ptwi/b+tree``.
    """
    family, _, index = name.partition("/")
    if family not in _TACTICS:
        raise RegistryError(
            f"there is no tactic {name!r}; there are {', '.join(_TACTICS)}."
            f"{suggest(family, _TACTICS)}"
        )
    if index and family not in _OVER_AN_INDEX:
        raise RegistryError(
            f"only the tactics {', '.join(map(repr, _OVER_AN_INDEX))} take an index, as in "
            f"'ordered/{index}'"
        )
    if index:
        structure(index)
    return family, index or None
