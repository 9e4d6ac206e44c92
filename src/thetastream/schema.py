"""Types: which keys can be compared, and how.

A *domain* defines how values of two Arrow types become comparable int64 keys: whole numbers,
decimals of a common scale, times in a common unit, 64-bit floats, or hashes or prefixes of byte
strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pat

from thetastream.duration import Interval
from thetastream.errors import SchemaError

_TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86400 * 10**9


class KeyKind(Enum):
    """The families of keys."""

    INTEGER = "integer"
    UNSIGNED = "unsigned 64-bit integer"
    BOOLEAN = "boolean"
    DECIMAL = "decimal"
    FLOAT = "float"
    DATE = "date"
    TIME = "time of day"
    NAIVE = "timestamp without time zone"
    ZONED = "timestamp with time zone"
    DURATION = "duration"
    BYTES = "string or binary"
    PREFIX = "string or binary, by its first 8 bytes"

    @property
    def is_temporal(self) -> bool:
        """Whether keys count ticks of time."""
        return self in (KeyKind.DATE, KeyKind.TIME, KeyKind.NAIVE, KeyKind.ZONED, KeyKind.DURATION)

    @property
    def is_ordered(self) -> bool:
        """Whether keys preserve the order of values, so that an index serves ``<`` and bands."""
        return self is not KeyKind.BYTES


NUMERIC = {KeyKind.INTEGER, KeyKind.UNSIGNED, KeyKind.DECIMAL, KeyKind.FLOAT}


@dataclass(frozen=True, slots=True)
class Domain:
    """How values become keys: ``scale`` decimal digits, or ``tick`` nanoseconds per key unit."""

    kind: KeyKind
    scale: int = 0
    tick: int = 0

    def constant(self, value: int | Decimal | Interval) -> Fraction:
        """A constant of the predicate in exact key units; for floats, its plain value."""
        if isinstance(value, Interval):
            if not self.kind.is_temporal:
                raise SchemaError(
                    f"INTERVAL '{value}' cannot be added to or compared with {self.kind.value} "
                    "values; write a plain number"
                )
            return Fraction(value.nanoseconds, self.tick)
        number = Fraction(value)
        if self.kind.is_temporal and self.kind is not KeyKind.DATE and number:
            raise SchemaError(
                f"{value} has no unit, but the compared values are of kind {self.kind.value}; "
                f"write INTERVAL '{abs(value)} seconds' or another unit"
            )
        if self.kind is KeyKind.DATE:
            return number * Fraction(_DAY, self.tick)
        return number * Fraction(10) ** self.scale if self.scale else number

    def __str__(self) -> str:
        if self.kind is KeyKind.DECIMAL:
            return f"decimal of scale {self.scale}"
        if self.kind.is_temporal:
            return f"{self.kind.value} in {str(Interval(self.tick)).removeprefix('1 ')}s"
        return str(self.kind.value)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, with dictionaries resolved."""
    return kind.value_type if pat.is_dictionary(kind) else kind


def tick(kind: pa.DataType) -> int:
    """Nanoseconds per unit of a temporal type."""
    if pat.is_date(kind):
        return _DAY
    return _TICKS[kind.unit]


def kind_of(kind: pa.DataType) -> KeyKind | None:
    """The family of an Arrow type; None if it cannot be a key."""
    kind = value_type(kind)
    if pat.is_timestamp(kind):
        return KeyKind.NAIVE if kind.tz is None else KeyKind.ZONED
    return next((family for test, family in _TESTS if test(kind)), None)


_TEXT = (pat.is_string, pat.is_large_string, pat.is_string_view)
_BINARY = (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary)
_TESTS = (
    (pat.is_boolean, KeyKind.BOOLEAN),
    (pat.is_uint64, KeyKind.UNSIGNED),
    (pat.is_integer, KeyKind.INTEGER),
    (pat.is_floating, KeyKind.FLOAT),
    (pat.is_decimal, KeyKind.DECIMAL),
    (pat.is_date, KeyKind.DATE),
    (pat.is_time, KeyKind.TIME),
    (pat.is_duration, KeyKind.DURATION),
    *((test, KeyKind.BYTES) for test in _TEXT + _BINARY),
)


def _is_text(kind: pa.DataType) -> bool:
    return any(test(value_type(kind)) for test in _TEXT)


def common_domain(left: pa.DataType, right: pa.DataType, what: str) -> Domain:
    """The domain in which values of both types are compared; SchemaError if there is none."""
    kinds = kind_of(left), kind_of(right)
    for kind, type_ in zip(kinds, (left, right), strict=True):
        if kind is None:
            raise SchemaError(
                f"{what}: values of type {type_} cannot be compared; use numbers, times, booleans, "
                "strings or binary, or cast the column"
            )
    a, b = kinds
    assert a is not None and b is not None
    if KeyKind.BOOLEAN in (a, b) and a is not b:  # false is 0, true is 1
        a, b = (KeyKind.INTEGER if kind is KeyKind.BOOLEAN else kind for kind in (a, b))
    if {a, b} <= NUMERIC:
        return _number_domain(a, b, value_type(left), value_type(right))
    if {a, b} == {KeyKind.DATE, KeyKind.ZONED}:
        raise SchemaError(
            f"{what}: {left} and {right} cannot be compared: a date has no time zone; cast the "
            "timestamp to a date (CAST(… AS DATE)), or remove its zone"
        )
    if {a, b} == {KeyKind.NAIVE, KeyKind.ZONED}:
        raise SchemaError(
            f"{what}: {left} and {right} cannot be compared: one has a time zone and the other has "
            "none; add a zone to both, or remove it from both"
        )
    if {a, b} == {KeyKind.DATE, KeyKind.NAIVE}:
        return Domain(KeyKind.NAIVE, tick=min(_fine_tick(left, right), _DAY))
    if {a, b} == {KeyKind.DURATION, KeyKind.BYTES}:
        raise SchemaError(
            f"{what}: {left} cannot be compared with {right}; write a constant as INTERVAL '5 "
            "minutes'"
        )
    same_text = _is_text(left) == _is_text(right)
    if a is not b or (a is KeyKind.BYTES and not same_text):
        raise SchemaError(
            f"{what}: {left} cannot be compared with {right}; cast one of the columns"
        )
    return Domain(a, tick=_fine_tick(left, right)) if a.is_temporal else Domain(a)


def _number_domain(a: KeyKind, b: KeyKind, left: pa.DataType, right: pa.DataType) -> Domain:
    if KeyKind.FLOAT in (a, b):
        return Domain(KeyKind.FLOAT)
    if KeyKind.DECIMAL in (a, b):
        scales = [t.scale for t in (left, right) if pat.is_decimal(t)]
        return Domain(KeyKind.DECIMAL, scale=max(0, *scales))
    return Domain(KeyKind.UNSIGNED) if a is b is KeyKind.UNSIGNED else Domain(KeyKind.INTEGER)


def _fine_tick(left: pa.DataType, right: pa.DataType) -> int:
    return min(tick(value_type(left)), tick(value_type(right)))
