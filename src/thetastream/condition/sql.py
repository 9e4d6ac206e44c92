"""SQL text to expressions, through sqlglot (Spark dialect: backticks quote names).

The aliases ``l`` and ``r`` (or ``left`` and ``right``) name the sides. Every error points at the
offending part of the text. Functions are those of ``functions.py``, under the names that the user
wrote: sqlglot reads a call, but does not translate it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any, ClassVar

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from thetastream.condition import functions
from thetastream.condition.expression import Call, Column, Expression, Function, Literal, negated
from thetastream.condition.times import read_date, read_timestamp
from thetastream.duration import Interval
from thetastream.errors import PredicateError
from thetastream.side import Side

SIDES = {"l": Side.LEFT, "left": Side.LEFT, "r": Side.RIGHT, "right": Side.RIGHT}

_BINARY: dict[type[exp.Expression], Function] = {
    exp.And: Function.AND,
    exp.Or: Function.OR,
    exp.EQ: Function.EQ,
    exp.NEQ: Function.NE,
    exp.LT: Function.LT,
    exp.LTE: Function.LE,
    exp.GT: Function.GT,
    exp.GTE: Function.GE,
    exp.Add: Function.ADD,
    exp.Sub: Function.SUB,
    exp.Mul: Function.MUL,
    exp.Div: Function.DIV,
    exp.Mod: Function.MOD,
    exp.Like: Function.LIKE,
    exp.DPipe: Function.CONCAT,
}
_UNARY: dict[type[exp.Expression], Function] = {exp.Not: Function.NOT, exp.Neg: Function.NEG}
_EXTRACTED = {
    "WEEK": Function.WEEK,
    "DOW": Function.DAYOFWEEK,
    "DOY": Function.DAYOFYEAR,
    **{
        function.value: function
        for function, entry in functions.TABLE.items()
        if entry.takes == "time" and not function.value.startswith("UNIX")
    },
}
"""What EXTRACT takes from a time."""

_KEPT = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM")


class Conditions(Spark):
    """Spark's dialect, in which a call of a function keeps the name and arguments it was given."""

    class Parser(SparkParser):
        STRICT_CAST = True  # CAST and TRY_CAST are two things
        FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.OVERLAPS}
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in _KEPT
        }


def parse(text: str) -> Expression:
    """Parse a condition over ``l`` and ``r``.

    >>> str(parse("abs(l.x - r.x) <= 5 and l.y between r.a and r.b"))
    'ABS(l.x - r.x) <= 5 AND (l.y >= r.a AND l.y <= r.b)'
    """
    return _Reader(text).read(parse_tree(text))


def parse_tree(text: str) -> Any:
    """Parse a condition into sqlglot's tree."""
    if not isinstance(text, str):
        raise PredicateError(
            f"expected SQL text such as 'abs(l.x - r.x) <= 5', a Predicate or an expression; "
            f"got {type(text).__name__}"
        )
    if not text.strip():
        raise PredicateError("the predicate is empty; write for example 'abs(l.x - r.x) <= 5'")
    try:
        tree: Any = sqlglot.parse_one(text, dialect=Conditions)
    except sqlglot.errors.ParseError as error:
        raise _unparsable(error, text) from None
    except sqlglot.errors.TokenError as error:
        raise PredicateError(f"cannot read the predicate: {error}", text) from None
    return tree.transform(lambda node: _spelled_out(node, text))


def _unparsable(error: sqlglot.errors.ParseError, text: str) -> PredicateError:
    first: dict[str, Any] = error.errors[0] if error.errors else {}
    before, bad = str(first.get("start_context", "")), str(first.get("highlight", ""))
    start = text.find(before + bad) + len(before) if before + bad in text else -1
    near = f" near {bad!r}" if bad else ""
    end = start + max(len(bad), 1)
    return PredicateError(f"cannot parse the predicate{near}", text, start, end)


def _spelled_out(node: Any, text: str) -> Any:
    """``overlaps`` and ``contains`` of intervals as the comparisons that they stand for."""
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    args = node.expressions
    if name == "OVERLAPS":
        _check_count(node, 4, "start, end, start, end", text)
        first, last, start, end = args
        pairs = [(first, last), (start, end), (first, end), (start, last)]
    elif name == "CONTAINS" and len(args) != 2:
        _check_count(node, 3, "start, end, value", text)
        pairs = [(args[0], args[2]), (args[2], args[1])]
    else:
        return node
    tests: list[Any] = [exp.LTE(this=a.copy(), expression=b.copy()) for a, b in pairs]
    return exp.Paren(this=reduce(lambda a, b: exp.And(this=a, expression=b), tests))


