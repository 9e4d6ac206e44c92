"""The truth: a nested loop over all pairs of rows, in plain Python.

Slow and simple on purpose. It imports no kernel and no index, uses none of the engine's arithmetic,
and reads like the definitions:

    late rows    a row whose event time is below the frontier of its push is not in the output
    windows      which pairs of rows are close enough, by arrival or by event time
    predicate    every filter, every term and every residual is true
    how          which pairs, and which rows without a pair, are in the output

Values. Integers, booleans and decimals are exact numbers of any size. Times are exact whole
nanoseconds (``Moment``); a plain number combined with a date counts days. Floating values are
64-bit IEEE numbers, and numbers combined with them become floats. Order is total: NaN is above
every number and equal to itself, -0.0 equals 0.0. NULL is None. Cost: O(left rows × right rows).
"""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa

from thetastream.condition.custom import Custom
from thetastream.condition.expression import Call, Column, Expression, Function, Literal
from thetastream.condition.functions import TABLE
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Compare, Condition, Relative, StartsWith
from thetastream.duration import Interval
from thetastream.errors import DataError, SchemaError
from thetastream.side import How, Side
from thetastream.truth.moments import DAY, Moment, cast_value, moment_of, read_text
from thetastream.truth.sessions import assign_sessions
from thetastream.window import CountWindow, EventTime, SessionWindow, TimeWindow, Unbounded, Window

