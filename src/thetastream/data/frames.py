"""Frames of other libraries as Arrow batches, without a copy where Arrow allows it.

``batches_of`` reads anything that holds rows:

    pyarrow                    record batches, tables, readers, datasets
    the Arrow C interface      whatever has ``__arrow_c_stream__`` or ``__arrow_c_array__``, such as
                               Polars frames and DuckDB relations
    pandas                     frames; NaN in them is NULL, as in pandas, and the index is left out;
                               nullable and Arrow types are remembered for the way back
    Polars                     frames and lazy frames; a lazy one is collected in streaming mode
    Python                     dicts of columns, lists of dicts
    iterators                  of any of these; all must have the same columns

None of these libraries is imported: a frame of theirs proves that they are there. A source is read
lazily, once; a reader continues where it stands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Any

import pyarrow as pa

from thetastream.errors import SchemaError


class FrameKind(Enum):
    """The kinds of frames that a result can be returned as."""

    ARROW = "arrow"
    PANDAS = "pandas"
    POLARS = "polars"
    LAZY = "lazy polars"
    DUCKDB = "duckdb"
    COLUMNS = "dict of columns"
    ROWS = "list of dicts"


@dataclass(frozen=True)
class RowSource:
    """Rows to be read once: their columns, their number if it is known, and where they come from.

    ``table`` is set if all rows are in memory already. ``types`` are the types that pandas columns
    have in place of NumPy's, by what they are in Arrow.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    kind: FrameKind
    rows: int | None = None
    table: pa.Table | None = None
    types: Mapping[pa.DataType, Any] | None = None

    def read_all(self) -> pa.Table:
        """All rows; those in memory are not copied."""
        if self.table is not None:
            return self.table
        return pa.Table.from_batches(self.batches, self.schema)


def batches_of(
    source: Any,
    schema: pa.Schema | None = None,
    what: str = "the left side",
    *,
    infer: bool = False,
) -> RowSource:
    """Read a frame, a reader or an iterator as Arrow batches.

    ``schema`` are the columns of earlier rows, if there were any; it types dicts and lists, which
    have no types of their own. ``what`` names the source in messages. ``infer`` allows to infer the
    types of a list of dicts, which is sound if the list holds all rows there will be. O(1) for
    Arrow data.

    >>> batches_of({"x": [1, 2]}).read_all().to_pydict()
    {'x': [1, 2]}
    """
    if isinstance(source, RowSource):
        return source
    if isinstance(source, pa.Table):
        return _from_table(source)
    if isinstance(source, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([source]))
    kind = _kind(source)
    if kind is FrameKind.PANDAS:
        table = _pandas_table(source, what)
        return replace(_from_table(table, kind), types=_pandas_types(source, table.schema))
    if kind is FrameKind.LAZY:
        return replace(batches_of(_collected(source), None, what), kind=kind)
    if kind is FrameKind.POLARS:
        _refuse_objects(source, what)
    if kind in (FrameKind.COLUMNS, FrameKind.ROWS):
        return _from_table(_python_table(source, kind, schema, what, infer), kind)
    if hasattr(source, "__arrow_c_stream__"):
        return _from_stream(source, kind, what)
    if hasattr(source, "__arrow_c_array__"):
        return _from_table(pa.Table.from_batches([_record_batch(source, what)]), kind)
    if hasattr(source, "to_reader") or hasattr(source, "scanner"):
        scanner = source if hasattr(source, "to_reader") else source.scanner()
        return _from_reader(scanner.to_reader(), kind)
    if _iterates(source):
        return _from_iterable(iter(source), schema, what)
    raise _refused(source, what)


def table_of(source: Any, schema: pa.Schema | None, what: str) -> pa.Table:
    """All rows of a source, for a push; dicts and lists are typed by the ``schema``."""
    return batches_of(source, schema, what).read_all()


_ARROW = (pa.Table, pa.RecordBatch, pa.RecordBatchReader, pa.Array, pa.ChunkedArray)


def is_frame(source: Any) -> bool:
    """Whether this is a data frame, a dict of columns or a list of dicts; Arrow's own are not."""
    if isinstance(source, _ARROW) or (isinstance(source, list | tuple) and not source):
        return False
    exports = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return exports or _kind(source) is not FrameKind.ARROW


def _iterates(source: Any) -> bool:
    """Whether this may be an iterator of frames; what holds one column of values is not."""
    values = isinstance(source, str | bytes | bytearray) or hasattr(source, "dtype")
    return isinstance(source, Iterable) and not values


