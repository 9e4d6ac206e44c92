"""Sources of a relation's rows: anything that holds Arrow data or converts to it.

Every kind becomes a ``Source``: a schema, batches of exactly that schema, and the number of rows if
it is known in advance. Rows are read once, in order, in pieces of bounded size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from thetastream.data.frames import batches_of, is_frame
from thetastream.errors import RelationError, SchemaError

_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".csv.gz": "csv",
    ".tsv": "tsv",
    ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc", ".arrows": "stream",
}  # fmt: skip
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_TIMES = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None
    """How many there are, if known."""
    again: Callable[[], Iterator[pa.RecordBatch]] | None = None
    """Reads the rows once more; None: they can be read only once."""


def open_source(source: Any, staging: Callable[[], Path]) -> Source:
    """The rows of a source of any kind; ``staging`` returns an empty folder if one is needed."""
    opened = _open(source, staging)
    names = opened.schema.names
    if not names:
        raise SchemaError("the source has no columns; a relation needs at least its key")
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise SchemaError(
            f"the source has columns of the same name: {', '.join(twice)}; rename or drop them"
        )
    return opened


def _open(source: Any, staging: Callable[[], Path]) -> Source:
    if isinstance(source, pa.Table):
        return _from_table(source)
    if isinstance(source, pa.RecordBatch):
        return Source(source.schema, iter([source]), source.num_rows)
    if isinstance(source, pa.RecordBatchReader):
        return Source(source.schema, _read(source), None)
    if isinstance(source, ds.Dataset):
        return _from_dataset(source)
    if isinstance(source, ds.Scanner):
        return Source(source.projected_schema, source.to_reader(), None)
    if isinstance(source, (str, os.PathLike)):
        return _from_paths([source])
    if is_spark(source):
        return _from_spark(source, staging())
    if is_frame(source):
        return _from_frame(source)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _from_iterable(source)
    raise RelationError(
        "a relation is built from pyarrow tables, record batches, readers and datasets, from data "
        "frames of pandas, Polars, DuckDB or Spark, from dicts of columns and lists of dicts, from "
        "iterables of these, or from paths of Parquet, CSV or Arrow IPC files or folders of them; "
        f"got {type(source).__name__}"
    )


def _from_table(table: pa.Table) -> Source:
    def read() -> Iterator[pa.RecordBatch]:
        return iter(table.to_batches())

    return Source(table.schema, read(), table.num_rows, read)


def _from_frame(frame: Any) -> Source:
    rows = batches_of(frame, None, "the relation", infer=True)
    if rows.table is not None:
        return _from_table(rows.table)
    return Source(rows.schema, rows.batches, rows.rows)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with reader:
        yield from reader


# --- Iterables ----------------------------------------------------------------------------------


def _from_iterable(source: Iterable[Any]) -> Source:
    items = iter(source)
    first = next(items, None)
    if first is None:
        raise RelationError(
            "the source has no batches, so its columns are unknown; pass an empty pyarrow table "
            "to build a relation without rows"
        )
    if isinstance(first, (str, os.PathLike)):
        return _from_paths([first, *items])
    rows = None
    if isinstance(source, Sequence) and all(hasattr(item, "num_rows") for item in source):
        rows = sum(item.num_rows for item in source)
    head = _table_of(first)
    batches = (b for table in chain([head], map(_table_of, items)) for b in table.to_batches())
    schema = head.schema
    return Source(schema, (_fitted(batch, schema) for batch in batches), rows)


def _table_of(item: Any) -> pa.Table:
    if isinstance(item, pa.RecordBatch):
        return pa.Table.from_batches([item])
    if isinstance(item, pa.Table):
        return item
    if is_frame(item):
        return batches_of(item, None, "the relation", infer=True).read_all()
    raise RelationError(
        "an iterable source must yield pyarrow record batches, tables or data frames, or be a list "
        f"of paths; it yielded {type(item).__name__}"
    )


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of the first one; SchemaError names what differs."""
    if batch.schema.equals(schema):
        return batch
    differ = set(batch.schema.names) ^ set(schema.names)
    if differ or batch.num_columns != len(schema):
        raise SchemaError(
            f"the batches of the source have different columns: {', '.join(sorted(differ))} "
            "not in all of them; select the same columns for each"
        )
    arrays = [batch.column(name) for name in schema.names]
    for field, array in zip(schema, arrays, strict=True):
        if not array.type.equals(field.type):
            raise SchemaError(
                f"column {field.name!r} of the source changed its type from {field.type} to "
                f"{array.type}; cast it first"
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --- Files --------------------------------------------------------------------------------------


def _from_paths(paths: Sequence[Any]) -> Source:
    """Files, or folders of files, all of one format, which their names show.

    Folders named ``column=value`` become a column, as Hive and Spark write them.
    """
    places = [_place(path) for path in paths]
    files = [file for place in places for file in _files(place)]
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise RelationError(
            f"the files of a source must have one format; these have {', '.join(sorted(formats))}: "
            "build from one of them, or read them with pyarrow.dataset"
        )
    (kind,) = formats
    if kind == "stream":
        return _from_streams(files)
    options: dict[str, Any] = {"format": kind}
    if kind in _DELIMITERS:
        from pyarrow import csv

        parsing = csv.ParseOptions(delimiter=_DELIMITERS[kind])
        options["format"] = ds.CsvFileFormat(parse_options=parsing)
    if len(places) == 1 and places[0].is_dir():
        options |= {"partitioning": "hive", "partition_base_dir": str(places[0])}
    try:
        dataset = ds.dataset(files, **options)
        if len(files) > 1:
            schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
            dataset = dataset.replace_schema(pa.unify_schemas([dataset.schema, *schemas]))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        shown = repr(files[0]) if len(files) == 1 else f"{len(files)} files such as {files[0]!r}"
        raise RelationError(f"cannot read {shown} as {kind}: {error}") from error
    if kind in _DELIMITERS:
        return _from_csv(dataset, _DELIMITERS[kind])
    return _from_dataset(dataset)


def _place(path: Any) -> Path:
    """A local path; other addresses must be read through a dataset."""
    if not isinstance(path, str) or "://" not in path:
        return Path(path)
    if path.startswith("file://"):
        return Path(url2pathname(urlparse(path).path))
    raise RelationError(
        f"{path!r} is not on this machine; pass "
        f"pyarrow.dataset.dataset({path!r}, format=…) as the source"
    )


def _files(place: Path) -> list[str]:
    if not place.exists():
        raise RelationError(f"there is no file or folder {str(place)!r} to build a relation from")
    if not place.is_dir():
        return [str(place)]
    files = sorted(
        str(file)
        for file in place.rglob("*")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
        and file.name.lower().endswith(tuple(_FORMATS))
    )
    if not files:
        raise RelationError(
            f"the folder {str(place)!r} holds no files whose names end in {', '.join(_FORMATS)}"
        )
    return files


def _format(path: str) -> str:
    for ending, kind in _FORMATS.items():
        if path.lower().endswith(ending):
            return kind
    raise RelationError(
        f"cannot tell the format of {path!r} from its name, which should end in "
        f"{', '.join(_FORMATS)}; rename it, or pass a pyarrow dataset"
    )


def _from_streams(files: Sequence[str]) -> Source:
    def read() -> Iterator[pa.RecordBatch]:
        for file in files:
            with pa.OSFile(file) as handle, pa.ipc.open_stream(handle) as reader:
                for batch in reader:
                    yield _fitted(batch, schema)

    with pa.OSFile(files[0]) as handle:
        schema = pa.ipc.open_stream(handle).schema
    return Source(schema, read(), None)


def _from_csv(dataset: ds.FileSystemDataset, delimiter: str) -> Source:
    """Rows of CSV files, a block at a time: a dataset decodes ahead of a build without limit."""
    from pyarrow import csv

    schema = dataset.schema

    def read() -> Iterator[pa.RecordBatch]:
        for fragment in dataset.get_fragments():
            fixed = ds.get_partition_keys(fragment.partition_expression)
            own = [field for field in schema if field.name not in fixed]
            convert = csv.ConvertOptions(
                column_types={field.name: field.type for field in own},
                include_columns=[field.name for field in own],
                include_missing_columns=True,
            )
            parse = csv.ParseOptions(delimiter=delimiter)
            with csv.open_csv(fragment.path, None, parse, convert) as reader:
                for batch in reader:
                    arrays = [
                        pa.repeat(pa.scalar(fixed[field.name], field.type), batch.num_rows)
                        if field.name in fixed
                        else batch.column(field.name)
                        for field in schema
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return Source(schema, _refined(read()), None, lambda: _refined(read()))


def _from_dataset(dataset: ds.Dataset) -> Source:
    """A dataset's rows, with little read-ahead: decoded pages are not in the budget."""
    rows = None
    kind = getattr(dataset, "format", None)
    options: dict[str, Any] = {"batch_size": 1 << 16, "batch_readahead": 2, "fragment_readahead": 1}
    if isinstance(kind, (ds.ParquetFileFormat, ds.IpcFileFormat)):
        rows = dataset.count_rows()
        if isinstance(dataset.filesystem, LocalFileSystem):
            # Arrow's threads would decode ahead of a build without limit.
            options |= {"use_threads": False, "batch_readahead": 0, "fragment_readahead": 0}
            if isinstance(kind, ds.ParquetFileFormat):  # it would keep what it has read of a file
                scan = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
                options["fragment_scan_options"] = scan

    def read() -> Iterator[pa.RecordBatch]:
        return _refined(iter(dataset.to_batches(**options)))

    return Source(dataset.schema, read(), rows, read)


def _refined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; RelationError for a row that cannot be read."""
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise RelationError(f"a row of the source cannot be read: {error}") from error
        if batch is None:
            return
        yield batch


# --- Spark --------------------------------------------------------------------------------------


def is_spark(source: Any) -> bool:
    """Whether this is a Spark DataFrame, judged by its methods: pyspark is not imported."""
    methods = ("mapInArrow", "toDF", "isStreaming")
    return all(hasattr(type(source), name) for name in methods)


def _from_spark(source: Any, staging: Path) -> Source:
    """Have Spark write Parquet files beside the relation, and read those.

    All executors must be able to reach the folder, as they must for a join with the relation.
    """
    if source.isStreaming:
        raise RelationError(
            "a relation cannot be built from a streaming DataFrame; build it "
            "from a static DataFrame, and insert the stream's rows with foreachBatch"
        )
    target = staging / "rows"
    with _exact_times(source):
        source.write.parquet(target.resolve().as_uri())
    return _from_paths([target])


@contextmanager
def _exact_times(source: Any) -> Iterator[None]:
    """Write timestamps as microseconds with their zone; Spark's default loses the zone."""
    session = getattr(source, "sparkSession", None)
    if session is None:
        yield
        return
    before = session.conf.get(_TIMES, None)
    session.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_TIMES)
        else:
            session.conf.set(_TIMES, before)
