"""Aggregates over matches: by the join itself, or by joining and grouping.

W1: every row of the left stream asks for count, mean and least value of the right rows in its band
and window. Left rows come in batches, timed; after each, as many right rows move the window on,
untimed. The engines join by buckets (``thetabench.peers``), each with one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import thetastream as ts
from thetabench.contestant import optional
from thetabench.figure import Contestant
from thetabench.ordered.contestant import Cell, Operations
from thetabench.ordered.load import Truth
from thetabench.peers.duckdb import DuckDBBucket
from thetabench.peers.polars import STORED, PolarsBucket
from thetabench.query import Query
from thetastream.datasets.workloads import w1
from thetastream.side import Side

OURS = "aggregate="
_BATCH = 1 << 12
_BATCHES = 48
_PREFILL = 1 << 15
_VALUES = 1_000  # whole numbers below it: their sums are exact


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

    def _answer(self, step: int) -> tuple[dict[str, NDArray[Any]], int]:
        window = self.right.slice(step * self.batch, self.query.window)
        order = np.argsort(window["x"].to_numpy())
        keys, values = (window[name].to_numpy()[order] for name in ("x", "value"))
        boxes = self.query.terms[0].bounds(self.lefts(step)["x"].to_numpy())
        truth = Truth(keys, values)
        starts, stops = truth.between(*boxes)
        counts = stops - starts
        with np.errstate(invalid="ignore"):
            means = truth.sums(*boxes) / counts
        edges = np.column_stack([starts, np.maximum(stops, starts + 1)]).ravel()
        least = np.minimum.reduceat(np.append(values, [np.inf, np.inf]), edges)[::2]
        answer = {"n": counts, "avg": means, "lo": np.where(counts > 0, least, np.nan)}
        return answer, int(counts.sum())


# --- Ways to answer ------------------------------------------------------------------------------


class Joined:
    """Our own join, with the options of what it returns; ``group`` makes aggregates of that."""

    def __init__(self, feed: Feed, group: Group | None = None, **options: Any) -> None:
        window = ts.CountWindow(feed.query.window)
        schemas = (feed.left.schema, feed.right.schema)
        self._join = ts.StreamJoin(feed.query.predicate, window=window, schemas=schemas, **options)
        self._schema = self._join.schema
        self._group = group
        for start in range(0, feed.query.window, _PREFILL):
            self.right(feed.filled().slice(start, _PREFILL))

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        answer = pa.Table.from_batches(list(self._join.push(left=rows)), self._schema)
        return self._group(rows, answer) if self._group else answer

    def right(self, rows: pa.RecordBatch) -> None:
        self._join.push(right=rows)


Group = Callable[[pa.RecordBatch, pa.Table], pa.Table]
"""Left rows, and what the join returned for them, to aggregates."""


def _by_pyarrow(rows: pa.RecordBatch, matches: pa.Table) -> pa.Table:
    wanted = [("value", "count"), ("value", "mean"), ("value", "min")]
    grouped = matches.group_by("id", use_threads=False).aggregate(wanted)
    return grouped.select(["id", *map("_".join, wanted)]).rename_columns(_NAMES)


def _by_polars(rows: pa.RecordBatch, matches: pa.Table) -> pa.Table:
    return _grouped(optional("polars").from_arrow(matches).lazy(), "value")


def _by_numpy(values: NDArray[Any], rows: pa.RecordBatch, pairs: pa.Table) -> pa.Table:
    """Group pairs of arrival numbers by hand: about the fastest without ``aggregate``."""
    mine = pairs.column(0).to_numpy() - int(rows["id"][0].as_py())
    matched = values[pairs.column(1).to_numpy()]
    counts = np.bincount(mine, minlength=rows.num_rows)
    sums = np.bincount(mine, matched, minlength=rows.num_rows)
    least = np.full(rows.num_rows, np.inf)
    np.minimum.at(least, mine, matched)
    with np.errstate(invalid="ignore"):
        columns = [rows["id"], pa.array(counts), pa.array(sums / counts), pa.array(least)]
    return pa.table(columns, names=_NAMES).filter(pc.greater(columns[1], 0))


class DuckDBGrouped(DuckDBBucket):
    """A query that joins by buckets and groups."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.query)
        self._columns += ", value"
        self.right(feed.filled())

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        self.fresh(rows)
        return self._ask(
            "SELECT f.id, count(*) AS n, avg(w.value) AS avg, min(w.value) AS lo "
            f"{self._joined(Side.LEFT, Side.RIGHT)} GROUP BY f.id"
        )

    def right(self, rows: pa.RecordBatch) -> None:
        self.store(Side.RIGHT, self.fresh(rows))


class PolarsGrouped(PolarsBucket):
    """A lazy query that joins by buckets and groups."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.query)
        self.right(feed.filled())

    def left(self, rows: pa.RecordBatch) -> pa.Table:
        return _grouped(self.lazy(Side.LEFT, rows, Side.RIGHT), "value" + STORED)

    def right(self, rows: pa.RecordBatch) -> None:
        self.store(Side.RIGHT, self.fresh(rows))


def _grouped(matches: Any, column: str) -> pa.Table:
    """Group the rows of a lazy query of Polars."""
    value = optional("polars").col(column)
    wanted = value.len().alias("n"), value.mean().alias("avg"), value.min().alias("lo")
    return matches.group_by("id").agg(*wanted).collect().to_arrow()


_NAMES = ["id", "n", "avg", "lo"]
_ASKED = {"n": "count", "avg": ("r.value", "mean"), "lo": ("r.value", "min")}
_ROWS: dict[str, Any] = {"columns": ["id", "value"]}

Way = Joined | DuckDBGrouped | PolarsGrouped
"""Answers left rows by a row each: ``id``, ``n``, ``avg``, ``lo``; those without matches may be
missing. Stores right rows; the oldest leave."""
WAYS: dict[str, Callable[[Feed], Way]] = {
    OURS: lambda feed: Joined(feed, aggregate=_ASKED),
    "join, group by in pyarrow": lambda feed: Joined(feed, _by_pyarrow, **_ROWS),
    "join, group by in polars": lambda feed: Joined(feed, _by_polars, **_ROWS),
    "pairs, grouped by NumPy": lambda feed: Joined(
        feed, partial(_by_numpy, feed.right["value"].to_numpy()), output="pairs"
    ),
    "duckdb": DuckDBGrouped,
    "polars": PolarsGrouped,
}
MATCHED = tuple(WAYS)
JOINED = MATCHED[1:4]
"""Those that make pairs with our own join first."""


# --- What is timed -------------------------------------------------------------------------------


class Matching(Operations):
    """Left rows ask, one batch after the other; the first is not timed."""

    def __init__(self, who: Contestant, cell: Cell, feed: Feed) -> None:
        super().__init__(who, cell)
        self._feed = feed
        self._at = 0
        self._way = WAYS[who.structure](feed)
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
