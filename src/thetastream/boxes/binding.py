"""A predicate and a window bound to two schemas: the keys of rows, and the boxes they ask for.

``bind`` checks columns and types once. A ``Binding`` then turns batches into keys and knows the
fields of both sides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.field import BoundTerm, Field
from thetastream.boxes.keys import Keys
from thetastream.boxes.spans import Span, spans_of
from thetastream.condition.custom import Custom
from thetastream.condition.expression import Call, Column, Expression, Function
from thetastream.condition.predicate import Predicate
from thetastream.condition.sql import parse
from thetastream.condition.term import Compare, Relative, StartsWith, Term
from thetastream.data.batch import to_keys
from thetastream.data.byte_columns import Place, pair_mask
from thetastream.data.evaluate import evaluate, true_mask, type_of
from thetastream.data.kernels.floats import NAN_KEY
from thetastream.errors import PredicateError, SchemaError, suggest
from thetastream.schema import NUMERIC, Domain, KeyKind, common_domain, kind_of, tick, value_type
from thetastream.side import Side
from thetastream.window import BoundTime, EventTime, Window

_LARGEST = Fraction(sys.float_info.max)
_DIGITS = 18  # of a decimal that fits a key
_LOWER = (Function.GE, Function.GT)
_UPPER = (Function.LE, Function.LT)


@dataclass(frozen=True, eq=False)
class Binding:
    """Everything that follows from predicate, window and schemas.

    ``bound`` is a window over event time in key units; ``time`` is the same if event time is a
    field of its own, else None. Both are None for other windows. ``spans`` bound fields of a stored
    side by one another, see ``spanned``.
    """

    predicate: Predicate
    schemas: Mapping[Side, pa.Schema]
    terms: tuple[BoundTerm, ...]
    residuals: tuple[Expression, ...]
    bound: Any
    time: BoundTime | None
    time_domain: Domain
    time_columns: Mapping[Side, str]
    spans: Mapping[Side, Mapping[tuple[int, int], Span]] = dataclass_field(default_factory=dict)

    @cached_property
    def _compared(self) -> dict[Side, list[tuple[Expression, Domain, str, int]]]:
        """The compared expressions of each side, with their domains and names in messages.

        The number is that of the first term with the same expression and domain.
        """
        compared: dict[Side, list[tuple[Expression, Domain, str, int]]] = {}
        for side in Side:
            first: dict[object, int] = {}
            compared[side] = [
                (node, b.domain, b.names[side], first.setdefault((node.key(), b.domain), at))
                for at, b in enumerate(self.terms)
                for node in (b.term.expression(side),)
            ]
        return compared

    @cached_property
    def _filters(self) -> dict[Side, tuple[Expression, ...]]:
        return {side: tuple(self.predicate.filters(side)) for side in Side}

    def fields(self, stored: Side) -> tuple[Field, ...]:
        """The key columns that an index of the side stores."""
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
        spans = self.spans.get(stored, {}).items()
        return tuple(
            replace(field, implied=tuple((fields[b], span) for (a, b), span in spans if a == at))
            for at, field in enumerate(fields)
        )

    def spanned(self, stored: Side, rows: Keys) -> Binding:
        """The same, with boxes bounded by the spans of the rows, which are all that is stored."""
        plain = replace(self, spans={})
        return replace(self, spans={stored: spans_of(plain.fields(stored), rows)})

    def keys(self, side: Side, batch: pa.RecordBatch) -> Keys:
        """Compute the keys and times of arriving rows. Raises before anything is stored."""
        rows = batch.num_rows

        def lookup(column: Column) -> pa.Array:
            return batch.column(column.name)

        keys: list[Array] = []
        masks: list[Mask] = []
        for at, (node, domain, name, first) in enumerate(self._compared[side]):
            if first < at:
                keys.append(keys[first])
                continue
            if isinstance(node, Column):
                values = lookup(node)
            else:
                values = evaluate(node, lookup, rows)
            own, valid = to_keys(values, domain, name)
            keys.append(own)
            if valid is not None:
                masks.append(valid)
        null_keys = rows - int(np.count_nonzero(reduce(np.logical_and, masks))) if masks else 0
        nan_keys = self._count_nan(keys, masks)
        times, timed = self.times(side, batch)
        if timed is not None:
            masks.append(timed)
        masks += [true_mask(condition, lookup, rows) for condition in self._filters[side]]
        valid = reduce(np.logical_and, masks) if masks else None
        empty = self._count_empty(side, lookup, rows)
        return Keys(side, keys, times, rows, valid, timed, null_keys, nan_keys, empty)

    def _count_empty(self, side: Side, lookup: Callable[[Column], pa.Array], rows: int) -> int:
        """How many rows have an interval that ends before it begins."""
        empty = np.zeros(rows, np.bool_)
        for start, end in self._spans[side]:
            empty |= true_mask(Call(Function.GT, (start, end)), lookup, rows)
        return int(np.count_nonzero(empty))

    @cached_property
    def _spans(self) -> dict[Side, list[tuple[Expression, Expression]]]:
        """Starts and ends of intervals: those of ``overlaps`` and of ``contains``."""
        return {side: [*self._ordered(side), *self._containing(side)] for side in Side}

    def _ordered(self, side: Side) -> Iterator[tuple[Expression, Expression]]:
        """What filters demand to be in order, as ``overlaps`` does."""
        for node in self._filters[side]:
            if isinstance(node, Call) and node.function is Function.LE:
                start, end = node.args
                if start.sides() and end.sides():
                    yield start, end

    def _containing(self, side: Side) -> Iterator[tuple[Expression, Expression]]:
        """Two expressions of one type between which a value of the other side has to lie."""
        bounds: dict[bool, list[tuple[Expression, Expression]]] = {True: [], False: []}
        for bound in self.terms:
            condition = bound.term.arms[0][0]
            if bound.term.arms == ((condition,),) and isinstance(condition, Compare):
                op = condition.op if side is Side.LEFT else condition.op.flip()
                if not condition.constants and op in _LOWER + _UPPER:
                    ends = bound.term.expression(side), bound.term.expression(side.other)
                    bounds[op in _UPPER].append(ends)
        for (start, value), (end, other) in product(bounds[True], bounds[False]):
            if value.same(other) and self._type(start) == self._type(end):
                yield start, end

    def _type(self, node: Expression) -> pa.DataType:
        """The type of an expression."""
        return type_of(node, lambda column: value_type(_field(self.schemas, column).type))

    def _count_nan(self, keys: list[Array], masks: list[Mask]) -> int:
        nan = [
            key == NAN_KEY
            for key, bound in zip(keys, self.terms, strict=True)
            if bound.domain.kind is KeyKind.FLOAT
        ]
        if not nan:
            return 0
        return int(np.count_nonzero(reduce(np.logical_and, [reduce(np.logical_or, nan), *masks])))

    def times(self, side: Side, batch: pa.RecordBatch) -> tuple[Array | None, Mask | None]:
        """Event times of rows (None if unused), and which rows have one (None if all have)."""
        if not self.time_columns:
            return None, None
        name = self.time_columns[side]
        return to_keys(batch.column(name), self.time_domain, f"{side.alias}.{name}")

    def in_order(self, side: Side) -> Iterator[str]:
        """The side's columns of strings that are found by their first bytes."""
        for bound in self.terms:
            node = bound.term.expression(side)
            if bound.domain.kind is KeyKind.PREFIX and isinstance(node, Column):
                yield node.name

    def residual_mask(
        self,
        lookup: Callable[[Column], pa.Array],
        length: int,
        find: Callable[[Column], Place | None],
    ) -> NDArray[np.bool_] | None:
        """Which candidate pairs pass all residuals; None without residuals.

        ``find`` returns columns of strings or binary, which are compared without gathering them.
        """
        masks = []
        for node in self.residuals:
            mask = pair_mask(node, find)
            masks.append(true_mask(node, lookup, length) if mask is None else mask)
        return reduce(np.logical_and, masks) if masks else None


