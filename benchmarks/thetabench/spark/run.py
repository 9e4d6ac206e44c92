"""Runs the measurements: files made once, every contestant in its own process, answers compared.

A contestant that fails, is stopped or answers wrongly has a line with the reason and no numbers;
the others go on.

A *restart* is a run of ``theta_join`` in two processes. The first fills the window and ends. The
second goes on from its checkpoint, with two more micro-batches: once without the first
one's run files, as on another host, and once with them. What counts is the first micro-batch of the
second process, with the start of its Python workers and compilers, less the median micro-batch
of the first process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from thetabench.digest import Digest, VerificationError, verify
from thetabench.line import Line
from thetabench.machine import provenance, versions
from thetabench.spark.feed import Feed, Shape, link
from thetabench.spark.launch import Launch, Place, Report, launch
from thetabench.spark.lines import COLUMNS
from thetabench.spark.plan import EMPTY, KEPT, Measurement, Sizes
from thetabench.spark.reference import echoes, reference
from thetastream.spark.state.cache import default_root

Progress = Callable[[str], None]
_PACKAGES = ("thetastream", "pyspark", "pyarrow", "pandas", "numba", "numpy")
_PHASES = ("keys", "sort", "probe", "insert", "merge", "expire", "gather", "save")
_COUNTS = ("hits", "attaches", "rebuilds")
_AXES = {"windows": "window", "partitions": "partitions"}  # of other parts: batch
_BOOKS = ("walCommit", "commitOffsets", "latestOffset", "getBatch")


def run(
    every: Sequence[Measurement],
    sizes: Sizes,
    *,
    progress: Progress = lambda step: None,
    launch: Launch = launch,
) -> Iterator[Line]:
    """Yield one line per measurement, grouped by feed. ``progress`` hears of every step."""
    for shape, members in _by_feed(every).items():
        with _folder("thetastream-bench-") as folder:
            cell = _Cell(Feed.of(shape), sizes, folder, progress, launch)
            cell.feed.save(folder / "feed")
            for one in members:
                progress(one.label)
                yield cell.line(one)


def _by_feed(every: Sequence[Measurement]) -> dict[Shape, list[Measurement]]:
    """Group measurements that can share files: those of one shape but for its length."""
    groups: dict[Shape, list[Measurement]] = {}
    for one in every:
        groups.setdefault(replace(one.shape, batches=1), []).append(one)
    return {
        replace(shape, batches=max(one.shape.batches for one in members)): members
        for shape, members in groups.items()
    }


@contextmanager
def _folder(prefix: str, above: Path | None = None) -> Iterator[Path]:
    with TemporaryDirectory(prefix=prefix, dir=above, ignore_cleanup_errors=True) as name:
        yield Path(name)


@dataclass
class _Cell:
    """All measurements over one feed."""

    feed: Feed
    sizes: Sizes
    folder: Path
    progress: Progress
    launch: Launch
    truths: dict[str, list[Digest]] = field(default_factory=dict)

    def line(self, one: Measurement) -> Line:
        """Measure a contestant and compare its answers."""
        axis = _AXES.get(one.part, "batch")
        return COLUMNS.line(
            figure=one.part,
            contestant=one.contestant,
            axis=axis,
            place=float(getattr(one, axis)),
            experiment="spark",
            workload=one.workload,
            predicate=self.feed.query.predicate,
            window=one.window,
            batch=one.batch,
            partitions=one.partitions,
            **{**provenance(_PACKAGES), **self._facts(one)},
        )

    def _facts(self, one: Measurement) -> dict[str, Any]:
        if one.skipped:
            return {"status": "not run", "reason": one.skipped}
        root = default_root()
        root.mkdir(parents=True, exist_ok=True)
        with _folder("contestant-", self.folder) as own, _folder("bench-", root) as runs:
            reports = self._reports(one, Place(own, runs))
        if failed := [report["reason"] for report in reports if "reason" in report]:
            return {"status": "failed", "reason": failed[0]}
        try:
            total = self._verified(one, reports)
        except VerificationError as error:
            return {"status": "failed", "reason": str(error)}
        return {
            "checked_pushes": one.batches,
            "matches": total.matches,
            "checksum": f"{total.checksum % (1 << 64):016x}",
            "verified": True,
            **_numbers(one, self.feed, reports),
        }

    def _reports(self, one: Measurement, place: Place) -> list[Report]:
        """Its report. A restart has two: the second process goes on from what the first left."""
        stop = one.untimed if one.part == "restart" else one.batches
        reports = [self._report(one, place, 0, stop)]
        if stop < one.batches and "reason" not in reports[0]:
            if one.contestant != KEPT:
                shutil.rmtree(place.runs, ignore_errors=True)
                place.runs.mkdir()
            reports.append(self._report(one, place, stop, one.batches))
        return reports

    def _report(self, one: Measurement, place: Place, first: int, last: int) -> Report:
        link(self.folder / "feed", place.source, first, last)
        return self.launch(one, self.feed, self.sizes, place)

    # --- Answers --------------------------------------------------------------------------------

    def _verified(self, one: Measurement, reports: list[Report]) -> Digest:
        """Compare the answer of every micro-batch; one without data must have no rows."""
        answers: list[Sequence[int]] = []
        for report in reports:
            answers += _with_data(one, report)
        if len(answers) != one.batches:
            raise VerificationError(
                f"{one.contestant} did {len(answers)} micro-batches with data of "
                f"{one.batches}, so its answer cannot be right."
            )
        return verify(one.contestant, answers, self._truth(one))

    def _truth(self, one: Measurement) -> list[Digest]:
        kind = one.contestant if one.contestant in EMPTY else "pairs"
        if kind not in self.truths:
            self.progress(f"{one.workload}, window {one.window:,}: the right answers")
            if kind in EMPTY:
                copies = EMPTY.index(kind) + 1
                self.truths[kind] = echoes(self.feed, self.feed.batches, copies)
            else:
                self.truths[kind] = reference(self.feed, self.feed.batches)
        return self.truths[kind]


def _with_data(one: Measurement, report: Report) -> list[Sequence[int]]:
    """The answers of micro-batches that had rows."""
    kept = []
    for batch, answer in zip(report["batches"], report["answers"], strict=True):
        if batch["rows"]:
            kept.append(answer)
        elif answer[0]:
            raise VerificationError(
                f"{one.contestant} gave {answer[0]:,} rows in a micro-batch without data, where "
                "an inner join has none to give."
            )
    return kept


# --- Numbers -------------------------------------------------------------------------------------


def _numbers(one: Measurement, feed: Feed, reports: list[Report]) -> dict[str, Any]:
    last = reports[-1]
    fed = _fed(last)
    timed = fed[-one.timed :]
    rows = [feed.rows(number) for number in range(one.batches)]
    seconds = [_seconds(batch) for batch in timed]
    rates = [size / time for size, time in zip(rows[one.untimed :], seconds, strict=True)]
    tuples = sum(rows[one.untimed :])
    return {
        "tuples": tuples,
        "seconds": sum(seconds),
        "tuples_per_s": tuples / sum(seconds),
        "tuples_per_s_low": min(rates),
        "tuples_per_s_high": max(rates),
        "p50_s": median(seconds),
        "max_s": max(seconds),
        "pushes": len(timed),
        "first_s": _seconds(fed[0]),
        "total_rows": sum(rows),
        "total_s": sum(_seconds(batch) for report in reports for batch in report["batches"]),
        "add_batch_s": _median(timed, "addBatch"),
        "planning_s": _median(timed, "queryPlanning"),
        "bookkeeping_s": _median(timed, *_BOOKS),
        "packed_bytes": feed.packed_bytes,
        "store_bytes": last["checkpoint_bytes"] / sum(rows),
        "versions": f"{versions(_PACKAGES)}; java {last['java']}",
        **_state(last["joins"], {batch["batch"] for batch in timed}, tuples),
        **(_restart(reports) if one.part == "restart" else {}),
    }


def _state(joins: list[dict[str, Any]], timed: set[int], tuples: int) -> dict[str, Any]:
    """What ``theta_join`` reports of itself; nothing of other contestants."""
    steady = [join for join in joins if join["batch"] in timed]
    if not steady:
        return {}
    phases = {name: sum(join["seconds"][name] for join in steady) for name in _PHASES}
    return {
        **{f"ns_{name}": seconds * 1e9 / tuples for name, seconds in phases.items()},
        **{name: sum(join[name] for join in joins) for name in _COUNTS},
        "stored_rows": steady[-1]["stored_rows"],
        "written_bytes": sum(join["written_bytes"] for join in steady) / tuples,
    }


def _restart(reports: list[Report]) -> dict[str, float]:
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
