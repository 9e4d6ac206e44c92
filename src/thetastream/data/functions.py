"""The functions of a condition over Arrow arrays, by the table ``condition/functions.py``.

Most are one call of Arrow over arguments of one type. A few are made of several calls. What Arrow
computes for constant options only (``SUBSTRING(l.s, l.from)``) is computed row by row from the
function's meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream._jit.arrays import LEAST, MOST, Array, Floats
from thetastream.condition import meaning
from thetastream.condition.expression import Call, Expression, Function, Literal
from thetastream.condition.functions import TABLE, Entry
from thetastream.data.kernels.prefixes import find_beginnings
from thetastream.data.memory import bytes_of
from thetastream.data.values import align, doubles, is_text, null_mask, to_double
from thetastream.errors import SchemaError
from thetastream.schema import NUMERIC, KeyKind, kind_of

_TIMES = (KeyKind.DATE, KeyKind.NAIVE, KeyKind.ZONED)
_OF_BYTES = (Function.STARTS_WITH, Function.ENDS_WITH, Function.CONTAINS)
_NAMES = {"number": "a number", "whole": "a whole number", "text": "a string", "time": "a time"}


def call(args: list[pa.Array], node: Call) -> pa.Array:
    """The values of a function of the table."""
    entry = TABLE[node.function]
    given = [_fit(values, entry.kind(at), node) for at, values in enumerate(args)]
    if any(pat.is_null(values.type) for values in args):
        return pa.nulls(len(align(*args)[0]), _result(entry))
    if entry.function in _OWN:
        return _OWN[entry.function](given, node)
    if entry.arrow:
        values = pc.call_function(entry.arrow, align(*given))
        return values.cast(pa.int64()) if pat.is_integer(values.type) else values
    return _by_row(given, node)


def _fit(values: pa.Array, kind: str, node: Call) -> pa.Array:
    """An argument in the one type of its kind; SchemaError for another kind of values."""
    family = kind_of(values.type)
    if pat.is_null(values.type) or kind == "any":
        return values
    if kind == "constant":
        return values
    if kind == "number" and family in NUMERIC:
        exact = node.function is Function.ROUND and not pat.is_floating(values.type)
        return values if exact else to_double(values)
    if kind == "whole" and pat.is_integer(values.type):
        return values.cast(pa.int64())
    if kind == "text" and (is_text(values.type) or _is_binary(values.type, node)):
        if node.function not in _OF_BYTES:
            values.validate(full=True)
        return values
    if kind == "time" and family in _TIMES:
        clock = node.function in (Function.HOUR, Function.MINUTE, Function.SECOND)
        return values.cast(pa.timestamp("s")) if clock and family is KeyKind.DATE else values
    raise SchemaError(
        f"{node}: {node.function.value} takes {_NAMES[kind]} here, and got {values.type}; cast it"
    )


def _is_binary(kind: pa.DataType, node: Call) -> bool:
    """Whether values are binary, and the function takes such."""
    return node.function in _OF_BYTES and kind_of(kind) is KeyKind.BYTES and not is_text(kind)


def _result(entry: Entry) -> pa.DataType:
    """The type of a function of NULL."""
    if entry.function in (Function.STARTS_WITH, Function.ENDS_WITH, Function.CONTAINS):
        return pa.bool_()
    if entry.function is Function.OCTET_LENGTH or entry.kinds[:1] == ("time",):
        return pa.int64()
    return pa.string() if entry.kinds[:1] == ("text",) else pa.float64()


# --- Numbers ------------------------------------------------------------------------------------

Own = Callable[[list[pa.Array], Call], pa.Array]


def _logarithm(least: float, name: str) -> Own:
    """NULL where the argument is not above ``least``."""

    def of(args: list[pa.Array], node: Call) -> pa.Array:
        (values,) = args
        return pc.call_function(name, [_above(values, least)])

    return of


def _above(values: pa.Array, least: float) -> pa.Array:
    return pc.if_else(pc.less_equal(values, least), pa.scalar(None, pa.float64()), values)


def _log(args: list[pa.Array], node: Call) -> pa.Array:
    base, values = (pc.ln(_above(values, 0.0)) for values in align(*args))
    return pc.divide(values, base)


def _power(args: list[pa.Array], node: Call) -> pa.Array:
    values, exponents = args
    if _argument(node, 1) == 2:
        return pc.multiply(values, values)
    values, exponents = align(values, exponents)
    squares = pc.multiply(values, values)
    return pc.if_else(pc.equal(exponents, 2.0), squares, pc.power(values, exponents))


def _constant(value: float) -> Own:
    return lambda args, node: pa.array([value])


def _scaled(factor: float) -> Own:
    return lambda args, node: pc.multiply(args[0], factor)


def _round(args: list[pa.Array], node: Call) -> pa.Array:
    digits = _whole_constant(node, 1, 0)
    if digits is None or not 0 <= digits <= 15:
        raise SchemaError(f"{node}: the second argument of ROUND must be a constant from 0 to 15")
    values = args[0]
    if pat.is_integer(values.type):
        return values.cast(pa.int64())
    return pc.round(values, digits, "half_towards_infinity")


# --- Strings ------------------------------------------------------------------------------------


def _by_row(args: list[pa.Array], node: Call) -> pa.Array:
    """Row by row, from the meaning of the function."""
    entry = TABLE[node.function]
    assert entry.meaning is not None
    columns = [values.to_pylist() for values in align(*args)]
    rows = zip(*columns, strict=True)
    results = [None if None in row else entry.meaning(*row) for row in rows]
    return pa.array(results, _result(entry))


def _trimmed(name: str) -> Own:
    return lambda args, node: pc.call_function(name, [args[0]], pc.TrimOptions(" "))


def _substring(args: list[pa.Array], node: Call) -> pa.Array:
    place, length = _whole_constant(node, 1), _whole_constant(node, 2, -1)
    if place is None or place < 1 or length is None or (length < 0 and len(args) > 2):
        return _by_row(args, node)
    stop = None if length < 0 else place - 1 + length
    return pc.utf8_slice_codeunits(args[0], place - 1, stop)


def _first(args: list[pa.Array], node: Call) -> pa.Array:
    count = _whole_constant(node, 1)
    if count is None:
        return _by_row(args, node)
    return pc.utf8_slice_codeunits(args[0], 0, max(0, count))


def _last(args: list[pa.Array], node: Call) -> pa.Array:
    count = _whole_constant(node, 1)
    if count is None or count <= 0:
        return _by_row(args, node)
    return pc.utf8_slice_codeunits(args[0], -count)


def _repeat(args: list[pa.Array], node: Call) -> pa.Array:
    values, counts = align(*args)
    return pc.binary_repeat(values, pc.max_element_wise(counts, 0, skip_nulls=False))


def _replace(args: list[pa.Array], node: Call) -> pa.Array:
    old, new = _text_constant(node, 1), _text_constant(node, 2)
    if not old or new is None:
        return _by_row(args, node)
    return pc.replace_substring(args[0], old, new)


def _matched(name: str) -> Own:
    def of(args: list[pa.Array], node: Call) -> pa.Array:
        pattern = _text_constant(node, 1)
        if pattern is not None:
            values = args[0] if is_text(args[0].type) else args[0].cast(pa.large_binary())
            return pc.call_function(name, [values], pc.MatchSubstringOptions(pattern))
        if is_text(args[0].type) != is_text(args[1].type):
            raise SchemaError(
                f"{node}: {args[0].type} and {args[1].type} cannot be compared; cast one of them"
            )
        return _starting(*align(*args)) if name == "starts_with" else _by_row(args, node)

    return of


def _starting(values: pa.Array, starts: pa.Array) -> pa.Array:
    """Whether each value begins with the start beside it."""
    begins = np.empty(len(values), np.bool_)
    find_beginnings(*bytes_of(values), *bytes_of(starts), begins)
    return pa.array(begins, mask=null_mask(values, starts))


def _argument(node: Call, at: int) -> Any:
    """The value of a constant argument; None if it is missing or not a constant."""
    arg: Expression | None = node.args[at] if at < len(node.args) else None
    return arg.value if isinstance(arg, Literal) else None


def _whole_constant(node: Call, at: int, missing: int | None = None) -> int | None:
    if at >= len(node.args):
        return missing
    value = _argument(node, at)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text_constant(node: Call, at: int) -> str | None:
    value = _argument(node, at)
    return value if isinstance(value, str) else None


# --- Times --------------------------------------------------------------------------------------


def _datediff(args: list[pa.Array], node: Call) -> pa.Array:
    end, start = (_days(values) for values in align(*args))
    return pc.subtract(end, start)


def _days(values: pa.Array) -> pa.Array:
    """Days since 1970, in the local time of a zone."""
    if pat.is_timestamp(values.type) and values.type.tz is not None:
        values = pc.local_timestamp(values)
    return pc.floor_temporal(values, unit="day").cast(pa.date32()).cast(pa.int32()).cast(pa.int64())


def _since(unit: str) -> Own:
    """Whole units since 1970, rounded down."""

    def of(args: list[pa.Array], node: Call) -> pa.Array:
        (values,) = args
        if pat.is_date(values.type):
            values = values.cast(pa.timestamp("s"))
        own, target = _PER_SECOND[values.type.unit], _PER_SECOND[unit]
        whole = values.cast(pa.int64())
        if own <= target:
            return pc.multiply_checked(whole, target // own)
        numbers = whole.fill_null(0).to_numpy(zero_copy_only=False) // np.int64(own // target)
        return pa.array(numbers, mask=whole.is_null().to_numpy(zero_copy_only=False))

    return of


# --- Ends of the values within a width ----------------------------------------------------------


def end_within(sign: int) -> Callable[[list[pa.Array], Call], pa.Array]:
    """An end of the values whose distance from the first argument is within the second one.

    Numbers become floats, and the end moves outwards by more than all roundings of the condition:
    what is within stays within. Where there is no end, as beyond infinity, all values are taken.
    """

    def call(args: list[pa.Array], node: Call) -> pa.Array:
        if any(pat.is_null(values.type) for values in args):
            return pa.nulls(len(align(*args)[0]), pa.float64())
        value, width = align(*args)
        mask = null_mask(value, width)
        if {kind_of(value.type), kind_of(width.type)} <= NUMERIC:
            return pa.array(_end_of_numbers(sign, value, width), mask=mask)
        return pa.array(_end_of_times(sign, value, width, node), mask=mask).cast(value.type)

    return call


def _end_of_numbers(sign: int, *args: pa.Array) -> Floats:
    plain = [v.cast(pa.float64()) if pat.is_decimal(v.type) else v for v in args]
    value, width = map(doubles, plain)
    with np.errstate(all="ignore"):
        end = value + sign * (width + _ROUNDINGS * (np.abs(value) + np.abs(width)))
    return end if sign > 0 else np.where(np.isnan(end), -np.inf, end)


def _end_of_times(sign: int, times: pa.Array, widths: pa.Array, node: Call) -> Array:
    clock = pat.is_timestamp(times.type) or pat.is_duration(times.type)
    if not clock or not pat.is_duration(widths.type) or times.type.unit != widths.type.unit:
        raise SchemaError(f"{node}: needs a time and a duration of one unit")
    value, step = _ticks(times), sign * _ticks(widths)
    end = value + step
    end = np.where((step > 0) & (end < value), MOST, end)
    return np.where((step < 0) & (end > value), LEAST, end)


def _ticks(values: pa.Array) -> Array:
    ticks: Array = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return ticks


_ROUNDINGS = 2.0**-48  # of a condition: at most ten of 2^-53 each

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_OWN: dict[Function, Own] = {
    Function.LN: _logarithm(0.0, "ln"),
    Function.LOG2: _logarithm(0.0, "log2"),
    Function.LOG10: _logarithm(0.0, "log10"),
    Function.LOG1P: _logarithm(-1.0, "log1p"),
    Function.LOG: _log,
    Function.POWER: _power,
    Function.PI: _constant(meaning.pi()),
    Function.E: _constant(meaning.e()),
    Function.DEGREES: _scaled(meaning.degrees(1.0)),
    Function.RADIANS: _scaled(meaning.radians(1.0)),
    Function.ROUND: _round,
    Function.TRIM: _trimmed("utf8_trim"),
    Function.LTRIM: _trimmed("utf8_ltrim"),
    Function.RTRIM: _trimmed("utf8_rtrim"),
    Function.SUBSTRING: _substring,
    Function.LEFT: _first,
    Function.RIGHT: _last,
    Function.REPEAT: _repeat,
    Function.REPLACE: _replace,
    Function.STARTS_WITH: _matched("starts_with"),
    Function.ENDS_WITH: _matched("ends_with"),
    Function.CONTAINS: _matched("match_substring"),
    Function.DAYOFWEEK: lambda args, node: pc.day_of_week(
        args[0], count_from_zero=False, week_start=7
    ),
    Function.DATEDIFF: _datediff,
    Function.UNIX_SECONDS: _since("s"),
    Function.UNIX_MILLIS: _since("ms"),
    Function.UNIX_MICROS: _since("us"),
}
