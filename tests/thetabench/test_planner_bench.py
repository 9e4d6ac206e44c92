"""The planner's benchmark: workloads, answers, results, tables, plots, and the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetabench.planner as package
import thetastream as ts
from thetabench.digest import Digest, VerificationError, digest
from thetabench.figure import Asked, Sizes
from thetabench.grid import GridCell
from thetabench.line import Line
from thetabench.planner import course, trial
from thetabench.planner.choice import choices, scores
from thetabench.planner.course import pushes, truth
from thetabench.planner.paper import BATCHES, PAPER, QUICK, WINDOWS, contestants
from thetabench.planner.trial import SLOW_BEFORE, SLOW_NOW, Pushing
from thetabench.planner.workloads import WORKLOADS, Workload
from thetabench.plots import plot
from thetabench.tables import SCORES, filled, marks, write_page
from thetastream.errors import DataError, RegistryError
from thetastream.side import Side
from thetastream.truth.oracle import matches

from .bench_command import check_examples, command, modules

ROOT = Path(__file__).resolve().parents[2]
SMALL = 1 << 10
"""A window that is large enough for the match rates of all workloads but one."""
PARTS = (SCORES, *PAPER.derived)


def cells(
    names: Sequence[str] = (), windows: Sequence[int] = (), batches: Sequence[int] = (), *more: str
) -> list[GridCell]:
    """Cells asked for; ``more`` are tactics."""
    return PAPER.cells(names, Sizes(asked=Asked(windows, batches, more)))


def run(grid: Sequence[GridCell]) -> Iterator[list[Line]]:
    """The lines of cells."""
    return PAPER.run(grid, Sizes())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of a few pushes."""
    monkeypatch.setattr(course, "_LEAST", 64)
    monkeypatch.setattr(course, "TURNS", 2)


# --- Workloads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_the_match_rate_is_what_it_says(workload: Workload) -> None:
    batch = SMALL // 2
    made = workload.made(SMALL, 2 * SMALL)
    feed = made.feed(SMALL, batch)
    matches = sum(truth(made, feed, push).matches for push in range(feed.pushes))
    rate = matches / (feed.pushes * batch)
    assert rate == pytest.approx(min(workload.rate, SMALL / 8), rel=0.25)


def test_rows_are_the_same_for_the_same_seed_only() -> None:
    one, same, other = (WORKLOADS["zipf"].made(64, 100, seed) for seed in (0, 0, 1))
    assert one.predicate == same.predicate
    for side in ("left", "right"):
        for name, values in getattr(one, side).items():
            assert np.array_equal(values, getattr(same, side)[name])
            assert not np.array_equal(values, getattr(other, side)[name])


def test_cells_are_chosen_by_name_and_size() -> None:
    everything = cells()
    assert {cell.figure for cell in everything} == set(WORKLOADS)
    assert {cell.window for cell in everything} == set(WINDOWS)
    assert {cell.batch for cell in everything} == set(BATCHES)
    assert all(4 * cell.batch <= cell.window for cell in everything)
    assert PAPER.quick is not None
    few = {(cell.window, cell.batch) for cell in PAPER.quick.cells([], Sizes())}
    assert few == {(QUICK[0][0], QUICK[1][0])}
    assert [cell.label for cell in cells(["drift"], [64], [16])] == ["drift window 64 batch 16"]
    with pytest.raises(RegistryError, match="Did you mean 'zipf'"):
        cells(["zip"])
    with pytest.raises(DataError, match="larger windows or smaller batches"):
        cells(["drift"], [64], [64])


def test_nested_loops_are_tried_in_small_windows_only() -> None:
    assert "nested-loop" in contestants(1, WINDOWS[0])
    assert "nested-loop" not in contestants(1, WINDOWS[1])
    assert contestants(1, WINDOWS[1])[0] == "auto"


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_a_workload_knows_how_many_terms_it_has(workload: Workload) -> None:
    assert workload.terms == len(ts.Predicate.parse(workload.made(64, 64).predicate).terms)


