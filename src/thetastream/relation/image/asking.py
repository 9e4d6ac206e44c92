"""What stream rows ask of coded keys: one interval of codes per row, which may hold too much.

The columns of the key are looked at in order. As long as the predicate compares them by equality,
they fix words of the key; the first other condition bounds a range, and what follows is free::

    key (region, shop, (day))      l.region = r.region AND l.shop < r.shop
    low    hash(l.region)   least      least
    high   hash(l.region)   l.shop     greatest

Codes may agree for different keys, so conditions are checked again on the rows that are found, and
several intervals (of ``<>`` and OR) become the one around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.field import Field
from thetastream.boxes.keys import Keys
from thetastream.condition.expression import Column, Function
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Compare, StartsWith, Term
from thetastream.data.evaluate import evaluate
from thetastream.relation.image.coding import Coding, KeyPart, Words, from_keys
from thetastream.relation.image.domains import stored_interval
from thetastream.relation.image.open_ends import admits
from thetastream.schema import KeyKind

_FULL = np.uint64(2**64 - 1)
_LOWER = (Function.EQ, Function.GE, Function.GT)
_UPPER = (Function.EQ, Function.LE, Function.LT)


@dataclass(frozen=True, slots=True)
class Range:
    """Words from ``low`` to ``high`` per row, and the rows that ask for nothing (None: none)."""

    low: Words
    high: Words
    nothing: Mask | None = None


class Asking:
    """The questions of a predicate to a coded key; ``opens``: the last column may be open."""

    def __init__(
        self,
        coding: Coding,
        predicate: Predicate,
        fields: Sequence[Field],
        *,
        opens: bool,
        upper: bool,
    ) -> None:
        self.coding = coding
        self._upper, self._opens = upper, opens
        self._terms = [_terms_on(predicate, part.name) for part in coding.parts]
        self._fields = [_field_on(fields, part.name) for part in coding.parts]

    @property
    def is_bounded(self) -> bool:
        """Whether the predicate compares the first column, so that not all leaves are read.

        Upper ends say something only if the columns in front are fixed by equality.
        """
        if not self._upper:
            return bool(self._terms[0])
        return bool(self._terms[-1]) and all(map(self._is_equality, range(len(self._terms) - 1)))

    @property
    def is_point(self) -> bool:
        """Whether every column is compared by equality."""
        return all(map(self._is_equality, range(len(self.coding.parts))))

    def _is_equality(self, at: int) -> bool:
        field, part = self._fields[at], self.coding.parts[at]
        if field is not None and not part.is_text and not part.hashed and part.width == 1:
            return field.is_point
        return any(term.is_equality for term in self._terms[at])

    def codes(self, fresh: Keys, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """The first and last code that each row asks for; first above last: none."""
        nothing = np.zeros(batch.num_rows, np.bool_)
        fixed: list[Range] = []
        bounds: list[Range] = []
        for number, part in enumerate(self.coding.parts):
            if not self._terms[number]:
                break
            bounds = self._ranges(number, part, fresh, batch)
            for bound in bounds:
                if bound.nothing is not None:
                    nothing |= bound.nothing
            if not self._is_equality(number):
                break
            fixed.append(bounds[0])
            bounds = []
        # ``bounds`` are those of the first column that is not compared by equality.
        asked = [[*fixed, bound] for bound in bounds] or [fixed]
        firsts, lasts = zip(*(self._codes_of(own, batch.num_rows) for own in asked), strict=True)
        first, last = reduce(np.maximum, firsts), reduce(np.minimum, lasts)
        first[nothing], last[nothing] = 1, 0
        return first, last

    def _codes_of(self, ranges: Sequence[Range], rows: int) -> tuple[Array, Array]:
        """The codes of the ends of ranges of the first columns; what follows is free."""
        lows, highs = [own.low for own in ranges], [own.high for own in ranges]
        free = self.coding.width - sum(low.shape[1] for low in lows)
        if free:
            lows.append(np.zeros((rows, free), np.uint64))
            highs.append(np.full((rows, free), _FULL))
        low, high = _beside(lows), _beside(highs)
        first = self.coding.codes(low)
        if low is high or np.array_equal(low, high):
            return first, first.copy()
        return first, self.coding.codes(high)

    def _ranges(
        self, number: int, part: KeyPart, fresh: Keys, batch: pa.RecordBatch
    ) -> list[Range]:
        """What is asked of a column: ranges that all hold; an equality comes first."""
        field = self._fields[number]
        last = number == len(self.coding.parts) - 1
        if field is not None and not part.is_text and not part.hashed and part.width == 1:
            return [self._of_keys(field, part, fresh, last)]
        terms = sorted(self._terms[number], key=lambda term: not term.is_equality)
        if part.hashed:
            terms = [term for term in terms if term.is_equality]
        return [self._of_values(term, part, batch, last) for term in terms]

    def _of_keys(self, field: Field, part: KeyPart, fresh: Keys, last: bool) -> Range:
        """The range around the intervals of a field."""
        low = high = None
        for piece in field.pieces(fresh):
            first, stop = stored_interval(part.domain, field.domain, *piece)
            empty = first > stop
            first = np.where(empty, np.int64(2**63 - 1), first)
            stop = np.where(empty, np.int64(-(2**63)), stop)
            low = first if low is None else np.minimum(low, first)
            high = stop if high is None else np.maximum(high, stop)
        assert low is not None and high is not None
        nothing: Mask = low > high
        if self._opens and last and all(admits(bound.term, self._upper) for bound in field.terms):
            edge = np.int64(2**63 - 1 if self._upper else -(2**63))
            low = np.where(nothing, edge, low)
            high = np.where(nothing, edge, high)
            low, high = np.minimum(low, edge), np.maximum(high, edge)
            nothing = np.zeros(len(low), np.bool_)
        low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        return Range(from_keys(low)[:, None], from_keys(high)[:, None], nothing)

    def _of_values(self, term: Term, part: KeyPart, batch: pa.RecordBatch, last: bool) -> Range:
        """The range around what a term asks of strings or wide decimals."""
        rows = batch.num_rows
        values = evaluate(term.left, lambda column: batch.column(column.name), rows)
        shared = self.coding.shared if last else b""
        below, above, valid = _words_around(part, values, shared)
        nothing = None if valid is None else ~valid
        arms = [[c for c in arm if not isinstance(c, StartsWith)] for arm in term.arms]
        plain = all(isinstance(c, Compare) and not c.constants for arm in arms for c in arm)
        operators = [c.op.flip() for c in arms[0] if isinstance(c, Compare)]
        bounded = plain and len(arms) == 1
        is_low = bounded and any(op in _LOWER for op in operators)
        is_high = bounded and any(op in _UPPER for op in operators)
        low = below if is_low else np.zeros_like(below)
        high = above if is_high else np.full_like(above, _FULL)
        if self._opens and last and admits(term, self._upper):
            if self._upper:
                high = np.full_like(high, _FULL)
            else:
                low = np.zeros_like(low)
        return Range(low, high, nothing)


def _beside(columns: Sequence[Words]) -> Words:
    """The words of several columns as one array."""
    return columns[0] if len(columns) == 1 else np.hstack(columns)


def _words_around(
    part: KeyPart, values: pa.Array, shared: bytes
) -> tuple[Words, Words, Mask | None]:
    """Words at or below, and at or above, the values of a stream in the type of the key."""
    if part.domain.kind is KeyKind.BYTES:
        words, valid = part.words(values, shared)
        return words, words, valid
    kind = pa.decimal128(38, part.domain.scale)
    if pat.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if not pat.is_decimal(values.type) or pat.is_decimal256(values.type):
        rows = len(values)
        none = np.zeros((rows, 2), np.uint64)
        mask = values.is_valid().to_numpy(zero_copy_only=False)
        return none, np.full_like(none, _FULL), mask
    try:
        exact = values.cast(kind)
    except pa.ArrowInvalid:  # more digits after the decimal point, or before it
        none = np.zeros((len(values), 2), np.uint64)
        mask = values.is_valid().to_numpy(zero_copy_only=False)
        return none, np.full_like(none, _FULL), mask
    words, valid = part.words(exact)
    return words, words, valid


def _terms_on(predicate: Predicate, name: str) -> list[Term]:
    """The terms that compare a column of the relation itself."""
    terms = [t for t in predicate.terms if not t.is_prefix]
    return [t for t in terms if isinstance(t.right, Column) and t.right.name == name]


def _field_on(fields: Sequence[Field], name: str) -> Field | None:
    for field in fields:
        node = field.terms[0].term.right
        if isinstance(node, Column) and node.name == name:
            return field
    return None
