"""What Spark users write today: the demo's join on buckets made by hand.

Prices are cut into buckets. A quote is copied into every bucket that its band touches; then Spark's
stream-stream join can compare buckets for equality, and the exact conditions filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thetastream.spark.demo.tempo import MicroBatch, Tempo
from thetastream.spark.session import PROVIDER

BUCKET_BANDS = 4  # width of a bucket
_IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_SLACK = 1.01  # of the band, so that rounding loses no bucket; the exact band is tested anyway


def bucketed(
    trades: DataFrame, quotes: DataFrame, band: float, size: timedelta, lateness: timedelta
) -> DataFrame:
    """The demo's join on buckets; its columns are those of ``theta_join``."""
    width, reach = BUCKET_BANDS * band, _SLACK * band
    delay = f"{lateness // timedelta(milliseconds=1) + 1} milliseconds"
    window = f"INTERVAL {size // timedelta(milliseconds=1)} MILLISECONDS"
    near, far = f"floor((ask - {reach}) / {width})", f"floor((ask + {reach}) / {width})"
    left = trades.withColumn("bucket", F.expr(f"floor(price / {width})"))
    right = quotes.withColumn("bucket", F.explode(F.expr(f"sequence({near}, {far})")))
    right = right.select(F.col("bucket").alias("bucket_right"), "ask", "ask_size", *(
        F.col(name).alias(f"{name}_right") for name in ("id", "symbol", "t")
    ))  # fmt: skip
    return left.withWatermark("t", delay).join(
        right.withWatermark("t_right", delay),
        F.expr(
            f"bucket = bucket_right AND abs(price - ask) <= {band} AND size <= ask_size "
            f"AND t_right BETWEEN t - {window} AND t + {window}"
        ),
    )


@dataclass(frozen=True)
class Buckets:
    """What the join on buckets did: how many rows it returned, and how fast."""

    rows: int
    tempo: Tempo

    @classmethod
    def run(cls, joined: DataFrame, folder: Path) -> Buckets:
        """Run the query over the files that are there, to its end, into Parquet files.

        Its state is in memory, the faster of Spark's stores for this join.
        """
        spark = joined.sparkSession
        before = str(spark.conf.get(PROVIDER))
        spark.conf.set(PROVIDER, _IN_MEMORY)
        try:
            query = (
                joined.writeStream.format("parquet")
                .option("path", str(folder / "matches"))
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        finally:
            spark.conf.set(PROVIDER, before)
        query.awaitTermination()
        tempo = Tempo()
        for progress in query.recentProgress:
            tempo.add(MicroBatch(progress.numInputRows, progress.durationMs))
        return cls(spark.read.parquet(str(folder / "matches")).count(), tempo)
