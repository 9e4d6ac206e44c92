"""The Spark benchmark: what is measured, how answers are checked, what happens when one is wrong.

Most tests use a nested loop instead of a Spark session. The slow tests start Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from thetabench.contestant import Failed
from thetabench.digest import VerificationError
from thetabench.figure import Asked, Sizes
from thetabench.line import Line
from thetabench.papers import paper as paper_of
from thetabench.spark import cells
from thetabench.spark.cells import (
    BUCKETS,
    DOUBLE,
    EQUI,
    FULL,
    HOME,
    KEPT,
    LOST,
    NOOP,
    NOOPS,
    QUICK,
    Plan,
)
from thetabench.spark.course import SparkCourse
from thetabench.spark.paper import paper
from thetabench.spark.peers import Seat
from thetabench.spark.session import Session
from thetastream.errors import RegistryError

from .spark_fake import QUERIES, Change, FakeSession, Pairs

TINY = replace(
    FULL, window=60, small=40, join=60, large=120, turns=(2, 2), few=(1, 2), w2_turns=(2, 2),
    slow=(1, 1), slowest=(1, 1), w2_window=50, w2=40, windows=(30, 60), partitions=(1, 2), steps=80,
    latencies=(20, 40), landed=(2, 3), memory="1g", limit=120.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_queries() -> Iterator[None]:
    yield
    QUERIES.clear()


def run(
    names: list[str], start: Any = FakeSession, plan: Plan = TINY, asked: Asked | None = None
) -> list[Line]:
    made = replace(paper("tiny", plan), course=lambda sizes: SparkCourse(sizes, start))
    sizes = replace(Sizes(), asked=asked or Asked())
    return [line for lines in made.run(made.cells(names, sizes), sizes) for line in lines]


def by_name(lines: list[Line]) -> dict[str, Line]:
    return {line.contestant: line for line in lines}


# --- What is measured ----------------------------------------------------------------------------


def test_the_full_run_is_the_workload_that_was_asked_for() -> None:
    own = {name: figure.cells(Sizes()) for name, figure in cells.figures(FULL).items()}
    for name, batch in (("small", 40_000), ("join", 500_000)):
        (cell,) = own[name]
        fast = [who for who in cell.contestants if who.label not in BUCKETS]
        assert {HOME, DOUBLE} <= {who.label for who in fast}
        assert {(who.window, who.batch) for who in cell.contestants} == {(500_000, batch)}
        assert all(who.batches > 60 and who.untimed > 30 for who in fast)
    assert set(NOOPS) <= {who.label for who in own["small"][0].contestants}
    assert set(EQUI) <= {who.label for who in own["small"][0].contestants}
    assert set(BUCKETS) <= {who.label for who in own["join"][0].contestants}
    assert [who.place for who in own["latency"][0].contestants] == [1e3, 1e4, 4e4, 5e5]
    (restart,) = own["restart"]
    for who in restart.contestants:
        assert (who.untimed - 1) * who.batch + 2 * who.window >= 2 * who.window, (
            "the window is full"
        )
    assert [who.timed + who.untimed for who in own["w2"][0].contestants] == [31, 31, 3]


def test_slow_contestants_skip_turns_evenly() -> None:
    who = cells.Entrant("", "", 0, timed=2, untimed=1)
    due = [turn for turn in range(1, 62) if who.is_due(turn, 61)]
    assert len(due) == 3
    assert due[-1] == 61
    assert min(b - a for a, b in pairwise(due)) >= 20
    fast = replace(who, untimed=59)
    assert all(fast.is_due(turn, 61) for turn in range(1, 62))


def test_a_smaller_run_has_all_figures() -> None:
    quick = paper_of("spark", quick=True)
    assert (quick.name, list(quick.figures)) == ("spark-quick", list(paper_of("spark").figures))
    assert FULL.scaled(1) == FULL
    half = FULL.scaled(0.5)
    assert (half.window, half.join, half.turns) == (250_000, 250_000, FULL.turns)
    assert max(QUICK.windows) < min(FULL.windows)


def test_contestants_can_be_chosen_with_a_tactic() -> None:
    tactic = "theta_join:tactic=ordered/zoned-runs"
    figures = cells.figures(FULL)
    sizes = replace(Sizes(), asked=Asked(contestants=("foreachBatch", tactic)))
    (cell,) = figures["w2"].cells(sizes)
    assert [(who.label, who.structure) for who in cell.contestants] == [
        ("foreachBatch", "foreachBatch"),
        (tactic, HOME),
    ]
    assert cell.contestants[1].parameters == (("tactic", "ordered/zoned-runs"),)
    assert figures["restart"].cells(sizes) == []
    for wrong in ("theta-join:tactic=ordered", "foreachBatch:tactic=ordered", "theta_join:x=1"):
        with pytest.raises(RegistryError, match="contestant must be one of theta_join"):
            figures["w2"].cells(replace(sizes, asked=Asked(contestants=(wrong,))))


# --- Runs ----------------------------------------------------------------------------------------


def test_an_honest_run_is_verified_and_complete() -> None:
    lines = run(["small", "join", "large", "w2", "windows", "partitions"])
    assert all(line.ran and line.verified and line.matches > 0 for line in lines)
    assert all("pyspark" in line.versions and "java 17" in line.versions for line in lines)
    assert all(line.tuples == line.pushes * line.batch for line in lines)
    home = by_name([line for line in lines if line.figure == "small"])[HOME]
    assert (home.pushes, home.tuples, home.total_rows) == (2, 80, 120 + 40 + 80)
    assert home.tuples_per_s == pytest.approx(40 / 0.1), "the slow first micro-batch is left out"
    assert (home.first_s, home.p50_s, home.max_s) == (1.0, 0.1, 0.1)
    assert (home.map_s, home.join_s, home.task_s, home.bookkeeping_s) == (0.02, 0.03, 0.08, 0.005)
    assert home.written_bytes == 20.0
    assert home.save_share == pytest.approx(3 / 11)
    assert home.ns_save == pytest.approx(0.03 * 1e9 / 40)
    assert (home.hits, home.attaches) == (4 + 2, 2)
    assert {line.place for line in lines if line.figure == "windows"} == {30, 60}
    assert {line.partitions for line in lines if line.figure == "partitions"} == {1, 2}


def test_contestants_take_turns_in_one_session_in_changing_order() -> None:
    sessions: list[FakeSession] = []

    def start(*arguments: Any) -> FakeSession:
        sessions.append(FakeSession(*arguments))
        return sessions[-1]

    run(["join"], start)
    (session,) = sessions
    assert session.closed
    rounds = [name.rpartition("-")[0] for name in session.asked]
    assert [rounds.count(name) for name in (HOME, DOUBLE, *BUCKETS)] == [4, 4, 2, 2]
    first = [i for i, name in enumerate(rounds) if name == HOME]
    followers = {rounds[i + 1] for i in first if i + 1 < len(rounds)}
    before = {rounds[i - 1] for i in first if i}
    assert len(before | followers) > 2
    assert all(b - a < 2 * len(set(rounds)) for a, b in pairwise(first))


def test_attaches_are_held_against_times() -> None:
    class Slower(FakeSession):
        def _step(self, seat: Any, batch: int) -> dict[str, Any]:
            report = super()._step(seat, batch)
            if report["join"] and report["join"]["attaches"]:
                report["milliseconds"]["triggerExecution"] += 200
            return report

    home = by_name(run(["small"], Slower))[HOME]
    assert home.hit_s == pytest.approx(0.1)
    assert home.attach_s == pytest.approx(0.3)
    assert home.attach_r == pytest.approx(1.0)
    assert home.max_s / home.p50_s == pytest.approx(1.5)


def test_a_restart_goes_on_in_a_second_session_with_or_without_run_files() -> None:
    places = []

    def start(folder: Path, runs: Path, *more: Any) -> FakeSession:
        places.append((folder.name, runs.name))
        return FakeSession(folder, runs, *more)

    lines = by_name(run(["restart"], start))
    for line in lines.values():
        assert (line.normal_s, line.cold_s, line.first_s) == (0.1, 1.0, 1.0)
        assert line.slower_s == pytest.approx(0.9)
        assert line.checked_pushes == 4 + 2
    runs = {
        name: {own for folder, own in places if name.replace(", ", "-").replace(" ", "-") in folder}
        for name in lines
    }
    assert {name: len(own) for name, own in runs.items()} == {LOST: 2, KEPT: 1}
    assert not any("," in folder or " " in folder for folder, _ in places), "Spark splits there"
    assert len({folder for folder, _ in places}) == 4


def test_latencies_are_those_of_files() -> None:
    lines = run(["latency"])
    assert [line.place for line in lines] == [20, 40]
    for line in lines:
        assert (line.latency_p50, line.period_s) == (pytest.approx(0.2), 0.5)
        assert line.latency_p99 == pytest.approx(0.298)
        assert line.checked_pushes == 5
        assert line.tuples_per_s == pytest.approx(line.batch / 0.5)


def test_steps_find_a_partition_alive_mapped_or_read_back() -> None:
    lines = by_name(run(["attach"]))
    assert list(lines) == [cells.HIT, cells.ATTACH, cells.REBUILD]
    assert all(line.verified and line.matches > 0 and line.cpu_s > 0 for line in lines.values())
    assert all(line.checked_pushes == 3 for line in lines.values())
    assert all(line.stored_rows >= 2 * TINY.window for line in lines.values())


# --- Wrong answers and failures ------------------------------------------------------------------


def swap(seat: Any, pairs: Pairs, batch: int) -> None:
    at = next(at for at, pair in enumerate(pairs) if pair[0] != pair[1])
    pairs[at] = pairs[at][::-1]


def double(seat: Any, pairs: Pairs, batch: int) -> None:
    pairs.append(pairs[0])


def drop(seat: Any, pairs: Pairs, batch: int) -> None:
    pairs.pop()


@pytest.mark.parametrize("change", [swap, double, drop])
@pytest.mark.parametrize("figure", ["join", "restart", "latency"])
def test_a_wrong_answer_ends_the_run(change: Change, figure: str) -> None:
    def once(seat: Any, pairs: Pairs, batch: int) -> None:
        if batch == 1 and seat.contestant in (BUCKETS[0], HOME):
            change(seat, pairs, batch)

    with pytest.raises(VerificationError, match="gave a wrong answer"):
        run([figure], partial(FakeSession, change=once))


@pytest.mark.parametrize("change", [swap, double, drop])
def test_a_wrong_answer_of_a_peer_is_its_failure(change: Change) -> None:
    def once(seat: Any, pairs: Pairs, batch: int) -> None:
        if batch == 1 and seat.contestant == BUCKETS[0]:
            change(seat, pairs, batch)

    lines = by_name(run(["join"], partial(FakeSession, change=once)))
    assert lines[BUCKETS[0]].status == "failed"
    assert "gave a wrong answer in micro-batch 1" in lines[BUCKETS[0]].reason
    assert lines[BUCKETS[0]].tuples_per_s == 0
    assert {name for name, line in lines.items() if line.verified} == set(lines) - {BUCKETS[0]}


def test_a_micro_batch_without_a_report_is_a_wrong_answer() -> None:
    class Silent(FakeSession):
        def ask(self, what: str, seat: Any, **more: Any) -> dict[str, Any]:
            reply = super().ask(what, seat, **more)
            return reply | {"batches": []} if more["batch"] == 1 else reply

    with pytest.raises(VerificationError, match="got 0 with"):
        run(["large"], Silent)


def test_a_row_that_an_empty_joiner_loses_is_noticed() -> None:
    class Forgetful(FakeSession):
        def _answer(self, seat: Any, *more: Any) -> tuple[int, int]:
            count, total = super()._answer(seat, *more)
            return (count - 1, total) if seat.contestant == NOOP else (count, total)

    with pytest.raises(VerificationError, match="noop"):
        run(["small"], Forgetful)


def test_a_contestant_that_fails_has_a_line_and_no_score() -> None:
    lines = run(["join"], partial(FakeSession, fails=DOUBLE))
    assert {line.contestant: line.status for line in lines if not line.ran} == {DOUBLE: "failed"}
    assert by_name(lines)[DOUBLE].reason == "out of luck"
    found = {score.measure: score for score in paper("tiny", TINY).scores(lines)}
    assert found[
        "micro-batches of half a window, over an empty joiner with our output"
    ].verdict == ("not measured")
    buckets = found["micro-batches of half a window, over hand-made buckets in the better store"]
    assert buckets.value == pytest.approx(1.0)


def test_a_session_that_does_not_start_fails_for_everyone() -> None:
    def start(*arguments: Any) -> Session:
        raise Failed("no java")

    lines = run(["large"], start)
    assert {(line.status, line.reason) for line in lines} == {("failed", "no java")}


def test_a_session_that_hangs_or_breaks_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="stopped after 0 s"):
        Session(tmp_path / "a", tmp_path / "runs", 1, "1g", 0.01)
    with pytest.raises(Failed, match="exit|ended|rror"):
        Session(tmp_path / "b", tmp_path / "runs", 1, "no memory", 60.0)


# --- Spark itself --------------------------------------------------------------------------------

SMALL = replace(TINY, window=400, join=300, large=300, small=200, windows=(400,), partitions=(1,))


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["small", "join", "w2"])
def test_every_contestant_answers_right(figure: str) -> None:
    lines = run([figure], Session, SMALL)
    assert [(line.contestant, line.reason) for line in lines if not line.ran] == []
    assert all(line.verified and line.matches > 0 and line.tuples_per_s > 0 for line in lines)
    assert all(line.join_s > 0 and line.task_s > 0 for line in lines), "from the event log"
    home = by_name(lines)[HOME]
    assert home.written_bytes > 0
    assert home.hits + home.attaches + home.rebuilds > 0


@pytest.mark.slow
def test_a_restart_on_spark_finds_its_runs_or_not() -> None:
    lines = by_name(run(["restart"], Session, SMALL))
    assert [line.reason for line in lines.values() if not line.ran] == []
    assert lines[LOST].rebuilds >= 1
    assert lines[KEPT].rebuilds == 0
    assert lines[KEPT].attaches >= 1
    assert lines[KEPT].stored_rows >= 2 * SMALL.window


@pytest.mark.slow
def test_latencies_on_spark_are_measured_file_by_file() -> None:
    lines = run(["latency"], Session, SMALL)
    assert [line.reason for line in lines if not line.ran] == []
    assert all(0 < line.latency_p50 <= line.latency_p99 for line in lines)
    assert all(line.verified for line in lines)


@pytest.mark.slow
def test_a_join_on_another_predicate_is_caught() -> None:
    class Narrow(Session):
        def ask(self, what: str, seat: Seat, **more: Any) -> dict[str, Any]:
            word = seat.on.split()[-1]
            on = seat.on.replace(word, str(int(word) * 9 // 10))
            return super().ask(what, replace(seat, on=on), **more)

    with pytest.raises(VerificationError, match="gave a wrong answer"):
        run(["large"], Narrow, SMALL, Asked(contestants=(HOME,)))


@pytest.mark.slow
def test_a_query_that_fails_does_not_end_the_session() -> None:
    class Broken(Session):
        def ask(self, what: str, seat: Seat, **more: Any) -> dict[str, Any]:
            on = "abs(l.y - r.y) <= 1" if seat.contestant == HOME else seat.on
            return super().ask(what, replace(seat, on=on), **more)

    lines = by_name(run(["large"], Broken, SMALL))
    assert lines[HOME].status == "failed"
    assert "y" in lines[HOME].reason
    assert lines[DOUBLE].verified