__all__ = ["Arrived", "Moment", "Truth", "arrive", "evaluate", "join", "matches", "meet", "read"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

Row = Mapping[str, Any]
Pair = tuple[int | None, int | None]


@dataclass(frozen=True)
class Truth:
    """Row numbers per side (None where a side is missing), and the number of late rows.

    A row's number is its position among all rows ever pushed on its side, including late ones.
    """

    pairs: list[Pair]
    late: dict[str, int]


def join(
    pushes: Iterable[tuple[Any, Any]],
    on: str | Predicate | Expression,
    window: Window,
    how: str | How = "inner",
    self_join: bool = False,
) -> Truth:
    """Join pushes ``(left, right)``, each an Arrow table, a batch or None.

    >>> left, right = pa.table({"x": [1, 5]}), pa.table({"x": [4, 9]})
    >>> join([(left, right)], "abs(l.x - r.x) <= 1", CountWindow(10), how="left").pairs
    [(1, 0), (0, None)]
    """
    predicate, how = Predicate.of(on), How.of(how)
    arrived = arrive(pushes, predicate, window, self_join)
    lefts = arrived[Side.LEFT]
    rights = lefts if self_join else arrived[Side.RIGHT]
    pairs: list[Pair] = [
        (left.position, right.position)
        for left in lefts
        for right in rights
        if not (left.late or right.late or (self_join and left is right))
        and meet(left, right, window)
        and matches(predicate, left.values, right.values)
    ]
    matched = {Side.LEFT: {pair[0] for pair in pairs}, Side.RIGHT: {pair[1] for pair in pairs}}
    answer = list(pairs) if how.pairs else []
    if how is How.SEMI:
        answer += [(row.position, None) for row in lefts if row.position in matched[Side.LEFT]]
    for side, rows in ((Side.LEFT, lefts), (Side.RIGHT, rights)):
        if how.keeps(side):
            alone = [r.position for r in rows if not r.late and r.position not in matched[side]]
            answer += [(p, None) if side is Side.LEFT else (None, p) for p in alone]
    return Truth(answer, {side.value: sum(row.late for row in arrived[side]) for side in Side})


# --- Arrival ------------------------------------------------------------------------------------


@dataclass
class Arrived:
    """A row, and what decides which rows it meets."""

    values: Row
    position: int  # among all rows of its side
    time: Any  # event time, for time windows
    arrival: tuple[Any, ...]  # comparable across both sides
    late: bool = False
    before: int = 0  # c(x): rows of the other side that arrived before this one
    session: int | None = None  # for session windows; None for a row that belongs to none


def arrive(
    pushes: Iterable[tuple[Any, Any]],
    predicate: Predicate,
    window: Window,
    self_join: bool,
    more: Iterable[str] = (),
) -> dict[Side, list[Arrived]]:
    """The rows of both sides in order; ``more`` names further columns of the right side to read."""
    timed = isinstance(window, EventTime)
    marks = window.time if isinstance(window, EventTime) else window.order
    streams = (Side.LEFT,) if self_join else (Side.LEFT, Side.RIGHT)
    rows: dict[Side, list[Arrived]] = {Side.LEFT: [], Side.RIGHT: []}
    for number, push in enumerate(pushes):
        frontier = _frontier([rows[side] for side in streams], window)
        for side in streams:  # left first, then right
            names = {*predicate.columns(side), *window.columns(side).values()}
            if predicate.custom is not None and push[side.position] is not None:
                names |= set(push[side.position].schema.names)
            names |= set(predicate.columns(side.other)) if self_join else set()
            names |= set(more) if side is Side.RIGHT else set()
            table = push[side.position]
            for values in [] if table is None else read(table, names):
                mark = _plain(values[marks[side.position]]) if marks else None
                time, rank = (mark, number) if timed else (None, mark if marks else number)
                position = len(rows[side])
                late = time is not None and time < frontier
                arrival = (rank, side.position, position)
                rows[side].append(Arrived(values, position, time, arrival, late))
    for side in streams:
        others = [row.arrival for row in rows[side if self_join else side.other]]
        if others != sorted(others):
            raise DataError("the ranks of a side must never fall")
        for row in rows[side]:
            row.before = bisect_left(others, row.arrival)
    if isinstance(window, SessionWindow):
        assign_sessions(rows, window, partial(_holds, Compare(Function.EQ, None, None)))
    return rows


def _frontier(streams: list[list[Arrived]], window: Window) -> Any:
    """The smaller of the largest event times so far, minus the lateness."""
    times = [[row.time for row in rows if row.time is not None] for rows in streams]
    if not isinstance(window, EventTime) or not all(times):
        return -math.inf
    return min(map(max, times)) - _plain(window.lateness)


def _plain(value: Any) -> Any:
    return value.nanoseconds if isinstance(value, Moment | Interval) else value


# --- Windows ------------------------------------------------------------------------------------


def meet(left: Arrived, right: Arrived, window: Window) -> bool:
    """Whether two rows are close enough for the window."""
    if not isinstance(window, CountWindow | TimeWindow):
        together = left.session is not None and left.session == right.session
        return together or isinstance(window, Unbounded)
    sizes, slide = [_plain(size) for size in window.sizes], _plain(window.slide)
    if isinstance(window, CountWindow):
        first = left.arrival < right.arrival
        earlier, later, size = (left, right, sizes[0]) if first else (right, left, sizes[1])
        p, c = earlier.position, later.before
        if slide is None:
            return bool(p >= c - size)
        return bool(p // slide > (c - 1) // slide - size // slide)
    if left.time is None or right.time is None:
        return False
    if slide is None:
        return bool(left.time - sizes[1] <= right.time <= left.time + sizes[0])
    early, late = sorted((left.time, right.time))
    size = sizes[0] if left.time < right.time else sizes[1]
    return bool(early // slide > late // slide - size // slide)


# --- Predicates ---------------------------------------------------------------------------------


def matches(on: str | Predicate | Expression, left: Row, right: Row) -> bool:
    """Whether two rows satisfy all filters, terms and residuals.

    >>> matches("abs(l.x - r.x) <= 0.5 AND l.s != r.s", {"x": 1, "s": "a"}, {"x": 1.25, "s": "b"})
    True
    """
    predicate, rows = Predicate.of(on), {Side.LEFT: left, Side.RIGHT: right}
    conditions = [f for side in Side for f in predicate.filters(side)]
    conditions += [node for node in predicate.residuals if node is not predicate.custom]
    if predicate.custom is not None and not _custom(predicate.custom, left, right):
        return False
    for term in (term for term in predicate.terms if not term.is_implied):
        a, b = evaluate(term.left, rows), evaluate(term.right, rows)
        if a is None or b is None:
            return False
        if not any(all(_holds(condition, a, b) for condition in arm) for arm in term.arms):
            return False
    return all(evaluate(condition, rows) is True for condition in conditions)


def _custom(custom: Custom, left: Row, right: Row) -> bool:
    """Whether a user's function is true for one pair."""
    batches = [pa.RecordBatch.from_pylist([dict(row)]) for row in (left, right)]
    return bool(pa.array(custom.function(*batches))[0].as_py())


def _holds(condition: Condition, left: Any, right: Any) -> bool:
    """Whether one condition of a term holds, exactly as written."""
    if isinstance(condition, StartsWith):
        whole, start = (right, left) if condition.start is Side.LEFT else (left, right)
        return bool(whole.startswith(start))
    value, constant = _common(left, right)
    a, b = value(left), value(right)
    if isinstance(condition, Relative):
        base = a if condition.base is Side.LEFT else b
        width = constant(condition.factor) * (abs(base) if condition.absolute else base)
        return _compare(Function.LT if condition.strict else Function.LE, abs(a - b), width)
    if isinstance(condition, Compare):
        if condition.left_shift is not None:
            a = a + constant(condition.left_shift)
        if condition.right_shift is not None:
            b = b + constant(condition.right_shift)
        return _compare(condition.op, a, b)
    difference = a - b if condition.minuend is Side.LEFT else b - a
    edges = ((condition.low, Function.GT, Function.GE), (condition.high, Function.LT, Function.LE))
    return all(
        _compare(open_ if edge.strict else closed, difference, constant(edge.value))
        for edge, open_, closed in edges
        if edge is not None
    )


def _compare(op: Function, a: Any, b: Any) -> bool:
    """Total order: NaN above every number and equal to itself; -0.0 equals 0.0."""
    if isinstance(a, float):
        a, b = ((True, 0.0) if math.isnan(v) else (False, v) for v in (a, b))
    return bool(_COMPARE[op](a, b))


_COMPARE: dict[Function, Callable[[Any, Any], Any]] = {
    Function.EQ: operator.eq,
    Function.NE: operator.ne,
    Function.LT: operator.lt,
    Function.LE: operator.le,
    Function.GT: operator.gt,
    Function.GE: operator.ge,
}


def _common(a: Any, b: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Conversions of two compared values, and of constants, to numbers of one kind."""
    text = {isinstance(v, str | bytes) for v in (a, b)}
    times = {isinstance(v, Moment | Interval) for v in (a, b)}
    floats = isinstance(a, float) or isinstance(b, float)
    if len(text) == 2 or (floats and True in times):
        raise SchemaError(f"cannot compare {a!r} with {b!r}")
    if True in text:
        return (lambda v: v), (lambda v: v)
    if True not in times:
        return (_float, float) if floats else (_exact, _exact)
    dates = _is_date(a) or _is_date(b)

    def nanoseconds(value: Any) -> Any:
        if isinstance(value, Moment | Interval):
            return value.nanoseconds
        if value and not dates:
            raise SchemaError(f"the plain number {value} meets a time; write an INTERVAL")
        return _exact(value) * DAY

    return nanoseconds, nanoseconds


def _is_date(value: Any) -> bool:
    return isinstance(value, Moment) and value.is_date


def _exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, Decimal) else value


def _float(value: Any) -> float:
    if isinstance(value, Decimal):
        scale = -int(value.as_tuple().exponent)
        return float(int(value.scaleb(scale))) / 10.0**scale
    return float(value)


# --- Expressions --------------------------------------------------------------------------------


def evaluate(node: Expression, rows: Mapping[Side, Row]) -> Any:
    """The value of an expression by SQL semantics: three-valued logic, None for NULL."""
    if isinstance(node, Column):
        return rows[node.side][node.name]
    if isinstance(node, Literal):
        if isinstance(node.value, date):
            return moment_of(node.value)
        return float(node.value) if isinstance(node.value, Decimal) else node.value
    assert isinstance(node, Call)
    function = node.function
    values = [evaluate(arg, rows) for arg in node.args]
    if any(isinstance(value, Decimal) for value in values):  # 1.5 that meets a decimal is exact
        pairs = zip(node.args, values, strict=True)
        values = [arg.value if isinstance(arg, Literal) else value for arg, value in pairs]
    if function in (Function.AND, Function.OR):
        decisive = function is Function.OR
        seen = any(value is decisive for value in values)
        return decisive if seen else None if None in values else not decisive
    if function is Function.IS_NULL:
        return values[0] is None
    if function is Function.IF:
        return values[1] if values[0] is True else values[2]
    if function in (Function.COALESCE, Function.LEAST, Function.GREATEST):
        known = [value for value in values if value is not None]
        best = known[0] if known else None
        better = Function.LT if function is Function.LEAST else Function.GT
        for value in [] if function is Function.COALESCE else known:
            cast, _ = _common(best, value)
            best = value if _compare(better, cast(value), cast(best)) else best
        return best
    if None in values:
        return None
    if function is Function.CAST:
        return cast_value(values[0], values[1])
    if function in TABLE and (meaning := TABLE[function].meaning) is not None:
        return meaning(*_read_as(function, values))
    if function.compares:
        values = list(read_text(*values))
        cast, _ = _common(*values)
        return _compare(function, cast(values[0]), cast(values[1]))
    return _OTHERS[function](*values)


def _read_as(function: Function, values: list[Any]) -> list[Any]:
    """The arguments of a function: numbers are floats, but ROUND keeps exact ones."""
    entry = TABLE[function]
    exact = function is Function.ROUND and not isinstance(values[0], float)
    return [
        _float(value) if entry.kind(at) == "number" and not exact else value
        for at, value in enumerate(values)
    ]


def _arithmetic(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, Moment | Interval) or isinstance(b, Moment | Interval):
            cast, _ = _common(a, b)
            return Moment(operate(cast(a), cast(b)), _is_date(a) or _is_date(b))
        if isinstance(a, float) or isinstance(b, float):
            return operate(_float(a), _float(b))
        with localcontext() as context:
            context.prec = 100
            return _fits(operate(a, b))

    return apply


def _unary(operate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        if isinstance(a, Moment | Interval):
            return Moment(operate(a.nanoseconds), _is_date(a))
        return _fits(operate(a))

    return apply


def _fits(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise DataError(f"{value} does not fit into 64 bits")
    return value


def _divide(a: Any, b: Any) -> float | None:
    divisor = _float(b)
    return None if divisor == 0 else _float(a) / divisor


def _modulo(a: int, b: int) -> int | None:
    return None if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


def _like(text: str, pattern: str) -> bool:
    wild = {"%": ".*", "_": "."}
    parts = (wild.get(p) or re.escape(p[-1]) for p in re.findall(r"\\.|.", pattern, re.DOTALL))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _rounded(function: Any, value: Any) -> Any:
    if not isinstance(value, float):
        return function(value)
    return float(function(value)) if math.isfinite(value) else value


_OTHERS: dict[Function, Callable[..., Any]] = {
    Function.NOT: operator.not_,
    Function.ADD: _arithmetic(operator.add),
    Function.SUB: _arithmetic(operator.sub),
    Function.MUL: _arithmetic(operator.mul),
    Function.DIV: _divide,
    Function.MOD: _modulo,
    Function.NEG: _unary(operator.neg),
    Function.ABS: _unary(abs),
    Function.FLOOR: lambda a: _rounded(math.floor, a),
    Function.CEIL: lambda a: _rounded(math.ceil, a),
    Function.SQRT: lambda a: math.sqrt(a) if a >= 0 or math.isnan(a) else math.nan,
    Function.LOWER: str.lower,
    Function.UPPER: str.upper,
    Function.LENGTH: len,
    Function.CONCAT: operator.add,
    Function.LIKE: _like,
}


# --- Reading ------------------------------------------------------------------------------------


def read(table: Any, names: Iterable[str] | None = None) -> list[Row]:
    """Rows of an Arrow table or batch as Python values, times as whole nanoseconds."""
    wanted = list(table.schema.names if names is None else names)
    columns = {name: _column(table.column(name)) for name in wanted}
    return [{name: columns[name][at] for name in wanted} for at in range(table.num_rows)]


def _column(column: Any) -> list[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _column(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return list(column.cast(pa.float64()).to_pylist())
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return list(column.to_pylist())
    is_date = pa.types.is_date(kind)
    unit = _NANOSECONDS[kind.unit] if not is_date else DAY if kind == pa.date32() else 10**6
    whole = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    return [None if value is None else Moment(value * unit, is_date) for value in whole]
