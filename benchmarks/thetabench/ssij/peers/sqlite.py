"""SQLite: the table clustered by key, the stream as a temporary table, one look-up per stream row.

The table has no row ids: rows lie in the leaves of the B-tree of the primary key (key, number).
``CROSS JOIN`` makes the stream the outer loop, as SQLite documents it. The page cache is the
budget; nothing is mapped into memory.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thetabench.contestant import Unavailable
from thetabench.ssij.peers import (
    STREAM_ID,
    Answer,
    Source,
    checksum_sql,
    condition,
    proof,
    quoted,
)

__all__ = ["SQLite", "enter"]

_NUMBER = "__n"  # tells rows of one key apart
_PAGE = 8192


def enter(table: Source, key: str, budget: int, folder: Path, *, on: str | None = None) -> SQLite:
    """Load a table."""
    place = Path(tempfile.mkdtemp(prefix="sqlite-", dir=folder))
    try:
        return SQLite(place, table, key, budget, condition(key, on))
    except BaseException:
        rmtree(place, ignore_errors=True)
        raise


class SQLite:
    """A database file with the table ``r``, and a connection with the temporary table ``l``."""

    name = "sqlite"

    def __init__(self, folder: Path, table: Source, key: str, budget: int, on: str) -> None:
        self.folder = folder
        self._budget = budget
        rows = table if isinstance(table, pa.Table) else pq.read_table(table)
        total = checksum_sql(f"l.{quoted(STREAM_ID)}", f"r.{quoted(proof(rows.schema, key))}")
        self._question = f"SELECT count(*), {total} FROM l CROSS JOIN r ON {on}"
        self._connection = sqlite3.connect(folder / "table.sqlite", isolation_level=None)
        try:
            self._load(rows, key)
        except BaseException:
            self._connection.close()
            raise

    @property
    def remark(self) -> str:
        """Version and memory."""
        return (
            f"SQLite {sqlite3.sqlite_version}, cache_size {self._budget >> 10} kB, page cache of "
            "the system beside it"
        )

    @property
    def plan(self) -> str:
        """How the last batch was joined, from the outermost loop."""
        lines = self._connection.execute(f"EXPLAIN QUERY PLAN {self._question}").fetchall()
        return " > ".join(str(line[-1]) for line in lines)

    def join(self, batch: pa.RecordBatch) -> Answer:
        self._run("DROP TABLE IF EXISTS temp.l")
        self._run(f"CREATE TEMPORARY TABLE l ({_columns(batch.schema)})")
        self._insert("l", pa.Table.from_batches([batch]))
        start = perf_counter()
        found, total = self._connection.execute(self._question).fetchone()
        return Answer(found, total or 0, perf_counter() - start)

    def close(self) -> None:
        self._connection.close()
        rmtree(self.folder, ignore_errors=True)

    def _run(self, command: str) -> None:
        self._connection.execute(command)

    def _load(self, rows: pa.Table, key: str) -> None:
        for command in (
            f"PRAGMA page_size = {_PAGE}",
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "PRAGMA temp_store = MEMORY",
            "PRAGMA mmap_size = 0",
            f"PRAGMA cache_size = -{max(self._budget >> 10, 1)}",
        ):
            self._run(command)
        self._run(
            f"CREATE TABLE r ({_columns(rows.schema)}, {_NUMBER} INTEGER, "
            f"PRIMARY KEY ({quoted(key)}, {_NUMBER})) WITHOUT ROWID"
        )
        rows = rows.filter(rows[key].is_valid())  # a primary key is never NULL
        numbered = rows.sort_by(key).append_column(_NUMBER, pa.array(range(rows.num_rows)))
        self._insert("r", numbered)
        self._run("ANALYZE")

    def _insert(self, name: str, rows: pa.Table) -> None:
        marks = ", ".join("?" * rows.num_columns)
        self._run("BEGIN")
        self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", _values(rows))
        self._run("COMMIT")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{quoted(field.name)} {_type(field)}" for field in schema)


def _type(field: pa.Field) -> str:
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return "INTEGER"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "REAL"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "TEXT"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "BLOB"
    raise Unavailable(f"column {field.name!r} of type {kind} has no form in SQLite here")


def _values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in rows.to_batches(max_chunksize=1 << 16):
        yield from zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _plain(column: pa.Array) -> pa.Array:
    """Times as whole numbers, decimals as floats: what SQLite stores."""
    if pa.types.is_temporal(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        return column.cast(width)
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    return column
