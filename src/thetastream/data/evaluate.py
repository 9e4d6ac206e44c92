"""Evaluating expressions over whole batches: side expressions, filters and residuals.

Values are Arrow arrays; a literal is an array of one value. Rules (docs/concepts.md): whole numbers
are 64-bit and overflow is an error, an operation with a floating operand is a 64-bit float, ``/``
is always floating, NULL is unknown, NaN is the greatest number and equal to itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream._jit.arrays import LEAST, MOST, Mask
from thetastream.condition.custom import Custom
from thetastream.condition.expression import Call, Column, Expression, Function, Literal
from thetastream.condition.normalize import fold
from thetastream.condition.times import read_time
from thetastream.data import functions
from thetastream.data.batch import plain, to_keys
from thetastream.data.casts import cast
from thetastream.data.custom import custom_values
from thetastream.data.rows import gatherable
from thetastream.data.values import align, doubles, is_text, null_mask, spread, to_double
from thetastream.duration import Interval
from thetastream.errors import DataError, SchemaError
from thetastream.schema import NUMERIC, KeyKind, common_domain, kind_of, tick

Lookup = Callable[[Column], pa.Array]


def evaluate(node: Expression, lookup: Lookup, length: int) -> pa.Array:
    """The values of an expression; ``lookup`` returns the values of a column."""
    if isinstance(node, Custom):
        return custom_values(node, lookup, length)
    try:
        values = _value(node, lookup)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        text = isinstance(error, UnicodeDecodeError) or "UTF" in str(error)
        cure = (
            "a string is not UTF-8; keep such values as binary"
            if text
            else "cast the columns to double to allow it"
        )
        raise DataError(f"{node}: {error}; {cure}") from None
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise SchemaError(f"{node}: the types of its parts do not go together; cast them") from None
    return spread(values, length)


def true_mask(node: Expression, lookup: Lookup, length: int) -> Mask:
    """Where a condition is true (neither false nor unknown)."""
    values = evaluate(node, lookup, length)
    if not pat.is_boolean(values.type):
        raise SchemaError(f"{node}: expected a condition, got values of type {values.type}")
    mask: Mask = values.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def type_of(node: Expression, types: Callable[[Column], pa.DataType]) -> pa.DataType:
    """The type of an expression, from evaluating it over no rows."""
    return evaluate(node, lambda column: pa.nulls(0, types(column)), 0).type


def _value(node: Expression, lookup: Lookup) -> pa.Array:
    if isinstance(node, Column):
        return _common(plain(lookup(node)))
    if isinstance(node, Literal):
        return _literal(node)
    assert isinstance(node, Call)
    args = _fitted([_value(arg, lookup) for arg in node.args], node)
    function = node.function
    if function.compares:
        args = _timed(args, node)
        return _compare(function, args[0], args[1], str(node))
    if function in _ARITHMETIC or function is Function.MOD:
        return _arithmetic(function, args[0], args[1], node)
    if function in _CALLS:
        return _CALLS[function](args, node)
    return functions.call(args, node)


def _common(values: pa.Array) -> pa.Array:
    """Cast to a type that all of Arrow's functions accept: no views, decimals of 128 bits."""
    kind = values.type
    if pat.is_decimal32(kind) or pat.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return gatherable(values)


def _literal(node: Literal) -> pa.Array:
    value = node.value
    if isinstance(value, Decimal):
        return pa.array([float(value)], pa.float64())
    if isinstance(value, Interval):
        return pa.array([value.nanoseconds], pa.duration("ns"))
    if isinstance(value, datetime):
        return pa.array([value], pa.timestamp("us", "UTC" if value.tzinfo else None))
    if isinstance(value, int) and not isinstance(value, bool):
        if not LEAST <= value <= MOST:
            raise DataError(f"{value} does not fit a 64-bit integer")
        return pa.array([value], pa.int64())
    return pa.array([value])


# --- Comparisons --------------------------------------------------------------------------------

