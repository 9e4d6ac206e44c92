"""Aggregates over matches: by the join itself, or by joining and grouping.

W1: every row of the left stream asks for count, mean and least value of the right rows in its band
and window. Left rows come in batches, timed; after each, as many right rows move the window on,
untimed. The engines join by buckets (``thetabench.peers``), each with one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thetabench.contestant import MissingPackage, Unavailable, optional
from thetabench.figure import Contestant
from thetabench.ordered.contestant import Cell, Operations
from thetabench.peers.duckdb_bucket import DuckDBBucket
from thetabench.peers.polars_bucket import PolarsBucket
from thetabench.peers.polars_window import STORED
from thetabench.query import Query
from thetastream.datasets.workloads import w1
from thetastream.side import Side

OURS = "aggregate="
_ROWS = "join, group by in "
_PAIRS = "pairs, grouped by NumPy"
_BATCH = 1 << 12
_BATCHES = 48
_PREFILL = 1 << 15
_VALUES = 1_000  # whole numbers below it: their sums are exact

Answer = dict[str, NDArray[Any]]


class Feed:
    """Both streams, and what rows of the left one must be answered."""

    def __init__(self, window: int, rate: float, seed: int) -> None:
        self.batch = min(_BATCH, window)
        rows = _BATCHES * self.batch
        workload = w1(window, window + rows, match_rate=rate, seed=seed)
        assert workload.right is not None
        values = np.random.default_rng((seed, 1)).integers(0, _VALUES, window + rows)
        column = pa.array(values.astype(np.float64))
        self.query = Query.of(workload)
        self.left = workload.left.slice(0, rows).combine_chunks()
        self.right = workload.right.append_column("value", column).combine_chunks()
        self.answer = cache(self._answer)
        """The right answer to the left rows of a step, and how many matches that is."""

    def lefts(self, step: int) -> pa.RecordBatch:
        """The left rows of a step."""
        return self._batch(self.left, step * self.batch)

    def rights(self, step: int) -> pa.RecordBatch:
        """The right rows that come after it."""
        return self._batch(self.right, self.query.window + step * self.batch)

    def _batch(self, table: pa.Table, start: int) -> pa.RecordBatch:
        return table.slice(start, self.batch).combine_chunks().to_batches()[0]

    def filled(self) -> pa.Table:
        """The right rows that fill the window."""
        return self.right.slice(0, self.query.window)

    def _answer(self, step: int) -> tuple[Answer, int]:
        window = self.right.slice(step * self.batch, self.query.window)
        keys, values = (window[name].to_numpy() for name in ("x", "value"))
        order = np.argsort(keys)
        keys, values = keys[order], values[order]
        lows, highs = self.query.terms[0].bounds(self.lefts(step)["x"].to_numpy())
        starts, stops = np.searchsorted(keys, lows), np.searchsorted(keys, highs, side="right")
        sums = np.concatenate([[0.0], np.cumsum(values)])
        counts = stops - starts
        with np.errstate(invalid="ignore"):
            means = (sums[stops] - sums[starts]) / counts
        edges = np.column_stack([starts, np.maximum(stops, starts + 1)]).ravel()
        least = np.minimum.reduceat(np.append(values, [np.inf, np.inf]), edges)[::2]
        answer = {"n": counts, "avg": means, "lo": np.where(counts > 0, least, np.nan)}
        return answer, int(counts.sum())


# --- Ways to answer ------------------------------------------------------------------------------


class Way(Protocol):
    """Answers left rows, and stores right rows."""

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        """A row per left row: ``id``, ``n``, ``avg``, ``lo``; those without matches may miss."""

    def right(self, rows: pa.RecordBatch) -> None:
        """Store right rows; the oldest leave."""


class Aggregated:
    """The join itself: no pairs are made."""

    def __init__(self, feed: Feed) -> None:
        self._join = _join(feed, aggregate=_ASKED)

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches(list(self._join.push(left=rows)))

    def right(self, rows: pa.RecordBatch) -> None:
        self._join.push(right=rows)


class Grouped(Aggregated):
    """Rows of the join, grouped by pyarrow or Polars."""

    def __init__(self, feed: Feed, engine: str) -> None:
        self._pl = optional("polars") if engine == "polars" else None
        self._join = _join(feed, columns=["id", "value"])

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        pairs = pa.Table.from_batches(list(self._join.push(left=rows)), _MATCHES)
        if self._pl is None:
            wanted = [("value", "count"), ("value", "mean"), ("value", "min")]
            grouped = pairs.group_by("id", use_threads=False).aggregate(wanted)
            return grouped.select(["id", *map("_".join, wanted)]).rename_columns(_NAMES)
        lazy = self._pl.from_arrow(pairs).lazy()
        return lazy.group_by("id").agg(*_grouped(self._pl, "value")).collect().to_arrow()


class Paired(Aggregated):
    """Pairs of arrival numbers, grouped by hand: about the fastest without ``aggregate``."""

    def __init__(self, feed: Feed) -> None:
        self._values = feed.right["value"].to_numpy()
        self._join = _join(feed, output="pairs")

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        pairs = pa.Table.from_batches(list(self._join.push(left=rows)))
        mine = pairs.column(0).to_numpy() - int(rows["id"][0].as_py())
        values = self._values[pairs.column(1).to_numpy()]
        counts = np.bincount(mine, minlength=rows.num_rows)
        sums = np.bincount(mine, values, minlength=rows.num_rows)
        least = np.full(rows.num_rows, np.inf)
        np.minimum.at(least, mine, values)
        with np.errstate(invalid="ignore"):
            columns = [rows["id"], pa.array(counts), pa.array(sums / counts), pa.array(least)]
        return pa.table(columns, names=_NAMES).filter(pc.greater(columns[1], 0))


class DuckDBGrouped(DuckDBBucket):
    """A query that joins by buckets and groups."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.query)
        self.prefill(feed.left.slice(0, 0).append_column("value", _NOTHING), feed.filled())

    def stored_columns(self) -> str:
        return f"{super().stored_columns()}, value"

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        self._connection.register("fresh", pa.Table.from_batches([rows]))
        terms = [term.sql("f", "w") for term in self._query.terms]
        conditions = " AND ".join([*terms, self.window_condition(Side.RIGHT)])
        return self._ask(
            "SELECT f.id, count(*) AS n, avg(w.value) AS avg, min(w.value) AS lo FROM "
            f"({self._repeated()}) f JOIN right_rows w ON f.bucket = w.bucket AND {conditions} "
            "GROUP BY f.id"
        )

    def right(self, rows: pa.RecordBatch) -> None:
        self._connection.register("fresh", pa.Table.from_batches([rows]))
        self._insert(Side.RIGHT, rows.num_rows)
        self._expire(Side.RIGHT)


