"""Runs an experiment: every contestant in its own process, every answer compared.

The order within a cell is round-robin over repetitions, so that a slow minute of the machine hits
everyone. After a cell its reference is computed for as many pushes as the fastest contestant did,
and each contestant must agree with it push by push, in the number of matches and in the checksum.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from thetabench.contestant import PHASES, parse_spec
from thetabench.digest import Digest, verify
from thetabench.experiment import Cell, Experiment
from thetabench.feed import Feed
from thetabench.machine import thread_settings
from thetabench.reference import reference
from thetabench.result import Result
from thetastream.datasets.workloads import WORKLOADS
from thetastream.plan.machine import Machine

Report = dict[str, Any]
Progress = Callable[[str], None]


def run(
    experiment: Experiment, *, repetitions: int = 1, progress: Progress = lambda step: None
) -> Iterator[Result]:
    """Yield the results of an experiment, cell by cell. ``progress`` hears of every step."""
    for cell in experiment.cells:
        yield from run_cell(experiment, cell, repetitions=repetitions, progress=progress)


def run_cell(
    experiment: Experiment,
    cell: Cell,
    *,
    repetitions: int = 1,
    progress: Progress = lambda step: None,
) -> list[Result]:
    """Measure all contestants of an experiment in one cell and verify their answers."""
    workload = WORKLOADS[cell.workload](cell.window, cell.window + cell.rows, seed=cell.seed)
    feed = Feed.of(workload, cell.batch)
    skipped = {spec: cell.skip(spec, feed.query) for spec in experiment.contestants}
    reports: dict[str, list[Report]] = {spec: [] for spec in experiment.contestants}
    failed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="thetastream-bench-") as folder:
        feed.save(Path(folder))
        for _ in range(repetitions):
            for spec in experiment.contestants:
                progress(f"{cell.label}: {spec}")
                if skipped[spec] is None:
                    report = _measure(Path(folder), spec, experiment.seconds, experiment.limit)
                    skipped[spec] = report.get("reason")
                    reports[spec] += [] if skipped[spec] else [report]
                    failed |= {spec} if report.get("failed") else set()
    progress(f"{cell.label}: checking answers")
    done = [report for found in reports.values() for report in found]
    truth = reference(feed, max((len(report["digests"]) for report in done), default=0))
    for spec, found in reports.items():
        for report in found:
            verify(f"{spec} in {cell.label}", report["digests"], truth)
    about = _about(experiment, cell, feed)
    return [
        _result({**about, "contestant": spec}, reports[spec], skipped[spec], spec in failed)
        for spec in experiment.contestants
    ]


def _measure(folder: Path, spec: str, seconds: float, limit: float) -> Report:
    """Run one worker; a report with a ``reason`` means that there are no numbers."""
    _, options = parse_spec(spec)
    command = [sys.executable, "-m", "thetabench.worker", str(folder), spec]
    environment = {**os.environ, **thread_settings(int(options.get("threads", "1")))}
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        done = subprocess.run(
            [*command, "--seconds", str(seconds)],
            capture_output=True,
            text=True,
            timeout=limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"stopped after {limit:.0f} s"}
    if done.returncode != 0:
        reason = _last_line(done.stderr) or f"exit code {done.returncode}"
        return {"reason": reason, "failed": True}
    report: Report = json.loads(done.stdout)
    return report


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" │╭╮╰╯─\n")]
    return lines[-1].strip("│ ")[:200] if lines else ""


def _about(experiment: Experiment, cell: Cell, feed: Feed) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "workload": cell.workload,
        "predicate": feed.query.predicate,
        "window": cell.window,
        "batch": cell.batch,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **asdict(Machine.here()),
    }


def _result(
    about: dict[str, Any], reports: Sequence[Report], reason: str | None, failed: bool
) -> Result:
    """Make a line of the result file; with several repetitions, of the median one."""
    if not reports:
        status = "failed" if failed else "not run"
        return Result(**about, status=status, reason=reason or "no report")
    batch = about["batch"]
    speeds = [_speed(report, batch) for report in reports]
    middle = min(reports, key=lambda report: abs(_speed(report, batch) - median(speeds)))
    total = Digest(0, 0)
    for found in middle["digests"]:
        total += Digest(*found)
    return Result(
        **about,
        status="ok",
        tuples_per_s_low=min(speeds),
        tuples_per_s_high=max(speeds),
        repetitions=len(reports),
        checked_pushes=len(middle["digests"]),
        matches=total.matches,
        checksum=f"{total.checksum:016x}",
        verified=True,
        **_times(middle, batch),
        **{name: middle[name] for name in ("peak_bytes", "rss_bytes", "index_bytes", "versions")},
    )


def _speed(report: Report, batch: int) -> float:
    times = report["seconds"][report["untimed"] :]
    return float(batch * len(times) / sum(times))


def _times(report: Report, batch: int) -> dict[str, Any]:
    times = np.array(report["seconds"][report["untimed"] :])
    rows, seconds = batch * len(times), float(times.sum())
    nanoseconds = {f"ns_{name}": report["phases"].get(name, 0.0) * 1e9 / rows for name in PHASES}
    per_tuple = seconds * 1e9 / rows
    return {
        "tuples_per_s": rows / seconds,
        "ns_per_tuple": per_tuple,
        **nanoseconds,
        "ns_other": max(per_tuple - sum(nanoseconds.values()), 0.0),
        "p50_s": float(np.quantile(times, 0.5)),
        "p99_s": float(np.quantile(times, 0.99)),
        "max_s": float(times.max()),
        "pushes": len(times),
        "rows": rows,
        "seconds": seconds,
        "cpu_share": report["cpu_seconds"] / seconds,
    }
