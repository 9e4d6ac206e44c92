"""Spark's types as Arrow types, and back.

A relation holds any Arrow type, Spark fewer. A value is widened where Spark lacks its type
(unsigned integers, half floats), or told in Spark's unit of time; never changed. A time finer than
a microsecond that does not fit is an error of the task, not a rounded value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from thetastream.errors import DataError, SchemaError

_REFUSED = {"variant", "calendarinterval", "void", "interval", "geometry", "geography"}
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


def arrow_schema(schema: StructType, side: str) -> pa.Schema:
    """The Arrow schema in which Spark hands rows to Python; refuses types it cannot hand over."""
    fields = []
    for field in schema.fields:
        if _is_refused(field.dataType):
            raise _refusal(field.name, side, field.dataType)
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except Exception as error:
            raise _refusal(field.name, side, field.dataType) from error
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def known_types(schema: StructType) -> pa.Schema:
    """All columns with their Arrow types; null for those that Spark cannot hand over."""
    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in schema.fields])


def _arrow_type(kind: DataType) -> pa.DataType:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except Exception:
        return pa.null()


def _is_refused(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_refused(kind.elementType)
    if isinstance(kind, MapType):
        return _is_refused(kind.keyType) or _is_refused(kind.valueType)
    if isinstance(kind, StructType):
        return any(_is_refused(field.dataType) for field in kind.fields)
    return kind.typeName().lower() in _REFUSED


def _refusal(name: str, side: str, kind: DataType) -> SchemaError:
    return SchemaError(
        f"column {name!r} of the {side} side has type {kind.simpleString()}, which Spark cannot "
        "hand to Python in Arrow; cast it (a variant with to_json or CAST(… AS STRING)) "
        "or leave it out with columns="
    )


def check_names(schema: StructType, side: str) -> None:
    """Column names must be distinct, also where Spark does not look at upper and lower case."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise SchemaError(
                f"the {side} side has two columns {name!r}; rename one (withColumnRenamed), since "
                "a join must be able to tell them apart"
            )
        seen.add(name.lower())
        if name.startswith("__"):
            raise SchemaError(
                f"column {name!r} of the {side} side begins with two underscores, which the join "
                "keeps for its own columns; rename it"
            )


# --- Columns of a relation ----------------------------------------------------------------------


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
