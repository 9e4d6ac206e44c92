"""Results of the Ordered Indexing benchmark: verdicts, Table 1, files, tables, plots, command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thetabench.ordered as package
from thetabench.line import Line
from thetabench.ordered import matches, questions
from thetabench.ordered.figures import FIGURES
from thetabench.ordered.growing import Held
from thetabench.ordered.paper import COLUMNS, PAPER, TABLE
from thetabench.ordered.summary import judged, table
from thetabench.tables import SCORES

from . import bench_command as bench

PLACES = (SCORES, *FIGURES, *PAPER.derived)
TREE, TRIE, JUDY = "b-tree", "radix-trie", "judy"


def line(figure: str, contestant: str, place: float, **more: Any) -> Line:
    about: dict[str, Any] = {
        "axis": FIGURES[figure].axis, "work": "grow", "structure": contestant.partition(",")[0],
        "parameters": "", "distribution": "linear road", "size": int(place * 1e6), "batch": 8192,
        "status": "ok", "cpu": "A Processor", "cores": 2,
    }  # fmt: skip
    return COLUMNS.line(
        figure=figure, contestant=contestant, place=float(place), **{**about, **more}
    )


def grown(figure: str, column: str, size: int, **values: float) -> list[Line]:
    """Lines of a step; ``radix_trie=…`` is that of the trie."""
    keys = "linear road" if figure in ("4", "6", "8", "9", "11") else "random"
    more = {"distribution": keys, "code_lines": 100}
    found = []
    for name, value in values.items():
        label = name.replace("_trie", "-trie").replace("b_tree", "b-tree").replace("__", ", ")
        label = label.replace("first_next", "first/next").replace("flat_array", "flat array")
        columns = {column: value, **({"ns_row": value} if column == "us_range" else {})}
        found.append(line(figure, label, size, **columns, **more))
    return found


def sample() -> list[Line]:
    ours, polars = questions.OURS, "polars"
    return [
        *grown("4", "ns_insert", 4, b_tree=200, radix_trie=100, judy=80),
        *grown("4", "ns_insert", 16, b_tree=300, radix_trie=110, judy=100),
        *grown("5", "ns_insert", 16, b_tree=300, radix_trie=330, judy=200),
        *grown("6", "ns_find", 4, b_tree=90, radix_trie=40, judy=60),
        *grown("6", "ns_find", 16, b_tree=120, radix_trie=60, judy=60),
        *grown("7", "ns_find", 16, b_tree=120, radix_trie=100, judy=100),
        *grown("8", "bytes_per_pair", 16, flat_array=16, b_tree=24, radix_trie=12, judy=14),
        *grown("10", "bytes_per_pair", 16, flat_array=16, b_tree=24, radix_trie=28),
        *grown("11", "us_range", 4, b_tree=10, radix_trie=12, judy=90,
               radix_trie__first_next=72),
        *grown("11", "us_range", 16, b_tree=40, radix_trie=44, judy=400,
               radix_trie__first_next=440),
        *grown("12", "us_range", 16, b_tree=1000, radix_trie=4000, judy=8000,
               radix_trie__first_next=40_000),
        line("13", "b-tree, one by one", 1, empty_ms=900.0),
        line("13", "b-tree, ptwi", 1, empty_ms=0.02, free_ms=0.5),
        line("13", "radix-trie, one by one", 1, empty_ms=500.0),
        line("13", "radix-trie, ptwi", 1, empty_ms=0.02, free_ms=0.5),
        line("13", "radix-trie, one by one", 16, empty_ms=8.0),
        line("13", "radix-trie, ptwi", 16, empty_ms=0.1, free_ms=0.5),
        line("13", "judy, one by one", 1, status="not run", reason="no library"),
        *(
            line("node-size", "linear road", room, ns_insert=2.0 * room, ns_find=9.0, us_range=8.0,
                 bytes_per_pair=20.0)
            for room in (256, 512)
        ),
        line("ptwi", "ptwi/radix-trie", 1, tuples_per_s=9e6, longest_ms=3.0, bytes_per_pair=20.0),
        line("ptwi", "sorted-runs", 1, tuples_per_s=8e6, longest_ms=90.0, bytes_per_pair=17.0),
        *(line("q2", ours, asked, us_question=us) for asked, us in ((1, 50.0), (100, 5.0))),
        *(line("q2", polars, asked, us_question=us) for asked, us in ((1, 4e3), (100, 300.0))),
        line("q1", ours, 1, us_question=40.0),
        line("q1", "duckdb", 1, us_question=4e3),
        line("aggregate", matches.OURS, 100, tuples_per_s=2e6),
        line("aggregate", matches.JOINED[0], 100, tuples_per_s=1e6),
        line("aggregate", matches.OURS, 1000, tuples_per_s=6e5),
        line("aggregate", matches.JOINED[0], 1000, tuples_per_s=5e4),
        line("aggregate", "duckdb", 1000, tuples_per_s=6e4),
    ]  # fmt: skip


def test_verdicts_stand_beside_their_limits() -> None:
    found = {score.measure: score for score in PAPER.scores(sample())}
    expected = {
        "PTWI drop over deletion one by one, b-tree, least over sizes": (45_000.0, "reached"),
        "PTWI drop over deletion one by one, radix-trie, least over sizes": (80.0, "MISSED"),
        "radix-trie: time per insert, Linear Road, 16 M keys over 4 M": (1.1, "reached"),
        "radix-trie: time per look-up, Linear Road, 16 M keys over 4 M": (1.5, "MISSED"),
        "radix-trie: memory over flat array, Linear Road, dense": (0.75, "reached"),
        "radix-trie: memory over b-tree, Linear Road, dense": (0.5, "reached"),
        "radix-trie: memory over flat array, random": (1.75, "MISSED"),
        "radix-trie: memory over b-tree, random": (28 / 24, "MISSED"),
        "radix-trie: mapper over first/next, Linear Road, least over sizes": (6.0, "reached"),
        "radix-trie: mapper over first/next, random, least over sizes": (10.0, "reached"),
        "radix-trie: mapper over libJudy's first/next, Linear Road, least over sizes": (
            7.5,
            "reached",
        ),
        "radix-trie: mapper over libJudy's first/next, random, least over sizes": (2.0, "MISSED"),
        "range search: radix-trie over b-tree, Linear Road, most over sizes": (1.2, "reached"),
        "range search: radix-trie over b-tree, random, most over sizes": (4.0, "MISSED"),
        "insertion: radix-trie over judy, Linear Road, most over sizes": (1.25, "reached"),
        "insertion: radix-trie over judy, random, most over sizes": (1.65, "MISSED"),
        "look-up: radix-trie over judy, Linear Road, most over sizes": (1.0, "reached"),
        "look-up: radix-trie over judy, random, most over sizes": (1.0, "reached"),
        f"Q2: {questions.OURS} over polars, per question, least": (60.0, "reached"),
        f"Q1: {questions.OURS} over duckdb, per question, least": (100.0, "reported"),
        f"W1, 1,000 matches per row: {matches.OURS} over {matches.JOINED[0]}": (12.0, "reached"),
        f"W1, 1,000 matches per row: {matches.OURS} over duckdb": (10.0, "reported"),
    }
    for measure, (value, verdict) in expected.items():
        assert found[measure].verdict == verdict, measure
        assert found[measure].value == pytest.approx(value), measure
    ratio = found["insertion: radix-trie over judy, Linear Road, most over sizes"]
    assert ratio.remark == "4: 1.25, 16: 1.1"


def test_the_limits_are_those_that_were_asked_for() -> None:
    limits = {score.must for score in PAPER.scores(sample())} - {None}
    assert limits == {1.0, 1.2, 1.3, 1.5, 3.0, 5.0, 10.0, 50.0, 100.0}


def test_a_claim_without_its_structures_is_not_measured() -> None:
    rest = [result for result in sample() if result.structure != JUDY]
    found = {score.measure: score.verdict for score in PAPER.scores(rest)}
    assert found["look-up: radix-trie over judy, random, most over sizes"] == "not measured"
    assert PAPER.scores([]) == []


def test_table_1_is_made_of_the_lines_of_other_figures() -> None:
    found = judged(sample())
    assert found["insertion"][JUDY] == pytest.approx(1.0)
    ratios = (100 / 80, 110 / 100, 330 / 200)
    mean = (ratios[0] * ratios[1] * ratios[2]) ** (1 / 3)
    assert found["insertion"][TRIE] == pytest.approx(mean)
    assert found["memory utilization"][TREE] == pytest.approx((24 / 12 * 1.0) ** 0.5)
    assert JUDY not in found["simplicity"], "its code is not ours"
    assert found["stability"].keys() == {TREE, TRIE, JUDY}
    text = table(sample()).splitlines()
    assert text[0] == "|  | b-tree | radix-trie | radix-trie, first/next | judy |"
    assert [row.split(" | ")[0] for row in text[2:]] == [
        "| memory utilization", "| insertion", "| key access", "| range search", "| stability",
        "| simplicity",
    ]  # fmt: skip
    assert "| simplicity | best (1) | best (1) | – | – |" in text
    assert table([line("node-size", "random", 512, ns_insert=1.0, code_lines=9)]) == ""


def test_figures_measured_again_replace_their_own_lines_only(tmp_path: Path) -> None:
    bench.check_file(PAPER, sample(), tmp_path)
    again = [line("8", TRIE, 16, bytes_per_pair=9.0), line("9", TREE, 1)]
    both = PAPER.together(sample(), again)
    assert [r.bytes_per_pair for r in both if r.figure == "8"] == [9.0]
    assert [r.figure for r in both].index("9") < [r.figure for r in both].index("10")


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    written = bench.page_of(PAPER, sample(), tmp_path, "8", PLACES)
    assert "| million keys | flat array | b-tree | radix-trie | judy |" in written
    assert "| 16 | 16 | 24 | 12 | 14 |" in written
    assert "![memory, Linear Road keys](ordered-8.png)" in written
    assert "| 2^8 | linear road | 512 | 9 | 8 | 20 |" in written
    assert "Not run: judy, one by one: no library." in written
    assert "| simplicity | best (1) | best (1) | – | – |" in written
    assert (
        "*Here:* holds here: bytes per key and id, million keys 16: radix-trie 12, judy 14, "
        "flat array 16, b-tree 24." in written
    )
    assert "From 4 to 16 million keys: b-tree × 1.50, radix-trie × 1.10, judy × 1.25." in written
    assert "Nanoseconds per insertion: least at 256 (linear road) bytes" in written
    assert "*Here:* does not hold here, because the best size depends on what" in written
    assert "*Here:* microseconds per question, questions at a time 1: WindowIndex 40" in written


def test_plots_are_drawn_from_a_file(tmp_path: Path) -> None:
    drawn = [name for name in FIGURES if name != "9"]
    bench.check_plots(PAPER, sample(), tmp_path, drawn)


# --- The command ---------------------------------------------------------------------------------


def test_the_command_measures_and_keeps_what_other_runs_have_measured(tmp_path: Path) -> None:
    says = "8: sorted-runs, million keys 0.0003: bytes per key and id"
    lines = bench.measured_twice(PAPER, tmp_path, "8,11", "aggregate", says)
    assert {line.figure for line in lines} == {"8", "11", "aggregate"}
    assert "polars" in next(line.versions for line in lines if line.contestant == "polars")


def test_the_command_shows_table_1(tmp_path: Path) -> None:
    done = bench.small("ordered", TABLE, tmp_path)
    assert done.exit_code == 0, done.output
    assert "| memory utilization |" in done.output


def test_the_command_fails_on_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Held.next

    def wrong(self: Held, rows: int) -> Any:
        keys, ids = honest(self, rows)
        return keys ^ 1, ids

    monkeypatch.setattr(Held, "next", wrong)
    done = bench.small("ordered", "6", tmp_path)
    assert done.exit_code == 1
    assert "gave a wrong answer" in done.output
    assert not (tmp_path / "ordered-scale-0.0001.csv").exists()


def test_the_command_lists_the_figures() -> None:
    bench.check_listed(FIGURES)


@pytest.mark.parametrize("name", bench.modules(package))
def test_examples_in_docstrings_are_right(name: str) -> None:
    bench.check_examples(package, name)


@pytest.mark.slow
def test_a_smoke_run_of_everything_is_verified(tmp_path: Path) -> None:
    lines = bench.check_smoke(PAPER, tmp_path)
    assert [line.reason for line in lines if not line.ran and JUDY not in line.structure] == []
