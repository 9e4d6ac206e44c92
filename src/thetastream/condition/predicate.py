"""What a match is: a conjunction of terms, plus residuals that no term can express.

A *term* compares one expression over the left row with one over the right row. Its conditions are
kept as they were written, because floating arithmetic rounds: ``l.x - r.x <= 5`` and
``l.x <= r.x + 5`` differ in the last digit, and each is answered exactly as it stands.

    abs(l.x - r.x) <= 5 AND l.y < r.y + 2 AND l.s LIKE r.p
    ──────────────────      ─────────────      ───────────
    Term(l.x, r.x):         Term(l.y, r.y):    residual: evaluated on candidate pairs
      -5 <= l - r <= 5        l < r + 2

A conjunct over one side is a *filter*: rows that fail it match nothing. An OR of conditions on the
same two expressions is one term with several *arms*.

Exactness: integers, decimals and times are compared exactly, without overflow. Floating
values are compared as 64-bit IEEE numbers, each condition evaluated as written, NaN above every
number and equal to itself, -0.0 equal to 0.0. A linear expression that mixes the sides is first
regrouped as (left part) - (right part) against its constants. NULL makes a condition unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from thetastream.condition.custom import Custom, PairFunction
from thetastream.condition.expression import Expression, Function
from thetastream.condition.normalize import (
    as_term,
    both,
    conjuncts,
    implied_terms,
    push_not,
    refuse_empty,
)
from thetastream.condition.sql import parse
from thetastream.condition.term import Arm, Compare, Relative, StartsWith, Term, swap
from thetastream.errors import PredicateError
from thetastream.side import Side


@dataclass(frozen=True, eq=False)
class Predicate:
    """A join condition, split into terms, residuals and filters.

    >>> p = Predicate.parse("abs(l.x - r.x) <= 5 AND l.y < r.y")
    >>> [str(t) for t in p.terms]
    ['l.x - r.x >= -5 AND l.x - r.x <= 5', 'l.y < r.y']
    >>> Predicate.parse(str(p)) == p
    True
    """

    expression: Expression
    text: str = field(default="", repr=False)
    custom: Custom | None = None

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """Read SQL text; the aliases ``l`` and ``r`` name the sides."""
        return cls(parse(text), text)

    @classmethod
    def of(
        cls, on: str | Predicate | Expression, residual: PairFunction | Custom | None = None
    ) -> Predicate:
        """Accept text, a Python expression, or a predicate.

        ``residual`` is a function that candidate pairs have to pass; see ``custom``.
        """
        if isinstance(on, Predicate):
            return on if residual is None else replace(on, custom=_custom(residual))
        custom = None if residual is None else _custom(residual)
        if isinstance(on, Expression):
            return cls(on, str(on), custom)
        return cls(parse(on), on, custom)

    def __post_init__(self) -> None:
        missing = {Side.LEFT, Side.RIGHT} - self.expression.sides()
        if missing and self.custom is None:
            names = " and ".join(f"{s.value} ({s.alias}.…)" for s in Side if s in missing)
            raise PredicateError(
                f"a join predicate must use columns of both sides; {names} does not occur",
                self.text,
            )
        _ = self._parts

    @property
    def terms(self) -> tuple[Term, ...]:
        """Comparisons that an index can serve, one per pair of expressions."""
        return self._parts[0]

    @property
    def residuals(self) -> tuple[Expression, ...]:
        """Conjuncts over both sides that no term covers, and a function of the user's own."""
        return self._parts[1] if self.custom is None else (*self._parts[1], self.custom)

    def filters(self, side: Side) -> tuple[Expression, ...]:
        """Conjuncts over this side alone; those over no column count as left."""
        return tuple(f for f in self._parts[2] if (f.sides() or {Side.LEFT}) == {side})

    @cached_property
    def _parts(self) -> tuple[tuple[Term, ...], tuple[Expression, ...], tuple[Expression, ...]]:
        terms: dict[object, Term] = {}
        residuals: list[Expression] = []
        filters: list[Expression] = []
        for conjunct in conjuncts(push_not(self.expression)):
            if len(conjunct.sides()) < 2:
                filters.append(conjunct)
                continue
            term = as_term(conjunct, self.text)
            if term is None:
                residuals.append(conjunct)
            for each in implied_terms(conjunct) if term is None else [term]:
                known = terms.get(each.pair)
                terms[each.pair] = each if known is None else both(known, each)
        for term in terms.values():
            refuse_empty(term, self.text)
        return tuple(terms.values()), tuple(residuals), tuple(filters)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether ``(a, b)`` matches exactly if ``(b, a)`` does; detected for plain bands."""
        if self.residuals or self._parts[2]:
            return False
        return all(
            term.left.same(swap(term.right)) and all(map(_self_mirrored, term.arms))
            for term in self.terms
        )

    def columns(self, side: Side) -> list[str]:
        """The side's columns that the predicate reads."""
        more = [] if self.custom is None else self.custom.columns(side)
        return list(dict.fromkeys([*self.expression.columns(side), *more]))

    def _key(self) -> tuple[object, ...]:
        return self.expression.key(), None if self.custom is None else self.custom.key()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return str(self.expression)


def _custom(residual: PairFunction | Custom) -> Custom:
    return residual if isinstance(residual, Custom) else Custom.of(residual)


def _self_mirrored(arm: Arm) -> bool:
    """Whether exchanging the sides leaves an arm unchanged."""
    for condition in arm:
        if isinstance(condition, Compare):
            if condition.op not in (Function.EQ, Function.NE) or condition != condition.mirrored():
                return False
        elif isinstance(condition, Relative | StartsWith) or (
            condition.low is None
            or condition.high is None
            or condition.low.value != -condition.high.value
            or condition.low.strict != condition.high.strict
        ):
            return False
    return True
