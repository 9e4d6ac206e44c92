"""The experiments of the SPO-Join paper: what is measured and how it is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetabench
from thetabench.answers import Census
from thetabench.digest import Digest, VerificationError, mix, pair_digest, row_hash
from thetabench.figure import Sizes
from thetabench.line import Line
from thetabench.paper import Paper
from thetabench.spo.contestant import TAXI, Cell, Contestant, Rows, Work
from thetabench.spo.course import Joining, SpoCourse, feed_of, truths
from thetabench.spo.figures import FIGURES, NOT_MEASURED
from thetabench.spo.load import Load, keys_of
from thetabench.spo.paper import PAPER
from thetabench.spo.stock import Answers, Step, make, moving
from thetastream.datasets.real import VARIABLE
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.side import Side

from .bench_command import check_examples

TINY = Sizes(scale=1e-4, seconds=0.002)
QUERIES = ("Q1", "Q1=", "Q2", "Q3")


def contestant(work: Work, structure: str = "sorted-runs", **more: Any) -> Contestant:
    given: dict[str, Any] = {"rows": Rows("Q3", 256, 8.0), "window": 256, "batch": 16, **more}
    return Contestant(structure, structure, 1.0, work=work, **given)


def measured(*who: Contestant, figure: str = "7a", sizes: Sizes = TINY,
             paper: Paper = PAPER) -> list[Line]:  # fmt: skip
    (lines,) = paper.run([Cell(figure, who)], sizes)
    return lines


def holds(load: Load, role: Side, fresh: dict[str, Any], row: int, stored: int) -> bool:
    """The predicate itself, on two rows."""
    one = {name: column[row] for name, column in fresh.items()}
    other = {name: column[stored] for name, column in load.stored.items()}
    left, right = (one, other) if role is Side.LEFT else (other, one)
    answers = {
        "Q1": lambda: left["power"] < right["power"] and left["cool"] > right["cool"],
        "Q1=": lambda: left["power"] == right["power"] and left["cool"] == right["cool"],
        "Q2": lambda: all(
            abs(left[t.column] - right[t.column]) <= t.width for t in load.query.terms
        ),
        "Q3": lambda: left["distance"] > right["distance"] and left["fare"] < right["fare"],
    }
    return bool(answers[load.rows.query]())


def nested_loop(load: Load, step: Step) -> Digest:
    """What rows that ask together find: boxes are role by role."""
    fresh, count = load.fresh(step.start, step.stop), step.stop - step.start
    pairs = [
        (number * count + row, stored)
        for number, role in enumerate(load.roles)
        for row in range(count)
        for stored in range(step.begin, step.end)
        if holds(load, role, fresh, row, stored)
    ]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return pair_digest(both[:, 0], both[:, 1])


# --- Rows, boxes, right answers ------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
def test_boxes_hold_what_the_predicate_says(query: str) -> None:
    load = Load(Rows(query, 300, 30.0))
    index = create("nested-loop", capacity=300, columns=2)
    index.insert(*load.batch(0, 300))
    lows, highs = load.boxes(5, 25)
    assert lows.shape == highs.shape == (2, 20 * len(load.roles))
    found = Digest(0, 0)
    for positions, ids in index.probe(lows, highs):
        found += pair_digest(positions, ids)
    assert found == nested_loop(load, Step(5, 25, 0, 300))
    assert found.matches > 100


def test_a_row_of_q3_asks_in_both_roles_and_a_band_holds_both_ways() -> None:
    assert len(Load(Rows("Q3", 64, 4.0)).roles) == 2
    assert len(Load(Rows("Q2", 64, 4.0)).roles) == 1
    assert len(Load(Rows("Q1", 64, 4.0)).roles) == 1


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_keys_are_in_the_order_of_values(values: list[float]) -> None:
    array = np.array(values)
    keys = keys_of(array)
    assert np.array_equal(keys[:, None] < keys, array[:, None] < array)


@given(st.integers(1, 6000), st.integers(1, 60), st.integers(1, 3000), st.integers(0, 1 << 30))
def test_the_census_counts_like_a_mask(rows: int, boxes: int, domain: int, seed: int) -> None:
    """More rows than a block has, and few enough values that edges are met."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, domain, (2, rows))
    lows = rng.integers(-1, domain + 1, (2, boxes))
    highs = np.maximum(lows, rng.integers(-1, domain + 1, (2, boxes))) - (rng.random(boxes) < 0.1)
    counts, sums = Census(*columns).boxes(lows, highs)
    inside = (columns[:, None] >= lows[..., None]) & (columns[:, None] <= highs[..., None])
    kept = inside[0] & inside[1]
    assert np.array_equal(counts, kept.sum(axis=1))
    hashes = row_hash(np.arange(rows))
    assert np.array_equal(sums, np.where(kept, hashes, np.uint64(0)).sum(axis=1, dtype=np.uint64))