def _refused(source: Any, what: str) -> SchemaError:
    hint = "convert it, for example with pyarrow.table"
    if isinstance(source, str | bytes) or hasattr(source, "__fspath__"):
        hint = "read the file first, for example with pyarrow.parquet.read_table"
    elif hasattr(source, "dtype"):
        hint = "name its columns, for example in a dict of columns"
    return SchemaError(
        f"{what} got {type(source).__name__}, which holds no rows. It takes Arrow tables, batches "
        "and readers, pandas and Polars frames, DuckDB relations, dicts of columns, lists "
        f"of dicts, and iterators of these; {hint}"
    )


def _kind(source: Any) -> FrameKind:
    """The kind of a source; only libraries that are loaded already are asked."""
    if isinstance(source, Mapping):
        return FrameKind.COLUMNS
    if isinstance(source, list | tuple) and (not source or isinstance(source[0], Mapping)):
        return FrameKind.ROWS
    for module, name, kind in _CLASSES:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(source, getattr(loaded, name, ())):
            return kind
    return FrameKind.ARROW


_CLASSES = (
    ("pandas", "DataFrame", FrameKind.PANDAS),
    ("polars", "DataFrame", FrameKind.POLARS),
    ("polars", "LazyFrame", FrameKind.LAZY),
    ("duckdb", "DuckDBPyRelation", FrameKind.DUCKDB),
)


# --- From each kind to Arrow --------------------------------------------------------------------


def _from_table(table: pa.Table, kind: FrameKind = FrameKind.ARROW) -> RowSource:
    return RowSource(table.schema, iter(table.to_batches()), kind, table.num_rows, table)


def _from_reader(reader: pa.RecordBatchReader, kind: FrameKind = FrameKind.ARROW) -> RowSource:
    return RowSource(reader.schema, iter(reader), kind)


def _from_stream(source: Any, kind: FrameKind, what: str) -> RowSource:
    """What exports a stream. A frame in memory has a length, the number of its rows."""
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError) as error:
        raise _unread(source, error, what) from None
    if kind in (FrameKind.POLARS, FrameKind.DUCKDB):  # a connection has one open result
        return _from_table(reader.read_all(), kind)
    return _from_reader(reader, kind)


def _record_batch(source: Any, what: str) -> pa.RecordBatch:
    try:
        return pa.record_batch(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _unread(source, error, what) from None


def _unread(source: Any, error: Exception, what: str) -> SchemaError:
    """What exports Arrow data without named columns, or with a type that Arrow does not know."""
    kind = type(source).__name__
    if hasattr(source, "columns"):
        return SchemaError(
            f"{what} got a {kind} with a column that Arrow cannot read ({_reason(error)}); cast "
            "it to another type"
        )
    return SchemaError(
        f"{what} got a {kind}, which is one column; a frame with named columns is needed"
    )


def _reason(error: Exception) -> str:
    """The first line of what an exception says."""
    said = str(error.args[0] if error.args else error)
    return said.splitlines()[0] if said else type(error).__name__


def _refuse_objects(frame: Any, what: str) -> None:
    """Polars exports the addresses of Python objects as if they were bytes."""
    for name, kind in frame.schema.items():
        if str(kind) == "Object":
            raise _no_type(name, "Python objects", what)


def _collected(lazy: Any) -> Any:
    """The rows of a lazy Polars frame."""
    return lazy.collect(engine="streaming")


def _pandas_table(frame: Any, what: str) -> pa.Table:
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"{what} has columns of the same name: {', '.join(twice)}")
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError) as error:
        raise _unfit(error, _mixed(frame), what) from None
    return table.replace_schema_metadata(None)


def _pandas_types(frame: Any, schema: pa.Schema) -> dict[pa.DataType, Any]:
    """The types of columns that are not NumPy's (``Int64``, ``string``, Arrow's), by Arrow type."""
    return {
        field.type: kind
        for field, kind in zip(schema, frame.dtypes, strict=True)
        if hasattr(kind, "__from_arrow__")
    }


def _mixed(frame: Any) -> str:
    """The first column that Arrow refuses."""
    for at, name in enumerate(frame.columns):
        try:
            pa.Array.from_pandas(frame.iloc[:, at])
        except (pa.ArrowException, TypeError):
            return str(name)
    return "?"


_STRANGE = "did not recognize Python value type"  # what Arrow says of objects it has no type for


def _unfit(error: Exception, column: str, what: str) -> SchemaError:
    reason = _reason(error)
    known = isinstance(error, pa.ArrowInvalid | pa.ArrowTypeError | ValueError | OverflowError)
    if isinstance(error, pa.ArrowNotImplementedError) or not known or _STRANGE in reason:
        return _no_type(column, reason, what)
    return SchemaError(
        f"column {column!r} of {what} holds values that are not all of one type "
        f"({reason}); convert it to numbers, times or text"
    )


