"""What both Polars forms share: the window as NumPy columns, one lazy query per push.

Polars reads the columns through Arrow without a copy. The alternative, a data frame that grows
by one chunk per push and is merged after 64 of them, was 1.15–1.2 × slower (bucket form, W1, window
2^20, batches of 2^10, 2^13 and 2^15, measured in turn in one process).
One lazy query per push is 1.6–1.9 × faster than the eager call (``join_where``, same window).

The number of threads is fixed when Polars is imported, so the harness sets ``POLARS_MAX_THREADS``
before it starts the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from thetabench.contestant import Stopwatch, optional, pairs, self_pairs
from thetabench.peers.sliding import SlidingColumns, columns_of
from thetabench.query import Op, Query, Term, Values
from thetastream.side import Side

STORED = "_stored"
BUCKET = "bucket"


class PolarsWindow(ABC):
    """The driver; a form says which columns it adds and how a push is asked."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("polars",)

    def __init__(self, query: Query, *, threads: str = "1", **options: str) -> None:
        assert not options, f"{self.name} takes the option threads; got {options}"
        self._pl = optional("polars")
        self._query = query
        self._stored = {side: SlidingColumns(query.window) for side in Side}
        self._watch = Stopwatch()

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return 0.0

    @abstractmethod
    def added(self, fresh: dict[str, Values]) -> dict[str, Values]:
        """Give the columns that are stored besides keys and id."""

    @abstractmethod
    def matches(self, side: Side, fresh: Any, stored: Any) -> Any:
        """Give the lazy query for the matching rows."""

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        for side, rows in zip(Side, (left, right), strict=True):
            if rows is not None:
                self._insert(side, rows)
                self._stored[side].expire()

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        self_join = self._query.self_join
        if self_join:
            self._insert(side, rows)
        stored = self._stored[side if self_join else side.other]
        with self._watch.phase("probe"):
            found = self._ask(side, rows, stored)
        if not self_join:
            self._insert(side, rows)
        self._stored[side].expire()
        with self._watch.phase("gather"):
            answer = found.to_arrow()
            ids = answer["id"], answer["id" + STORED]
            return self_pairs(*ids) if self_join else pairs(side, *ids)

    def phases(self) -> Mapping[str, float]:
        return self._watch.seconds

    def index_bytes(self) -> int:
        return 0

    def window_conditions(self) -> list[Any]:
        """Give the conditions on arrival that a self-join adds."""
        if not self._query.self_join:
            return []
        distance = self._pl.col("id") - self._pl.col("id" + STORED)
        return [distance.is_between(1, self._query.window)]

    def condition(self, term: Term) -> Any:
        """Give a term as one expression over fresh and stored columns."""
        fresh, stored = self._pl.col(term.column), self._pl.col(term.column + STORED)
        match term.op:
            case Op.BAND:
                return (fresh - stored).abs() <= term.width
            case Op.LT:
                return fresh < stored
            case Op.LE:
                return fresh <= stored
            case Op.GT:
                return fresh > stored
            case Op.GE:
                return fresh >= stored

    def _ask(self, side: Side, rows: pa.RecordBatch, stored: SlidingColumns) -> Any:
        return self._lazy(side, rows, stored).select("id", "id" + STORED).collect()

    def _lazy(self, side: Side, rows: pa.RecordBatch, stored: SlidingColumns) -> Any:
        kept = stored.arrow()
        names = [name if name == BUCKET else name + STORED for name in kept.schema.names]
        fresh = self._pl.from_arrow(rows).lazy()
        window = self._pl.from_arrow(kept.rename_columns(names)).lazy()
        return self.matches(side, fresh, window)

    def _insert(self, side: Side, rows: pa.Table | pa.RecordBatch) -> None:
        with self._watch.phase("insert"):
            fresh = columns_of(rows)
            self._stored[side].append({**fresh, **self.added(fresh)})
