"""Spark's types as Arrow types, and back."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
)

from thetastream.errors import SchemaError

_REFUSED = {"variant", "calendarinterval", "void", "interval", "geometry", "geography"}


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
