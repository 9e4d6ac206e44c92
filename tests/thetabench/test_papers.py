"""The registry of papers, the lines of their files, what is declared of figures and goals."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from thetabench import figure, line, measure, score
from thetabench.figure import Figure
from thetabench.line import Columns, Line
from thetabench.papers import PAPERS, paper
from thetabench.score import Goal, at_least, first, judged, last, least, mean, most, only, ratio
from thetabench.tables import SCORES, filled, marks
from thetastream.errors import DataError, RegistryError

from .bench_command import check_examples

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
NAMES = {
    "foundation": "W1 W2 W3",
    "planner": "band-2 band-300 correlated anti-correlated independent two-bands few-keys "
    "many-keys overlap point zipf drift equality",
    "pim": "8a 8b 8c 8d 9a 9b 9c 9d 10a 10b 10c 10d 11a 11b 11c 12a 12b 12c 13a 13b 13c 14 peers "
    "merge cost",
    "panjoin": "4 10a 10b 10c 10d 10e 10f 11a 11b 11c 11d 11e 11f leaves 12a 12b 12c 12d 12e 12f "
    "13a 13b 14a 14b 15a 15b 15c 15d 15e 15f w1 phases",
    "spo": "7a 7b 7c 8a 8b 9a 9b 10a 10b 11a 11b 11c 11d 12 13 14 15 17 20 21 22 23 taxi w2 w3 "
    "probing correlation selectivity policy",
    "ordered": "4 5 6 7 8 9 10 11 12 13 node-size ptwi q1 q2 aggregate",
    "ssij": "3 4 5 6 7 8 9 10 11 12 13 14 15 16 table3 plan index 3-direct 5-direct 7-direct worst "
    "devices spark",
    "spark": "small join large w2 restart attach windows partitions latency",
}
"""Every figure that was ever measured, by paper: none may get lost."""
MEASURED = {
    **dict.fromkeys(NAMES, "figure"),
    **dict.fromkeys(("foundation", "planner"), "workload"),
}


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_is_lost(name: str) -> None:
    value = paper(name)
    assert list(value.figures) == NAMES[name].split()
    lines = value.read(RESULTS / f"{name}.csv")
    assert {own.figure for own in lines} == set(value.figures)
    assert all(own.verified or not own.ran or not own.seconds for own in lines)
    pages = value.pages or [f"docs/{name}-benchmarks.md"]
    page = "".join((ROOT / own).read_text(encoding="utf-8") for own in pages)
    places = () if value.grid else value.figures
    for place in (*([SCORES] if value.goals else ()), *places, *value.derived):
        begin, end = marks(name, place)
        assert page.count(begin) == page.count(end) == 1, place
        assert page.index(begin) < page.index(end)
    for own in value.figures.values():
        assert set(own.measures) <= set(value.measures)


@pytest.mark.parametrize("name", MEASURED)
def test_every_result_file_is_read_whatever_its_columns(name: str) -> None:
    path = RESULTS / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = Columns("", renamed={"figure": MEASURED[name]}).read(path, "thetastream bench")
    assert [own.contestant for own in lines] == [row["contestant"] for row in rows]
    assert [own.ran for own in lines] == [row["status"] == "ok" for row in rows]
    assert sum(own.seconds for own in lines) == sum(float(row["seconds"]) for row in rows)


def test_the_registry_is_cheap_and_suggests() -> None:
    with pytest.raises(RegistryError, match="Did you mean 'panjoin'"):
        paper("panjon")
    code = "import sys, thetabench.papers; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert set(PAPERS) == {*NAMES, "quick"}
    assert paper("quick") is paper("foundation", quick=True)
    assert paper("pim", quick=True) is paper("pim")


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    columns = Columns("window int rows\nchecksum text\nself_join bool\nrate float")
    wide = columns.line(
        figure="1", contestant="a, b", window=8, checksum="00e5", self_join=True, rate=0.1, cpu="x"
    )
    absent = columns.line(figure="1", contestant="c", status="not run", reason="no package")
    path = tmp_path / "new" / "file.csv"
    columns.write(path, [wide, absent])
    assert columns.read(path, "") == [wide, absent]
    assert (wide.window, wide.cpu, absent.window, absent.ran) == (8, "x", 0, False)
    assert wide.but(window=9, place=2.0) == wide.but(place=2.0).but(window=9)
    with pytest.raises(AttributeError, match="no column 'widow'"):
        _ = wide.widow
    with pytest.raises(AssertionError, match="not declared"):
        columns.line(figure="1", contestant="a", widow=8)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="is not a result file"):
        columns.read(path, "")


def test_a_busy_machine_is_noticed_by_single_threads_only() -> None:
    slow = Line("1", "a", seconds=1.0, cpu_share=0.5)
    assert slow.busy
    assert not slow.but(threads=2).busy
    assert not slow.but(cpu_share=0.95).busy
    assert not slow.but(cpu_share=0.0).busy, "simulated time has no share"


def sample() -> list[Line]:
    return [
        Line("1", name, place=place, tuples_per_s=speed * place, more={"threads": 0})
        for name, speed in (("ours", 4.0), ("other", 2.0))
        for place in (1.0, 32.0)
    ] + [Line("1", "ours", place=64.0, tuples_per_s=9.0, more={"threads": 0})]


def test_goals_are_declared_and_judged() -> None:
    faster = ratio("ours", "other")
    goals = [
        Goal("faster", "1", faster, mean, must=1.5, aim=3.0),
        Goal("{each}, least", "1", ratio("ours", "ours"), least, each=lambda own: own.contestant),
        Goal("nothing of that kind", "1", faster, mean, where=only(threads=7)),
        Goal("another figure", "2", faster, mean),
        lambda lines: [],
    ]
    found = judged(goals, sample())
    assert [(own.measure, own.value, own.verdict) for own in found] == [
        ("faster", 2.0, "reached"),
        ("ours, least", 1.0, "reported"),
        ("other, least", None, "not measured"),
    ]
    assert found[0].remark == "1: 2, 2^5: 2"
    assert [whole({1: 3.0, 2: 5.0}) for whole in (first, last, least, most)] == [3, 5, 3, 5]


def test_a_claim_holds_here_or_does_not_because() -> None:
    def verdict(limit: float) -> str:
        holds = at_least(limit, mean, ratio("ours", "other"))
        made = Figure("1", "", "w", lambda s: [], claim="c", holds=holds, because="caches.")
        return made.verdict(sample())

    assert verdict(1.5) == "*Here:* holds here: caches."
    assert verdict(2.5) == "*Here:* does not hold here, because caches."
    assert Figure("1", "", "w", lambda s: []).verdict([]) == ""


@pytest.mark.parametrize("name", ["pim", "panjoin", "spo", "ordered", "ssij"])
def test_the_page_says_of_each_claim_whether_it_holds(name: str) -> None:
    value = paper(name)
    page = (ROOT / f"docs/{name}-benchmarks.md").read_text(encoding="utf-8")
    drawn = {own: RESULTS / f"{name}-{own}.png" for own in value.figures}
    pictures = {own: f"../benchmarks/results/{p.name}" for own, p in drawn.items() if p.exists()}
    assert filled(value, page, value.read(RESULTS / f"{name}.csv"), pictures) == page
    claimed = [own for own in value.figures.values() if own.claim]
    assert page.count("*Paper:*") == len(claimed)
    assert all(own.holds is not None for own in claimed)
    verdicts = ("holds here", "does not hold here, because")
    assert sum(page.count(f"*Here:* {verdict}") for verdict in verdicts) == len(claimed)


@pytest.mark.parametrize("module", [figure, line, measure, score], ids=lambda own: own.__name__)
def test_examples_in_docstrings_are_right(module: object) -> None:
    import thetabench

    check_examples(thetabench, module.__name__.rpartition(".")[2])  # type: ignore[attr-defined]
