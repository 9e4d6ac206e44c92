"""Polars in two forms: the window as NumPy columns, one lazy query per push.

Polars reads the columns through Arrow without a copy. The alternative, a data frame that grows
by one chunk per push and is merged after 64 of them, was 1.15–1.2 × slower (bucket form, W1, window
2^20, batches of 2^10, 2^13 and 2^15, measured in turn in one process).
One lazy query per push is 1.6–1.9 × faster than the eager call (``join_where``, same window).

The number of threads is fixed when Polars is imported, so the harness sets ``POLARS_MAX_THREADS``
before it starts the process.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from thetabench.contestant import optional
from thetabench.peers.window import WindowJoin, columns_of
from thetabench.query import Op, Query, Term, Values
from thetastream.side import Side

STORED = "_stored"
BUCKET = "bucket"


class PolarsJoin(WindowJoin):
    """What both forms share; a form says how fresh and stored rows are joined."""

    packages: ClassVar[tuple[str, ...]] = ("polars",)

    def __init__(self, query: Query, *, threads: str = "1", **options: str) -> None:
        super().__init__(query, **options)
        self._pl = optional("polars")

    @abstractmethod
    def joined(self, side: Side, fresh: Any, stored: Any) -> Any:
        """The lazy query for the matching rows."""

    def added(self, fresh: dict[str, Values]) -> dict[str, Values]:
        """The columns that are stored besides keys and id."""
        return {}

    def fresh(self, rows: pa.Table | pa.RecordBatch) -> Any:
        return rows

    def match(self, side: Side, fresh: Any, stored: Side) -> tuple[Any, Any]:
        with self._watch.phase("probe"):
            found = self.lazy(side, fresh, stored).select("id", "id" + STORED).collect()
        with self._watch.phase("gather"):
            answer = found.to_arrow()
            return answer["id"], answer["id" + STORED]

    def insert(self, side: Side, fresh: Any) -> None:
        columns = columns_of(fresh)
        super().insert(side, {**columns, **self.added(columns)})

    def lazy(self, side: Side, rows: pa.RecordBatch, stored: Side) -> Any:
        """The lazy query of a push."""
        kept = self._stored[stored].arrow()
        names = [name if name == BUCKET else name + STORED for name in kept.schema.names]
        fresh = self._pl.from_arrow(rows).lazy()
        return self.joined(side, fresh, self._pl.from_arrow(kept.rename_columns(names)).lazy())

    def window_conditions(self) -> list[Any]:
        """The conditions on arrival that a self-join adds."""
        if not self._query.self_join:
            return []
        distance = self._pl.col("id") - self._pl.col("id" + STORED)
        return [distance.is_between(1, self._query.window)]

    def condition(self, term: Term) -> Any:
        """A term as one expression over fresh and stored columns."""
        fresh, stored = self._pl.col(term.column), self._pl.col(term.column + STORED)
        if term.op is Op.BAND:
            return (fresh - stored).abs() <= term.width
        return _COMPARED[term.op](fresh, stored)


_COMPARED = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


class PolarsWhere(PolarsJoin):
    """``join_where``: Polars' inequality join, with the edges of a band computed beforehand.

    Polars chooses two of the plain comparisons for its inequality join. What follows a band is
    written so that it can only be a filter; otherwise Polars takes the arrival condition of a
    self-join (measured for W3, window 100 k: 200 × slower).
    """

    name: ClassVar[str] = "polars-where"

    def joined(self, side: Side, fresh: Any, stored: Any) -> Any:
        first, *rest = self._query.terms_for(side)
        conditions = [*map(self.condition, rest), *self.window_conditions()]
        if first.op is not Op.BAND:
            return fresh.join_where(stored, self.condition(first), *conditions)
        col, width = self._pl.col, first.width
        key, low, high = (first.column + end for end in (STORED, "_low", "_high"))
        edges = {low: col(first.column) - width, high: col(first.column) + width}
        within = col(low) <= col(key), col(high) >= col(key)
        return fresh.with_columns(**edges).join_where(stored, *within, *conditions)


class PolarsBucket(PolarsJoin):
    """Equi-join on hand-made buckets, those of the DuckDB form, then the exact conditions.

    Not asked for by most comparisons, but the fastest thing one can write with Polars for a band.
    """

    name: ClassVar[str] = "polars-bucket"

    @classmethod
    def supports(cls, query: Query) -> bool:
        """Whether there is a band: an inequality alone has no buckets."""
        return bool(query.bands)

    def added(self, fresh: dict[str, Values]) -> dict[str, Values]:
        parts = [fresh[band.column] // (2 * band.width + 1) for band in self._query.bands[:2]]
        if len(parts) == 1:
            return {BUCKET: parts[0].astype(np.int32)}
        return {BUCKET: (parts[0] * (1 << 32) + parts[1]).astype(np.int64)}

    def joined(self, side: Side, fresh: Any, stored: Any) -> Any:
        terms = [self.condition(term) for term in self._query.terms_for(side)]
        conditions = reduce(operator.and_, [*terms, *self.window_conditions()])
        return stored.join(self._repeated(fresh), on=BUCKET).filter(conditions)

    def _repeated(self, fresh: Any) -> Any:
        """Repeat fresh rows for the one or two buckets per band that they touch."""
        col = self._pl.col
        names = []
        for place, band in enumerate(self._query.bands[:2]):
            first, last = f"first_{place}", f"last_{place}"
            fresh = fresh.with_columns(
                self._bucket(band, -band.width).alias(first),
                self._bucket(band, band.width).alias(last),
            )
            twice = fresh.filter(col(first) != col(last)).with_columns(col(last).alias(first))
            fresh = self._pl.concat([fresh, twice])
            names.append(first)
        return fresh.with_columns(self._packed([col(name) for name in names]).alias(BUCKET))

    def _bucket(self, band: Term, offset: float) -> Any:
        """The bucket of a key moved by an offset."""
        width = 2 * band.width + 1
        return ((self._pl.col(band.column) + offset) // width).cast(self._pl.Int64)

    def _packed(self, buckets: list[Any]) -> Any:
        """Pack one bucket as a 32-bit integer, or two as one 64-bit integer."""
        if len(buckets) == 1:
            return buckets[0].cast(self._pl.Int32)
        return buckets[0] * (1 << 32) + buckets[1]
