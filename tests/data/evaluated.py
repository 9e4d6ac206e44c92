"""Values of expressions over columns, and columns of every type."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from thetastream.condition.expression import Expression
from thetastream.condition.sql import parse
from thetastream.data.evaluate import evaluate

NAN, INF = math.nan, math.inf


def array(text: str | Expression, columns: dict[str, pa.Array]) -> pa.Array:
    """Evaluate an expression over columns of the left side."""
    node = parse(text) if isinstance(text, str) else text
    length = len(next(iter(columns.values()))) if columns else 1
    found = evaluate(node, lambda column: columns[column.name], length)
    assert isinstance(found, pa.Array)
    assert len(found) == length
    return found


def values(text: str | Expression, **columns: pa.Array) -> list[Any]:
    """The values; the same must come from one row at a time, and from no rows the same type."""
    whole = array(text, columns)
    for at in range(len(whole)):
        one = array(text, {name: column[at : at + 1] for name, column in columns.items()})
        assert one.type == whole.type
        assert str(one[0]) == str(whole[at])
    assert array(text, {name: column[:0] for name, column in columns.items()}).type == whole.type
    return whole.to_pylist()


def ints(*numbers: int | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(numbers, kind or pa.int64())


def floats(*numbers: float | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(numbers, kind or pa.float64())


def decimals(*texts: str | None, kind: pa.DataType | None = None) -> pa.Array:
    numbers = [None if text is None else Decimal(text) for text in texts]
    return pa.array(numbers, kind or pa.decimal128(9, 2))


def texts(*words: str | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(words, kind or pa.string())


def same(found: list[Any], expected: list[Any]) -> bool:
    return repr(found) == repr(expected)
