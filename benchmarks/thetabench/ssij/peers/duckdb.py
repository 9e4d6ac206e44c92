"""DuckDB: the table sorted by key, with an ART index on it, the stream as a temporary table.

DuckDB keeps the index for look-ups of single values; its joins do not use it (it hashes the stream
and scans the table, block by block, leaving out those whose least and greatest key do not meet the
stream's). What it does is left to it.

Its memory limit is the budget; where that is too little for the query, twice as much, and so on
until it works: ``remark`` says how much it took. One thread, as our join has.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from shutil import rmtree
from time import perf_counter

import pyarrow as pa

from thetabench.contestant import Unavailable, optional
from thetabench.ssij.peers import (
    STREAM_ID,
    Answer,
    Source,
    checksum,
    checksum_sql,
    condition,
    proof,
    quoted,
    schema_of,
)

__all__ = ["DuckDB", "enter"]

_LOADING = "2GB"
_MOST = 1 << 34


def enter(
    table: Source,
    key: str,
    budget: int,
    folder: Path,
    *,
    on: str | None = None,
    threads: int = 1,
    rows: bool = False,
) -> DuckDB:
    """Load a table. With ``rows`` the answer is given as whole rows, within the time."""
    place = Path(tempfile.mkdtemp(prefix="duckdb-", dir=folder))
    try:
        return DuckDB(place, table, key, budget, condition(key, on), threads, rows)
    except BaseException:
        rmtree(place, ignore_errors=True)
        raise


class DuckDB:
    """A database file with the table ``r``, and a connection with the temporary table ``l``."""

    def __init__(
        self,
        folder: Path,
        table: Source,
        key: str,
        budget: int,
        on: str,
        threads: int,
        rows: bool,
    ) -> None:
        self.name = "duckdb-rows" if rows else "duckdb"
        self.folder = folder
        self._budget = self._limit = budget
        self._threads = threads
        self._duckdb = optional("duckdb")
        one, two = f"l.{quoted(STREAM_ID)}", f"r.{quoted(proof(schema_of(table), key))}"
        wanted = f"{one}, {two}, l.*, r.*" if rows else f"count(*), {checksum_sql(one, two)}"
        self._question = f"SELECT {wanted} FROM l JOIN r ON {on}"
        self._rows = rows
        self._connection = self._duckdb.connect(str(folder / "table.duckdb"))
        try:
            self._load(table, key)
            self._bound()
        except BaseException:
            self._connection.close()
            raise

    @property
    def remark(self) -> str:
        """Version and memory."""
        text = f"DuckDB {self._duckdb.__version__}, memory_limit {self._limit >> 10} kB"
        if self._limit > self._budget:
            text += f", since {self._budget >> 10} kB are too few for it"
        return f"{text}, page cache of the system beside it"

    @property
    def plan(self) -> str:
        """How the last batch was joined, as DuckDB draws it."""
        ((_, text),) = self._connection.execute(f"EXPLAIN {self._question}").fetchall()
        return str(text)

    def join(self, batch: pa.RecordBatch) -> Answer:
        fresh = pa.Table.from_batches([batch])
        self._patiently("CREATE OR REPLACE TEMPORARY TABLE l AS SELECT * FROM fresh", fresh)
        answer, seconds = self._patiently(self._question)
        if self._rows:
            one, two = (answer.column(at).to_numpy() for at in (0, 1))
            return Answer(answer.num_rows, checksum(one, two), seconds)
        found, total = answer.column(0)[0].as_py(), answer.column(1)[0].as_py()
        return Answer(int(found), int(total or 0), seconds)

    def close(self) -> None:
        self._connection.close()
        rmtree(self.folder, ignore_errors=True)

    def _load(self, table: Source, key: str) -> None:
        def run(command: str) -> None:
            self._connection.execute(command).fetchall()

        run(f"SET memory_limit = '{_LOADING}'")
        run(f"SET threads = {self._threads}")
        run("SET preserve_insertion_order = false")
        if isinstance(table, pa.Table):
            self._connection.register("given", table)
        else:
            path = Path(table)
            names = str(path / "**" / "*.parquet") if path.is_dir() else str(path)
            text = names.replace("'", "''")
            run(f"CREATE VIEW given AS SELECT * FROM read_parquet('{text}')")
        run(f"CREATE TABLE r AS SELECT * FROM given ORDER BY {quoted(key)}")
        run(f"CREATE INDEX r_key ON r ({quoted(key)})")
        run("CHECKPOINT")
        if isinstance(table, pa.Table):
            self._connection.unregister("given")

    def _bound(self) -> None:
        """Set the limit, or the next one that it takes: it refuses one below what it holds."""
        while True:
            try:
                self._connection.execute(f"SET memory_limit = '{self._limit >> 10}KiB'").fetchall()
                return
            except self._duckdb.Error as error:
                self._raise(error)

    def _patiently(self, command: str, fresh: pa.Table | None = None) -> tuple[pa.Table, float]:
        """An answer and its seconds, with more memory if there must be."""
        if fresh is not None:
            self._connection.register("fresh", fresh)
        while True:
            start = perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
                    answer = self._connection.execute(command).to_arrow_table()
                return answer, perf_counter() - start
            except self._duckdb.OutOfMemoryException as error:
                self._raise(error)
                self._bound()

    def _raise(self, error: Exception) -> None:
        self._limit *= 2
        if self._limit > _MOST:
            raise Unavailable(f"DuckDB has too little memory with {_MOST >> 30} GiB: {error}")
