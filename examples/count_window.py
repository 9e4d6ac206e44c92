"""A count window: each row meets the last rows of the other stream, by a column of ranks.

Rows of a DataFrame have no order of arrival, so ``order`` names a column that ranks the rows of
both streams. The answer depends on the ranks alone, whatever the number of partitions. A row waits
until the other side has shown a higher rank.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

SCHEMA = "rank long, x int"
LEFT = [(1, 10), (3, 11), (5, 30), (9, 0)]
RIGHT = [(2, 10), (4, 12), (6, 11), (8, 31), (10, 0)]


def main(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    """Join each row with near ones among the last two of the other side; return the ranks."""
    for name, rows in (("left", LEFT), ("right", RIGHT)):
        spark.createDataFrame(rows, SCHEMA).write.parquet(str(folder / name))
    joined = theta_join(
        *(spark.readStream.schema(SCHEMA).parquet(str(folder / n)) for n in ("left", "right")),
        "abs(l.x - r.x) <= 1",
        window=ts.CountWindow(2, order="rank"),
        columns=["rank", "rank_right"],
    )
    query = (
        joined.writeStream.format("memory").queryName("ranks").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return sorted((row["rank"], row["rank_right"]) for row in spark.table("ranks").collect())


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
