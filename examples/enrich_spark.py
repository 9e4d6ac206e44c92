"""Taxi trips priced from a table of tariffs on disk: an equality and a range, stream by table.

The table may be far larger than memory: the join reads only the blocks that trips ask for, and
Python workers keep the popular ones. Between two runs the table is updated, and later trips see the
change. Every answer is checked against the same join in plain SQL.
"""

from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import thetastream as ts
from thetastream.spark import configure, relation_join

TRIP = "trip long, zone long, metres long"
PRICED = "l.zone = r.zone AND l.metres BETWEEN r.lo AND r.hi"


def trips(spark: SparkSession, first: int) -> DataFrame:
    """Generate trips, in place of a real source."""
    return spark.range(first, first + 500).selectExpr(
        "id AS trip", "pmod(id * 37, 40) AS zone", "pmod(id * 7919, 21000) AS metres"
    )


def by_sql(spark: SparkSession, found: DataFrame, path: Path) -> Counter[tuple[int, ...]]:
    """Run the same join in Spark, which reads the whole table."""
    with ts.Relation.open(path) as relation:
        table = spark.createDataFrame(relation.to_table())
    both = found.alias("l").join(table.alias("r"), expr(PRICED)).select("trip", "cents")
    return Counter(map(tuple, both.collect()))


def main(spark: SparkSession, folder: Path) -> list[int]:
    """Return the number of trips priced in each run."""
    tariffs = spark.range(0, 40 * 200).selectExpr(
        "id DIV 200 AS zone", "id % 200 * 100 AS lo", "id % 200 * 100 + 99 AS hi", "id AS cents"
    )
    path = folder / "tariffs.rel"
    ts.Relation.build(path, tariffs, key=("lo", "hi")).close()
    expected: Counter[tuple[int, ...]] = Counter()
    counts: list[int] = []
    for first in (0, 500):
        fresh = trips(spark, first)
        fresh.write.mode("append").parquet(str(folder / "trips"))
        stream = spark.readStream.schema(TRIP).parquet(str(folder / "trips"))
        priced = relation_join(stream, path, PRICED, "16 MB", columns=["trip", "zone", "cents"])
        writer = priced.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.trigger(availableNow=True)  # until all files are read
        writer.start(str(folder / "priced")).awaitTermination()
        expected += by_sql(spark, fresh, path)
        found = spark.read.parquet(str(folder / "priced")).select("trip", "cents").collect()
        assert Counter(map(tuple, found)) == expected
        counts.append(len(found) - sum(counts))
        with ts.Relation.open(path) as relation:
            relation.delete(where="r.zone = 7")  # no tariffs there from now on
    return counts


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
