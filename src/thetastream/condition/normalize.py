"""From a condition to terms: the conjuncts that an index can serve.

NOT is moved inwards, constants are folded and split off sums, and a linear comparison that mixes
the sides is regrouped as (left part) - (right part) against its constants. A conjunct that fits no
term stays a residual.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any

from thetastream.condition.expression import Call, Expression, Function, Literal, negated
from thetastream.condition.functions import TABLE
from thetastream.condition.term import (
    Arm,
    Bound,
    Compare,
    Constant,
    Difference,
    Relative,
    StartsWith,
    Term,
    edges,
    exact,
)
from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side


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


def as_term(node: Expression, text: str) -> Term | None:
    """The term that expresses a conjunct; None if it is a residual."""
    if not isinstance(node, Call):
        return None
    if node.function in (Function.AND, Function.OR):
        parts = [as_term(arg, text) for arg in node.args]
        terms = [part for part in parts if part is not None]
        if len(terms) < len(parts) or len({term.pair for term in terms}) != 1:
            return None
        return reduce(both if node.function is Function.AND else _either, terms)
    if node.function is Function.STARTS_WITH:
        return _starting(*node.args)
    if not node.function.compares:
        return None
    a, b = node.args
    op: Function = node.function
    if isinstance(b, Call) and b.function is Function.ABS and len(a.sides()) < len(b.sides()):
        a, b, op = b, a, op.flip()
    if isinstance(a, Call) and a.function is Function.ABS and len(a.sides()) == 2:
        if isinstance(fold(b), Literal):
            return _absolute(a.args[0], op, fold(b), text)
        return _relative(a.args[0], op, b)
    if len(a.sides()) == 1 and len(b.sides()) == 1:
        return _one_against_one(a, op, b)
    return _linear(a, op, b)


def implied_terms(node: Expression) -> list[Term]:
    """Terms that a residual implies: they find candidates, on which it is checked.

    A LIKE over both sides: the string begins with the pattern's literal prefix. A difference within
    a width of one side, ``abs(l.x - r.x) <= l.w``: the other value lies between two ends.
    """
    if not isinstance(node, Call):
        return []
    if node.function is Function.LIKE:
        text, pattern = node.args
        term = _starting(text, Call(Function.LITERAL_PREFIX, (pattern,)))
        return [] if term is None else [term]
    small, large = node.args if node.function.compares else (node, node)
    if node.function in (Function.GE, Function.GT):
        small, large = large, small
    elif node.function not in (Function.LE, Function.LT):
        return []
    return _within(small, large)


def _within(size: Expression, width: Expression) -> list[Term]:
    """The ends of the values whose distance, ``abs(l.x - r.x)``, is within a width of one side."""
    inner = size.args[0] if isinstance(size, Call) and size.function is Function.ABS else None
    if not isinstance(inner, Call) or inner.function is not Function.SUB or len(width.sides()) != 1:
        return []
    parts = {side: arg for arg in inner.args for side in arg.sides()}
    if len(parts) < len(Side) or any(len(arg.sides()) != 1 for arg in inner.args):
        return []
    (side,) = width.sides()
    own, other = parts[side], parts[side.other]
    lowest, highest = (
        Call(function, (own, width))
        for function in (Function.LOWEST_WITHIN, Function.HIGHEST_WITHIN)
    )
    return [
        _one_against_one(lowest, Function.LE, other),
        _one_against_one(highest, Function.GE, other),
    ]


def _starting(whole: Expression, start: Expression) -> Term | None:
    """``starts_with(l.s, r.s)``."""
    if len(whole.sides()) != 1 or len(start.sides()) != 1 or whole.sides() == start.sides():
        return None
    (side,) = start.sides()
    left, right = (start, whole) if side is Side.LEFT else (whole, start)
    return Term(left, right, ((StartsWith(side),),))


def _either(a: Term, b: Term) -> Term:
    """The term that holds if one of two holds; they compare the same expressions."""
    return Term(a.left, a.right, tuple(dict.fromkeys(a.arms + b.arms)))


def both(a: Term, b: Term) -> Term:
    """The term that holds if two hold; they compare the same expressions."""
    arms = tuple(tuple(dict.fromkeys(x + y)) for x, y in product(a.arms, b.arms))
    return Term(a.left, a.right, arms)


def _one_against_one(a: Expression, op: Function, b: Expression) -> Term:
    if a.sides() == {Side.RIGHT}:
        a, b, op = b, a, op.flip()
    (left, left_shift), (right, right_shift) = _peel(a), _peel(b)
    return Term(left, right, ((Compare(op, left_shift, right_shift),),))


def _peel(node: Expression) -> tuple[Expression, Constant | None]:
    """Split one constant off a sum: ``r.x - 5`` is ``(r.x, -5)``."""
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
    if value is None or split is None or not split.left or not split.right or op is Function.NE:
        return None
    middle = split.bound()  # abs(difference - middle) op value
    kinds = {isinstance(c, Interval) for c in (middle, value) if c != 0}
    if middle is None or len(kinds) > 1:
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
    low, high = _added(middle, -value), _added(middle, value)
    if op in (Function.LE, Function.LT):
        strict = op is Function.LT
        arms: list[Arm] = [(Difference(minuend, Bound(low, strict), Bound(high, strict)),)]
    elif op is Function.EQ:
        arms = [(Difference(minuend, Bound(v), Bound(v)),) for v in dict.fromkeys((high, low))]
    else:
        strict = op is Function.GT
        arms = [
            (Difference(minuend, None, Bound(low, strict)),),
            (Difference(minuend, Bound(high, strict), None),),
        ]
    return Term(left, right, tuple(arms))


def _added(a: Constant, b: Constant) -> Constant:
    """The sum of two constants of one kind; zero suits both kinds."""
    if isinstance(a, Interval) or isinstance(b, Interval):
        parts = [c.nanoseconds for c in (a, b) if isinstance(c, Interval)]
        return Interval(sum(parts))
    return a + b


def _relative(inner: Expression, op: Function, bound: Expression) -> Term | None:
    """``abs(l.x - r.x) <= 0.01 * l.x``: a band whose width is a share of one side's value."""
    if op not in (Function.LE, Function.LT):
        return None
    if not isinstance(inner, Call) or inner.function is not Function.SUB:
        return None
    if not isinstance(bound, Call) or bound.function is not Function.MUL:
        return None
    factor, base = (fold(arg) for arg in bound.args)
    if not isinstance(factor, Literal):
        factor, base = base, factor
    share = _constant(factor)
    absolute = isinstance(base, Call) and base.function is Function.ABS
    node = base.args[0] if isinstance(base, Call) and absolute else base
    sides = {side: arg for arg in inner.args for side in arg.sides()}
    if len(sides) < len(Side) or any(len(arg.sides()) != 1 for arg in inner.args):
        return None
    of = next((side for side, arg in sides.items() if arg.same(node)), None)
    if of is None or not isinstance(share, Decimal) or not 0 < 3 * float(share) < 1:
        return None
    condition = Relative(of, share, absolute, op is Function.LT)
    return Term(sides[Side.LEFT], sides[Side.RIGHT], ((condition,),))


