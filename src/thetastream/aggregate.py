"""Aggregates: functions of a set of rows, and the types of their results.

    {"n": "count", "avg": ("r.speed", "mean"), "lo": ("r.price", "min")}

    function   argument                                  result
    count      the rows, or the non-NULL values          int64
    sum        whole numbers                             int64; an error if it does not fit
               floats                                    float64
               decimals                                  decimal of 38 digits and the same scale
    min, max   numbers, times, booleans                  the type of the column
    mean       numbers                                   float64

NULLs are skipped, as in SQL. Without any value the count is 0 and every other result is NULL. NaN
is above every number and makes a sum or mean NaN, as in Spark.

A *fold* holds, per set of rows, the number of values, their sum, the least and the greatest, all as
int64 or all as float64 (``index/kernels/fold.py``). Values become such numbers one-to-one and in
order (``data/number_columns.py``), so one fold of a column answers every function. Sums of whole
numbers are exact at any size, so an error can name the sum, and a mean never overflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream.errors import DataError, SchemaError, suggest
from thetastream.schema import NUMERIC, KeyKind, kind_of, value_type
from thetastream.side import Side

_BIAS = 1 << 63


class Summary(Enum):
    """The aggregate functions.

    >>> Summary.of("Mean").takes(KeyKind.FLOAT), Summary.of("sum").takes(KeyKind.DATE)
    (True, False)
    """

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"

    @classmethod
    def of(cls, name: object) -> Summary:
        """Parse the name of a function; ``avg`` is the mean."""
        known = [function.value for function in cls]
        if str(name).lower() in ("avg", "average"):
            return cls.MEAN
        if str(name).lower() not in known:
            raise SchemaError(
                f"an aggregate is one of {', '.join(known)}; got {name!r}."
                f"{suggest(str(name), known)}"
            )
        return cls(str(name).lower())

    def takes(self, kind: KeyKind | None) -> bool:
        """Whether the function accepts values of a kind; None is a kind without an order."""
        if self is Summary.COUNT:
            return True
        if self in (Summary.MIN, Summary.MAX):
            return kind is not None and kind.is_ordered
        return kind in NUMERIC


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One output column: a function of a column, or of the rows if ``column`` is None."""

    name: str
    function: Summary
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.function.value}({self.column or '*'})"


def read_aggregates(spec: Any) -> tuple[Aggregate, ...]:
    """Parse ``{"n": "count", "avg": ("speed", "mean")}``; column names are taken literally.

    >>> [str(aggregate) for aggregate in read_aggregates({"n": "count", "avg": ("speed", "mean")})]
    ['count(*)', 'mean(speed)']
    """
    if not isinstance(spec, Mapping) or not spec:
        raise SchemaError(
            'aggregates are given by name, as {"n": "count", "avg": ("speed", "mean")}; '
            f"got {spec!r}"
        )
    return tuple(_read(name, what) for name, what in spec.items())


def _read(name: Any, what: Any) -> Aggregate:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"the name of an aggregate must be text; got {name!r}")
    if isinstance(what, tuple | list):
        if len(what) != 2 or not isinstance(what[0], str):
            raise SchemaError(
                f"aggregate {name!r} must be 'count' or a pair (column, function) such as "
                f"('speed', 'mean'); got {what!r}"
            )
        return Aggregate(name, _function(name, what[1], what), what[0])
    function = _function(name, what, what)
    if function is not Summary.COUNT:
        raise SchemaError(
            f"aggregate {name!r}: {function.value} needs a column; write "
            f"('column', {function.value!r})"
        )
    return Aggregate(name, function)


def _function(name: str, word: Any, what: Any) -> Summary:
    """The function of an aggregate; an error says so if it stands in the place of the column."""
    try:
        return Summary.of(word)
    except SchemaError as error:
        if what is not word and _is_function(what[0]):
            raise SchemaError(
                f"aggregate {name!r}: write the column first, ({word!r}, {what[0]!r})"
            ) from None
        raise SchemaError(
            f"aggregate {name!r} must be 'count' or a pair (column, function) such as "
            f"('speed', 'mean'); got {what!r}: {error}"
        ) from None


