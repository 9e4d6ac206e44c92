"""Side expressions that Spark computes: any SQL over one side becomes a column of its own.

    round(l.price * 1.1, 2) <= r.limit + 5 AND l.name RLIKE 'a.*'
    ──────────────────────                     ──────────────────
    l.`__e0` <= r.limit + 5  AND  l.`__e1`     with __e0, __e1 computed by Spark on the left side

A plain column, and a column plus or minus a constant, stay as they are: the engine compares those
exactly, and recognises bands in them. The engine also computes whatever mixes both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sqlglot import exp

from thetastream.condition.expression import Expression
from thetastream.condition.functions import named
from thetastream.condition.predicate import Predicate
from thetastream.condition.sql import SIDES, parse_tree
from thetastream.errors import PredicateError, ThetastreamError
from thetastream.side import Side

_RANDOM = {
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle",
    "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
    "now", "current_timestamp", "current_date", "curdate", "localtimestamp", "current_time",
    "reflect", "java_method", "try_reflect",
}  # fmt: skip
_CLOCK = "unix_timestamp"  # the time of day, without arguments
_SUMS = (exp.Add, exp.Sub)


@dataclass
class Split:
    """A predicate for the engine, and the Spark SQL of the columns it needs beyond the user's.

    ``multiples`` names the computed columns that are a constant times another expression,
    ``written`` what the user wrote instead of each computed column.
    """

    on: str
    computed: dict[Side, dict[str, str]] = field(
        default_factory=lambda: {side: {} for side in Side}
    )
    multiples: dict[tuple[Side, str], tuple[str, Fraction]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def naming(self, text: str) -> Iterator[None]:
        """Let errors show what the user wrote instead of computed columns."""
        try:
            yield
        except ThetastreamError as error:
            told = error.message if isinstance(error, PredicateError) else str(error)
            message = told
            for internal, written in sorted(self.written.items(), key=lambda p: -len(p[0])):
                message = message.replace(internal, written)
            if message == told:
                raise
            if isinstance(error, PredicateError):
                raise PredicateError(message, text) from None
            raise type(error)(message) from None

    def predicate(self, text: str) -> Predicate:
        """Parse it; an error shows ``text``, which the user wrote."""
        try:
            return Predicate.parse(self.on)
        except PredicateError as error:
            word = error.text[slice(*error.span)] if error.span else ""
            start = text.upper().find(word.upper()) if word else -1
            end = start + len(word)
            message = error.message
            if start >= 0:  # a lambda, because the text may have backslashes
                whole = rf"(?<!\w){re.escape(word)}(?!\w)"
                message = re.sub(whole, lambda _: text[start:end], message)
            raise PredicateError(message, text, start, end) from None


def split(on: str | Predicate | Expression, frames: Mapping[Side, Any] | None = None) -> Split:
    """Extract the expressions that Spark is to compute.

    ``frames`` are the DataFrames whose columns may be written in other letters, as in Spark.
    """
    text = on if isinstance(on, str) else str(Predicate.of(on))
    return Splitter(text, frames).split()


class Splitter:
    """Walks over a condition and extracts what Spark is to compute."""

    def __init__(self, text: str, frames: Mapping[Side, Any] | None = None) -> None:
        self._text = text
        self._frames = frames
        self._parts = Split(text)
        self._names: dict[tuple[Side, str], str] = {}

    def split(self) -> Split:
        tree = parse_tree(self._text)
        self._refuse_random(tree)
        self._spell_columns(tree)
        replaced = self._visit(tree, condition=True)
        self._parts.on = replaced.sql(dialect="spark")
        return self._parts

    def _spell_columns(self, tree: Any) -> None:
        """Write columns as the DataFrames do, where only upper and lower case differ."""
        if self._frames is None:
            return
        known = {side: spellings(frame) for side, frame in self._frames.items()}
        for column in tree.find_all(exp.Column):
            side = _side_of(column)
            if side is not None:
                name = _parts(column)[1]
                spelled = known.get(side, {}).get(name.name.lower(), name.name)
                name.set("this", spelled)

    def _refuse_random(self, tree: Any) -> None:
        for node in tree.find_all(exp.Func):
            called = isinstance(node, exp.Anonymous)
            name = (node.name if called else node.sql_name()).lower()
            if name in _RANDOM or (called and name == _CLOCK and not node.expressions):
                raise PredicateError(
                    f"{node.sql(dialect='spark')!r} returns another value each time, so a retried "
                    "task would not find the same rows; compute it upstream and store it, or leave "
                    "it out",
                    self._text,
                )

    def _visit(self, node: Any, *, condition: bool) -> Any:
        """The node with one-sided parts replaced. ``condition``: a truth value is needed here."""
        sides = sides_of(node)
        if _is_relative_band(node):
            return node.copy()
        if len(sides) != 1:
            if isinstance(node, exp.And | exp.Or | exp.Not | exp.Paren):
                return self._children(node, condition=condition)
            return self._children(node, condition=False)
        (side,) = sides
        if is_plain(node):
            if condition:
                return exp.EQ(this=node.copy(), expression=exp.true())
            return node.copy()
        if isinstance(node, exp.Paren):
            return exp.Paren(this=self._visit(node.this, condition=condition))
        if isinstance(node, _SUMS) and not condition:
            for place in ("this", "expression"):
                other = node.args["expression" if place == "this" else "this"]
                if _is_constant(other) and not (
                    isinstance(node, exp.Sub) and place == "expression"
                ):
                    copy = node.copy()
                    copy.set(place, self._visit(node.args[place], condition=False))
                    return copy
        column = self._column(side, node)
        return exp.EQ(this=column, expression=exp.true()) if condition else column

    def _children(self, node: Any, *, condition: bool) -> Any:
        copy = node.copy()
        for name, value in node.args.items():
            if isinstance(value, exp.Expression):
                copy.set(name, self._visit(value, condition=condition))
            elif isinstance(value, list) and value and isinstance(value[0], exp.Expression):
                copy.set(name, [self._visit(item, condition=False) for item in value])
        return copy

    def _column(self, side: Side, node: Any) -> Any:
        sql = _unqualified(node).sql(dialect="spark")
        name = self._names.get((side, sql))
        if name is None:
            name = f"__e{len(self._names)}"
            self._names[(side, sql)] = name
            self._parts.computed[side][name] = sql
            self._parts.written[f"{side.alias}.{name}"] = node.sql(dialect="spark")
            base, factor = _factored(node)
            if factor != 1:
                base_sql = _unqualified(base).sql(dialect="spark")
                self._parts.multiples[(side, name)] = (base_sql, factor)
        return exp.column(name, table=side.alias, quoted=True)


def spellings(frame: Any) -> dict[str, str]:
    """The columns of a DataFrame by their names in lower case; none if Spark tells them apart.

    A name that is written in small letters already is not there, nor one that is not unique.
    """
    if str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return {}
    names: dict[str, str] = {}
    for name in frame.columns:
        names[name.lower()] = name
    return names


def _number(node: Any) -> Fraction | None:
    """The value of a number, or of a sum or difference of numbers."""
    node = node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string:
        return Fraction(node.this)
    if isinstance(node, _SUMS):
        first, second = _number(node.this), _number(node.expression)
        if first is None or second is None:
            return None
        return first + second if isinstance(node, exp.Add) else first - second
    return None


def sides_of(node: Any) -> set[Side]:
    """The sides whose columns a part of a condition reads."""
    sides = map(_side_of, node.find_all(exp.Column))
    return {side for side in sides if side is not None}


def _is_relative_band(node: Any) -> bool:
    """Whether this is ``abs(l.x - r.x) <= constant * column``, which the engine indexes."""
    if not isinstance(node, exp.LTE | exp.LT | exp.GTE | exp.GT):
        return False
    small, large = node.this, node.expression
    if isinstance(node, exp.GTE | exp.GT):
        small, large = large, small
    large = large.unnest()
    if not _is_size(small) or not isinstance(large, exp.Mul):
        return False
    difference = small.expressions[0]
    if not isinstance(difference, exp.Sub) or len(sides_of(difference)) != len(Side):
        return False
    bases = [part for part in (large.this, large.expression) if sides_of(part)]
    if len(bases) != 1:
        return False
    base: Any = bases[0].expressions[0] if _is_size(bases[0]) else bases[0]
    return all(is_plain(part) for part in (difference.this, difference.expression, base))


def _is_size(node: Any) -> bool:
    """Whether this is ``abs(…)``."""
    return (
        isinstance(node, exp.Anonymous)
        and node.name.upper() == "ABS"
        and len(node.expressions) == 1
    )


def _parts(column: Any) -> list[Any]:
    """The identifiers of a dotted name, the side first."""
    return [
        column.args[name] for name in ("catalog", "db", "table", "this") if column.args.get(name)
    ]


def _side_of(column: Any) -> Side | None:
    return SIDES.get(_parts(column)[0].name.lower()) if len(_parts(column)) > 1 else None


def is_plain(node: Any) -> bool:
    """Whether a part of a condition is a column and nothing else."""
    return isinstance(node, exp.Column) and len(_parts(node)) == 2


def _is_constant(node: Any) -> bool:
    return isinstance(node, exp.Literal | exp.Interval) or (
        isinstance(node, exp.Neg | exp.Paren) and _is_constant(node.this)
    )


def _factored(node: Any) -> tuple[Any, Fraction]:
    """A product with constants as an expression and its factor; otherwise itself and 1."""
    if isinstance(node, exp.Paren):
        return _factored(node.this)
    if isinstance(node, exp.Mul):
        for number, rest in ((node.this, node.expression), (node.expression, node.this)):
            if (value := _number(number)) is not None:
                base, factor = _factored(rest)
                return base, factor * value
    return node, Fraction(1)


def _unqualified(node: Any) -> Any:
    """The expression over the columns of its side alone, names quoted, functions as Spark's."""

    def strip(part: Any) -> Any:
        if isinstance(part, exp.Anonymous) and (entry := named(part.name)) is not None:
            part.set("this", entry.name)
        if not isinstance(part, exp.Column) or _side_of(part) is None:
            return part
        rest = [exp.to_identifier(piece.name, quoted=True) for piece in _parts(part)[1:]]
        return exp.Dot.build(rest) if len(rest) > 1 else exp.Column(this=rest[0])

    return node.copy().transform(strip)
