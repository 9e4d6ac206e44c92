"""What a new user meets first: a stream with a table, and Spark's 200 shuffle partitions.

    python -m thetabench.spark.first_steps [--rows 1000000] [--table 100000]
        [--figure table] [--file FILE.csv] [--page PAGE.md]

``table``      a stream joined to a static DataFrame on a band and two inequalities, by
               ``theta_join`` and by Spark's own plan, a broadcast nested loop; one session, the
               same files, the answer of every micro-batch compared by count and checksum
``shuffle``    a join of two streams in two partitions, with 2 and with 200 shuffle partitions;
               answers compared as well

Results are milliseconds per micro-batch, medians. The first micro-batch of a query is small and
left out; ``theta_join`` has three others, Spark's nested loop, which takes minutes, one. ``load``
is the number of processes that ran on the machine, this one included. Lines of the same figure and
sizes are replaced in the file; the page gets a table of all lines between its marks.
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
from thetabench.tables import insert, marks
from thetastream.errors import IdleTasksWarning
from thetastream.spark import configure, theta_join
from thetastream.spark.session import SHUFFLE
from thetastream.window import TimeWindow

ON = "abs(l.a - r.a) <= 0.00005 AND l.b < r.b AND l.c > r.c"
BATCHES = 3  # timed ones
MUST = 20.0  # times as fast as Spark's own plan, with as many rows as SIZES
SIZES = {"rows": 1_000_000, "table": 100_000}
Ran = list[tuple[float, int, int]]
Lines = list[dict[str, Any]]
PACKAGES = ("pyspark", "pyarrow", "numpy", "numba")


def rows(seed: int, count: int, start: int) -> pa.Table:
    """Uniform values; ids and times count on from ``start``."""
    rng = np.random.default_rng(seed)
    ids = np.arange(start, start + count)
    times = pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", tz="UTC"))
    return pa.table({"id": ids, **{name: rng.random(count) for name in "abc"}, "t": times})


def write(folder: Path, seed: int, count: int) -> None:
    """A file per micro-batch; that of the first one is small."""
    folder.mkdir(parents=True)
    start = 0
    for number, size in enumerate([max(1, count // 50), *[count] * BATCHES]):
        path = folder / f"{number}.parquet"
        pq.write_table(rows(seed + number, size, start), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        start += size


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream."""
    schema = "id long, a double, b double, c double, t timestamp"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def first_files(folder: Path, batches: int) -> Path:
    """A folder with the first of the files: the small one, and those of so many micro-batches."""
    fewer = folder.with_name(f"{folder.name} {batches}")
    fewer.mkdir()
    for number in range(batches + 1):
        os.link(folder / f"{number}.parquet", fewer / f"{number}.parquet")
    return fewer


def run(answer: DataFrame, place: Path) -> Ran:
    """Milliseconds, count and checksum of every micro-batch but the first."""
    checksum = F.sum(F.expr("pmod(hash(id, id_right), 1000003)"))
    seen = answer.observe("answer", F.count(F.lit(1)).alias("count"), checksum.alias("checksum"))
    query = (
        seen.writeStream.format("noop")
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    timed = [report for report in query.recentProgress if report.numInputRows][1:]
    observed = [report.observedMetrics["answer"] for report in timed]
    spent = [float(report.durationMs["triggerExecution"]) for report in timed]
    return [
        (ms, int(row["count"]), int(row["checksum"] or 0))
        for ms, row in zip(spent, observed, strict=True)
    ]


def table(spark: SparkSession, place: Path, count: int, size: int) -> Lines:
    """The figure ``table``."""
    write(place / "stream", 1, count)
    pq.write_table(rows(99, size, 0), place / "table.parquet")
    right = spark.read.parquet(str(place / "table.parquet"))
    stream, names = read(spark, place / "stream"), ["id", "id_right"]
    joined = theta_join(stream, right, ON, columns=names, name="table")
    fewer = read(spark, first_files(place / "stream", 1))  # it takes minutes
    nested = fewer.alias("l").join(F.broadcast(right.alias("r")), F.expr(ON))
    peer = nested.selectExpr("l.id AS id", "r.id AS id_right")
    found = {
        "theta_join": run(joined, place / "one"),
        "spark, broadcast nested loop": run(peer, place / "two"),
    }
    return lines("table", found, count, size)


def shuffle(spark: SparkSession, place: Path, count: int) -> Lines:
    """The figure ``shuffle``."""
    found = {}
    for side, seed in (("left", 1), ("right", 11)):
        write(place / side, seed, count)
    window = TimeWindow("1 hour", time="t", lateness="1 hour")
    for tasks in (2, 200):
        spark.conf.set(SHUFFLE, str(tasks))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdleTasksWarning)  # that there are 200 is the point
            left, right = (read(spark, place / side) for side in ("left", "right"))
            names = ["id", "id_right"]
            joined = theta_join(left, right, ON, window, partitions=2, columns=names)
        found[f"{tasks} shuffle partitions"] = run(joined, place / f"tasks-{tasks}")
    return lines("shuffle", found, count, count)