def _is_function(word: Any) -> bool:
    try:
        Summary.of(word)
    except SchemaError:
        return False
    return True


def of_right(aggregates: Sequence[Aggregate]) -> tuple[Aggregate, ...]:
    """Aggregates over the matches of left rows: their columns are written ``r.name``."""
    return tuple(map(_of_right, aggregates))


def _of_right(aggregate: Aggregate) -> Aggregate:
    if aggregate.column is None:
        return aggregate
    alias, dot, column = aggregate.column.partition(".")
    if alias != Side.RIGHT.alias or not dot or not column:
        left = alias == Side.LEFT.alias and dot
        raise SchemaError(
            f"aggregate {aggregate.name!r} must be over a column of the right side, written "
            "r.name: it is computed over the right rows that a left row matches; got "
            f"{aggregate.column!r}" + (", which is in every output row anyway" if left else "")
        )
    return Aggregate(aggregate.name, aggregate.function, column)


# --- Types --------------------------------------------------------------------------------------


def check_aggregates(aggregates: Sequence[Aggregate], schema: pa.Schema, what: str) -> None:
    """Raise SchemaError for a column that is missing, or whose type the function rejects."""
    for aggregate in aggregates:
        name, column, function = aggregate.name, aggregate.column, aggregate.function
        if column is None:
            continue
        if column not in schema.names:
            raise SchemaError(
                f"aggregate {name!r}: {what} has no column {column!r}; it has "
                f"{', '.join(schema.names)}.{suggest(column, schema.names)}"
            )
        kind = schema.field(column).type
        if not function.takes(kind_of(kind)):
            able = [f.name for f in schema if function.takes(kind_of(f.type))]
            raise SchemaError(
                f"aggregate {name!r}: {function.value} cannot be taken of column {column!r}, which "
                f"is {kind}; of {what} it can be taken of {', '.join(able) or 'no column'}. Any "
                "column can be counted"
            )


