"""Count, sum, least and greatest of rows, without a list of them (Ordered Indexing, Section 3.2).

The accumulators of a box are one entry in each of five arrays. Every row adds to all of them, so
that one pass over a range serves every built-in mapping:

              integers                          floats
    counts    rows with a value                 the same
    totals    sum of the low 32 bits            sum, rounded
    carries   sum of the high 32 bits           what the rounding has lost (Knuth's two-sum)
    least     smallest                          smallest, NaN if all are NaN
    greatest  largest                           largest, NaN if one is NaN (as in Spark)

Sums of integers are thus exact, and those of floats hardly depend on the order of the rows: their
error is that of an addition in twice the precision.

The value of row ``id`` is ``values[id - first]``, and it has none where ``valid[id - first]`` is 0;
``valid`` of size 0: all have one. Without ``values`` the value of a row is its id.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import by_type, inlined, kernel

Values = NDArray[Any]
FOLD = tuple(
    f"{unit}[::1], i8, u1[::1], i8[::1], {unit}[::1], {unit}[::1], {unit}[::1], {unit}[::1]"
    for unit in ("i8", "f8")
)
"""The last eight parameters of a mapper in signatures: values, first, valid, five accumulators."""

_LOW = 0xFFFFFFFF
i64: Any = np.int64


def _integer_value(row: int, at: int, values: Values) -> Any:
    return values[at] if values.size else row


def _float_value(row: int, at: int, values: Values) -> Any:
    return values[at] if values.size else np.float64(row)


def _integer_sum(value: Any, total: Any, carry: Any) -> Any:
    return total + (value & _LOW), carry + (value >> 32)


def _float_sum(value: Any, total: Any, carry: Any) -> Any:
    now = total + value
    back = now - total
    return now, carry + ((total - (now - back)) + (value - back))


def _integer_ends(value: Any, least: Any, greatest: Any) -> Any:
    return min(value, least), max(value, greatest)


def _float_ends(value: Any, least: Any, greatest: Any) -> Any:
    low = value if (value < least) | (least != least) else least
    high = value if (value > greatest) | (value != value) else greatest
    return low, high


def _integer_wider(low: Any, high: Any, least: Any, greatest: Any) -> Any:
    return min(low, least), max(high, greatest)


def _float_wider(low: Any, high: Any, least: Any, greatest: Any) -> Any:
    return _ends(low, least, greatest)[0], _ends(high, least, greatest)[1]


def _integer_zero(values: Values) -> Any:
    return np.int64(0)


def _float_zero(values: Values) -> Any:
    return np.float64(0)


def _integer_added(one: Any, carry_one: Any, total: Any, carry: Any) -> Any:
    return total + one, carry + carry_one


def _float_added(one: Any, carry_one: Any, total: Any, carry: Any) -> Any:
    now, rest = _sum(one, total, carry)
    return now, rest + carry_one


_zero: Any = by_type(_integer_zero, _float_zero)
_value: Any = by_type(_integer_value, _float_value)
_sum: Any = by_type(_integer_sum, _float_sum)
_ends: Any = by_type(_integer_ends, _float_ends)
_wider: Any = by_type(_integer_wider, _float_wider)
_added: Any = by_type(_integer_added, _float_added)


@inlined
def fold_rows(
    ids: Array, start: int, stop: int, before: int, box: int,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the rows ``ids[start:stop]`` that are not below ``before`` to a box. O(rows)."""
    count = 0
    total, carry, low, high = totals[box], carries[box], least[box], greatest[box]
    for i in range(start, stop):
        row = ids[i]
        if row < before:
            continue
        at = row - first
        if valid.size and not valid[at]:
            continue
        value = _value(row, at, values)
        count += 1
        total, carry = _sum(value, total, carry)
        low, high = _ends(value, low, high)
    counts[box] += count
    totals[box], carries[box], least[box], greatest[box] = total, carry, low, high


