"""Parquet files in, Parquet files out: what most queries look like.

Files that arrive in ``trades`` and ``quotes`` are joined by price band within two seconds. The
result is a folder of Parquet files. Run it again on the same folder, and it continues from its
checkpoint.
"""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

TRADE = "t timestamp, symbol string, price double"
QUOTE = "t timestamp, symbol string, ask double"


def write_inputs(spark: SparkSession, folder: Path) -> None:
    """Write input files, in place of a real source."""
    trades = [(1, "A", 10.00), (2, "B", 10.02), (9, "A", 10.00)]
    quotes = [(2, "C", 10.01), (3, "D", 10.06)]
    for name, rows, schema in (("trades", trades, TRADE), ("quotes", quotes, QUOTE)):
        frame = spark.createDataFrame(rows, schema.replace("t timestamp", "s long"))
        frame = frame.selectExpr("timestamp_seconds(1700000000 + s) AS t", "* EXCEPT (s)")
        frame.write.mode("append").parquet(str(folder / name))


def main(spark: SparkSession, folder: Path) -> list[tuple[str, str]]:
    """Join the files of a folder; return the symbols of the pairs."""
    write_inputs(spark, folder)
    trades = spark.readStream.schema(TRADE).parquet(str(folder / "trades"))
    quotes = spark.readStream.schema(QUOTE).parquet(str(folder / "quotes"))
    joined = theta_join(
        trades,
        quotes,
        "abs(l.price - r.ask) <= 0.02",
        window=ts.TimeWindow("2 seconds", time="t", lateness="1 second"),
    )
    query = (
        joined.writeStream.option("path", str(folder / "matches"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)  # stop when all files are read
        .start()
    )
    query.awaitTermination()
    result = spark.read.parquet(str(folder / "matches"))
    return sorted((row["symbol"], row["symbol_right"]) for row in result.collect())


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
