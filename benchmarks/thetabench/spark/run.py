"""Runs the measurements: files made once, every contestant in its own process, answers compared.

A contestant that fails, is stopped or answers wrongly has a line with the reason and no numbers;
the others go on.

A *restart* is a run of ``theta_join`` in two processes. The first fills the window and ends. The
second goes on from a copy of its checkpoint, with two more micro-batches: once without the first
one's run files, as on another host, and once with them. What counts is the first micro-batch of the
second process, with the start of its Python workers and compilers, less the median micro-batch
of the first process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from thetabench.digest import Digest, VerificationError, verify
from thetabench.machine import versions
from thetabench.spark.feed import Feed, Shape, link
from thetabench.spark.launch import Launch, Place, Report, launch
from thetabench.spark.plan import EMPTY, KEPT, Measurement, Sizes
from thetabench.spark.reference import echoes, reference
from thetabench.spark.result import SparkResult
from thetastream.plan.machine import Machine
from thetastream.spark.state.cache import default_root

Progress = Callable[[str], None]
_PACKAGES = ("thetastream", "pyspark", "pyarrow", "pandas", "numba", "numpy")
_PHASES = ("keys", "sort", "probe", "insert", "merge", "expire", "gather", "save")


def run(
    found: Sequence[Measurement],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    launch: Launch = launch,
) -> Iterator[SparkResult]:
    """Yield one result per measurement, grouped by feed. ``progress`` hears of every step."""
    for shape, members in _by_feed(found).items():
        with _scratch() as folder:
            yield from _Cell(shape, members, sizes, folder, progress, launch).results()


def _by_feed(found: Sequence[Measurement]) -> dict[Shape, list[Measurement]]:
    """Group measurements that can share files: those of one shape but for its length."""
    groups: dict[Shape, list[Measurement]] = {}
    for one in found:
        groups.setdefault(replace(one.shape, batches=1), []).append(one)
    return {
        replace(shape, batches=max(one.shape.batches for one in members)): members
        for shape, members in groups.items()
    }


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="thetastream-bench-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


class _Cell:
    """All measurements over one feed."""

    def __init__(
        self,
        shape: Shape,
        members: list[Measurement],
        sizes: Sizes,
        folder: Path,
        progress: Progress,
        launch: Launch,
    ) -> None:
        self._members = members
        self._sizes = sizes
        self._folder = folder
        self._progress = progress
        self._launch = launch
        self._feed = Feed.of(shape)
        self._truths: dict[str, list[Digest]] = {}

    def results(self) -> Iterator[SparkResult]:
        """Measure one after the other."""
        self._feed.save(self._folder / "feed")
        for number, found in enumerate(self._members):
            self._progress(found.label)
            if found.skipped:
                yield self._line(found, status="not run", reason=found.skipped)
                continue
            root = default_root()
            root.mkdir(parents=True, exist_ok=True)
            runs = Path(tempfile.mkdtemp(prefix="bench-", dir=root))
            try:
                yield self._measured(found, self._folder / str(number), runs)
            finally:
                shutil.rmtree(runs, ignore_errors=True)
                shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def _measured(self, found: Measurement, folder: Path, runs: Path) -> SparkResult:
        if found.part == "restart":
            reports = self._restarted(found, folder, runs)
        else:
            place = Place(folder, folder / "checkpoint", runs)
            link(self._folder / "feed", place.source, 0, found.batches)
            reports = [self._launch(found, self._feed, self._sizes, place)]
        for report in reports:
            if "reason" in report:
                return self._line(found, status="failed", reason=report["reason"])
        try:
            total = self._verified(found, reports)
        except VerificationError as error:
            return self._line(found, status="failed", reason=str(error))
        return self._line(
            found,
            status="ok",
            checked_pushes=found.batches,
            matches=total.matches,
            checksum=f"{total.checksum % (1 << 64):016x}",
            verified=True,
            **self._numbers(found, reports),
        )

    def _restarted(self, found: Measurement, folder: Path, runs: Path) -> list[Report]:
        """Run, stop, and go on in a new process from what the first has left."""
        place = Place(folder, folder / "checkpoint", runs)
        link(self._folder / "feed", place.source, 0, found.untimed)
        before = self._launch(found, self._feed, self._sizes, place)
        if "reason" in before:
            return [before]
        if found.contestant != KEPT:
            shutil.rmtree(runs, ignore_errors=True)
            runs.mkdir()
        link(self._folder / "feed", place.source, found.untimed, found.batches)
        return [before, self._launch(found, self._feed, self._sizes, place)]

    # --- Answers --------------------------------------------------------------------------------

    def _verified(self, found: Measurement, reports: list[Report]) -> Digest:
        """Compare the answer of every micro-batch; one without data must give no rows."""
        answers: list[Sequence[int]] = []
        for report in reports:
            answers += _with_data(report["batches"], report["answers"], found)
        if len(answers) != found.batches:
            raise VerificationError(
                f"{found.contestant} did {len(answers)} micro-batches with data of "
                f"{found.batches}, so its answer cannot be right."
            )
        return verify(found.contestant, answers, self._truth(found))

    def _truth(self, found: Measurement) -> list[Digest]:
        kind = found.contestant if found.contestant in EMPTY else "pairs"
        if kind not in self._truths:
            self._progress(f"{found.workload}, window {found.window:,}: the right answers")
            if kind in EMPTY:
                copies = EMPTY.index(kind) + 1
                self._truths[kind] = echoes(self._feed, self._feed.batches, copies)
            else:
                self._truths[kind] = reference(self._feed, self._feed.batches)
        return self._truths[kind]

    # --- Numbers --------------------------------------------------------------------------------

    def _numbers(self, found: Measurement, reports: list[Report]) -> dict[str, Any]:
        last = reports[-1]
        batches = _fed(last)
        timed = batches[-found.timed :]
        sizes = [self._feed.rows(number) for number in range(found.untimed, found.batches)]
        seconds = [_seconds(batch) for batch in timed]
        rates = [rows / time for rows, time in zip(sizes, seconds, strict=True)]
        everything = [batch for report in reports for batch in report["batches"]]
        return {
            "tuples_per_s": sum(sizes) / sum(seconds),
            "tuples_per_s_low": min(rates),
            "tuples_per_s_high": max(rates),
            "p50_s": median(seconds),
            "max_s": max(seconds),
            "pushes": len(timed),
            "rows": sum(sizes),
            "seconds": sum(seconds),
            "first_s": _seconds(batches[0]),
            "total_rows": sum(self._feed.rows(batch) for batch in range(found.batches)),
            "total_s": sum(_seconds(batch) for batch in everything),
            "add_batch_s": _median(timed, "addBatch"),
            "planning_s": _median(timed, "queryPlanning"),
            "bookkeeping_s": _median(
                timed, "walCommit", "commitOffsets", "latestOffset", "getBatch"
            ),
            "versions": f"{versions(_PACKAGES)}; java {last['java']}",
            **self._state(found, last, {batch["batch"] for batch in timed}, sum(sizes)),
            **_restart_numbers(found, reports),
        }

    def _state(
        self, found: Measurement, report: Report, timed: set[int], rows: int
    ) -> dict[str, Any]:
        joins = report["joins"]
        numbers = {
            "packed_bytes": self._feed.packed_bytes,
            "store_bytes": report["checkpoint_bytes"]
            / sum(self._feed.rows(batch) for batch in range(found.batches)),
        }
        steady = [join for join in joins if join["batch"] in timed]
        if not steady:
            return numbers
        phases = {
            f"ns_{phase}": sum(join["seconds"][phase] for join in steady) * 1e9 / rows
            for phase in _PHASES
        }
        counts = {
            name: sum(join[name] for join in joins) for name in ("hits", "attaches", "rebuilds")
        }
        return {
            **numbers,
            **phases,
            **counts,
            "stored_rows": steady[-1]["stored_rows"],
            "written_bytes": sum(join["written_bytes"] for join in steady) / rows,
        }

    def _line(self, found: Measurement, **facts: Any) -> SparkResult:
        return SparkResult(
            experiment="spark",
            part=found.part,
            workload=found.workload,
            predicate=self._feed.query.predicate,
            window=found.window,
            batch=found.batch,
            partitions=found.partitions,
            contestant=found.contestant,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            **asdict(Machine.here()),
            **facts,
        )


def _with_data(
    batches: Sequence[dict[str, Any]], answers: Sequence[Sequence[int]], found: Measurement
) -> list[Sequence[int]]:
    """The answers of micro-batches that had rows."""
    kept = []
    for batch, answer in zip(batches, answers, strict=True):
        if batch["rows"]:
            kept.append(answer)
        elif answer[0]:
            raise VerificationError(
                f"{found.contestant} gave {answer[0]:,} rows in a micro-batch without data, where "
                "an inner join has none to give."
            )
    return kept


def _restart_numbers(found: Measurement, reports: list[Report]) -> dict[str, float]:
    if found.part != "restart":
        return {}
    before, after = (_fed(report) for report in reports)
    normal = median(_seconds(batch) for batch in before[1:])
    return {
        "normal_s": normal,
        "cold_s": _seconds(before[0]),
        "slower_s": _seconds(after[0]) - normal,
    }


def _fed(report: Report) -> list[dict[str, Any]]:
    """The micro-batches that had rows."""
    return [batch for batch in report["batches"] if batch["rows"]]


def _seconds(batch: dict[str, Any]) -> float:
    return float(batch["milliseconds"]["triggerExecution"]) / 1000


def _median(batches: Sequence[dict[str, Any]], *names: str) -> float:
    sums = [sum(int(batch["milliseconds"].get(name, 0)) for name in names) for batch in batches]
    return median(sums) / 1000
