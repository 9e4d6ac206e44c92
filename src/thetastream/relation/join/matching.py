"""The predicate of a join with a relation: boxes of keys, and further checks of candidates.

A predicate is bound to the schemas of stream and relation as for two streams. The terms on the
relation's key become boxes; every stream row has the same number of them (``pieces``: one for
equality and bands, two for ``!=``), some of which may be empty. Other terms, residuals and
conditions on the relation alone are checked on the pairs that the boxes admit.

Boxes are computed once, when rows are looked up. On arrival rows are only validated, and only if
a value might not be a key: a sum that overflows, a timestamp beyond the common unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from thetastream._jit.arrays import LEAST, MOST, Array, Mask
from thetastream.boxes.binding import Binding, bind, check_columns
from thetastream.boxes.box import Pieces
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.condition.expression import Call, Column, Expression, Function
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import to_keys
from thetastream.data.evaluate import evaluate, true_mask, type_of
from thetastream.errors import (
    DataError,
    OptionError,
    PredicateError,
    RelationError,
    SchemaError,
)
from thetastream.relation.files.refusals import count_lengths
from thetastream.relation.image.asking import Asking
from thetastream.relation.image.coding import is_wide
from thetastream.relation.image.domains import stored_interval
from thetastream.relation.image.key import KeyColumns
from thetastream.relation.image.layout import LeafLayout
from thetastream.relation.image.open_ends import admits, opened
from thetastream.schema import Domain, KeyKind, common_domain, kind_of, tick, value_type
from thetastream.shape import OutputShape
from thetastream.side import How, Side

Take = Callable[[str], pa.Array]
# Kinds whose values are always keys of their own domain.
_ALL_FIT = (KeyKind.INTEGER, KeyKind.UNSIGNED, KeyKind.BOOLEAN, KeyKind.BYTES)
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RelationBoxes:
    """Boxes ``row × pieces + piece`` of some stream rows; ``least``/``most`` bound upper ends.

    For a point ``highs`` is ``lows``; without intervals ``least`` and ``most`` are empty.
    """

    lows: Array
    highs: Array
    least: Array
    most: Array
    pieces: int
    null_keys: int = 0
    nan_keys: int = 0

    def take(self, places: Array) -> RelationBoxes:
        """Some of the boxes."""
        lows = self.lows[places]
        return RelationBoxes(
            lows,
            lows if self.highs is self.lows else self.highs[places],
            self.least[places] if self.least.size else _NONE,
            self.most[places] if self.most.size else _NONE,
            self.pieces,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        highs = 0 if self.highs is self.lows else self.highs.nbytes
        return self.lows.nbytes + highs + self.least.nbytes + self.most.nbytes


class Matching:
    """A predicate between a stream and a relation, and the columns of the answer."""

    def __init__(
        self,
        on: str | Predicate | Expression,
        stream: pa.Schema,
        layout: LeafLayout,
        how: str | How,
        suffix: str,
        columns: Sequence[str] | None,
        end_bytes: int | None = None,
    ) -> None:
        """``end_bytes``: the length of the ends of intervals, if they are binary of one length."""
        self.how = read_mode(how)
        self.layout = layout
        self._end_bytes = end_bytes
        self.stream = stream
        self.predicate = Predicate.of(on)
        check_against(self.predicate, layout)
        schemas = {Side.LEFT: stream, Side.RIGHT: layout.schema}
        wide = {field.name for field in layout.schema if is_wide(value_type(field.type))}
        self.binding: Binding = bind(
            self.predicate, None, schemas, by_value=wide, text_in_order=False
        )
        self._refuse_lengths()
        self._asking, self._asking_high = self._questions()
        self._key, self._high, self._others = self._fields()
        shape = OutputShape.of(stream, layout.schema, self.how, suffix, columns)
        self.schema, self.origin = shape.schema, shape.origin

    def follow(self, layout: LeafLayout, end_bytes: int | None = None) -> None:
        """Ask a relation that has been built again; RelationError if its form has changed."""
        before = self.layout
        coded = [[c is not None for c in each.codings] for each in (before, layout)]
        same = layout.schema.equals(before.schema) and layout.columns == before.columns
        if not same or coded[0] != coded[1] or layout.block_bytes != before.block_bytes:
            raise RelationError(
                "the relation has been built again with other columns, another key or other "
                "blocks; make a new RelationJoin"
            )
        self.layout, self._end_bytes = layout, end_bytes
        self._asking, self._asking_high = self._questions()

    def _refuse_lengths(self) -> None:
        """SchemaError for binary of one length compared with a key of another one."""

        def type_at(column: Column) -> pa.DataType:
            schema = self.stream if column.side is Side.LEFT else self.layout.schema
            return value_type(schema.field(column.name).type)

        for term in self.predicate.terms:
            if not isinstance(term.right, Column) or term.right.name not in self.layout.key:
                continue
            kinds = [type_of(term.expression(side), type_at) for side in Side]
            widths = {kind.byte_width for kind in kinds if pat.is_fixed_size_binary(kind)}
            if len(widths) > 1:
                raise SchemaError(
                    f"{term}: {kinds[0]} and {kinds[1]} have different lengths, such as IPv4 and "
                    "IPv6 addresses; compare values of one length"
                )

    def _questions(self) -> tuple[Asking | None, Asking | None]:
        """What the predicate asks of keys that are codes; None: of other keys, or nothing."""
        fields, opens = self.binding.fields(Side.RIGHT), bool(self.layout.columns.open_ends)
        askings: list[Asking | None] = []
        for upper, coding in enumerate(self.layout.codings):
            asking = None
            if coding is not None:
                asking = Asking(coding, self.predicate, fields, opens=opens, upper=bool(upper))
            askings.append(asking if asking is not None and asking.is_bounded else None)
        return askings[0], askings[1]

    def _fields(self) -> tuple[Field | None, Field | None, list[Field]]:
        keyed: list[Field | None] = [None, None]
        others: list[Field] = []
        key, codings = self.layout.columns, self.layout.codings
        for field in self.binding.fields(Side.RIGHT):
            node = field.terms[0].term.right
            name = node.name if isinstance(node, Column) else None
            at = key.ordered.index(name) if name in key.ordered else -1
            if at >= 0 and keyed[at] is None and codings[at] is None:
                keyed[at] = field
            elif field.domain.kind is not KeyKind.BYTES:  # residuals compare strings
                others.append(field)
        if keyed == [None, None] and self._asking is None and self._asking_high is None:
            raise _without_key(self.predicate, self.layout.columns)
        return keyed[0], keyed[1], others

    @property
    def ranged(self) -> bool:
        """Whether the predicate bounds upper ends of intervals."""
        return self._high is not None or self._asking_high is not None

    @cached_property
    def is_point(self) -> bool:
        """Whether a stream row asks for one key."""
        if self._asking is not None:
            return self._asking.is_point and not self.ranged
        return self._key is not None and self._key.is_point and not self.ranged

    @cached_property
    def key_column(self) -> str | None:
        """The stream column whose 64-bit values are the keys asked for, if there is one."""
        if not self.is_point or self._key is None:
            return None
        bound = self._key.terms[0]
        node = bound.term.left
        if not isinstance(node, Column) or not bound.term.is_equality:
            return None
        kind = self.stream.field(node.name).type
        same = common_domain(kind, kind, node.name) == bound.domain == self.layout.domain
        plain = pat.is_int64(kind) or (bound.domain.kind.is_temporal and kind.bit_width == 64)
        stored = node.name in self.held_columns()
        return node.name if same and plain and stored and not pat.is_date64(kind) else None

    # --- Boxes ----------------------------------------------------------------------------------

    @cached_property
    def _takes_any_row(self) -> bool:
        """Whether every value of the stream is certainly a key."""
        fits = all(
            isinstance(bound.term.left, Column)
            and always_fits(self.stream.field(bound.term.left.name).type, bound.domain)
            for bound in self.binding.terms
        )
        return fits and not self.predicate.filters(Side.LEFT)

    def verify(self, batch: pa.RecordBatch) -> None:
        """DataError if a value is not a key. O(1) if the types of the columns rule that out."""
        if not self._takes_any_row:
            self.binding.keys(Side.LEFT, batch)
        if self._end_bytes is not None:
            self._refuse_other_lengths(batch, self._end_bytes)

    def _refuse_other_lengths(self, batch: pa.RecordBatch, end_bytes: int) -> None:
        """DataError for values that are longer or shorter than the ends of intervals."""
        for term in self.predicate.terms:
            if not isinstance(term.right, Column) or term.right.name not in self.layout.key:
                continue
            values = evaluate(term.left, lambda column: batch.column(column.name), batch.num_rows)
            lengths = count_lengths(values)
            del lengths[end_bytes]
            if lengths:
                shown = ", ".join(f"{lengths[own]:,} of {own} bytes" for own in sorted(lengths))
                raise DataError(
                    f"{term}: the ends of intervals have {end_bytes} bytes, but values of the "
                    f"stream have others: {shown}, such as IPv4 and IPv6 addresses; join each "
                    "kind with a relation of its own"
                )

    def boxes(self, batch: pa.RecordBatch) -> RelationBoxes:
        """The boxes of stream rows; DataError if a value is not a key. O(rows)."""
        fresh = self.binding.keys(Side.LEFT, batch)
        if self._asking is not None:
            lows = [self._asking.codes(fresh, batch)]
        elif self._key is None:
            lows = [(np.full(batch.num_rows, LEAST), np.full(batch.num_rows, MOST))]
        else:
            lows = self._ends(self._key, _stored(self._key, fresh, self.layout.domain), False)
        ends: Pieces = []
        if self._asking_high is not None:
            ends = [self._asking_high.codes(fresh, batch)]
        elif self._high is not None and self.layout.high_domain is not None:
            ends = self._ends(self._high, _stored(self._high, fresh, self.layout.high_domain), True)
        pairs = list(product(lows, ends)) if ends else [(piece, None) for piece in lows]
        pieces = len(pairs)
        low = _laid([piece[0] for piece, _ in pairs])
        point = pieces == 1 and pairs[0][0][0] is pairs[0][0][1]
        high = low if point else _laid([piece[1] for piece, _ in pairs])
        least = most = _NONE
        if ends:
            least = _laid([end[0] for _, end in pairs if end is not None])
            most = _laid([end[1] for _, end in pairs if end is not None])
        if fresh.valid is not None:
            gone = np.repeat(~fresh.valid, pieces)
            if point:
                high = low.copy()
            low[gone], high[gone] = 1, 0
        return RelationBoxes(low, high, least, most, pieces, fresh.null_keys, fresh.nan_keys)

    def _ends(self, field: Field, pieces: Pieces, upper: bool) -> Pieces:
        """Intervals of keys of one end; an open end lies in those whose conditions admit it."""
        if not self.layout.columns.open_ends:
            return pieces
        return opened(pieces, all(admits(b.term, upper) for b in field.terms), upper)

    # --- Candidates -----------------------------------------------------------------------------

    @cached_property
    def is_settled(self) -> bool:
        """Whether the boxes alone decide."""
        binding = self.binding
        if any(coding is not None for coding in self.layout.codings):
            return False
        return not (self._others or binding.residuals or self.predicate.filters(Side.RIGHT))

    @cached_property
    def _nodes(self) -> list[Expression]:
        """The expressions evaluated on candidates."""
        nodes = [*self.binding.residuals, *self.predicate.filters(Side.RIGHT)]
        for field in self._others:
            for bound in field.terms:
                nodes += [bound.term.left, bound.term.right]
        return nodes

    def held_columns(self) -> list[str]:
        """Columns of the stream needed while a row waits: for the answer, and to check pairs."""
        output = [name for side, name in self.origin if side is Side.LEFT]
        checked = [name for node in self._nodes for name in node.columns(Side.LEFT)]
        return list(dict.fromkeys(output + checked))

    def check(self, left: Take, right: Take, count: int) -> Mask:
        """Which candidate pairs match; ``left`` and ``right`` return columns of the pairs."""

        def lookup(column: Column) -> pa.Array:
            return (left if column.side is Side.LEFT else right)(column.name)

        masks = [self._inside(field, lookup, count) for field in self._others]
        for node in [*self.binding.residuals, *self.predicate.filters(Side.RIGHT)]:
            masks.append(true_mask(node, lookup, count))
        return reduce(np.logical_and, masks, np.ones(count, np.bool_))

    def _inside(self, field: Field, lookup: Callable[[Column], pa.Array], count: int) -> Mask:
        """The pairs that a field other than the key admits."""
        bound = field.terms[0]
        values = evaluate(bound.term.right, lookup, count)
        stored, valid = to_keys(values, bound.domain, bound.names[Side.RIGHT])
        masks: list[Mask] = [np.ones(count, np.bool_) if valid is None else valid]
        for bound in field.terms:
            values = evaluate(bound.term.left, lookup, count)
            keys, _ = to_keys(values, bound.domain, bound.names[Side.LEFT])
            pieces = bound.intervals(Side.LEFT, keys)
            held = [(low <= stored) & (stored <= high) for low, high in pieces]
            masks.append(reduce(np.logical_or, held, np.zeros(count, np.bool_)))
        inside: Mask = reduce(np.logical_and, masks)
        node, key = field.terms[0].term.right, self.layout.columns
        if valid is not None and key.open_ends and isinstance(node, Column):
            if node.name == key.ordered[0]:
                inside[~valid] = all(admits(bound.term, False) for bound in field.terms)
            elif node.name == key.ordered[1]:
                inside[~valid] = all(admits(bound.term, True) for bound in field.terms)
        return inside


def check_against(predicate: Predicate, layout: LeafLayout) -> None:
    """Raise an error that needs no stream: for columns of the relation, and for its key."""
    check_columns(predicate, None, Side.RIGHT, layout.schema)
    key = layout.columns
    for node in _asked_for_null(predicate.expression):
        if node.side is not Side.RIGHT or node.name not in key.names:
            continue
        if key.open_ends and node.name in key.ordered:
            continue
        keep = "; build it with open_ends=True to keep them" if key.is_interval else ""
        raise PredicateError(
            f"r.{node.name} IS NULL holds for no row: rows without a key are left out of a "
            f"relation{keep}",
            predicate.text,
        )
    if key.open_ends:
        for term in predicate.terms:
            if isinstance(term.right, Column) and term.right.name in key.ordered:
                admits(term, term.right.name == key.ordered[1])
    first = key.equal[:1] or key.ordered
    terms = [
        (term, term.right.name)
        for term in predicate.terms
        if isinstance(term.right, Column) and not term.is_prefix
    ]
    coding = layout.codings[0]
    if coding is None:
        unordered = layout.domain.kind is KeyKind.BYTES
    else:
        unordered = coding.parts[0].hashed
    if not any(name in first and (term.is_equality or not unordered) for term, name in terms):
        raise _without_key(predicate, key)


def _without_key(predicate: Predicate, key: KeyColumns) -> PredicateError:
    names = " or ".join(f"r.{name}" for name in key.equal[:1] or key.ordered)
    return PredicateError(
        f"the relation is sorted by {key}: the predicate must compare {names} itself with the "
        "stream (strings in front of others by equality). Add such a condition, or build the "
        "relation with another key",
        predicate.text,
    )


def _asked_for_null(node: Expression) -> Iterator[Column]:
    """The columns that a condition asks to be NULL, except below NOT."""
    if not isinstance(node, Call) or node.function is Function.NOT:
        return
    if node.function is Function.IS_NULL and isinstance(node.args[0], Column):
        yield node.args[0]
    for part in node.args:
        yield from _asked_for_null(part)


def read_mode(how: str | How) -> How:
    """Read the mode of a join with a relation; OptionError for right and full joins."""
    mode = How.of(how)
    if mode in (How.RIGHT, How.FULL):
        raise OptionError(
            f"how={mode.value!r} would return rows of the relation that match nothing, but a "
            "stream never ends, so none is ever known to; use inner, left, semi or anti"
        )
    return mode


def always_fits(kind: pa.DataType, domain: Domain) -> bool:
    """Whether every value of a type is a key of a domain.

    >>> [always_fits(kind, Domain(Kind.INTEGER)) for kind in (pa.int32(), pa.uint64())]
    [True, False]
    """
    kind = value_type(kind)
    family = kind_of(kind)
    if domain.kind.is_temporal:
        return tick(kind) == domain.tick and not pat.is_date64(kind)
    if domain.kind is KeyKind.FLOAT:
        return family is not KeyKind.DECIMAL
    return family is domain.kind and family in _ALL_FIT


def _stored(field: Field, fresh: Keys, domain: Domain) -> Pieces:
    """What fresh rows ask of a field, as intervals of stored keys of a domain."""
    intervals = []
    for low, high in field.pieces(fresh):
        moved = stored_interval(domain, field.domain, low, high)
        if field.is_point and len(moved[0]) and np.array_equal(*moved):
            moved = moved[0], moved[0]
        intervals.append(moved)
    return intervals


def _laid(parts: list[Array]) -> Array:
    """A new array in which the pieces of a row are adjacent."""
    if len(parts) == 1:
        return np.array(parts[0], np.int64)
    return np.ascontiguousarray(np.stack(parts, axis=1).ravel(), np.int64)