def bind(
    predicate: Predicate,
    window: Window | None,
    schemas: Mapping[Side, pa.Schema],
    *,
    back: bool = False,
    by_value: Collection[str] = (),
    text_in_order: bool = True,
) -> Binding:
    """Check columns and types, and determine the domain of every term.

    ``back``: in a time window, left rows meet only right rows that are not later. Terms on the
    right columns ``by_value`` become residuals: their values do not fit into keys. Without
    ``text_in_order``, so do terms on the order of strings, and residuals imply no terms.
    """
    for side in Side:
        check_columns(predicate, window, side, schemas[side])

    def types(column: Column) -> pa.DataType:
        return value_type(_field(schemas, column).type)

    terms: list[BoundTerm] = []
    residuals = [
        node.over(schemas[Side.LEFT].names, schemas[Side.RIGHT].names)
        if isinstance(node, Custom)
        else node
        for node in predicate.residuals
    ]
    for term in predicate.terms:
        if term.is_implied and not (text_in_order and _has_types(term, types)):
            continue
        kinds = [type_of(term.expression(side), types) for side in Side]
        domain = common_domain(kinds[0], kinds[1], str(term))
        if isinstance(term.right, Column) and term.right.name in by_value:
            residuals.append(parse(str(term)))
            continue
        if domain.kind is KeyKind.BYTES:
            if not term.is_implied:
                residuals.append(as_expression(term))
            if not term.is_equality:
                if not text_in_order or not _is_bounded(term):
                    continue
                domain = Domain(KeyKind.PREFIX)
        elif term.has_prefixes:
            raise SchemaError(f"{term}: expected strings or binary, got {kinds[0]} and {kinds[1]}")
        _check_constants(term, domain)
        terms.append(BoundTerm(term, domain))
    for node in [*residuals, *(f for side in Side for f in predicate.filters(side))]:
        if isinstance(node, Custom):
            continue
        true_mask(node, lambda column: pa.nulls(0, types(column)), 0)
    bound, time_domain, names = _bind_time(window, schemas, back)
    time = bound if window is not None and window.boxed else None
    facts = (predicate, dict(schemas), tuple(terms), tuple(residuals))
    return Binding(*facts, bound, time, time_domain, names)