@inlined
def fold_span(
    held: Values, start: int, stop: int, box: int,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the values ``held[start:stop]``, which lie side by side, to a box. O(rows).

    In four lanes: a rounded sum waits for the one before it, and so do its rests.
    """
    zero, low, high = _zero(held), least[box], greatest[box]
    total, one, two, three = totals[box], zero, zero, zero
    rest, rest_one, rest_two, rest_three = carries[box], zero, zero, zero
    low_one, low_two, low_three = low, low, low
    high_one, high_two, high_three = high, high, high
    i = start
    while i + 4 <= stop:
        total, rest = _sum(held[i], total, rest)
        low, high = _ends(held[i], low, high)
        one, rest_one = _sum(held[i + 1], one, rest_one)
        low_one, high_one = _ends(held[i + 1], low_one, high_one)
        two, rest_two = _sum(held[i + 2], two, rest_two)
        low_two, high_two = _ends(held[i + 2], low_two, high_two)
        three, rest_three = _sum(held[i + 3], three, rest_three)
        low_three, high_three = _ends(held[i + 3], low_three, high_three)
        i += 4
    while i < stop:
        total, rest = _sum(held[i], total, rest)
        low, high = _ends(held[i], low, high)
        i += 1
    total, rest = _added(one, rest_one, total, rest)
    total, rest = _added(two, rest_two, total, rest)
    total, rest = _added(three, rest_three, total, rest)
    low, high = _wider(low_one, high_one, low, high)
    low, high = _wider(low_two, high_two, low, high)
    low, high = _wider(low_three, high_three, low, high)
    counts[box] += max(0, stop - start)
    totals[box], carries[box], least[box], greatest[box] = total, rest, low, high


@kernel(*(f"void(i8[::1], i8[::1], i8, {tail})" for tail in FOLD))
def fold_pairs(
    positions: Array, ids: Array, before: int,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add pairs of box and row; fastest when pairs of a box lie together."""
    i = 0
    while i < ids.size:
        box, stop = positions[i], i + 1
        while stop < ids.size and positions[stop] == box:
            stop += 1
        fold_rows(
            ids, i, stop, before, box, values, first, valid,
            counts, totals, carries, least, greatest,
        )  # fmt: skip
        i = stop


_HELD = tuple(
    f"{unit}[::1], i8[::1], {unit}[::1], {unit}[::1], {unit}[::1], {unit}[::1]"
    for unit in ("i8", "f8")
)


@kernel(*(f"void(i8[::1], i8[::1], i8[::1], i8, {tail})" for tail in FOLD))
def fold_ranges(
    ids: Array, starts: Array, stops: Array, before: int,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the rows ``ids[starts[b] : stops[b]]`` to box ``b``; rows below ``before`` not."""
    for box in range(starts.size):
        fold_rows(
            ids, starts[box], stops[box], before, box, values, first, valid,
            counts, totals, carries, least, greatest,
        )  # fmt: skip


@inlined
def _fold_live(
    ids: Array, before: int, held: Values, start: int, stop: int, box: int,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """What ``fold_span`` does, but for rows below ``before``. No jumps: any row may be one."""
    zero, low, high = _zero(held), least[box], greatest[box]
    total, one, two, three = totals[box], zero, zero, zero
    rest, rest_one, rest_two, rest_three = carries[box], zero, zero, zero
    low_one, low_two, low_three = low, low, low
    high_one, high_two, high_three = high, high, high
    count, i = 0, start
    while i + 4 <= stop:
        live = ids[i] >= before
        count += i64(live)
        total, rest = _sum(held[i] if live else zero, total, rest)
        low, high = _wider(held[i] if live else low, held[i] if live else high, low, high)
        value, live = held[i + 1], ids[i + 1] >= before
        count += i64(live)
        one, rest_one = _sum(value if live else zero, one, rest_one)
        low_one, high_one = _wider(
            value if live else low_one, value if live else high_one, low_one, high_one
        )
        value, live = held[i + 2], ids[i + 2] >= before
        count += i64(live)
        two, rest_two = _sum(value if live else zero, two, rest_two)
        low_two, high_two = _wider(
            value if live else low_two, value if live else high_two, low_two, high_two
        )
        value, live = held[i + 3], ids[i + 3] >= before
        count += i64(live)
        three, rest_three = _sum(value if live else zero, three, rest_three)
        low_three, high_three = _wider(
            value if live else low_three, value if live else high_three, low_three, high_three
        )
        i += 4
    while i < stop:
        if ids[i] >= before:
            count += 1
            total, rest = _sum(held[i], total, rest)
            low, high = _ends(held[i], low, high)
        i += 1
    total, rest = _added(one, rest_one, total, rest)
    total, rest = _added(two, rest_two, total, rest)
    total, rest = _added(three, rest_three, total, rest)
    low, high = _wider(low_one, high_one, low, high)
    low, high = _wider(low_two, high_two, low, high)
    low, high = _wider(low_three, high_three, low, high)
    counts[box] += count
    totals[box], carries[box], least[box], greatest[box] = total, rest, low, high


@kernel(*(f"void(i8[::1], i8, i8[::1], i8[::1], {tail})" for tail in _HELD))
def fold_live(
    ids: Array, before: int, starts: Array, stops: Array, held: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the values ``held[starts[b] : stops[b]]`` of rows not below ``before`` to box ``b``."""
    for box in range(starts.size):
        _fold_live(
            ids, before, held, starts[box], stops[box], box,
            counts, totals, carries, least, greatest,
        )  # fmt: skip


@kernel(*(f"void(i8[::1], i8[::1], {tail})" for tail in _HELD))
def fold_held(
    starts: Array, stops: Array, held: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the values ``held[starts[b] : stops[b]]`` to box ``b``: no row is looked up."""
    for box in range(starts.size):
        fold_span(held, starts[box], stops[box], box, counts, totals, carries, least, greatest)
