"""The demo's query: Spark joins trades and quotes by price, the oracle checks.

    writer thread ─ trades/0000.parquet, … ─▶ readStream ┐
                    quotes/0000.parquet, … ─▶ readStream ┴ theta_join ─▶ matches/….parquet
                                                           └─▶ checkpoint/thetastream (its state)

Rows come up to a second out of order, which is the lateness, so none is dropped.

Each trade meets the quotes, of whatever symbol, whose ask is within two cents of its price, whose
size is enough, and whose time is within two seconds: no equality anywhere. ``Demo.difference``
takes a sample of trades and holds all their result rows against the oracle's, both ways.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thetastream.condition.predicate import Predicate
from thetastream.errors import StateError
from thetastream.plan.explanation import Explanation
from thetastream.spark.demo.buckets import Buckets, bucketed
from thetastream.spark.demo.streams import DISORDER, QUOTES, TRADES, Streams, Writer, read_streams
from thetastream.spark.demo.tempo import MicroBatch, Tempo
from thetastream.spark.listener import MetricsListener
from thetastream.spark.metrics import JoinMetrics
from thetastream.spark.theta.explanation import explain
from thetastream.spark.theta.operator import theta_join
from thetastream.truth import oracle
from thetastream.window import TimeWindow

BAND = 0.02
ON = f"abs(l.price - r.ask) <= {BAND} AND l.size <= r.ask_size"
COLUMNS = ["id", "symbol", "t", "price", "size", "id_right", "symbol_right", "t_right", "ask"]
SIZE = timedelta(seconds=2)
WINDOW = TimeWindow(SIZE, time="t", lateness=DISORDER)
MOST_IDLE = 30.0  # seconds; after that, rows are missing, and the check will show it
SAMPLE = 400  # trades whose answer the oracle also computes
MATCHES = "matches"
_PREDICATE = Predicate.parse(ON)


@dataclass
class Totals:
    """The metrics of all micro-batches so far, added up."""

    batches: int = 0
    rows: int = 0
    matches: int = 0
    late: int = 0
    stored: int = 0
    most_stored: int = 0
    state_bytes: int = 0
    written_bytes: int = 0
    compactions: int = 0
    hits: int = 0
    catch_ups: int = 0
    attaches: int = 0
    rebuilds: int = 0
    watermark: int | None = None
    per_partition: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    tempo: Tempo = field(default_factory=Tempo)

    def add(self, metrics: JoinMetrics) -> None:
        """Add a micro-batch."""
        self.batches += 1
        self.rows += metrics.numInputRows
        self.matches += metrics.matches
        self.late += metrics.numRowsDroppedByWatermark
        self.stored = metrics.numRowsTotal
        self.most_stored = max(self.most_stored, metrics.numRowsTotal)
        self.state_bytes = metrics.stateBytes
        self.written_bytes += metrics.writtenBytes
        self.compactions += metrics.compactions
        self.hits += metrics.hits
        self.catch_ups += metrics.catchUps
        self.attaches += metrics.attaches
        self.rebuilds += metrics.rebuilds
        self.watermark = metrics.watermark or self.watermark
        self.per_partition.update(metrics.rowsPerPartition)
        self.seconds.update(metrics.seconds)
        partitions = sum(rows > 0 for rows in metrics.rowsPerPartition.values())
        engine = sum(metrics.seconds.values())
        self.tempo.add(MicroBatch(metrics.numInputRows, metrics.durationMs, engine, partitions))

    @property
    def skew(self) -> float:
        """Rows of the fullest partition over the mean."""
        counts = list(self.per_partition.values())
        return max(counts) * len(counts) / sum(counts) if sum(counts) else 1.0


class Demo:
    """Two streams of files, a query over them, and the check of its answer."""

    def __init__(
        self, spark: SparkSession, folder: Path, streams: Streams, seconds: float = 0.5
    ) -> None:
        self.totals = Totals()
        self.streams = streams
        self._spark, self._folder = spark, folder
        for name in (TRADES, QUOTES):
            (folder / name).mkdir(parents=True)
        self._writer = Writer(streams, folder, seconds)
        self._listener = MetricsListener(self.totals.add)
        trades, quotes = read_streams(spark, folder)
        self._checkpoint = folder / "checkpoint"
        state = str(self._checkpoint / "thetastream")
        self._joined = theta_join(trades, quotes, ON, WINDOW, columns=COLUMNS, state_path=state)

    @property
    def plan(self) -> Explanation:
        """How the join runs."""
        return explain(self._joined)

    @property
    def landed(self) -> int:
        """Pairs of files written so far."""
        return self._writer.landed

    @property
    def output(self) -> Path:
        """Where the result rows are."""
        return self._folder / MATCHES

    def run(self, every: float = 0.25) -> Generator[Totals]:
        """Run the query until all rows are joined; yield the totals now and then.

        An error of the query is raised here. Nothing keeps running afterwards.
        """
        self._spark.streams.addListener(self._listener)
        query = (
            self._joined.writeStream.format("parquet")
            .option("path", str(self.output))
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )
        try:
            self._writer.start()
            idle = 0.0
            while self.totals.rows < self.streams.rows and idle < MOST_IDLE:
                self._check(query)
                time.sleep(every)
                idle = idle + every if self._is_idle(query) else 0.0
                yield self.totals
            query.processAllAvailable()
        finally:
            with suppress(RuntimeError):  # a thread that never started
                self._writer.stop()
            with suppress(PySparkException):  # it may have failed, or been stopped by Ctrl-C
                query.stop()
            self._spark.streams.removeListener(self._listener)

    def compare(self) -> Buckets:
        """Join the same files on buckets made by hand, with Spark's own stream-stream join."""
        trades, quotes = read_streams(self._spark, self._folder)
        joined = bucketed(trades, quotes, BAND, SIZE, DISORDER).selectExpr(*COLUMNS)
        return Buckets.run(joined, self._folder / "buckets")

    def _is_idle(self, query: StreamingQuery) -> bool:
        """Whether all files are written and Spark has nothing left to do."""
        status = query.status
        busy = status["isDataAvailable"] or status["isTriggerActive"]
        return not self._writer.is_alive() and not busy

    def _check(self, query: StreamingQuery) -> None:
        if self._writer.error is not None:
            raise self._writer.error
        if not query.isActive:
            raise query.exception() or StateError("the query has ended before its streams")

    def result(self) -> DataFrame:
        """The result rows that the file sink holds."""
        return self._spark.read.parquet(str(self.output))

    def difference(self, sample: int = SAMPLE) -> Discrepancy:
        """Compare all result rows of a sample of trades with the oracle's."""
        trades = self.streams.trades
        step = max(1, trades.num_rows // sample)
        rows = range(step // 2, trades.num_rows, step)
        wanted = Counter(pair for row in rows for pair in self._expected(row))
        ids = [trades["id"][row].as_py() for row in rows]
        result = self.result()
        pairs = result.where(result["id"].isin(ids)).select("id", "id_right").collect()
        return Discrepancy(len(rows), wanted, Counter(map(tuple, pairs)), result.count())

    def _expected(self, row: int) -> list[tuple[int, int]]:
        """The pairs of one trade, found by the oracle among the quotes near it.

        Near means three times the window and ten times the band, so that the oracle decides both.
        """
        trade, quotes = self.streams.trades.slice(row, 1), self.streams.quotes
        times, asks = self._quotes
        moment = int(trade["t"].cast(pa.int64())[0].as_py())
        reach = 3 * SIZE // timedelta(microseconds=1)
        near = (np.abs(times - moment) <= reach) & (
            np.abs(asks - trade["price"][0].as_py()) <= 10 * BAND
        )
        close = quotes.take(np.flatnonzero(near))
        answer = oracle.join([(trade, close)], _PREDICATE, WINDOW)
        left = trade["id"][0].as_py()
        ids = close["id"].to_pylist()
        return [(left, ids[right]) for _, right in answer.pairs if right is not None]

    @property
    def _quotes(self) -> tuple[np.ndarray, np.ndarray]:
        quotes = self.streams.quotes
        return quotes["t"].cast(pa.int64()).to_numpy(), quotes["ask"].to_numpy()


@dataclass(frozen=True)
class Discrepancy:
    """What a sample of trades should have met, and what it has."""

    trades: int
    wanted: Counter[tuple[int, int]]
    found: Counter[tuple[int, int]]
    rows: int

    @property
    def missing(self) -> int:
        """Pairs of the oracle that the result lacks."""
        return (self.wanted - self.found).total()

    @property
    def extra(self) -> int:
        """Pairs of the result that the oracle does not have."""
        return (self.found - self.wanted).total()

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)
