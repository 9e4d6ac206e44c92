"""The experiments of the SSIJ paper: what is measured and how it is checked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetabench.contestant import Unavailable
from thetabench.digest import Digest, VerificationError
from thetabench.figure import Sizes
from thetabench.line import Line
from thetabench.ssij import load, stock, systems, trial
from thetabench.ssij.contestant import (
    Cell,
    Contestant,
    Device,
    Shape,
    Source,
    Stream,
    Table,
    Work,
)
from thetabench.ssij.course import SsijCourse
from thetabench.ssij.drive import Arrivals, Drive
from thetabench.ssij.figures import FIGURES
from thetabench.ssij.load import Rows, Truth, answer_digest, made_feed, made_table
from thetabench.ssij.paper import PAPER
from thetabench.ssij.peers import Answer, checksum
from thetabench.ssij.rates import burst, met, sustained
from thetabench.ssij.readplans import WAYS, wanted
from thetabench.ssij.stock import Stock
from thetastream.datasets.semi_stream import keyed_batches
from thetastream.errors import RegistryError, RelationError
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.disk.readplan import PLANS

from .ssij_fake import FakeJoin, make

TINY = Sizes(scale=1e-4, seconds=0.002)
SMALL = st.lists(st.integers(0, 8), max_size=12)
TABLE = Table(Source.UNIFORM, 900, 300)
ZIPF = Stream(Shape.ZIPF, 2000, 1.0)


def nothing(step: str) -> None:
    """Hear nothing."""


def cell(work: Work, *who: Contestant, figure: str = "3", **more: Any) -> Cell:
    about: dict[str, Any] = {"table": TABLE, "stream": ZIPF, "memory": 0.1, **more}
    own = who or (Contestant("ssij", "ssij", 1.0),)
    return Cell(figure, own, work=work, **about)


def measured(cells: list[Cell], folder: Path, maker: Any = stock.make) -> list[Line]:
    """The lines of a run whose relations are in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(trial, "make", maker)
        return [line for lines in PAPER.run(cells, TINY) for line in lines]


def keys_of(*values: int) -> Any:
    return np.array(values, np.int64)


# --- Data and right answers ----------------------------------------------------------------------


@given(SMALL, SMALL, st.integers(0, 12))
def test_the_truth_is_that_of_a_nested_loop(table: list[int], stream: list[int], rows: int) -> None:
    rows = min(rows, len(stream))
    pairs = [
        (i, j)
        for i, key in enumerate(stream[:rows])
        for j, other in enumerate(table)
        if key == other
    ]
    ids, rids = (keys_of(*(pair[n] for pair in pairs)) for n in (0, 1))
    truth = Truth(keys_of(*table), keys_of(*stream))
    batch = pa.record_batch({"id": ids, "rid": rids})
    assert truth.digest(rows) == answer_digest(batch)
    if pairs:
        other = batch.set_column(1, "rid", pa.array(np.append(rids[1:], rids[0] + 1)))
        assert truth.digest(rows) != answer_digest(other)
    assert truth.summed(0, rows) == (len(pairs), checksum(ids, rids))
    first = rows // 2
    late = [pair for pair in pairs if pair[0] >= first]
    ids, rids = (keys_of(*(pair[n] for pair in late)) for n in (0, 1))
    assert truth.summed(first, rows) == (len(late), checksum(ids, rids))


@given(st.integers(1, 40), st.integers(1, 9), st.data())
def test_slices_of_a_feed_are_its_rows(rows: int, batch: int, data: st.DataObject) -> None:
    keys = np.arange(rows)[::-1].copy()
    feed = Rows(keys, pa.Table.from_batches(keyed_batches(keys, batch_rows=batch)))
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    parts = feed.slice(start, stop)
    ids = [number for own in parts for number in own["id"].to_pylist()]
    assert ids == list(range(start, stop))
    assert [key for own in parts for key in own["key"].to_pylist()] == keys[start:stop].tolist()


@pytest.mark.parametrize("shape", [Shape.ZIPF, Shape.PERMUTED, Shape.LOCAL, Shape.SPREAD])
def test_streams_ask_for_keys_of_their_table(shape: Shape) -> None:
    feed = made_feed(Stream(shape, 5000, 1.0), TABLE, 0)
    assert feed.keys.size == 5000
    assert feed.keys.min() >= 0
    assert feed.keys.max() < TABLE.keys
    assert feed.table.schema.names == ["key", "id", "filler"]
    assert sum(field.type.bit_width for field in feed.table.schema) == 128 * 8


