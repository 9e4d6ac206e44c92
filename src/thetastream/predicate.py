"""What a match is: a conjunction of terms, and what no term can say.

A *term* compares one expression over the left row with one over the right row. Its conditions are
kept as they were written, because floating arithmetic rounds: ``l.x - r.x <= 5`` and
``l.x <= r.x + 5`` differ in the last digit, and each is answered exactly as it stands.

    abs(l.x - r.x) <= 5 AND l.y < r.y + 2 AND l.s LIKE r.p
    ──────────────────      ─────────────      ───────────
    Term(l.x, r.x):         Term(l.y, r.y):    residual: evaluated on candidate pairs
      -5 <= l - r <= 5        l < r + 2

A conjunct over one side only is a *filter*: rows that fail it match nothing. An OR of conditions on
the same two expressions is one term with several *arms*.

Exactness, in short: integers, decimals and times are compared exactly, without overflow. Floating
values are compared as 64-bit IEEE numbers, each condition evaluated as written, NaN above every
number and equal to itself, -0.0 equal to 0.0. A linear expression that mixes the sides is first
regrouped as (left part) - (right part) against its constants. NULL makes a condition unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import Union

from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.expression import Call, Column, Expression, Function, Literal
from thetastream.side import Side
from thetastream.sql import parse

__all__ = ["Bound", "Compare", "Condition", "Difference", "Predicate", "Term"]

Constant = Union[int, Decimal, Interval]


@dataclass(frozen=True, slots=True)
class Bound:
    """One edge of a band; a strict edge is not part of it."""

    value: Constant
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """``left + left_shift  op  right + right_shift``; a shift of None is no addition at all."""

    op: Function
    left_shift: Constant | None = None
    right_shift: Constant | None = None

    def shift(self, side: Side) -> Constant | None:
        """The constant added to the side's expression."""
        return self.left_shift if side is Side.LEFT else self.right_shift

    def mirrored(self) -> Compare:
        """The same condition with the sides exchanged."""
        return Compare(self.op.flip(), self.right_shift, self.left_shift)

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        return (
            f"{_shifted(left, self.left_shift)} {self.op.value} "
            f"{_shifted(right, self.right_shift)}"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """``low <= minuend - other <= high``; the minuend is one of the sides."""

    minuend: Side
    low: Bound | None
    high: Bound | None

    def mirrored(self) -> Difference:
        """The same condition with the sides exchanged."""
        return Difference(self.minuend.other, self.low, self.high)

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        pair = (left, right) if self.minuend is Side.LEFT else (right, left)
        middle = Call(Function.SUB, pair)
        parts = []
        if self.low is not None:
            parts.append(f"{middle} {'>' if self.low.strict else '>='} {Literal(self.low.value)}")
        if self.high is not None:
            parts.append(f"{middle} {'<' if self.high.strict else '<='} {Literal(self.high.value)}")
        return " AND ".join(parts)


Condition = Union[Compare, Difference]
Arm = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """One left expression against one right expression: an OR of arms, each an AND of conditions."""

    left: Expression
    right: Expression
    arms: tuple[Arm, ...]

    def expression(self, side: Side) -> Expression:
        """The side's expression."""
        return self.left if side is Side.LEFT else self.right

    @property
    def pair(self) -> tuple[object, object]:
        """A hashable name of the two expressions."""
        return (self.left.key(), self.right.key())

    @property
    def is_equality(self) -> bool:
        """Whether the term is one plain ``=``."""
        return self.arms == ((Compare(Function.EQ),),)

    @property
    def is_band(self) -> bool:
        """Whether a value of one side meets a bounded interval of the other."""
        return len(self.arms) == 1 and self._bounds()[0] and self._bounds()[1]

    @property
    def is_interval(self) -> bool:
        """Whether a value of one side meets one contiguous interval of the other."""
        return len(self.arms) == 1 and not any(
            isinstance(c, Compare) and c.op is Function.NE for c in self.arms[0]
        )

    def _bounds(self) -> tuple[bool, bool]:
        low = high = False
        for condition in self.arms[0]:
            if isinstance(condition, Difference):
                flipped = condition.minuend is Side.RIGHT
                has = (condition.low is not None, condition.high is not None)
                low, high = low or has[flipped], high or has[not flipped]
            else:
                low = low or condition.op in (Function.GE, Function.GT, Function.EQ)
                high = high or condition.op in (Function.LE, Function.LT, Function.EQ)
        return low, high

    def mirrored(self) -> Term:
        """The term with the sides exchanged, its columns too."""
        arms = tuple(tuple(c.mirrored() for c in arm) for arm in self.arms)
        return Term(_swap(self.right), _swap(self.left), arms)

    def __str__(self) -> str:
        texts = [" AND ".join(c.render(self.left, self.right) for c in arm) for arm in self.arms]
        return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


@dataclass(frozen=True, eq=False)
class Predicate:
    """A join condition, taken apart into terms, residuals and filters.

    >>> p = Predicate.parse("abs(l.x - r.x) <= 5 AND l.y < r.y")
    >>> [str(t) for t in p.terms]
    ['l.x - r.x >= -5 AND l.x - r.x <= 5', 'l.y < r.y']
    >>> Predicate.parse(str(p)) == p
    True
    """

    expression: Expression
    text: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """Read SQL text; the aliases ``l`` and ``r`` name the sides."""
        return cls(parse(text), text)

    @classmethod
    def of(cls, on: str | Predicate | Expression) -> Predicate:
        """Take text, a Python expression, or a predicate as it is."""
        if isinstance(on, Predicate):
            return on
        if isinstance(on, Expression):
            return cls(on, str(on))
        return cls.parse(on)

    def __post_init__(self) -> None:
        missing = {Side.LEFT, Side.RIGHT} - self.expression.sides()
        if missing:
            names = " and ".join(f"{side.value} ({side.alias}.…)" for side in Side if side in missing)
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
        """Conjuncts over both sides that no term covers."""
        return self._parts[1]

    def filters(self, side: Side) -> tuple[Expression, ...]:
        """Conjuncts over this side alone."""
        return tuple(f for f in self._parts[2] if f.sides() == {side})

    @cached_property
    def _parts(self) -> tuple[tuple[Term, ...], tuple[Expression, ...], tuple[Expression, ...]]:
        terms: dict[object, Term] = {}
        residuals: list[Expression] = []
        filters: list[Expression] = []
        for conjunct in conjuncts(push_not(self.expression)):
            if len(conjunct.sides()) < 2:
                filters.append(conjunct)
            elif (term := _as_term(conjunct, self.text)) is None:
                residuals.append(conjunct)
            elif term.pair in terms:
                terms[term.pair] = _both(terms[term.pair], term)
            else:
                terms[term.pair] = term
        for term in terms.values():
            _refuse_empty(term, self.text)
        return tuple(terms.values()), tuple(residuals), tuple(filters)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether ``(a, b)`` matches exactly when ``(b, a)`` does; found for plain bands only."""
        if self.residuals or self._parts[2]:
            return False
        return all(
            term.left.same(_swap(term.right)) and all(map(_self_mirrored, term.arms))
            for term in self.terms
        )

    def columns(self, side: Side) -> list[str]:
        """The side's columns that the predicate reads."""
        return self.expression.columns(side)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self.expression.same(other.expression)

    def __hash__(self) -> int:
        return hash(self.expression.key())

    def __str__(self) -> str:
        return str(self.expression)


def conjuncts(node: Expression) -> list[Expression]:
    """The parts of a conjunction."""
    if isinstance(node, Call) and node.function is Function.AND:
        return [part for arg in node.args for part in conjuncts(arg)]
    return [node]


def push_not(node: Expression) -> Expression:
    """Move NOT inwards, so that ``NOT (l.x < r.x)`` becomes a comparison that can be indexed."""
    if not isinstance(node, Call):
        return node
    if node.function in (Function.AND, Function.OR):
        return Call(node.function, tuple(map(push_not, node.args)))
    if node.function is not Function.NOT or not isinstance(node.args[0], Call):
        return node
    inner = node.args[0]
    if inner.function is Function.NOT:
        return push_not(inner.args[0])
    if inner.function.compares:
        return Call(inner.function.negate(), inner.args)
    if inner.function in (Function.AND, Function.OR):
        other = Function.OR if inner.function is Function.AND else Function.AND
        return Call(other, tuple(push_not(Call(Function.NOT, (arg,))) for arg in inner.args))
    return node


# --- From a conjunct to a term ------------------------------------------------------------------


def _as_term(node: Expression, text: str) -> Term | None:
    """The term a conjunct says, or None when it is a residual."""
    if not isinstance(node, Call):
        return None
    if node.function is Function.OR:
        return _any_of([_as_term(arg, text) for arg in node.args])
    if node.function is Function.AND:
        parts = [_as_term(arg, text) for arg in node.args]
        known = [part for part in parts if part is not None]
        same = len(known) == len(parts) and len({part.pair for part in known}) == 1
        return reduce(_both, known) if same else None
    if not node.function.compares:
        return None
    a, b = node.args
    op = node.function
    if isinstance(b, Call) and b.function is Function.ABS and isinstance(fold(a), Literal):
        a, b, op = b, a, op.flip()
    bound = fold(b)
    if isinstance(a, Call) and a.function is Function.ABS and len(a.sides()) == 2:
        return _absolute(a.args[0], op, bound, text)
    if len(a.sides()) == 1 and len(b.sides()) == 1:
        return _one_against_one(a, op, b)
    return _linear(a, op, b)


def _any_of(parts: list[Term | None]) -> Term | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.pair for part in known}) != 1:
        return None
    arms = tuple(dict.fromkeys(arm for part in known for arm in part.arms))
    return Term(known[0].left, known[0].right, arms)