def _no_type(column: str, reason: str, what: str) -> SchemaError:
    return SchemaError(
        f"column {column!r} of {what} holds values that Arrow has no type for ({reason}); convert "
        "it to numbers, times or text, or leave it out"
    )


def _python_table(
    source: Any, kind: FrameKind, schema: pa.Schema | None, what: str, infer: bool
) -> pa.Table:
    if kind is FrameKind.COLUMNS:
        return _from_columns(source, schema, what)
    names: dict[Any, None] = {}
    for row in source:
        if not isinstance(row, Mapping):
            raise SchemaError(f"{what} got a list of dicts with a {type(row).__name__} among them")
        names.update(dict.fromkeys(row))
    if schema is None and not infer:
        raise SchemaError(
            f"the types of {what} are not known yet, and a list of dicts has none: pass "
            "schemas=(…, …) when the join is made, or push the first rows as a pyarrow table"
        )
    columns = {name: [row.get(name) for row in source] for name in names}
    if schema is not None and not source:
        return schema.empty_table()
    return _from_columns(columns, schema, what)


def _from_columns(columns: Mapping[str, Any], schema: pa.Schema | None, what: str) -> pa.Table:
    """A table of the columns, with the types of the schema where it has them."""
    arrays, names = [], [str(name) for name in columns]
    known = {} if schema is None else {field.name: field.type for field in schema}
    for name, values in zip(names, columns.values(), strict=True):
        arrays.append(_array(values, known.get(name), name, what))
    lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise SchemaError(f"the columns of {what} differ in length: {shown}")
    return pa.Table.from_arrays(arrays, names=names)


def _array(values: Any, kind: pa.DataType | None, name: str, what: str) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__len__"):
        raise SchemaError(
            f"column {name!r} of {what} must be a list or an array of values; got "
            f"{type(values).__name__}"
        )
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if isinstance(values, Sequence):
            return pa.array(values, type=kind)
        return pa.array(values, type=kind, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unfit(error, name, what) from None


def _from_iterable(items: Iterator[Any], schema: pa.Schema | None, what: str) -> RowSource:
    """An iterator of frames: the first one determines the columns."""
    first = next(items, None)
    if first is None:
        if schema is None:
            raise SchemaError(
                f"{what} got an empty iterator, so its columns are unknown; pass an empty "
                "table with the columns instead"
            )
        return _from_table(schema.empty_table())
    if isinstance(first, Mapping) and not all(hasattr(v, "__len__") for v in first.values()):
        raise SchemaError(
            f"{what} got an iterator of rows; collect them in a list of dicts, or in "
            "frames of many rows each"
        )
    if isinstance(first, str | bytes | int | float):
        raise _refused(first, what)
    opened = batches_of(first, schema, what)
    known = opened.schema if schema is None else schema

    def rest() -> Iterator[pa.RecordBatch]:
        for item in items:
            more = batches_of(item, known, what)
            if not more.schema.equals(opened.schema):
                raise SchemaError(
                    f"the frames of {what} differ in their columns: first "
                    f"{_columns(opened.schema)}, then {_columns(more.schema)}"
                )
            yield from more.batches

    return RowSource(opened.schema, chain(opened.batches, rest()), FrameKind.ARROW)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"


# --- And back -----------------------------------------------------------------------------------


def frame_of(
    kind: FrameKind, table: pa.Table, types: Mapping[pa.DataType, Any] | None = None
) -> Any:
    """A table as a frame of a kind, for pandas with these types (``RowSource.types``).

    Only strings and NULLs of pandas are copied.
    """
    if kind is FrameKind.PANDAS and types:
        return table.to_pandas(types_mapper=types.get)
    return _FRAMES[kind](table)


def to_pandas(table: pa.Table) -> Any:
    """A pandas frame."""
    return table.to_pandas()


def to_polars(table: pa.Table) -> Any:
    """A Polars frame, which shares the memory of the table."""
    import polars

    return polars.from_arrow(table, rechunk=False)


def _to_duckdb(table: pa.Table) -> Any:
    import duckdb

    return duckdb.from_arrow(table)


_FRAMES: dict[FrameKind, Callable[[pa.Table], Any]] = {
    FrameKind.ARROW: lambda table: table,
    FrameKind.PANDAS: to_pandas,
    FrameKind.POLARS: to_polars,
    FrameKind.LAZY: lambda table: to_polars(table).lazy(),
    FrameKind.DUCKDB: _to_duckdb,
    FrameKind.COLUMNS: lambda table: table.to_pydict(),
    FrameKind.ROWS: lambda table: table.to_pylist(),
}
