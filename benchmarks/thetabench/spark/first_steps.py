"""What a new user meets first: a stream with a table, and Spark's 200 shuffle partitions.

    python -m thetabench.spark.first_steps [--rows 100000] [--table 100000] [--file PATH]

``table``      a stream joined to a static DataFrame on a band and two inequalities, by
               ``theta_join`` and by Spark's own plan, a broadcast nested loop; one session, the
               same files, the answer of every micro-batch compared by count and checksum
``shuffle``    a join of two streams in two partitions, with 2 and with 200 shuffle partitions;
               answers compared as well

Results are milliseconds per micro-batch; the first one of a query is left out. ``load`` is the
number of processes that ran on the machine, this one included.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thetabench.machine import provenance
from thetastream.spark import configure, theta_join
from thetastream.spark.session import SHUFFLE
from thetastream.window import TimeWindow

ON = "abs(l.a - r.a) <= 0.00005 AND l.b < r.b AND l.c > r.c"
BATCHES = 3
PACKAGES = ("pyspark", "pyarrow", "numpy", "numba")


def rows(seed: int, count: int, start: int) -> pa.Table:
    """Uniform values; ids and times count on from ``start``."""
    rng = np.random.default_rng(seed)
    ids = np.arange(start, start + count)
    times = pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", tz="UTC"))
    return pa.table({"id": ids, **{name: rng.random(count) for name in "abc"}, "t": times})


def write(folder: Path, seed: int, count: int) -> None:
    """A file per micro-batch."""
    folder.mkdir(parents=True)
    for number in range(BATCHES):
        path = folder / f"{number}.parquet"
        pq.write_table(rows(seed + number, count, number * count), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream."""
    schema = "id long, a double, b double, c double, t timestamp"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(answer: DataFrame, place: Path) -> tuple[float, tuple[int, int]]:
    """Median milliseconds of a warm micro-batch, and count and checksum of the whole answer."""
    checksum = F.sum(F.expr("pmod(hash(id, id_right), 1000003)"))
    seen = answer.observe("answer", F.count(F.lit(1)).alias("count"), checksum.alias("checksum"))
    query = (
        seen.writeStream.format("noop")
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    reports = [report for report in query.recentProgress if report.numInputRows]
    spent = [float(report.durationMs["triggerExecution"]) for report in reports[1:]]
    observed = [report.observedMetrics["answer"] for report in reports]
    total = sum(row["count"] for row in observed), sum(row["checksum"] or 0 for row in observed)
    return statistics.median(spent), total


def table(spark: SparkSession, place: Path, count: int, size: int) -> list[dict[str, Any]]:
    """The figure ``table``."""
    write(place / "stream", 1, count)
    pq.write_table(rows(99, size, 0), place / "table.parquet")
    right = spark.read.parquet(str(place / "table.parquet"))
    stream, names = read(spark, place / "stream"), ["id", "id_right"]
    joined = theta_join(stream, right, ON, columns=names, name="table")
    nested = stream.alias("l").join(F.broadcast(right.alias("r")), F.expr(ON))
    peer = nested.selectExpr("l.id AS id", "r.id AS id_right")
    found = {
        "theta_join": run(joined, place / "one"),
        "spark, broadcast nested loop": run(peer, place / "two"),
    }
    return lines("table", found, count, size)


def shuffle(spark: SparkSession, place: Path, count: int) -> list[dict[str, Any]]:
    """The figure ``shuffle``."""
    found = {}
    for side, seed in (("left", 1), ("right", 11)):
        write(place / side, seed, count)
    window = TimeWindow("1 hour", time="t", lateness="1 hour")
    for tasks in (2, 200):
        spark.conf.set(SHUFFLE, str(tasks))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that there are 200 is the point
            left, right = (read(spark, place / side) for side in ("left", "right"))
            names = ["id", "id_right"]
            joined = theta_join(left, right, ON, window, partitions=2, columns=names)
        found[f"{tasks} shuffle partitions"] = run(joined, place / f"tasks-{tasks}")
    return lines("shuffle", found, count, count)


def lines(
    figure: str, found: dict[str, tuple[float, tuple[int, int]]], count: int, size: int
) -> list[dict[str, Any]]:
    """Rows of the result; the ratio is to the first contestant."""
    answers = {answer for _, answer in found.values()}
    assert len(answers) == 1, f"{figure}: the answers differ: {found}"
    ((pairs, checksum),) = answers
    assert pairs, "no pair to compare"
    first = next(ms for ms, _ in found.values())
    origin = {"load": round(os.getloadavg()[0], 1), **provenance(PACKAGES)}
    return [
        {
            "figure": figure,
            "contestant": name,
            "rows": count,
            "table": size,
            "batches": BATCHES - 1,
            "ms": round(ms),
            "ratio": round(ms / first, 2),
            "answer": f"{pairs} pairs, checksum {checksum}",
            **origin,
        }
        for name, (ms, _) in found.items()
    ]


def main() -> None:
    """Measure both figures, print them, and write the file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--table", type=int, default=100_000)
    parser.add_argument("--figure", choices=("table", "shuffle"), action="append")
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        builder: Any = SparkSession.builder
        builder = configure(builder.master("local[2]"), partitions=2)
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
        spark = builder.config("spark.local.dir", f"{folder}/spark").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        found = []
        for figure in asked.figure or ("table", "shuffle"):
            if figure == "table":
                found += table(spark, place / figure, asked.rows, asked.table)
            else:
                found += shuffle(spark, place / figure, 20_000)
        spark.stop()
    for line in found:
        print(line)
    if asked.file is not None:
        new = not asked.file.exists()
        with asked.file.open("a", newline="") as out:
            writer = csv.DictWriter(out, list(found[0]))
            if new:
                writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
