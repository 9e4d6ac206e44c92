"""Expressions over a left and a right row: plain trees, built from SQL text or in Python.

    abs(left.price - right.price) <= 0.05          Call(LE, Call(ABS, Call(SUB, …)), Literal)

Columns know their side, literals are exact (a number with a point is a Decimal until it meets a
floating column), everything else is a call. Python operators build the same trees that the parser
builds. ``str()`` gives SQL text that parses back to an equal tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlglot.dialects.spark import Spark

from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side

Value = int | Decimal | str | bool | Interval | None


class Function(Enum):
    """Everything an expression can call. The value is its SQL spelling."""

    OR = "OR"
    AND = "AND"
    NOT = "NOT"
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IS_NULL = "IS NULL"
    LIKE = "LIKE"
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"
    NEG = "NEG"
    ABS = "ABS"
    LEAST = "LEAST"
    GREATEST = "GREATEST"
    COALESCE = "COALESCE"
    FLOOR = "FLOOR"
    CEIL = "CEIL"
    SQRT = "SQRT"
    LOWER = "LOWER"
    UPPER = "UPPER"
    LENGTH = "LENGTH"
    CONCAT = "CONCAT"
    IF = "IF"

    @property
    def compares(self) -> bool:
        """Whether this is one of ``= != < <= > >=``."""
        return self in _FLIP

    def flip(self) -> Function:
        """The comparison with its operands exchanged: ``a < b`` is ``b > a``."""
        return _FLIP[self]

    def negate(self) -> Function:
        """The comparison that holds exactly when this one does not (both sides not NULL)."""
        return _NEGATE[self]


_FLIP = {
    Function.EQ: Function.EQ,
    Function.NE: Function.NE,
    Function.LT: Function.GT,
    Function.LE: Function.GE,
    Function.GT: Function.LT,
    Function.GE: Function.LE,
}
_NEGATE = {
    Function.EQ: Function.NE,
    Function.NE: Function.EQ,
    Function.LT: Function.GE,
    Function.LE: Function.GT,
    Function.GT: Function.LE,
    Function.GE: Function.LT,
}
_PRECEDENCE = {
    Function.OR: 1,
    Function.AND: 2,
    Function.NOT: 3,
    **dict.fromkeys(_FLIP, 4),
    Function.IS_NULL: 4,
    Function.LIKE: 4,
    Function.ADD: 5,
    Function.SUB: 5,
    Function.MUL: 6,
    Function.DIV: 6,
    Function.MOD: 6,
    Function.NEG: 7,
}


class Expression:
    """A node of the tree. Compare with ``==`` builds a tree too; use ``same`` to test equality."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def same(self, other: Expression) -> bool:
        """Whether both trees are equal."""
        return self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        """A hashable value that is equal for equal trees."""
        raise NotImplementedError

    def walk(self) -> Iterator[Expression]:
        """This node and all below it, parents first."""
        yield self

    def sides(self) -> frozenset[Side]:
        """The sides whose columns occur in the tree."""
        return frozenset(node.side for node in self.walk() if isinstance(node, Column))

    def columns(self, side: Side) -> list[str]:
        """Names of the side's columns, each once, in order of appearance."""
        found = (n.name for n in self.walk() if isinstance(n, Column) and n.side is side)
        return list(dict.fromkeys(found))

    def __bool__(self) -> bool:
        raise PredicateError(
            "an expression has no truth value; join conditions with & | ~ and not with and/or/not, "
            "and write a < b and b < c as (a < b) & (b < c)"
        )

    def __add__(self, other: Any) -> Expression:
        return Call(Function.ADD, (self, literal(other)))

    def __radd__(self, other: Any) -> Expression:
        return Call(Function.ADD, (literal(other), self))

    def __sub__(self, other: Any) -> Expression:
        return Call(Function.SUB, (self, literal(other)))

    def __rsub__(self, other: Any) -> Expression:
        return Call(Function.SUB, (literal(other), self))

    def __mul__(self, other: Any) -> Expression:
        return Call(Function.MUL, (self, literal(other)))

    def __rmul__(self, other: Any) -> Expression:
        return Call(Function.MUL, (literal(other), self))

    def __truediv__(self, other: Any) -> Expression:
        return Call(Function.DIV, (self, literal(other)))

    def __mod__(self, other: Any) -> Expression:
        return Call(Function.MOD, (self, literal(other)))

    def __neg__(self) -> Expression:
        return negated(self)

    def __abs__(self) -> Expression:
        return Call(Function.ABS, (self,))

    def __lt__(self, other: Any) -> Expression:
        return Call(Function.LT, (self, literal(other)))

    def __le__(self, other: Any) -> Expression:
        return Call(Function.LE, (self, literal(other)))

    def __gt__(self, other: Any) -> Expression:
        return Call(Function.GT, (self, literal(other)))

    def __ge__(self, other: Any) -> Expression:
        return Call(Function.GE, (self, literal(other)))

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return Call(Function.EQ, (self, literal(other)))

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return Call(Function.NE, (self, literal(other)))

    def __and__(self, other: Any) -> Expression:
        return Call(Function.AND, (self, literal(other)))

    def __or__(self, other: Any) -> Expression:
        return Call(Function.OR, (self, literal(other)))

    def __invert__(self) -> Expression:
        return Call(Function.NOT, (self,))

    def between(self, low: Any, high: Any) -> Expression:
        """``low <= self AND self <= high``."""
        parts = (Call(Function.GE, (self, literal(low))), Call(Function.LE, (self, literal(high))))
        return Call(Function.AND, parts)

    def is_null(self) -> Expression:
        """Whether the value is NULL."""
        return Call(Function.IS_NULL, (self,))


