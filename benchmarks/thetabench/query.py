"""What a contestant has to answer: the terms of a workload's predicate as plain numbers.

The peers are also a check of the engine, so they do not use the engine's own parser. The three
workloads need two shapes, joined by ``AND``::

    abs(l.x - r.x) <= 2048        a band: both sides use the same column
    l.a < r.a                     a comparison: < <= > >=

A term is read from the left row's point of view. `Term.seen_from` turns it to the side whose rows
are fresh, so that peers only ever speak of *fresh* and *stored* rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thetastream.errors import PredicateError
from thetastream.side import Side

if TYPE_CHECKING:
    from thetastream.datasets.workloads import Workload


Values: TypeAlias = NDArray[Any]

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"
_BAND = re.compile(rf"abs\(\s*l\.(\w+)\s*-\s*r\.(\w+)\s*\)\s*<=\s*({_NUMBER})", re.IGNORECASE)
_COMPARISON = re.compile(r"l\.(\w+)\s*(<=|>=|<|>)\s*r\.(\w+)", re.IGNORECASE)


class Op(Enum):
    """How the fresh key compares with the stored key."""

    BAND = "band"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    def flip(self) -> Op:
        """The comparison with its two sides exchanged."""
        return _FLIPPED.get(self, self)


_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
_COMPARE = {Op.LT: np.less, Op.LE: np.less_equal, Op.GT: np.greater, Op.GE: np.greater_equal}


@dataclass(frozen=True)
class Term:
    """One condition on a column that both sides have."""

    column: str
    op: Op
    width: float = 0
    """Half the width of a band, edges included; unused by other operators."""

    def seen_from(self, side: Side) -> Term:
        """The term with fresh rows of ``side`` as its first operand."""
        return self if side is Side.LEFT else replace(self, op=self.op.flip())

    def bounds(self, fresh: Values) -> tuple[Values, Values]:
        """The closed interval of stored keys that each fresh key asks for.

        >>> Term("x", Op.BAND, 2).bounds(np.array([5]))
        (array([3]), array([7]))
        >>> Term("x", Op.LT).bounds(np.array([5]))[0]
        array([6])
        """
        if self.op is Op.BAND:
            return fresh - self.width, fresh + self.width
        lowest, highest = _extremes(fresh.dtype)
        if self.op in (Op.LT, Op.LE):
            lows = _next(fresh, 1) if self.op is Op.LT else fresh
            return lows, np.full(len(fresh), highest, dtype=fresh.dtype)
        highs = _next(fresh, -1) if self.op is Op.GT else fresh
        return np.full(len(fresh), lowest, dtype=fresh.dtype), highs

    def holds(self, fresh: Any, stored: Values) -> NDArray[np.bool_]:
        """Say which pairs match; ``fresh`` is one value or one per stored value."""
        if self.op is Op.BAND:
            return np.asarray(np.abs(fresh - stored) <= self.width)
        return np.asarray(_COMPARE[self.op](fresh, stored))

    def sql(self, fresh: str, stored: str, *, filter_only: bool = False) -> str:
        """Write the term for a SQL peer. A band becomes two range conditions, never ``abs()``.

        Only a band that must stay a filter behind another join condition keeps ``abs()``.

        >>> Term("x", Op.BAND, 2).sql("f", "w")
        'w.x >= f.x - 2 AND w.x <= f.x + 2'
        """
        mine, other = f"{fresh}.{self.column}", f"{stored}.{self.column}"
        if self.op is Op.BAND and filter_only:
            return f"abs({mine} - {other}) <= {self.width}"
        if self.op is Op.BAND:
            return f"{other} >= {mine} - {self.width} AND {other} <= {mine} + {self.width}"
        return f"{mine} {self.op.value} {other}"


@dataclass(frozen=True)
class Query:
    """A join to run: its terms, its count window, and whether it joins a stream with itself.

    >>> query = Query.parse("abs(l.x - r.x) <= 5 AND l.a < r.a", window=10)
    >>> [(term.column, term.op.name, term.width) for term in query.terms]
    [('x', 'BAND', 5), ('a', 'LT', 0)]
    """

    predicate: str
    terms: tuple[Term, ...]
    window: int
    self_join: bool = False

    @classmethod
    def of(cls, workload: Workload) -> Query:
        """Read the query of a workload."""
        return cls.parse(workload.predicate, workload.window, workload.self_join)

    @classmethod
    def parse(cls, predicate: str, window: int, self_join: bool = False) -> Query:
        """Read the shapes above; anything else is a `PredicateError`."""
        parts = re.split(r"\s+and\s+", predicate.strip(), flags=re.IGNORECASE)
        terms = tuple(_term(part, predicate) for part in parts)
        if self_join and any(term.op is not Op.BAND for term in terms):
            raise PredicateError("benchmark self-joins need bands, which hold both ways", predicate)
        return cls(predicate, terms, window, self_join)

    @property
    def bands(self) -> tuple[Term, ...]:
        """The terms that are bands of a width above 0."""
        return tuple(term for term in self.terms if term.op is Op.BAND and term.width > 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns, each once, in the order of the terms."""
        return tuple(dict.fromkeys(term.column for term in self.terms))

    def terms_for(self, side: Side) -> tuple[Term, ...]:
        """The terms with fresh rows of ``side`` as the first operand."""
        return tuple(term.seen_from(side) for term in self.terms)


def _term(part: str, predicate: str) -> Term:
    band = _BAND.fullmatch(part.strip())
    if band and band[1] == band[2]:
        text = band[3]
        return Term(band[1], Op.BAND, int(text) if text.isdigit() else float(text))
    comparison = _COMPARISON.fullmatch(part.strip())
    if comparison and comparison[1] == comparison[3]:
        return Term(comparison[1], Op(comparison[2]))
    start = predicate.find(part)
    raise PredicateError(
        "benchmark peers know abs(l.x - r.x) <= number and l.x < r.x (or <=, >, >=) "
        f"on the same column of both sides; got {part!r}",
        predicate,
        start,
        start + len(part),
    )


def _extremes(kind: np.dtype[Any]) -> tuple[float, float]:
    if np.issubdtype(kind, np.floating):
        return -np.inf, np.inf
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


def _next(values: Values, step: int) -> Values:
    if np.issubdtype(values.dtype, np.floating):
        return np.asarray(np.nextafter(values, step * np.inf))
    return np.asarray(values + step)
