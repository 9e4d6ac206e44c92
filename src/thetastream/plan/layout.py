"""Layouts: how the keys of a side lie in an index, and how the other side asks for boxes.

A *layout* defines the first key column of an index and the columns beside it. The first column may
be inexact (hashes collide, suffixes are rounded down): its interval only has to contain every
match. Fields that it does not decide exactly are checked beside it, so answers are always exact.

``Ordered``, the key of one field with the others beside it, is shared by several tactics; the other
layouts are in ``tactics/``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.data.kernels.hashing import mix, mix_into
from thetastream.plan.selectivity import Selectivity

NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Boxes:
    """The boxes of fresh rows: box ``i`` belongs to fresh row ``owners[i]``."""

    lows: Array
    highs: Array
    owners: Array

    def __len__(self) -> int:
        return self.owners.size


@dataclass(frozen=True, slots=True)
class Reach:
    """The expected boxes of a fresh row, and the share of the window inside them."""

    boxes: float
    share: float


class Layout(ABC):
    """How the rows of one side are keyed, and how the other side asks for them."""

    tactic: str
    index: str
    driver: Field | None = None  # the field whose order is kept, if there is one
    ordered = False  # whether ``arranged`` returns rows in the order of their boxes
    prepared, pushed = "prepare", "push"  # the prices of a row and of a push (``Prices``)

    def __init__(
        self, fields: Sequence[Field], index: str, parameters: Mapping[str, Any] = NO_PARAMETERS
    ) -> None:
        self.fields = tuple(fields)
        self.index = index
        self.parameters = parameters  # of the index, besides its size

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
        """The rows that can match, in an order suitable for the index: positions and keys."""
        return rows.able()

    @property
    def sort_term(self) -> int | None:
        """The term by whose keys ``arranged`` sorts rows; None if it does not sort."""
        return None

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
        arms = product(*(field.pieces(fresh) for field in self.fields))
        parts = [
            self._part(dict(zip(self.fields, each, strict=True)), fresh.count) for each in arms
        ]
        if len(parts) == 1:
            return parts[0]
        lows = np.concatenate([part.lows for part in parts], axis=1)
        highs = np.concatenate([part.highs for part in parts], axis=1)
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
        """The keys of every field of a key matrix, for moving to another layout."""
        return dict(zip(self.checks, matrix[1:], strict=True))

    def reach(self, known: Selectivity, lost: float = 0.0) -> Reach:
        """What a fresh row asks for, if a share ``lost`` of the rows cannot be distinguished."""
        return Reach(self._arms(known), 1.0)

    def _arms(self, known: Selectivity) -> float:
        """How many combinations of intervals make up the boxes of a row."""
        return math.prod(known.arms[field] for field in self.fields)

    def lost(self, known: Selectivity) -> float:
        """The share of stored rows that the layout, fitted to other keys, cannot distinguish."""
        return 0.0

    @property
    def identity(self) -> tuple[Any, ...]:
        """What distinguishes it from other layouts of the same fields, apart from ``fit``."""
        return type(self), self.index, repr(self.parameters), self.driver, self.checks

    @property
    def fit(self) -> Any:
        """The part that is fitted to observed keys, if any."""
        return None

    def same(self, other: Layout) -> bool:
        """Whether an index under the other layout need not be moved for this one."""
        return self.identity == other.identity and self.fit == other.fit

    @property
    def fits_keys(self) -> bool:
        """Whether it is fitted to observed keys, and so made anew once there are some."""
        return False

    def as_dict(self) -> dict[str, Any]:
        """A description of the layout."""
        shown = {w: list(v) if isinstance(v, tuple) else v for w, v in self.parameters.items()}
        return {
            "tactic": self.tactic,
            "index": self.index,
            **({"parameters": shown} if shown else {}),
            "first column": self.describe(),
            "checked on candidates": [str(field) for field in self.checks],
        }

    @abstractmethod
    def describe(self) -> str:
        """The content of the first column."""


class Ordered(Layout):
    """One field drives; its order is kept."""

    tactic = "ordered"

    driver: Field

    def __init__(
        self,
        fields: Sequence[Field],
        driver: Field,
        index: str = "sorted-runs",
        parameters: Mapping[str, Any] = NO_PARAMETERS,
    ) -> None:
        super().__init__(fields, index, parameters)
        self.driver = driver
        self.ordered = not driver.is_time

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

    @property
    def sort_term(self) -> int | None:
        return self.driver.members[0] if self.ordered else None

    def arranged(self, rows: Keys) -> tuple[Array, Keys]:
        term = self.sort_term
        return rows.able() if term is None else rows.by_key(term)

    def field_keys(self, matrix: Array) -> dict[Field, Array]:
        return {self.driver: matrix[0], **super().field_keys(matrix)}

    def reach(self, known: Selectivity, lost: float = 0.0) -> Reach:
        return Reach(self._arms(known), known.shares[self.driver])

    def describe(self) -> str:
        return f"order of {self.driver}"


def hashed(columns: Sequence[Array]) -> Array:
    """One hash per row, from the keys of its columns."""
    hashes = np.empty(columns[0].size, np.int64)
    mix(np.ascontiguousarray(columns[0]), hashes)
    for column in columns[1:]:
        mix_into(np.ascontiguousarray(column), hashes)
    return hashes
