"""The Spark benchmark: what is measured, how answers are checked, what happens when one is wrong.

Most tests put a nested loop in the place of a contestant's process. It reads the files that a
contestant would read, so the feed is tested too. The slow tests start Spark.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from thetabench.digest import Digest
from thetabench.line import Line
from thetabench.score import Score
from thetabench.spark import plan
from thetabench.spark import run as runs
from thetabench.spark.feed import FILES, Feed, Shape, link
from thetabench.spark.goals import scores
from thetabench.spark.launch import Place, launch
from thetabench.spark.lines import COLUMNS, read
from thetabench.spark.plan import HOME, Measurement, Sizes, measurements
from thetabench.spark.plots import plot
from thetabench.spark.reference import echoes, reference, xxhash64
from thetabench.spark.table import BEGIN, END, main, markdown
from thetabench.tables import insert
from thetastream.cli import app
from thetastream.errors import DataError
from thetastream.side import Side

ROOT = Path(__file__).resolve().parents[2]
TINY = Sizes(
    window=60,
    batches=(40, 80),
    rows=160,
    slow_rows=80,
    w2_window=50,
    w2_batches=(40, 20),
    w2_rows=80,
    w2_slow_rows=40,
    windows=(30,),
    partitions=(1,),
    memory="1g",
    limit=120.0,
)
HOLDS: dict[str, Callable[[Any, Any, int], bool]] = {
    "W1": lambda a, b, width: abs(a["x"] - b["x"]) <= width,
    "W2": lambda a, b, width: a["a"] < b["a"] and a["b"] > b["b"],
}

# --- A stand-in for a contestant's process -------------------------------------------------------


def batches_of(source: Path) -> list[dict[Side, list[dict[str, Any]]]]:
    """Rows by micro-batch and side: files in the order of their modification times."""
    found: dict[int, dict[Side, list[dict[str, Any]]]] = defaultdict(lambda: {s: [] for s in Side})
    for side in Side:
        files = sorted((source / side.value).iterdir(), key=lambda path: path.stat().st_mtime)
        for place, path in enumerate(files):
            found[place // FILES][side] += pq.read_table(path).to_pylist()
    return [found[number] for number in sorted(found)]


def pairs_of(source: Path, feed: Feed) -> list[list[tuple[int, int]]]:
    """Event times of the pairs of every micro-batch, by a nested loop."""
    seen: dict[Side, list[dict[str, Any]]] = {side: [] for side in Side}
    width = int(feed.query.bands[0].width) if feed.query.bands else 0
    holds = HOLDS[feed.shape.workload]
    answer = []
    for fresh in batches_of(source):
        before = {side: len(rows) for side, rows in seen.items()}
        for side in Side:
            seen[side] += fresh[side]
        answer.append(
            [
                (left["t"], right["t"])
                for i, left in enumerate(seen[Side.LEFT])
                for j, right in enumerate(seen[Side.RIGHT])
                if (i >= before[Side.LEFT] or j >= before[Side.RIGHT])
                and abs(left["t"] - right["t"]) <= feed.shape.window
                and holds(left, right, width)
            ]
        )
    return answer


def checksum(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    left, right = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    return len(pairs), int((xxhash64(left, right).astype(np.int64) >> 24).sum())


Pairs = list[list[tuple[int, int]]]


def stand_in(
    found: Measurement,
    feed: Feed,
    sizes: Sizes,
    place: Place,
    *,
    change: Callable[[Measurement, Pairs], None] = lambda found, pairs: None,
) -> dict[str, Any]:
    """Answer like a contestant; a micro-batch takes 100 ms, the first of a process a second."""
    if found.contestant.startswith("empty"):
        copies = 2 if found.contestant.endswith("double") else 1
        pairs = [
            copies * [(row["t"], row["x"]) for side in Side for row in rows[side]]
            for rows in batches_of(place.source)
        ]
    else:
        pairs = pairs_of(place.source, feed)
    place.checkpoint.mkdir(exist_ok=True)
    done = len(list(place.checkpoint.iterdir()))
    change(found, pairs)
    numbers = list(range(done, len(pairs)))
    batches, answers, joins = [], [], []
    for number in numbers:
        (place.checkpoint / str(number)).touch()
        time = 1000 if number == done else 100
        batches.append(
            {"batch": number, "rows": 7, "milliseconds": {"triggerExecution": time, "addBatch": 80}}
        )
        answers.append(checksum(pairs[number]))
        phases = dict.fromkeys(
            ("keys", "sort", "probe", "insert", "merge", "expire", "gather", "save"), 0.01
        )
        joins.append(
            {"batch": number, "stored_rows": 99, "written_bytes": 20 * feed.rows(number)}
            | {
                "seconds": phases,
                "hits": 1,
                "attaches": 0,
                "rebuilds": int(not place.runs.exists()),
            }
        )
    batches.append({"batch": len(pairs), "rows": 0, "milliseconds": {"triggerExecution": 50}})
    answers.append((0, 0))
    return {
        "batches": batches,
        "answers": answers,
        "joins": joins if found.contestant == HOME or found.part == "restart" else [],
        "checkpoint_bytes": 1234,
        "java": "17",
    }


def fails(found: Measurement, feed: Feed, sizes: Sizes, place: Place) -> dict[str, Any]:
    if found.contestant == "empty":
        return {"reason": "out of luck"}
    return stand_in(found, feed, sizes, place)


def run(only: list[str], launch: Any = stand_in, sizes: Sizes = TINY) -> list[Line]:
    return list(runs.run(measurements(sizes, only), sizes, launch=launch))


# --- Feed and reference --------------------------------------------------------------------------


@pytest.mark.parametrize("workload", ["W1", "W2"])
@pytest.mark.parametrize("fill", [True, False])
def test_the_reference_agrees_with_a_nested_loop(tmp_path: Path, workload: str, fill: bool) -> None:
    feed = Feed.of(Shape(workload, 30, 24, 5, fill, seed=3))
    feed.save(tmp_path)
    pairs = pairs_of(tmp_path, feed)
    assert [Digest(*checksum(found)) for found in pairs] == reference(feed, feed.batches)
    assert sum(map(len, pairs)) > 100
    assert reference(feed, 2) == reference(feed, feed.batches)[:2], "rows that came later count not"


def test_the_match_rate_is_two_rows_per_row() -> None:
    feed = Feed.of(Shape("W1", 2000, 1000, 12, fill=True))
    steady = reference(feed, feed.batches)[1:]
    rate = sum(found.matches for found in steady) / (12 * 1000)
    assert rate == pytest.approx(2.0, rel=0.05)


def test_an_echo_is_every_row_once_or_twice(tmp_path: Path) -> None:
    feed = Feed.of(Shape("W1", 30, 24, 2, fill=True))
    once, twice = (echoes(feed, feed.batches, copies) for copies in (1, 2))
    assert [found.matches for found in once] == [60, 24, 24]
    assert [(2 * n, 2 * total) for n, total in once] == [tuple(found) for found in twice]


def test_files_come_in_order_and_can_be_given_in_part(tmp_path: Path) -> None:
    shape = Shape("W1", 31, 24, 3, fill=True)
    Feed.of(shape).save(tmp_path / "feed")
    link(tmp_path / "feed", tmp_path / "some", 0, 2)
    sizes = [len(rows[Side.LEFT]) for rows in batches_of(tmp_path / "some")]
    assert sizes == [31, 12]
    link(tmp_path / "feed", tmp_path / "some", 2, 4)
    assert batches_of(tmp_path / "some") == batches_of(tmp_path / "feed")
    times = [row["t"] for rows in batches_of(tmp_path / "some") for row in rows[Side.RIGHT]]
    assert times == list(range(1, 31 + 36 + 1))
    assert Feed.of(shape).tables == Feed.of(shape).tables, "seeded"
    assert Feed.of(replace(shape, seed=1)).tables != Feed.of(shape).tables


def test_a_feed_of_odd_or_empty_micro_batches_is_refused() -> None:
    for batch, batches in ((25, 1), (2, 1), (24, 0)):
        with pytest.raises(DataError, match="an even number of rows"):
            Shape("W1", 30, batch, batches, fill=True)


def test_a_packed_row_has_the_bytes_of_its_columns() -> None:
    assert Feed.of(Shape("W1", 5000, 100, 1, fill=True)).packed_bytes == pytest.approx(16, rel=0.05)
    assert Feed.of(Shape("W2", 5000, 100, 1, fill=True)).packed_bytes == pytest.approx(24, rel=0.05)


# --- Runs ----------------------------------------------------------------------------------------


def test_an_honest_run_is_verified_and_complete() -> None:
    steps: list[str] = []
    found = measurements(TINY)
    results = list(runs.run(found, TINY, progress=steps.append, launch=stand_in))
    assert len(results) == len(found)
    assert len([step for step in steps if "the right answers" in step]) >= 1
    for result in results:
        if result.status == "not run":
            assert result.contestant == "bucketed-rocksdb"
            continue
        assert result.ran, result.reason
        assert result.verified
        assert result.matches > 0
        assert result.cores >= 1
        assert "pyspark" in result.versions
        assert result.tuples == result.pushes * result.batch
        assert result.total_rows >= result.tuples
    home = next(result for result in results if result.figure == "join")
    assert (home.pushes, home.tuples, home.total_rows) == (4, 160, 120 + 40 + 160)
    assert home.tuples_per_s == pytest.approx(40 / 0.1), "the slow first micro-batch is left out"
    assert home.first_s == 1.0
    assert home.total_s == pytest.approx(1.0 + 5 * 0.1 + 0.05)
    assert home.written_bytes == 20.0
    assert home.ns_save == pytest.approx(0.01 * 1e9 / 40)


def test_a_restart_is_compared_with_the_micro_batches_before_it() -> None:
    lost, kept = run(["restart"])
    for result in (lost, kept):
        assert result.ran, result.reason
        assert (result.normal_s, result.cold_s, result.first_s) == (0.1, 1.0, 1.0)
        assert result.slower_s == pytest.approx(0.9)
        assert result.checked_pushes == 3 + 2 + 2


def swap(found: Measurement, pairs: Pairs) -> None:
    left, right = next(pair for pair in pairs[-1] if pair[0] != pair[1])
    pairs[-1][pairs[-1].index((left, right))] = (right, left)


def double(found: Measurement, pairs: Pairs) -> None:
    pairs[1].append(pairs[1][0])


def drop(found: Measurement, pairs: Pairs) -> None:
    pairs[0].pop()


def late(found: Measurement, pairs: Pairs) -> None:
    pairs[1].append(pairs[0].pop())


def short(found: Measurement, pairs: Pairs) -> None:
    pairs.pop()


@pytest.mark.parametrize("change", [swap, double, drop, late, short])
def test_a_wrong_answer_is_detected_and_has_no_numbers(
    change: Callable[[Measurement, Pairs], None],
) -> None:
    def lie(found: Measurement, pairs: Pairs) -> None:
        if found.contestant == "bucketed-memory":
            change(found, pairs)

    results = run(["bucketed"], partial(stand_in, change=lie), replace(TINY, batches=(40,)))
    by_name = {result.contestant: result for result in results}
    liar = by_name.pop("bucketed-memory")
    assert liar.status == "failed"
    assert "wrong answer" in liar.reason or "cannot be right" in liar.reason
    assert not liar.verified
    assert liar.tuples_per_s == 0
    assert all(result.ran for result in by_name.values()), "the others go on"


def test_rows_of_a_micro_batch_without_data_are_wrong() -> None:
    def more(found: Measurement, feed: Feed, sizes: Sizes, place: Place) -> dict[str, Any]:
        report = stand_in(found, feed, sizes, place)
        report["answers"][-1] = (3, 0)
        return report

    results = run(["join"], more, replace(TINY, batches=(40,)))
    assert [result.status for result in results] == ["failed", "failed"]
    assert all("without data" in result.reason for result in results)


def test_a_process_that_fails_or_hangs_has_a_reason(tmp_path: Path) -> None:
    one = replace(measurements(TINY, ["join"])[0], contestant="no-such-contestant")
    feed = Feed.of(one.shape)
    place = Place(tmp_path, tmp_path / "runs")
    report = launch(one, feed, TINY, place)
    assert "contestant must be one of theta_join" in report["reason"]
    assert "no-such-contestant" in report["reason"]
    assert launch(one, feed, replace(TINY, limit=0.01), place) == {"reason": "stopped after 0 s"}


# --- Scores, files, plots, the command -----------------------------------------------------------


def test_scores_stand_beside_their_limits() -> None:
    found = {score.measure: score for score in scores(run([]))}
    assert found["against hand-made buckets, micro-batches of 40"].value == pytest.approx(1.0)
    assert found["against hand-made buckets, micro-batches of 40"].verdict == "MISSED"
    assert found["against an empty joiner, micro-batches of 80"].verdict == "aim reached"
    rejoined = found["W2 against foreachBatch, micro-batches of 40"]
    assert (rejoined.must, rejoined.aim, rejoined.verdict) == (20, 50, "MISSED")
    assert rejoined.value == pytest.approx(1.0)
    assert found["W2 against foreachBatch, micro-batches of 20"].verdict == "reported"
    assert found["… that joins by hand-made blocks, micro-batches of 40"].verdict == "reported"
    assert found["restart, run files lost: slower by"].verdict == "aim reached"
    state = found["state bytes written, micro-batches of 40"]
    assert (state.must, state.aim, state.more) == (3, 1.5, False)
    assert state.value == pytest.approx(20 / 16, rel=0.2)
    assert Score("x", 2.0, "", 3, 1.5, more=False).verdict == "reached"
    assert Score("x", 3.1, "", 3, 1.5, more=False).verdict == "MISSED"


def test_a_failure_has_a_line_and_no_score() -> None:
    results = run(["empty"], fails, replace(TINY, batches=(40,)))
    assert [(r.contestant, r.status) for r in results] == [
        (HOME, "ok"),
        (plan.FILES, "ok"),
        ("empty", "failed"),
        ("empty-double", "ok"),
    ]
    assert scores(results)[0].verdict == "not measured"
    assert scores(results)[1].value == pytest.approx(1.0)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    results = run(["join", "restart"])
    COLUMNS.write(tmp_path / "new" / "spark.csv", results)
    again = read(tmp_path / "new" / "spark.csv")
    COLUMNS.write(tmp_path / "again.csv", again)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "new/spark.csv").read_text()
    assert [(r.contestant, r.checksum, r.tuples, r.verified) for r in again] == [
        (r.contestant, r.checksum, r.tuples, r.verified) for r in results
    ]
    assert again[0].tuples_per_s == pytest.approx(results[0].tuples_per_s)
    with pytest.raises(DataError, match="Run `thetastream bench spark` first"):
        read(tmp_path / "absent.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is not of Spark"):
        read(tmp_path / "other.csv")


def test_every_column_of_the_committed_file_is_read() -> None:
    path = ROOT / "benchmarks/results/spark.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    named = {"part": "figure", "rows": "tuples"}
    for line, row in zip(read(path), rows, strict=True):
        for name, text in row.items():
            value = getattr(line, named.get(name, name))
            shown = {True: "yes", False: "no"}[value] if name == "verified" else value
            assert str(shown) == text or float(shown) == float(text), name


def test_plots_are_drawn_again_from_the_file(tmp_path: Path) -> None:
    results = run([])
    first = plot(results, tmp_path / "one")
    assert [path.name for path in first] == [
        *("spark-contestants.png", "spark-contestants.svg"),
        *("spark-scaling.png", "spark-scaling.svg"),
    ]
    COLUMNS.write(tmp_path / "spark.csv", results)
    again = plot(read(tmp_path / "spark.csv"), tmp_path / "two")
    assert (tmp_path / "one/spark-scaling.svg").read_text() == again[3].read_text()
    assert plot([r for r in results if r.figure == "w2"], tmp_path / "three") == []


def command(monkeypatch: pytest.MonkeyPatch, launch: Any, *arguments: str) -> Result:
    monkeypatch.setattr(runs, "run", partial(runs.run, launch=launch))
    monkeypatch.setattr(plan, "QUICK", TINY)
    monkeypatch.setenv("COLUMNS", "200")
    return CliRunner().invoke(app, ["bench", "spark", "--quick", *arguments])


def test_the_command_writes_results_scores_and_plots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = command(monkeypatch, stand_in, "--output", str(tmp_path), "--plots", "--rows", "80")
    assert done.exit_code == 0, done.output
    assert "against an empty joiner" in done.output
    assert "aim reached" in done.output
    results = read(tmp_path / "spark-quick.csv")
    assert [r.status for r in results].count("failed") == 0
    assert {r.pushes * r.batch for r in results if r.figure == "join"} == {80}
    assert (tmp_path / "spark-quick-scaling.png").exists()


def test_the_command_keeps_what_it_has_when_a_contestant_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = command(monkeypatch, fails, "--output", str(tmp_path), "--only", "join,empty")
    assert done.exit_code == 1
    assert "out of luck" in done.output
    results = read(tmp_path / "spark-quick.csv")
    assert {r.status for r in results if r.contestant == "empty"} == {"failed"}
    assert all(r.verified for r in results if r.contestant != "empty")


def test_the_command_lists_the_parts() -> None:
    done = CliRunner().invoke(app, ["bench", "--list"])
    assert "spark" in done.output
    assert "partitions" in done.output


# --- Spark itself --------------------------------------------------------------------------------

SMALL = replace(TINY, window=400, batches=(300,), rows=600, slow_rows=300, limit=600.0)


@pytest.mark.slow
def test_every_contestant_answers_right() -> None:
    parts = ["join", "bucketed", "empty", "w2", "restart"]
    results = list(runs.run(measurements(SMALL, parts), SMALL))
    assert [(r.contestant, r.reason) for r in results if not r.ran] == []
    assert all(r.verified and r.matches > 0 and r.tuples_per_s > 0 for r in results)
    by_name = {r.contestant: r for r in results if r.workload == "W1"}
    assert by_name[plan.LOST].rebuilds >= 1
    assert by_name[plan.KEPT].rebuilds == 0
    assert by_name[plan.KEPT].attaches >= 1
    assert by_name[HOME].written_bytes > 0
    assert by_name[HOME].stored_rows >= 2 * SMALL.window


@pytest.mark.slow
def test_a_join_on_another_predicate_is_caught() -> None:
    def narrow(found: Measurement, feed: Feed, sizes: Sizes, place: Place) -> dict[str, Any]:
        word = feed.query.predicate.split()[-1]
        text = feed.query.predicate.replace(word, str(int(word) * 9 // 10))
        return launch(found, replace(feed, query=replace(feed.query, predicate=text)), sizes, place)

    home = measurements(SMALL, ["join"])[:1]
    (result,) = list(runs.run(home, SMALL, launch=narrow))
    assert result.status == "failed"
    assert "wrong answer in push" in result.reason


def test_the_table_of_a_page_shows_speeds_and_misses(tmp_path: Path) -> None:
    both = [
        COLUMNS.line(
            figure=part,
            contestant=name,
            batch=500,
            tuples_per_s=speed,
            packed_bytes=1.0,
            written_bytes=2.0,
        )
        for part, name, speed in (
            ("join", "theta_join", 60.0),
            ("bucketed", "bucketed-memory", 10.0),
            ("empty", "empty", 80.0),
        )
    ]
    table = markdown(both)
    assert "| bucketed-memory | 500 | 10 |" in table
    assert "| 6 × | 10 × | 25 × | MISSED |" in table
    assert "| 0.75 | 0.6 | 0.9 | reached |" in table
    page, file = tmp_path / "page.md", tmp_path / "spark.csv"
    page.write_text("a\n<!-- spark:begin -->\nold\n<!-- spark:end -->\nb")
    COLUMNS.write(file, both)
    main(file, page)
    assert table in page.read_text()
    assert "old" not in page.read_text()


def test_the_table_of_the_page_is_made_and_not_typed() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    table = markdown(read(ROOT / "benchmarks/results/spark.csv"))
    assert insert(page, table, BEGIN, END) == page
