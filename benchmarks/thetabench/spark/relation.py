"""A stream joined to a table on disk by Spark, in a process of its own.

    python -m thetabench.spark.relation JOB

``JOB`` is a JSON file (see ``Job``). The stream is a folder of Parquet files, one of them per
micro-batch. Contestants:

``spark-static``     Spark's stream-static join: the table is read as a static DataFrame
``spark-broadcast``  the same, with the table broadcast to every task whatever its size
``relation_join``    thetastream

Count and checksum of every micro-batch's answer, and its milliseconds as Spark tells them, are
written to the job's report file.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thetastream.errors import RegistryError, suggest
from thetastream.spark.session import configure

CONTESTANTS = ("spark-static", "spark-broadcast", "relation_join")
_ANSWER = "answer"


@dataclass(frozen=True)
class Job:
    """What to run: a contestant, its input, and where to put things."""

    contestant: str
    stream: str
    """Folder of Parquet files, one per micro-batch, ordered by their times."""
    table: str
    """Parquet, or for ``relation_join`` the relation."""
    on: str
    """The condition, over ``l`` and ``r``."""
    proof: str
    """The column of the table that enters the checksum."""
    checksum: str
    """SQL of the answer's checksum, over the columns ``left_id`` and ``right_id``."""
    budget: int
    """Bytes of memory per worker process of ``relation_join``."""
    cores: int
    memory: str
    """Memory of the JVM, as in ``2g``."""
    scratch: str
    report: str


def measure(job: Job) -> dict[str, Any]:
    """Run a contestant over all files of the stream and tell what happened."""
    if job.contestant not in CONTESTANTS:
        raise RegistryError(
            f"contestant must be one of {', '.join(CONTESTANTS)}; got {job.contestant!r}."
            f"{suggest(job.contestant, CONTESTANTS)}"
        )
    spark = _session(job)
    try:
        schema = spark.read.parquet(job.stream).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        answer = _joined(spark, reader.parquet(job.stream), job)
        count, total = F.count(F.lit(1)).alias("count"), F.expr(job.checksum).alias("sum")
        writer = answer.observe(_ANSWER, count, total).writeStream.format("noop")
        writer = writer.option("checkpointLocation", f"{job.scratch}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [json.loads(found.json) for found in query.recentProgress]
        answers = [found.observedMetrics.get(_ANSWER) for found in query.recentProgress]
        return {
            "batches": [
                {
                    "rows": facts["numInputRows"],
                    "count": int(row["count"]) if row else 0,
                    "checksum": int(row["sum"] or 0) if row else 0,
                    "milliseconds": facts["durationMs"],
                }
                for facts, row in zip(progress, answers, strict=True)
            ],
            "spark": pyspark.__version__,
        }
    finally:
        spark.stop()


def _session(job: Job) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{job.cores}]").appName("thetastream bench")
    builder = configure(builder, partitions=job.cores)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": job.memory,
        "spark.local.dir": f"{job.scratch}/local",
        "spark.sql.warehouse.dir": f"{job.scratch}/warehouse",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _joined(spark: SparkSession, stream: DataFrame, job: Job) -> DataFrame:
    """The answer with every column of both sides, and the two that the checksum reads."""
    if job.contestant == "relation_join":
        from thetastream.spark.relation.operator import relation_join

        both = relation_join(stream, job.table, job.on, memory=job.budget)
        taken = job.proof in stream.columns
        right = f"{job.proof}_right" if taken else job.proof
        return both.select("*", F.col("id").alias("left_id"), F.col(right).alias("right_id"))
    table = spark.read.parquet(job.table)
    if job.contestant == "spark-broadcast":
        table = F.broadcast(table)
    one, two = stream.alias("l"), table.alias("r")
    return one.join(two, F.expr(job.on)).select(
        "*", F.col("l.id").alias("left_id"), F.col(f"r.{job.proof}").alias("right_id")
    )


def main(path: str) -> None:
    """Run the job of a file; the report is complete once its file is there."""
    job = Job(**json.loads(Path(path).read_text(encoding="utf-8")))
    report = measure(job)
    part = Path(f"{job.report}.part")
    part.write_text(json.dumps(report), encoding="utf-8")
    os.replace(part, job.report)


if __name__ == "__main__":
    main(sys.argv[1])