def _both(a: Term, b: Term) -> Term:
    arms = tuple(tuple(dict.fromkeys(x + y)) for x, y in product(a.arms, b.arms))
    return Term(a.left, a.right, arms)


def _one_against_one(a: Expression, op: Function, b: Expression) -> Term:
    if a.sides() == {Side.RIGHT}:
        a, b, op = b, a, op.flip()
    (left, left_shift), (right, right_shift) = _peel(a), _peel(b)
    return Term(left, right, ((Compare(op, left_shift, right_shift),),))


def _peel(node: Expression) -> tuple[Expression, Constant | None]:
    """Take one constant off a sum: ``r.x - 5`` is ``(r.x, -5)``."""
    if isinstance(node, Call) and node.function in (Function.ADD, Function.SUB):
        a, b = node.args[0], fold(node.args[1])
        if (value := _constant(b)) is not None and _constant(a) is None:
            return a, (value if node.function is Function.ADD else -value)
        front = _constant(fold(a))
        if front is not None and node.function is Function.ADD:
            return node.args[1], front
    return node, None


def _constant(node: Expression) -> Constant | None:
    if isinstance(node, Literal) and isinstance(node.value, int | Decimal | Interval):
        return None if isinstance(node.value, bool) else node.value
    return None


def _absolute(inner: Expression, op: Function, bound: Expression, text: str) -> Term | None:
    """``abs(difference) op constant``."""
    value = _constant(bound)
    split = _split(inner, 1)
    if value is None or split is None or split.constants or op is Function.NE:
        return None
    zero: Constant = Interval(0) if isinstance(value, Interval) else 0
    if value < zero or (value == zero and op is Function.LT):  # type: ignore[operator]
        if op in (Function.LE, Function.LT, Function.EQ):
            raise PredicateError(
                f"the band is empty: ABS(…) {op.value} {bound} never holds; use a positive width",
                text,
            )
        return None
    left, right, minuend = split.pair()
    if op in (Function.LE, Function.LT):
        strict = op is Function.LT
        arms: list[Arm] = [(Difference(minuend, Bound(-value, strict), Bound(value, strict)),)]
    elif op is Function.EQ:
        arms = [(Difference(minuend, Bound(v), Bound(v)),) for v in dict.fromkeys((value, -value))]
    else:
        strict = op is Function.GT
        arms = [
            (Difference(minuend, None, Bound(-value, strict)),),
            (Difference(minuend, Bound(value, strict), None),),
        ]
    return Term(left, right, tuple(arms))


