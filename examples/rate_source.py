"""Two ``rate`` streams into a memory sink: a live query without any files.

The right side's expression is Spark SQL, which Spark computes before the join.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join


def numbers(spark: SparkSession, every: int) -> DataFrame:
    """A hundred rows per second; ``x`` is ``every`` times their number."""
    source = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    return source.selectExpr("timestamp AS t", f"value * {every} AS x")


def main(spark: SparkSession, folder: Path, rows: int = 50) -> list[tuple[int, int]]:
    """Wait until the query has returned some rows; return the pairs."""
    joined = theta_join(
        numbers(spark, 3),
        numbers(spark, 2),
        "abs(l.x - CAST(r.x * 1.5 AS BIGINT)) <= 1",
        window=ts.TimeWindow("30 seconds", time="t"),
    )
    query = joined.writeStream.format("memory").queryName("pairs").start()
    try:
        while spark.table("pairs").count() < rows:
            query.awaitTermination(1)  # one second; raises the error of a failed query
    finally:
        query.stop()
    return [(row["x"], row["x_right"]) for row in spark.table("pairs").collect()]


if __name__ == "__main__":
    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    print(main(session, Path())[:10])
    session.stop()
