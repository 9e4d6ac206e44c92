"""All contestants on all workloads: measured one after the other, their answers compared."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from thetabench.finite.peers import CONTESTANTS
from thetabench.finite.workloads import WORKLOADS
from thetabench.machine import provenance, thread_settings

OURS = "thetastream"
_PATIENCE = 60.0  # seconds that one contestant may take


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
) -> Iterator[FiniteLine]:
    """Measure every cell; ours comes first, and its answer is what the others are compared with."""
    ordered = sorted(contestants, key=lambda name: name != OURS)
    for workload in workloads:
        truth: dict[str, tuple[int, str]] = {}
        for count in threads:
            for contestant in ordered:
                say(f"{workload}, {count} threads: {contestant}")
                line = _measured(workload, contestant, count, scale, repeat)
                if line.status == "ok":
                    known = truth.setdefault(workload, (line.pairs, line.digest))
                    if known != (line.pairs, line.digest):
                        reason = f"{line.pairs} pairs; {OURS} found {known[0]}"
                        facts = {**asdict(line), "status": "wrong", "reason": reason}
                        line = FiniteLine(**facts)
                yield line


def _measured(
    workload: str, contestant: str, threads: int, scale: float, repeat: int
) -> FiniteLine:
    facts: dict[str, Any] = {"workload": workload, "threads": threads, "contestant": contestant}
    facts["scale"] = scale
    try:
        facts["version"] = version(CONTESTANTS[contestant][0])
    except PackageNotFoundError:
        return FiniteLine(**facts, status="skipped", reason="not installed")
    asked = {key: facts[key] for key in ("workload", "contestant", "threads", "scale")}
    command = [sys.executable, "-m", "thetabench.finite.worker"]
    command.append(json.dumps({**asked, "repeat": repeat}))
    environment = {**os.environ, **thread_settings(threads)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return FiniteLine(**facts, status="skipped", reason=f"takes over {_PATIENCE:.0f} s")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return FiniteLine(**facts, status="failed", reason=last[:200])
    found = json.loads(done.stdout.strip().splitlines()[-1])
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


def write(path: Path, lines: Sequence[FiniteLine]) -> None:
    """Write the result file, with machine and versions."""
    where = provenance([OURS, "numpy", "numba", "pyarrow"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        names = [*(field.name for field in fields(FiniteLine)), *where]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**asdict(line), **where} for line in lines)


def read(path: Path) -> list[FiniteLine]:
    """Read a result file."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kinds = {"threads": int, "seconds": float, "peak_mb": float, "pairs": int, "scale": float}
    return [
        FiniteLine(**{f.name: kinds.get(f.name, str)(row[f.name]) for f in fields(FiniteLine)})
        for row in rows
    ]


def machine_of(path: Path) -> str:
    """Where the lines of a result file come from, in words."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = rows[0]
    peers = dict.fromkeys(f"{row['contestant']} {row['version']}" for row in rows if row["version"])
    return (
        f"Machine: {first['cpu']}, {first['cores']} cores, "
        f"{int(first['memory_bytes']) / 2**30:.0f} GiB, Python {first['python']}, "
        f"{first['versions']}; {', '.join(peers)}; {first['date']}."
    )


def every(names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The chosen names, or all."""
    from thetastream.options.checks import unknown

    for name in names or ():
        if name not in known:
            raise unknown("name", name, known)
    return list(names or known)


WORKLOAD_NAMES, CONTESTANT_NAMES = list(WORKLOADS), list(CONTESTANTS)
