"""A left join: orders without a near offer are returned once the watermark has passed them.

The third micro-batch contains no match, but it advances both streams by an hour. The unmatched
order of the first micro-batch is final then, and is returned with NULL on the right. The orders of
the last minutes stay in the state, because a stream has no end.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

SCHEMA = "t timestamp, price double"
ORDERS = ([(0, 10.0), (5, 50.0)], [(30, 20.0)], [(3600, 1.0)])
OFFERS = ([(2, 10.2)], [(31, 20.1)], [(3600, 99.0)])


def main(spark: SparkSession, folder: Path) -> list[tuple[float, float | None]]:
    """Return the price of each order with that of its offer, or None."""
    for name in ("orders", "offers"):
        (folder / name).mkdir()
    joined = theta_join(
        *(spark.readStream.schema(SCHEMA).parquet(str(folder / n)) for n in ("orders", "offers")),
        "abs(l.price - r.price) <= 0.5",
        window=ts.TimeWindow("1 minute", time="t", lateness="10 seconds"),
        how="left",
    )
    query = joined.writeStream.format("memory").queryName("orders_with_offers").start()
    try:
        for batch in zip(ORDERS, OFFERS, strict=True):
            for name, rows in zip(("orders", "offers"), batch, strict=True):
                frame = spark.createDataFrame(rows, "s int, price double")
                frame = frame.selectExpr("timestamp_seconds(1700000000 + s) AS t", "price")
                frame.write.mode("append").parquet(str(folder / name))
            query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.table("orders_with_offers").collect()
    return sorted((row["price"], row["price_right"]) for row in rows)


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
