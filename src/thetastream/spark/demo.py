"""The demo's query: trades and quotes land as files, Spark joins them by price, the oracle checks.

    writer thread ─ trades/0000.parquet, … ─▶ readStream ┐
                    quotes/0000.parquet, … ─▶ readStream ┴ theta_join ─▶ matches/….parquet

Rows come up to a second out of order, which is the lateness, so none is dropped.

Each trade meets the quotes, of whatever symbol, whose ask is within two cents of its price, whose
size is enough, and whose time is within two seconds: no equality anywhere. ``Demo.difference``
takes a sample of trades and holds all their result rows against the oracle's, both ways.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thetastream.condition.predicate import Predicate
from thetastream.datasets import trades_quotes
from thetastream.errors import StateError
from thetastream.plan.explanation import Explanation
from thetastream.spark.listener import MetricsListener
from thetastream.spark.metrics import JoinMetrics
from thetastream.spark.session import configure
from thetastream.spark.theta.explanation import explain
from thetastream.spark.theta.operator import theta_join
from thetastream.truth import oracle
from thetastream.window import TimeWindow

BAND = 0.02
ON = f"abs(l.price - r.ask) <= {BAND} AND l.size <= r.ask_size"
COLUMNS = ["id", "symbol", "t", "price", "size", "id_right", "symbol_right", "t_right", "ask"]
SIZE = timedelta(seconds=2)
DISORDER = timedelta(seconds=1)
WINDOW = TimeWindow(SIZE, time="t", lateness=DISORDER)
SYMBOLS = tuple(f"S{number:04}" for number in range(2000))
TRADE_SHARE = 5  # one row of five is a trade
PAIR_ROWS = 20_000  # rows of a pair of files: two seconds of event time
MOST_PAIRS = 50
FILES_PER_BATCH = 2  # of each stream
MOST_IDLE = 30.0  # seconds; after that, rows are missing, and the check will show it
SAMPLE = 400  # trades whose answer the oracle also computes
TRADES, QUOTES, MATCHES = "trades", "quotes", "matches"
JAVA = 17
_SCHEMAS = {
    TRADES: "t timestamp, symbol string, price double, size bigint, id bigint",
    QUOTES: "t timestamp, symbol string, bid double, ask double, bid_size bigint, "
    "ask_size bigint, id bigint",
}


# --- The session --------------------------------------------------------------------------------


def check_java() -> None:
    """Refuse to start without a Java that runs Spark."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = "install one (on Debian: openjdk-17-jre-headless), or name one in JAVA_HOME"
    try:
        if java is None:
            raise FileNotFoundError
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        where = f"JAVA_HOME is {home!r}" if home else "there is no java on PATH"
        raise StateError(f"Spark needs Java {JAVA} or later, and {where}; {advice}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is not None and int(version[1]) < JAVA:
        raise StateError(f"Spark needs Java {JAVA} or later; {java} is Java {version[1]}; {advice}")


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session on all cores of this machine; Java logs to ``spark.log``.

    Spark and its workers write only to the folder.
    """
    check_java()
    variables = {"THETASTREAM_RUNS": str(folder / "runs")}
    if "SPARK_LOCAL_IP" not in os.environ:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoint"),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = configure(SparkSession.builder.master("local[*]").appName("thetastream demo"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    os.environ.update(variables)
    try:
        with _stderr_to(folder / "spark.log"), _own_interrupts():
            spark = builder.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            yield spark
        finally:
            spark.stop()
    finally:
        for name in variables:
            os.environ.pop(name, None)


class Interrupt:
    """Defers a Ctrl-C until ``check``: during a call to Java it would break the connection.

    A second one is raised at once.
    """

    def __init__(self) -> None:
        self._caught = False

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _catch(self, *_: object) -> None:
        if self._caught:
            raise KeyboardInterrupt
        self._caught = True

    def check(self) -> None:
        """Raise the deferred interrupt, if there was one."""
        if self._caught:
            raise KeyboardInterrupt


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C: Spark's own calls Java, whatever is running."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile, here the JVM, write their errors to the file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# --- The streams --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Streams:
    """Trades and quotes in the order of arrival."""

    trades: pa.Table
    quotes: pa.Table

    @classmethod
    def generated(cls, rows: int, seed: int) -> Streams:
        """Generate streams of ``rows`` rows in total; the same seed returns the same rows."""
        count = max(1, rows // TRADE_SHARE)
        return cls(
            *trades_quotes(
                count, rows - count, seed=seed, symbols=SYMBOLS, disorder=DISORDER, rate=10_000.0
            )
        )

    @property
    def rows(self) -> int:
        """Rows of both streams."""
        return int(self.trades.num_rows + self.quotes.num_rows)

    @property
    def pairs(self) -> int:
        """Into how many pairs of files the streams are cut."""
        return max(1, min(MOST_PAIRS, self.rows // PAIR_ROWS))

    def write(self, folder: Path, pair: int) -> None:
        """Write the pair of files with this number; each appears complete."""
        for name, table in ((TRADES, self.trades), (QUOTES, self.quotes)):
            start, end = (table.num_rows * at // self.pairs for at in (pair, pair + 1))
            hidden = folder / name / f".{pair:04}.parquet"
            pq.write_table(table.slice(start, end - start), hidden)
            hidden.rename(folder / name / f"{pair:04}.parquet")


class Writer(threading.Thread):
    """Writes a pair of files every ``seconds``, until all are written or ``stop`` is called."""

    def __init__(self, streams: Streams, folder: Path, seconds: float) -> None:
        super().__init__(name="thetastream demo writer", daemon=True)
        self.landed = 0
        self.error: Exception | None = None
        self._streams, self._folder, self._seconds = streams, folder, seconds
        self._stop_wanted = threading.Event()

    def run(self) -> None:
        """Write until the end."""
        try:
            for pair in range(self._streams.pairs):
                self._streams.write(self._folder, pair)
                self.landed = pair + 1
                if self._stop_wanted.wait(self._seconds):
                    return
        except Exception as error:  # raised by the thread that waits for the files
            self.error = error

    def stop(self) -> None:
        """Stop writing."""
        self._stop_wanted.set()
        self.join()


# --- The query ----------------------------------------------------------------------------------


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
    attaches: int = 0
    rebuilds: int = 0
    watermark: int | None = None
    per_partition: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

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
        self.attaches += metrics.attaches
        self.rebuilds += metrics.rebuilds
        self.watermark = metrics.watermark or self.watermark
        self.per_partition.update(metrics.rowsPerPartition)
        self.seconds.update(metrics.seconds)

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
        frames = [
            spark.readStream.schema(_SCHEMAS[name])
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .parquet(str(folder / name))
            for name in (TRADES, QUOTES)
        ]
        self._joined = theta_join(frames[0], frames[1], ON, WINDOW, columns=COLUMNS)

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
            .option("checkpointLocation", str(self._folder / "checkpoint"))
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
        found = result.where(result["id"].isin(ids)).select("id", "id_right").collect()
        return Discrepancy(len(rows), wanted, Counter(map(tuple, found)), result.count())

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


_PREDICATE = Predicate.parse(ON)


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
