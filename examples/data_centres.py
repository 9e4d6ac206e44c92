"""Two inequalities at once: racks that draw less power than others, but need more cooling.

This is query Q1 of the SPO-Join paper. Two data centres report every few minutes; every ten minutes
a scheduler looks at the last sixty. No term is an equality, and each term alone matches half of the
window. Tactic ``spo-join`` evaluates both together.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

SCHEMA = "t timestamp, rack int, power int, cool int"
R = [(0, 1, 1800, 3500), (5, 2, 2600, 1600), (12, 3, 900, 2000), (70, 4, 1300, 4100)]
S = [(3, 1, 1100, 1500), (15, 2, 2000, 2600), (20, 3, 1300, 3600), (75, 4, 2500, 4000)]


def main(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    """Return the racks of each pair; rack 2 of S has left the window when rack 4 of R reports."""
    for name, rows in (("r", R), ("s", S)):
        frame = spark.createDataFrame(rows, "minute int, rack int, power int, cool int")
        time = "timestamp_seconds(1700000400 + 60 * minute) AS t"
        frame.selectExpr(time, "rack", "power", "cool").write.parquet(str(folder / name))
    joined = theta_join(
        *(spark.readStream.schema(SCHEMA).parquet(str(folder / name)) for name in ("r", "s")),
        "l.power < r.power AND l.cool > r.cool",
        window=ts.TimeWindow("60 minutes", time="t", slide="10 minutes"),
        tactic="spo-join",
    )
    query = (
        joined.writeStream.format("memory").queryName("racks").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return sorted((row["rack"], row["rack_right"]) for row in spark.table("racks").collect())


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
