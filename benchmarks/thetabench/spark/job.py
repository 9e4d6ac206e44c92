"""What processes with a Spark session share: the session, its streams, what is told of an answer.

Such a process is started by :mod:`thetabench.spark.session`.
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

from thetastream.spark.session import configure

ANSWER = "answer"
COUNT = "count(1)"
J = TypeVar("J", bound="Job")


@dataclass(frozen=True)
class Job:
    """What every process is told."""

    cores: int
    memory: str
    """Memory of the JVM, as in ``4g``."""
    scratch: str
    """Folder for its files."""
    report: str
    """File for what it reports at its end, if it does."""


def session(job: Job, partitions: int, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session of a job; its files are below the job's ``scratch``."""
    builder = SparkSession.builder.master(f"local[{job.cores}]").appName("thetastream bench")
    builder = configure(builder, partitions=partitions, local_checkpoints=True)
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


def counted(checksum: str, count: str = COUNT) -> tuple[Any, Any]:
    """What is observed of an answer: how many rows it has, and their checksum."""
    return F.expr(count).alias("count"), F.expr(checksum).alias("sum")


def observed(row: Any) -> tuple[int, int]:
    """Count and checksum of an answer; a micro-batch without data may have no row of them."""
    return (int(row["count"] or 0), int(row["sum"] or 0)) if row else (0, 0)


def told(progress: Any) -> dict[str, Any]:
    """What Spark reports of a micro-batch: its number, rows, milliseconds, and its answer."""
    facts = json.loads(progress.json)
    return {
        "batch": facts["batchId"],
        "rows": facts["numInputRows"],
        "milliseconds": facts["durationMs"],
        "answer": observed(progress.observedMetrics.get(ANSWER)),
    }


def run_job(kind: type[J], measure: Callable[[J], dict[str, Any]], path: str) -> None:
    """Run the job of a file; the report is complete once its file is there."""
    job = kind(**json.loads(Path(path).read_text(encoding="utf-8")))
    part = Path(f"{job.report}.part")
    part.write_text(json.dumps(measure(job)), encoding="utf-8")
    os.replace(part, job.report)
