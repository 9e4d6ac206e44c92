"""The benchmark of finite joins: contestants find the same pairs, or say why they did not run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from thetabench.finite import course, report
from thetabench.finite.course import FiniteLine
from thetabench.finite.peers import CONTESTANTS, numbers
from thetabench.finite.worker import _runs, digest
from thetabench.finite.workloads import WORKLOADS

ALWAYS = ("thetastream", "duckdb", "polars", "polars-streaming")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_contestants_that_are_always_there_agree(workload: str) -> None:
    work = WORKLOADS[workload]
    left, right = work.make(0.001)
    found = {name: numbers(CONTESTANTS[name][1](work, left, right, 1)()) for name in ALWAYS}
    digests = {name: (len(a), digest(a, b)) for name, (a, b) in found.items()}
    assert len(set(digests.values())) == 1, digests
    assert digests["duckdb"][0] > 0


def test_digests_know_pairs_and_no_order() -> None:
    a, b = np.array([1, 2, 3]), np.array([4, 5, 6])
    assert digest(a, b) == digest(a[::-1], b[::-1])
    assert digest(a, b) != digest(b, a)
    assert digest(a, b) != digest(a, b[::-1])


def test_a_cell_is_measured_in_a_process() -> None:
    lines = list(course.measurements(["band"], ["thetastream", "duckdb"], [1], 0.001, 1, str))
    assert [(line.contestant, line.status) for line in lines] == [
        *(("thetastream", "ok"), ("duckdb", "ok")),
    ]
    assert lines[0].pairs == lines[1].pairs > 0


def line(contestant: str, seconds: float, **facts: object) -> FiniteLine:
    return FiniteLine("band", 1, contestant, **{"status": "ok", "seconds": seconds, **facts})


def test_the_table_compares_with_the_best_peer(tmp_path: Path) -> None:
    lines = [
        line("thetastream", 0.5, peak_mb=10.0, pairs=7),
        line("duckdb", 2.0),
        line("polars", 1.0, peak_mb=20.0),
        line("ncls", 0.0, status="skipped", reason="only overlaps of intervals"),
        line("datafusion", 0.1, status="wrong"),
    ]
    assert report.table(lines)[2:] == [
        "| band, 1 M × 1 M | 1 | 7 | 0.50 s | 10 MB | `polars` | 1.00 s | 20 MB | **2.0 ×** |",
    ]
    assert "| skipped | wrong |" in report.details(lines)[2]
    course.write(tmp_path / "finite.csv", lines)
    assert course.read(tmp_path / "finite.csv") == lines
    assert report.table(lines)[2] in report.markdown(tmp_path / "finite.csv")
    assert "`ncls`: only overlaps of intervals" in report.markdown(tmp_path / "finite.csv")
    page = tmp_path / "page.md"
    page.write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nb", encoding="utf-8")
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(report.SUMMARY), encoding="utf-8")
    report.main(tmp_path / "finite.csv", page, readme)
    assert report.table(lines)[2] in page.read_text(encoding="utf-8")
    assert "old" not in page.read_text(encoding="utf-8")
    assert "| band, 1 M × 1 M | 0.50 s | `polars` 1.00 s | **2.0 ×** |" in readme.read_text("utf-8")
    assert "finite.png" not in readme.read_text("utf-8"), "it is not drawn yet"
    report.plot(lines, tmp_path / "finite.png")
    assert (tmp_path / "finite.png").stat().st_size > 0
    report.main(tmp_path / "finite.csv", page, readme)
    assert "](finite.png)" in readme.read_text("utf-8")
    (score,) = report.scores(lines)
    assert (score.value, score.verdict, score.remark) == (2.0, "reached", "polars")


def test_lines_of_cells_that_are_not_measured_again_stay(tmp_path: Path) -> None:
    file = tmp_path / "finite.csv"
    course.write(
        file, [line("thetastream", 0.5), line("duckdb", 2.0), line("ncls", 3.0, scale=0.1)]
    )
    course.write(file, [line("duckdb", 1.0)])
    assert [(one.contestant, one.seconds) for one in course.read(file)] == [
        *(("thetastream", 0.5), ("duckdb", 1.0)),
    ]


@pytest.mark.parametrize("limit", ["time", "memory"])
def test_a_contestant_that_takes_too_much_is_ended(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(course, "PATIENCE" if limit == "time" else "MEMORY", 0.0)
    lines = list(course.measurements(["band"], ["duckdb"], [1, 2], 0.001, 1, str))
    reason = "takes over 0 s" if limit == "time" else "needs over 0 GiB"
    assert [(one.threads, one.status, one.reason) for one in lines] == [
        *((2, "skipped", reason), (1, "skipped", f"{reason} with 2 threads")),
    ]


def test_short_runs_are_repeated_and_long_ones_count() -> None:
    assert [_runs(seconds, 1) for seconds in ([], [0.1], [5.0], [30.0])] == [1, 8, 2, 1]
    assert _runs([5.0, 0.5], 1) == 8, "the first one compiled"
    assert _runs([5.0], 9) == 10


def test_a_peer_may_live_in_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python"  # this environment, and a distribution that it lacks
    package = tmp_path / "site" / "elsewhere-7.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 7\n")
    path = f"{package.parent}:$PYTHONPATH"
    other.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    monkeypatch.setitem(CONTESTANTS, "duckdb", ("elsewhere", CONTESTANTS["duckdb"][1]))
    for pythons, status, version in (((), "skipped", ""), ([other], "ok", "7")):
        (one,) = course.measurements(["band"], ["duckdb"], [1], 0.001, 1, str, pythons)
        assert (one.status, one.version) == (status, version), one.reason