def _linear(a: Expression, op: Function, b: Expression) -> Term | None:
    """A linear comparison that mixes the sides, regrouped as a difference against a constant."""
    first, second = _split(a, 1), _split(b, -1)
    if first is None or second is None:
        return None
    whole = first.plus(second)
    if not whole.left or not whole.right or (value := whole.bound()) is None:
        return None
    left, right, minuend = whole.pair()
    edge = Bound(value, op in (Function.LT, Function.GT, Function.NE))
    below, above = Difference(minuend, None, edge), Difference(minuend, edge, None)
    arms: dict[Function, tuple[Arm, ...]] = {
        Function.EQ: ((Difference(minuend, edge, edge),),),
        Function.NE: ((below,), (above,)),
    }
    one_sided = below if op in (Function.LE, Function.LT) else above
    return Term(left, right, arms.get(op, ((one_sided,),)))


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
        """Left part, right part and minuend, such that the sum is ``minuend - other``."""
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
    """Split a linear expression by side; None if it is not linear in both."""
    sides = node.sides()
    if not sides:
        value = _constant(fold(node))
        return None if value is None else _Split(constants=(value if sign > 0 else -value,))
    if len(sides) == 1:
        base, shift = _peel(node)
        constants = () if shift is None else (shift if sign > 0 else -shift,)
        addend = ((sign, base),)
        left = sides == {Side.LEFT}
        return _Split(addend if left else (), () if left else addend, constants)
    assert isinstance(node, Call)
    if node.function is Function.NEG:
        return _split(node.args[0], -sign)
    if node.function not in (Function.ADD, Function.SUB):
        return None
    first = _split(node.args[0], sign)
    second = _split(node.args[1], sign if node.function is Function.ADD else -sign)
    return None if first is None or second is None else first.plus(second)


def fold(node: Expression) -> Expression:
    """Compute constants: ``2 * 30`` is ``60``, ``LN(1.01)`` the nearest double.

    What has no finite value, such as ``LN(-1)``, stays as it is.
    """
    if not isinstance(node, Call) or node.sides():
        return node
    values = [_constant(fold(arg)) for arg in node.args]
    if None in values:
        return node
    if node.function is Function.NEG:
        return negated(fold(node.args[0]))
    if node.function is Function.ABS:
        return Literal(max(values[0], -values[0]))  # type: ignore[operator, type-var]
    if any(isinstance(value, Interval) for value in values):
        if node.function is Function.SUB and all(isinstance(v, Interval) for v in values):
            values[1] = -values[1]  # type: ignore[operator]
        elif node.function is not Function.ADD or len({type(v) for v in values}) > 1:
            return node
        return Literal(_added(*values))  # type: ignore[arg-type]
    if node.function in _ARITHMETIC:
        return Literal(_ARITHMETIC[node.function](*values))
    entry = TABLE.get(node.function)
    if node.function is Function.DIV:
        number = float(values[0]) / float(values[1]) if values[1] else None  # type: ignore[arg-type]
    elif entry is not None and entry.meaning is not None and "number" in entry.kinds:
        number = entry.meaning(*map(float, values[:1]), *values[1:])  # type: ignore[arg-type]
    elif node.function in (Function.PI, Function.E):
        assert entry is not None and entry.meaning is not None
        number = entry.meaning()
    else:
        return node
    finite = number is not None and math.isfinite(number)
    return Literal(Decimal(repr(float(number)))) if finite else node  # type: ignore[arg-type]


_ARITHMETIC: dict[Function, Callable[[Any, Any], Any]] = {
    Function.ADD: operator.add,
    Function.SUB: operator.sub,
    Function.MUL: operator.mul,
}


def refuse_empty(term: Term, text: str) -> None:
    """Refuse a band whose lower edge lies above its upper one in every arm."""
    if all(map(_is_empty, term.arms)):
        raise PredicateError(
            f"the band is empty: {term} never holds; exchange its bounds or widen it", text
        )


def _is_empty(arm: Arm) -> bool:
    bounds = [edge for condition in arm for edge in edges(condition, exact)]
    lows = [value for value, low in bounds if low]
    highs = [value for value, low in bounds if not low]
    return bool(lows and highs) and max(lows) > min(highs)
