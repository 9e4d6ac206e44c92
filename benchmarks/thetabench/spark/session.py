"""Starts processes with a Spark session: those that run a job, and those that take requests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetabench.contestant import Failed
from thetabench.spark.eventlog import Spent, read_events

if TYPE_CHECKING:
    from thetabench.spark.peers import Seat

Report = dict[str, Any]
_END = 60.0  # seconds for a session to end


class Session:
    """A Spark session in a process, whose queries take turns; see :mod:`thetabench.spark.worker`.

    Its files are below ``folder``, run files of joins in ``runs``. A request that is not answered
    within ``limit`` seconds ends it.
    """

    def __init__(self, folder: Path, runs: Path, cores: int, memory: str, limit: float) -> None:
        self._folder = folder
        self._limit = limit
        self._process, self._log = _started(
            "thetabench.spark.worker",
            {"cores": cores, "memory": memory},
            folder,
            runs,
            piped=True,
        )
        try:
            self.java = self._reply()["java"]
        except Failed:
            self.close()
            raise

    def ask(self, what: str, seat: Seat, **more: Any) -> Report:
        """Ask for something and wait for the answer; raises ``Failed`` with the reason."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            request = {"ask": what, "seat": asdict(seat), **more}
            self._process.stdin.write(f"{json.dumps(request)}\n".encode())
            self._process.stdin.flush()
        reply = self._reply()
        if "reason" in reply:
            raise Failed(_error(reply["reason"]))
        return reply

    def _reply(self) -> Report:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], self._limit)[0]:
            _kill(self._process)
            raise Failed(f"stopped after {self._limit:.0f} s")
        if not (line := out.readline()):
            raise Failed(_logged(self._log) or "the session has ended")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the session; its event log is complete then."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END)
            _kill(self._process)

    @cached_property
    def spent(self) -> Mapping[tuple[str, int], Spent]:
        """Time in stages and tasks, by query and micro-batch; of a closed session."""
        return read_events(self._folder / "events")


def run_process(
    module: str, job: Mapping[str, Any], folder: Path, runs: Path, limit: float
) -> Report:
    """Run ``python -m module`` over a job, all fields of its ``Job`` but scratch and report.

    Returns its report, or a ``reason`` why there is none. Its files stay below ``folder``, run
    files of joins in ``runs``. It has a process group of its own, so that the JVM and all workers
    end with it, after ``limit`` seconds at the latest.
    """
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    process, log = _started(module, job, folder, runs)
    try:
        code = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return {"reason": f"stopped after {limit:.0f} s"}
    finally:
        _kill(process)
    if code == 0 and report.exists():
        return dict(json.loads(report.read_text("utf-8")))
    return {"reason": _logged(log) or f"exit code {code}"}


def _started(
    module: str, job: Mapping[str, Any], folder: Path, runs: Path, *, piped: bool = False
) -> tuple[subprocess.Popen[bytes], Path]:
    """A process in a process group of its own, and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    path, log = folder / "job.json", folder / "log.txt"
    told = {**job, "scratch": str(folder), "report": str(folder / "report.json")}
    path.write_text(json.dumps(told), "utf-8")
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(path)],
            stdin=subprocess.PIPE if piped else None,
            stdout=subprocess.PIPE if piped else file,
            stderr=file,
            env=_environment(runs),
            start_new_session=True,
        )
    return process, log


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


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


def _logged(log: Path) -> str:
    return _error(log.read_text("utf-8", errors="replace"))


def _error(text: str) -> str:
    """The line of a text that names the error: the last of Python's, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (named or lines or [""])[-1][:300]