def _linear(a: Expression, op: Function, b: Expression) -> Term | None:
    """A linear comparison that mixes the sides: regrouped as difference against a constant."""
    split = _split(a, 1)
    other = _split(b, -1)
    if split is None or other is None:
        return None
    whole = split.plus(other)
    if not whole.left or not whole.right:
        return None
    left, right, minuend = whole.pair()
    value = whole.bound()
    if value is None:
        return None
    edge = Bound(value, op in (Function.LT, Function.GT))
    if op in (Function.LE, Function.LT):
        conditions: Arm = (Difference(minuend, None, edge),)
    elif op in (Function.GE, Function.GT):
        conditions = (Difference(minuend, edge, None),)
    elif op is Function.EQ:
        conditions = (Difference(minuend, edge, edge),)
    else:
        below, above = Bound(value, True), Bound(value, True)
        return Term(
            left,
            right,
            ((Difference(minuend, None, below),), (Difference(minuend, above, None),)),
        )
    return Term(left, right, (conditions,))


@dataclass(frozen=True, slots=True)
class _Split:
    """A linear expression by side: signed addends, and the constants."""

    left: tuple[tuple[int, Expression], ...] = ()
    right: tuple[tuple[int, Expression], ...] = ()
    constants: tuple[Constant, ...] = ()

    def plus(self, other: _Split) -> _Split:
        return _Split(
            self.left + other.left, self.right + other.right, self.constants + other.constants
        )

    def pair(self) -> tuple[Expression, Expression, Side]:
        """Left part, right part and the minuend, so that the sum is ``minuend - other``."""
        minuend = Side.RIGHT if self.left[0][0] < 0 < self.right[0][0] else Side.LEFT
        signs = (1, -1) if minuend is Side.LEFT else (-1, 1)
        return _sum(self.left, signs[0]), _sum(self.right, signs[1]), minuend

    def bound(self) -> Constant | None:
        """The constants moved to the other side of the comparison."""
        if not self.constants:
            return 0
        if len({isinstance(c, Interval) for c in self.constants}) > 1:
            return None
        if isinstance(self.constants[0], Interval):
            return Interval(-sum(c.nanoseconds for c in self.constants if isinstance(c, Interval)))
        return -sum(c for c in self.constants if not isinstance(c, Interval))