_COMPARE: dict[Function, tuple[Callable[..., Any], Callable[..., Any]]] = {
    Function.EQ: (np.equal, pc.equal),
    Function.NE: (np.not_equal, pc.not_equal),
    Function.LT: (np.less, pc.less),
    Function.LE: (np.less_equal, pc.less_equal),
    Function.GT: (np.greater, pc.greater),
    Function.GE: (np.greater_equal, pc.greater_equal),
}


def _compare(op: Function, a: pa.Array, b: pa.Array, what: str) -> pa.Array:
    of_keys, of_bytes = _COMPARE[op]
    if pat.is_float64(a.type) and pat.is_float64(b.type):
        x, y = doubles(a), doubles(b)
        if not (np.isnan(x).any() or np.isnan(y).any()):
            return pa.array(of_keys(x, y), mask=null_mask(*_of_length(a, b)))
    a, b = align(a, b)
    if pat.is_null(a.type) or pat.is_null(b.type):
        return pa.nulls(len(a), pa.bool_())
    domain = common_domain(a.type, b.type, what)
    if domain.kind is KeyKind.BYTES:
        return of_bytes(*_one_text_type(a, b))
    if domain.kind is KeyKind.DECIMAL and any(_is_wide(v.type) for v in (a, b)):
        return of_bytes(*_one_decimal_type(a, b, domain.scale))
    keys = [to_keys(values, domain, what)[0] for values in (a, b)]
    return pa.array(of_keys(*keys), mask=null_mask(a, b))


def _one_text_type(*values: pa.Array) -> list[pa.Array]:
    if len({str(v.type) for v in values}) == 1:
        return list(values)
    text = all(is_text(v.type) for v in values)
    return [v.cast(pa.large_string() if text else pa.large_binary()) for v in values]


def _is_wide(kind: pa.DataType) -> bool:
    """Whether values may have more than the 18 digits that fit into a key."""
    return bool(pat.is_decimal(kind) and kind.precision > 18)


def _one_decimal_type(a: pa.Array, b: pa.Array, scale: int) -> list[pa.Array]:
    """Decimals and whole numbers as decimals of one scale, with room for all their digits."""
    return [values.cast(pa.decimal256(76, scale)) for values in (a, b)]


def _timed(args: list[pa.Array], node: Call) -> list[pa.Array]:
    """Constants that are compared with a time: strings are read, times get the column's zone."""
    for at, (arg, other) in enumerate(zip(node.args, args[::-1], strict=True)):
        value = arg.value if isinstance(arg, Literal) else None
        if not (pat.is_date(other.type) or pat.is_timestamp(other.type)):
            continue
        if isinstance(value, str):
            try:
                value = read_time(value)
            except ValueError as error:
                raise SchemaError(f"{node}: {error}") from None
            args[at] = _literal(Literal(value))
        zone = other.type.tz if pat.is_timestamp(other.type) else None
        local = isinstance(value, date) and getattr(value, "tzinfo", None) is None
        if zone is not None and local:
            args[at] = pc.assume_timezone(args[at].cast(pa.timestamp("us")), zone)
    return args


def _fitted(args: list[pa.Array], node: Call) -> list[pa.Array]:
    """A number with a point is a float, but exact if it meets a decimal column."""
    exact = any(
        pat.is_decimal(values.type) and arg.sides()
        for values, arg in zip(args, node.args, strict=True)
    )
    if not exact:
        return args
    constants = [fold(arg) for arg in node.args]
    return [
        pa.array([constant.value])
        if isinstance(constant, Literal) and isinstance(constant.value, Decimal)
        else values
        for values, constant in zip(args, constants, strict=True)
    ]


# --- Arithmetic ---------------------------------------------------------------------------------

_ARITHMETIC: dict[Function, tuple[Callable[..., Any], Callable[..., Any]]] = {
    Function.ADD: (np.add, pc.add_checked),
    Function.SUB: (np.subtract, pc.subtract_checked),
    Function.MUL: (np.multiply, pc.multiply_checked),
    Function.DIV: (np.divide, pc.divide),
}


