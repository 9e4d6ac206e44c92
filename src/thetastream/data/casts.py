"""CAST between numbers, booleans, strings and times, by the rules of Spark.

A floating number becomes a whole one by losing its fraction. A value that does not fit is an error,
and so is text that is not a number, date or time. Dates become midnight, timestamps their date (the
local one if they have a zone).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream.condition.expression import Call, Literal
from thetastream.condition.times import read_date, read_timestamp
from thetastream.data.values import is_text, null_mask, to_double
from thetastream.errors import DataError, SchemaError
from thetastream.schema import NUMERIC, KeyKind, kind_of

_WHOLE = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
}
_TYPES = {
    **_WHOLE,
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_TIMES = {KeyKind.DATE, KeyKind.NAIVE, KeyKind.ZONED}


def cast(values: pa.Array, node: Call) -> pa.Array:
    """``CAST(values AS …)``."""
    target = node.args[1]
    assert isinstance(target, Literal) and isinstance(target.value, str)
    name = target.value
    if pat.is_null(values.type):
        return pa.nulls(len(values), _type(name))
    try:
        return _cast(values, name, node)
    except pa.ArrowInvalid as error:
        raise DataError(f"{node}: {str(error).splitlines()[0]}") from None


def _cast(values: pa.Array, name: str, node: Call) -> pa.Array:
    family, text = kind_of(values.type), is_text(values.type)
    number = family in NUMERIC or family is KeyKind.BOOLEAN
    if name in _WHOLE and (number or text):
        return _to_whole(values, name, node)
    if name in ("FLOAT", "DOUBLE") and (number or text):
        doubles = _to_double(values)
        return doubles if name == "DOUBLE" else doubles.cast(pa.float32(), safe=False)
    if name.startswith("DECIMAL") and family in NUMERIC | {KeyKind.BYTES}:
        return _to_decimal(values, name)
    if name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and (family in _TIMES or text):
        return _to_time(values, name)
    if name == "BOOLEAN" and number:
        return pc.not_equal(values, pa.scalar(0).cast(values.type)) if family in NUMERIC else values
    if name == "STRING" and (text or pat.is_integer(values.type) or pat.is_date(values.type)):
        return values if text else values.cast(pa.string())
    raise SchemaError(f"{node}: a value of type {values.type} cannot be cast to {name}")


def _to_double(values: pa.Array) -> pa.Array:
    if is_text(values.type):
        return pc.utf8_trim(values, " ").cast(pa.float64())
    return to_double(values.cast(pa.int8()) if pat.is_boolean(values.type) else values)


def _to_whole(values: pa.Array, name: str, node: Call) -> pa.Array:
    if is_text(values.type):
        values = pc.utf8_trim(values, " ").cast(pa.int64())
    elif pat.is_decimal(values.type):
        values = pc.trunc(values).cast(pa.decimal128(38, 0)).cast(pa.int64())
    elif pat.is_floating(values.type):
        values = _truncated(values, node)
    return values.cast(_WHOLE[name])


def _truncated(values: pa.Array, node: Call) -> pa.Array:
    mask = null_mask(values)
    numbers = to_double(values).fill_null(0.0).to_numpy(zero_copy_only=False)
    whole = np.trunc(numbers)
    bad = ~((whole >= -(2.0**63)) & (whole < 2.0**63))
    if bad.any():
        raise DataError(f"{node}: {numbers[int(np.argmax(bad))]} does not fit a 64-bit integer")
    return pa.array(whole.astype(np.int64), mask=mask)


def _to_decimal(values: pa.Array, name: str) -> pa.Array:
    kind = _type(name)
    if pat.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if pat.is_decimal(values.type) and values.type.scale > kind.scale:
        values = pc.round(values, kind.scale, "half_towards_infinity")
    return values.cast(kind)


def _to_time(values: pa.Array, name: str) -> pa.Array:
    if is_text(values.type):
        read = read_date if name == "DATE" else read_timestamp
        try:
            results = [None if text is None else read(text) for text in values.to_pylist()]
        except ValueError as error:
            raise DataError(f"CAST … AS {name}: {error}") from None
        return pa.array(results, _type(name))
    if pat.is_timestamp(values.type) and values.type.tz is not None and name != "TIMESTAMP":
        values = pc.local_timestamp(values)
    if name == "DATE":
        if pat.is_timestamp(values.type):
            values = pc.floor_temporal(values, unit="day")
        return values.cast(pa.date32())
    return values.cast(pa.timestamp("us")) if pat.is_date(values.type) else values


def _type(name: str) -> pa.DataType:
    """The Arrow type of a name."""
    if name.startswith("DECIMAL"):
        digits = [int(part) for part in name[7:].strip("() ").split(",") if part.strip()]
        precision, scale = (*digits, *(10, 0)[len(digits) :])
        return pa.decimal128(precision, scale)
    return _TYPES[name]