def lines(figure: str, found: dict[str, Ran], count: int, size: int) -> Lines:
    """Lines of the result; a ratio is to the first contestant."""
    common = min(map(len, found.values()))
    answers = {name: [answer for _, *answer in ran[:common]] for name, ran in found.items()}
    expected = next(iter(answers.values()))
    assert all(answer == expected for answer in answers.values()), f"{figure}: {answers}"
    pairs, checksum = (sum(column) for column in zip(*expected, strict=True))
    assert pairs, "no pair to compare"
    spent = {name: statistics.median(ms for ms, _, _ in ran) for name, ran in found.items()}
    first = next(iter(spent.values()))
    origin = {"load": round(os.getloadavg()[0], 1), **provenance(PACKAGES)}
    return [
        {
            "figure": figure,
            "contestant": name,
            "rows": count,
            "table": size,
            "batches": len(found[name]),
            "ms": round(ms),
            "ratio": round(ms / first, 2),
            "answer": f"{pairs} pairs, checksum {checksum}",
            **origin,
        }
        for name, ms in spent.items()
    ]


# --- What is kept -------------------------------------------------------------------------------


def kept(file: Path, found: Lines) -> Lines:
    """The lines of a file, those of the same figure and sizes replaced; all are written there."""

    def place(line: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(line[name]) for name in ("figure", "rows", "table"))

    old: Lines = []
    if file.exists():
        with file.open(newline="") as source:
            old = list(csv.DictReader(source))
    again = set(map(place, found))
    both = [*(line for line in old if place(line) not in again), *found]
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(found[0]))
        writer.writeheader()
        writer.writerows(both)
    return both


def shown(found: Lines) -> str:
    """The lines as a table, and whether what must be reached is."""
    head = ["figure", "contestant", "rows", "table", "ms", "ratio", "load"]
    rows_shown = [" | ".join(str(line[name]) for name in head) for line in found]
    table_shown = [" | ".join(head), " | ".join(["---"] * 2 + ["--:"] * 5), *rows_shown]
    text = "\n".join(f"| {row} |" for row in table_shown)
    own = {name: str(size) for name, size in SIZES.items()}
    for line in found:
        is_peer = line["figure"] == "table" and float(line["ratio"]) != 1
        if is_peer and all(str(line[name]) == size for name, size in own.items()):
            ratio = float(line["ratio"])
            reached = "reached" if ratio >= MUST else "MISSED"
            text += (
                f"\n\nA stream with a table, over Spark's broadcast nested loop: {ratio:,.1f} ×; "
                f"must {MUST:g} ×: {reached}."
            )
    last = found[-1]
    return (
        f"{text}\n\nAnswers verified. Machine: {last['cpu']}, {last['cores']} cores, "
        f"{last['system']}, Python {last['python']}; {last['versions']}; {last['date']}."
    )


def main() -> None:
    """Measure the figures, print them, and write the file and the page that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=SIZES["rows"])
    parser.add_argument("--table", type=int, default=SIZES["table"])
    parser.add_argument("--figure", choices=("table", "shuffle"), action="append")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    found: Lines = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        builder: Any = SparkSession.builder
        builder = configure(builder.master("local[2]"), partitions=2)
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
        spark = builder.config("spark.local.dir", f"{folder}/spark").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        for figure in asked.figure or ("table", "shuffle"):
            if figure == "table":
                found += table(spark, place / figure, asked.rows, asked.table)
            else:
                found += shuffle(spark, place / figure, min(20_000, asked.rows))
        spark.stop()
    for line in found:
        print(line)
    if asked.file is not None:
        found = kept(asked.file, found)
    if asked.page is not None:
        page = insert(asked.page.read_text("utf-8"), shown(found), *marks("spark", "first-steps"))
        asked.page.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