def _arithmetic(function: Function, a: pa.Array, b: pa.Array, node: Call) -> pa.Array:
    kinds = {kind_of(a.type), kind_of(b.type)}
    floating = function is Function.DIV or KeyKind.FLOAT in kinds
    if floating and kinds <= NUMERIC and function is not Function.MOD:
        if function is Function.DIV:
            b = _without_zero(b)
        return _floating(_ARITHMETIC[function][0], a, b)
    a, b = align(a, b)
    if pat.is_null(a.type) or pat.is_null(b.type):
        return pa.nulls(len(a), pa.float64())
    if not kinds <= NUMERIC:
        return _temporal(function, a, b, node)
    if function is Function.MOD:
        return _modulo(a, b, node)
    _, of_exact = _ARITHMETIC[function]
    if KeyKind.DECIMAL in kinds:
        return of_exact(*_roomy(function, _narrow(a, node.args[0]), _narrow(b, node.args[1])))
    return of_exact(a.cast(pa.int64()), b.cast(pa.int64()))


def _to_decimal(values: pa.Array) -> pa.Array:
    return values if pat.is_decimal(values.type) else values.cast(pa.decimal128(19, 0))


def _narrow(values: pa.Array, node: Expression) -> pa.Array:
    """Decimals; a constant has no more digits than it needs."""
    if isinstance(node, Literal) and isinstance(node.value, int):
        return spread(pa.array([Decimal(node.value)]), len(values))
    return _to_decimal(values)


def _roomy(function: Function, a: pa.Array, b: pa.Array) -> list[pa.Array]:
    """The same decimals, wider if the result may have more than 38 digits."""
    if function is Function.MUL:
        digits = a.type.precision + b.type.precision + 1
    else:
        whole = max(v.type.precision - v.type.scale for v in (a, b))
        digits = whole + max(a.type.scale, b.type.scale) + 1
    if digits <= _DIGITS:
        return [a, b]
    return [v.cast(pa.decimal256(v.type.precision, v.type.scale)) for v in (a, b)]


_DIGITS = 38  # of a decimal of 128 bits


def _without_zero(divisor: pa.Array) -> pa.Array:
    """Doubles with NULL instead of zero, by which nothing can be divided."""
    values = to_double(divisor)
    zero = pc.equal(values, 0.0)
    if not pc.any(zero, min_count=0).as_py():
        return values
    return pc.if_else(zero, pa.scalar(None, pa.float64()), values)


def _floating(function: Callable[[Any, Any], Any], a: pa.Array, b: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        result = function(doubles(a), doubles(b))
    return pa.array(result, mask=null_mask(*_of_length(a, b)))


def _of_length(a: pa.Array, b: pa.Array) -> list[pa.Array]:
    """Arrays of one length if one of them has NULLs; otherwise it does not matter."""
    return align(a, b) if a.null_count or b.null_count else [a, b]


def _modulo(a: pa.Array, b: pa.Array, node: Call) -> pa.Array:
    if not all(pat.is_integer(values.type) for values in (a, b)):
        raise SchemaError(f"{node}: % takes whole numbers; got {a.type} and {b.type}")
    divisor = b.cast(pa.int64())
    nulls = pc.or_kleene(a.is_null(), pc.equal(divisor, 0)).fill_null(True)
    mask = nulls.to_numpy(zero_copy_only=False)
    x = a.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    y = divisor.fill_null(1).to_numpy(zero_copy_only=False)
    return pa.array(np.fmod(x, np.where(mask | (y == -1), 1, y)), mask=mask)


def _temporal(function: Function, a: pa.Array, b: pa.Array, node: Call) -> pa.Array:
    if function in (Function.ADD, Function.SUB):
        if pat.is_date(a.type) and pat.is_integer(b.type):
            moved = _ARITHMETIC[function][1](_days(a), b.cast(pa.int64()))
            return moved.cast(pa.int32()).cast(pa.date32())
        if pat.is_date(a.type) and pat.is_date(b.type) and function is Function.SUB:
            return pc.subtract(_days(a), _days(b))
        if pat.is_duration(a.type) and function is Function.ADD and not pat.is_duration(b.type):
            a, b = b, a
        if pat.is_duration(b.type) and kind_of(a.type) not in NUMERIC:
            return _ARITHMETIC[function][1](a, _same_unit(b, a.type, node))
        if pat.is_timestamp(a.type) and pat.is_timestamp(b.type) and function is Function.SUB:
            common_domain(a.type, b.type, str(node))
            return pc.subtract_checked(a, b)
    raise SchemaError(
        f"{node}: cannot combine {a.type} and {b.type} with {function.value}; "
        "only INTERVALs can be added to times"
    )


def _same_unit(durations: pa.Array, kind: pa.DataType, node: Call) -> pa.Array:
    if pat.is_date(kind):
        raise SchemaError(f"{node}: add whole days to a date, or cast it to a timestamp")
    try:
        return durations.cast(pa.duration(kind.unit))
    except pa.ArrowInvalid:
        raise SchemaError(
            f"{node}: the interval is finer than {Interval(tick(kind))}, the unit of {kind}"
        ) from None


def _days(dates: pa.Array) -> pa.Array:
    return dates.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())


