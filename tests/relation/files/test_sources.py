"""Where rows come from: every kind gives the same rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from thetastream.errors import RelationError, SchemaError
from thetastream.relation.files.sources import open_source

TABLE = pa.table({"k": pa.array([3, 1, None, 2]), "s": ["a", None, "c", "d"]})
MORE = pa.table({"k": pa.array([7, 5]), "s": ["e", "f"]})
BOTH = pa.concat_tables([TABLE, MORE])


def no_staging() -> Path:
    raise AssertionError("only Spark needs a folder")


def rows_of(source: Any, staging: Callable[[], Path] = no_staging) -> tuple[pa.Table, int | None]:
    found = open_source(source, staging)
    batches = list(found.batches)
    for batch in batches:
        assert batch.schema.equals(found.schema)
    return pa.Table.from_batches(batches, schema=found.schema), found.rows


class Polars:
    """Something that speaks Arrow's C interface, as frames of Polars, pandas and DuckDB do."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (lambda: TABLE, 4),
        (lambda: TABLE.combine_chunks().to_batches()[0], 4),
        (lambda: TABLE.to_batches(max_chunksize=1), 4),
        (lambda: tuple(TABLE.to_batches(max_chunksize=3)), 4),
        (lambda: [TABLE.slice(0, 1), TABLE.slice(1)], 4),
        (lambda: iter(TABLE.to_batches(max_chunksize=1)), None),
        (lambda: TABLE.to_reader(max_chunksize=2), None),
        (lambda: ds.dataset(TABLE), None),
        (lambda: ds.dataset(TABLE).scanner(), None),
        (Polars, None),
    ],
)
def test_rows_in_memory(source: Callable[[], Any], rows: int | None) -> None:
    table, known = rows_of(source())
    assert table.equals(TABLE)
    assert known == rows