@dataclass(frozen=True, eq=False, slots=True)
class Column(Expression):
    """A column of one side."""

    side: Side
    name: str

    def key(self) -> tuple[Any, ...]:
        return (Column, self.side, self.name)

    def __str__(self) -> str:
        plain = self.name.isidentifier() and self.name.isascii() and not is_keyword(self.name)
        quoted = self.name if plain else "`" + self.name.replace("`", "``") + "`"
        return f"{self.side.alias}.{quoted}"


@dataclass(frozen=True, eq=False, slots=True)
class Literal(Expression):
    """A constant."""

    value: Value

    def key(self) -> tuple[Any, ...]:
        return (Literal, type(self.value).__name__, self.value)

    def __str__(self) -> str:
        value = self.value
        if value is None or isinstance(value, bool):
            return str(value).upper() if value is not None else "NULL"
        if isinstance(value, Interval):
            return f"INTERVAL '{value}'"
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, Decimal):
            text = format(value, "f")
            return text if "." in text else text + ".0"
        return str(value)


@dataclass(frozen=True, eq=False, slots=True)
class Call(Expression):
    """A function or an operator applied to arguments."""

    function: Function
    args: tuple[Expression, ...]

    def key(self) -> tuple[Any, ...]:
        return (Call, self.function, *(arg.key() for arg in self.args))

    def walk(self) -> Iterator[Expression]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def __str__(self) -> str:
        return _render(self)


def _render(call: Call) -> str:
    function, args = call.function, call.args
    if function is Function.NEG:
        return f"-({args[0]})"
    if function is Function.NOT:
        return f"NOT ({args[0]})"
    if function is Function.IS_NULL:
        return f"{_wrap(args[0], 5)} IS NULL"
    if function in _PRECEDENCE:
        level = _PRECEDENCE[function]
        # Right operands are wrapped at the same level, so that the tree parses back as it is.
        return f"{_wrap(args[0], level)} {function.value} {_wrap(args[1], level + 1)}"
    return f"{function.value}({', '.join(map(str, args))})"


def _wrap(node: Expression, level: int) -> str:
    negative = isinstance(node, Literal) and str(node).startswith("-")
    below = isinstance(node, Call) and _PRECEDENCE.get(node.function, 9) < level
    comparison = isinstance(node, Call) and level == 4 and _PRECEDENCE.get(node.function, 9) == 4
    return f"({node})" if below or negative or comparison else str(node)


def negated(node: Expression) -> Expression:
    """Minus the node; of a number, the negative number."""
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, int | Decimal | Interval) and not isinstance(value, bool):
        return Literal(-value)
    return Call(Function.NEG, (node,))


@lru_cache(maxsize=4096)
def is_keyword(name: str) -> bool:
    """Whether a name must be quoted in SQL text."""
    return name.upper() in Spark.Tokenizer.KEYWORDS


def literal(value: Any) -> Expression:
    """Turn a Python value into a literal; expressions pass through."""
    if isinstance(value, Expression):
        return value
    if value is None or isinstance(value, bool | int | str | Interval):
        return Literal(value)
    if isinstance(value, timedelta):
        return Literal(Interval.of(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PredicateError(f"{value!r} cannot stand in a predicate; write a finite number")
        return Literal(Decimal(repr(float(value))))
    if isinstance(value, Decimal):
        return Literal(value)
    if hasattr(value, "item"):
        return literal(value.item())
    raise PredicateError(
        f"cannot use {value!r} ({type(value).__name__}) in a predicate; write a number, a string, "
        "a bool or a timedelta"
    )


class Columns:
    """The columns of one side: ``left.price`` or ``left["my column"]``."""

    __slots__ = ("_side",)

    def __init__(self, side: Side) -> None:
        self._side = side

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return Column(self._side, name)

    def __getitem__(self, name: str) -> Column:
        return Column(self._side, name)


left = Columns(Side.LEFT)
right = Columns(Side.RIGHT)