def test_examples_of_right_answers_are_right() -> None:
    check_examples(thetabench, "answers")


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_a_nested_loop(query: str) -> None:
    load = Load(Rows(query, 200, 20.0, extra=1200))
    answers = Answers(load, 150, 600)
    for start, stop in ((0, 1), (7, 20), (500, 530)):
        assert answers.digest(start, stop) == nested_loop(load, Step(start, stop, 0, 150))


@pytest.mark.parametrize("query", QUERIES)
def test_windows_that_move_and_grow_have_the_right_answers(query: str) -> None:
    load = Load(Rows(query, 100, 10.0))
    moves = [Step(n * 8, n * 8 + 8, n * 8, 100 + n * 8) for n in range(5)]
    grows = [Step(n, n + 1, 0, 50 + n) for n in range(12)]
    uneven = [Step(3, 9, 10, 70), Step(9, 10, 10, 90)]
    for steps in (moves, grows, uneven):
        right = moving(load, steps)
        assert right == [nested_loop(load, step) for step in steps]
        assert sum(digest.matches for digest in right) > 0


@pytest.mark.parametrize("query", ["Q1", "Q1=", "Q2", "Q3", "W2", "W3"])
def test_the_right_answers_of_whole_joins(query: str) -> None:
    who = contestant(Work.JOIN, rows=Rows(query, 64, 6.0), window=64, batch=10)
    feed = feed_of(who)
    pushes = 6
    right = truths(feed, pushes)
    found = []
    for push in range(pushes):
        side, start = feed.side(push), feed.start(push)
        pairs = []
        for row in range(start, start + feed.batch):
            seen = row if feed.query.self_join else feed.filled + (push + 1) // 2 * feed.batch
            for stored in range(max(0, seen - feed.query.window), seen):
                pair = (row, stored) if side is Side.LEFT else (stored, row)
                orders = [pair, pair[::-1]] if feed.query.self_join else [pair]
                pairs += [order for order in orders if _match(feed, order)]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        total = int(mix(both[:, 0], both[:, 1]).sum(dtype=np.uint64))
        found.append(Digest(len(pairs), total))
    assert right == found
    assert sum(digest.matches for digest in found) > 0


def _match(feed: Any, pair: tuple[int, int]) -> bool:
    tables = (feed.table(Side.LEFT), feed.table(Side.RIGHT))
    return all(
        bool(
            term.holds(
                *(
                    np.array([table.column(term.column)[row].as_py()])
                    for table, row in zip(tables, pair, strict=True)
                )
            )[0]
        )
        for term in feed.query.terms
    )


# --- Figures -------------------------------------------------------------------------------------


def test_figures_are_those_of_the_paper() -> None:
    numbers = {name.rstrip("abcd") for name in FIGURES if name[0].isdigit()}
    assert numbers | set(NOT_MEASURED) == {str(n) for n in range(7, 24)}
    for figure in FIGURES.values():
        for sizes in (Sizes(), TINY):
            for cell in figure.cells(sizes):
                assert cell.figure == figure.name
                labels = [who.label for who in cell.contestants]
                assert len(set(labels)) == len(labels) > 0


def test_the_sizes_are_those_of_the_paper() -> None:
    plan = {name: figure.cells(Sizes()) for name, figure in FIGURES.items()}

    def places(name: str) -> set[float]:
        return {who.place for cell in plan[name] for who in cell.contestants}

    assert {min(places("7a")), max(places("7a"))} == {600_000, 1_000_000}
    assert {min(places("7b")), max(places("7b"))} == {60_000, 100_000}
    assert {min(places("9a")), max(places("9a"))} == {1_000_000, 5_000_000}
    assert {min(places("9b")), max(places("9b"))} == {100_000, 500_000}
    assert {min(places("13")), max(places("13"))} == {2_000_000, 8_000_000}
    assert places("20") == {60_000, 80_000, 100_000}
    assert places("w2") == places("w3") == {1 << 10, 1 << 13, 1 << 15}
    w2 = [who for cell in plan["w2"] for who in cell.contestants]
    assert {who.window for who in w2} == {50_000, 500_000}
    assert {who.rows.rate for who in w2} == {10.0}
    assert {who.structure for who in w2} >= {
        "duckdb-range", "polars-where", "thetastream:tactic=auto", "thetastream:tactic=spo-join",
    }  # fmt: skip
    assert {(w.window, w.rows.rate) for c in plan["w3"] for w in c.contestants} == {(1_000_000, 5)}
    batches = {who.batch for cell in plan["7a"] for who in cell.contestants}
    assert batches == {1, 1024}, "both are compared row by row and batch by batch"


def test_figures_can_be_chosen() -> None:
    plan = PAPER.cells(["9", "22"], TINY)
    assert list(dict.fromkeys(cell.figure for cell in plan)) == ["9a", "9b", "22"]
    with pytest.raises(RegistryError, match="a test on Spark"):
        PAPER.cells(["18"], TINY)
    with pytest.raises(RegistryError, match="Did you mean 'probing'"):
        PAPER.cells(["probin"], TINY)


# --- Runs ----------------------------------------------------------------------------------------


