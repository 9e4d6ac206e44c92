"""All contestants on all workloads: measured one after the other, their answers compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import thetabench
import thetastream
from thetabench import records
from thetabench.finite.peers import CONTESTANTS
from thetabench.finite.workloads import WORKLOADS
from thetabench.machine import resident_bytes, thread_settings
from thetastream.plan.machine import Machine

OURS = "thetastream"
PATIENCE = 45.0  # seconds that one contestant may take, with preparing and the first run
MEMORY = 0.7  # the share of the machine's memory that it may take
_LOOK = 0.2  # seconds between two looks at a contestant


@dataclass(frozen=True)
class FiniteLine:
    """One line of the result file. ``status`` is ok, skipped, failed or wrong."""

    workload: str
    threads: int
    contestant: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    peak_mb: float = 0.0
    pairs: int = 0
    digest: str = ""
    scale: float = 1.0
    version: str = ""


def measurements(
    workloads: Sequence[str],
    contestants: Sequence[str],
    threads: Sequence[int],
    scale: float,
    repeat: int,
    say: Callable[[str], None],
    pythons: Sequence[Path] = (),
) -> Iterator[FiniteLine]:
    """Measure every cell; ours comes first, and its answer is what the others are compared with.

    More threads come before fewer: what takes too long or too much with more is not run with fewer.
    ``pythons`` are interpreters of other environments, for contestants that this one lacks.
    """
    places = (sys.executable, *map(str, pythons))
    ordered = sorted(contestants, key=lambda name: name != OURS)
    for workload in workloads:
        truth: dict[str, tuple[int, str]] = {}
        hopeless: dict[str, str] = {}
        for count in sorted(set(threads), reverse=True):
            for contestant in ordered:
                say(f"{workload}, {count} threads: {contestant}")
                facts: dict[str, Any] = {"workload": workload, "contestant": contestant}
                line = _measured(
                    {**facts, "threads": count, "scale": scale}, repeat, places, hopeless
                )
                if line.status == "ok":
                    known = truth.setdefault(workload, (line.pairs, line.digest))
                    if known != (line.pairs, line.digest):
                        reason = f"{line.pairs} pairs; {OURS} found {known[0]}"
                        facts = {**asdict(line), "status": "wrong", "reason": reason}
                        line = FiniteLine(**facts)
                yield line


def _measured(
    asked: Mapping[str, Any], repeat: int, places: Sequence[str], hopeless: dict[str, str]
) -> FiniteLine:
    contestant, threads = asked["contestant"], asked["threads"]
    facts: dict[str, Any] = dict(asked)
    home = _home(CONTESTANTS[contestant][0], places)
    if home is None:
        return FiniteLine(**facts, status="skipped", reason="not installed")
    python, facts["version"] = home
    if contestant in hopeless:
        return FiniteLine(**facts, status="skipped", reason=hopeless[contestant])
    command = [python, "-m", "thetabench.finite.worker", json.dumps({**asked, "repeat": repeat})]
    done = _run(command, {**_environment(python), **thread_settings(threads)})
    if isinstance(done, str):
        hopeless[contestant] = f"{done} with {threads} threads"
        return FiniteLine(**facts, status="skipped", reason=done)
    code, output, errors = done
    if code:
        last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
        return FiniteLine(**facts, status="failed", reason=last[:200])
    found = json.loads(output.strip().splitlines()[-1])
    if "skipped" in found:
        return FiniteLine(**facts, status="skipped", reason=found["skipped"])
    return FiniteLine(
        **facts,
        status="ok",
        seconds=round(found["seconds"], 4),
        peak_mb=round(found["peak_bytes"] / 1e6, 1),
        pairs=found["pairs"],
        digest=found["digest"],
    )


@cache
def _home(distribution: str, places: Sequence[str]) -> tuple[str, str] | None:
    """The first interpreter that has a distribution, and its version."""
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    for python in places:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return python, done.stdout.strip()
    return None


def _environment(python: str) -> dict[str, str]:
    """The variables of a process; other environments import thetastream from where it is here."""
    known = dict(os.environ)
    if python != sys.executable:
        roots = [str(Path(one.__file__ or "").parents[1]) for one in (thetastream, thetabench)]
        known["PYTHONPATH"] = os.pathsep.join(roots)
    return known


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str] | str:
    """Exit code and output of a process; or why it was ended, because of its time or memory."""
    pipe, limit = subprocess.PIPE, MEMORY * Machine.here().memory_bytes
    ends = monotonic() + PATIENCE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=_LOOK)
                return process.returncode, output, errors
            except subprocess.TimeoutExpired:
                reason = ""
                if monotonic() > ends:
                    reason = f"takes over {PATIENCE:.0f} s"
                elif resident_bytes(process.pid) > limit:
                    reason = f"needs over {limit / 2**30:.0f} GiB"
                if reason:
                    process.kill()
                    return reason


def kept(path: Path, measured: Sequence[FiniteLine]) -> list[dict[str, str]]:
    """The rows of a result file of cells that are not measured now."""
    again = {(line.workload, str(line.threads), line.contestant) for line in measured}
    scales = {str(line.scale) for line in measured}
    return [
        row
        for row in records.rows(path)
        if (row["workload"], row["threads"], row["contestant"]) not in again
        and row["scale"] in scales
    ]


def write(path: Path, lines: Sequence[FiniteLine]) -> None:
    """Write lines into the result file, with machine and versions; lines of other cells stay."""
    own = records.with_origin(lines, [OURS, "numpy", "numba", "pyarrow"])
    records.write(path, FiniteLine, [*kept(path, lines), *own])


def read(path: Path) -> list[FiniteLine]:
    """Read a result file."""
    return records.read(path, FiniteLine)


def machine_of(path: Path) -> str:
    """Where the lines of a result file come from, with the versions of all contestants."""
    versions = [f"{line.contestant} {line.version}" for line in read(path) if line.version]
    return records.machine_of(path, ", ".join(dict.fromkeys(versions)))


def every(names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The chosen names, or all."""
    from thetastream.options.checks import unknown

    for name in names or ():
        if name not in known:
            raise unknown("name", name, known)
    return list(names or known)


WORKLOAD_NAMES, CONTESTANT_NAMES = list(WORKLOADS), list(CONTESTANTS)
