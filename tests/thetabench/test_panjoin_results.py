"""Results of the PanJoin benchmark: scores, files, tables, plots, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thetabench.panjoin as package
from thetabench.line import Line
from thetabench.panjoin.contestant import BTreesSet
from thetabench.panjoin.figures import FIGURES
from thetabench.panjoin.paper import COLUMNS, PAPER
from thetabench.tables import SCORES

from . import bench_command as bench

# --- Results -------------------------------------------------------------------------------------


def line(figure: str, contestant: str, place: float, **more: Any) -> Line:
    about: dict[str, Any] = {
        "axis": FIGURES[figure].axis, "work": "band", "structure": contestant, "parameters": "",
        "rows": 1 << 23, "batch": 1 << 15, "matches": 1.0, "output": "pairs",
        "distribution": "uniform", "status": "ok", "cpu": "A Processor", "cores": 2,
    }  # fmt: skip
    values = {"figure": figure, "contestant": contestant, "place": place, **about, **more}
    return COLUMNS.line(**values)


def sample() -> list[Line]:
    speeds = {"rap-table": 2e6, "wib-tree": 1.5e6, "bi-sort": 4e6, "bi-sort, pairs": 3e6}
    return [
        line("4", "worst case", 16, iterations=7, bound=8, distribution="worst case"),
        line("4", "worst case", 1024, iterations=3, bound=4, distribution="worst case"),
        *(
            line("10f", f"{name}, P = 4", n, distribution=name, splitter_error=error,
                 iterations=at, outside_share=share)
            for name, errors, at, share in (
                ("normal", (1.9, 0.2, 0.04, 0.03), 2, 0.0),
                ("rank-size", (2.0, 1.9, 0.5, 0.12), -1, 0.0),
                ("increasing", (1.9, 1.9, 1.9, 1.9), -1, 1.0),
            )
            for n, error in enumerate(errors)
        ),
        *(
            line("11f", f"{name}, insertion", batch, tuples_per_s=speed)
            for batch in (2.0**10, 2.0**15)
            for name, speed in (("wib-tree", 3.5e6 * batch), ("b+tree", 1e6 * batch))
        ),
        line("11f", "btrees, insertion", 2.0**10, status="not run", reason="not installed"),
        line("leaves", "unsorted leaves", 64, tuples_per_s=3e6),
        line("leaves", "sorted leaves", 64, tuples_per_s=2e6),
        *(line("13b", name, 1, tuples_per_s=speed) for name, speed in speeds.items()),
        line("13b", "rap-table", 2.0**12, tuples_per_s=9e6),
        line("13b", "bi-sort", 2.0**12, tuples_per_s=9e6),
        line("13b", "rap-table", 2.0**14, tuples_per_s=1e5),
        line("13b", "bi-sort", 2.0**14, tuples_per_s=3e6),
        line("13b", "bi-sort, pairs", 2.0**14, tuples_per_s=2e5),
        *(
            line("15c", f"x, {output}", s, output=output, tuples_per_s=1e6,
                 result_share=0.5 if output == "rows" else 0.0)
            for s in (1.0, 64.0)
            for output in ("rows", "count")
        ),
        line("15e", "nested-loop", 1, tuples_per_s=100.0),
        line("15e", "bi-sort", 1, tuples_per_s=2e5),
        line("15e", "rap-table", 1, tuples_per_s=9e3),
        line("w1", "ordered, w = 2^20", 2.0**15, structure="ordered", rows=1 << 20,
             tuples_per_s=2e6),
        line("w1", "panjoin/bi-sort, w = 2^20", 2.0**15, structure="panjoin/bi-sort",
             rows=1 << 20, tuples_per_s=3e6),
    ]  # fmt: skip


def test_scores_stand_beside_their_limits() -> None:
    found = PAPER.scores(sample())
    expected = {
        "wib-tree over b+tree, insertion": (3.5, "reached"),
        "wib-tree over btrees, insertion": (None, "not measured"),
        "unsorted over sorted leaves": (1.5, "MISSED"),
        "bi-sort over rap-table, band probing, S < 2^10": (2.0, "reached"),
        "bi-sort over rap-table, band probing, S = 2^14": (30.0, "reached"),
        "rap-table over wib-tree": (4 / 3, "reached"),
        "error of the splitters after 3": (0.12, "MISSED"),
        "error of the splitters, increasing": (1.9, "reported"),
        "worst case": (0.875, "reached"),
        "bi-sort over nested loops": (2000.0, "reached"),
        "rap-table over nested loops": (90.0, "MISSED"),
        "wib-tree over nested loops": (None, "not measured"),
        "W1, w = 2^20": (1.5, "reported"),
    }
    for start, (value, verdict) in expected.items():
        (score,) = [score for score in found if score.measure.startswith(start)]
        assert score.verdict == verdict, start
        assert score.value == (None if value is None else pytest.approx(value)), start
    remarks = {score.measure: score.remark for score in found}
    assert any("with pairs written down: 2.00" in text for text in remarks.values())
    assert any("rank-size, P = 4: never" in text for text in remarks.values())
    assert any("100 % of the rows outside" in text for text in remarks.values())
    others = [s for s in found if "probing, mean over batches" in s.measure]
    assert len(found) == len(expected) + len(others)


def test_a_large_error_is_judged_even_if_an_adjustment_was_never_enough() -> None:
    lines = [line("4", "worst case", 16, iterations=-1, bound=8)]
    assert [score.verdict for score in PAPER.scores(lines)] == ["MISSED"]


def test_figures_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    bench.check_file(PAPER, sample(), tmp_path)
    again = [line("13b", "bi-sort", 1, tuples_per_s=9.0), line("10a", "P = 4", 64.0)]
    both = PAPER.together(sample(), again)
    assert [r.figure for r in both[:3]] == ["4", "4", "10a"]
    assert len([r for r in both if r.figure == "13b"]) == 1


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    written = bench.page_of(PAPER, sample(), tmp_path, "13b", (SCORES, *FIGURES))
    assert "| selectivity | rap-table | wib-tree | bi-sort | bi-sort, pairs |" in written
    assert "![band probing](panjoin-13b.png)" in written
    assert "panjoin-15c.png" not in written, "there is no such file"
    assert "Not run: btrees, insertion: not installed." in written
    assert "| 1 | x, rows | 1 | 50 |\n| 1 | x, count | 1 | – |" in written
    assert "| 16 | worst case | 7 | 8 |" in written


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    drawn = ["4", "10f", "11f", "leaves", "13b", "15c", "15e", "w1"]
    bench.check_plots(PAPER, sample(), tmp_path, drawn)


# --- The command ---------------------------------------------------------------------------------


def test_the_command_measures_and_keeps_what_other_runs_have_measured(tmp_path: Path) -> None:
    says = "11f: b+tree, insertion, batch 2^8: million tuples per second"
    lines = bench.measured_twice(PAPER, tmp_path, "11f", "15a,w1", says)
    assert {line.figure for line in lines} == {"11f", "15a", "w1"}
    own = [line for line in lines if line.figure == "11f" and line.ran]
    assert {"b+tree", "btrees"} <= {line.structure for line in own}


def test_the_command_fails_on_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BTreesSet, "__len__", lambda self: 3)
    done = bench.small("panjoin", "11f", tmp_path)
    assert done.exit_code == 1
    assert "btrees, insertion (11f at 2^8) holds 3 rows" in done.output


def test_the_command_lists_the_figures() -> None:
    bench.check_listed(FIGURES)


@pytest.mark.parametrize("name", bench.modules(package))
def test_examples_in_docstrings_are_right(name: str) -> None:
    bench.check_examples(package, name)


@pytest.mark.slow
def test_a_smoke_run_of_everything_is_verified(tmp_path: Path) -> None:
    lines = bench.check_smoke(PAPER, tmp_path)
    other = [line for line in lines if line.structure != "bi-sort-opencl"]
    assert [line.reason for line in other if not line.ran] == []
    for name in FIGURES:
        assert (tmp_path / f"panjoin-scale-0.01-{name}.png").exists()