# --- A run ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_tiny_cell_is_measured_and_verified(name: str) -> None:
    (cell,) = cells([name], [256], [32])
    (results,) = run([cell])
    ran = [result for result in results if result.ran]
    assert {"auto", "ordered"} <= {result.contestant for result in ran}
    assert len({result.checksum for result in ran}) == 1
    for result in ran:
        assert result.verified
        assert result.pushes == 4 * pushes(cell)
        assert result.tuples_per_s_low <= result.tuples_per_s <= result.tuples_per_s_high
        assert result.estimate_ns > 0
        assert result.measured_ns > 0
        assert result.left_layout
        assert result.right_layout
    assert {r.reason for r in results if not r.ran} <= {SLOW_NOW}
    (choice,) = choices(results)
    assert choice.ratio >= 1


@pytest.mark.usefixtures("short")
def test_a_tactic_that_gives_another_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    push = Pushing._pushed

    def forgetful(self: Pushing, limit: float) -> bool:
        done = push(self, limit)
        if self.who.label == "panjoin":
            found = self.digests[-1]
            self.digests[-1] = found._replace(matches=found.matches + 1)
        return done

    monkeypatch.setattr(Pushing, "_pushed", forgetful)
    with pytest.raises(VerificationError, match="panjoin in .* another answer than auto in push 0"):
        list(run(cells(["band-2"], [256], [32])))


@pytest.mark.usefixtures("short")
def test_an_answer_that_all_tactics_agree_on_is_compared_with_a_nested_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "truth", lambda made, feed, push: Digest(7, 7))
    with pytest.raises(VerificationError, match="auto in drift .* wrong answer in push 0"):
        list(run(cells(["drift"], [256], [32], "ordered")))


