"""Files as streams: every format, bounded batches, whole outputs or none."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest

from thetastream.cli.files import Format, InputFile, Target
from thetastream.errors import DataError

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "x": pa.array([None, *(i / 2 for i in range(9))], pa.float64()),
        "s": pa.array([f"row {i}" for i in range(10)], pa.string()),
    }
)
ENDINGS = [ending for format_ in Format for ending in format_.value]


def write(path: Path, table: pa.Table, *, force: bool = False) -> None:
    with Target(path, table.schema, force=force) as target:
        for batch in table.to_batches(max_chunksize=4):
            target.write(batch)


def read(path: Path, batch_rows: int = 3) -> pa.Table:
    source = InputFile(path, batch_rows)
    batches = list(source)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    return pa.Table.from_batches(batches, source.schema)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"table{ending}"
    write(path, TABLE)
    assert read(path).equals(TABLE)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".arrows"])
def test_an_empty_table_keeps_its_schema(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"empty{ending}"
    write(path, TABLE.schema.empty_table())
    assert InputFile(path, 10).schema == TABLE.schema
    assert read(path).num_rows == 0


def test_parquet_knows_its_rows(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", TABLE)
    write(tmp_path / "t.csv", TABLE)
    assert InputFile(tmp_path / "t.parquet", 3).rows == 10
    assert InputFile(tmp_path / "t.csv", 3).rows is None


def test_json_lines_of_values_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(
        path,
        pa.table(
            {
                "d": [datetime.date(2024, 2, 29)],
                "t": [datetime.datetime(2024, 2, 29, 12, 30)],
                "n": [decimal.Decimal("1.50")],
                "b": [b"\x00\xff"],
            }
        ),
    )
    assert json.loads(path.read_text()) == {
        "d": "2024-02-29",
        "t": "2024-02-29T12:30:00",
        "n": "1.50",
        "b": "AP8=",
    }


def test_an_existing_output_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("precious")
    with pytest.raises(DataError, match="--force"):
        write(path, TABLE)
    assert path.read_text() == "precious"
    write(path, TABLE, force=True)
    assert read(path).equals(TABLE)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failure_leaves_no_output(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"

    def fail() -> None:
        with Target(path, TABLE.schema, force=False) as target:
            target.write(TABLE.to_batches()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.csv", "no such file"),
        ("folder.csv", "has no file to read"),
        ("t.parket", "'.parquet'"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "t.parket").write_text("")
    with pytest.raises(DataError, match=message):
        InputFile(tmp_path / name, 10)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".jsonl"])
def test_a_file_that_is_not_what_its_name_says(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_text("not this format at all, whatever the name says")
    with pytest.raises(DataError, match="cannot read"):
        read(path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        write(tmp_path / "gone" / "t.csv", TABLE)
