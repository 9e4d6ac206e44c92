"""Results of the PIM-Tree benchmark: scores, files, tables, plots, and the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thetabench.pim as package
from thetabench.line import Line
from thetabench.pim.contestant import Indexed
from thetabench.pim.figures import FIGURES
from thetabench.pim.paper import COLUMNS, PAPER
from thetabench.tables import SCORES, filled
from thetastream.errors import DataError

from . import bench_command as bench


def line(figure: str, contestant: str, place: float, **more: Any) -> Line:
    about: dict[str, Any] = {
        "axis": FIGURES[figure].axis, "structure": contestant, "window": 1 << 20, "task_size": 8,
        "merge": "non-blocking", "distribution": "uniform", "cpu": "A Processor", "cores": 2,
    }  # fmt: skip
    return COLUMNS.line(figure=figure, contestant=contestant, place=place, **{**about, **more})


def sample() -> list[Line]:
    return [
        line("8b", "B-chain", 2, tuples_per_s=1e6),
        line("8b", "IB-chain", 2, tuples_per_s=1.2e6),
        line("8b", "B-chain", 4, tuples_per_s=1e6),
        line("8b", "IB-chain", 4, tuples_per_s=1.3e6),
        *(
            line("10a", name, 2.0**e, tuples_per_s=speed * 1e6)
            for e in (16, 23)
            for name, speed in (("b+tree", 1), ("im-tree", 1.4 + (e == 23)), ("pim-tree", 2.6))
        ),
        *(
            line("10c", f"{n} threads", s, threads=n, task_size=s, tuples_per_s=1e6 * (1 + n))
            for s in (4, 8, 64)
            for n in (1, 2)
        ),
        line("11a", "b+tree", 2.0**20, bytes_per_row=20.0),
        line("11a", "pim-tree, m = 1", 2.0**20, bytes_per_row=25.0),
        line("11a", "pim-tree, m = 1, with merge buffer", 2.0**20, bytes_per_row=44.0),
        *(
            line("12a", "self-join", n, threads=n, tuples_per_s=1e6 * (5, 3, 6)[n])
            for n in range(3)
        ),
        line("12b", "pim-tree", 0, tuples_per_s=1e6),
        line("12b", "pim-tree", 1, tuples_per_s=0.8e6, distribution="gamma"),
        *(line("13b", "r = 1, one thread", n, tuples_per_s=(2, 1, 1.96)[n - 1]) for n in (1, 2, 3)),
        line("peers", "pim-tree", 2.0**20, tuples_per_s=3e6),
        line("peers", "btrees", 2.0**20, tuples_per_s=0.5e6),
        line("peers", "sortedcontainers", 2.0**20, status="not run", reason="not installed"),
        line("merge", "non-blocking merge", 1 / 16, p999_us=10.0, tuples_per_s=0.95e6),
        line("merge", "blocking merge", 1 / 16, merge="blocking", p999_us=80.0, tuples_per_s=1e6),
        line("cost", "b+tree", 2.0**20, ns_per_tuple=900.0, predicted_ns=800.0),
        line("9b", "b+tree", 2.0**17, ns_descend=3.0, ns_scan=1.0, ns_insert=5.0),
    ]


def test_scores_stand_beside_their_limits() -> None:
    found = {score.measure: (score.value, score.verdict) for score in PAPER.scores(sample())}
    expected = {
        "im-tree over b+tree": (1.9, "reached"),
        "pim-tree over b+tree": (2.6, "aim reached"),
        "IB-chain over B-chain": (1.25, "MISSED"),
        "pim-tree over btrees": (6.0, "reached"),
        "pim-tree over sortedcontainers": (None, "not measured"),
        "two threads over one": (1.5, "reached"),
        "cost of concurrency control, self-join": (40.0, "reported"),
        "p99.9 of a task during a merge": (8.0, "reached"),
        "throughput, non-blocking over blocking": (0.95, "reached"),
        "memory of pim-tree, m = 1, with": (2.2, "MISSED"),
        "memory of pim-tree, m = 1, over": (1.25, "aim reached"),
        "skewed over uniform keys": (0.8, "MISSED"),
        "after a drift over before": (0.98, "reached"),
    }
    assert len(found) == len(expected)
    for start, (value, verdict) in expected.items():
        (measure,) = [name for name in found if name.startswith(start)]
        assert found[measure][1] == verdict, measure
        assert found[measure][0] == (None if value is None else pytest.approx(value)), measure


def test_figures_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    bench.check_file(PAPER, sample(), tmp_path)
    again = [line("8b", "IB-chain", 2, tuples_per_s=9.0), line("8a", "b+tree", 1.0)]
    both = PAPER.together(sample(), again)
    assert [r.figure for r in both[:2]] == ["8a", "8b"]
    assert len([r for r in both if r.figure == "8b"]) == 1
    assert len(both) == len(sample()) - 4 + 2


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    written = bench.page_of(PAPER, sample(), tmp_path, "8b", (SCORES, *FIGURES))
    assert "| chain length | B-chain | IB-chain |\n| --: | --: | --: |\n| 2 | 1 | 1.2 |" in written
    assert "![chain length](pim-8b.png)" in written
    assert "pim-10a.png" not in written, "there is no such file"
    assert "Not run: sortedcontainers: not installed." in written
    assert "| 2^17 | b+tree | 3 | 1 | – | 5 | – |" in written
    assert "| gamma | 0.8 |" in written
    assert "A Processor, 2 cores" in written
    with pytest.raises(DataError, match="needs the marks"):
        filled(PAPER, "no marks", sample(), {})


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    drawn = ["8b", "9b", "10a", "10c", "11a", "12a", "12b", "13b", "peers", "merge", "cost"]
    bench.check_plots(PAPER, sample(), tmp_path, drawn)


# --- The command ---------------------------------------------------------------------------------


def test_the_command_measures_and_keeps_what_other_runs_have_measured(tmp_path: Path) -> None:
    says = "8b: IB-chain, chain length 2: million tuples per second"
    lines = bench.measured_twice(PAPER, tmp_path, "8b", "9c", says)
    assert {line.figure for line in lines} == {"8b", "9c"}
    assert lines[0].cores >= 1


def test_the_command_fails_on_a_wrong_answer_and_keeps_earlier_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.small("pim", "8b", tmp_path).exit_code == 0
    honest = Indexed.run
    monkeypatch.setattr(Indexed, "run", lambda *given: without_last(honest(*given)))
    done = bench.small("pim", "9c", tmp_path)
    assert done.exit_code == 1
    assert "gave a wrong answer" in done.output
    assert {r.figure for r in PAPER.read(tmp_path / "pim-scale-0.0001.csv")} == {"8b"}


def without_last(answer: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for positions, numbers in answer:
        yield positions[:-1], numbers[:-1]


def test_the_command_lists_the_figures() -> None:
    bench.check_listed(FIGURES)


@pytest.mark.parametrize("name", bench.modules(package))
def test_examples_in_docstrings_are_right(name: str) -> None:
    bench.check_examples(package, name)


@pytest.mark.slow
def test_a_smoke_run_of_everything_is_verified(tmp_path: Path) -> None:
    bench.check_smoke(PAPER, tmp_path)
    for name in FIGURES:
        assert (tmp_path / f"pim-scale-0.01-{name}.png").exists()
