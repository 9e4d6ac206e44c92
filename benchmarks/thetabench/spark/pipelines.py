"""One contestant of the Spark benchmark in a process of its own.

    python -m thetabench.spark.pipelines JOB

``JOB`` is a JSON file (see ``StreamJob``). What Spark reports of every micro-batch and the count
and checksum of its answer are written to the job's report file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from thetabench.spark.job import progress, run_job, run_query, session, stream
from thetabench.spark.peers import Rejoin, StreamJob, bucketed, echo, theta
from thetabench.spark.plan import BLOCKS, FILES, HOME, REJOIN
from thetastream.errors import RegistryError
from thetastream.side import Side
from thetastream.spark.listener import query_metrics
from thetastream.spark.session import PROVIDER

IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_Contestant = Callable[[DataFrame, DataFrame, StreamJob], DataFrame]

STREAMS: dict[str, _Contestant] = {
    HOME: theta,
    FILES: theta,
    "bucketed-memory": bucketed,
    "bucketed-rocksdb": bucketed,
    "empty": partial(echo, copies=1),
    "empty-double": partial(echo, copies=2),
}
REJOINS = {REJOIN: False, BLOCKS: True}
"""Whether they find pairs by blocks."""
_METRICS = {
    "batch": "batchId",
    "stored_rows": "numRowsTotal",
    "written_bytes": "writtenBytes",
    "hits": "hits",
    "attaches": "attaches",
    "rebuilds": "rebuilds",
    "seconds": "seconds",
}


def measure(job: StreamJob) -> dict[str, Any]:
    """Run a contestant; returns its report."""
    name, options = _read(job.contestant)
    store = {PROVIDER: IN_MEMORY} if name == "bucketed-memory" else {}
    spark = session(job, max(job.partitions, job.cores), store)
    try:
        left, right = (stream(spark, f"{job.source}/{side.value}", job.files) for side in Side)
        if name in REJOINS:
            query, answers = _rejoin(left, right, job)
        else:
            path = f"{job.scratch}/state" if name == FILES else None
            tactic = options.get("tactic", job.tactic)
            job = replace(job, state_path=path, tactic=tactic)
            answer = STREAMS[name](left, right, job)
            query, answers = run_query(answer, job.checksum, job.checkpoint)
        return {
            "batches": progress(query),
            "answers": answers,
            "joins": [
                {name: metrics[own] for name, own in _METRICS.items()}
                for metrics in query_metrics(query)
            ],
            "checkpoint_bytes": _size(Path(job.checkpoint) / "state"),
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


def _rejoin(
    left: DataFrame, right: DataFrame, job: StreamJob
) -> tuple[StreamingQuery, list[tuple[int, int]]]:
    both = left.withColumn("side", F.lit("left")).unionByName(
        right.withColumn("side", F.lit("right"))
    )
    rejoin = Rejoin(job, blocks=REJOINS[job.contestant])
    writer = both.writeStream.foreachBatch(rejoin).option("checkpointLocation", job.checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query, rejoin.answers


def _size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    run_job(StreamJob, measure, sys.argv[1])
