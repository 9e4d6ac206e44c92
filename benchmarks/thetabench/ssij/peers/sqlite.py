"""SQLite: the table clustered by key, the stream as a temporary table, one look-up per stream row.

The table has no row ids: rows lie in the leaves of the B-tree of the primary key (key, number).
``CROSS JOIN`` makes the stream the outer loop, as SQLite documents it. The page cache is the
budget; nothing is mapped into memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from thetabench.ssij.peers import Answer, Peer, Types, quoted

_NUMBER = "__n"  # tells rows of one key apart
_PAGE = 8192


class SQLite(Peer):
    """A database file and a connection."""

    types: ClassVar[Types] = {
        "INTEGER": (pat.is_integer, pat.is_temporal),
        "REAL": (pat.is_floating,),
        "TEXT": (pat.is_string, pat.is_large_string),
        "BLOB": (pat.is_binary, pat.is_fixed_size_binary),
    }

    @property
    def plan(self) -> str:
        """How the last batch was joined, from the outermost loop."""
        lines = self._connection.execute(f"EXPLAIN QUERY PLAN {self.question}").fetchall()
        return " > ".join(str(line[-1]) for line in lines)

    def join(self, batch: pa.RecordBatch) -> Answer:
        """Insert the rows, then ask."""
        self._run("DROP TABLE IF EXISTS temp.l")
        self._run(f"CREATE TEMPORARY TABLE l ({self.columns(batch.schema)})")
        self._insert("l", pa.Table.from_batches([batch]))
        start = perf_counter()
        count, total = self._connection.execute(self.question).fetchone()
        return Answer(count, total or 0, perf_counter() - start)

    def load(self, table: Path) -> str:
        """Insert all rows in the order of their keys; a primary key is never NULL."""
        database = sqlite3.connect(self.folder / "table.sqlite", isolation_level=None)
        self._connection = self.opened.enter_context(closing(database))
        rows = pq.read_table(table)
        self._run(
            f"PRAGMA page_size = {_PAGE}",
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "PRAGMA temp_store = MEMORY",
            "PRAGMA mmap_size = 0",
            f"PRAGMA cache_size = -{max(self.budget >> 10, 1)}",
            f"CREATE TABLE r ({self.columns(rows.schema)}, {_NUMBER} INTEGER, "
            f"PRIMARY KEY ({quoted(self.key)}, {_NUMBER})) WITHOUT ROWID",
        )
        rows = rows.filter(rows[self.key].is_valid()).sort_by(self.key)
        self._insert("r", rows.append_column(_NUMBER, pa.array(range(rows.num_rows))))
        self._run("ANALYZE")
        return self.query(join="CROSS JOIN")

    def _run(self, *commands: str) -> None:
        for command in commands:
            self._connection.execute(command)

    def _insert(self, name: str, rows: pa.Table) -> None:
        marks = ", ".join("?" * rows.num_columns)
        self._run("BEGIN")
        self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", _values(rows))
        self._run("COMMIT")


def _values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in rows.to_batches(max_chunksize=1 << 16):
        yield from zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _plain(column: pa.Array) -> pa.Array:
    """Times as whole numbers: what SQLite stores."""
    if pat.is_temporal(column.type):
        return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column
