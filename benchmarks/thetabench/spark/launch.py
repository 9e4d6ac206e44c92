"""Starts a contestant: a process with its own Spark session, and the report that it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from thetabench.spark.feed import FILES, Feed
from thetabench.spark.plan import EMPTY, HOME, Measurement, Sizes
from thetabench.spark.reference import CHECKSUM

Report = dict[str, Any]
_COLUMNS = {"empty": ("t", "{key}"), "empty-double": ("t", "{key}_right")}


@dataclass(frozen=True)
class Place:
    """Where a contestant finds and leaves things."""

    folder: Path
    """Its own: source files, report, Spark's local files."""
    checkpoint: Path
    runs: Path
    """Run files of the join."""

    @property
    def source(self) -> Path:
        """The files of both streams."""
        return self.folder / "source"


class Launch(Protocol):
    """Runs a contestant over the files of its source."""

    def __call__(self, found: Measurement, feed: Feed, sizes: Sizes, place: Place) -> Report:
        """Give its report; one with a ``reason`` means that there are no numbers."""
        ...


def launch(found: Measurement, feed: Feed, sizes: Sizes, place: Place) -> Report:
    """Run a contestant in a new process; it is stopped after ``sizes.limit`` seconds."""
    job = {
        "contestant": HOME if found.part == "restart" else found.contestant,
        "source": str(place.source),
        "files": FILES,
        "on": feed.query.predicate,
        "width": int(feed.query.bands[0].width) if feed.query.bands else 0,
        "window": found.window,
        "partitions": found.partitions,
        "cores": sizes.cores,
        "memory": sizes.memory,
        "checksum": _checksum(found, feed),
        "scratch": str(place.folder),
        "checkpoint": str(place.checkpoint),
        "report": str(place.folder / "report.json"),
    }
    place.folder.mkdir(parents=True, exist_ok=True)
    path = place.folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    return _finished(path, Path(str(job["report"])), _environment(place), sizes.limit)


def _checksum(found: Measurement, feed: Feed) -> str:
    assert set(EMPTY) == set(_COLUMNS)
    left, right = _COLUMNS.get(found.contestant, ("t", "t_right"))
    return CHECKSUM.format(left=left, right=right.format(key=feed.query.columns[0]))


def _environment(place: Place) -> dict[str, str]:
    source = str(Path(__file__).resolve().parents[3])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "THETASTREAM_RUNS": str(place.runs),
    }


def _finished(job: Path, report: Path, environment: dict[str, str], limit: float) -> Report:
    """Wait for the process. All that it started ends with it: it has a process group of its own."""
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "thetabench.spark.pipelines", str(job)]
    with (job.parent / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return {"reason": f"stopped after {limit:.0f} s"}
        finally:
            _end(process)
        if code == 0 and report.exists():
            found: Report = json.loads(report.read_text(encoding="utf-8"))
            return found
        log.seek(0)
        return {"reason": _error(log.read()) or f"exit code {code}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _error(text: str) -> str:
    """Give the line of a log that names the error: the last of Python's, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (named or lines or [""])[-1][:300]
