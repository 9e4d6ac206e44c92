"""The predicate of a join with a relation: boxes of keys, and further checks of candidates.

A predicate is bound to the schemas of stream and relation as for two streams. The terms on the
relation's key become boxes; every stream row has the same number of them (``pieces``: one for
equality and bands, two for ``!=``), some of which may be empty. Other terms, residuals and
conditions on the relation alone are checked on the pairs that the boxes admit.

Boxes are computed once, when rows are looked up. On arrival rows are only validated, and only if
a value might not be a key: a sum that overflows, a timestamp beyond the common unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from thetastream._jit.arrays import LEAST, MOST, Array, Mask
from thetastream.boxes.binding import Binding, bind
from thetastream.boxes.box import Pieces
from thetastream.boxes.field import Field
from thetastream.condition.expression import Column, Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import to_keys
from thetastream.data.evaluate import evaluate, true_mask
from thetastream.errors import OptionError, PredicateError
from thetastream.relation.image.domains import stored_interval
from thetastream.relation.image.layout import LeafLayout
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
    ) -> None:
        self.how = read_mode(how)
        self.layout = layout
        self.predicate = Predicate.of(on)
        self.binding: Binding = bind(
            self.predicate, None, {Side.LEFT: stream, Side.RIGHT: layout.schema}
        )
        self._key, self._high, self._others = self._fields()
        shape = OutputShape.of(stream, layout.schema, self.how, suffix, columns)
        self.schema, self.origin = shape.schema, shape.origin
        self.stream = stream

    def _fields(self) -> tuple[Field | None, Field | None, list[Field]]:
        keyed: list[Field | None] = [None, None]
        others: list[Field] = []
        for field in self.binding.fields(Side.RIGHT):
            node = field.terms[0].term.right
            name = node.name if isinstance(node, Column) else None
            at = self.layout.key.index(name) if name in self.layout.key else -1
            if at >= 0 and keyed[at] is None:
                keyed[at] = field
            else:
                others.append(field)
        if keyed == [None, None]:
            names = " or ".join(f"r.{name}" for name in self.layout.key)
            raise PredicateError(
                f"the relation is sorted by {', '.join(self.layout.key)}: the predicate must "
                f"compare {names} itself with the stream (strings by equality only). Add such a "
                "condition, or build the relation with another key",
                self.predicate.text,
            )
        return keyed[0], keyed[1], others

    @property
    def ranged(self) -> bool:
        """Whether the predicate bounds upper ends of intervals."""
        return self._high is not None

    @cached_property
    def is_point(self) -> bool:
        """Whether a stream row asks for one key."""
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

    def boxes(self, batch: pa.RecordBatch) -> RelationBoxes:
        """The boxes of stream rows; DataError if a value is not a key. O(rows)."""
        fresh = self.binding.keys(Side.LEFT, batch)
        if self._key is None:
            lows = [(np.full(batch.num_rows, LEAST), np.full(batch.num_rows, MOST))]
        else:
            lows = _stored(self._key, self._key.pieces(fresh), self.layout.domain)
        ends: Pieces = []
        if self._high is not None and self.layout.high_domain is not None:
            ends = _stored(self._high, self._high.pieces(fresh), self.layout.high_domain)
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

    # --- Candidates -----------------------------------------------------------------------------

    @cached_property
    def is_settled(self) -> bool:
        """Whether the boxes alone decide."""
        binding = self.binding
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
        return reduce(np.logical_and, masks)

    def _inside(self, field: Field, lookup: Callable[[Column], pa.Array], count: int) -> Mask:
        """The pairs that a field other than the key admits."""
        bound = field.terms[0]
        values = evaluate(bound.term.right, lookup, count)
        stored, valid = to_keys(values, bound.domain, bound.names[Side.RIGHT])
        masks = [] if valid is None else [valid]
        for bound in field.terms:
            values = evaluate(bound.term.left, lookup, count)
            keys, _ = to_keys(values, bound.domain, bound.names[Side.LEFT])
            pieces = bound.intervals(Side.LEFT, keys)
            inside = [(low <= stored) & (stored <= high) for low, high in pieces]
            masks.append(reduce(np.logical_or, inside, np.zeros(count, np.bool_)))
        return reduce(np.logical_and, masks)


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


def _stored(field: Field, pieces: Pieces, domain: Domain) -> Pieces:
    """Pieces of a field as intervals of stored keys of a domain."""
    intervals = []
    for low, high in pieces:
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
