"""One stream with itself: taxis that were near each other at about the same time.

Every ordered pair of two different rows is tested, so a symmetric condition finds a pair twice;
``l.taxi < r.taxi`` keeps one of the two.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

SCHEMA = "t timestamp, taxi int, x double, y double"
SIGHTINGS = [(0, 1, 0.0, 0.0), (3, 2, 0.5, 0.4), (4, 3, 9.0, 0.0), (90, 1, 9.1, 0.2)]


def main(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    """Return the pairs of taxis."""
    frame = spark.createDataFrame(SIGHTINGS, "s int, taxi int, x double, y double")
    frame = frame.selectExpr("timestamp_seconds(1700000000 + s) AS t", "taxi", "x", "y")
    frame.write.parquet(str(folder / "sightings"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "sightings"))
    met = theta_join(
        stream,
        None,
        "abs(l.x - r.x) <= 1 AND abs(l.y - r.y) <= 1 AND l.taxi < r.taxi",
        window=ts.TimeWindow("1 minute", time="t"),
        columns=["taxi", "taxi_right", "t"],
    )
    query = met.writeStream.format("memory").queryName("met").trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted((row["taxi"], row["taxi_right"]) for row in spark.table("met").collect())


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
