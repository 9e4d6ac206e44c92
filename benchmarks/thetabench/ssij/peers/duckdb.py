"""DuckDB: the table sorted by key, with an ART index on it, the stream as a temporary table.

DuckDB keeps the index for look-ups of single values; its joins do not use it (it hashes the stream
and scans the table, block by block, leaving out those whose least and greatest key do not meet the
stream's). What it does is left to it.

Its memory limit is the budget; where that is too little for the query, twice as much, and so on
until it works: ``limit`` says how much it took. One thread, as our join has.
"""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from thetabench.contestant import Unavailable, optional
from thetabench.ssij.peers import Answer, Peer, checksum, quoted

_LOADING = "2GB"
_MOST = 1 << 34


class DuckDB(Peer):
    """A database file and a connection."""

    def join(self, batch: pa.RecordBatch) -> Answer:
        """Make the temporary table, then ask, with more memory if there must be."""
        self._connection.register("fresh", pa.Table.from_batches([batch]))
        self._patiently("CREATE OR REPLACE TEMPORARY TABLE l AS SELECT * FROM fresh")
        answer, seconds = self._patiently(self.question)
        if self._rows:
            one, two = (answer.column(at).to_numpy() for at in (0, 1))
            return Answer(answer.num_rows, checksum(one, two), seconds)
        count, total = (answer.column(at)[0].as_py() for at in (0, 1))
        return Answer(int(count), int(total or 0), seconds)

    def load(self, table: Path, *, rows: bool = False) -> str:
        """Sort the table. With ``rows`` an answer is whole rows, within the time."""
        self._rows, self.limit = rows, self.budget
        self._duckdb = optional("duckdb")
        database = self._duckdb.connect(str(self.folder / "table.duckdb"))
        self._connection = self.opened.enter_context(closing(database))
        file = str(table).replace("'", "''")
        for command in (
            f"SET memory_limit = '{_LOADING}'",
            "SET threads = 1",
            "SET preserve_insertion_order = false",
            f"CREATE TABLE r AS SELECT * FROM read_parquet('{file}') ORDER BY {quoted(self.key)}",
            f"CREATE INDEX r_key ON r ({quoted(self.key)})",
            "CHECKPOINT",
        ):
            self._connection.execute(command).fetchall()
        self._bound()
        return self.query(wanted=f"{', '.join(self.ids)}, l.*, r.*" if rows else "")

    def _bound(self) -> None:
        """Set the limit, or the next one that it takes: it refuses one below what it holds."""
        while True:
            try:
                self._connection.execute(f"SET memory_limit = '{self.limit >> 10}KiB'").fetchall()
                return
            except self._duckdb.Error as error:
                self._raise(error)

    def _patiently(self, command: str) -> tuple[pa.Table, float]:
        """An answer and its seconds, with more memory if there must be."""
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
        self.limit *= 2
        if self.limit > _MOST:
            raise Unavailable(f"DuckDB has too little memory with {_MOST >> 30} GiB: {error}")
