"""Results of the SPO-Join benchmark: scores, files, tables, plots, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thetabench.spo as package
from thetabench.line import Line
from thetabench.spo.figures import FIGURES
from thetabench.spo.paper import COLUMNS, PAPER
from thetabench.tables import SCORES
from thetabench.windows import Filled
from thetastream.datasets.real import VARIABLE

from . import bench_command as bench


def line(figure: str, contestant: str, place: float, **more: Any) -> Line:
    about: dict[str, Any] = {"structure": contestant, "window": 1_000_000, "cpu": "A Processor"}
    return COLUMNS.line(figure=figure, contestant=contestant, place=place, **{**about, **more})


def speeds(figure: str, place: float, rates: dict[str, float], **more: Any) -> list[Line]:
    return [
        line(figure, label, place, tuples_per_s=speed, **more) for label, speed in rates.items()
    ]


def sample() -> list[Line]:
    w2 = {"auto": 1e6, "spo-join": 2e6, "duckdb-range": 4e4, "polars-where": 1e5}
    return [
        *speeds("7a", 600_000, {"po-join": 1.2e4, "css-tree, bits": 1e3, "css-tree, hash": 2e3}),
        *speeds("7a", 1_000_000, {"po-join": 1e4, "css-tree, bits": 1e3, "css-tree, hash": 1e2}),
        *speeds("7a", 600_000, {"po-join, batch 2^10": 1e5, "css-tree, bits, batch 2^10": 1e3}),
        *speeds("7b", 60_000, {"bits": 6e3, "hash": 1e3}),
        *(
            line("10a", label, 1e6, p50_us=1.0, p75_us=2.0, p95_us=3.0, p99_us=4.0, max_us=5.0)
            for label in ("po-join", "bits")
        ),
        *(
            line("11c", label, window, p95_us=wait)
            for window in (1e6, 3e6)
            for label, wait in (("spo-join", 20.0), ("chained index, bits", window / 2e3))
        ),
        *speeds("11d", 1e6, {"spo-join": 5e4, "split-join": 2e3, "nested-loop": 1e3}),
        *speeds("11d", 3e6, {"spo-join": 5e4, "split-join": 1e2, "nested-loop": 1e2}),
        line("13", "spo-join", 2e6, bytes_per_row=36.0),
        line("13", "spo-join", 8e6, bytes_per_row=44.0),
        line("13", "po-join", 2e6, bytes_per_row=32.0),
        line("13", "pim-tree, two", 2e6, bytes_per_row=72.0),
        line("17", "spo-join, 600 matches per row", 1, tuples_per_s=74_004.0),
        line("17", "auto, 600 matches per row", 1, tuples_per_s=61_670.0),
        line("17", "spo-join, 600 matches per row", 2, tuples_per_s=1e6),
        line("20", "one per slide", 60_000, merge_ms=5000.0),
        line("20", "one per slide", 100_000, merge_ms=20.0, stall_ms=25.0),
        line("20", "one per slide, in the background", 100_000, merge_ms=900.0, stall_ms=1.0),
        *speeds("22", 10_000, {"spo-join": 1e5, "hash": 3e5, "auto": 2e5}),
        line("taxi", "Q2: po-join", 8_000, status="not run", reason="no data folder"),
        *(
            found
            for batch in (1 << 10, 1 << 13)
            for name, speed in w2.items()
            for found in speeds(
                "w2", batch, {f"{name}, w = 500,000": speed}, window=500_000, batch=batch,
                structure=name if "-w" in name or "-r" in name else f"thetastream:tactic={name}",
            )
        ),
        *speeds("w2", 1 << 13, {f"{name}, w = 50,000": 1.0 for name in w2}, window=50_000,
                batch=1 << 13),
        *speeds("w3", 1 << 13, {"auto": 6e5}, batch=1 << 13, structure="thetastream:tactic=auto"),
        *speeds("w3", 1 << 13, {"duckdb-bucket": 1e5, "polars-bucket": 2e5}, batch=1 << 13),
    ]  # fmt: skip


def test_scores_stand_beside_their_limits() -> None:
    found = {score.measure: score for score in PAPER.scores(sample())}
    expected = {
        "Q3: po-join over css-tree, bits, row by row, mean": (11.0, "reached"),
        "Q3: po-join over css-tree, bits, batches of 1,024, mean": (100.0, "reached"),
        "Q3: po-join over css-tree, hash, row by row, mean": (53.0, "reached"),
        "Q3: po-join over css-tree, hash, batches of 1,024, mean": (None, "not measured"),
        "Q3, mutable part: bits over hash, row by row, mean": (6.0, "reached"),
        "Q1: spo-join over chained index, bits, 95 % latency, least over windows": (25, "reached"),
        "Q1: spo-join over split-join, row by row, w = 1,000,000": (25.0, "MISSED"),
        "Q1: spo-join over nested-loop, row by row, w = 1,000,000": (50.0, "reached"),
        "W2, w = 500,000, batch 2^13: auto over duckdb-range": (25.0, "reached"),
        "W2, w = 500,000, batch 2^13: auto over polars-where": (10.0, "MISSED"),
        "W3, w = 1,000,000, batch 2^13: auto over duckdb-bucket": (6.0, "reached"),
        "W3, w = 1,000,000, batch 2^13: auto over polars-bucket": (3.0, "reported"),
        "Q3, 600 matches per row: one thread over the paper's cluster, the faster tactic": (
            12.0,
            "reached",
        ),
        "bytes per stored row, spo-join, most": (44.0, "MISSED"),
        "bytes per stored row, po-join, most": (32.0, "reached"),
        "memory of two pim-trees over that of spo-join, mean": (2.0, "reported"),
        "merge of a slide of 100,000 rows, one per slide": (0.02, "reached"),
        "merge of a slide of 100,000 rows, one per slide, in the background": (0.9, "reported"),
        "Q1 with equality: hash over spo-join, mean": (3.0, "reported"),
    }
    for measure, (value, verdict) in expected.items():
        score = found[measure]
        assert score.verdict == verdict, measure
        assert score.value == (None if value is None else pytest.approx(value, rel=1e-3)), measure
    w2 = found["W2, w = 500,000, batch 2^13: auto over duckdb-range"]
    assert w2.remark == "2^10: 25, 2^13: 25; best tactic at 2^13: spo-join"
    assert (w2.must, w2.aim) == (20, 50)


def test_the_limits_are_those_that_were_asked_for() -> None:
    limits = {score.must for score in PAPER.scores(sample())} - {None}
    assert limits == {0.1, 5.0, 10.0, 20.0, 40.0}


def test_figures_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    bench.check_file(PAPER, sample(), tmp_path)
    again = [line("7b", "bits", 60_000, tuples_per_s=9.0), line("9a", "po-join", 1e6)]
    both = PAPER.together(sample(), again)
    assert [r.tuples_per_s for r in both if r.figure == "7b"] == [9.0]
    assert [r.figure for r in both].index("9a") < [r.figure for r in both].index("10a")


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    written = bench.page_of(PAPER, sample(), tmp_path, "7b", (SCORES, *FIGURES))
    assert "| slide | bits | hash |" in written
    assert "| 60,000 | 6 | 1 |" in written
    assert "![Q3, mutable part](spo-7b.png)" in written
    assert "| 1,000,000 | po-join | 1 | 2 | 3 | 5 |" in written
    assert "Not run: Q2: po-join: no data folder." in written


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    drawn = ["7a", "7b", "10a", "11c", "11d", "13", "17", "20", "22", "w2", "w3"]
    bench.check_plots(PAPER, sample(), tmp_path, drawn)


# --- The command ---------------------------------------------------------------------------------


def test_the_command_measures_and_keeps_what_other_runs_have_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    says = "9b: bits, batch 2^6, slide 2^8: thousand rows per second"
    lines = bench.measured_twice(PAPER, tmp_path, "9", "22,taxi", says)
    assert {line.figure for line in lines} == {"9a", "9b", "22", "taxi"}
    assert any(f"No data folder is known. Set {VARIABLE}" in line.reason for line in lines)


def test_the_command_fails_on_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Filled.fill
    monkeypatch.setattr(Filled, "fill", lambda self, stop, step: honest(self, stop - 1, step))
    done = bench.small("spo", "9a", tmp_path)
    assert done.exit_code == 1
    assert "gave a wrong answer" in done.output
    assert not (tmp_path / "spo-scale-0.0001.csv").exists()


def test_the_command_lists_the_figures() -> None:
    bench.check_listed(FIGURES)


@pytest.mark.parametrize("name", bench.modules(package))
def test_examples_in_docstrings_are_right(name: str) -> None:
    bench.check_examples(package, name)


@pytest.mark.slow
def test_a_smoke_run_of_everything_is_verified(tmp_path: Path) -> None:
    lines = bench.check_smoke(PAPER, tmp_path)
    assert [line.reason for line in lines if not line.ran and line.figure != "taxi"] == []
