"""Fields: the key columns that an index stores, and the intervals that fresh rows ask for.

There is one field per distinct expression of that side that terms compare, and one for the event
time of a time window. Terms that share the stored expression share a field, so that
``l.x >= r.low AND l.x <= r.high`` asks for one interval of ``l.x``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from thetastream._jit.arrays import Array
from thetastream.boxes import box
from thetastream.boxes.box import Pieces
from thetastream.boxes.keys import Keys
from thetastream.condition.expression import Function
from thetastream.condition.term import Compare, Difference, Term
from thetastream.schema import Domain, KeyKind
from thetastream.side import Side

if TYPE_CHECKING:
    from thetastream.boxes.binding import Binding
    from thetastream.boxes.spans import Span


@dataclass(frozen=True)
class BoundTerm:
    """A term and the domain in which its two expressions are compared."""

    term: Term
    domain: Domain

    @cached_property
    def _bands(self) -> dict[Side, tuple[int, int] | None]:
        return {side: box.plain_band(self.term, self.domain, side) for side in Side}

    def intervals(self, fresh: Side, keys: Array) -> Pieces:
        """Disjoint intervals of stored keys that match fresh keys."""
        band = self._bands[fresh]
        if band is not None:
            return [box.exact_band(band, keys)]
        return box.intervals(self.term, self.domain, fresh, keys)

    @cached_property
    def names(self) -> dict[Side, str]:
        """The names of both expressions in messages."""
        return {side: str(self.term.expression(side)) for side in Side}


@dataclass(frozen=True, eq=False)
class Field:
    """One key column of the stored side: the terms that read it, or the event time.

    The fields of ``implied`` bound it too, by their spans.
    """

    binding: Binding
    stored: Side
    members: tuple[int, ...]
    implied: tuple[tuple[Field, Span], ...] = ()

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
        """The domain of the keys."""
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
        return self.domain.kind is not KeyKind.FLOAT or condition.shift(self.stored) is None

    @cached_property
    def width(self) -> float | None:
        """Width of a bounded band, in values (floats) or key units."""
        if len(self.members) != 1 or self.domain.kind is KeyKind.PREFIX:
            return None
        return box.band_width(self.terms[0].term, self.domain)

    @property
    def has_cells(self) -> bool:
        """Whether a box of this field touches few cells as wide as its band.

        Floats with added constants do not: rounding can make their intervals much wider.
        """
        if self.width is None or self.width <= 0:
            return False
        plain = all(isinstance(c, Difference) for c in self.terms[0].term.arms[0])
        return plain or self.domain.kind is not KeyKind.FLOAT

    def keys(self, rows: Keys) -> Array:
        """The stored keys of rows of the stored side."""
        if self.is_time:
            assert rows.times is not None
            return rows.times
        return rows.keys[self.members[0]]

    def pieces(self, fresh: Keys) -> Pieces:
        """Disjoint intervals of this field that fresh rows of the other side ask for."""
        if self.is_time:
            assert self.binding.time is not None and fresh.times is not None
            return [self.binding.time.interval(fresh.times, fresh.side)]
        members = zip(self.members, self.terms, strict=True)
        pieces = [bound.intervals(fresh.side, fresh.keys[i]) for i, bound in members]
        for beside, span in self.implied:
            if len(intervals := beside.pieces(fresh)) == 1:
                pieces.append([span.along(*intervals[0])])
        return pieces[0] if len(pieces) == 1 else box.intersected(pieces)

    def __str__(self) -> str:
        if self.is_time:
            return f"event time {self.stored.alias}.{self.binding.time_columns[self.stored]}"
        others = [f"bounded by {beside}" for beside, _ in self.implied]
        return ", ".join([" AND ".join(str(bound.term) for bound in self.terms), *others])
