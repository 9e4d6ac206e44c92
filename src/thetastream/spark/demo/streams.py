"""The demo's streams: trades and quotes, and a thread that writes them as files."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from thetastream.datasets import trades_quotes

DISORDER = timedelta(seconds=1)
SYMBOLS = tuple(f"S{number:04}" for number in range(2000))
TRADE_SHARE = 5  # one row of five is a trade
PAIR_ROWS = 20_000  # rows of a pair of files: two seconds of event time
MOST_PAIRS = 50
FILES_PER_BATCH = 2  # of each stream
TRADES, QUOTES = "trades", "quotes"
_SCHEMAS = {
    TRADES: "t timestamp, symbol string, price double, size bigint, id bigint",
    QUOTES: "t timestamp, symbol string, bid double, ask double, bid_size bigint, "
    "ask_size bigint, id bigint",
}


def read_streams(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    """Both streams as DataFrames that read what lands in the folder."""
    trades, quotes = (
        spark.readStream.schema(_SCHEMAS[name])
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(folder / name))
        for name in (TRADES, QUOTES)
    )
    return trades, quotes


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
