"""The experiments of the PanJoin paper: what is measured, how it is checked and shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from thetabench.answers import Truth
from thetabench.contestant import Unavailable
from thetabench.digest import Digest, VerificationError, pair_digest, weighed
from thetabench.figure import Sizes
from thetabench.line import Line
from thetabench.panjoin import splitters
from thetabench.panjoin.contestant import REPEATED, BTreesSet, Cell, Contestant, Work, make
from thetabench.panjoin.course import Joining, PanCourse, feed_of, truths
from thetabench.panjoin.figures import FIGURES
from thetabench.panjoin.paper import PAPER
from thetabench.panjoin.stock import Load, Stock
from thetabench.panjoin.trial import check_stored
from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.base import Ranges

TINY = Sizes(scale=2.0**-13, seconds=0.002)


class Table:
    """As much of a RaP-Table as its splitters need: the paper's Algorithm 1, corrected.

    It says whether the distributions are well chosen, whatever our RaP-Table does.
    """

    def __init__(self, who: Contestant) -> None:
        settings = dict(who.parameters)
        low, high = settings["domain"]
        self.partitions, self.size = settings["partitions"], who.rows
        self.splitters = low + (high + 1 - low) * np.arange(1, self.partitions) / self.partitions
        self.errors: list[float] = []
        self.statistics = {"outside_share": 0.25}
        self._rows = np.empty(0, np.int64)
        self._stored = self._expired = 0

    def insert(self, keys: Any, ids: Any) -> None:
        if self._rows.size == self.size:
            self._close()
        self._rows = np.concatenate([self._rows, keys])
        self._stored += keys.size

    def expire(self, before: int) -> None:
        self._expired = before

    def __len__(self) -> int:
        return self._stored - self._expired

    def _close(self) -> None:
        part = np.searchsorted(self.splitters, self._rows, side="right")
        counts = np.bincount(part, minlength=self.partitions)
        fair = self.size / self.partitions
        self.errors.append(float(np.abs(counts - fair).mean() / fair))
        lows, highs = np.full(self.partitions, np.inf), np.full(self.partitions, -np.inf)
        np.minimum.at(lows, part, self._rows)
        np.maximum.at(highs, part, self._rows)
        sums, wanted = np.cumsum(counts), fair * np.arange(1, self.partitions)
        at = np.searchsorted(sums, wanted, side="left")
        share = (wanted - sums[at] + counts[at]) / counts[at]
        self.splitters = lows[at] + share * (highs[at] - lows[at])
        self._rows = np.empty(0, np.int64)


def contestant(work: Work, structure: str = "b+tree", **more: Any) -> Contestant:
    given: dict[str, Any] = {"rows": 256, "batch": 16, "matches": 2.0, **more}
    return Contestant(structure, structure, 1.0, work=work, **given)


def measured(plan: list[Cell], sizes: Sizes = TINY, maker: Any = make, **more: Any) -> list[Line]:
    paper = replace(PAPER, course=partial(PanCourse, maker=maker))
    return [line for lines in paper.run(plan, sizes, **more) for line in lines]


# --- Rows, boxes, right answers ------------------------------------------------------------------


def nested_loop(keys: Any, lows: Any, highs: Any, first: int = 0) -> list[tuple[int, int]]:
    return [
        (box, first + row)
        for box, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
        for row, key in enumerate(keys.tolist())
        if low <= key <= high
    ]


def digest_of(pairs: list[tuple[int, int]]) -> Digest:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return pair_digest(both[:, 0], both[:, 1])


@pytest.mark.parametrize("work", [Work.EQUI, Work.BAND])
@pytest.mark.parametrize("matches", [1.0, 8.0])
def test_the_reference_agrees_with_a_nested_loop(work: Work, matches: float) -> None:
    who = contestant(work, matches=matches, batch=40)
    load = Stock(make, 3).load(who)
    lows, highs = load.asked(who, 5)
    assert np.all(np.diff(lows) >= 0)
    found = nested_loop(load.keys, lows, highs, 1000)
    counts, right = Truth(load.keys, 1000 + np.arange(load.count)).digest(lows, highs)
    assert counts.tolist() == np.bincount([box for box, _ in found], minlength=40).tolist()
    assert right == digest_of(found)
    assert right != digest_of([(box, row + 1) for box, row in found])
    assert right != digest_of([(39 - box, row) for box, row in found])
    assert right != digest_of([*found[1:], found[1]])


def test_empty_boxes_hold_nothing() -> None:
    counts, right = Truth(np.arange(9)).digest(np.array([5, 3, 90]), np.array([4, 3, 99]))
    assert counts.tolist() == [0, 1, 0]
    assert right == digest_of([(1, 3)])


@pytest.mark.parametrize("work", [Work.EQUI, Work.BAND])
@pytest.mark.parametrize("matches", [1.0, 4.0, 64.0])
def test_boxes_hold_as_many_rows_as_was_asked_for(work: Work, matches: float) -> None:
    who = contestant(work, rows=1 << 14, batch=1 << 12, matches=matches)
    load = Stock(make).load(who)
    right = Truth(load.keys).digest(*load.asked(who, 0))[1]
    assert right.matches / who.batch == pytest.approx(matches, rel=0.1)


def test_batches_are_the_same_for_everyone_and_come_again_late() -> None:
    load, again = Load(512), Load(512)
    who = contestant(Work.BAND, rows=512, batch=1 << 12)
    asked = [load.asked(who, number)[0].tolist() for number in range(7, 7 + 256)]
    assert asked[0] == again.asked(who, 7)[0].tolist()
    assert asked[0] not in asked[1:]
    assert asked[0] == load.asked(who, 7 + 256)[0].tolist()
    keys, ids = load.batch(100, 200)
    assert sorted(ids.tolist()) == list(range(100, 200))
    assert keys.tolist() == np.sort(load.keys[100:200]).tolist()
    assert load.keys[ids].tolist() == keys.tolist()


@pytest.mark.parametrize("distribution", ["uniform", REPEATED])
@pytest.mark.parametrize("rate", [2.0, 20.0])
def test_the_right_answers_of_joins_agree_with_each_other(distribution: str, rate: float) -> None:
    """Searching a sorted copy, looking at candidates, and a nested loop give the same."""
    who = contestant(Work.JOIN, matches=rate, distribution=distribution)
    feed = feed_of(who, 1)
    term = feed.query.terms[0]
    assert feed.query.predicate == "l.x = r.x" or term.width > 0
    found = truths(feed, 7, "count", rate)
    rows = truths(feed, 7, "rows", rate)
    for push in range(7):
        side = feed.side(push)
        seen = 256 + 16 * ((push + 1) // 2)
        stored = feed.table(side.other).column("x").to_numpy()[seen - 256 : seen]
        fresh = feed.rows(push)
        near = [term.holds(key, stored).sum() for key in fresh.column("x").to_numpy()]
        ids = fresh.column("id").to_numpy()
        assert found[push] == (sum(near), weighed(ids, np.array(near)) % 2**64)
        assert rows[push].matches == sum(near)
    assert sum(d.matches for d in found) / (7 * 16) == pytest.approx(rate, rel=0.3)


# --- Structures ----------------------------------------------------------------------------------


def test_a_structure_that_is_missing_says_so() -> None:
    with pytest.raises(Unavailable, match="no structure fractal-tree"):
        make(contestant(Work.BAND, "fractal-tree"))
    with pytest.raises(Unavailable, match="no parameter 'leafs'"):
        make(contestant(Work.BAND, "b+tree", parameters=(("leafs", 3),)))


def test_btrees_answers_like_an_index() -> None:
    load = Load(300, 100)
    ours, theirs = create("b+tree"), BTreesSet()
    for structure in (ours, theirs):
        for start in range(0, 300, 60):
            structure.insert(*load.batch(start, start + 60))
    who = contestant(Work.EQUI, rows=300, batch=50, matches=3.0)
    lows, highs = load.asked(who, 0)
    answers = [
        sorted(
            pair
            for positions, ids in structure.probe(lows - 9, highs)
            for pair in zip(positions.tolist(), ids.tolist(), strict=True)
        )
        for structure in (ours, theirs)
    ]
    assert answers[0] == answers[1] != []
    assert [part.tolist() for part in ours.dump()] == [part.tolist() for part in theirs.dump()]
    assert len(theirs) == 300
    check_stored("btrees", theirs, load.keys, scans=False, exact=300)


def test_filled_structures_are_kept_and_the_oldest_go() -> None:
    made: list[str] = []

    def count(who: Contestant) -> Any:
        made.append(who.structure)
        return make(who)

    stock = Stock(count)
    one, other = contestant(Work.BAND), contestant(Work.BAND, "sorted-runs")
    first = stock.full(one)
    assert len(first.structure) == 256
    assert stock.full(replace(one, batch=3, matches=9.0)) is first
    stock._filled._room = 1
    stock.full(other)
    assert stock.full(one) is not first
    assert made == ["b+tree", "sorted-runs", "b+tree"]


def test_growing_structures_start_half_full() -> None:
    stock, who = Stock(make), contestant(Work.INSERT)
    held = stock.growing(who, 128, 160)
    assert (held.count, len(held.structure)) == (128, 128)
    held.fill(150)
    assert stock.growing(who, 128, 160) is held
    held.fill(170)
    assert stock.growing(who, 128, 160).count == 128


# --- Figures -------------------------------------------------------------------------------------


def test_the_figures_are_those_that_were_asked_for() -> None:
    parts = {"10": "abcdef", "11": "abcdef", "12": "abcdef", "13": "ab", "14": "ab", "15": "abcdef"}
    wanted = [f"{number}{part}" for number, letters in parts.items() for part in letters]
    assert [name for name in FIGURES if name[0] == "1"] == wanted
    assert set(FIGURES) - set(wanted) == {"4", "leaves", "w1", "phases"}
    for figure in FIGURES.values():
        for sizes in (Sizes(), TINY):
            found = figure.cells(sizes)
            assert {cell.figure for cell in found} == {figure.name}
            for cell in found:
                labels = [who.label for who in cell.contestants]
                assert len(set(labels)) == len(labels) > 0
                assert all(who.batch <= who.rows for who in cell.contestants)


def test_the_sizes_are_those_of_the_paper() -> None:
    plan = PAPER.cells((), Sizes())
    bands = [who for cell in plan if cell.figure == "13b" for who in cell.contestants]
    assert {(who.rows, who.batch) for who in bands} == {(1 << 23, 1 << 15)}
    assert {who.place for who in bands} >= {1, 1 << 14}
    assert {who.label: who.output for who in bands} == {
        "rap-table": "pairs", "wib-tree": "pairs", "bi-sort": "ranges", "bi-sort, pairs": "pairs",
        "nested-loop": "pairs",
    }  # fmt: skip
    own = {cell.figure: cell.contestants[0] for cell in plan}
    assert dict(own["13a"].parameters)["partitions"] == 1 << 16
    assert (own["12f"].rows, own["15e"].rows) == (1 << 16, 1 << 23)
    assert dict(own["15e"].parameters)["subwindows"] == 16
    assert {who.rows for c in plan if c.figure == "w1" for who in c.contestants} == {
        1 << 20,
        1 << 23,
    }
    assert max(who.rows for cell in plan for who in cell.contestants) == 1 << 24


def test_figures_can_be_chosen() -> None:
    def chosen(*names: str) -> list[str]:
        return list(dict.fromkeys(cell.figure for cell in PAPER.cells(names, TINY)))

    assert chosen("13") == ["13a", "13b"]
    assert chosen("4", "14") == ["4", "14a", "14b"]
    assert chosen("leaves", "4") == ["4", "leaves"]
    with pytest.raises(RegistryError, match="Did you mean 'leaves'"):
        chosen("leafs")
    with pytest.raises(RegistryError, match="Storm; .*bench spark"):
        chosen("15g")


# --- Splitters -----------------------------------------------------------------------------------


def tables(figure: str) -> list[Contestant]:
    """Those of the real run, a quarter as large."""
    plan = [who for cell in PAPER.cells([figure], Sizes()) for who in cell.contestants]
    return [replace(who, rows=1 << 18) for who in plan]


@pytest.mark.parametrize("who", tables("10f"), ids=lambda who: who.label)
def test_the_paper_s_algorithm_adapts_to_each_distribution(who: Contestant) -> None:
    lines = splitters.adjusted(who, Table, 0)  # type: ignore[arg-type]
    assert len(lines) == splitters.ITERATIONS
    errors = [line["splitter_error"] for line in lines]
    assert errors[0] > 1.5
    if who.distribution == splitters.INCREASING:
        assert min(errors) > 1.5
        assert lines[0]["iterations"] == -1
    else:
        assert max(errors[3:]) < 0.1
        assert lines[0]["iterations"] <= 3


@pytest.mark.parametrize("who", tables("4"), ids=lambda who: who.settings)
def test_the_worst_case_stays_within_its_bound(who: Contestant) -> None:
    (line, *_) = splitters.adjusted(who, Table, 0)  # type: ignore[arg-type]
    assert 1 <= line["iterations"] <= line["bound"]
    assert line["iterations"] >= line["bound"] - 2, "it is meant to be bad"


def test_rank_size_keys_are_like_view_counts() -> None:
    (who, *_) = [who for who in tables("10f") if who.distribution == "rank-size"]
    keys = splitters.keys_of(replace(who, rows=1 << 20), 0, 0)
    assert np.mean(keys < 1e-4 * splitters.RANGE) == pytest.approx(0.99, abs=0.001)
    assert 0.003 < keys.max() / splitters.RANGE < 0.1
    assert np.bincount(keys).max() < 100, "equal keys do not decide"


@pytest.mark.parametrize("change", ["error", "lost", "short"])
def test_a_wrong_table_ends_the_run(change: str) -> None:
    def wrong(who: Contestant) -> Any:
        table = Table(who)
        if change == "error":
            table.splitters = table.splitters / 2
        elif change == "lost":
            table._expired = 1
            table.expire = lambda before: None  # type: ignore[method-assign]
        else:
            table._close = lambda: None  # type: ignore[method-assign]
        return table

    with pytest.raises(VerificationError, match="normal"):
        measured(PAPER.cells(["10f"], TINY)[:1], maker=wrong)


# --- Runs ----------------------------------------------------------------------------------------


def test_a_small_run_of_everything_is_verified() -> None:
    steps: list[str] = []
    results = measured(PAPER.cells((), TINY), say=steps.append)
    assert any("checking answers" in step for step in steps)
    assert {result.figure for result in results} == set(FIGURES)
    for result in results:
        if result.structure == "bi-sort-opencl" and not result.ran:
            continue  # there is no device
        assert result.ran, result.reason
        assert result.verified
        if result.work == "splitters":
            assert result.splitter_error > 0
        else:
            assert result.tuples_per_s > 0
            assert result.batches > 0
            assert result.checked_tuples >= result.tuples > 0
            assert result.index_bytes > 0
            assert (result.pairs > 0) == (result.work != "insert")
    shares = [r for r in results if r.figure == "15c" and r.ran and r.output == "rows"]
    assert any(r.result_share > 0 for r in shares)
    worst = [r for r in results if r.figure == "4"]
    assert {r.place for r in worst} == {16.0, 256.0}
    assert {r.place for r in results if r.figure == "10f"} == set(range(6))


def test_batches_that_nearly_fill_a_subwindow_start_with_less() -> None:
    who = [
        replace(contestant(Work.INSERT, rows=1024, batch=batch), label=str(batch), place=batch)
        for batch in (64, 256, 700, 1024)
    ]
    sizes = Sizes(seconds=10.0)  # so that each of three turns goes to its limit
    lines = measured([Cell("13a", tuple(who))], sizes)
    assert [line.tuples for line in lines] == [3 * 256, 3 * 256, 3 * 700, 3 * 1024]
    assert [line.batches for line in lines] == [12, 3, 3, 3]


class Wrong:
    """A structure that changes what it receives or what it returns."""

    def __init__(self, held: Any, change: str) -> None:
        self._held = held
        self._change = change
        self.nbytes = 1
        self.dump = held.dump
        self.expire = held.expire

    def __len__(self) -> int:
        return len(self._held)

    def insert(self, keys: Any, ids: Any) -> None:
        if self._change == "forget":
            keys, ids = keys[:-1], ids[:-1]
        elif self._change == "keys":
            keys = keys.copy()
            keys[-1] = 1 << 40
        elif self._change == "ids":
            ids = ids.copy()
            ids[0], ids[-1] = ids[-1], ids[0]
        self._held.insert(keys, ids)

    def probe(self, lows: Any, highs: Any) -> Iterator[tuple[Any, Any]]:
        chunks = list(self._held.probe(lows, highs))
        positions, ids = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        if self._change == "drop":
            positions, ids = positions[1:], ids[1:]
        elif self._change == "double":
            positions, ids = np.append(positions, positions[0]), np.append(ids, ids[0])
        elif self._change == "row":
            ids[0] += 1
        elif self._change == "box":
            positions[0] += 1
        yield positions, ids

    def ranges(self, lows: Any, highs: Any) -> Ranges:
        found: Ranges = self._held.ranges(lows, highs)
        starts, stops, ids = found.starts.copy(), found.stops.copy(), found.ids
        if self._change == "drop":
            starts[0] += 1
        elif self._change == "box":
            starts += 1
            stops += 1
        elif self._change == "row":
            ids = tuple(np.roll(part, 1) for part in ids)
        return Ranges(found.boxes, found.runs, starts, stops, ids)


def run_wrong(who: Contestant, change: str, figure: str = "13b") -> None:
    def wrong(made: Contestant) -> Any:
        return Wrong(make(made), change)

    (line,) = measured([Cell(figure, (who,))], maker=wrong)
    assert line.verified


@pytest.mark.parametrize("work", [Work.EQUI, Work.BAND, Work.SLIDE])
@pytest.mark.parametrize("change", ["drop", "double", "row", "box"])
def test_wrong_pairs_end_the_run(work: Work, change: str) -> None:
    run_wrong(contestant(work), "")
    with pytest.raises(VerificationError, match=r"b\+tree .* gave a wrong answer in batch 0"):
        run_wrong(contestant(work), change)


@pytest.mark.parametrize("change", ["drop", "row", "box"])
def test_wrong_ranges_end_the_run(change: str) -> None:
    who = contestant(Work.BAND, "sorted-runs", output="ranges", rows=4096)
    run_wrong(who, "")
    with pytest.raises(VerificationError, match="sorted-runs"):
        run_wrong(who, change)


@pytest.mark.parametrize("change", ["forget", "keys", "ids", "drop", "double", "row", "box"])
def test_rows_that_are_stored_wrongly_end_the_run(change: str) -> None:
    run_wrong(contestant(Work.INSERT), "", "13a")
    with pytest.raises(VerificationError, match=r"b\+tree"):
        run_wrong(contestant(Work.INSERT), change, "13a")


@pytest.mark.parametrize("output", ["rows", "count"])
def test_a_wrong_join_ends_the_run(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    who = contestant(Work.JOIN, "ordered", output=output)
    (line,) = measured([Cell("15b", (who,))])
    assert line.verified
    honest = Joining.step

    def wrong(self: Joining) -> bool:
        done = honest(self)
        last = self.digests[-1]
        if len(self.digests) == 3:
            self.digests[-1] = Digest(last.matches, last.checksum ^ 1)
        return done

    monkeypatch.setattr(Joining, "step", wrong)
    with pytest.raises(VerificationError, match="ordered .* gave a wrong answer in batch 2"):
        measured([Cell("15b", (who,))])
