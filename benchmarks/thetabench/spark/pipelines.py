"""One contestant of the Spark benchmark in a process of its own.

    python -m thetabench.spark.pipelines JOB

``JOB`` is a JSON file (see ``Job``). The contestant runs over the files that are there, one
micro-batch after the other, until there are none left; what Spark told of every micro-batch and
the count and checksum of its answer are written to the job's report file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from thetabench.spark.peers import Rejoin, Task, bucketed, echo, theta
from thetastream.errors import RegistryError
from thetastream.spark.listener import query_metrics
from thetastream.spark.session import PROVIDER, configure

IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FILES = "theta_join-files"
_ANSWER = "answer"
_Contestant = Callable[[DataFrame, DataFrame, Task], DataFrame]

STREAMS: dict[str, _Contestant] = {
    "theta_join": theta,
    FILES: theta,
    "bucketed-memory": bucketed,
    "bucketed-rocksdb": bucketed,
    "empty": partial(echo, copies=1),
    "empty-double": partial(echo, copies=2),
}
REJOINS = {"foreachBatch": False, "foreachBatch-blocks": True}
"""Whether they find pairs by blocks."""


@dataclass(frozen=True)
class Job:
    """What to run: a contestant, its input, and where to put things."""

    contestant: str
    """Its name; options of ``theta_join`` follow, as in ``theta_join:tactic=spo-join``."""
    source: str
    """Folder with the folders ``left`` and ``right``."""
    files: int
    """Files per side and micro-batch."""
    on: str
    width: int
    window: int
    partitions: int
    cores: int
    memory: str
    """Memory of the JVM, as in ``4g``."""
    checksum: str
    """Spark SQL of the answer's checksum."""
    scratch: str
    checkpoint: str
    report: str


def measure(job: Job) -> dict[str, Any]:
    """Run a contestant and tell what happened."""
    name, options = _read(job.contestant)
    started = time.perf_counter()
    spark = _session(job)
    try:
        ready = time.perf_counter()
        left, right = (_stream(spark, job, side) for side in ("left", "right"))
        path = f"{job.scratch}/state" if name == FILES else None
        task = Task(job.on, job.width, job.window, job.partitions, path, **options)
        if name in REJOINS:
            query, answers = _rejoin(left, right, task, job)
        else:
            query, answers = _join(STREAMS[name](left, right, task), job)
        return {
            "batches": [_progress(json.loads(found.json)) for found in query.recentProgress],
            "answers": answers,
            "joins": [_metrics(found) for found in query_metrics(query)],
            "start_seconds": ready - started,
            "wall_seconds": time.perf_counter() - ready,
            "checkpoint_bytes": _size(Path(job.checkpoint) / "state"),
            "spark": pyspark.__version__,
            "java": spark.sparkContext._jvm.System.getProperty("java.version"),  # type: ignore[union-attr]
        }
    finally:
        spark.stop()


def _read(contestant: str) -> tuple[str, dict[str, str]]:
    """Name and options of a contestant.

    >>> _read("theta_join:tactic=spo-join")
    ('theta_join', {'tactic': 'spo-join'})
    """
    name, _, text = contestant.partition(":")
    options = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    known = (*STREAMS, *REJOINS)
    if name not in known or (
        text and (STREAMS.get(name) is not theta or set(options) != {"tactic"})
    ):
        raise RegistryError(
            f"contestant must be one of {', '.join(known)}; theta_join may have a tactic, as in "
            f"theta_join:tactic=ordered; got {contestant!r}."
        )
    return name, options


def _session(job: Job) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{job.cores}]").appName("thetastream bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": job.memory,
        "spark.local.dir": f"{job.scratch}/local",
        "spark.sql.warehouse.dir": f"{job.scratch}/warehouse",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = configure(builder, partitions=max(job.partitions, job.cores))
    if job.contestant == "bucketed-memory":
        settings[PROVIDER] = IN_MEMORY
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _stream(spark: SparkSession, job: Job, side: str) -> DataFrame:
    folder = f"{job.source}/{side}"
    schema: StructType = spark.read.parquet(folder).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", job.files)
    return reader.parquet(folder)


def _join(answer: DataFrame, job: Job) -> tuple[StreamingQuery, list[tuple[int, int]]]:
    count, total = F.count(F.lit(1)).alias("count"), F.expr(job.checksum).alias("sum")
    writer = answer.observe(_ANSWER, count, total).writeStream.format("noop")
    query = writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    answers = []
    for found in query.recentProgress:
        row = found.observedMetrics.get(_ANSWER)
        answers.append((int(row["count"]), int(row["sum"] or 0)) if row else (0, 0))
    return query, answers


def _rejoin(
    left: DataFrame, right: DataFrame, task: Task, job: Job
) -> tuple[StreamingQuery, list[tuple[int, int]]]:
    both = left.withColumn("side", F.lit("left")).unionByName(
        right.withColumn("side", F.lit("right"))
    )
    rejoin = Rejoin(task, job.checksum, blocks=REJOINS[job.contestant])
    writer = both.writeStream.foreachBatch(rejoin).option("checkpointLocation", job.checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query, rejoin.answers


def _progress(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "batch": facts["batchId"],
        "rows": facts["numInputRows"],
        "milliseconds": facts["durationMs"],
    }


def _metrics(found: Any) -> dict[str, Any]:
    names = {
        "batch": "batchId",
        "rows": "numInputRows",
        "output_rows": "outputRows",
        "stored_rows": "numRowsTotal",
        "state_bytes": "stateBytes",
        "written_bytes": "writtenBytes",
        "memory_bytes": "memoryBytes",
        "runs": "runs",
        "compactions": "compactions",
        "hits": "hits",
        "attaches": "attaches",
        "rebuilds": "rebuilds",
        "seconds": "seconds",
        "skew": "skew",
    }
    return {name: found[spark_name] for name, spark_name in names.items()}


def _size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(path: str) -> None:
    """Run the job of a file; the report is complete once its file is there."""
    job = Job(**json.loads(Path(path).read_text(encoding="utf-8")))
    report = measure(job)
    part = Path(f"{job.report}.part")
    part.write_text(json.dumps(report), encoding="utf-8")
    os.replace(part, job.report)


if __name__ == "__main__":
    main(sys.argv[1])
