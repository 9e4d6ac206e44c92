"""Results of the SSIJ benchmark: verdicts, files, tables, plots, command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thetabench.ssij as package
from thetabench.line import Line
from thetabench.ssij import readplans
from thetabench.ssij.figures import FIGURES
from thetabench.ssij.paper import COLUMNS, PAPER
from thetabench.tables import SCORES

from . import bench_command as bench

PLACES = (SCORES, *FIGURES)
SSIJ, MESH = "ssij", "mesh-join"


def line(figure: str, contestant: str, place: float, **more: Any) -> Line:
    about: dict[str, Any] = {"axis": FIGURES[figure].axis, "cpu": "A Processor", "cores": 2}
    return COLUMNS.line(figure=figure, contestant=contestant, place=place, **{**about, **more})


def rates(figure: str, place: float, **values: float) -> list[Line]:
    """Lines of one place, in thousand rows per second; ``mesh_join__skew_0`` is a label."""
    lines = []
    for name, value in values.items():
        label = name.replace("mesh_join", MESH).replace("__", ", ").replace("to_", "1:")
        lines.append(line(figure, label.replace("_", " "), place, tuples_per_s=value * 1e3))
    return lines


def sample() -> list[Line]:
    lines = []
    for figure in ("3", "4", "3-direct"):
        lines += rates(figure, 0.0, ssij=50, mesh_join=40)
        lines += rates(figure, 1.0, ssij=200, mesh_join=40)
    for figure in ("5", "6", "5-direct"):
        lines += rates(figure, 1.0, ssij__skew_0=9, ssij__skew_1=20, mesh_join__skew_0=10)
        lines += rates(figure, 10.0, ssij__skew_0=90, ssij__skew_1=630, mesh_join__skew_0=90)
    lines += rates(
        "7", 1.0, ssij__to_1=20, mesh_join__to_1=10, ssij__to_400=20, mesh_join__to_400=10
    )
    lines += rates(
        "7", 10.0, ssij__to_1=31, mesh_join__to_1=10, ssij__to_400=80, mesh_join__to_400=10
    )
    lines += [
        *(line("8", f"{who}, TPC-H", 5.0, tuples_per_s=r) for who, r in ((SSIJ, 6e4), (MESH, 2e4))),
        line("8", f"{SSIJ}, taxi zones", 100.0, status="not run", reason="no data"),
        *rates("9", 0.5, ssij=400, mesh_join=100, postgresql=100, sqlite=50),
        *rates("9", 1.5, ssij=200, mesh_join=100, postgresql=80),
        *rates("11", 1.0, utility=30, lru=20),
        *rates("11", 10.0, utility=30, lru=31),
    ]
    for place, dynamic in ((2.5, 120), (10.0, 300)):
        for label, rate in (("dynamic", dynamic), ("20 % cache", 80), ("70 % cache", 100)):
            lines.append(line("10", label, place, tuples_per_s=rate * 1e3))
        lines.append(line("10", "no cache", place, tuples_per_s=500e3))
    for place, met in ((0.1, 0.9999), (2.0, 1.0)):
        lines.append(line("16", SSIJ, place, tuples_per_s=3e4, met_share=met, latency_p99=0.08))
    for column, name in (("input threshold", "12"), ("stream threshold", "13"), ("maxScan", "15")):
        more = {"cpu_us": 1.0, "hit_share": 0.5}
        lines += [line(name, column, n, tuples_per_s=1e4 / n, **more) for n in (8.0, 4.0)]
    lines += rates("14", 5.0, filling_factor=9)
    lines += [
        line("table3", "dynamic", n, burst_ms=ms, nominal_per_s=4e5)
        for n, ms in ((10.0, 900.0), (25.0, 562.0), (50.0, 300.0), (70.0, 230.0))
    ]
    for label, cost, share in (("optimal", 80.0, 0.02), ("greedy", 90.0, 0.01)):
        own = {"plan_cost_ms": cost, "plan_share": share, "plan_ms": 2.0}
        lines.append(line("plan", label, 0.05, **own))
    lines += rates("worst", 1.0, ssij=11, mesh_join=10)
    lines += [
        line("spark", n, 1.0, tuples_per_s=r)
        for n, r in (("relation_join", 6e4), ("spark-static", 1e4))
    ]
    lines += [line("index", "fences", 1.0, index_bytes=200_000, index_mb_10gb=9.9)]
    return lines


def test_verdicts_stand_beside_their_limits() -> None:
    scores = {score.measure: score for score in PAPER.scores(sample())}
    expected = {
        "ssij over mesh-join, zipf, disk, 7.5 % memory, least over skew": (1.25, "reached"),
        "ssij over mesh-join, permuted zipf, disk, 7.5 % memory, least over skew": (
            1.25,
            "reached",
        ),
        "ssij over mesh-join, zipf, real device, 7.5 % memory, least over skew": (1.25, "reached"),
        "ssij over mesh-join, zipf, disk, skew 0, 1 % memory": (0.9, "MISSED"),
        "ssij over mesh-join, zipf, disk, skew 1, most over memory": (7.0, "reached"),
        "ssij over mesh-join, zipf, real device, skew 1, most over memory": (7.0, "reached"),
        "ssij over mesh-join, 1:1, zipf, disk, most over memory": (3.1, "reached"),
        "ssij over mesh-join, 1:400, zipf, disk, most over memory": (8.0, "MISSED"),
        "ssij over mesh-join, TPC-H, least over memory": (3.0, "reported"),
        "ssij over postgresql, real device, 10 % memory, least over sizes": (2.5, "MISSED"),
        "ssij over sqlite, real device, 10 % memory, least over sizes": (8.0, "reported"),
        "dynamic memory over the best fixed split, least over memory": (1.2, "reached"),
        "the same, at the most memory over the least": (2.5, "reached"),
        "utility cache over LRU, skew 1, least over memory": (30 / 31, "MISSED"),
        "utility cache over LRU, skew 1, least memory": (1.5, "reached"),
        "deadlines met at 0.8 of the sustainable rate, least over deadlines": (99.99, "reached"),
        "burst of 25 % is borne": (562.0, "reached"),
        "burst of 50 % is borne": (300.0, "MISSED"),
        "read plan: cost over greedy, most": (80 / 90, "reached"),
        "read plan: planning, share of the phase, most": (2.0, "reached"),
        "worst case (Section V): ssij over mesh-join, least over memory": (1.1, "reached"),
        "relation_join over Spark's stream-static join, 1 GB": (6.0, "reached"),
        "index in memory per 10 GB (paper: 13 MB), most over rows per key": (9.9, "reported"),
    }
    for measure, (value, verdict) in expected.items():
        assert scores[measure].value == pytest.approx(value), measure
        assert scores[measure].verdict == verdict, measure
    ratio = scores["worst case (Section V): ssij over mesh-join, least over memory"]
    assert ratio.remark == "1: 1.1"


def test_the_limits_are_those_that_were_asked_for() -> None:
    limits = {score.must for score in PAPER.scores(sample())} - {None}
    assert limits == {1.0, 1.2, 3.0, 5.0, 6.0, 9.0, 99.9, 700.0, 562.0, 400.0, 225.0}


def test_a_claim_without_its_lines_is_not_measured() -> None:
    rest = [own for own in sample() if MESH not in own.contestant]
    scores = {score.measure: score.verdict for score in PAPER.scores(rest)}
    assert scores["ssij over mesh-join, zipf, disk, skew 1, most over memory"] == "not measured"
    assert PAPER.scores([]) == []


def test_figures_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    bench.check_file(PAPER, sample(), tmp_path)
    again = [line("worst", SSIJ, 1.0, tuples_per_s=9.0)]
    both = PAPER.together(sample(), again)
    assert [r.tuples_per_s for r in both if r.figure == "worst"] == [9.0]
    assert [r.figure for r in both].index("worst") < [r.figure for r in both].index("spark")


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    written = bench.page_of(PAPER, sample(), tmp_path, "3", PLACES)
    assert "| skew | ssij | mesh-join |" in written
    assert "| 1 | 200 | 40 |" in written
    assert "![skew, plain zipf, 7.5 % memory](ssij-3.png)" in written
    assert "Not run: ssij, taxi zones: no data." in written
    assert (
        "*Here:* holds here: thousand stream rows per second; skew 0: ssij 50, mesh-join 40; "
        "skew 1: ssij 200, mesh-join 40." in written
    )
    assert "most at 4 blocks, 2.5; 2.5 at 4 and 1.25 at 8." in written


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    drawn = [name for name in FIGURES if name not in ("7-direct", "devices")]
    bench.check_plots(PAPER, sample(), tmp_path, drawn)


# --- The command ---------------------------------------------------------------------------------


def test_the_command_measures_and_keeps_what_other_runs_have_measured(tmp_path: Path) -> None:
    says = "plan: optimal, share of blocks wanted 0.5: milliseconds to read"
    lines = bench.measured_twice(PAPER, tmp_path, "plan", "index", says)
    assert {line.figure for line in lines} == {"plan", "index"}


def test_the_command_fails_on_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = readplans.wanted
    monkeypatch.setattr(readplans, "_covers", lambda name, own, made: None)
    monkeypatch.setattr(readplans, "wanted", lambda *given: honest(*given)[::-1])
    done = bench.small("ssij", "plan", tmp_path)
    assert done.exit_code == 1
    assert not (tmp_path / "ssij-scale-0.0001.csv").exists()


def test_the_command_lists_the_figures() -> None:
    bench.check_listed(FIGURES)


@pytest.mark.parametrize("name", [name for name in bench.modules(package) if name != "peers"])
def test_examples_in_docstrings_are_right(name: str) -> None:
    bench.check_examples(package, name)


@pytest.mark.slow
def test_a_smoke_run_of_everything_is_verified(tmp_path: Path) -> None:
    lines = bench.check_smoke(PAPER, tmp_path)
    systems = ("8", "9", "spark")
    assert [line.reason for line in lines if not line.ran and line.figure not in systems] == []