# --- Everything else ----------------------------------------------------------------------------


def _unary(integers: Any, floats: Any) -> Callable[[list[pa.Array], Call], pa.Array]:
    def call(args: list[pa.Array], node: Call) -> pa.Array:
        (values,) = args
        numeric = kind_of(values.type) in NUMERIC | {KeyKind.DURATION}
        if not numeric and not pat.is_null(values.type):
            raise SchemaError(f"{node}: expected a number, got {values.type}")
        if pat.is_floating(values.type):
            return floats(values.cast(pa.float64()))
        if pat.is_integer(values.type):
            values = values.cast(pa.int64())
        return integers(values)

    return call


def _pick(function: Function) -> Callable[[list[pa.Array], Call], pa.Array]:
    """LEAST and GREATEST: NULLs are skipped, NaN is the greatest."""

    def better(a: pa.Array, b: pa.Array, node: Call) -> pa.Array:
        a, b = _same_type(*align(a, b))
        op = Function.LE if function is Function.LEAST else Function.GE
        first = _compare(op, a, b, str(node))
        return pc.coalesce(pc.if_else(first, a, b), a, b)

    return lambda args, node: reduce(lambda a, b: better(a, b, node), args)


def _same_type(*values: pa.Array) -> list[pa.Array]:
    types = [v.type for v in values if not pat.is_null(v.type)]
    if types and all(kind_of(t) in NUMERIC for t in types) and len(set(map(str, types))) > 1:
        if any(map(pat.is_floating, types)):
            return [to_double(v) for v in values]
        if any(map(pat.is_decimal, types)):
            return [_to_decimal(v) for v in values]
        return [v.cast(pa.int64()) for v in values]
    return [v.cast(types[0]) if types and pat.is_null(v.type) else v for v in values]


def _conditions(args: list[pa.Array]) -> list[pa.Array]:
    """Conditions; the literal NULL is unknown."""
    return [v.cast(pa.bool_()) if pat.is_null(v.type) else v for v in args]


