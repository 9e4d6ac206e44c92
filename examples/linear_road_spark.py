"""Linear Road on Spark: reports are one stream, queries the other; each query gets one row.

Q1: the last speed of a vehicle within a minute. Q2: the average speed of a segment within five.
``aggregate`` folds the reports without making pairs. A query is answered when the watermark has
passed it, so the last ones still wait when the reports end. Plain SQL checks the answers.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.datasets import linear_road_batches
from thetastream.spark import configure, theta_join

HERE = "l.xway = r.xway AND l.dir = r.dir AND l.seg = r.seg"
QUERIES = {  # a stamp is time and speed in one number: the largest has the last speed
    "q1": (f"{HERE} AND l.vid = r.vid", "1 minute", {"newest": ("r.stamp", "max")}),
    "q2": (HERE, "5 minutes", {"mean": ("r.speed", "mean"), "n": ("r.speed", "count")}),
}
PLAIN = """SELECT l.id, {} FROM l JOIN r ON {} AND r.t BETWEEN l.t - INTERVAL {} AND l.t
           WHERE l.t < (SELECT max(t) FROM r) GROUP BY l.id"""
COLUMNS = ["id", "time", "xway", "dir", "seg", "vid", "speed"]
MORE = ["*", "timestamp_seconds(1700000000 + time) AS t", "1000 * time + speed AS stamp"]


def main(spark: SparkSession, folder: Path) -> list[int]:
    """Ask about every 20th report, 20 seconds later; return the number of answers per query."""
    (folder / "road").mkdir()
    running, schema = [], ", ".join(f"{name} long" for name in COLUMNS)

    def side(name: str, reader: object) -> object:
        rows = reader.schema(schema).parquet(str(folder / "road"))
        asked = rows.where("id % 20 = 0").withColumn("time", rows.time + 20)
        return (asked if name == "l" else rows).selectExpr(*MORE)

    for name, (on, size, fold) in QUERIES.items():
        both = [side(one, spark.readStream) for one in "lr"]
        joined = theta_join(*both, on, ts.TimeWindow(size, time="t"), aggregate=fold)
        answers = joined.select("id", *fold).writeStream.format("memory")
        running.append(answers.queryName(name).start())
    for batch in linear_road_batches(240, seconds=720, rate=60, positions=True, columns=COLUMNS):
        pq.write_table(pa.Table.from_batches([batch]), folder / "part")
        (folder / "part").rename(folder / "road" / f"{batch['time'][0]}.parquet")
        for query in running:
            query.processAllAvailable()
        counts = [spark.table(name).count() for name in QUERIES]
        print(f"until second {batch['time'][-1]}: {counts[0]} and {counts[1]} answers")
    for one in "lr":
        side(one, spark.read).createOrReplaceTempView(one)
    for query, (on, size, fold) in zip(running, QUERIES.values(), strict=True):
        query.stop()
        plain = ", ".join(f"{function}({column})" for column, function in fold.values())
        expected = spark.sql(PLAIN.format(plain, on, size)).collect()
        assert sorted(spark.table(query.name).collect()) == sorted(expected)
    spark.sql("SELECT newest % 1000 AS speed, mean, n FROM q1 JOIN q2 USING (id)").show(5)
    return counts


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