def test_frequent_keys_are_first_or_anywhere_or_move() -> None:
    counts = {
        shape: np.bincount(made_feed(Stream(shape, 5000, 1.0), TABLE, 0).keys, minlength=300)
        for shape in (Shape.ZIPF, Shape.PERMUTED)
    }
    assert counts[Shape.ZIPF].argmax() == 0
    assert sorted(counts[Shape.ZIPF]) == sorted(counts[Shape.PERMUTED])
    assert counts[Shape.PERMUTED].argmax() != 0
    local = made_feed(Stream(Shape.LOCAL, 5000, 1.0), TABLE, 0).keys
    edges = np.linspace(0, local.size, load.VISITED + 1).astype(int)[1:-1]
    parts = [part // (TABLE.keys // load.INTERVALS) for part in np.split(local, edges)]
    assert [(part.min(), part.max()) for part in parts] == [(n, n) for n in range(load.VISITED)]


def test_tables_have_the_keys_that_were_asked_for() -> None:
    assert np.bincount(made_table(Table(Source.REPEATED, 60, 20), 0).keys).tolist() == [3] * 20
    rows = made_table(TABLE, 0)
    assert rows.keys.max() < TABLE.keys
    assert rows.table.num_rows == TABLE.rows
    assert rows.table.schema.names == ["key", "rid", "filler"]


def test_real_data_join_by_their_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    zones = pa.table({"location_id": [5, 7, 9], "zone": ["a", "b", "c"]})
    trips = pa.table({"pickup_location_id": [7, None, 5], "fare": [1.0, 2.0, 3.0], "id": [0, 1, 2]})
    monkeypatch.setattr(load, "load_taxi_zones", lambda: zones)
    monkeypatch.setattr(load, "load_taxi_yellow_2019", lambda: trips)
    table = Table(Source.ZONES, 3, 3)
    rows, feed = made_table(table, 0), made_feed(Stream(Shape.TRIPS, 5), table, 0)
    assert feed.keys.tolist() == [7, -1, 5, 7, -1]
    assert Truth(rows.keys, feed.keys).digest(5).matches == 3
    assert rows.table.schema.names == ["key", "rid", "zone"]
    assert feed.table.schema.names == ["key", "id", "fare"]


def test_data_that_are_not_there_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THETASTREAM_DATA", raising=False)
    with pytest.raises(Unavailable, match="THETASTREAM_DATA"):
        made_table(Table(Source.ZONES, 265, 265), 0)


# --- The harness, with a join whose costs are known ----------------------------------------------


def fake(rows: int = 4000, **costs: Any) -> Drive:
    table = pa.table({"key": np.arange(50), "rid": np.arange(50)})
    keys = np.arange(rows) % 70
    clock = SimulatedClock(PROFILES["disk"])
    feed = Rows(keys, pa.Table.from_batches(keyed_batches(keys, batch_rows=512)))
    truth = Truth(np.arange(50), keys)
    return Drive("fake", FakeJoin(table, clock, **costs), clock, feed, truth, rows)


@given(
    st.floats(0.5, 1e4), st.floats(0, 5), st.floats(0, 5), st.floats(1, 3), st.integers(1, 10_000)
)
def test_a_row_has_come_at_its_moment(
    rate: float, begin: float, lasting: float, more: float, rows: int
) -> None:
    arrivals = Arrivals(rate, begin, lasting, more)
    moment = arrivals.moment(rows)
    assert arrivals.come(moment + 1e-9 * moment) in (rows, rows + 1)
    assert arrivals.come(moment - 2 / rate) < rows


@pytest.mark.parametrize("rows", [700, 4000])
def test_the_service_rate_is_that_of_the_phases(rows: int) -> None:
    drive = fake(rows, group=100, seconds=0.01)
    drive.serve()
    assert drive.offered == rows
    assert drive.seconds == pytest.approx(rows * 1e-4)
    assert drive.rate == pytest.approx(1e4, rel=0.02)


@pytest.mark.parametrize(("group", "room"), [(7, 9), (50, 10)])
def test_rows_that_do_not_fit_are_pushed(group: int, room: int) -> None:
    drive = fake(3000, group=group, room=room)
    drive.serve()
    assert drive.offered == 3000
    assert drive.join.pushed > 0  # type: ignore[attr-defined]


def test_wrong_answers_end_it() -> None:
    with pytest.raises(VerificationError, match="gave a wrong answer"):
        fake(wrong=True).serve()
    with pytest.raises(VerificationError, match="gave a wrong answer"):
        fake(wrong=True).arrive(Arrivals(100.0))


def test_slow_arrivals_are_borne_and_fast_ones_are_not() -> None:
    slow = fake(group=100, seconds=0.01, room=400)
    assert slow.arrive(Arrivals(5e3))
    assert slow.overflow is None
    assert not slow.grows
    assert slow.seconds == pytest.approx(4000 / 5e3, abs=0.02)
    fast = fake(group=100, seconds=0.01, room=400)
    assert not fast.arrive(Arrivals(2e4))
    # 1e4 rows a second are joined, 2e4 come, there is room for 400
    assert fast.overflow == pytest.approx(400 / 1e4, abs=0.015)


def test_what_waits_and_grows_is_not_sustained() -> None:
    drive = fake(rows=4000, group=50, seconds=0.01, room=100_000)
    assert drive.arrive(Arrivals(2e4))
    assert drive.grows


def test_the_rate_that_is_sustained_is_found() -> None:
    begun: list[Drive] = []

    def start(rate: float) -> Drive:
        begun.append(fake(rows=8000, group=100, seconds=0.01, room=350))
        return begun[-1]

    rate, drive = sustained(start, 1e4, nothing)
    assert 0.8e4 < rate <= 1.02e4
    assert drive.overflow is None
    assert all(one.join.closed for one in begun)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="no rate down to"):
        sustained(lambda rate: fake(rows=8000, seconds=1.0, room=150), 1e6, nothing)


