"""Spark's stream-static join, and ``relation_join`` beside it: a process with a session each.

A batch is a file and a file is a micro-batch, so all batches are given at once. The seconds are
those of the whole micro-batch, as Spark reports them: planning, reading the file, the join and the
bookkeeping. The first ones hold the start of Python workers and compilers; leave them out.

Spark cannot be held to a budget of some megabytes: ``memory`` is that of its JVM.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thetabench.contestant import Unavailable
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
            "scratch": str(place),
            "report": str(place / "report.json"),
        }
        report = _run(job, place, limit)
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
        Answer(batch["count"], batch["checksum"], batch["milliseconds"]["triggerExecution"] / 1000)
        for batch in done
    )
    return [next(answers) if batch.num_rows else Answer(0, 0, 0.0) for batch in stream]


# --- The process --------------------------------------------------------------------------------


def _run(job: dict[str, Any], place: Path, limit: float) -> dict[str, Any]:
    """Run the job in a process; its report, or a ``reason``. All it started ends with it."""
    path, report = place / "job.json", Path(job["report"])
    path.write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, "-m", _MODULE, str(path)]
    with (place / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=_environment(place), start_new_session=True
        )
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return {"reason": f"stopped after {limit:.0f} s"}
        finally:
            _end(process)
        if code == 0 and report.exists():
            return dict(json.loads(report.read_text(encoding="utf-8")))
        log.seek(0)
        return {"reason": _last_error(log.read()) or f"exit code {code}"}


def _environment(place: Path) -> dict[str, str]:
    """Workers run this Python and this thetastream, and leave their files below ``place``."""
    source = str(Path(__file__).resolve().parents[4])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "THETASTREAM_RUNS": str(place / "runs"),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group: the JVM and its workers go with Python."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_error(text: str) -> str:
    """The last line of a log that names an exception, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (named or lines or [""])[-1][:300]
