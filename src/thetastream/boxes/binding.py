"""A predicate and a window bound to two schemas: the keys rows have, and the boxes they ask for.

*Fields* are what an index of one side stores: one per distinct expression of that side that terms
compare, and the event time of a time window. ``Field.pieces`` turns fresh rows of the other side
into intervals of that field. Terms that share the stored expression share a field, so that
``l.x >= r.low AND l.x <= r.high`` asks one interval of ``l.x``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property, reduce
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.box import Pieces, band_interval, band_width, intervals, plain_band
from thetastream.condition.expression import Call, Column, Expression, Function
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Compare, Difference, Term
from thetastream.data.batch import to_keys
from thetastream.data.evaluate import evaluate, true_mask, type_of
from thetastream.data.kernels.floats import NAN_KEY
from thetastream.errors import PredicateError, SchemaError, suggest
from thetastream.index.runs.run import argsorted
from thetastream.schema import Domain, Kind, common_domain, kind_of, tick, value_type
from thetastream.side import Side
from thetastream.window import BoundTime, CountWindow, TimeWindow, Window

__all__ = ["Binding", "BoundTerm", "Field", "Fresh", "bind", "check_time_type"]

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class BoundTerm:
    """A term and the domain in which its two expressions are compared."""

    term: Term
    domain: Domain

    @cached_property
    def _bands(self) -> dict[Side, tuple[int, int] | None]:
        return {side: plain_band(self.term, self.domain, side) for side in Side}

    def intervals(self, fresh: Side, keys: Array) -> Pieces:
        """Disjoint intervals of stored keys that match fresh keys."""
        band = self._bands[fresh]
        if band is not None:
            return band_interval(band, keys)
        return intervals(self.term, self.domain, fresh, keys)

    @cached_property
    def names(self) -> dict[Side, str]:
        """What the sides' expressions are called in messages."""
        return {side: str(self.term.expression(side)) for side in Side}


@dataclass(slots=True)
class Fresh:
    """Rows arriving now on one side, as keys. ``valid`` marks rows that can match at all.

    In a join that runs in several partitions, ``positions`` are the rows' places among all rows of
    their side, and ``copies`` marks rows whose home is another partition: they are here to be met.
    ``numbers`` are arrival numbers, where they are asked for and ids are others.
    """

    side: Side
    batch: pa.RecordBatch
    keys: list[Array]
    valid: Mask | None
    times: Array | None
    null_keys: int = 0
    nan_keys: int = 0
    timed: Mask | None = None
    ranks: Array | None = None
    positions: Array | None = None
    copies: Mask | None = None
    numbers: Array | None = None
    selected: int | None = None
    _sorted: dict[int, tuple[Array, Fresh]] = dataclass_field(default_factory=dict)

    def able(self) -> tuple[Array, Fresh]:
        """The rows that can match: their positions, and their keys."""
        if self.valid is None:
            return np.arange(len(self)), self
        at = np.flatnonzero(self.valid)
        return at, self._at(at)

    def by_key(self, term: int) -> tuple[Array, Fresh]:
        """``able``, in the order of the key of a term; sorted once for probe and insert."""
        if term not in self._sorted:
            at, rows = self.able()
            order, keys = argsorted(rows.keys[term])
            moved = rows._at(order, term, keys)
            self._sorted[term] = (order if rows is self else at[order], moved)
        return self._sorted[term]

    def _at(self, at: Array, term: int = -1, known: Array | None = None) -> Fresh:
        """Keys and times of some rows; no payload."""
        keys = [
            known if i == term and known is not None else key[at] for i, key in enumerate(self.keys)
        ]
        times = None if self.times is None else self.times[at]
        return Fresh(self.side, self.batch, keys, None, times, selected=at.size)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def count(self) -> int:
        """How many rows have keys here; a selection of rows keeps the whole batch."""
        return len(self) if self.selected is None else self.selected

    def filter(self, keep: Mask) -> Fresh:
        """Only the marked rows."""
        return Fresh(
            self.side,
            self.batch.filter(pa.array(keep)),
            [key[keep] for key in self.keys],
            None if self.valid is None else self.valid[keep],
            None if self.times is None else self.times[keep],
            timed=None if self.timed is None else self.timed[keep],
            ranks=None if self.ranks is None else self.ranks[keep],
            positions=None if self.positions is None else self.positions[keep],
            copies=None if self.copies is None else self.copies[keep],
            numbers=None if self.numbers is None else self.numbers[keep],
        )


