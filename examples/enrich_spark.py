"""Taxi trips priced from a table of tariffs on disk: an equality and a range, stream by table.

The table may be far larger than memory: only the blocks that trips ask for are read, and those
asked for often stay in the Python workers. Between two runs the table is updated; trips that come
afterwards are priced anew. Every answer is checked against the same join in plain SQL.
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
    """Stand-ins for whatever brings trips in real life."""
    return spark.range(first, first + 500).selectExpr(
        "id AS trip", "pmod(id * 37, 40) AS zone", "pmod(id * 7919, 21000) AS metres"
    )


def by_sql(spark: SparkSession, found: DataFrame, path: Path) -> Counter[tuple[int, ...]]:
    """The same by Spark itself, which reads the whole table."""
    with ts.Relation.open(path) as relation:
        table = spark.createDataFrame(relation.to_table())
    both = found.alias("l").join(table.alias("r"), expr(PRICED)).select("trip", "cents")
    return Counter(map(tuple, both.collect()))


def main(spark: SparkSession, folder: Path) -> list[int]:
    """Give the number of trips that were priced in each run."""
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