def _has_types(term: Term, types: Callable[[Column], pa.DataType]) -> bool:
    """Whether an implied term can be computed; what implies it also takes other types."""
    try:
        kinds = [type_of(term.expression(side), types) for side in Side]
        domain = common_domain(kinds[0], kinds[1], str(term))
    except SchemaError:
        return False
    wide = any(pat.is_decimal(kind) and kind.precision > _DIGITS for kind in kinds)
    return not (wide and domain.kind is KeyKind.FLOAT)


def _field(schemas: Mapping[Side, pa.Schema], column: Column) -> pa.Field:
    return schemas[column.side].field(column.name)


def _check_constants(term: Term, domain: Domain) -> None:
    """Check that constants fit the domain: intervals for times, otherwise numbers."""
    for arm in term.arms:
        for condition in arm:
            if isinstance(condition, Relative) and domain.kind not in NUMERIC:
                raise SchemaError(f"{term}: a share of {domain.kind.value} values has no meaning")
            try:
                for value in condition.constants:
                    number = domain.constant(value)
                    if domain.kind is KeyKind.FLOAT and abs(number) > _LARGEST:
                        raise SchemaError("a constant is beyond the largest 64-bit float")
            except SchemaError as error:
                raise SchemaError(f"{term}: {error}") from None


