"""Standard input and output as streams: rows pass as they come, in every format."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from thetastream.cli.relation.pipe import PIECE, Pipe, PipeFormat, PipeTarget
from thetastream.errors import DataError

ROWS = [{"x": i, "s": f"row {i}"} for i in range(5)]
TABLE = pa.Table.from_pylist(ROWS)


def written(format_: PipeFormat, *tables: pa.Table, schema: pa.Schema = TABLE.schema) -> bytes:
    file = io.BytesIO()
    with PipeTarget(file, format_, schema) as target:
        for table in tables:
            for batch in table.to_batches():
                target.write(batch)
    return file.getvalue()


class Ends:
    """A pipe: what is written to one end is read from the other."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self._reader, self._writer = io.FileIO(reader, "r"), io.FileIO(writer, "w")
        self.descriptor = reader

    def write(self, text: bytes) -> None:
        self._writer.write(text)

    def end(self) -> None:
        self._writer.close()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    pair = Ends()
    yield pair
    pair.close()


def arrived(pipe: Pipe) -> list[dict[str, object]]:
    return [row for batch in pipe.arrivals(lambda: None) for row in batch.to_pylist()]


@pytest.mark.parametrize("format_", PipeFormat)
def test_what_is_written_is_read(format_: PipeFormat, ends: Ends) -> None:
    ends.write(written(format_, TABLE.slice(0, 2), TABLE.slice(2)))
    ends.end()
    pipe = Pipe(ends.descriptor, format_, 2)
    assert pipe.schema.names == ["x", "s"]
    assert arrived(pipe) == ROWS


@pytest.mark.parametrize("format_", PipeFormat)
def test_rows_come_while_the_stream_goes_on(format_: PipeFormat, ends: Ends) -> None:
    text = written(format_, TABLE.slice(0, 1), TABLE.slice(1, 1))
    if format_ is PipeFormat.ARROW_STREAM:
        text = text[:-8]  # without the mark of the end
    ends.write(text)
    pipe = Pipe(ends.descriptor, format_, 100)
    waits = pipe.arrivals(lambda: 0.001)
    found: list[dict[str, object]] = []
    while len(found) < 2:
        found += next(waits).to_pylist()
    assert found == ROWS[:2]
    assert next(waits) is None
    assert next(waits) is None
    ends.write({"csv": b"7,seven\n8,eig", "jsonl": b'{"x": 7, "s": "seven"}\n{"x"'}.get(
        format_.value, written(format_, TABLE.slice(2, 1))[len(written(format_)) - 8 :]
    ))  # fmt: skip
    later = next(waits)
    assert later is not None
    assert later.to_pylist() == ([ROWS[2]] if "a" in format_.value else [{"x": 7, "s": "seven"}])


def test_half_a_line_waits_for_its_end(ends: Ends) -> None:
    ends.write(b"x,s\n1,one\n2,t")
    pipe = Pipe(ends.descriptor, PipeFormat.CSV, 100)
    found = pipe.arrivals(lambda: 0.001)
    assert next(found).to_pylist() == [{"x": 1, "s": "one"}]
    assert next(found) is None
    ends.write(b"wo")
    assert next(found) is None
    ends.end()
    assert [batch.to_pylist() for batch in found] == [[{"x": 2, "s": "two"}]]


def test_a_long_stream_comes_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    count = 400_000
    file.write_text("x,s\n" + "".join(f"{i},abc\n" for i in range(count)))
    assert file.stat().st_size > 2 * PIECE
    descriptor = os.open(file, os.O_RDONLY)
    try:
        pipe = Pipe(descriptor, PipeFormat.CSV, 1000)
        rows = [batch.column(0).to_pylist() for batch in pipe.arrivals(lambda: None)]
    finally:
        os.close(descriptor)
    assert max(map(len, rows)) <= 1000
    assert [x for batch in rows for x in batch] == list(range(count))


@pytest.mark.parametrize("format_", [PipeFormat.CSV, PipeFormat.JSON_LINES])
@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_an_empty_stream(format_: PipeFormat, text: bytes, ends: Ends) -> None:
    ends.write(text)
    ends.end()
    with pytest.raises(DataError, match="stream is empty"):
        Pipe(ends.descriptor, format_, 100)


def test_names_without_rows(ends: Ends) -> None:
    ends.write(b"x,s\n")
    ends.end()
    pipe = Pipe(ends.descriptor, PipeFormat.CSV, 100)
    assert pipe.schema.names == ["x", "s"]
    assert arrived(pipe) == []


@pytest.mark.parametrize(
    ("format_", "first", "later"),
    [
        (PipeFormat.CSV, b"x,s\n1,a\n", b"two,b\n"),
        (PipeFormat.CSV, b"x,s\n1,a\n", b"2,b,c\n"),
        (PipeFormat.JSON_LINES, b'{"x": 1}\n', b'{"x": "two"}\n'),
        (PipeFormat.JSON_LINES, b'{"x": 1}\n', b'{"y": 2}\n'),
        (PipeFormat.ARROW_STREAM, written(PipeFormat.ARROW_STREAM), b"no Arrow at all"),
    ],
)
def test_what_does_not_fit_is_said(
    format_: PipeFormat, first: bytes, later: bytes, ends: Ends
) -> None:
    ends.write(first[:-8] if format_ is PipeFormat.ARROW_STREAM else first)
    pipe = Pipe(ends.descriptor, format_, 100)
    found = pipe.arrivals(lambda: None)
    if format_ is not PipeFormat.ARROW_STREAM:
        assert next(found).num_rows == 1
    ends.write(later)
    ends.end()
    with pytest.raises(DataError, match="cannot read standard input: ") as caught:
        list(found)
    assert "\n" not in str(caught.value)


def test_no_arrow_stream_at_all(ends: Ends) -> None:
    ends.write(b"x,s\n1,one\n")
    ends.end()
    with pytest.raises(DataError, match="cannot read standard input: "):
        Pipe(ends.descriptor, PipeFormat.ARROW_STREAM, 100)


def test_an_unknown_format() -> None:
    with pytest.raises(DataError, match="csv, jsonl or arrows; got 'parquet'"):
        PipeFormat.of("parquet")


def test_batches_are_passed_on_at_once() -> None:
    file = io.BytesIO()
    with PipeTarget(file, PipeFormat.CSV, TABLE.schema) as target:
        assert file.getvalue() == b'"x","s"\n'
        target.write(TABLE.to_batches()[0].slice(0, 1))
        assert file.getvalue() == b'"x","s"\n0,"row 0"\n'
