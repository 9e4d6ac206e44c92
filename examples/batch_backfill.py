"""The same join over tables: a backfill, or a test of the streaming query.

Two static DataFrames are joined at once, by the same rules: no row is late, and at the end
every unmatched row of an outer join is returned.
"""

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join


def main(spark: SparkSession, folder: Path) -> list[tuple[str, str | None]]:
    """Return each alarm with the repairs that began within the hour, or None."""

    def at(hour: int, minute: int) -> datetime:
        return datetime(2024, 3, 4, hour, minute, tzinfo=UTC)

    alarms = spark.createDataFrame(
        [(at(8, 0), 3, "pump"), (at(9, 30), 1, "fan"), (at(9, 40), 9, "door")],
        "t timestamp, level int, alarm string",
    )
    repairs = spark.createDataFrame(
        [(at(8, 20), 2, "oil"), (at(9, 45), 5, "belt")], "t timestamp, level int, repair string"
    )
    joined = theta_join(
        alarms,
        repairs,
        "l.level BETWEEN r.level - 4 AND r.level + 1",
        window=ts.TimeWindow("1 hour", time="t"),
        how="left",
        columns=["alarm", "repair"],
    )
    return sorted((row["alarm"], row["repair"]) for row in joined.collect())


if __name__ == "__main__":
    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    print(main(session, Path()))
    session.stop()