@dataclass(frozen=True, eq=False)
class Field:
    """One key column of the stored side: the terms that read it, or the event time."""

    binding: Binding
    stored: Side
    members: tuple[int, ...]

    @property
    def is_time(self) -> bool:
        """Whether this is the event time of the window."""
        return not self.members

    @cached_property
    def terms(self) -> list[BoundTerm]:
        """The terms that this field decides."""
        return [self.binding.terms[i] for i in self.members]

    @property
    def domain(self) -> Domain:
        """How values became keys."""
        return self.terms[0].domain if self.members else self.binding.time_domain

    @cached_property
    def is_point(self) -> bool:
        """Whether a fresh row asks for exactly one key."""
        if len(self.members) != 1:
            return False
        arms = self.terms[0].term.arms
        if len(arms) != 1 or len(arms[0]) != 1:
            return False
        (condition,) = arms[0]
        if not isinstance(condition, Compare) or condition.op is not Function.EQ:
            return False
        return self.domain.kind is not Kind.FLOAT or condition.shift(self.stored) is None

    @cached_property
    def width(self) -> float | None:
        """Width of a bounded band, in values (floats) or key units."""
        if len(self.members) != 1:
            return None
        return band_width(self.terms[0].term, self.domain)

    @property
    def has_cells(self) -> bool:
        """Whether a box of this field touches few cells as wide as its band.

        Not so for floats with constants added: rounding can make their intervals much wider.
        """
        if self.width is None or self.width <= 0:
            return False
        conditions = self.terms[0].term.arms[0]
        return self.domain.kind is not Kind.FLOAT or all(
            isinstance(condition, Difference) for condition in conditions
        )

    def keys(self, rows: Fresh) -> Array:
        """The stored keys of rows of the stored side."""
        if self.is_time:
            assert rows.times is not None
            return rows.times
        return rows.keys[self.members[0]]

    def pieces(self, fresh: Fresh) -> Pieces:
        """Disjoint intervals of this field that fresh rows of the other side ask for."""
        if self.is_time:
            assert self.binding.time is not None and fresh.times is not None
            return [self.binding.time.interval(fresh.times, fresh.side)]
        parts = [
            bound.intervals(fresh.side, fresh.keys[i])
            for i, bound in zip(self.members, self.terms, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return [
            reduce(lambda a, b: (np.maximum(a[0], b[0]), np.minimum(a[1], b[1])), combination)
            for combination in product(*parts)
        ]

    def __str__(self) -> str:
        if self.is_time:
            return f"event time {self.stored.alias}.{self.binding.time_columns[self.stored]}"
        return " AND ".join(str(bound.term) for bound in self.terms)


@dataclass(frozen=True, eq=False)
class Binding:
    """Everything that follows from predicate, window and schemas."""

    predicate: Predicate
    schemas: Mapping[Side, pa.Schema]
    terms: tuple[BoundTerm, ...]
    residuals: tuple[Expression, ...]
    time: BoundTime | None
    time_domain: Domain
    time_columns: Mapping[Side, str]

    def fields(self, stored: Side) -> tuple[Field, ...]:
        """The key columns an index of the side stores."""
        return self._fields[stored]

    @cached_property
    def _fields(self) -> dict[Side, tuple[Field, ...]]:
        return {side: self._grouped(side) for side in Side}

    def _grouped(self, stored: Side) -> tuple[Field, ...]:
        groups: dict[object, list[int]] = {}
        for i, bound in enumerate(self.terms):
            key = (bound.term.expression(stored).key(), bound.domain)
            groups.setdefault(key, []).append(i)
        fields = [Field(self, stored, tuple(members)) for members in groups.values()]
        if self.time is not None:
            fields.append(Field(self, stored, ()))
        return tuple(fields)

    def fresh(self, side: Side, batch: pa.RecordBatch) -> Fresh:
        """Compute keys and times of arriving rows. Raises before anything is stored."""
        lookup = _lookup(batch)
        rows = batch.num_rows
        keys: list[Array] = []
        masks: list[Mask] = []
        for bound in self.terms:
            node = bound.term.expression(side)
            if isinstance(node, Column):
                values = lookup(node)
            else:
                values = evaluate(node, lookup, rows)
            key, valid = to_keys(values, bound.domain, bound.names[side])
            keys.append(key)
            if valid is not None:
                masks.append(valid)
        null_keys = rows - int(np.count_nonzero(reduce(np.logical_and, masks))) if masks else 0
        nan_keys = self._count_nan(keys, masks)
        times, timed = self._times(side, batch)
        if timed is not None:
            masks.append(timed)
        for condition in self.predicate.filters(side):
            masks.append(true_mask(condition, lookup, rows))
        valid = reduce(np.logical_and, masks) if masks else None
        return Fresh(side, batch, keys, valid, times, null_keys, nan_keys, timed)

    def _count_nan(self, keys: list[Array], masks: list[Mask]) -> int:
        floats = [
            key == NAN_KEY
            for key, bound in zip(keys, self.terms, strict=True)
            if bound.domain.kind is Kind.FLOAT
        ]
        if not floats:
            return 0
        found = reduce(np.logical_or, floats)
        return int(np.count_nonzero(reduce(np.logical_and, [found, *masks])))

    def _times(self, side: Side, batch: pa.RecordBatch) -> tuple[Array | None, Mask | None]:
        if self.time is None:
            return None, None
        name = self.time_columns[side]
        return to_keys(batch.column(name), self.time_domain, f"{side.alias}.{name}")

    def residual_mask(
        self, lookup: Callable[[Column], pa.Array], length: int
    ) -> NDArray[np.bool_] | None:
        """Which candidate pairs pass all residuals; None when there are none."""
        masks = [true_mask(node, lookup, length) for node in self.residuals]
        return reduce(np.logical_and, masks) if masks else None


def _lookup(batch: pa.RecordBatch) -> Callable[[Column], pa.Array]:
    return lambda column: batch.column(column.name)


def bind(
    predicate: Predicate,
    window: Window,
    schemas: Mapping[Side, pa.Schema],
    *,
    back: bool = False,
) -> Binding:
    """Check columns and types, and find the domain of every term.

    ``back``: in a time window, left rows meet only right rows that are not later.
    """
    for side in Side:
        check_columns(predicate, window, side, schemas[side])

    def types(column: Column) -> pa.DataType:
        return value_type(schemas[column.side].field(column.name).type)

    terms: list[BoundTerm] = []
    residuals = list(predicate.residuals)
    for term in predicate.terms:
        kinds = [type_of(term.expression(side), types) for side in Side]
        domain = common_domain(kinds[0], kinds[1], str(term))
        if domain.kind is Kind.BYTES:
            residuals.append(_as_expression(term))
            if not term.is_equality:
                continue
        _check_constants(term, domain)
        terms.append(BoundTerm(term, domain))
    for node in [*residuals, *(f for side in Side for f in predicate.filters(side))]:
        true_mask(node, lambda column: pa.nulls(0, types(column)), 0)
    time, time_domain, names = _bind_time(window, schemas, back)
    return Binding(
        predicate, dict(schemas), tuple(terms), tuple(residuals), time, time_domain, names
    )


def _check_constants(term: Term, domain: Domain) -> None:
    """Constants must have a meaning in the domain (an interval for times, a number otherwise)."""
    for arm in term.arms:
        for condition in arm:
            if isinstance(condition, Compare):
                values = [condition.left_shift, condition.right_shift]
            else:
                values = [b.value for b in (condition.low, condition.high) if b is not None]
            try:
                for value in values:
                    if value is not None:
                        domain.constant(value)
            except SchemaError as error:
                raise SchemaError(f"{term}: {error}") from None


def _as_expression(term: Term) -> Expression:
    """A term over byte strings as a plain condition."""
    arms: list[Expression] = []
    for arm in term.arms:
        conditions: list[Expression] = []
        for condition in arm:
            if not isinstance(condition, Compare) or condition.left_shift or condition.right_shift:
                raise SchemaError(
                    f"{term}: strings and binary values cannot be added or subtracted"
                )
            conditions.append(Call(condition.op, (term.left, term.right)))
        arms.append(reduce(lambda a, b: a & b, conditions))
    return reduce(lambda a, b: a | b, arms)


def check_columns(predicate: Predicate, window: Window, side: Side, schema: pa.Schema) -> None:
    """Every column that predicate and window read must exist."""
    for name in predicate.columns(side):
        if name not in schema.names:
            start = predicate.text.find(f"{side.alias}.{name}")
            raise PredicateError(
                f"the {side.value} side has no column {name!r}; it has "
                f"{', '.join(schema.names)}.{suggest(name, schema.names)}",
                predicate.text,
                start,
                start + len(name) + 2,
            )
    columns = window.time if isinstance(window, TimeWindow) else window.order
    if columns is not None and columns[side.position] not in schema.names:
        name = columns[side.position]
        what = "time" if isinstance(window, TimeWindow) else "order"
        raise SchemaError(
            f"the {what} column {name!r} of the window is missing on the {side.value} side, which "
            f"has {', '.join(schema.names)}.{suggest(name, schema.names)}"
        )


def _bind_time(
    window: Window, schemas: Mapping[Side, pa.Schema], back: bool
) -> tuple[BoundTime | None, Domain, dict[Side, str]]:
    if isinstance(window, CountWindow):
        return None, Domain(Kind.INTEGER), {}
    names = {side: window.time[side.position] for side in Side}
    kinds = {side: value_type(schemas[side].field(names[side]).type) for side in Side}
    for side in Side:
        check_time_type(window, kinds[side], f"{side.alias}.{names[side]}")
    domain = common_domain(kinds[Side.LEFT], kinds[Side.RIGHT], f"event time {window.time}")
    if domain.kind is Kind.DATE:
        domain = Domain(Kind.DATE, tick=tick(pa.date32()))
    bound = window.bind(domain.tick if domain.kind.is_temporal else None, back=back)
    return bound, domain, names


def check_time_type(window: TimeWindow, kind: pa.DataType, what: str) -> None:
    """SchemaError for a column that cannot be the event time of a window."""
    found = kind_of(kind)
    if found in (Kind.DATE, Kind.NAIVE, Kind.ZONED):
        if not window.in_durations:
            raise SchemaError(
                f"event time {what} is of type {kind}: give the window as a duration such as "
                f"'10 minutes', not as the number {window.sizes[0]}"
            )
    elif found is Kind.INTEGER:
        if window.in_durations:
            raise SchemaError(
                f"event time {what} is of type {kind}: give the window as a whole number in the "
                f"column's unit, or cast the column to a timestamp; got {window.sizes[0]}"
            )
    else:
        raise SchemaError(
            f"event time {what} is of type {kind}; it must be a timestamp, a date or an integer"
        )
