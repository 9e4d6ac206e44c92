"""Spark's stream-static join, and ``relation_join`` beside it: a process with a session each.

A batch is a file and a file is a micro-batch, so all batches are given at once. The seconds are
those of the whole micro-batch, as Spark reports them: planning, reading the file, the join and the
bookkeeping. The first ones hold the start of Python workers and compilers; leave them out.

Spark cannot be held to a budget of some megabytes: ``memory`` is that of its JVM.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thetabench.contestant import Unavailable
from thetabench.spark.session import run_process
from thetabench.ssij.peers import Answer, checksum_sql, condition, proof

HOME, STATIC = "relation_join", "spark-static"
_MODULE = "thetabench.spark.relation"
_START = 1_700_000_000  # of the files' times: Spark takes the oldest first


def join_stream(
    contestant: str,
    table: Path,
    key: str,
    stream: Sequence[pa.RecordBatch],
    folder: Path,
    *,
    budget: int,
    relation: Path | None = None,
    on: str | None = None,
    memory: str = "2g",
    limit: float = 3600.0,
) -> list[Answer]:
    """Join batches with a table; one answer per batch.

    ``contestant`` is ``spark-static``, ``spark-broadcast`` or ``relation_join``; the last needs the
    ``relation`` that was built from the table. Raises ``Unavailable`` with Spark's reason when it
    fails, or is stopped after ``limit`` seconds.
    """
    place = Path(tempfile.mkdtemp(prefix="spark-", dir=folder))
    try:
        for number, batch in enumerate(stream):
            path = place / "stream" / f"{number:06}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_batches([batch]), path)
            os.utime(path, (_START + number, _START + number))
        job = {
            "contestant": contestant,
            "stream": str(place / "stream"),
            "table": str(relation if contestant == HOME else table),
            "on": condition(key, on).replace('"', "`"),
            "proof": proof(pq.read_schema(table), key),
            "checksum": checksum_sql("left_id", "right_id"),
            "budget": budget,
            "cores": 1,
            "memory": memory,
        }
        report = run_process(_MODULE, job, place, place / "runs", limit)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if "reason" in report:
        raise Unavailable(f"{contestant}: {report['reason']}")
    return _answers(contestant, report, stream)


def _answers(
    contestant: str, report: dict[str, Any], stream: Sequence[pa.RecordBatch]
) -> list[Answer]:
    done = [batch for batch in report["batches"] if batch["rows"]]
    sizes = [batch.num_rows for batch in stream if batch.num_rows]
    if [batch["rows"] for batch in done] != sizes:
        raise Unavailable(
            f"{contestant}: micro-batches of {sizes} rows were expected, and Spark did "
            f"{[batch['rows'] for batch in done]}"
        )
    answers = (
        Answer(count, total, batch["milliseconds"]["triggerExecution"] / 1000)
        for batch in done
        for count, total in [batch["answer"]]
    )
    return [next(answers) if batch.num_rows else Answer(0, 0, 0.0) for batch in stream]