class PolarsGrouped(PolarsBucket):
    """A lazy query that joins by buckets and groups."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.query)
        self._insert(Side.RIGHT, feed.filled())

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        pairs = self._lazy(Side.LEFT, rows, self._stored[Side.RIGHT])
        return pairs.group_by("id").agg(*_grouped(self._pl, "value" + STORED)).collect().to_arrow()

    def right(self, rows: pa.RecordBatch) -> None:
        self._insert(Side.RIGHT, rows)
        self._stored[Side.RIGHT].expire()


def _grouped(polars: Any, column: str) -> tuple[Any, ...]:
    value = polars.col(column)
    return value.len().alias("n"), value.mean().alias("avg"), value.min().alias("lo")


_ASKED = {"n": "count", "avg": ("r.value", "mean"), "lo": ("r.value", "min")}
_NAMES = ["id", "n", "avg", "lo"]
_MATCHES = pa.schema([("id", pa.int64()), ("value", pa.float64())])
_NOTHING = pa.array([], pa.float64())

_WAYS: dict[str, Callable[[Feed], Way]] = {
    OURS: Aggregated,
    f"{_ROWS}pyarrow": lambda feed: Grouped(feed, "pyarrow"),
    f"{_ROWS}polars": lambda feed: Grouped(feed, "polars"),
    _PAIRS: Paired,
    "duckdb": DuckDBGrouped,
    "polars": PolarsGrouped,
}
MATCHED = tuple(_WAYS)
JOINED = MATCHED[1:4]
"""Those that make pairs with our own join first."""


def _join(feed: Feed, **options: Any) -> Any:
    import thetastream as ts

    window = ts.CountWindow(feed.query.window)
    schemas = (feed.left.schema, feed.right.schema)
    join = ts.StreamJoin(feed.query.predicate, window=window, schemas=schemas, **options)
    for start in range(0, feed.query.window, _PREFILL):
        join.push(right=feed.filled().slice(start, _PREFILL))
    return join


# --- What is timed -------------------------------------------------------------------------------


class Matching(Operations):
    """Left rows ask, one batch after the other; the first is not timed."""

    def __init__(self, who: Contestant, cell: Cell, feed: Feed) -> None:
        super().__init__(who, cell.label)
        self._feed = feed
        self._at = 0
        try:
            self._way = _WAYS[who.structure](feed)
        except MissingPackage as error:
            raise Unavailable(str(error)) from None
        self.step()
        self.restart()

    def step(self) -> bool:
        """Ask with a batch, check, and move the window on."""
        if self._at == _BATCHES:
            return False
        rows = self._feed.lefts(self._at)
        answer = self.timed(lambda: self._way.left(rows))
        right, matches = self._feed.answer(self._at)
        places = answer["id"].to_numpy() - self._at * self._feed.batch
        for name, expected in right.items():
            column = np.full(rows.num_rows, 0.0 if name == "n" else np.nan)
            column[places] = answer[name].to_numpy()
            self.compare(f"{name} of row", column, expected, f" in batch {self._at}")
        self._way.right(self._feed.rights(self._at))
        self._at += 1
        self.count(rows.num_rows, matches)
        return True
