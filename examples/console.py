"""The console sink: see the pairs of every micro-batch on the terminal."""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, explain, query_metrics, theta_join


def main(spark: SparkSession, folder: Path) -> int:
    """Print the join of two small streams to the console; return the number of pairs."""
    for name, values in (("left", (1, 5, 9)), ("right", (4, 7))):
        rows = [(1_700_000_000_000 + value, value) for value in values]
        spark.createDataFrame(rows, "t long, x int").write.parquet(str(folder / name))
    left, right = (
        spark.readStream.schema("t long, x int").parquet(str(folder / name))
        for name in ("left", "right")
    )
    joined = theta_join(left, right, "l.x < r.x", window=ts.TimeWindow(1000, time="t"))
    print(explain(joined))
    query = (
        joined.writeStream.format("console")
        .option("truncate", False)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(metrics.matches for metrics in query_metrics(query))


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        main(session, Path(name))
    session.stop()