def _sum(addends: tuple[tuple[int, Expression], ...], sign: int) -> Expression:
    (first_sign, total), *rest = addends
    if first_sign * sign < 0:
        total = Call(Function.NEG, (total,))
    for addend_sign, addend in rest:
        function = Function.ADD if addend_sign * sign > 0 else Function.SUB
        total = Call(function, (total, addend))
    return total


def _split(node: Expression, sign: int) -> _Split | None:
    """Split a linear expression by side; None when it is not linear in both."""
    sides = node.sides()
    if not sides:
        value = _constant(fold(node))
        return None if value is None else _Split(constants=(value if sign > 0 else -value,))
    if len(sides) == 1:
        base, shift = _peel(node)
        constants = () if shift is None else (shift if sign > 0 else -shift,)
        addend = ((sign, base),)
        if sides == {Side.LEFT}:
            return _Split(left=addend, constants=constants)
        return _Split(right=addend, constants=constants)
    if not isinstance(node, Call):
        return None
    if node.function is Function.NEG:
        return _split(node.args[0], -sign)
    if node.function not in (Function.ADD, Function.SUB):
        return None
    first = _split(node.args[0], sign)
    second = _split(node.args[1], sign if node.function is Function.ADD else -sign)
    return None if first is None or second is None else first.plus(second)


def fold(node: Expression) -> Expression:
    """Compute arithmetic on constants: ``2 * 30`` is ``60``."""
    if not isinstance(node, Call) or node.sides():
        return node
    values = [_constant(fold(arg)) for arg in node.args]
    if node.function is Function.NEG and values[0] is not None:
        return Literal(-values[0])
    if len(values) != 2 or None in values or any(isinstance(v, Interval) for v in values):
        return node
    a, b = values
    if node.function is Function.ADD:
        return Literal(a + b)  # type: ignore[operator]
    if node.function is Function.SUB:
        return Literal(a - b)  # type: ignore[operator]
    if node.function is Function.MUL:
        return Literal(a * b)  # type: ignore[operator]
    return node


def _refuse_empty(term: Term, text: str) -> None:
    """A band whose lower edge lies above its upper one is a slip of the pen."""
    for arm in term.arms:
        edges = [edge for condition in arm for edge in _edges(condition)]
        lows = [value for value, low in edges if low]
        highs = [value for value, low in edges if not low]
        if lows and highs and max(lows) > min(highs):
            raise PredicateError(
                f"the band is empty: {' AND '.join(c.render(term.left, term.right) for c in arm)} "
                "never holds; exchange its bounds",
                text,
            )


def _edges(condition: Condition) -> list[tuple[Fraction, bool]]:
    """Constant edges of ``left - right`` as ``(value, is a lower edge)``."""
    if isinstance(condition, Difference):
        sign = 1 if condition.minuend is Side.LEFT else -1
        bounds = ((condition.low, True), (condition.high, False))
        return [(sign * exact(b.value), low == (sign > 0)) for b, low in bounds if b is not None]
    shift = exact(condition.right_shift or 0) - exact(condition.left_shift or 0)
    if condition.op in (Function.GE, Function.GT):
        return [(shift, True)]
    if condition.op in (Function.LE, Function.LT):
        return [(shift, False)]
    return [(shift, True), (shift, False)] if condition.op is Function.EQ else []


def exact(value: Constant) -> Fraction:
    """A constant as an exact number; intervals in nanoseconds."""
    return Fraction(value.nanoseconds if isinstance(value, Interval) else value)


def _shifted(node: Expression, shift: Constant | None) -> str:
    if shift is None:
        return str(node)
    zero: Constant = Interval(0) if isinstance(shift, Interval) else 0
    if shift < zero:  # type: ignore[operator]
        return f"{node} - {Literal(-shift)}"
    return f"{node} + {Literal(shift)}"


def _swap(node: Expression) -> Expression:
    """The same tree over the other side."""
    if isinstance(node, Column):
        return Column(node.side.other, node.name)
    if isinstance(node, Call):
        return Call(node.function, tuple(map(_swap, node.args)))
    return node


def _self_mirrored(arm: Arm) -> bool:
    """Whether exchanging the sides leaves an arm as it is."""
    for condition in arm:
        if isinstance(condition, Compare):
            if condition.op not in (Function.EQ, Function.NE) or condition != condition.mirrored():
                return False
        elif (
            condition.low is None
            or condition.high is None
            or condition.low.value != -condition.high.value
            or condition.low.strict != condition.high.strict
        ):
            return False
    return True