FRAMES: dict[str, Callable[[], Any]] = {
    "dict": TABLE.to_pydict,
    "rows": TABLE.to_pylist,
    "pandas": lambda: pd.DataFrame(
        {"k": pd.array([3, 1, None, 2], "Int64"), "s": ["a", None, "c", "d"]}, index=[5, 6, 7, 8]
    ),
    "polars": lambda: pl.DataFrame(TABLE.to_pydict()),
    "lazy polars": lambda: pl.LazyFrame(TABLE.to_pydict()),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "frames": lambda: iter([pl.DataFrame(part.to_pydict()) for part in (TABLE[:3], TABLE[3:])]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    table, _ = rows_of(FRAMES[name]())
    assert table.to_pydict() == TABLE.to_pydict()


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix in (".parquet", ".pq"):
        pq.write_table(table, path)
    elif path.suffix in (".csv", ".tsv"):
        options = pa.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        pa.csv.write_csv(table, path, options)
    else:
        new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


ENDINGS = [".parquet", ".pq", ".csv", ".tsv", ".arrow", ".feather", ".arrows"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files(tmp_path: Path, ending: str) -> None:
    plain = TABLE if ending not in (".csv", ".tsv") else _as_csv(TABLE)
    path = write(TABLE, tmp_path / f"a{ending}")
    for source in (path, str(path), [path], iter([str(path)])):
        table, known = rows_of(source)
        assert table.equals(plain)
        assert known == (4 if ending in (".parquet", ".pq", ".arrow", ".feather") else None)


def _as_csv(table: pa.Table) -> pa.Table:
    """Text has no NULL strings."""
    return table.set_column(1, "s", table["s"].fill_null(""))


@pytest.mark.parametrize("ending", ENDINGS)
def test_folders(tmp_path: Path, ending: str) -> None:
    write(TABLE, tmp_path / f"a{ending}")
    (tmp_path / "deeper").mkdir()
    write(MORE, tmp_path / "deeper" / f"b{ending}")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / f".hidden{ending}").write_text("junk")
    (tmp_path / "README").write_text("junk")
    table, _ = rows_of(tmp_path)
    assert table.equals(BOTH if ending not in (".csv", ".tsv") else _as_csv(BOTH))


def test_addresses(tmp_path: Path) -> None:
    path = write(TABLE, tmp_path / "a b.parquet")
    assert rows_of(path.as_uri())[0].equals(TABLE)
    with pytest.raises(RelationError, match=r"not on this machine; pass pyarrow.dataset"):
        rows_of("s3://bucket/a.parquet")


def test_compressed_text(tmp_path: Path) -> None:
    write(TABLE, tmp_path / "a.csv")
    packed = gzip.compress((tmp_path / "a.csv").read_bytes())
    (tmp_path / "b.csv.gz").write_bytes(packed)
    assert rows_of(tmp_path / "b.csv.gz")[0].equals(_as_csv(TABLE))


def test_folders_that_name_a_column(tmp_path: Path) -> None:
    for year, table in ((2023, TABLE), (2024, MORE)):
        (tmp_path / f"year={year}").mkdir()
        write(table, tmp_path / f"year={year}" / "part.parquet")
    table, known = rows_of(tmp_path)
    assert known == 6
    assert table["year"].to_pylist() == [2023] * 4 + [2024] * 2
    assert table.drop(["year"]).equals(BOTH)


def test_columns_that_some_files_lack_are_null_there(tmp_path: Path) -> None:
    write(TABLE, tmp_path / "a.parquet")
    write(pa.table({"k": [9], "z": [1.5]}), tmp_path / "b.parquet")
    table, known = rows_of(tmp_path)
    assert table.column_names == ["k", "s", "z"]
    assert known == 5
    assert table.to_pylist()[-1] == {"k": 9, "s": None, "z": 1.5}


def test_files_whose_types_differ(tmp_path: Path) -> None:
    write(TABLE, tmp_path / "a.parquet")
    write(pa.table({"k": ["nine"], "s": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(RelationError, match="cannot read 2 files .* as parquet: .*k"):
        rows_of(tmp_path)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_that_is_something_else(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"a{ending}").write_text("certainly not")
    with pytest.raises(RelationError, match="cannot read .* as (parquet|ipc)"):
        rows_of(tmp_path / f"a{ending}")


def test_a_row_of_text_that_does_not_fit(tmp_path: Path) -> None:
    lines = ["k,s", *(f"{i},x" for i in range(300_000)), "oops,x"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with pytest.raises(RelationError, match="a row of the source cannot be read: .*oops"):
        rows_of(tmp_path / "a.csv")


def test_paths_that_cannot_be_sources(tmp_path: Path) -> None:
    with pytest.raises(RelationError, match="there is no file or folder"):
        rows_of(tmp_path / "none.parquet")
    with pytest.raises(RelationError, match="holds no files whose names end in .parquet"):
        rows_of(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(RelationError, match="cannot tell the format of .*a.txt"):
        rows_of(tmp_path / "a.txt")
    paths = [write(TABLE, tmp_path / "a.parquet"), write(TABLE, tmp_path / "a.csv")]
    with pytest.raises(RelationError, match="must have one format; these have csv, parquet"):
        rows_of(paths)


@pytest.mark.parametrize("source", [5, b"x", None])
def test_things_that_are_no_source(source: Any) -> None:
    with pytest.raises(RelationError, match=f"built from .* got {type(source).__name__}"):
        rows_of(source)


def test_iterables_that_give_something_else() -> None:
    with pytest.raises(RelationError, match="has no batches"):
        rows_of([])
    with pytest.raises(RelationError, match="it yielded str"):
        rows_of([TABLE, "a.parquet"])
    with pytest.raises(SchemaError, match="the relation got a list of dicts with a int among them"):
        rows_of([{"k": 1}, 5])
    with pytest.raises(SchemaError, match="the columns of the relation differ in length"):
        rows_of({"k": [1], "s": []})
    with pytest.raises(RelationError, match="it yielded int"):
        rows_of([TABLE, 5])


def test_batches_that_differ() -> None:
    with pytest.raises(SchemaError, match="different columns: s, t"):
        rows_of([TABLE, TABLE.rename_columns(["k", "t"])])
    with pytest.raises(SchemaError, match="'k' .* changed its type from int64 to int32"):
        rows_of([TABLE, TABLE.set_column(0, "k", TABLE["k"].cast(pa.int32()))])
    swapped, _ = rows_of([TABLE, MORE.select(["s", "k"])])
    assert swapped.equals(BOTH)


def test_columns_of_the_same_name_and_none() -> None:
    with pytest.raises(SchemaError, match="same name: k"):
        rows_of(pa.table([[1], [2]], names=["k", "k"]))
    with pytest.raises(SchemaError, match="no columns"):
        rows_of(pa.table({}))


# --- Spark, or what looks like it ---------------------------------------------------------------


class Settings(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


class Session:
    def __init__(self) -> None:
        self.conf = Settings()


class DataFrame:
    """As much of Spark's DataFrame as is used."""

    def __init__(self, streaming: bool = False) -> None:
        self.isStreaming = streaming
        self.sparkSession = Session()
        self.times: list[str | None] = []

    isStreaming = False

    def toDF(self) -> None: ...

    def mapInArrow(self) -> None: ...

    @property
    def write(self) -> DataFrame:
        return self

    def parquet(self, uri: str) -> None:
        self.times.append(self.sparkSession.conf.get("spark.sql.parquet.outputTimestampType"))
        folder = Path(url2pathname(urlparse(uri).path))
        folder.mkdir()
        (folder / "_SUCCESS").write_text("")
        pq.write_table(TABLE, folder / "part-0.parquet")
        pq.write_table(MORE, folder / "part-1.parquet")


@pytest.mark.parametrize("before", [None, "INT96"])
def test_a_spark_frame_is_staged(tmp_path: Path, before: str | None) -> None:
    frame = DataFrame()
    name = "spark.sql.parquet.outputTimestampType"
    if before:
        frame.sparkSession.conf.set(name, before)
    table, known = rows_of(frame, lambda: tmp_path)
    assert table.equals(BOTH)
    assert known == 6
    assert frame.times == ["TIMESTAMP_MICROS"]
    assert frame.sparkSession.conf.get(name) == before


def test_a_stream_of_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RelationError, match="streaming DataFrame.*foreachBatch"):
        rows_of(DataFrame(streaming=True), lambda: tmp_path)


def test_rows_are_read_as_they_are_asked_for() -> None:
    asked = []

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            asked.append(1)
            yield from MORE.to_batches()

    batches = open_source(endless(), no_staging).batches
    assert next(batches).num_rows == 2
    assert next(batches).num_rows == 2
    assert len(asked) == 2