def test_a_burst_lasts_until_memory_is_full() -> None:
    def start() -> Drive:
        return fake(rows=20_000, group=100, seconds=0.01, room=600)

    rate = 8e3
    seconds, drive = burst(start, rate, 1.7, nothing)
    assert drive.overflow is None
    # 13.6e3 come, 1e4 are joined: some 500 rows of room are full after 0.14 s
    assert 0.07 < seconds < 0.2
    more, _ = burst(start, rate, 1.5, nothing)
    assert more > seconds
    forever, _ = burst(start, rate, 1.1, nothing)
    assert forever == pytest.approx(10_000 / rate / 1.1), "it is below what can be joined"


def test_deadlines_are_counted_from_the_arrival_on() -> None:
    drive = fake(rows=1000, group=100, seconds=0.01, room=400)
    assert met(drive, 1.0) == 1.0, "no row came"
    assert drive.arrive(Arrivals(5e3, grain=1e-4))
    # 50 of 70 keys have matches; a group of 100 comes in 20 ms, and takes 10 ms
    assert drive.latencies.size == np.isin(np.arange(1000) % 70, np.arange(50)).sum()
    assert 0.01 <= drive.latencies.min() < 0.011
    assert 0.0295 < drive.latencies.max() < 0.0305
    assert met(drive, 0.04) == 1.0
    assert met(drive, 0.02) == pytest.approx(0.5, abs=0.05)


# --- Contestants ---------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stock]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = Stock(0)
    yield made
    made.close()
    assert list(tmp_path.iterdir()) == [], "nothing stays"


def test_a_budget_that_is_too_small_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **options: Any) -> Any:
        raise RelationError("needs 3 MB")

    monkeypatch.setitem(stock.KINDS, "ssij", refuse)
    (line,) = measured([cell(Work.SERVICE)], tmp_path)
    assert line.reason == "needs 3 MB"
    assert list(tmp_path.iterdir()) == [], "nothing stays"


def test_unknown_methods_are_refused(store: Stock) -> None:
    path = store.built(TABLE).path
    with pytest.raises(RegistryError, match="must be one of ssij"):
        stock.make(Contestant("x", "x", 1), path, 1 << 20, Device.DISK, pa.schema([]))


def test_relations_are_built_once_for_all_cells(store: Stock) -> None:
    first = store.built(TABLE)
    assert store.built(Table(*vars(TABLE).values())) is first
    assert store.built(Table(Source.UNIFORM, 900, 300, 0.5)).blocks > first.blocks
    assert first.rows == 900
    assert store.budget(cell(Work.SERVICE, memory=0.5)) >= first.nbytes // 2
    assert len(list(store.folder.iterdir())) == 2


