"""Starts a contestant: a process with its own Spark session, and the report that it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetabench.spark.feed import FILES, Feed
from thetabench.spark.plan import HOME, Measurement, Sizes
from thetabench.spark.reference import CHECKSUM

Report = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a contestant finds and leaves things."""

    folder: Path
    """Its own: source files, checkpoint, report, Spark's local files."""
    runs: Path
    """Run files of the join."""

    @property
    def source(self) -> Path:
        """The files of both streams."""
        return self.folder / "source"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of its query."""
        return self.folder / "checkpoint"


Launch = Callable[[Measurement, Feed, Sizes, Place], Report]
"""Runs a contestant over the files of its source; a report with a ``reason`` has no numbers."""


def launch(one: Measurement, feed: Feed, sizes: Sizes, place: Place) -> Report:
    """Run a contestant in a new process; it is stopped after ``sizes.limit`` seconds."""
    key = feed.query.columns[0]
    echoed = {"empty": key, "empty-double": f"{key}_right"}
    job = {
        "contestant": HOME if one.part == "restart" else one.contestant,
        "source": str(place.source),
        "files": FILES,
        "on": feed.query.predicate,
        "width": int(feed.query.bands[0].width) if feed.query.bands else 0,
        "window": one.window,
        "partitions": one.partitions,
        "cores": sizes.cores,
        "memory": sizes.memory,
        "checksum": CHECKSUM.format(right=echoed.get(one.contestant, "t_right")),
        "checkpoint": str(place.checkpoint),
    }
    return run_process("thetabench.spark.pipelines", job, place.folder, place.runs, sizes.limit)


def run_process(
    module: str, job: Mapping[str, Any], folder: Path, runs: Path, limit: float
) -> Report:
    """Run ``python -m module`` over a job, all fields of its ``Job`` but scratch and report.

    Returns its report, or a ``reason`` why there is none. Its files stay below ``folder``, run
    files of joins in ``runs``. It has a process group of its own, so that the JVM and all workers
    end with it, after ``limit`` seconds at the latest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, report = folder / "job.json", folder / "report.json"
    report.unlink(missing_ok=True)
    path.write_text(json.dumps({**job, "scratch": str(folder), "report": str(report)}), "utf-8")
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(path)],
            stdout=log,
            stderr=log,
            env=_environment(runs),
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return {"reason": f"stopped after {limit:.0f} s"}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code == 0 and report.exists():
            return dict(json.loads(report.read_text("utf-8")))
        log.seek(0)
        return {"reason": _error(log.read()) or f"exit code {code}"}


def _environment(runs: Path) -> dict[str, str]:
    """Workers run this Python and this laboratory."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")]
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "THETASTREAM_RUNS": str(runs),
    }


def _error(text: str) -> str:
    """The line of a log that names the error: the last of Python's, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (named or lines or [""])[-1][:300]
