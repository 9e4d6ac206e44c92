"""Which partitions a row is sent to, so that every pair meets, and every row has one home.

    hash         equality: the hash of the compared keys names the one partition of a row
    cells        a band: the number line is cut into cells wider than the band, and cell ``c``
                 belongs to partition ``c mod n``. A row of an *anchored* side has its home in the
                 cell of its key; a row of the other side goes to every cell its band reaches:

                     cells      │   17    │   18    │   19    │      home of l: cell 18
                                       r1 ├──┤      ├──┤ r2         r1 goes to 17 and 18, r2 to 19
    grid         inequalities, inner: left rows to a row of a grid of partitions, right rows to a
                 column; a pair meets where they cross
    everywhere   inequalities, otherwise: rows of an anchored side at home, the others everywhere

Anchored is the side whose unmatched rows matter: both for a full join, the left one for an inner
join and for aggregates, which need all matches of a left row in one place. A row that is sent to
several partitions is a *copy* in all but one; ``copied`` names the sides that can have copies.
``led`` names the side whose home returns a pair, if a pair may meet more than once.

Targets depend on a row's values alone, never on its place in a batch: a task that is run again
sends every row to the same partitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.boxes.binding import Binding
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.condition.term import swap
from thetastream.data.kernels.hashing import mix_into
from thetastream.engine.partition.deliveries import Deliveries, Marks
from thetastream.plan.kernels.cells import cells_of_floats, cells_of_integers
from thetastream.plan.layout import hashed
from thetastream.schema import KeyKind
from thetastream.side import How, Side


@dataclass(frozen=True)
class RoutingPlan:
    """What every scheme needs to know about the join."""

    binding: Binding
    how: How
    self_join: bool
    partitions: int
    preferred: Side = Side.LEFT

    @property
    def anchored(self) -> tuple[Side, ...]:
        """The sides that need a home where they meet all their partners."""
        kept = tuple(side for side in Side if self.how.keeps(side))
        return kept or (self.preferred,)

    @property
    def lead(self) -> Side:
        """The side whose home returns a pair."""
        return self.anchored[0]


class Routing(ABC):
    """A scheme of partitioning."""

    name: str

    def __init__(self, plan: RoutingPlan) -> None:
        self.plan = plan

    def route(self, fresh: dict[Side, Keys]) -> Deliveries:
        """Where rows go. ``fresh`` holds one batch under the roles its rows can play."""
        if self.plan.partitions == 1:
            return Deliveries.undivided(_count(fresh))
        return self._route(fresh)

    @abstractmethod
    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        """``route``, with several partitions."""

    @cached_property
    def copied(self) -> tuple[Side, ...]:
        """The sides that can have copies; in a self-join all or none."""
        return () if self.plan.partitions == 1 else self._copied()

    def _copied(self) -> tuple[Side, ...]:
        """``copied``, with several partitions: the partners of anchored rows."""
        met = tuple(side for side in Side if side.other in self.plan.anchored)
        return tuple(Side) if self.plan.self_join else met

    @property
    def led(self) -> Side | None:
        """The side whose home returns a pair; None if every pair meets once anyway."""
        return self.plan.lead if self.plan.lead in self.copied else None

    @abstractmethod
    def replication(self) -> dict[Side, float]:
        """How many partitions a row of a side is expected to be sent to."""

    def _if_met_in(self, places: float) -> dict[Side, float]:
        """``replication``, if the partners of anchored rows are sent to that many places."""
        sides = self.plan.anchored
        alone = not self.plan.self_join and len(sides) == 1
        return {side: 1.0 if alone and side in sides else places for side in Side}

    @abstractmethod
    def describe(self) -> str:
        """The scheme in words."""

    def places(self, rows: Keys) -> Array:
        """The partitions of rows by their keys; arbitrary for rows without a key."""
        raise NotImplementedError

    def _roles(self, fresh: dict[Side, Keys]) -> tuple[Keys, Keys | None]:
        """Rows in the role that has a home; for a self-join, also in the other role."""
        if len(fresh) == 1:
            (rows,) = fresh.values()
            return rows, None
        return fresh[self.plan.lead], fresh[self.plan.lead.other]

    def _homes(self, rows: Keys, met: Keys | None) -> Array:
        """The homes of rows: where they lead, else where they are met, else anywhere.

        A row of a self-join may be able to match in one role only. Its home must be where it does;
        elsewhere it would count as unmatched.
        """
        homes = self.places(rows)
        if rows.valid is None:
            return homes
        others = self._spread(rows)
        if met is not None:
            places = self.places(met)
            others = places if met.valid is None else np.where(met.valid, places, others)
        return np.where(rows.valid, homes, others)

    def _spread(self, rows: Keys) -> Array:
        """A partition from all values a row compares; rows that cannot match spread by time."""
        count = self.plan.partitions
        columns = [*rows.keys, *([] if rows.times is None else [rows.times])]
        masks = [rows.valid] * len(rows.keys) + [rows.timed]
        hashes = np.zeros(len(rows), np.int64)
        for column, mask in zip(columns, masks, strict=False):
            known = column if mask is None else np.where(mask, column, np.int64(0))
            mix_into(np.ascontiguousarray(known), hashes)
        return _modulo(hashes, count)


def _count(fresh: dict[Side, Keys]) -> int:
    return len(next(iter(fresh.values())))


def _modulo(hashes: Array, count: int) -> Array:
    """A partition from all bits of a hash."""
    return ((hashes.view(np.uint64) >> np.uint64(11)) % np.uint64(count)).astype(np.int64)


class Hashed(Routing):
    """Equal keys meet in one partition; rows are sent once."""

    name = "hash"

    def __init__(self, plan: RoutingPlan, terms: tuple[int, ...]) -> None:
        super().__init__(plan)
        self._terms = terms
        self._fields = [Field(plan.binding, Side.LEFT, (i,)) for i in terms]

    def _copied(self) -> tuple[Side, ...]:
        """Rows of a self-join, unless they are hashed by the same values in both roles."""
        terms = self.plan.binding.terms
        alike = (same_in_both(self.plan, i) and terms[i].term.is_equality for i in self._terms)
        return tuple(Side) if self.plan.self_join and not all(alike) else ()

    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        leads, met = self._roles(fresh)
        marks = Marks(_count(fresh), self.plan.partitions, self._homes(leads, met))
        if met is not None and self.copied:
            marks.send(self.places(met), met.valid)
        return marks.deliveries()

    def places(self, rows: Keys) -> Array:
        """Right rows go where the left key they match goes."""
        keys: list[Array] = []
        for term, field in zip(self._terms, self._fields, strict=True):
            key = rows.keys[term] if rows.side is Side.LEFT else field.pieces(rows)[0][0]
            keys.append(key if rows.valid is None else np.where(rows.valid, key, np.int64(0)))
        return _modulo(hashed(keys), self.plan.partitions)

    def replication(self) -> dict[Side, float]:
        return dict.fromkeys(Side, 1.0)

    def describe(self) -> str:
        terms = ", ".join(str(self.plan.binding.terms[i].term) for i in self._terms)
        return f"hash of {terms}"


def same_in_both(plan: RoutingPlan, term: int) -> bool:
    """Whether a term compares one expression with itself."""
    compared = plan.binding.terms[term].term
    return bool(compared.left.same(swap(compared.right)))


def _shifted(cells: Array, shift: Array) -> Array:
    """Cells with a shift added, clamped first so that the sum stays within 64 bits."""
    return np.clip(cells, -(1 << 62), 1 << 62) + shift


class Cells(Routing):
    """A band: cells of the number line, copies only across their borders.

    ``beside`` are equality terms whose hash is added to the number of a cell: rows of one cell that
    have other keys are elsewhere.
    """

    name = "cells"

    def __init__(
        self, plan: RoutingPlan, term: int, width: float, beside: tuple[int, ...] = ()
    ) -> None:
        super().__init__(plan)
        self._term = term
        self.width = width
        self._fields = {side: Field(plan.binding, side, (term,)) for side in Side}
        self._float = plan.binding.terms[term].domain.kind is KeyKind.FLOAT
        self._beside = Hashed(plan, beside) if beside else None
        if beside:
            self.name = "spread"

    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        leads, met = self._roles(fresh)
        home = self._homes(leads, met) if leads.side in self.plan.anchored else None
        marks = Marks(_count(fresh), self.plan.partitions, home)
        for role, rows in fresh.items():
            if role.other in self.plan.anchored:
                self._send_to_partners(marks, rows)
        if not self.plan.self_join and not set(fresh) & set(self.plan.anchored):
            (rows,) = fresh.values()
            unsent = marks.unsent()
            if unsent.any():
                marks.send(self._spread(rows), unsent)
        return marks.deliveries()

    def places(self, rows: Keys) -> Array:
        cells = self._cells(rows.keys[self._term])
        if self._beside is not None:
            cells = _shifted(cells, self._beside.places(rows))
        return cells % np.int64(self.plan.partitions)

    def _send_to_partners(self, marks: Marks, rows: Keys) -> None:
        """Send rows to every partition with a cell in which their partners can lie."""
        for low, high in self._fields[rows.side.other].pieces(rows):
            wanted = low <= high
            if rows.valid is not None:
                wanted &= rows.valid
            first, last = self._cells(low), self._cells(high)
            if self._beside is not None:
                shift = self._beside.places(rows)
                first, last = _shifted(first, shift), _shifted(last, shift)
            marks.send_to_cells(first, last, wanted)

    def _cells(self, keys: Array) -> Array:
        cells = np.empty(keys.size, np.int64)
        if self._float:
            cells_of_floats(np.ascontiguousarray(keys), self.width, cells)
        else:
            cells_of_integers(np.ascontiguousarray(keys), int(self.width), cells)
        return cells

    def replication(self) -> dict[Side, float]:
        band = self._fields[Side.LEFT].width or 0.0
        reach = min(float(self.plan.partitions), 1.0 + band / self.width)
        return self._if_met_in(reach)

    def describe(self) -> str:
        term = self.plan.binding.terms[self._term].term
        return f"cells of width {self.width:g} of {term}{self._besides()}"

    def _besides(self) -> str:
        return "" if self._beside is None else f", shifted by {self._beside.describe()}"


class Grid(Routing):
    """Rows and columns of partitions; a pair meets where they cross. For inner joins."""

    name = "matrix"

    def __init__(self, plan: RoutingPlan) -> None:
        super().__init__(plan)
        down = math.isqrt(plan.partitions)
        while plan.partitions % down:
            down -= 1
        self.shape = (down, plan.partitions // down)

    def _copied(self) -> tuple[Side, ...]:
        return tuple(side for side, places in self.replication().items() if places > 1)

    @property
    def led(self) -> Side | None:
        return None

    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        ((role, rows),) = fresh.items()
        down, across = self.shape
        spread = self._spread(rows)
        first = spread % down * across if role is Side.LEFT else spread % across
        step, places = (1, across) if role is Side.LEFT else (across, down)
        marks = Marks(len(rows), self.plan.partitions, first)
        for place in range(1, places):
            marks.send(first + place * step, rows.valid)
        return marks.deliveries()

    def replication(self) -> dict[Side, float]:
        return {Side.LEFT: float(self.shape[1]), Side.RIGHT: float(self.shape[0])}

    def describe(self) -> str:
        return f"matrix of {self.shape[0]} x {self.shape[1]} partitions"


class Everywhere(Routing):
    """Rows of an anchored side have a home; their possible partners go everywhere."""

    name = "matrix"

    def _route(self, fresh: dict[Side, Keys]) -> Deliveries:
        rows = next(iter(fresh.values()))
        marks = Marks(len(rows), self.plan.partitions, self._spread(rows))
        for role, played in fresh.items():
            if role.other in self.plan.anchored:
                marks.send_everywhere(played.valid)
        return marks.deliveries()

    def replication(self) -> dict[Side, float]:
        return self._if_met_in(float(self.plan.partitions))

    def describe(self) -> str:
        sides = " and ".join(side.value for side in self.plan.anchored)
        return f"matrix: {sides} rows at home, their partners everywhere"
