"""Files, and folders of files, read and written batch by batch, in the format that the name shows.

Parquet (``.parquet``, ``.pq``), CSV (``.csv``), JSON lines (``.jsonl``, ``.ndjson``) and Arrow IPC
(``.arrow``, ``.ipc``, ``.feather``; ``.arrows`` for the stream format). Memory holds a few batches,
whatever the size of the file.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

import pyarrow as pa

from thetastream.data.batch import in_python
from thetastream.errors import DataError, suggest


class Format(Enum):
    """A file format; its value is its file name endings."""

    PARQUET = (".parquet", ".pq")
    CSV = (".csv",)
    JSON_LINES = (".jsonl", ".ndjson")
    ARROW = (".arrow", ".ipc", ".feather")
    ARROW_STREAM = (".arrows",)

    @classmethod
    def of(cls, path: Path) -> Format:
        """The format, from the ending of a file's name."""
        ending = path.suffix.lower()
        for format_ in cls:
            if ending in format_.value:
                return format_
        known = [name for format_ in cls for name in format_.value]
        raise DataError(
            f"cannot tell the format of {str(path)!r} from its ending {ending!r}; "
            f"known endings are {', '.join(known)}.{suggest(ending, known)}"
        )


class InputFile:
    """A file, or a folder of files of one format in the order of their names, read as batches.

    ``schema`` is known before the first batch, and ``rows`` if the format records it, else None.
    Iterating yields non-empty batches of at most ``batch_rows`` rows.
    """

    def __init__(self, path: Path, batch_rows: int) -> None:
        self.path = path
        self.batch_rows = batch_rows
        self.rows: int | None = None
        if path.is_dir():
            self.schema, self._batches = self._open_folder()
            return
        if not path.is_file():
            raise DataError(f"cannot read {str(path)!r}: there is no such file")
        format_ = Format.of(path)
        try:
            self.schema, self._batches = self._open(format_)
        except (pa.ArrowException, OSError) as error:
            unreadable(repr(str(path)), error)

    def typed(self) -> InputFile:
        """The file itself; DataError if it is CSV without rows, whose columns have no types."""
        if self.path.suffix.lower() in Format.CSV.value and all(
            map(pa.types.is_null, self.schema.types)
        ):
            raise DataError(
                f"{str(self.path)!r} has a header and no rows, so the types of its columns are "
                "unknown; add rows, or use Parquet or Arrow"
            )
        return self

    def _open_folder(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """All files of a folder; the first one determines the columns."""
        known = {ending for format_ in Format for ending in format_.value}
        shown = sorted(path for path in self.path.iterdir() if not path.name.startswith((".", "_")))
        paths = [path for path in shown if path.suffix.lower() in known]
        if not paths:
            raise DataError(
                f"the folder {str(self.path)!r} has no file to read; known endings are "
                f"{', '.join(sorted(known))}"
            )
        formats = {Format.of(path) for path in paths}
        if len(formats) > 1:
            raise DataError(
                f"the folder {str(self.path)!r} has files of several formats: "
                f"{', '.join(sorted({path.suffix.lower() for path in paths}))}; name one file, or "
                "move them apart"
            )
        first = InputFile(paths[0], self.batch_rows)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first
            for path in paths[1:]:
                file = InputFile(path, self.batch_rows)
                if not file.schema.equals(first.schema):
                    raise DataError(
                        f"{str(path)!r} has other columns than {str(paths[0])!r}: first "
                        f"{_columns(first.schema)}, then {_columns(file.schema)}"
                    )
                yield from file

        return first.schema, batches()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                for start in range(0, batch.num_rows, self.batch_rows):
                    yield batch.slice(start, self.batch_rows)
        except (pa.ArrowException, OSError) as error:
            unreadable(repr(str(self.path)), error)

    def _open(self, format_: Format) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if format_ is Format.PARQUET:
            import pyarrow.parquet as pq

            file = pq.ParquetFile(self.path)
            self.rows = file.metadata.num_rows
            return file.schema_arrow, file.iter_batches(batch_size=self.batch_rows)
        if format_ is Format.ARROW:
            reader = pa.ipc.open_file(pa.memory_map(str(self.path)))
            return reader.schema, map(reader.get_batch, range(reader.num_record_batches))
        if format_ is Format.ARROW_STREAM:
            reader = pa.ipc.open_stream(pa.memory_map(str(self.path)))
        elif format_ is Format.CSV:
            from pyarrow import csv

            reader = csv.open_csv(self.path)
        else:
            from pyarrow import json as arrow_json

            reader = arrow_json.open_json(self.path)
        return reader.schema, iter(reader)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def unreadable(what: str, error: Exception) -> NoReturn:
    """Raise DataError for input that cannot be read, with the first line of the reason."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise DataError(f"cannot read {what}: {reason}") from error


class Target:
    """A file of record batches that appears once all of them are written; a context manager.

    Until then the rows are in a hidden file beside it, which is renamed at the end, or removed if
    anything fails. An existing file is refused unless ``force``::

        with Target(Path("out.parquet"), schema, force=False) as target:
            target.write(batch)
    """

    def __init__(self, path: Path, schema: pa.Schema, *, force: bool) -> None:
        self.refuse_existing(path, force=force)
        self.path = path
        self._schema = schema
        self._hidden = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}{path.suffix}")
        self._writer: Any = None

    @staticmethod
    def refuse_existing(path: Path, *, force: bool) -> None:
        """Fail early if the output cannot be written."""
        Format.of(path)
        if path.is_dir():
            raise DataError(f"cannot write {str(path)!r}: is a folder")
        if not path.parent.is_dir():
            raise DataError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
        if path.exists() and not force:
            raise DataError(f"{str(path)!r} exists; pass --force to replace it")

    def __enter__(self) -> Target:
        return self  # the body creates the file, so that any interrupt removes it

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        try:
            self._open().write(batch)
        except (pa.ArrowException, OSError) as error:
            self._refuse(error)

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        try:
            if kind is None:
                self._open()  # even without rows
            if self._writer is not None:
                self._writer.close()
            if kind is None:
                self._hidden.replace(self.path)
        except (pa.ArrowException, OSError) as failure:
            self._refuse(failure)
        finally:
            self._hidden.unlink(missing_ok=True)

    def _open(self) -> Any:
        if self._writer is None:
            self._writer = _WRITERS[Format.of(self.path)](self._hidden, self._schema)
        return self._writer

    def _refuse(self, error: Exception) -> NoReturn:
        raise DataError(f"cannot write {str(self.path)!r}: {error}") from error


def _parquet_writer(path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema)


def csv_writer(sink: Path | BinaryIO, schema: pa.Schema) -> Any:
    """Writes CSV to a path or a file; the column names come first."""
    from pyarrow import csv

    return csv.CSVWriter(sink, schema)


class JsonLines:
    """Writes one JSON object per row: times as ISO text, decimals as text, binary as base64."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for values in zip(*map(in_python, batch.columns), strict=True):
            row = dict(zip(batch.schema.names, values, strict=True))
            self._file.write(json.dumps(row, default=_plain, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


def _plain(value: object) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, decimal.Decimal | datetime.timedelta):
        return str(value)
    raise DataError(f"cannot write a value of type {type(value).__name__} as JSON: {value!r}")


_WRITERS: dict[Format, Callable[[Path, pa.Schema], Any]] = {
    Format.PARQUET: _parquet_writer,
    Format.CSV: csv_writer,
    Format.JSON_LINES: lambda path, schema: JsonLines(path.open("w", encoding="utf-8")),
    Format.ARROW: lambda path, schema: pa.ipc.new_file(str(path), schema),
    Format.ARROW_STREAM: lambda path, schema: pa.ipc.new_stream(str(path), schema),
}