def _rounded(function: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """Rounding of exact numbers: decimals are rounded, whole numbers stay."""
    return lambda values: function(values) if pat.is_decimal(values.type) else values


def _concatenated(args: list[pa.Array], node: Call) -> pa.Array:
    _check_text(args, node)
    texts = [v.cast(pa.large_string()) for v in align(*args)]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _choose(args: list[pa.Array], node: Call) -> pa.Array:
    (test,) = _conditions(args[:1])
    then, other = _same_type(*args[1:])
    length = max(map(len, args)) if 0 not in map(len, args) else 0
    test, then, other = (spread(values, length) for values in (test, then, other))
    return pc.if_else(test.fill_null(False), then, other)


def _coalesce(args: list[pa.Array], node: Call) -> pa.Array:
    return reduce(lambda a, b: pc.coalesce(*_same_type(*align(a, b))), args)


def _check_text(args: list[pa.Array], node: Call) -> None:
    for values in args:
        kind = values.type
        if not (is_text(kind) or pat.is_null(kind)):
            raise SchemaError(f"{node}: expected strings, got {kind}; cast the column")
        values.validate(full=True)  # as UTF-8, which not every function looks at


def _of_text(
    function: Callable[[pa.Array], pa.Array],
) -> Callable[[list[pa.Array], Call], pa.Array]:
    def call(args: list[pa.Array], node: Call) -> pa.Array:
        _check_text(args, node)
        return function(args[0].cast(pa.string()) if pat.is_null(args[0].type) else args[0])

    return call


def _cased(
    of_ascii: Callable[[pa.Array], pa.Array], of_text: Callable[[str], str]
) -> Callable[[pa.Array], pa.Array]:
    """In another case, by the full rules of Unicode, which Arrow lacks: ß is SS in upper case."""

    def call(values: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(values), min_count=0).as_py():
            return of_ascii(values)
        texts = values.to_pylist()
        return pa.array([None if text is None else of_text(text) for text in texts], values.type)

    return call


def _like(args: list[pa.Array], node: Call) -> pa.Array:
    values, patterns = args
    _check_text(args, node)
    if pat.is_null(values.type) or pat.is_null(patterns.type):
        return pa.nulls(len(align(values, patterns)[0]), pa.bool_())
    if isinstance(node.args[1], Literal):
        return pc.match_like(values, patterns[0].as_py())
    values, patterns = align(values, patterns)
    pairs = zip(values.to_pylist(), patterns.to_pylist(), strict=True)
    matches = [
        None if text is None or pattern is None else bool(like_pattern(pattern).fullmatch(text))
        for text, pattern in pairs
    ]
    return pa.array(matches, pa.bool_())


@lru_cache(maxsize=1024)
def like_pattern(pattern: str) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression: ``%`` any text, ``_`` one character."""
    characters = re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
    parts = (_WILD.get(char) or re.escape(char[-1]) for char in characters)
    return re.compile("".join(parts), re.DOTALL)


_WILD = {"%": ".*", "_": "."}


_CALLS: dict[Function, Callable[[list[pa.Array], Call], pa.Array]] = {
    Function.AND: lambda args, node: pc.and_kleene(*align(*_conditions(args))),
    Function.OR: lambda args, node: pc.or_kleene(*align(*_conditions(args))),
    Function.NOT: lambda args, node: pc.invert(_conditions(args)[0]),
    Function.IS_NULL: lambda args, node: pc.is_null(args[0]),
    Function.LIKE: _like,
    Function.LITERAL_PREFIX: _of_text(
        lambda values: pc.replace_substring_regex(values, r"(?s)[%_\\].*", "")
    ),
    Function.LOWEST_WITHIN: functions.end_within(-1),
    Function.HIGHEST_WITHIN: functions.end_within(1),
    Function.NEG: _unary(pc.negate_checked, pc.negate),
    Function.ABS: _unary(pc.abs_checked, pc.abs),
    Function.FLOOR: _unary(_rounded(pc.floor), pc.floor),
    Function.CEIL: _unary(_rounded(pc.ceil), pc.ceil),
    Function.SQRT: _unary(lambda v: pc.sqrt(to_double(v)), pc.sqrt),
    Function.LEAST: _pick(Function.LEAST),
    Function.GREATEST: _pick(Function.GREATEST),
    Function.COALESCE: _coalesce,
    Function.IF: _choose,
    Function.CAST: lambda args, node: cast(args[0], node),
    Function.LOWER: _of_text(_cased(pc.ascii_lower, str.lower)),
    Function.UPPER: _of_text(_cased(pc.ascii_upper, str.upper)),
    Function.LENGTH: _of_text(lambda values: pc.utf8_length(values).cast(pa.int64())),
    Function.CONCAT: _concatenated,
}
