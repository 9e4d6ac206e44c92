"""The experiments of the Ordered Indexing paper: what is measured and how it is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thetastream as ts
from thetabench.digest import VerificationError
from thetabench.figure import Contestant, Sizes
from thetabench.line import Line
from thetabench.ordered import course, matches, questions
from thetabench.ordered.code import code_lines
from thetabench.ordered.contestant import STRUCTURES, Cell, Work
from thetabench.ordered.expiring import DROP, ONE_BY_ONE
from thetabench.ordered.figures import FIGURES
from thetabench.ordered.growing import FIRST_NEXT, FLAT
from thetabench.ordered.load import COLUMNS, WINDOW, Keys, Load, Minutes, Truth
from thetabench.ordered.paper import PAPER
from thetabench.ordered.questions import Window
from thetabench.structures import made
from thetastream.errors import RegistryError

TINY = Sizes(scale=1e-4, seconds=0.002)
FOREIGN = "judy"
"""It needs a library that is not everywhere."""
SMALL = st.integers(0, 40)


def cell(figure: str, work: Work, structure: str = "sorted-runs", **more: Any) -> Cell:
    parameters = tuple(more.pop("parameters", {}).items())
    who = Contestant(more.pop("label", structure), structure, more.pop("place", 300), parameters)
    about: dict[str, Any] = {"keys": Keys.ROAD, "size": 300, **more}
    return Cell(figure, (who,), work=work, **about)


def grown(figure: str, structure: str = "sorted-runs", **more: Any) -> Cell:
    (measure,) = FIGURES[figure].measures
    step = 100 if measure == "ns_insert" else 0
    return cell(figure, Work.GROW, structure, measure=measure, step=step, **more)


def measured(*plan: Cell) -> list[Line]:
    return [line for lines in PAPER.run(plan, TINY) for line in lines]


# --- Keys and right answers ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", Keys)
def test_keys_occur_once_and_a_smaller_run_has_the_first_of_them(kind: Keys) -> None:
    load = Load(kind, 3000, 0)
    assert load.keys.size == np.unique(load.keys).size == 3000
    assert load.keys.min() >= 0
    assert load.keys.max() < 1 << 32
    keys, ids = load.batch(10, 20)
    assert np.array_equal(load.keys[ids], keys)


@pytest.mark.parametrize("kind", Keys)
def test_ranges_are_those_of_the_paper(kind: Keys) -> None:
    lows, highs = Load(kind, 2000, 0).ranges(np.random.default_rng(0))
    if kind is Keys.ROAD:
        assert lows.size == 100
        assert np.all(highs - lows == (1 << 20) - 1)
        assert np.all(lows % (1 << 20) == 0)
    else:
        assert (highs - lows + 1).tolist() == [(1 << 32) // 10]


@given(st.lists(SMALL, unique=True), st.lists(st.tuples(SMALL, SMALL), min_size=1))
def test_the_truth_counts_and_adds_up_like_a_loop(
    keys: list[int], boxes: list[tuple[int, int]]
) -> None:
    ids = np.argsort(np.array(keys, np.int64))
    truth = Truth(np.array(keys, np.int64)[ids], ids)
    lows, highs = np.array(boxes).T
    inside = [[n for n, key in enumerate(keys) if low <= key <= high] for low, high in boxes]
    assert truth.counts(lows, highs).tolist() == [len(found) for found in inside]
    assert truth.sums(lows, highs).tolist() == [sum(found) for found in inside]
    pieces = truth.pieces()
    assert truth.counts(*pieces).sum() == len(keys)
    assert np.all(pieces[0][1:] == pieces[1][:-1] + 1)


def test_a_truth_is_that_of_the_first_keys() -> None:
    load = Load(Keys.RANDOM, 500, 0)
    everything = np.array([0]), np.array([1 << 32])
    assert load.truth(200).counts(*everything) == 200
    assert load.truth(200).sums(*everything) == sum(range(200))


def test_minutes_have_as_many_reports_as_were_asked_for() -> None:
    minutes = Minutes(400, WINDOW, 0)
    assert len(minutes.batches) == WINDOW
    assert minutes.batches[0].num_rows >= 400
    times = [np.unique(batch["time"].to_numpy() // 60) for batch in minutes.batches]
    assert [found.size for found in times] == [1] * WINDOW
    assert np.all(np.diff(np.concatenate(times)) == 1)
    window = Window(minutes)
    rows = window.table.select(COLUMNS).to_pylist()
    last = rows[window.last :]
    assert {row["time"] // 60 for row in last} == {times[-1][0]}

    rng = np.random.default_rng(0)
    vehicles = window.vehicles(rng, 20)
    newest = [
        [r["speed"] for r in last if (r["xway"], r["dir"], r["seg"], r["vid"]) == one][-1]
        for one in vehicles
    ]
    assert window.speeds(vehicles)[0].tolist() == newest
    segments = [*window.segments(rng, 20), vehicles[0][:3]]
    speeds = [
        [r["speed"] for r in rows if (r["xway"], r["dir"], r["seg"]) == one] for one in segments
    ]
    found, met = window.averages(segments)
    assert met == sum(map(len, speeds)) > 0
    expected = [np.mean(own) if own else np.nan for own in speeds]
    assert np.allclose(found, expected, equal_nan=True)


def test_the_right_aggregates_are_those_of_a_nested_loop() -> None:
    feed = matches.Feed(300, 3.0, 0)
    width = feed.query.terms[0].width
    for step in (0, 2):
        answer, met = feed.answer(step)
        start = step * feed.batch
        rows = feed.right.slice(start, 300).to_pylist()
        total = 0
        for place, left in enumerate(feed.lefts(step)["x"].to_pylist()):
            own = [row["value"] for row in rows if abs(row["x"] - left) <= width]
            total += len(own)
            assert answer["n"][place] == len(own)
            if own:
                assert answer["avg"][place] == pytest.approx(np.mean(own), rel=1e-12)
                assert answer["lo"][place] == min(own)
            else:
                assert np.isnan(answer["avg"][place])
                assert np.isnan(answer["lo"][place])
        assert met == total > 0
    assert (np.concatenate([feed.answer(n)[0]["n"] for n in range(3)]) == 0).any()


# --- Figures -------------------------------------------------------------------------------------


def test_figures_are_those_of_the_paper() -> None:
    assert [name for name in FIGURES if name.isdigit()] == [str(n) for n in range(4, 14)]
    for figure in FIGURES.values():
        for sizes in (Sizes(), TINY):
            for one in figure.cells(sizes):
                assert one.figure == figure.name
                labels = [(who.label, who.place) for who in one.contestants]
                assert len(set(labels)) == len(labels) > 0


def test_the_sizes_are_those_of_the_paper() -> None:
    plan = {name: figure.cells(Sizes()) for name, figure in FIGURES.items()}
    million = 1_000_000
    for name in map(str, range(4, 13)):
        steps = {one.step for one in plan[name]}
        assert steps == ({million // 2} if name in ("4", "5") else {0})
        sizes = [one.size for one in plan[name]]
        assert {1, 2, 4, 8, 16} <= {size // million for size in sizes}
        structures = {who.structure for who in plan[name][0].contestants} - {FLAT}
        left_out = {"8": {"csb+tree"}, "9": set(STRUCTURES) - {"b-tree", "csb+tree"}}
        assert structures == set(STRUCTURES) - left_out.get(name, set())
    assert {one.size // million for one in plan["13"]} == {1, 2, 4, 8, 16}
    assert {(one.size, who.place) for one in plan["q2"] for who in one.contestants} == {
        (million, 1),
        (million, 100),
    }
    assert max(one.rate for one in plan["aggregate"]) == 1_000
    rooms = {who.place for one in plan["node-size"] for who in one.contestants}
    assert (min(rooms), max(rooms)) == (256, 4096)
    assert {one.step for one in plan["node-size"]} == {0, million // 2}


def test_an_index_grows_once_for_all_figures_with_its_keys() -> None:
    plan = PAPER.cells(["4", "5", "6", "8", "9", "11"], TINY)
    assert [one.scene for one in plan] == sorted(one.scene for one in plan)
    road = [one for one in plan if one.keys is Keys.ROAD]
    assert [one.size for one in road] == sorted(one.size for one in road)
    assert [one.figure for one in road] == ["4", "6", "8", "9", "11"] * (len(road) // 5)
    asked = PAPER.cells(["q1", "q2"], TINY)
    assert [one.figure for one in asked] == ["q1", "q1", "q2", "q2"]
    assert {one.scene for one in asked} == {"questions"}
    assert PAPER.cells(["table1"], TINY) == PAPER.cells([str(n) for n in range(4, 13)], TINY)


def test_structures_are_made_once_and_filled_up_to_every_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def counted(name: str, *about: Any) -> Any:
        asked.append(name)
        return made(name, *about)

    monkeypatch.setattr(course, "made", counted)
    sizes = Sizes(scale=1e-3, seconds=0.0)
    plan = PAPER.cells(["4", "6", "9", "11"], sizes)
    lines = [line for lines in PAPER.run(plan, sizes) for line in lines]
    assert {name: asked.count(name) for name in STRUCTURES if name != FOREIGN} == dict.fromkeys(
        (name for name in STRUCTURES if name != FOREIGN), 1
    )
    assert all(line.checked for line in lines if line.ran)


def test_figures_can_be_chosen() -> None:
    assert [one.figure for one in PAPER.cells(["q2", "8"], Sizes(1e-6))] == ["8", "q2", "q2"]
    with pytest.raises(RegistryError, match="Did you mean 'node-size'"):
        PAPER.cells(["node-sise"], TINY)


def test_code_that_rivals_share_is_not_counted() -> None:
    alone = code_lines("zoned-runs", ["zoned-runs", "no-such"])
    assert alone > code_lines("zoned-runs", ["zoned-runs", "sorted-runs"]) > 0


# --- Runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run() -> list[Any]:
    return measured(*PAPER.cells((), TINY))


def test_a_small_run_of_everything_is_verified(small_run: list[Any]) -> None:
    assert {result.figure for result in small_run} == set(FIGURES)
    for result in small_run:
        if FOREIGN in result.structure and not result.ran:
            assert FOREIGN in result.reason
            continue
        assert result.ran, (result.contestant, result.reason)
        assert result.verified
        assert result.checked > 0
        for column in FIGURES[result.figure].measures:
            if column != "free_ms":
                assert getattr(result, column) > 0, (result.figure, result.contestant, column)


def test_every_figure_has_its_contestants(small_run: list[Any]) -> None:
    found: dict[str, set[str]] = {}
    for result in small_run:
        found.setdefault(result.figure, set()).add(result.contestant)
    assert found["4"] == found["5"] == found["6"] == found["7"] == set(STRUCTURES)
    assert found["8"] == {*STRUCTURES, FLAT} - {"csb+tree"}
    assert found["9"] == {"b-tree", "csb+tree", FLAT}
    assert found["10"] == {*STRUCTURES, FLAT}
    assert found["11"] == found["12"] == {*STRUCTURES, f"radix-trie, {FIRST_NEXT}"}
    ways = {
        f"{inner}, {way}"
        for inner in ("b-tree", "radix-trie", FOREIGN)
        for way in (ONE_BY_ONE, DROP)
    }
    assert found["13"] == ways
    assert found["q1"] == found["q2"] == set(questions.ASKED)
    assert found["aggregate"] == set(matches.MATCHED)
    flat = [r.bytes_per_pair for r in small_run if r.contestant == FLAT]
    assert set(flat) == {16.0}


def test_lines_of_a_step_say_what_was_done(small_run: list[Any]) -> None:
    own = [r for r in small_run if r.contestant == "sorted-runs"]
    by_figure = {figure: [r for r in own if r.figure == figure] for figure in FIGURES}
    assert [r.size for r in by_figure["4"]] == [1e6 * r.place for r in by_figure["4"]]
    assert by_figure["6"][-1].tuples >= 256
    for line in by_figure["12"]:
        assert line.rows_per_range == pytest.approx(line.size / 10, rel=0.5)
        assert line.ns_row * line.rows_per_range == pytest.approx(1e3 * line.us_range)


def test_q1_meets_one_report_and_q2_those_of_a_segment(small_run: list[Any]) -> None:
    for result in small_run:
        if result.figure == "q1":
            assert result.matches == result.tuples
        elif result.figure == "q2" and result.place == 100:
            assert result.matches != result.tuples


class Wrong:
    """A structure that changes what it is given or what it gives."""

    def __init__(self, held: Any, change: str) -> None:
        self._held = held
        self._change = change
        self.nbytes = 1
        self.timed = held.timed
        self.probe = held.probe

    def __len__(self) -> int:
        return len(self._held) + (self._change == "length")

    def insert(self, keys: Any, ids: Any, *times: Any) -> None:
        if self._change == "forget":
            keys, ids, times = keys[:-1], ids[:-1], tuple(one[:-1] for one in times)
        elif self._change == "keys":
            keys = np.append(keys[:-1], keys[-1] ^ (1 << 31))
        self._held.insert(keys, ids, *times)

    def expire(self, before: int) -> None:
        self._held.expire(before - (self._change == "stay"))

    def find(self, keys: Any) -> Any:
        found = np.full(keys.size, -1, np.int64)
        for positions, ids in self.probe(keys, keys):
            found[positions] = ids
        if self._change == "found":
            found[-1] += 1
        return found

    def map(self, lows: Any, highs: Any, mapping: str) -> Any:
        found = self._held.map(lows, highs, mapping)
        if self._change == "sum":
            found[-1] += 1
        return found


def run_wrong(one: Cell, change: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "made", lambda *about: Wrong(made(*about), change))
        (line,) = measured(one)
    assert line.verified


@pytest.mark.parametrize(
    ("figure", "change"),
    [
        *(("4", change) for change in ("forget", "keys", "sum")),
        *(("6", change) for change in ("forget", "keys", "found")),
        *(("8", change) for change in ("forget", "keys", "sum")),
        *(("11", change) for change in ("forget", "keys", "sum")),
    ],
)
def test_wrong_answers_end_the_run(figure: str, change: str) -> None:
    run_wrong(grown(figure), "")
    with pytest.raises(VerificationError, match="sorted-runs .* gave a wrong answer"):
        run_wrong(grown(figure), change)


@pytest.mark.parametrize("change", ["forget", "keys", "stay", "sum"])
def test_a_window_that_does_not_move_right_ends_the_run(change: str) -> None:
    one = cell("ptwi", Work.WINDOW, size=256)
    run_wrong(one, "")
    with pytest.raises(VerificationError, match="sorted-runs .* gave a wrong answer"):
        run_wrong(one, change)


@pytest.mark.parametrize("change", ["stay", "length", "forget"])
def test_an_index_that_is_not_emptied_ends_the_run(change: str) -> None:
    one = cell("13", Work.DELETE, "ptwi/sorted-runs", parameters={"subwindows": 5, "stride": 300})
    run_wrong(one, "")
    with pytest.raises(VerificationError, match="ptwi/sorted-runs .* holds .* rows"):
        run_wrong(one, change)


def test_rows_that_cannot_be_removed_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell("13", Work.DELETE, "b-tree")
    assert measured(one)[0].verified
    kind = ts.index.structure("b-tree")
    honest = kind.remove  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "remove", lambda self, keys, ids: honest(self, keys[1:], ids[1:]))
    with pytest.raises(VerificationError, match="b-tree .* removed 299 of 300 rows"):
        measured(one)


@pytest.mark.parametrize("figure", ["q1", "q2"])
def test_a_wrong_answer_to_a_question_ends_the_run(
    figure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cell(figure, Work.QUESTION, "polars", size=256, place=3)
    assert measured(one)[0].verified
    honest = getattr(questions.Polars, figure)
    monkeypatch.setattr(questions.Polars, figure, lambda self, asked: honest(self, asked) + 1)
    with pytest.raises(VerificationError, match="polars .* gave a wrong answer"):
        measured(one)


@pytest.mark.parametrize("column", ["n", "avg", "lo"])
def test_a_wrong_aggregate_ends_the_run(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell("aggregate", Work.AGGREGATE, "polars", size=256, rate=4.0)
    assert measured(one)[0].verified
    honest = matches.PolarsGrouped.left

    def wrong(self: Any, rows: Any) -> Any:
        found = honest(self, rows)
        values = found[column].to_numpy().copy()
        values[0] += 1
        return found.set_column(found.schema.names.index(column), column, pa.array(values))

    monkeypatch.setattr(matches.PolarsGrouped, "left", wrong)
    with pytest.raises(VerificationError, match=f"polars .* in batch 0: {column} of row"):
        measured(one)


def test_what_cannot_be_run_says_why() -> None:
    found = measured(
        grown("4", "no-such"),
        grown("4", parameters={"leafs": 3}),
        cell("13", Work.DELETE, "ptwi/no-such"),
    )
    assert [line.status for line in found] == ["not run"] * 3
    assert found[0].reason == "there is no structure no-such"
    assert "no parameter 'leafs'" in found[1].reason
    assert found[2].reason == "there is no structure ptwi/no-such"


def test_a_peer_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, one in (
        (questions, cell("q2", Work.QUESTION, "polars", size=256, place=1)),
        (matches, cell("aggregate", Work.AGGREGATE, matches.MATCHED[2], size=256, rate=4.0)),
    ):
        real = module.optional

        def missing(name: str, real: Any = real) -> Any:
            return real("no_such_package" if name == "polars" else name)

        monkeypatch.setattr(module, "optional", missing)
        (line,) = measured(one)
        assert line.status == "not run"
        assert "no_such_package is not installed" in line.reason
