"""Standard input as a stream, standard output as a target: rows pass as they come.

A file is all there at once; a pipe is not. What has arrived is pushed at once, and while nothing
arrives the join is polled when a deadline asks for it. Formats: CSV (the first line names the
columns), JSON lines, and Arrow's stream format. Types of CSV and JSON are told by what comes first.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa

from thetastream.cli.files import JsonLines
from thetastream.errors import DataError

PIECE = 1 << 20  # bytes that are read, at most, before they are pushed


class PipeFormat(Enum):
    """What rows look like in a pipe."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    ARROW_STREAM = "arrows"

    @classmethod
    def of(cls, name: str) -> PipeFormat:
        """The format of that name."""
        for format_ in cls:
            if format_.value == name:
                return format_
        raise DataError(f"--format is csv, jsonl or arrows; got {name!r}")


class Pipe:
    """Rows from a file descriptor. Making one waits for the first of them: ``schema`` is theirs."""

    rows: int | None = None

    def __init__(self, descriptor: int, format_: PipeFormat, batch_rows: int) -> None:
        self._descriptor = descriptor
        self._batch_rows = batch_rows
        open_ = _ArrowRows if format_ is PipeFormat.ARROW_STREAM else _TextRows
        try:
            self._rows: _ArrowRows | _TextRows = open_(descriptor, format_)
        except (pa.ArrowException, OSError) as error:
            _refuse(error)
        self.schema = self._rows.schema

    def arrivals(self, due: Callable[[], float | None]) -> Iterator[pa.RecordBatch | None]:
        """Batches as they come; None where ``due()`` seconds have passed without any."""
        while True:
            if not self._rows.waiting and not _ready(self._descriptor, due()):
                yield None
                continue
            try:
                table = self._rows.read()
            except (pa.ArrowException, OSError) as error:
                _refuse(error)
            if table is None:
                return
            yield from table.to_batches(self._batch_rows)


class _ArrowRows:
    """Arrow's stream format: a batch at a time."""

    waiting = False

    def __init__(self, descriptor: int, format_: PipeFormat) -> None:
        self._reader = pa.ipc.open_stream(pa.PythonFile(_Whole(descriptor), "r"))
        self.schema: pa.Schema = self._reader.schema

    def read(self) -> pa.Table | None:
        """The next batch, waiting for all of it; None at the end."""
        try:
            return pa.Table.from_batches([self._reader.read_next_batch()])
        except StopIteration:
            return None


class _TextRows:
    """Lines of text: all that have come, parsed as the first ones were."""

    def __init__(self, descriptor: int, format_: PipeFormat) -> None:
        self._lines = _Lines(descriptor)
        self._parse = _parse_csv if format_ is PipeFormat.CSV else _parse_json
        enough = 2 if format_ is PipeFormat.CSV else 1  # a line of names and a row, or a row
        text: bytes = b""
        while text.strip().count(b"\n") + 1 < enough or not text.strip():
            piece = self._lines.read()
            if piece is None:
                break
            text += piece
        if not text.strip():
            raise DataError("the stream is empty: expected rows on standard input")
        self._first: pa.Table | None = self._parse(text, None)
        self.schema: pa.Schema = self._first.schema

    @property
    def waiting(self) -> bool:
        """Whether rows are here that were not given yet."""
        return self._first is not None

    def read(self) -> pa.Table | None:
        """What has come, perhaps no whole line; None at the end."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        text = self._lines.read()
        if text is None:
            return None
        return self._parse(text, self.schema) if text.strip() else self.schema.empty_table()


class _Lines:
    """Whole lines of what a descriptor gives; a part of one waits for its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._ended = False

    def read(self) -> bytes | None:
        """Wait for something and take what is there, up to a piece; None at the end."""
        if self._ended:
            return None
        parts = [self._rest]
        size = 0
        while size < PIECE and (size == 0 or _ready(self._descriptor, 0)):
            part = os.read(self._descriptor, PIECE - size)
            if not part:
                self._ended = True
                return b"".join(parts)
            parts.append(part)
            size += len(part)
        text = b"".join(parts)
        cut = text.rfind(b"\n") + 1
        self._rest = text[cut:]
        return text[:cut]


class _Whole(io.RawIOBase):
    """A descriptor whose reads give all bytes that were asked for, unless it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        while size != 0:
            part = os.read(self._descriptor, PIECE if size < 0 else size)
            if not part:
                break
            parts.append(part)
            size -= len(part) if size > 0 else 0
        return b"".join(parts)


def _parse_csv(text: bytes, schema: pa.Schema | None) -> pa.Table:
    from pyarrow import csv

    names = None if schema is None else schema.names
    types = None if schema is None else dict(zip(schema.names, schema.types, strict=True))
    return csv.read_csv(
        pa.BufferReader(text),
        read_options=csv.ReadOptions(column_names=names),
        convert_options=csv.ConvertOptions(column_types=types),
    )


def _parse_json(text: bytes, schema: pa.Schema | None) -> pa.Table:
    from pyarrow import json

    unknown = "infer" if schema is None else "error"
    return json.read_json(
        pa.BufferReader(text),
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
    )


def _ready(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read, or the end, within so many seconds; None: wait."""
    limit = None if seconds is None else max(0.0, seconds)
    return bool(select.select([descriptor], [], [], limit)[0])


def _refuse(error: Exception) -> NoReturn:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise DataError(f"cannot read standard input: {reason}") from error


class PipeTarget:
    """Standard output: every batch is passed on at once. As a context manager, like a Target."""

    def __init__(self, file: BinaryIO, format_: PipeFormat, schema: pa.Schema) -> None:
        self._file = file
        self._schema = schema
        self._sink = io.BytesIO()
        self._writer = _WRITERS[format_](self._sink, schema)

    def __enter__(self) -> PipeTarget:
        self._pass_on()  # names of columns, before any row
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Give a batch."""
        self._writer.write(batch)
        self._pass_on()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._writer.close()
            self._pass_on()

    def _pass_on(self) -> None:
        self._file.write(self._sink.getvalue())
        self._file.flush()
        self._sink.seek(0)
        self._sink.truncate()


class _Csv:
    """CSV; the names of the columns come first."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._sink = sink
        self._write(schema.empty_table(), header=True)

    def write(self, batch: pa.RecordBatch) -> None:
        self._write(batch, header=False)

    def close(self) -> None:
        return

    def _write(self, rows: pa.Table | pa.RecordBatch, *, header: bool) -> None:
        from pyarrow import csv

        buffer = pa.BufferOutputStream()
        csv.write_csv(rows, buffer, csv.WriteOptions(include_header=header))
        self._sink.write(buffer.getvalue())


class _Json(JsonLines):
    """JSON lines."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(io.TextIOWrapper(sink, encoding="utf-8", write_through=True))

    def close(self) -> None:
        return  # what was written is in the sink, which others read


class _Arrow:
    """Arrow's stream format."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


_WRITERS: dict[PipeFormat, Callable[[BinaryIO, pa.Schema], Any]] = {
    PipeFormat.CSV: _Csv,
    PipeFormat.JSON_LINES: _Json,
    PipeFormat.ARROW_STREAM: _Arrow,
}
