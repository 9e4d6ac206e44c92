"""Cells of the foundation benchmark: every contestant in its own process, every answer compared.

A repetition is a turn, so that a slow minute of the machine hits everyone. After a cell its
reference is computed for as many pushes as the fastest contestant did, and each contestant must
agree with it push by push, in the number of matches and in the checksum.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from thetabench.contestant import Failed, Unavailable, parse_spec
from thetabench.digest import Digest, verify
from thetabench.feed import Feed
from thetabench.figure import Contestant, Sizes
from thetabench.grid import GridCell, pushed
from thetabench.machine import thread_settings
from thetabench.peers import contestant_class
from thetabench.query import Query
from thetabench.race import Course, Say, Trial, Values
from thetabench.reference import reference
from thetastream.datasets.workloads import WORKLOADS

ROWS = 1 << 22
"""Timed rows that a cell has at least, those of both sides together."""
LIMIT = 240.0
"""Seconds after which a contestant's process is stopped, start and prefill included."""
_SLOWEST_PUSH = 10.0

Report = dict[str, Any]


class FoundationCourse(Course[GridCell, Contestant]):
    """The feed of the present cell, in memory and in a folder that the processes read."""

    def __init__(
        self,
        sizes: Sizes,
        experiment: str = "foundation",
        least: int = ROWS,
        limit: float = LIMIT,
    ) -> None:
        super().__init__(sizes)
        self._experiment = experiment
        self._least = least
        self.turns = sizes.asked.repeat
        self._limit = max(limit, 10 * sizes.seconds)
        self._folder = TemporaryDirectory(prefix="thetastream-bench-")

    def prepare(self, cell: GridCell) -> None:
        self.close()
        rows = cell.window + timed_rows(cell, self._least)
        workload = WORKLOADS[cell.figure](cell.window, rows, seed=self.sizes.seed)
        self._feed = Feed.of(workload, cell.batch)
        self._folder = TemporaryDirectory(prefix="thetastream-bench-")
        self._feed.save(Path(self._folder.name))

    def enter(self, cell: GridCell, who: Contestant, say: Say) -> Process:
        """Raise for contestants that have no form, or would take too long."""
        if reason := skipped(who.label, self._feed.query, cell.batch):
            raise Unavailable(reason)
        return Process(who, cell, Path(self._folder.name), self._limit)

    def about(self, cell: GridCell, who: Contestant) -> Values:
        return {
            "experiment": self._experiment,
            "window": cell.window,
            "predicate": self._feed.query.predicate,
        }

    def check(self, cell: GridCell, trials: Any) -> None:
        reports = [(trial.name, report) for trial in trials for report in trial.reports]
        most = max((len(report["digests"]) for _, report in reports), default=0)
        truth = reference(self._feed, most)
        for name, report in reports:
            verify(name, report["digests"], truth)

    def close(self) -> None:
        self._folder.cleanup()


class Process(Trial[Contestant]):
    """A contestant that works in a process of its own, a new one each turn."""

    def __init__(self, who: Contestant, cell: GridCell, folder: Path, limit: float) -> None:
        super().__init__(who, cell.label)
        self.name = f"{who.label} in {cell.label}"
        self.reports: list[Report] = []
        self._batch = cell.batch
        self._folder = folder
        self._limit = limit

    def turn(self, number: int, seconds: float) -> None:
        """Run it once; see :mod:`thetabench.foundation.worker`."""
        self.reports.append(measured(self._folder, self.who.label, seconds, self._limit))

    @property
    def columns(self) -> Values:
        """With several repetitions, those of the median one."""
        rates = [self._rate(report) for report in self.reports]
        middle = median(rates)
        report = min(self.reports, key=lambda one: abs(self._rate(one) - middle))
        times = report["seconds"][report["untimed"] :]
        self.tuples, self.seconds = self._batch * len(times), sum(times)
        self.cpu = report["cpu_seconds"]
        phases = {name: spent * 1e9 / self.tuples for name, spent in report["phases"].items()}
        digests = [Digest(*one) for one in report["digests"]]
        kept = ("peak_bytes", "rss_bytes", "index_bytes", "versions")
        return {
            **super().columns,
            **pushed(times, rates, digests, self.seconds * 1e9 / self.tuples, phases),
            **{name: report[name] for name in kept},
        }

    def _rate(self, report: Report) -> float:
        times = report["seconds"][report["untimed"] :]
        return float(self._batch * len(times) / sum(times))


def timed_rows(cell: GridCell, least: int) -> int:
    """Enough rows of a side to replace the whole window, and ``least`` of both sides."""
    sides = 1 if cell.figure == "W3" else 2
    rows = max(cell.window, least // sides, 8 * cell.batch)
    return -(-rows // cell.batch) * cell.batch


def skipped(spec: str, query: Query, batch: int) -> str:
    """The reason why a contestant is not run, or ""."""
    kind = contestant_class(spec)
    if not kind.supports(query):
        return "no form for this predicate"
    seconds = kind.push_seconds(query, batch)
    return f"one push would take about {seconds:,.0f} s" if seconds > _SLOWEST_PUSH else ""


def measured(folder: Path, spec: str, seconds: float, limit: float) -> Report:
    """Run one worker, or raise with the reason why there are no numbers."""
    _, options = parse_spec(spec)
    worker = [sys.executable, "-m", "thetabench.foundation.worker"]
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")]
    environment = {
        **os.environ,
        **thread_settings(int(options.get("threads", "1"))),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    try:
        done = subprocess.run(
            [*worker, str(folder), spec, str(seconds)],
            capture_output=True,
            text=True,
            timeout=limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"stopped after {limit:.0f} s") from None
    if done.returncode != 0:
        *_, last = f"exit code {done.returncode}", *done.stderr.strip().splitlines()
        raise Failed(last[:200])
    report: Report = json.loads(done.stdout)
    if "reason" in report:
        raise Unavailable(report["reason"])
    return report