def _is_bounded(term: Term) -> bool:
    """Whether a term over byte strings asks for less than everything: <> alone does not."""
    return all(
        any(not isinstance(c, Compare) or c.op is not Function.NE for c in arm) for arm in term.arms
    )


def as_expression(term: Term) -> Expression:
    """A term over byte strings as a plain condition."""
    arms: list[Expression] = []
    for arm in term.arms:
        conditions: list[Expression] = []
        for condition in arm:
            if isinstance(condition, StartsWith):
                conditions.append(condition.call(term.left, term.right))
                continue
            if not isinstance(condition, Compare) or condition.left_shift or condition.right_shift:
                raise SchemaError(
                    f"{term}: strings and binary values cannot be added or subtracted"
                )
            conditions.append(Call(condition.op, (term.left, term.right)))
        arms.append(reduce(lambda a, b: a & b, conditions))
    return reduce(lambda a, b: a | b, arms)


def check_columns(
    predicate: Predicate, window: Window | None, side: Side, schema: pa.Schema
) -> None:
    """Check that every column of predicate and window exists."""
    for name in predicate.columns(side):
        if name not in schema.names:
            start = predicate.text.find(f"{side.alias}.{name}")
            raise PredicateError(
                f"the {side.value} side has no column {name!r}; it has "
                f"{', '.join(schema.names) or 'no columns'}.{suggest(name, schema.names)}",
                predicate.text,
                start,
                start + len(name) + 2,
            )
    for what, name in () if window is None else window.columns(side).items():
        if name not in schema.names:
            raise SchemaError(
                f"the {what} column {name!r} of the window is missing on the {side.value} side, "
                f"which has {', '.join(schema.names)}.{suggest(name, schema.names)}"
            )


def refuse_untyped(
    predicate: Predicate, window: Window | None, side: Side, schema: pa.Schema
) -> None:
    """SchemaError for a column of type null that is compared; as payload it is welcome."""
    read = [] if window is None else window.columns(side).values()
    for name in (*predicate.expression.columns(side), *read):
        if pat.is_null(schema.field(name).type):
            raise SchemaError(
                f"column {name!r} of the {side.value} side has type null, and the join compares "
                "it; cast it to the type it will have later"
            )


def _bind_time(
    window: Window | None, schemas: Mapping[Side, pa.Schema], back: bool
) -> tuple[Any, Domain, dict[Side, str]]:
    """The window in key units, the domain of its times, and their columns."""
    if window is None or not window.timed:
        return None, Domain(KeyKind.INTEGER), {}
    clock = cast("EventTime", window)
    names = {side: clock.time[side.position] for side in Side}
    kinds = {side: value_type(schemas[side].field(names[side]).type) for side in Side}
    for side in Side:
        check_time_type(clock, kinds[side], f"{side.alias}.{names[side]}")
    domain = common_domain(kinds[Side.LEFT], kinds[Side.RIGHT], f"event time {clock.time}")
    if domain.kind is KeyKind.DATE:
        domain = Domain(KeyKind.DATE, tick=tick(pa.date32()))
    return clock.bind(domain.tick if domain.kind.is_temporal else None, back=back), domain, names


def check_time_type(window: EventTime, kind: pa.DataType, what: str) -> None:
    """Raise SchemaError for a column that cannot be the event time of a window."""
    family = kind_of(kind)
    temporal = family in (KeyKind.DATE, KeyKind.NAIVE, KeyKind.ZONED)
    if not temporal and family is not KeyKind.INTEGER:
        raise SchemaError(
            f"event time {what} is of type {kind}; it must be a timestamp, a date or an integer"
        )
    if temporal and not window.in_durations:
        raise SchemaError(
            f"event time {what} is of type {kind}: write the window as a duration such as "
            f"'10 minutes', not as the number {window.length}"
        )
    if not temporal and window.in_durations:
        raise SchemaError(
            f"event time {what} is of type {kind}: write the window as a whole number in the "
            f"column's unit, or cast the column to a timestamp; got {window.length}"
        )
