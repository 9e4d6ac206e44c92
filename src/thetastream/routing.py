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

Anchored is the side whose unmatched rows matter, both for a full join. A row that is sent to
several partitions is a *copy* in all but one. ``led`` names the side whose home gives a pair, where
a pair may meet more than once.

Targets follow from a row's values alone, never from its place in a batch: a task that is run again
sends every row where it was sent before.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream.binding import Binding, Field, Fresh
from thetastream.errors import SchemaError, StateError, suggest
from thetastream.kernels.cells import cells_of_floats, cells_of_integers
from thetastream.kernels.hashing import mix, mix_into
from thetastream.schema import Kind
from thetastream.side import How, Side
from thetastream.term import swap

__all__ = ["SCHEMES", "Cells", "Deliveries", "Everywhere", "Grid", "Hashed", "Routing", "choose"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]
SCHEMES = ("auto", "hash", "cells", "matrix")
_BANDS_PER_CELL = 8


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Row ``rows[i]`` goes to partition ``targets[i]``; it is a copy there, or at home."""

    rows: Array
    targets: Array
    copies: Mask


@dataclass(frozen=True)
class Plan:
    """What every scheme needs to know of the join."""

    binding: Binding
    how: How
    self_join: bool
    partitions: int

    @property
    def anchored(self) -> tuple[Side, ...]:
        """The sides that need a home where they meet all their partners."""
        kept = tuple(side for side in Side if self.how.keeps(side))
        return kept or (Side.LEFT,)

    @property
    def lead(self) -> Side:
        """The side whose home gives a pair."""
        return self.anchored[0]


class Routing(ABC):
    """A scheme of partitioning."""

    name: str

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def route(self, fresh: dict[Side, Fresh]) -> Deliveries:
        """Where rows go. ``fresh`` holds one batch under the roles its rows can play."""

    @property
    def led(self) -> Side | None:
        """The side whose home gives a pair; None where every pair meets once anyway."""
        both = self.plan.self_join or len(self.plan.anchored) > 1
        return self.plan.lead if both else None

    @abstractmethod
    def replication(self) -> dict[Side, float]:
        """How many partitions a row of a side is expected to be sent to."""

    @abstractmethod
    def describe(self) -> str:
        """The scheme in words."""

    def _spread(self, rows: Fresh) -> Array:
        """A partition from all that a row compares; rows that can match nothing share by time."""
        count = self.plan.partitions
        columns = [*rows.keys, *([] if rows.times is None else [rows.times])]
        masks = [rows.valid] * len(rows.keys) + [rows.timed]
        hashes = np.zeros(len(rows), np.int64)
        for column, mask in zip(columns, masks, strict=False):
            known = column if mask is None else np.where(mask, column, np.int64(0))
            mix_into(np.ascontiguousarray(known), hashes)
        return _modulo(hashes, count)


def _modulo(hashes: Array, count: int) -> Array:
    """A partition from a hash, all of whose bits count."""
    return ((hashes.view(np.uint64) >> np.uint64(11)) % np.uint64(count)).astype(np.int64)


def _joined(parts: list[tuple[Array, Array]], count: int, home: Array | None) -> Deliveries:
    """Deliveries from (rows, targets), each place once; a row's home, or first place, is no copy.

    ``home`` holds a partition per row where rows have one.
    """
    size = count + 1
    rows = np.concatenate([part[0] for part in parts])
    targets = np.concatenate([part[1] for part in parts])
    unique = np.unique(rows * size + targets)
    rows, targets = unique // size, unique % size
    if home is None:
        first = np.ones(rows.size, np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        return Deliveries(rows, targets, ~first)
    return Deliveries(rows, targets, targets != home[rows])


class Hashed(Routing):
    """Equal keys meet in one partition; rows are sent once."""

    name = "hash"

    def __init__(self, plan: Plan, terms: tuple[int, ...]) -> None:
        super().__init__(plan)
        self._terms = terms
        self._fields = [Field(plan.binding, Side.LEFT, (i,)) for i in terms]

    @property
    def led(self) -> Side | None:
        return Side.LEFT if self.plan.self_join else None

    def route(self, fresh: dict[Side, Fresh]) -> Deliveries:
        targets = {role: self._targets(rows) for role, rows in fresh.items()}
        count = next(iter(targets.values())).size
        every = np.arange(count)
        if len(targets) == 1:
            (only,) = targets.values()
            return Deliveries(every, only, np.zeros(count, np.bool_))
        parts = [(every, target) for target in targets.values()]
        return _joined(parts, self.plan.partitions, targets[Side.LEFT])

    def _targets(self, rows: Fresh) -> Array:
        """Right rows go where the left key they ask for goes."""
        hashes = np.empty(len(rows), np.int64)
        for at, (term, field) in enumerate(zip(self._terms, self._fields, strict=True)):
            key = rows.keys[term] if rows.side is Side.LEFT else field.pieces(rows)[0][0]
            if rows.valid is not None:
                key = np.where(rows.valid, key, np.int64(0))
            (mix_into if at else mix)(np.ascontiguousarray(key), hashes)
        targets = _modulo(hashes, self.plan.partitions)
        if rows.valid is not None:
            targets = np.where(rows.valid, targets, self._spread(rows))
        return targets

    def replication(self) -> dict[Side, float]:
        return dict.fromkeys(Side, 1.0)

    def describe(self) -> str:
        terms = ", ".join(str(self.plan.binding.terms[i].term) for i in self._terms)
        return f"hash of {terms}"


class Cells(Routing):
    """A band: cells of the number line, copies only across their borders."""

    name = "cells"

    def __init__(self, plan: Plan, term: int, width: float) -> None:
        super().__init__(plan)
        self._term = term
        self.width = width
        self._fields = {side: Field(plan.binding, side, (term,)) for side in Side}
        self._float = plan.binding.terms[term].domain.kind is Kind.FLOAT

    def route(self, fresh: dict[Side, Fresh]) -> Deliveries:
        parts: list[tuple[Array, Array]] = []
        home: Array | None = None
        lead = self.plan.lead if self.plan.self_join else None
        for role, rows in fresh.items():
            valid = np.arange(len(rows)) if rows.valid is None else np.flatnonzero(rows.valid)
            if role in self.plan.anchored and lead in (None, role):
                home = self._spread(rows)
                home[valid] = self._modulo(self._cells(rows.keys[self._term]))[valid]
                parts.append((np.arange(len(rows)), home))
            if role.other in self.plan.anchored:
                parts += self._reached(rows, valid)
        if home is None:
            (rows,) = fresh.values()
            lost = np.setdiff1d(np.arange(len(rows)), np.concatenate([part[0] for part in parts]))
            if lost.size:
                parts.append((lost, self._spread(rows)[lost]))
        return _joined(parts, self.plan.partitions, home)

    def _reached(self, rows: Fresh, valid: Array) -> list[tuple[Array, Array]]:
        """Every partition with a cell that the partners of rows can lie in."""
        found: list[tuple[Array, Array]] = []
        count = self.plan.partitions
        for low, high in self._fields[rows.side.other].pieces(rows):
            at = valid[low[valid] <= high[valid]]
            first, last = self._cells(low[at]), self._cells(high[at])
            # As unsigned numbers the difference is right even where it leaves int64.
            cells = (last.view(np.uint64) - first.view(np.uint64)).astype(np.float64) + 1
            span = np.minimum(cells, count).astype(np.int64)
            for step in range(int(span.max()) if span.size else 0):
                reach = span > step
                targets = self._modulo(first[reach]) + step
                found.append((at[reach], targets % count))
        return found

    def _cells(self, keys: Array) -> Array:
        cells = np.empty(keys.size, np.int64)
        if self._float:
            cells_of_floats(np.ascontiguousarray(keys), self.width, cells)
        else:
            cells_of_integers(np.ascontiguousarray(keys), int(self.width), cells)
        return cells

    def _modulo(self, cells: Array) -> Array:
        return cells % np.int64(self.plan.partitions)

    def replication(self) -> dict[Side, float]:
        band = self._fields[Side.LEFT].width or 0.0
        reach = min(float(self.plan.partitions), 1.0 + band / self.width)
        sides = self.plan.anchored
        if self.plan.self_join or len(sides) > 1:
            return dict.fromkeys(Side, reach)
        return {side: 1.0 if side in sides else reach for side in Side}

    def describe(self) -> str:
        term = self.plan.binding.terms[self._term].term
        return f"cells of width {self.width:g} of {term}"


class Grid(Routing):
    """Rows and columns of partitions; a pair meets where they cross. For inner joins."""

    name = "matrix"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        down = math.isqrt(plan.partitions)
        while plan.partitions % down:
            down -= 1
        self.shape = (down, plan.partitions // down)

    @property
    def led(self) -> Side | None:
        return None

    def route(self, fresh: dict[Side, Fresh]) -> Deliveries:
        ((role, rows),) = fresh.items()
        down, across = self.shape
        spread = self._spread(rows)
        if role is Side.LEFT:
            targets = (spread % down)[:, None] * across + np.arange(across)
        else:
            targets = (spread % across)[:, None] + across * np.arange(down)
        each = targets.shape[1]
        copies = np.ones(targets.shape, np.bool_)
        copies[:, 0] = False
        at = np.repeat(np.arange(len(rows)), each)
        return Deliveries(at, targets.ravel(), copies.ravel())

    def replication(self) -> dict[Side, float]:
        return {Side.LEFT: float(self.shape[1]), Side.RIGHT: float(self.shape[0])}

    def describe(self) -> str:
        return f"matrix of {self.shape[0]} x {self.shape[1]} partitions"


class Everywhere(Routing):
    """Rows of an anchored side have a home; whoever must meet them goes everywhere."""

    name = "matrix"

    def route(self, fresh: dict[Side, Fresh]) -> Deliveries:
        roles, count = set(fresh), self.plan.partitions
        rows = next(iter(fresh.values()))
        every, home = np.arange(len(rows)), self._spread(rows)
        anchored = bool(roles & set(self.plan.anchored))
        met = any(role.other in self.plan.anchored for role in roles)
        if not met:
            return Deliveries(every, home, np.zeros(every.size, np.bool_))
        at = np.repeat(every, count)
        targets = np.tile(np.arange(count), every.size)
        if anchored:
            return Deliveries(at, targets, targets != home[at])
        return Deliveries(at, targets, targets != 0)

    def replication(self) -> dict[Side, float]:
        count, sides = float(self.plan.partitions), self.plan.anchored
        if self.plan.self_join or len(sides) > 1:
            return dict.fromkeys(Side, count)
        return {side: 1.0 if side in sides else count for side in Side}

    def describe(self) -> str:
        sides = " and ".join(side.value for side in self.plan.anchored)
        return f"matrix: {sides} rows at home, their partners everywhere"


# --- The choice ---------------------------------------------------------------------------------


def choose(
    binding: Binding,
    how: How,
    self_join: bool,
    partitions: int,
    scheme: str = "auto",
    cell_width: float | None = None,
) -> Routing:
    """The scheme for a join: equality by hash, a band by cells, all else by a matrix."""
    if scheme not in SCHEMES:
        raise StateError(
            f"partitioning must be one of {', '.join(SCHEMES)}; got {scheme!r}."
            f"{suggest(scheme, SCHEMES)}"
        )
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise StateError(f"partitions must be a whole number of at least 1; got {partitions!r}")
    plan = Plan(binding, how, self_join, partitions)
    points, bands = _points(plan), _bands(plan)
    if cell_width is not None and (scheme not in ("auto", "cells") or not bands):
        raise StateError("cell_width is for joins on a band, partitioned by cells")
    if scheme == "hash" and not points:
        raise StateError(f"partitioning='hash' needs an equality; {binding.predicate} has none")
    if scheme == "cells" and not bands:
        raise StateError(f"partitioning='cells' needs a band; {binding.predicate} has none")
    if points and scheme in ("auto", "hash") and cell_width is None:
        return Hashed(plan, points)
    if bands and scheme in ("auto", "cells"):
        return _cells(plan, bands[0], cell_width)
    if how is How.INNER and not self_join:
        return Grid(plan)
    return Everywhere(plan)


def _points(plan: Plan) -> tuple[int, ...]:
    """Equality terms by which rows of both sides can be hashed."""
    found = [
        i
        for i, bound in enumerate(plan.binding.terms)
        if all(Field(plan.binding, side, (i,)).is_point for side in Side)
        and (_same(plan, i) or not _needs_both(plan))
    ]
    return tuple(found)


def _bands(plan: Plan) -> list[int]:
    """Band terms, the one whose cells are cut first."""
    return [
        i
        for i in range(len(plan.binding.terms))
        if Field(plan.binding, Side.LEFT, (i,)).width is not None
        and (_same(plan, i) or not _needs_both(plan))
    ]


def _needs_both(plan: Plan) -> bool:
    """Whether rows of a self-join must meet their partners in either role at one home."""
    return plan.self_join and plan.how.keeps(Side.RIGHT)


def _same(plan: Plan, term: int) -> bool:
    """Whether a term compares one expression with itself."""
    found = plan.binding.terms[term].term
    return bool(found.left.same(swap(found.right)))


def _cells(plan: Plan, term: int, wanted: float | None) -> Cells:
    field = Field(plan.binding, Side.LEFT, (term,))
    assert field.width is not None
    integral = field.domain.kind is not Kind.FLOAT
    if wanted is not None:
        width = float(field.domain.constant(_decimal(wanted))) if integral else float(wanted)
        if not width > 0 or not math.isfinite(width) or (integral and width < 1):
            raise StateError(f"cell_width must be a positive number; got {wanted!r}")
    else:
        width = field.width * _BANDS_PER_CELL or 1.0
    if integral:
        width = float(min(max(1, int(width)), 2**62))
    cells = _cell_count(plan, field, width)
    if cells is not None and cells < plan.partitions:
        raise SchemaError(
            f"{plan.partitions} partitions, but the values of {field} lie in {cells} cells of "
            f"width {width:g}: use at most {cells} partitions, a smaller cell_width, or "
            "partitioning='matrix'"
        )
    return Cells(plan, term, width)


def _decimal(value: float) -> int:
    if value != int(value):
        raise StateError(
            f"cell_width must be a whole number for keys that are not floats; got {value}"
        )
    return int(value)


def _cell_count(plan: Plan, field: Field, width: float) -> int | None:
    """How many cells the values of a narrow key type can lie in; None for wide types."""
    binding = plan.binding
    narrow = [
        schema.field(name).type.bit_width
        for side, schema in binding.schemas.items()
        for name in field.terms[0].term.expression(side).columns(side)
        if pat.is_integer(schema.field(name).type)
    ]
    if len(narrow) < 2 or max(narrow) > 16:
        return None
    return math.ceil(2.0 ** int(max(narrow)) / width)
