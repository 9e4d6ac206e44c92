"""``foreachBatch``: a function receives the rows of every micro-batch as a static DataFrame.

Here it appends them to a table and counts them. It runs in the driver. After a restart it may see a
micro-batch again, with the same number.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join


def main(spark: SparkSession, folder: Path) -> dict[int, int]:
    """Return the number of rows of each micro-batch that has any."""
    seen: dict[int, int] = {}

    def keep(rows: DataFrame, number: int) -> None:
        rows.persist()
        if not rows.isEmpty():
            rows.write.mode("append").parquet(str(folder / "table"))
            seen[number] = rows.count()
        rows.unpersist()

    for day, values in enumerate(([1, 5], [2, 8], [6])):
        frame = spark.createDataFrame(
            [(1_700_000_000_000 + day, v) for v in values], "t long, v int"
        )
        frame.coalesce(1).write.mode("append").parquet(str(folder / "in"))
    stream = (
        spark.readStream.schema("t long, v int")
        .option("maxFilesPerTrigger", 1)  # a micro-batch per file
        .parquet(str(folder / "in"))
    )
    joined = theta_join(
        stream,
        None,  # join the stream with itself
        "r.v - l.v BETWEEN 1 AND 3",
        window=ts.TimeWindow(60_000, time="t"),  # an integer time: one unit is a millisecond
    )
    query = (
        joined.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
