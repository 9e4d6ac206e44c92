"""Count, sum, least and greatest of rows, without listing them (Ordered Indexing, Section 3.2).

The accumulators of a box are one entry in each of five arrays. Every row adds to all of them, so
one pass over a range serves every built-in mapping:

              integers                          floats
    counts    rows with a value                 the same
    totals    sum of the low 32 bits            sum, rounded
    carries   sum of the high 32 bits           the rounding error (Knuth's two-sum)
    least     smallest                          smallest, NaN if all are NaN
    greatest  largest                           largest, NaN if one is NaN (as in Spark)

So sums of integers are exact, and those of floats hardly depend on the order of the rows: their
error is that of an addition in twice the precision.

The value of row ``id`` is ``values[id - first]``; it has none where ``valid[id - first]`` is 0. An
empty ``valid`` means that all rows have a value. Without ``values`` the value of a row is its id.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, i64
from thetastream._jit.compiling import N, V, by_type, inlined, kernel, vector

Values = NDArray[Any]
FOLD = tuple(
    f"{unit}[::1], i8, u1[::1], i8[::1], {unit}[::1], {unit}[::1], {unit}[::1], {unit}[::1]"
    for unit in ("i8", "f8")
)
"""The last eight parameters of a mapper in signatures: values, first, valid, five accumulators."""
FOLD_TYPES = tuple(
    (unit, N, vector(1, 8, "uint"), V, unit, unit, unit, unit)
    for unit in (V, vector(1, 64, "float"))
)
"""The same as types."""

_LOW = 0xFFFFFFFF


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


def _integer_added(one: Any, carry_one: Any, total: Any, carry: Any) -> Any:
    return total + one, carry + carry_one


def _float_added(one: Any, carry_one: Any, total: Any, carry: Any) -> Any:
    now, rest = _sum(one, total, carry)
    return now, rest + carry_one


_value: Any = by_type(_integer_value, _float_value)
_sum: Any = by_type(_integer_sum, _float_sum)
_ends: Any = by_type(_integer_ends, _float_ends)
_added: Any = by_type(_integer_added, _float_added)


@inlined
def _wider(low: Any, high: Any, least: Any, greatest: Any) -> Any:
    return _ends(low, least, greatest)[0], _ends(high, least, greatest)[1]


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
def _added_row(value: Any, total: Any, rest: Any, low: Any, high: Any) -> Any:
    """A lane's accumulators with one value more."""
    total, rest = _sum(value, total, rest)
    low, high = _ends(value, low, high)
    return total, rest, low, high


@inlined
def _added_if(live: bool, value: Any, zero: Any, total: Any, rest: Any, low: Any, high: Any) -> Any:
    """The same for a row that may have expired, without a branch."""
    total, rest = _sum(value if live else zero, total, rest)
    low, high = _wider(value if live else low, value if live else high, low, high)
    return total, rest, low, high


@inlined
def _added_lane(
    one: Any, rest_one: Any, low_one: Any, high_one: Any,
    total: Any, rest: Any, low: Any, high: Any,
) -> Any:  # fmt: skip
    """The accumulators of two lanes together."""
    total, rest = _added(one, rest_one, total, rest)
    low, high = _wider(low_one, high_one, low, high)
    return total, rest, low, high


@inlined
def fold_span(
    held: Values, start: int, stop: int, box: int,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add the values ``held[start:stop]``, which lie side by side, to a box. O(rows).

    In four lanes, since a rounded sum waits for the one before it.
    """
    zero, low, high = held.dtype.type(0), least[box], greatest[box]
    lane_0 = totals[box], carries[box], low, high
    lane_1 = lane_2 = lane_3 = zero, zero, low, high
    i = start
    while i + 4 <= stop:
        lane_0 = _added_row(held[i], *lane_0)
        lane_1 = _added_row(held[i + 1], *lane_1)
        lane_2 = _added_row(held[i + 2], *lane_2)
        lane_3 = _added_row(held[i + 3], *lane_3)
        i += 4
    while i < stop:
        lane_0 = _added_row(held[i], *lane_0)
        i += 1
    counts[box] += max(0, stop - start)
    lane_0 = _added_lane(*lane_3, *_added_lane(*lane_2, *_added_lane(*lane_1, *lane_0)))
    totals[box], carries[box], least[box], greatest[box] = lane_0


@kernel(*(f"void(i8[::1], i8[::1], i8, {tail})" for tail in FOLD))
def fold_pairs(
    positions: Array, ids: Array, before: int,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """Add pairs of box and row; fastest when the pairs of a box are adjacent."""
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
    """Add the rows ``ids[starts[b] : stops[b]]`` that are not below ``before`` to box ``b``."""
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
    """``fold_span`` without the rows below ``before``. Any row may be one, so it never branches."""
    zero, low, high = held.dtype.type(0), least[box], greatest[box]
    lane_0 = totals[box], carries[box], low, high
    lane_1 = lane_2 = lane_3 = zero, zero, low, high
    count, i = 0, start
    while i + 4 <= stop:
        live_0, live_1 = ids[i] >= before, ids[i + 1] >= before
        live_2, live_3 = ids[i + 2] >= before, ids[i + 3] >= before
        count += i64(live_0) + i64(live_1) + i64(live_2) + i64(live_3)
        lane_0 = _added_if(live_0, held[i], zero, *lane_0)
        lane_1 = _added_if(live_1, held[i + 1], zero, *lane_1)
        lane_2 = _added_if(live_2, held[i + 2], zero, *lane_2)
        lane_3 = _added_if(live_3, held[i + 3], zero, *lane_3)
        i += 4
    while i < stop:
        if ids[i] >= before:
            count += 1
            lane_0 = _added_row(held[i], *lane_0)
        i += 1
    counts[box] += count
    lane_0 = _added_lane(*lane_3, *_added_lane(*lane_2, *_added_lane(*lane_1, *lane_0)))
    totals[box], carries[box], least[box], greatest[box] = lane_0


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
    """Add the values ``held[starts[b] : stops[b]]`` to box ``b``, without looking up rows."""
    for box in range(starts.size):
        fold_span(held, starts[box], stops[box], box, counts, totals, carries, least, greatest)
