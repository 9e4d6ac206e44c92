"""Metrics of a join: from a listener for all queries of a session, or from one query.

A real listener would send the numbers to a monitoring system. ``recent`` holds the last thousand.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import MetricsListener, configure, query_metrics, theta_join
from thetastream.spark.metrics import JoinMetrics

SCHEMA = "t long, x int"


def report(metrics: JoinMetrics) -> None:
    """Print one line per micro-batch."""
    print(
        f"batch {metrics.batchId}: {metrics.numInputRows} rows in, {metrics.matches} matches, "
        f"{metrics.numRowsTotal} stored, {metrics.numRowsDroppedByWatermark} late, "
        f"{metrics.hits} hits, {metrics.attaches} attaches, {metrics.rebuilds} rebuilds"
    )


def main(spark: SparkSession, folder: Path) -> list[JoinMetrics]:
    """Run a query of three micro-batches; return their metrics."""
    listener = MetricsListener(report)
    spark.streams.addListener(listener)
    try:
        (folder / "in").mkdir()
        stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "in"))
        joined = theta_join(
            stream, None, "abs(l.x - r.x) <= 1", window=ts.TimeWindow(100, time="t")
        )
        query = joined.writeStream.format("noop").start()
        for start in (1000, 1050, 1020):
            rows = [(start + i, i) for i in range(10)]
            frame = spark.createDataFrame(rows, SCHEMA)
            frame.write.mode("append").parquet(str(folder / "in"))
            query.processAllAvailable()
        query.stop()
        return query_metrics(query)
    finally:
        spark.streams.removeListener(listener)


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        main(session, Path(name))
    session.stop()