# --- Read plans ----------------------------------------------------------------------------------


def test_read_plans_are_compared_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = [Contestant(way, way, 0.1) for way in WAYS]
    one = cell(Work.PLAN, *who, figure="plan", memory=0.1, table=Table(Source.UNIFORM, 2000, 2000))
    lines = measured([one], tmp_path)
    cost = {line.contestant: line.plan_cost_ms for line in lines}
    assert cost["optimal"] == pytest.approx(cost["shortest path"])
    assert cost["optimal"] <= cost["greedy"] <= cost["single"]
    assert all(line.verified and line.table_bytes == 0 for line in lines)
    large = replace(one, table=Table(Source.UNIFORM, 60_000, 60_000))
    reasons = {line.contestant: line.reason for line in measured([large], tmp_path)}
    assert [way for way, reason in reasons.items() if reason] == ["shortest path"]
    monkeypatch.setitem(PLANS, "optimal", PLANS["single"])
    with pytest.raises(VerificationError, match="cheaper than the optimal plan"):
        measured([one], tmp_path)


def test_a_shortest_path_that_is_not_shortest_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cell(Work.PLAN, *(Contestant(way, way, 0.1) for way in WAYS), figure="plan")
    monkeypatch.setitem(PLANS, "shortest-path", PLANS["single"])
    with pytest.raises(VerificationError, match="not as cheap as the optimum"):
        measured([one], tmp_path)


@given(st.integers(10, 400), st.floats(0.01, 0.9), st.integers(0, 5))
def test_wanted_blocks_are_those_of_the_table(blocks: int, share: float, seed: int) -> None:
    chosen = wanted(blocks, share, np.random.default_rng(seed))
    assert np.all(np.diff(chosen) > 0)
    assert chosen[0] >= 0
    assert chosen[-1] < blocks
    assert chosen.size <= max(2, int(blocks * share))


# --- Systems -------------------------------------------------------------------------------------


def test_a_database_answers_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    who = (Contestant("ssij", "ssij", 1.0), Contestant("sqlite", "sqlite", 1.0))
    one = cell(Work.SYSTEM, *who, figure="9", device=Device.DIRECT)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(trial, "make", make)
    course = SsijCourse(TINY)
    ours, theirs = (course.enter(one, own, nothing).columns for own in who)
    assert ours["matches"] == theirs["matches"] > 0
    assert theirs["tuples_per_s"] > 0
    assert theirs["tuples"] == ZIPF.rows
    course.check(one, [])
    (folder,) = tmp_path.iterdir()
    assert {path.suffix for path in folder.iterdir()} == {".rel"}
    monkeypatch.setattr(Truth, "summed", lambda self, start, stop: Digest(1, 2))
    with pytest.raises(VerificationError, match="sqlite .* gave a wrong answer"):
        course.enter(one, who[1], nothing)
    course.close()
    assert list(tmp_path.iterdir()) == []


def test_the_first_micro_batches_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = Contestant("spark-static", "spark-static", 1.0)
    one = cell(Work.SYSTEM, who, figure="spark", device=Device.DIRECT)
    right = Truth(made_table(TABLE, 0).keys, made_feed(ZIPF, TABLE, 0).keys)

    def joined(name: str, source: Path, key: str, batches: Any, *rest: Any, **more: Any) -> Any:
        assert source.exists()
        ends = [(own["id"][0].as_py(), own["id"][-1].as_py() + 1) for own in batches]
        return [Answer(*right.summed(*pair), 2.0) for pair in ends]

    monkeypatch.setattr(systems, "join_stream", joined)
    (line,) = measured([one], tmp_path)
    assert (line.verified, line.seconds) == (True, 8.0), "two of six are left out"
    assert line.tuples == pytest.approx(ZIPF.rows * 4 / 6, abs=1)
    assert line.tuples_per_s == line.tuples / 8.0
    assert "pyspark" in line.versions


# --- Figures -------------------------------------------------------------------------------------


def test_figures_are_those_of_the_paper() -> None:
    assert [name for name in FIGURES if name.isdigit()] == [str(n) for n in range(3, 17)]
    assert {"table3", "plan", "worst", "spark", "index"} < set(FIGURES)
    for figure in FIGURES.values():
        for sizes in (Sizes(), TINY):
            labels = [
                (who.label, who.place) for one in figure.cells(sizes) for who in one.contestants
            ]
            assert len(set(labels)) == len(labels) > 0
            assert {one.figure for one in figure.cells(sizes)} == {figure.name}


