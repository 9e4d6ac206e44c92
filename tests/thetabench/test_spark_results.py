"""Results of the Spark benchmark: scores, files, tables, plots, and the command."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from thetabench import spark as laboratory
from thetabench.papers import paper as paper_of
from thetabench.plots import plot
from thetabench.score import Score
from thetabench.spark.cells import BUCKETS, DOUBLE, HOME, KEPT, LOST, NOOP
from thetabench.spark.course import SparkCourse
from thetabench.spark.paper import COLUMNS, GOALS, measured, paper
from thetabench.tables import SCORES, filled, marks

from . import bench_command
from .spark_fake import FakeSession
from .test_spark_bench import TINY, run
from .test_spark_bench import fresh_queries as fresh_queries  # a fixture

ROOT = Path(__file__).resolve().parents[2]


def test_every_requirement_is_a_goal() -> None:
    """The table of the requirements: what must be reached, and the aim."""
    limits = {(goal.figure, goal.must, goal.aim) for goal in GOALS if goal.must is not None}
    assert limits >= {
        *(("join", 9, 12), ("large", 15, 20), ("join", 0.9, 1.0), ("large", 0.9, 1.0)),
        *(("small", 0.42, 0.3), ("small", 1.15, 1.05), ("small", 0.35, None)),
        *(("small", 1.2, None), ("join", 1.2, None), ("attach", 2.0, 1.3)),
        ("restart", 6.0, None),
    }
    assert all(goal.more == (goal.unit in ("×", "") and goal.figure in ("join", "large", "w2"))
               for goal in GOALS if goal.aim in (12, 20, 50, 0.3, 1.05, 1.3))  # fmt: skip


def scored(figure: str, **columns: dict[str, float]) -> dict[str, Score]:
    """Scores of lines with these values, by contestant."""
    names = dict.fromkeys(name for values in columns.values() for name in values)
    lines = [
        COLUMNS.line(
            figure=figure, contestant=name, place=500.0,
            **{column: values[name] for column, values in columns.items() if name in values},
        )
        for name in names
    ]  # fmt: skip
    return {score.measure: score for score in paper("tiny", TINY).scores(lines)}


def test_scores_stand_beside_their_limits() -> None:
    speeds = {"theta_join:tactic=ordered": 60.0, BUCKETS[0]: 6.0, BUCKETS[1]: 2.0, DOUBLE: 75.0}
    over, empty, *_ = scored("join", tuples_per_s=speeds).values()
    assert (over.value, over.must, over.aim, over.verdict) == (10.0, 9, 12, "reached")
    assert (empty.value, empty.must, empty.verdict) == (0.8, 0.9, "MISSED")
    found = scored("small", p50_s={HOME: 0.5, NOOP: 0.4}, max_s={HOME: 0.55, NOOP: 0.6})
    assert found["small micro-batches: median time"].verdict == "MISSED"
    ratio = found["small micro-batches: over the same plan with a joiner that does nothing"]
    assert (ratio.value, ratio.verdict) == (pytest.approx(1.25), "MISSED")
    spread = found["small micro-batches: worst over median after warm-up"]
    assert (spread.value, spread.verdict) == (pytest.approx(1.1), "reached")
    assert spread.remark == "noop: 1.50"
    attach = scored("attach", cpu_s={"attach": 0.1, "hit": 0.08, "rebuild": 0.2})
    assert attach["attach over hit, processor time of a step"].verdict == "aim reached"
    restart = scored("restart", first_s={KEPT: 7.0}, slower_s={LOST: 4.0})
    assert [score.verdict for score in restart.values()] == ["MISSED", "reached"]
    w2 = scored("w2", tuples_per_s={HOME: 60.0, "foreachBatch": 2.0, "foreachBatch-blocks": 15.0})
    assert [(own.value, own.verdict) for own in w2.values()] == [(30, "reached"), (4, "reported")]
    latency = scored("latency", latency_p99={HOME: 0.25})
    assert [score.remark for score in latency.values()] == ["500 rows: 0.25 s"]


def test_the_page_says_when_a_figure_was_measured() -> None:
    made = [("small", "2027-01-02"), ("join", "2027-01-02"), ("large", "2026-11-16")]
    lines = [COLUMNS.line(figure=figure, contestant=HOME, date=date) for figure, date in made]
    figures = ("small", "join", "large", "w2")
    assert measured(figures, lines).startswith(
        "Measured on 2026-11-16: large; on 2027-01-02: small, join. Not measured yet: w2. Figures "
        "from before 2026-11-17 are of older code: "
    )
    assert measured(("small",), lines[:1]) == "Measured on 2027-01-02: small.\n\n"


def test_every_column_of_the_committed_file_is_read() -> None:
    path = ROOT / "benchmarks/results/spark.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(paper_of("spark").read(path), rows, strict=True):
        for name, text in row.items():
            value = getattr(line, name)
            shown = {True: "yes", False: "no"}[value] if name == "verified" else value
            assert str(shown) == text or float(shown) == float(text), name


def test_tables_and_plots_are_made_of_the_file(tmp_path: Path) -> None:
    made = paper("tiny", TINY)
    lines = run([])
    assert {line.figure for line in lines} == set(made.figures)
    made.write(tmp_path / "tiny.csv", lines)
    again = made.read(tmp_path / "tiny.csv")
    first = plot(made, again, tmp_path, "tiny")
    assert {path.stem for path in first} == {f"tiny-{name}" for name in made.figures}
    drawn = [path.read_bytes() for path in first]
    assert drawn == [path.read_bytes() for path in plot(made, again, tmp_path, "tiny")]
    names = [SCORES, *made.figures]
    page = "\n".join(mark for name in names for mark in marks("tiny", name))
    whole = filled(made, page, again, {})
    assert f"| 60 | {BUCKETS[0]} |" in whole
    assert "MISSED" in whole


def test_the_tables_of_the_page_are_made_and_not_typed() -> None:
    made, page = paper_of("spark"), ROOT / "docs/spark-benchmarks.md"
    file = ROOT / "benchmarks/results/spark.csv"
    pictures = {
        name: f"../benchmarks/results/spark-{name}.png"
        for name in made.figures
        if file.with_name(f"spark-{name}.png").exists()
    }
    text = page.read_text(encoding="utf-8")
    assert filled(made, text, made.read(file), pictures) == text


def test_the_command_measures_figures_and_lists_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny = replace(paper("tiny", TINY), course=lambda sizes: SparkCourse(sizes, FakeSession))
    monkeypatch.setattr("thetabench.papers.paper", lambda name, quick=False: tiny)
    monkeypatch.setenv("COLUMNS", "200")
    only = ("--only", "large,latency", "--only", "restart")
    done = bench_command.command("spark", *only, "--output", str(tmp_path), "--plots")
    assert done.exit_code == 0, done.output
    assert "over hand-made buckets in the better store" in done.output
    assert "answers verified" in done.output
    figures = {line.figure for line in tiny.read(tmp_path / "tiny.csv")}
    assert figures == {"large", "latency", "restart"}
    assert (tmp_path / "tiny-latency.png").exists()
    monkeypatch.undo()
    bench_command.check_listed(paper_of("spark").figures)


@pytest.mark.parametrize("name", ["cells", "reference", "feed"])
def test_examples(name: str) -> None:
    bench_command.check_examples(laboratory, name)