def _check_count(node: Any, count: int, names: str, text: str) -> None:
    if len(node.expressions) != count:
        message = f"{node.name.upper()} takes {count} arguments ({names})"
        raise _at_name(f"{message}; got {len(node.expressions)}", node, text)


def _at_name(message: str, node: Any, text: str) -> PredicateError:
    """An error that points at the name of a function."""
    return PredicateError(message, text, node.meta.get("start", -1), node.meta.get("end", -2) + 1)


class _Reader:
    """Turns sqlglot's tree into ours; keeps the text so that errors can point into it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._special: dict[type[exp.Expression], Callable[[Any], Expression]] = {
            exp.Paren: lambda node: self.read(node.this),
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Boolean: lambda node: Literal(bool(node.this)),
            exp.Null: lambda node: Literal(None),
            exp.Interval: self._interval,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Anonymous: self._function,
            exp.Cast: self._cast,
            exp.Extract: self._extract,
            exp.Substring: lambda node: self._call(
                "SUBSTRING", [node.this, node.args.get("start"), node.args.get("length")], node
            ),
            exp.Trim: self._trim,
            exp.Overlaps: self._overlaps,
        }

    def read(self, node: exp.Expression) -> Expression:
        kind = type(node)
        if node.args.get("negate"):  # NOT LIKE, which sqlglot does not wrap in a Not
            plain = node.copy()
            plain.set("negate", None)
            return Call(Function.NOT, (self.read(plain),))
        if kind in self._special:
            return self._special[kind](node)
        if kind in _BINARY:
            return Call(_BINARY[kind], (self.read(node.this), self.read(node.expression)))
        if kind in _UNARY:
            operand = self.read(node.this)
            return negated(operand) if kind is exp.Neg else Call(_UNARY[kind], (operand,))
        raise self._error(
            f"{node.sql(dialect='spark')!r} is not supported; a predicate may use comparisons, "
            "arithmetic, AND, OR, NOT, BETWEEN, IN, IS NULL, LIKE, CASE, CAST and the functions "
            "that docs/functions.md lists",
            node,
        )

    def _column(self, node: exp.Column) -> Expression:
        side, name = node.table, node.name
        if node.args.get("db"):
            raise self._error(
                f"{node.sql(dialect='spark')!r} reads a field of a struct; copy it into a column "
                "of its own first",
                node,
            )
        if side.lower() not in SIDES:
            what = f"unknown side {side!r}" if side else f"ambiguous side of column {name!r}"
            raise self._error(
                f"{what}; write l.{name} for the left or r.{name} for the right", node
            )
        return Column(SIDES[side.lower()], name)

    def _literal(self, node: exp.Literal) -> Expression:
        if node.is_string:
            return Literal(str(node.this))
        text = str(node.this)
        if text.lstrip("+-").isdigit():
            return Literal(int(text))
        try:
            return Literal(Decimal(text))
        except InvalidOperation:
            raise self._error(f"cannot read the number {text!r}", node) from None

    def _interval(self, node: exp.Interval) -> Expression:
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal):
            raise self._error("an INTERVAL must be a constant such as INTERVAL '5' SECOND", node)
        text = f"{node.this.this} {unit}" if unit is not None else str(node.this.this)
        try:
            return Literal(Interval.of(text))
        except ValueError as error:
            raise self._at_text(str(error), str(unit)) from None

    def _at_text(self, message: str, word: str) -> PredicateError:
        """An error that points at a word, where the parser keeps no place."""
        start = self._text.upper().find(word.upper())
        message = message.replace(word, self._text[start : start + len(word)], 1)
        return PredicateError(message, self._text, start, start + len(word))

    def _between(self, node: exp.Between) -> Expression:
        if node.args.get("symmetric"):
            raise self._error("BETWEEN SYMMETRIC is not supported; order the bounds", node)
        low, high = self.read(node.args["low"]), self.read(node.args["high"])
        return self.read(node.this).between(low, high)

    def _in(self, node: exp.In) -> Expression:
        if not node.expressions:
            raise self._error("IN needs a list of constants or expressions", node)
        this = self.read(node.this)
        tests = [Call(Function.EQ, (this, self.read(item))) for item in node.expressions]
        return reduce(lambda a, b: Call(Function.OR, (a, b)), tests)

    def _is(self, node: exp.Is) -> Expression:
        if not isinstance(node.expression, exp.Null):
            raise self._error("only IS NULL and IS NOT NULL are supported", node)
        return self.read(node.this).is_null()

    def _case(self, node: exp.Case) -> Expression:
        if node.this is not None:
            raise self._error("write CASE WHEN condition THEN …, not CASE value WHEN …", node)
        result = self._otherwise(node.args.get("default"))
        for branch in reversed(node.args["ifs"]):
            test, then = self.read(branch.this), self.read(branch.args["true"])
            result = Call(Function.IF, (test, then, result))
        return result

    def _if(self, node: exp.If) -> Expression:
        last = self._otherwise(node.args.get("false"))
        return Call(Function.IF, (self.read(node.this), self.read(node.args["true"]), last))

    def _otherwise(self, node: exp.Expression | None) -> Expression:
        return Literal(None) if node is None else self.read(node)

    # --- Functions ------------------------------------------------------------------------------

    def _function(self, node: exp.Anonymous) -> Expression:
        name, args = node.name.upper(), node.expressions
        if name == "MOD" and len(args) == 2:
            return Call(Function.MOD, (self.read(args[0]), self.read(args[1])))
        if name == "DATE" and len(args) == 1:
            return Call(Function.CAST, (self.read(args[0]), Literal("DATE")))
        return self._call(node.name, args, node)

    def _call(self, name: str, given: list[Any], node: exp.Expression) -> Expression:
        entry = functions.named(name)
        args = [arg for arg in given if arg is not None]
        if entry is None:
            raise self._named(functions.unknown(name), node)
        if refusal := entry.refusal(len(args)):
            raise self._named(refusal, node)
        values = [self.read(arg) for arg in args]
        if entry.function is Function.CONCAT:
            return reduce(lambda a, b: Call(Function.CONCAT, (a, b)), values)
        return Call(entry.function, tuple(values))

    def _named(self, message: str, node: exp.Expression) -> PredicateError:
        at_name = "start" in node.meta
        return _at_name(message, node, self._text) if at_name else self._error(message, node)

    def _overlaps(self, node: exp.Overlaps) -> Expression:
        raise self._error(
            "write OVERLAPS(l.s, l.e, r.s, r.e), where the ends belong to the intervals, or "
            "l.s < r.e AND r.s < l.e",
            node,
        )

    def _trim(self, node: exp.Trim) -> Expression:
        if node.args.get("position") or node.expression:
            raise self._error("TRIM takes one string here; LTRIM and RTRIM trim one end", node)
        return self._call("TRIM", [node.this], node)

    def _extract(self, node: exp.Extract) -> Expression:
        field = node.this.name.upper()
        if field not in _EXTRACTED:
            raise self._error(
                f"EXTRACT takes {', '.join(_EXTRACTED)} from a time; got {field}", node
            )
        return Call(_EXTRACTED[field], (self.read(node.expression),))

    def _cast(self, node: exp.Cast) -> Expression:
        kind = node.to.sql(dialect="spark").upper()
        if kind == "TIMESTAMP_LTZ":
            kind = "TIMESTAMP"
        constant = isinstance(node.this, exp.Literal) and node.this.is_string
        if constant and kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            text = str(node.this.this)
            try:
                return Literal(read_date(text) if kind == "DATE" else read_timestamp(text))
            except ValueError as error:
                raise self._error(str(error), node.this) from None
        try:
            return functions.cast(self.read(node.this), kind)
        except PredicateError as error:
            raise error if error.text else self._error(error.message, node) from None

    def _error(self, message: str, node: exp.Expression) -> PredicateError:
        spans = [
            (part.meta["start"], part.meta["end"] + 1)
            for part in node.find_all(exp.Identifier, exp.Literal, exp.Func)
            if "start" in part.meta
        ]
        if not spans:
            return PredicateError(message, self._text)
        return PredicateError(message, self._text, min(spans)[0], max(end for _, end in spans))
