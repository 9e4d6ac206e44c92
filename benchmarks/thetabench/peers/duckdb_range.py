"""DuckDB, range form: every term as plain range conditions, so that IEJoin can take them.

A band is two range conditions; ``abs()`` would become a nested loop. ``merge_join_threshold`` and
``nested_loop_join_threshold`` are 0, or DuckDB falls back to a nested loop for small batches.

IEJoin takes the first two conditions it can. What follows a band (a second band, the arrival
condition of a self-join) is therefore written so that it stays a filter: measured for W3, window
100 k, that is 1.1 × faster than range conditions in the same place, and 150 × faster than letting
IEJoin take the arrival condition.
"""

from __future__ import annotations

from typing import ClassVar

from thetabench.peers.duckdb_window import DuckDBWindow
from thetabench.query import Op, Query
from thetastream.side import Side


class DuckDBRange(DuckDBWindow):
    """A micro-batch is joined with the window table by IEJoin."""

    name: ClassVar[str] = "duckdb-range"

    def __init__(self, query: Query, *, threads: str = "1", **options: str) -> None:
        super().__init__(query, threads=threads, **options)
        self._connection.execute("SET merge_join_threshold = 0")
        self._connection.execute("SET nested_loop_join_threshold = 0")

    @classmethod
    def supports(cls, query: Query) -> bool:
        return True

    def stored_columns(self) -> str:
        return ", ".join([*self._query.columns, "id"])

    def question(self, side: Side, table: str) -> str:
        stored = side if self._query.self_join else side.other
        first, *rest = self._query.terms_for(side)
        terms = [first.sql("f", "w")]
        terms += [term.sql("f", "w", filter_only=first.op is Op.BAND) for term in rest]
        conditions = " AND ".join([*terms, self.window_condition(stored)])
        return f"SELECT f.id AS fresh, w.id AS stored FROM fresh f JOIN {table} w ON {conditions}"
