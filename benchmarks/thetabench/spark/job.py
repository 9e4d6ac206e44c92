"""What the processes of contestants share: a job in, a Spark session, a report out.

Such a process is started by :mod:`thetabench.spark.launch`. It runs one query over the files that
are there, one micro-batch after the other, until there are none left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from thetastream.spark.session import configure

_ANSWER = "answer"
J = TypeVar("J", bound="Job")


@dataclass(frozen=True)
class Job:
    """What to run: a contestant, its condition, and where to put things."""

    contestant: str
    on: str
    """The condition, over ``l`` and ``r``."""
    checksum: str
    """Spark SQL of the answer's checksum."""
    cores: int
    memory: str
    """Memory of the JVM, as in ``4g``."""
    scratch: str
    report: str


def session(job: Job, partitions: int, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session of a job; its files are below the job's ``scratch``."""
    builder = SparkSession.builder.master(f"local[{job.cores}]").appName("thetastream bench")
    builder = configure(builder, partitions=partitions)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": job.memory,
        "spark.local.dir": f"{job.scratch}/local",
        "spark.sql.warehouse.dir": f"{job.scratch}/warehouse",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        **(settings or {}),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stream(spark: SparkSession, folder: str, files: int) -> DataFrame:
    """The Parquet files of a folder in the order of their times, ``files`` per micro-batch."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(folder)


def counted(checksum: str) -> tuple[Any, Any]:
    """What is observed of an answer: how many rows it has, and their checksum."""
    return F.count(F.lit(1)).alias("count"), F.expr(checksum).alias("sum")


def observed(row: Any) -> tuple[int, int]:
    """Count and checksum of an answer; a micro-batch without data may have no row of them."""
    return (int(row["count"]), int(row["sum"] or 0)) if row else (0, 0)


def run_query(
    answer: DataFrame, checksum: str, checkpoint: str
) -> tuple[StreamingQuery, list[tuple[int, int]]]:
    """Run a query to its end into no sink; returns count and checksum of each micro-batch too."""
    writer = answer.observe(_ANSWER, *counted(checksum)).writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return query, [observed(own.observedMetrics.get(_ANSWER)) for own in query.recentProgress]


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """What Spark reports of each micro-batch: its number, rows and milliseconds."""
    every = [json.loads(own.json) for own in query.recentProgress]
    return [
        {
            "batch": facts["batchId"],
            "rows": facts["numInputRows"],
            "milliseconds": facts["durationMs"],
        }
        for facts in every
    ]


def run_job(kind: type[J], measure: Callable[[J], dict[str, Any]], path: str) -> None:
    """Run the job of a file; the report is complete once its file is there."""
    job = kind(**json.loads(Path(path).read_text(encoding="utf-8")))
    part = Path(f"{job.report}.part")
    part.write_text(json.dumps(measure(job)), encoding="utf-8")
    os.replace(part, job.report)
