"""Expressions over a left and a right row: plain trees, built from SQL text or in Python.

    abs(left.price - right.price) <= 0.05          Call(LE, Call(ABS, Call(SUB, …)), Literal)

Columns know their side. Literals are exact: a number with a point is a Decimal until it meets a
floating column. Everything else is a call. Python operators build the same trees as the parser, and
``str()`` returns SQL text that parses back to an equal tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlglot.dialects.spark import Spark

from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side

Value = int | Decimal | str | bool | Interval | date | None


class Function(Enum):
    """Every function and operator of an expression. The value is its SQL spelling."""

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
    # Not in SQL text: a pattern up to its first wildcard, and the ends of values within a width.
    LITERAL_PREFIX = "LITERAL_PREFIX"
    LOWEST_WITHIN = "LOWEST_WITHIN"
    HIGHEST_WITHIN = "HIGHEST_WITHIN"
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
    CAST = "CAST"
    SIGN = "SIGN"
    ROUND = "ROUND"
    EXP = "EXP"
    EXPM1 = "EXPM1"
    POWER = "POWER"
    LN = "LN"
    LOG2 = "LOG2"
    LOG10 = "LOG10"
    LOG1P = "LOG1P"
    LOG = "LOG"
    SIN = "SIN"
    COS = "COS"
    TAN = "TAN"
    ASIN = "ASIN"
    ACOS = "ACOS"
    ATAN = "ATAN"
    ATAN2 = "ATAN2"
    SINH = "SINH"
    COSH = "COSH"
    TANH = "TANH"
    ASINH = "ASINH"
    ACOSH = "ACOSH"
    ATANH = "ATANH"
    DEGREES = "DEGREES"
    RADIANS = "RADIANS"
    PI = "PI"
    E = "E"
    OCTET_LENGTH = "OCTET_LENGTH"
    TRIM = "TRIM"
    LTRIM = "LTRIM"
    RTRIM = "RTRIM"
    REVERSE = "REVERSE"
    SUBSTRING = "SUBSTRING"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    REPEAT = "REPEAT"
    REPLACE = "REPLACE"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"
    CONTAINS = "CONTAINS"
    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEKOFYEAR"
    DAY = "DAY"
    DAYOFWEEK = "DAYOFWEEK"
    WEEKDAY = "WEEKDAY"
    DAYOFYEAR = "DAYOFYEAR"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"
    DATEDIFF = "DATEDIFF"
    UNIX_SECONDS = "UNIX_SECONDS"
    UNIX_MILLIS = "UNIX_MILLIS"
    UNIX_MICROS = "UNIX_MICROS"

    @property
    def compares(self) -> bool:
        """Whether this is one of ``= != < <= > >=``."""
        return self in _FLIP

    @property
    def implies(self) -> bool:
        """Whether this only finds candidates, for a condition that implies it."""
        return self in (Function.LITERAL_PREFIX, Function.LOWEST_WITHIN, Function.HIGHEST_WITHIN)

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
_LEVELS = (  # the weakest binding first
    (Function.OR,),
    (Function.AND,),
    (Function.NOT,),
    (*_FLIP, Function.IS_NULL, Function.LIKE),
    (Function.ADD, Function.SUB),
    (Function.MUL, Function.DIV, Function.MOD),
    (Function.NEG,),
)
_PRECEDENCE = {function: at for at, level in enumerate(_LEVELS, start=1) for function in level}


def _operator(function: Function) -> Callable[[Expression, Any], Expression]:
    """A Python operator that builds a call."""
    return lambda self, other: Call(function, (self, literal(other)))


def _reflected(function: Function) -> Callable[[Expression, Any], Expression]:
    """The same, for a plain value on the left."""
    return lambda self, other: Call(function, (literal(other), self))


class Expression:
    """A node of the tree. ``==`` builds a tree too; use ``same`` to test equality."""

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
        names = (n.name for n in self.walk() if isinstance(n, Column) and n.side is side)
        return list(dict.fromkeys(names))

    def __bool__(self) -> bool:
        raise PredicateError(
            "an expression has no truth value; join conditions with & | ~ and not with and/or/not, "
            "and write a < b and b < c as (a < b) & (b < c)"
        )

    __add__ = _operator(Function.ADD)
    __radd__ = _reflected(Function.ADD)
    __sub__ = _operator(Function.SUB)
    __rsub__ = _reflected(Function.SUB)
    __mul__ = _operator(Function.MUL)
    __rmul__ = _reflected(Function.MUL)
    __truediv__ = _operator(Function.DIV)
    __mod__ = _operator(Function.MOD)
    __lt__ = _operator(Function.LT)
    __le__ = _operator(Function.LE)
    __gt__ = _operator(Function.GT)
    __ge__ = _operator(Function.GE)
    __eq__ = _operator(Function.EQ)  # type: ignore[assignment]
    __ne__ = _operator(Function.NE)  # type: ignore[assignment]
    __and__ = _operator(Function.AND)
    __or__ = _operator(Function.OR)

    def __neg__(self) -> Expression:
        return negated(self)

    def __abs__(self) -> Expression:
        return Call(Function.ABS, (self,))

    def __invert__(self) -> Expression:
        return Call(Function.NOT, (self,))

    def between(self, low: Any, high: Any) -> Expression:
        """``low <= self AND self <= high``."""
        return Call(Function.AND, (self >= low, self <= high))

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
    """A constant value."""

    value: Value

    def key(self) -> tuple[Any, ...]:
        return (Literal, type(self.value).__name__, self.value)

    def __str__(self) -> str:
        value = self.value
        if value is None or isinstance(value, bool):
            return str(value).upper() if value is not None else "NULL"
        if isinstance(value, Interval):
            return f"INTERVAL '{value}'"
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, Decimal):
            text = format(value, "f")
            if len(text) > _LONGEST:
                return format(value, "E")
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
    if function is Function.CAST:
        return f"CAST({args[0]} AS {args[1].value})"  # type: ignore[attr-defined]
    if function is Function.NOT:
        return f"NOT ({args[0]})"
    if function is Function.IS_NULL:
        return f"{_wrap(args[0], 5)} IS NULL"
    if function in _PRECEDENCE:
        level = _PRECEDENCE[function]
        # Wrap right operands at the same level too, so that the text parses back to this tree.
        return f"{_wrap(args[0], level)} {function.value} {_wrap(args[1], level + 1)}"
    return f"{function.value}({', '.join(map(str, args))})"


def _wrap(node: Expression, level: int) -> str:
    if isinstance(node, Call):
        own = _PRECEDENCE.get(node.function, 9)
        wrapped = own < level or own == level == 4  # comparisons do not chain
    else:
        wrapped = isinstance(node, Literal) and str(node).startswith("-")
    return f"({node})" if wrapped else str(node)


def negated(node: Expression) -> Expression:
    """The negative of a node; a number becomes its negative."""
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, int | Decimal | Interval) and not isinstance(value, bool):
        return Literal(-value)
    return Call(Function.NEG, (node,))


_LONGEST = 40  # characters of a number without an exponent


@lru_cache(maxsize=4096)
def is_keyword(name: str) -> bool:
    """Whether a name must be quoted in SQL text."""
    return name.upper() in Spark.Tokenizer.KEYWORDS


def literal(value: Any) -> Expression:
    """Turn a Python value into a literal; expressions pass through."""
    if isinstance(value, Expression):
        return value
    if value is None or isinstance(value, bool | int | str | Interval | Decimal | date):
        return Literal(_exact_time(value) if isinstance(value, datetime) else value)
    if isinstance(value, timedelta):
        return Literal(Interval.of(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PredicateError(f"{value!r} is not allowed in a predicate; write a finite number")
        return Literal(Decimal(repr(float(value))))
    if type(value).__name__ in ("datetime64", "timedelta64"):
        kind = type(value).__name__
        if "generic" not in str(value.dtype) and value.astype(f"{kind}[us]") == value:
            return literal(value.astype(f"{kind}[us]").item())
    elif hasattr(value, "item"):
        return literal(value.item())
    raise PredicateError(
        f"cannot use {value!r} ({type(value).__name__}) in a predicate; write a number, a string, "
        "a bool, a date, a datetime or a timedelta of whole microseconds"
    )


def _exact_time(value: datetime) -> datetime:
    """A plain datetime; pandas adds nanoseconds to it."""
    if getattr(value, "nanosecond", 0):
        raise PredicateError(f"{value} is finer than a microsecond; round it")
    return datetime.fromisoformat(value.isoformat()) if type(value) is not datetime else value


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
