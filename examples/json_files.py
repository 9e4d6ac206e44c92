"""JSON lines in, JSON lines out; nested payload passes through the join unchanged."""

from pathlib import Path

from pyspark.sql import SparkSession

import thetastream as ts
from thetastream.spark import configure, theta_join

READING = "t timestamp, kelvin double, place struct<room: string, rack: int>"
LIMIT = "t timestamp, kelvin double, note string"
READINGS = """\
{"t": "2024-03-04T10:00:00Z", "kelvin": 301.5, "place": {"room": "a", "rack": 1}}
{"t": "2024-03-04T10:00:05Z", "kelvin": 296.0, "place": {"room": "a", "rack": 2}}
"""
LIMITS = """\
{"t": "2024-03-04T10:00:02Z", "kelvin": 300.0, "note": "too warm"}
{"t": "2024-03-04T10:09:00Z", "kelvin": 290.0, "note": "much later"}
"""


def main(spark: SparkSession, folder: Path) -> list[tuple[str, int, str]]:
    """Return readings above a limit that was set within a minute: an inequality, no equality."""
    for name, text in (("readings", READINGS), ("limits", LIMITS)):
        (folder / name).mkdir()
        (folder / name / "0.json").write_text(text)
    joined = theta_join(
        spark.readStream.schema(READING).json(str(folder / "readings")),
        spark.readStream.schema(LIMIT).json(str(folder / "limits")),
        "l.kelvin > r.kelvin",
        window=ts.TimeWindow("1 minute", time="t"),
    )
    query = (
        joined.writeStream.format("json")
        .option("path", str(folder / "alarms"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    alarms = spark.read.schema(joined.schema).json(str(folder / "alarms"))
    rows = alarms.select("place.room", "place.rack", "note").collect()
    return sorted((row["room"], row["rack"], row["note"]) for row in rows)


if __name__ == "__main__":
    import tempfile

    session = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        print(main(session, Path(name)))
    session.stop()
