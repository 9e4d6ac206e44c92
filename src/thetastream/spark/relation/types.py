"""Columns of a relation as columns of a DataFrame.

A relation holds any Arrow type, Spark fewer. A value is widened where Spark lacks its type
(unsigned integers, half floats), or told in Spark's unit of time; never changed. A time finer than
a microsecond that does not fit is an error of the task, not a rounded value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from thetastream.errors import DataError, SchemaError

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}


def spark_type(field: pa.Field) -> DataType:
    """The type of a relation's column in Spark; SchemaError if there is none."""
    try:
        return from_arrow_type(_plain(field.type))
    except Exception as error:
        raise SchemaError(
            f"column {field.name!r} of the relation has type {field.type}, for which Spark has "
            "none; leave it out with columns=, or build the relation with another type"
        ) from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type, or the one that holds its values and has a counterpart in Spark."""
    if pat.is_dictionary(kind):
        return _plain(kind.value_type)
    if pat.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)  # refuses more than 38 digits
    if pat.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return _WIDER.get(kind, kind)


def handed(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the type that Spark expects; the same array if it has that type already."""
    if column.type.equals(kind):
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"a value of column {name!r} ({column.type}) does not fit into {kind}, in which Spark "
            f"takes it: {error}; leave the column out with columns=, or round it in the relation"
        ) from None
