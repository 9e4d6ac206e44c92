"""Terms: one expression over the left row compared with one over the right row.

A term is an OR of *arms*, an arm an AND of conditions. Conditions stay as they were written
(``predicate.py`` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from thetastream.condition.expression import Call, Column, Expression, Function, Literal
from thetastream.duration import Interval
from thetastream.side import Side

Constant = int | Decimal | Interval


@dataclass(frozen=True, slots=True)
class Bound:
    """One edge of a band, which excludes a strict edge."""

    value: Constant
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """``left + left_shift  op  right + right_shift``; None means no addition."""

    op: Function
    left_shift: Constant | None = None
    right_shift: Constant | None = None

    @property
    def constants(self) -> list[Constant]:
        """The constants of the condition."""
        return [shift for shift in (self.left_shift, self.right_shift) if shift is not None]

    def shift(self, side: Side) -> Constant | None:
        """The constant added to the side's expression."""
        return self.left_shift if side is Side.LEFT else self.right_shift

    def mirrored(self) -> Compare:
        """The same condition with the sides exchanged."""
        return Compare(self.op.flip(), self.right_shift, self.left_shift)

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        return (
            f"{_shifted(left, self.left_shift)} {self.op.value} {_shifted(right, self.right_shift)}"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """``low <= minuend - other <= high``; the minuend is one of the sides."""

    minuend: Side
    low: Bound | None
    high: Bound | None

    @property
    def constants(self) -> list[Constant]:
        """The constants of the condition."""
        return [bound.value for bound in (self.low, self.high) if bound is not None]

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        difference = left - right if self.minuend is Side.LEFT else right - left
        return " AND ".join(
            f"{difference} {sign if bound.strict else sign + '='} {Literal(bound.value)}"
            for bound, sign in ((self.low, ">"), (self.high, "<"))
            if bound is not None
        )


@dataclass(frozen=True, slots=True)
class Relative:
    """``abs(left - right) <= factor * base``, for ``0 < factor < 1/3``.

    The base is one of the sides; its size with ``absolute``.
    """

    base: Side
    factor: Decimal
    absolute: bool = False
    strict: bool = False

    @property
    def constants(self) -> list[Constant]:
        """The constants that are compared with differences: none, as a factor has no unit."""
        return []

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        base = left if self.base is Side.LEFT else right
        width = Literal(self.factor) * (abs(base) if self.absolute else base)
        return f"{abs(left - right)} {'<' if self.strict else '<='} {width}"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The string of one side begins with that of the other side, ``start``."""

    start: Side

    @property
    def constants(self) -> list[Constant]:
        """The constants that are compared: none."""
        return []

    def render(self, left: Expression, right: Expression) -> str:
        """SQL text of the condition."""
        return str(self.call(left, right))

    def call(self, left: Expression, right: Expression) -> Call:
        """The condition as a call."""
        whole, start = (right, left) if self.start is Side.LEFT else (left, right)
        return Call(Function.STARTS_WITH, (whole, start))


Condition = Compare | Difference | Relative | StartsWith
Arm = tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A left expression against a right one: an OR of arms, each an AND of conditions."""

    left: Expression
    right: Expression
    arms: tuple[Arm, ...]

    def expression(self, side: Side) -> Expression:
        """The side's expression."""
        return self.left if side is Side.LEFT else self.right

    @property
    def pair(self) -> tuple[object, object]:
        """A hashable identity of the two expressions."""
        return (self.left.key(), self.right.key())

    @property
    def is_equality(self) -> bool:
        """Whether the term is one plain ``=``."""
        return self.arms == ((Compare(Function.EQ),),)

    @property
    def has_prefixes(self) -> bool:
        """Whether it asks for strings that begin with others."""
        return any(isinstance(c, StartsWith) for arm in self.arms for c in arm)

    @property
    def is_prefix(self) -> bool:
        """Whether an arm only asks for strings that begin with others."""
        return any(all(isinstance(c, StartsWith) for c in arm) for arm in self.arms)

    @property
    def is_implied(self) -> bool:
        """Whether a residual implies it: it only finds candidates."""
        nodes = (self.left, self.right)
        return any(isinstance(node, Call) and node.function.implies for node in nodes)

    @property
    def is_band(self) -> bool:
        """Whether a value of one side meets a bounded interval of the other."""
        kinds = {low for condition in self.arms[0] for _, low in edges(condition, exact)}
        return len(self.arms) == 1 and len(kinds) == 2

    @property
    def is_interval(self) -> bool:
        """Whether a value of one side meets one contiguous interval of the other."""
        return len(self.arms) == 1 and not any(
            isinstance(c, Compare) and c.op is Function.NE for c in self.arms[0]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and (self.pair, self.arms) == (other.pair, other.arms)

    def __hash__(self) -> int:
        return hash((self.pair, self.arms))

    def __str__(self) -> str:
        texts = [" AND ".join(c.render(self.left, self.right) for c in arm) for arm in self.arms]
        return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


def edges(
    condition: Condition, scale: Callable[[Constant], Fraction]
) -> list[tuple[Fraction, bool]]:
    """Constant edges that a condition sets for ``left - right``: ``(value, is a lower edge)``."""
    if isinstance(condition, Relative | StartsWith):
        return []
    if isinstance(condition, Difference):
        sign = 1 if condition.minuend is Side.LEFT else -1
        bounds = ((condition.low, True), (condition.high, False))
        return [(sign * scale(b.value), low == (sign > 0)) for b, low in bounds if b is not None]
    shift = scale(condition.right_shift or 0) - scale(condition.left_shift or 0)
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


def swap(node: Expression) -> Expression:
    """The same tree over the other side."""
    if isinstance(node, Column):
        return Column(node.side.other, node.name)
    if isinstance(node, Call):
        return Call(node.function, tuple(map(swap, node.args)))
    return node
