"""Standard input as a stream, standard output as a target: rows are passed on as they arrive.

Unlike a file, a pipe delivers its rows over time. Rows are pushed as they arrive, and in between
the join is polled when a deadline requires it. Formats: CSV (the first line names the columns),
JSON lines, and Arrow's stream format. The first rows determine the types of CSV and JSON.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, BinaryIO

import pyarrow as pa

from thetastream.cli.files import JsonLines, csv_writer, unreadable
from thetastream.errors import DataError

PIECE = 1 << 20  # bytes read at most before they are pushed


class PipeFormat(Enum):
    """The format of rows in a pipe."""

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
    """Rows from a file descriptor. The constructor waits for the first row to know the schema."""

    rows: int | None = None

    def __init__(self, descriptor: int, format_: PipeFormat, batch_rows: int) -> None:
        self._descriptor = descriptor
        self._batch_rows = batch_rows
        open_ = _ArrowRows if format_ is PipeFormat.ARROW_STREAM else _TextRows
        try:
            self._rows: _ArrowRows | _TextRows = open_(descriptor, format_)
        except (pa.ArrowException, OSError) as error:
            unreadable("standard input", error)
        self.schema = self._rows.schema

    def arrivals(self, due: Callable[[], float | None]) -> Iterator[pa.RecordBatch | None]:
        """Batches as they arrive; None if ``due()`` seconds have passed without any."""
        while True:
            if not self._rows.waiting and not _ready(self._descriptor, due()):
                yield None
                continue
            try:
                table = self._rows.read()
            except (pa.ArrowException, OSError) as error:
                unreadable("standard input", error)
            if table is None:
                return
            yield from table.to_batches(self._batch_rows)


class PipeInput(Pipe):
    """A pipe that is read to its end, as if it were a file."""

    def __init__(self, descriptor: int, format_: PipeFormat, batch_rows: int) -> None:
        super().__init__(descriptor, format_, batch_rows)
        if format_ is PipeFormat.CSV and all(map(pa.types.is_null, self.schema.types)):
            raise DataError(
                "standard input has a header and no rows, so the types of its columns are unknown; "
                "add rows, or send Arrow with --format arrows"
            )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (batch for batch in self.arrivals(lambda: None) if batch is not None)


class _ArrowRows:
    """Arrow's stream format, one batch at a time."""

    waiting = False

    def __init__(self, descriptor: int, format_: PipeFormat) -> None:
        self._reader = pa.ipc.open_stream(pa.PythonFile(_Whole(descriptor), "r"))
        self.schema: pa.Schema = self._reader.schema

    def read(self) -> pa.Table | None:
        """Wait for the next batch; None at the end."""
        try:
            return pa.Table.from_batches([self._reader.read_next_batch()])
        except StopIteration:
            return None


class _TextRows:
    """Lines of text: all that have arrived, parsed with the types of the first ones."""

    def __init__(self, descriptor: int, format_: PipeFormat) -> None:
        self._descriptor = descriptor
        self._rest = b""  # an incomplete line
        self._ended = False
        self._parse = _parse_csv if format_ is PipeFormat.CSV else _parse_json
        enough = 2 if format_ is PipeFormat.CSV else 1  # names and a row, or a row
        text: bytes = b""
        while text.strip().count(b"\n") + 1 < enough or not text.strip():
            piece = self._lines()
            if piece is None:
                break
            text += piece
        if not text.strip():
            raise DataError("the stream is empty: expected rows on standard input")
        self._first: pa.Table | None = self._parse(text, None)
        self.schema: pa.Schema = self._first.schema

    @property
    def waiting(self) -> bool:
        """Whether the first rows have not been returned yet."""
        return self._first is not None

    def read(self) -> pa.Table | None:
        """The rows that have arrived, perhaps none; None at the end."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        text = self._lines()
        if text is None:
            return None
        return self._parse(text, self.schema) if text.strip() else self.schema.empty_table()

    def _lines(self) -> bytes | None:
        """Wait for input; return the complete lines of up to ``PIECE`` bytes, None at the end."""
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
    """A descriptor whose reads return all requested bytes, unless it ends."""

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
    """Whether input, or its end, arrives within ``seconds``; None waits without limit."""
    limit = None if seconds is None else max(0.0, seconds)
    return bool(select.select([descriptor], [], [], limit)[0])


class PipeTarget:
    """Standard output: every batch is written at once. A context manager, like ``Target``."""

    def __init__(self, file: BinaryIO, format_: PipeFormat, schema: pa.Schema) -> None:
        self._file = file
        self._sink = io.BytesIO()
        self._writer = _WRITERS[format_](self._sink, schema)

    def __enter__(self) -> PipeTarget:
        self._pass_on()  # column names, before any row
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self._writer.write(batch)
        self._pass_on()

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if kind is None:
            self._writer.close()
            self._pass_on()

    def _pass_on(self) -> None:
        self._file.write(self._sink.getvalue())
        self._file.flush()
        self._sink.seek(0)
        self._sink.truncate()


class _Json(JsonLines):
    """JSON lines."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(io.TextIOWrapper(sink, encoding="utf-8", write_through=True))

    def close(self) -> None:
        return  # leave the sink open: its contents are still to be read


_WRITERS: dict[PipeFormat, Callable[[BinaryIO, pa.Schema], Any]] = {
    PipeFormat.CSV: csv_writer,
    PipeFormat.JSON_LINES: _Json,
    PipeFormat.ARROW_STREAM: pa.ipc.new_stream,
}
