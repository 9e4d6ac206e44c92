"""From a condition to terms: what of a conjunct an index can serve.

NOT is moved inwards, constants are folded and taken off sums, and a linear comparison that mixes
the sides is regrouped as (left part) - (right part) against its constants. What fits no term stays
a residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import product

from thetastream.condition.expression import Call, Expression, Function, Literal
from thetastream.condition.term import Arm, Bound, Compare, Constant, Difference, Term, edges, exact
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
    """The term a conjunct says, or None when it is a residual."""
    if not isinstance(node, Call):
        return None
    if node.function is Function.OR:
        return _any_of([as_term(arg, text) for arg in node.args])
    if node.function is Function.AND:
        parts = [as_term(arg, text) for arg in node.args]
        known = [part for part in parts if part is not None]
        same = len(known) == len(parts) and len({part.pair for part in known}) == 1
        return reduce(both, known) if same else None
    if not node.function.compares:
        return None
    a, b = node.args
    op: Function = node.function
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


def both(a: Term, b: Term) -> Term:
    """The term that holds when both do; they compare the same expressions."""
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


def refuse_empty(term: Term, text: str) -> None:
    """A band whose lower edge lies above its upper one, in every arm, is a slip of the pen."""
    if all(map(_is_empty, term.arms)):
        raise PredicateError(
            f"the band is empty: {term} never holds; exchange its bounds or widen it", text
        )


def _is_empty(arm: Arm) -> bool:
    found = [edge for condition in arm for edge in edges(condition, exact)]
    lows = [value for value, low in found if low]
    highs = [value for value, low in found if not low]
    return bool(lows and highs) and max(lows) > min(highs)