@pytest.mark.usefixtures("short")
def test_slow_tactics_are_dropped_and_not_tried_in_larger_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "SLOW", 1e-9)
    monkeypatch.setattr(trial, "_GRACE", 0.0)
    first, second = run(cells(["drift"], [256, 512], [32], "ordered"))
    assert {r.contestant: r.reason for r in first if not r.ran} == {"ordered": SLOW_NOW}
    assert {r.contestant: r.reason for r in second if not r.ran} == {"ordered": SLOW_BEFORE}
    assert [r.contestant for r in second if r.ran] == ["auto"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_nested_loop_reads_the_predicate_as_the_oracle_does(name: str) -> None:
    window, batch = 32, 6
    made = WORKLOADS[name].made(window, 2 * window)
    feed = made.feed(window, batch)
    rows = {side: feed.table(side).to_pylist() for side in Side}
    for push, seen in enumerate((window, window + batch, window + batch)):
        side, start = feed.side(push), feed.start(push)
        pairs = [
            (fresh, stored) if side is Side.LEFT else (stored, fresh)
            for fresh in range(start, start + batch)
            for stored in range(seen - window, seen)
        ]
        both = [
            pair
            for pair in pairs
            if matches(made.predicate, rows[Side.LEFT][pair[0]], rows[Side.RIGHT][pair[1]])
        ]
        left, right = np.array(both, np.int64).reshape(-1, 2).T
        assert truth(made, feed, push) == digest(pa.table({"id": left, "id_right": right}))


# --- Results -------------------------------------------------------------------------------------


def line(contestant: str, speed: float, **more: Any) -> Line:
    given: dict[str, Any] = {
        "figure": "zipf", "window": 1 << 17, "place": 2048.0, "seconds": 1.0,
        "left_layout": f"{contestant}/x: k", "right_layout": f"{contestant}/x: k",
        "estimate_ns": 100.0, "measured_ns": 200.0, "cpu_share": 1.0,
        "cpu": "A Processor", "cores": 2,
    }  # fmt: skip
    return PAPER.columns.line(
        experiment="planner", predicate="l.k = r.k", contestant=contestant, tuples_per_s=speed,
        **{**given, **more},
    )  # fmt: skip


def sample() -> list[Line]:
    large = {"window": 1 << 20, "measured_ns": 50.0}
    return [
        line("auto", 1e6),
        line("ordered", 2e6),
        line("ibwj", 0.0, status="not run", reason="slow"),
        line("auto", 4e6, **large, left_layout="cells/x: k", right_layout="cells/x: k"),
        line("cells", 4.4e6, **large),
        line("auto", 8e6, figure="band-2"),
        line("ordered", 7e6, figure="band-2", cpu_share=0.5),
    ]


def test_choices_set_auto_beside_the_best() -> None:
    one, two, three = choices(sample())
    assert (one.best.contestant, one.ratio, one.same) == ("ordered", 2.0, False)
    assert (two.best.contestant, two.ratio, two.same) == ("cells", pytest.approx(1.1), True)
    assert (three.best.contestant, three.ratio, three.same) == ("auto", 1.0, True)
    assert [choice.estimate for choice in (one, two)] == [0.5, 2.0]


def test_scores_stand_beside_their_limits() -> None:
    worst, mean, planning, estimate = scores(sample())
    assert (worst.value, worst.must, worst.aim) == (2.0, 1.25, 1.1)
    assert worst.verdict == "MISSED"
    assert worst.remark == "zipf, window 131,072, batch 2,048"
    assert mean.value == pytest.approx(2.2 ** (1 / 3))
    assert mean.remark == "3 cells; another layout than the best in 1, geometric mean of those 2"
    assert (planning.value, planning.verdict) == (None, "not measured")
    assert (estimate.value, estimate.verdict) == (2.0, "MISSED")
    assert "0.5 to 2, median 0.5" in estimate.remark
    (told,) = [s for s in scores([line("auto", 1.0, plan_share=0.015)]) if s.unit == "%"]
    assert (told.value, told.verdict) == (1.5, "reached")
    assert scores([]) == []


def test_cells_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "planner.csv"
    PAPER.write(path, sample())
    assert PAPER.read(path) == sample()
    again = [line("auto", 9e6, figure="band-2"), line("auto", 1.0, figure="drift")]
    both = PAPER.together(PAPER.read(path), again)
    assert [r.figure for r in both] == ["band-2", *["zipf"] * 5, "drift"]
    assert both[0].tuples_per_s == 9e6
    with pytest.raises(DataError, match="thetastream bench planner"):
        PAPER.read(tmp_path / "absent.csv")


def test_the_page_has_a_place_for_every_table() -> None:
    page = (ROOT / "docs/planner-benchmarks.md").read_text(encoding="utf-8")
    for name in PARTS:
        begin, end = marks("planner", name)
        assert page.count(begin) == page.count(end) == 1
        assert page.index(begin) < page.index(end)
    for name in WORKLOADS:
        assert f"`{name}`" in page


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    file, page = tmp_path / "planner.csv", tmp_path / "page.md"
    PAPER.write(file, sample())
    page.write_text("".join("\n".join(marks("planner", part)) for part in PARTS), "utf-8")
    write_page(PAPER, file, page)
    written = page.read_text("utf-8")
    assert "| zipf | 2^17 | 2^11 | ordered | 2 | auto/x | 1 | **2.00** | 100 | 200 |" in written
    assert "| zipf | 2^20 | 2^11 | cells | 4.4 | cells/x | 4 | 1.10 | 100 | 50 |" in written
    assert "MISSED" in written
    assert "3 cells, 6 measurements; during 1 of them the machine was busy" in written
    assert "A Processor" in written
    assert filled(PAPER, written, sample(), {}) == written
    with pytest.raises(DataError, match="no results"):
        filled(PAPER, written, [], {})


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    files = plot(PAPER, sample(), tmp_path, "planner")
    assert [file.name for file in files] == ["planner.png", "planner-cost.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    assert plot(PAPER, [], tmp_path, "nothing") == []


# --- The command ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
def test_the_command_measures_and_keeps_what_other_runs_have_measured(tmp_path: Path) -> None:
    small = ("--window", "256", "--batch", "32", "--output", str(tmp_path))
    done = command("planner", "--workload", "drift", *small, "--plots")
    assert done.exit_code == 0, done.output
    assert "drift window 256 batch 32: best / auto" in done.output
    assert "what must be reached" in done.output
    assert (tmp_path / "planner.png").exists()
    before = PAPER.read(tmp_path / "planner.csv")
    again = command("planner", "--workload", "equality", "--contestant", "hash", *small)
    assert again.exit_code == 0, again.output
    after = PAPER.read(tmp_path / "planner.csv")
    assert [r for r in after if r.figure == "drift"] == before
    assert [r.contestant for r in after if r.figure == "equality"] == ["auto", "hash"]


def test_the_command_lists_the_workloads() -> None:
    done = command("--list")
    assert done.exit_code == 0
    for name, workload in WORKLOADS.items():
        assert f"--workload {name}" in done.output
        assert workload.about in done.output


@pytest.mark.parametrize("name", modules(package))
def test_examples_in_docstrings_are_right(name: str) -> None:
    check_examples(package, name)
