"""What both DuckDB forms share: windows kept as DuckDB tables, one query per push.

How the window is held was measured (W1, window 2^20, one thread, batches of 2^10 / 2^13 / 2^15,
bucket form, query time only): native tables are 1.1 / 2.1 / 1.6 × faster to join than a registered
Arrow table, and keeping them up to date costs 10–15 % of a push. Old rows are deleted when an
eighth of the window has expired, the query filters the rest by id: 1–10 % faster than a DELETE per
push. ``execute()`` was 2–4 % faster than ``sql()``, which plans the query twice, although DuckDB
warns that it copies the answer once more.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from thetabench.contestant import Stopwatch, optional, pairs, self_pairs
from thetabench.query import Query
from thetastream.side import Side


class DuckDBWindow(ABC):
    """The driver; a form says which columns it stores and how a push is asked."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)

    def __init__(self, query: Query, *, threads: str = "1", **options: str) -> None:
        assert not options, f"{self.name} takes the option threads; got {options}"
        self._query = query
        self._watch = Stopwatch()
        self._start = dict.fromkeys(Side, 0)  # id of the oldest row that is still in the table
        self._end = dict.fromkeys(Side, 0)  # id of the next row
        self._connection = optional("duckdb").connect(":memory:")
        self._connection.execute(f"SET threads = {int(threads)}")
        self._connection.execute("SET preserve_insertion_order = false")

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return 0.0

    @abstractmethod
    def stored_columns(self) -> str:
        """Give the SELECT list that makes a stored row from an arriving one."""

    @abstractmethod
    def question(self, side: Side, table: str) -> str:
        """Give the query for fresh rows ``f`` of ``fresh`` against stored rows ``w``."""

    def window_condition(self, stored: Side) -> str:
        """Give the condition that a stored row ``w`` is in the window of a fresh row ``f``."""
        if self._query.self_join:
            return f"f.id - w.id BETWEEN 1 AND {self._query.window}"
        return f"w.id >= {self._end[stored] - self._query.window}"

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        for side, rows in zip(Side, (left, right), strict=True):
            if rows is None:
                continue
            self._connection.register("fresh", rows)
            self._connection.execute(
                f"CREATE TABLE {side.value}_rows AS SELECT {self.stored_columns()} FROM fresh"
            )
            self._end[side] = rows.num_rows
            self._expire(side)

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        self._connection.register("fresh", pa.Table.from_batches([rows]))
        if self._query.self_join:
            self._insert(side, rows.num_rows)
        stored = side if self._query.self_join else side.other
        with self._watch.phase("probe"):
            found = self._ask(self.question(side, f"{stored.value}_rows"))
        if not self._query.self_join:
            self._insert(side, rows.num_rows)
        with self._watch.phase("expire"):
            self._expire(side)
        fresh_ids, stored_ids = found.columns
        if self._query.self_join:
            return self_pairs(fresh_ids, stored_ids)
        return pairs(side, fresh_ids, stored_ids)

    def phases(self) -> Mapping[str, float]:
        return self._watch.seconds

    def index_bytes(self) -> int:
        return 0

    def _ask(self, question: str) -> pa.Table:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
            return self._connection.execute(question).to_arrow_table()

    def _insert(self, side: Side, rows: int) -> None:
        with self._watch.phase("insert"):
            self._connection.execute(
                f"INSERT INTO {side.value}_rows SELECT {self.stored_columns()} FROM fresh"
            )
            self._end[side] += rows

    def _expire(self, side: Side) -> None:
        start = self._end[side] - self._query.window
        if start - self._start[side] > self._query.window // 8:
            self._connection.execute(f"DELETE FROM {side.value}_rows WHERE id < {start}")
            self._start[side] = start
