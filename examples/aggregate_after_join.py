"""A windowed aggregation of the pairs: ``event_time`` names the column it can build on.

The column holds the later event time of each pair and carries a watermark, so Spark knows when a
minute is complete. A second ``theta_join`` could follow in the same way.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import thetastream as ts
from thetastream.spark import configure, theta_join

SCHEMA = "t timestamp, price double"
TRADES = [(0, 1.0), (20, 2.0), (70, 3.0), (600, 9.0)]
QUOTES = [(1, 1.1), (2, 0.9), (25, 2.1), (71, 3.1), (600, 9.0)]


def main(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    """Count the matches per minute; return minute and count of each complete minute."""
    for name, rows in (("trades", TRADES), ("quotes", QUOTES)):
        frame = spark.createDataFrame(rows, "s int, price double")
        frame = frame.selectExpr("timestamp_seconds(1699999980 + s) AS t", "price")
        frame.write.parquet(str(folder / name))
    joined = theta_join(
        *(spark.readStream.schema(SCHEMA).parquet(str(folder / n)) for n in ("trades", "quotes")),
        "abs(l.price - r.price) <= 0.2",
        window=ts.TimeWindow("10 seconds", time="t", lateness="5 seconds"),
        event_time="matched_at",
    )
    counted = joined.groupBy(F.window("matched_at", "1 minute")).count()
    query = (
        counted.selectExpr("unix_seconds(window.start) - 1699999980 AS s", "count")
        .writeStream.outputMode("append")
        .format("memory")
        .queryName("per_minute")
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted((row["s"] // 60, row["count"]) for row in spark.table("per_minute").collect())


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