def test_the_settings_are_those_of_the_paper() -> None:
    plan = {name: figure.cells(Sizes()) for name, figure in FIGURES.items()}
    for name, shape in (("3", Shape.ZIPF), ("4", Shape.PERMUTED)):
        assert {one.memory for one in plan[name]} == {0.075}
        assert {one.stream.shape for one in plan[name]} == {shape}
        skews = {one.stream.skew for one in plan[name]}
        assert (min(skews), max(skews)) == (0.0, 1.0)
    for name in ("5", "6"):
        memories = {one.memory for one in plan[name]}
        assert (min(memories), max(memories)) == (0.01, 0.1)
    assert {one.table.rows // one.table.keys for one in plan["7"]} == {1, 10, 100, 400}
    assert {one.device for one in plan["9"]} == {Device.DIRECT}
    assert {one.table.rows for one in plan["spark"]} == {7_812_500}
    assert {who.place for one in plan["table3"] for who in one.contestants} == {10, 25, 50, 70}
    assert {one.work for one in plan["10"]} == {Work.SUSTAINED}
    assert {one.stream.shape for name in ("10", "12") for one in plan[name]} == {Shape.LOCAL}
    direct = [one for name in plan if name.endswith("-direct") for one in plan[name]]
    assert {one.device for one in direct} == {Device.DIRECT}
    assert {one.table.keys for one in plan["3"]} == {250_000}


def test_figures_can_be_chosen() -> None:
    names = dict.fromkeys(one.figure for one in PAPER.cells(["worst", "8"], TINY))
    assert list(names) == ["8", "worst"]
    with pytest.raises(RegistryError, match="a picture of the algorithm"):
        PAPER.cells(["2"], TINY)


# --- Runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    folder = tmp_path_factory.mktemp("run")
    own = [
        one
        for name in ("3", "7", "10", "16", "table3", "plan", "index", "worst")
        for one in FIGURES[name].cells(TINY)[:1]
    ]
    return measured(own, folder, make)


def test_a_small_run_makes_lines(small_run: list[Line]) -> None:
    assert {line.figure for line in small_run} == {
        "3", "7", "10", "16", "table3", "plan", "index", "worst",
    }  # fmt: skip
    assert [line.reason for line in small_run if not line.ran] == []
    for line in small_run:
        for column in FIGURES[line.figure].measures:
            assert getattr(line, column) >= 0
        assert line.verified == (line.figure != "index")
        assert "numba" in line.versions
    rates = {line.contestant: line.tuples_per_s for line in small_run if line.figure == "3"}
    assert rates["ssij"] == pytest.approx(1e4, rel=0.05)
    (line,) = (line for line in small_run if line.figure == "16")
    assert line.met_share == 1.0
    assert line.tuples_per_s > 0.7e4
    bursts = [line.burst_ms for line in small_run if line.figure == "table3"]
    assert bursts == sorted(bursts, reverse=True)
    fences = [line.index_mb_10gb for line in small_run if line.figure == "index"]
    assert all(0 < size < 100 for size in fences)


def test_who_cannot_run_has_a_line_that_says_why(tmp_path: Path) -> None:
    def refuse(*given: Any) -> Any:
        raise Unavailable("not here")

    (line,) = measured([cell(Work.SERVICE)], tmp_path, refuse)
    assert (line.status, line.reason, line.verified) == ("not run", "not here", False)


def test_an_empty_answer_has_an_empty_digest() -> None:
    empty = pa.record_batch({"id": pa.array([], pa.int64()), "rid": pa.array([], pa.int64())})
    assert answer_digest(empty) == Digest(0, 0)


def test_cells_of_all_figures_come_in_their_order() -> None:
    names = [one.figure for one in PAPER.cells((), TINY)]
    assert list(dict.fromkeys(names)) == list(FIGURES)


def test_rows_that_wait_to_the_end_are_paid_for() -> None:
    """Most rows are answered at once; the others make one long phase, at the end."""
    drive = fake(4000, group=100, seconds=0.01, room=100_000)
    drive.join._group = 3000  # type: ignore[attr-defined]
    drive.serve()
    assert drive.rate == pytest.approx(4000 / drive.seconds)