def test_a_small_run_of_everything_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    results = [line for lines in PAPER.run(PAPER.cells((), TINY), TINY) for line in lines]
    assert {result.figure for result in results} == set(FIGURES)
    for result in results:
        if result.distribution == TAXI:
            assert VARIABLE in result.reason
            continue
        assert result.ran, (result.contestant, result.reason)
        assert result.verified
        assert result.checked_tuples > 0
        if result.work != "memory":
            assert result.tuples > 0
            assert result.tuples_per_s > 0
        if result.work not in ("join", "insert", "memory") and result.asked == 1:
            assert 0 < result.p50_us <= result.p75_us <= result.p95_us <= result.max_us
        if "duckdb" not in result.structure and "polars" not in result.structure:
            assert result.index_bytes > 0
    assert all(r.merge_ms > 0 for r in results if r.figure == "20")


def test_a_slow_contestant_is_asked_with_fewer_rows_at_a_time() -> None:
    who = contestant(Work.PROBE, batch=64)
    (fast,), (slow,) = (measured(who, sizes=Sizes(seconds=seconds)) for seconds in (1.0, 1e-9))
    assert (fast.batch, fast.asked) == (64, 64)
    assert (slow.batch, slow.asked) == (64, 1)
    assert slow.verified


class Wrong:
    """A structure that changes what is inserted or what it returns."""

    def __init__(self, held: Any, change: str) -> None:
        self._held = held
        self._change = change
        self.nbytes = 1
        self.statistics: dict[str, float] = {}
        self.dump = held.dump
        self.expire = held.expire

    def __len__(self) -> int:
        return len(self._held)

    def insert(self, keys: Any, ids: Any) -> None:
        if self._change == "forget":
            keys, ids = np.ascontiguousarray(keys[:, :-1]), ids[:-1]
        elif self._change == "keys":
            keys = keys.copy()
            keys[:, -1] = -(1 << 62), 1 << 62  # every row of Q3 meets it
        self._held.insert(keys, ids)

    def probe(self, lows: Any, highs: Any) -> Iterator[tuple[Any, Any]]:
        chunks = list(self._held.probe(lows, highs))
        positions = np.concatenate([np.empty(0, np.int64), *(chunk[0] for chunk in chunks)])
        ids = np.concatenate([np.empty(0, np.int64), *(chunk[1] for chunk in chunks)])
        if positions.size:
            if self._change == "drop":
                positions, ids = positions[1:], ids[1:]
            elif self._change == "double":
                positions, ids = np.append(positions, positions[0]), np.append(ids, ids[0])
            elif self._change == "row":
                ids[0] += 1
            elif self._change == "box":
                positions[0] += 1
        yield positions, ids


def run_wrong(who: Contestant, change: str, figure: str = "7a") -> None:
    def wrong(made: Contestant) -> Any:
        return Wrong(make(made), change)

    paper = replace(PAPER, course=partial(SpoCourse, maker=wrong))
    assert measured(who, figure=figure, paper=paper)[0].verified


@pytest.mark.parametrize("work", [Work.PROBE, Work.GROW, Work.SLIDE, Work.MEMORY])
@pytest.mark.parametrize("change", ["drop", "double", "row", "box", "forget", "keys"])
def test_wrong_answers_end_the_run(work: Work, change: str) -> None:
    who = contestant(work, rows=Rows("Q3", 256, 60.0))
    run_wrong(who, "")
    with pytest.raises(VerificationError, match=r"sorted-runs \(7a at 1\)"):
        run_wrong(who, change)


@pytest.mark.parametrize("change", ["forget", "keys"])
def test_rows_that_are_stored_wrongly_end_the_run(change: str) -> None:
    run_wrong(contestant(Work.INSERT), "", "12")
    with pytest.raises(VerificationError, match="does not hold the last 256 rows"):
        run_wrong(contestant(Work.INSERT), change, "12")


def test_a_wrong_join_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    who = contestant(Work.JOIN, "thetastream:tactic=auto")
    assert all(line.verified for line in measured(who, figure="17"))
    honest = Joining.step

    def wrong(self: Joining) -> bool:
        done = honest(self)
        last = self.digests[-1]
        if len(self.digests) == 1:  # a slow machine makes one push in its time
            self.digests[-1] = Digest(last.matches, last.checksum ^ 1)
        return done

    monkeypatch.setattr(Joining, "step", wrong)
    with pytest.raises(VerificationError, match="auto .* gave a wrong answer in batch 0"):
        measured(who, figure="17")


def test_what_cannot_be_run_says_why() -> None:
    who = (
        contestant(Work.PROBE, "no-such"),
        contestant(Work.PROBE, "css-tree", parameters=(("leafs", 3),)),
        contestant(Work.JOIN, "thetastream:tactic=no-such"),
    )
    lines = measured(*who)
    assert [line.status for line in lines] == ["not run"] * 3
    assert lines[0].reason == "there is no structure no-such"
    assert "no parameter 'leafs'" in lines[1].reason
    assert "no tactic 'no-such'" in lines[2].reason
