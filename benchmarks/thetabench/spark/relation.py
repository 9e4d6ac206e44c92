"""A stream joined to a table on disk by Spark, in a process of its own.

    python -m thetabench.spark.relation JOB

``JOB`` is a JSON file (see ``TableJob``). The stream is a folder of Parquet files, one of them per
micro-batch. Contestants:

``spark-static``     Spark's stream-static join: the table is read as a static DataFrame
``spark-broadcast``  the same, with the table broadcast to every task whatever its size
``relation_join``    thetastream

Count and checksum of every micro-batch's answer, and its milliseconds as Spark reports them, are
written to the job's report file.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thetabench.spark.job import ANSWER, Job, counted, run_job, session, stream, told
from thetastream.errors import RegistryError, suggest

CONTESTANTS = ("spark-static", "spark-broadcast", "relation_join")


@dataclass(frozen=True)
class TableJob(Job):
    """A join of a stream with a table; the checksum is over ``left_id`` and ``right_id``."""

    contestant: str
    on: str
    """The condition, over ``l`` and ``r``."""
    checksum: str
    """Spark SQL of the answer's checksum."""
    stream: str
    """Folder of Parquet files, one per micro-batch, ordered by their times."""
    table: str
    """Parquet, or for ``relation_join`` the relation."""
    proof: str
    """The column of the table that enters the checksum."""
    budget: int
    """Bytes of memory per worker process of ``relation_join``."""


def measure(job: TableJob) -> dict[str, Any]:
    """Run a contestant over all files of the stream; returns its report."""
    if job.contestant not in CONTESTANTS:
        raise RegistryError(
            f"contestant must be one of {', '.join(CONTESTANTS)}; got {job.contestant!r}."
            f"{suggest(job.contestant, CONTESTANTS)}"
        )
    spark = session(job, job.cores)
    try:
        answer = _joined(spark, stream(spark, job.stream, files=1), job)
        writer = answer.observe(ANSWER, *counted(job.checksum)).writeStream.format("noop")
        writer = writer.option("checkpointLocation", f"{job.scratch}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return {"batches": [told(progress) for progress in query.recentProgress]}
    finally:
        spark.stop()


def _joined(spark: SparkSession, rows: DataFrame, job: TableJob) -> DataFrame:
    """The answer with every column of both sides, and the two that the checksum reads."""
    if job.contestant == "relation_join":
        from thetastream.spark.relation.operator import relation_join

        both = relation_join(rows, job.table, job.on, memory=job.budget)
        taken = job.proof in rows.columns
        right = f"{job.proof}_right" if taken else job.proof
        return both.select("*", F.col("id").alias("left_id"), F.col(right).alias("right_id"))
    table = spark.read.parquet(job.table)
    if job.contestant == "spark-broadcast":
        table = F.broadcast(table)
    one, two = rows.alias("l"), table.alias("r")
    return one.join(two, F.expr(job.on)).select(
        "*", F.col("l.id").alias("left_id"), F.col(f"r.{job.proof}").alias("right_id")
    )


if __name__ == "__main__":
    run_job(TableJob, measure, sys.argv[1])