def result_type(aggregate: Aggregate, kind: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate over a column of type ``kind``, which is None for rows."""
    if aggregate.function is Summary.COUNT:
        return pa.int64()
    if aggregate.function is Summary.MEAN:
        return pa.float64()
    assert kind is not None
    kind = value_type(kind)
    if aggregate.function is not Summary.SUM:
        return kind
    if pat.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64() if pat.is_floating(kind) else pa.int64()


def result_fields(aggregates: Sequence[Aggregate], schema: pa.Schema) -> list[pa.Field]:
    """The output columns of aggregates over columns of a schema."""
    return [
        pa.field(a.name, result_type(a, None if a.column is None else schema.field(a.column).type))
        for a in aggregates
    ]


# --- From folds to columns ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folded:
    """Folds of several sets of values, one entry per set.

    Arrays are int64, or all but ``counts`` float64. A sum of floats is ``totals + carries``, a sum
    of whole numbers ``totals + 2^32 * carries``. Where the count is 0, ``least`` and ``greatest``
    are meaningless.
    """

    counts: NDArray[np.int64]
    totals: NDArray[Any]
    carries: NDArray[Any]
    least: NDArray[Any]
    greatest: NDArray[Any]

    @classmethod
    def of(cls, fold: Any) -> Folded:
        """The accumulators of a ``Fold``."""
        return cls(fold.counts, fold.totals, fold.carries, fold.least, fold.greatest)


def answer(aggregate: Aggregate, kind: pa.DataType | None, folded: Folded) -> pa.Array:
    """The output column of an aggregate, from the folds of its column of type ``kind``.

    Raises DataError if a sum of whole numbers does not fit 64 bits.
    """
    counts, function = folded.counts, aggregate.function
    if function is Summary.COUNT:
        return pa.array(counts)
    assert kind is not None
    kind, none = value_type(kind), counts == 0
    if function is Summary.MIN:
        return _values(folded.least, kind, none)
    if function is Summary.MAX:
        return _values(folded.greatest, kind, none)
    if pat.is_floating(kind):
        sums = _float_sums(folded)
        means = function is Summary.MEAN
        return pa.array(sums / np.maximum(counts, 1) if means else sums, mask=none)
    if function is Summary.MEAN:
        return pa.array(_means(folded, kind), mask=none)
    if pat.is_decimal(kind):
        return _decimals(*_words(folded), kind.scale, none)
    return pa.array(_whole_sums(aggregate, folded, kind), mask=none)


def _float_sums(folded: Folded) -> NDArray[np.float64]:
    """Sums with their carries; the carry of a sum that is not finite is meaningless."""
    totals = np.asarray(folded.totals, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isfinite(totals), totals + folded.carries, totals)


def _exact(folded: Folded, kind: pa.DataType, at: int) -> int:
    """A sum of whole numbers of any size."""
    bias = _BIAS * int(folded.counts[at]) if pat.is_uint64(kind) else 0
    return (int(folded.carries[at]) << 32) + int(folded.totals[at]) + bias


def _words(folded: Folded) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lower and upper 64 bits of sums of whole numbers."""
    middle = folded.carries + (folded.totals >> 32)
    return (folded.carries << 32) + folded.totals, middle >> 32


def _is_wide(folded: Folded, kind: pa.DataType) -> NDArray[np.bool_]:
    """Where a sum does not fit its lower 64 bits."""
    if pat.is_uint64(kind):
        return folded.counts > 0
    low, high = _words(folded)
    return np.asarray(high != low >> 63)


def _means(folded: Folded, kind: pa.DataType) -> NDArray[np.float64]:
    scale = 10**kind.scale if pat.is_decimal(kind) else 1
    sums = _words(folded)[0].astype(np.float64)
    means = sums / np.maximum(folded.counts, 1) / float(scale)
    # Floats do not hold all whole numbers beyond 2^53; Python divides them with one rounding.
    inexact = np.abs(sums) >= 2.0**53
    for at in map(int, np.flatnonzero((_is_wide(folded, kind) | inexact) & (folded.counts > 0))):
        means[at] = _exact(folded, kind, at) / (int(folded.counts[at]) * scale)
    return means


def _whole_sums(aggregate: Aggregate, folded: Folded, kind: pa.DataType) -> NDArray[np.int64]:
    sums = _words(folded)[0]
    for at in map(int, np.flatnonzero(_is_wide(folded, kind))):
        total = _exact(folded, kind, at)
        if not -_BIAS <= total < _BIAS:
            raise DataError(
                f"aggregate {aggregate.name!r}: {aggregate} of {int(folded.counts[at])} values is "
                f"{total}, which does not fit a 64-bit integer; cast the column to double or to a "
                "decimal, or ask for the mean"
            )
        sums[at] = total
    return sums


def _values(numbers: NDArray[Any], kind: pa.DataType, none: NDArray[np.bool_]) -> pa.Array:
    """Numbers back as values of their type: the inverse of ``number_columns.numbers``."""
    numbers = np.where(none, np.zeros((), numbers.dtype), numbers)
    if pat.is_floating(kind):
        return pa.array(numbers, mask=none).cast(kind)
    assert numbers.dtype == np.int64
    if pat.is_uint64(kind):
        return pa.array(numbers.view(np.uint64) ^ np.uint64(_BIAS), mask=none)
    if pat.is_decimal(kind):
        return _decimals(numbers, numbers >> np.int64(63), kind.scale, none).cast(kind)
    if pat.is_date(kind):
        return pa.array(numbers.astype(np.int32), mask=none).view(pa.date32()).cast(kind)
    if pat.is_temporal(kind):
        return pa.array(numbers.astype(f"i{kind.bit_width // 8}"), mask=none).view(kind)
    return pa.array(numbers, mask=none).cast(kind)


def _decimals(
    low: NDArray[np.int64], high: NDArray[np.int64], scale: int, none: NDArray[np.bool_]
) -> pa.Array:
    """Decimals of 38 digits from the words of their unscaled values."""
    words = np.stack([low, high], axis=1)
    valid = pa.py_buffer(np.packbits(~none, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(none), buffers)
