"""The truth about aggregates over matches: a nested loop, in plain Python.

A left row sees a right row if they meet (``oracle.meet``), the predicate holds, and the right row
is not later: it arrived before or, in a time window, has no later event time. Like the oracle of
joins this imports no kernel and no index.

NULLs are skipped; the aggregate of no value is None, and its count 0. NaN is above every number.
Sums of whole numbers and decimals are exact, sums of floats correctly rounded. Cost: O(left rows ×
right rows).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import localcontext
from fractions import Fraction
from typing import Any

from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.side import Side
from thetastream.truth.oracle import Arrived, Row, arrive, matches, meet
from thetastream.window import TimeWindow, Window

__all__ = ["aggregate", "summary"]


def aggregate(
    pushes: Iterable[tuple[Any, Any]],
    on: str | Predicate | Expression,
    window: Window,
    asked: Mapping[str, Any],
) -> dict[int, Row]:
    """For each left row that is not late, by its number: aggregates over the right rows it sees.

    >>> import pyarrow as pa
    >>> left, right = pa.table({"x": [5]}), pa.table({"x": [4, 9, 5]})
    >>> aggregate([(None, right), (left, None)], "l.x >= r.x", CountWindow(9), {"n": "count"})
    {0: {'n': 2}}
    """
    predicate = Predicate.of(on)
    functions = {n: (None, a) if isinstance(a, str) else (a[0][2:], a[1]) for n, a in asked.items()}
    columns = {column for column, _ in functions.values() if column is not None}
    arrived = arrive(pushes, predicate, window, False, columns)
    answer: dict[int, Row] = {}
    for left in arrived[Side.LEFT]:
        seen = [
            right.values
            for right in arrived[Side.RIGHT]
            if not right.late
            and _sees(left, right, window)
            and matches(predicate, left.values, right.values)
        ]
        if not left.late:
            answer[left.position] = {
                name: summary(function, [row[column] if column else 0 for row in seen])
                for name, (column, function) in functions.items()
            }
    return answer


def _sees(left: Arrived, right: Arrived, window: Window) -> bool:
    if not isinstance(window, TimeWindow):
        earlier = right.arrival < left.arrival
    else:
        earlier = None not in (left.time, right.time) and right.time <= left.time
    return earlier and meet(left, right, window)


def summary(function: str, values: list[Any]) -> Any:
    """One aggregate of values; to count rows, pass any value but None for each."""
    known = [value for value in values if value is not None]
    if function == "count":
        return len(known)
    if not known:
        return None
    if function in ("min", "max"):
        order = sorted(known, key=lambda value: (value != value, 0 if value != value else value))
        return order[0] if function == "min" else order[-1]
    if isinstance(known[0], float):
        total = _float_sum(known)
        return total if function == "sum" else total / len(known)
    with localcontext() as context:
        context.prec = 100
        exact = sum(known)
    return exact if function == "sum" else float(Fraction(exact) / len(known))


def _float_sum(values: list[float]) -> float:
    try:
        return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
    except OverflowError:
        return sum(values)
