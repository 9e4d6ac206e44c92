"""Linear Road of our own making: what every trip keeps to, accidents, growth, cuts, keys."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.datasets import (
    linear_road_batches,
    linear_road_keys,
    linear_road_table,
    load_lrb,
    lrb_keys,
    random_keys,
    road_key,
)
from thetastream.datasets.linear_road import COLUMNS
from thetastream.datasets.traffic import FEET, VIDS, TrafficSimulation
from thetastream.errors import DataError

from ..scale import scaled

Trips = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return linear_road_table(1_500, expressways=2, rate=120, accidents=30, seed=5)


@pytest.fixture(scope="module")
def trips(table: pa.Table) -> Trips:
    """The position reports by trip and time; ``new`` marks the first of a trip."""
    reports = table.filter(pc.equal(table["type"], 0))
    order = [("xway", "ascending"), ("vid", "ascending"), ("time", "ascending")]
    columns = {
        name: reports.sort_by(order)[name].to_numpy() for name in (*COLUMNS[1:9], COLUMNS[-1])
    }
    trip = columns["xway"] * VIDS + columns["vid"]
    return {**columns, "new": np.diff(trip, prepend=-1) != 0}


def steps(trips: Trips, name: str) -> NDArray[np.int64]:
    """Differences of a column from report to report within a trip."""
    return np.diff(trips[name])[~trips["new"][1:]]


def before(trips: Trips, name: str) -> NDArray[np.int64]:
    return trips[name][:-1][~trips["new"][1:]]


def after(trips: Trips, name: str) -> NDArray[np.int64]:
    return trips[name][1:][~trips["new"][1:]]


def test_columns_and_types(table: pa.Table) -> None:
    assert table.column_names == list(COLUMNS)
    assert all(field.type == pa.int64() for field in table.schema)
    assert table["id"].to_pylist() == list(range(table.num_rows))
    assert all(column.null_count == 0 for column in table.columns)


def test_rows_are_in_order_of_time(table: pa.Table) -> None:
    times = table["time"].to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 1_500


def test_every_vehicle_reports_every_30_seconds_until_it_leaves(trips: Trips) -> None:
    assert set(steps(trips, "time").tolist()) == {30}
    last = np.append(trips["new"][1:], True)
    gone = trips["lane"][last] == 4
    assert gone.any()
    assert (trips["time"][last][~gone] >= 1_470).all()


def test_the_segment_is_the_position_and_the_lane_tells_entry_and_exit(trips: Trips) -> None:
    np.testing.assert_array_equal(trips["seg"], trips["pos"] // FEET)
    assert trips["pos"].min() >= 0
    assert trips["pos"].max() < 100 * FEET
    assert (trips["lane"][trips["new"]] == 0).all()
    assert (trips["speed"][trips["new"]] == 10).all()
    assert (before(trips, "lane") < 4).all()  # whoever is in lane 4 reports no more
    back = (after(trips, "lane") == 0) & (before(trips, "lane") > 0)
    assert not back.any()
    assert set(trips["lane"].tolist()) == {0, 1, 2, 3, 4}


def test_a_trip_has_one_direction_and_goes_that_way(trips: Trips) -> None:
    assert not steps(trips, "dir").any()
    ahead = np.where(before(trips, "dir") == 0, 1, -1) * steps(trips, "pos")
    assert (ahead >= 0).all()
    assert set(trips["dir"].tolist()) == {0, 1}


def test_positions_move_by_the_mean_of_both_speeds(trips: Trips) -> None:
    was, now = before(trips, "speed"), after(trips, "speed")
    moved = np.abs(steps(trips, "pos"))
    wrong = np.abs(moved - 22 * (was + now))
    crash = (now == 0) & (was > 0)
    assert crash.any()
    assert not wrong[~crash].any()
    assert (wrong[crash] <= 22 * was[crash]).all()


def test_accidents_are_two_vehicles_at_one_place_for_four_reports_or_more(trips: Trips) -> None:
    stands = trips["speed"] == 0
    place = np.stack([trips[name][stands] for name in ("xway", "dir", "pos", "lane")], axis=1)
    vehicle = trips["xway"][stands] * VIDS + trips["vid"][stands]
    places, of = np.unique(place, axis=0, return_inverse=True)
    assert len(places) > 10
    complete = 0
    for number in range(len(places)):
        here = of == number
        times = trips["time"][stands][here]
        who, reports = np.unique(vehicle[here], return_counts=True)
        assert who.size == 2
        if times.min() < 1_500 - 20 * 30:
            assert (reports >= 4).all()
            assert (reports <= 20).all()
            complete += 1
    assert complete > 5


def test_traffic_slows_down_before_an_accident() -> None:
    calm = linear_road_table(1_200, rate=600, accidents=0, seed=2, positions=True)
    jammed = linear_road_table(1_200, rate=600, accidents=12, seed=2, positions=True)
    stands = jammed.filter(pc.equal(jammed["speed"], 0)).slice(0, 1).to_pylist()[0]
    assert pc.sum(pc.equal(calm["speed"], 0)).as_py() == 0

    def mean(table: pa.Table, segments: range) -> float:
        near = pc.and_(
            pc.and_(
                pc.equal(table["dir"], stands["dir"]), pc.is_in(table["seg"], pa.array(segments))
            ),
            pc.and_(
                pc.greater(table["time"], stands["time"] + 60),
                pc.less(table["time"], stands["time"] + 240),
            ),
        )
        travels = pc.and_(near, pc.greater(table["lane"], 0))
        speeds = table.filter(pc.and_(travels, pc.greater(table["speed"], 0)))["speed"]
        return float(pc.mean(speeds).as_py())

    back = -1 if stands["dir"] == 0 else 1
    segments = range(stands["seg"], stands["seg"] + 5 * back, back)
    assert mean(jammed, segments) < 0.75 * mean(calm, segments)


def test_traffic_grows() -> None:
    table = linear_road_table(1_200, rate=100, growth=3.0, positions=True)
    entered = table.filter(pc.and_(pc.equal(table["lane"], 0), pc.equal(table["speed"], 10)))
    vids = entered["vid"].to_numpy()
    times = entered["time"].to_numpy()[np.unique(vids, return_index=True)[1]]
    per_minute = np.bincount(times // 60, minlength=20)
    assert per_minute[0] == pytest.approx(100, abs=3)
    assert per_minute[-1] == pytest.approx(100 * (1 + 3 * 19.5 / 60), abs=3)
    reports = np.bincount(table["time"].to_numpy() // 60)
    assert (np.diff(reports) > 0).all()


def test_vehicles_are_numbered_in_order_of_entry(table: pa.Table) -> None:
    for xway in (0, 1):
        rows = table.filter(pc.equal(table["xway"], xway))["vid"].to_numpy()
        first = rows[np.sort(np.unique(rows, return_index=True)[1])]
        np.testing.assert_array_equal(first, np.arange(first.size))


def test_a_question_follows_a_report_and_repeats_it(table: pa.Table) -> None:
    rows = {name: table[name].to_numpy() for name in COLUMNS}
    asks = np.flatnonzero(rows["type"] != 0)
    for name in ("time", "vid", "speed", "xway", "lane", "dir", "seg", "pos"):
        np.testing.assert_array_equal(rows[name][asks], rows[name][asks - 1])
    assert (rows["type"][asks - 1] == 0).all()
    np.testing.assert_array_equal(rows["qid"][asks], np.arange(asks.size))
    kinds = rows["type"][asks]
    assert set(kinds.tolist()) == {2, 3}
    days = rows["day"][asks]
    assert (days[kinds == 2] == -1).all()
    assert ((days[kinds == 3] >= 1) & (days[kinds == 3] <= 69)).all()
    assert asks.size / table.num_rows == pytest.approx(0.006, rel=0.3)
    for name in ("sinit", "send", "dow", "tod"):
        assert (rows[name] == -1).all()
    plain = rows["type"] == 0
    assert (rows["qid"][plain] == -1).all()
    assert (rows["day"][plain] == -1).all()


def test_positions_alone_are_the_same_reports(table: pa.Table) -> None:
    alone = linear_road_table(
        1_500, expressways=2, rate=120, accidents=30, seed=5, positions=True, columns=COLUMNS[:-1]
    )
    assert alone.equals(table.filter(pc.equal(table["type"], 0)).select(alone.column_names))


def test_seed_and_seconds() -> None:
    def make(seconds: int, seed: int) -> pa.Table:
        return linear_road_table(seconds, rate=60, accidents=20, seed=seed)

    whole = make(400, 1)
    assert whole.equals(make(400, 1))
    assert not whole.equals(make(400, 2))
    short = make(217, 1)
    assert 0 < short.num_rows < whole.num_rows
    assert whole.slice(0, short.num_rows).equals(short)
    assert make(0, 1).num_rows == 0


@settings(deadline=None, max_examples=scaled(25))
@given(every=st.integers(1, 400), seconds=st.integers(0, 310), rate=st.sampled_from([0.5, 40]))
def test_any_cut_gives_the_same_rows(every: int, seconds: int, rate: float) -> None:
    batches = list(linear_road_batches(every, seconds=seconds, rate=rate, seed=3))
    assert len(batches) == -(-seconds // every)
    for number, batch in enumerate(batches):
        assert set(pc.divide(batch["time"], every).to_pylist()) <= {number}
    whole = linear_road_table(seconds, rate=rate, seed=3)
    assert pa.Table.from_batches(batches, whole.schema).combine_chunks().equals(whole)


def test_batches_without_an_end() -> None:
    names = ["seg", "time"]
    endless = linear_road_batches(45, rate=30, columns=names)
    found = pa.Table.from_batches(islice(endless, 4))
    assert found.column_names == names
    assert found.combine_chunks().equals(linear_road_table(180, rate=30, columns=names))


def test_keys_are_the_first_reports_of_the_table() -> None:
    table = linear_road_table(600, expressways=3, rate=90, accidents=0, seed=4, positions=True)
    names = ("xway", "dir", "seg", "vid")
    packed = road_key(*(table[name].to_numpy() for name in names)).tolist()
    expected = list(dict.fromkeys(packed))
    keys = linear_road_keys(len(expected), seed=4, expressways=3, rate=90)
    assert keys.tolist() == expected
    assert linear_road_keys(7, seed=4, expressways=3, rate=90).tolist() == expected[:7]
    assert linear_road_keys(0).size == 0


def test_keys_stay_different_when_vehicle_numbers_are_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("traffic", "linear_road"):
        monkeypatch.setattr(f"thetastream.datasets.{module}.VIDS", 4_096)
    keys = linear_road_keys(140_000, expressways=1, rate=20, growth=0)
    assert keys.size == np.unique(keys).size == 140_000
    assert (keys & (VIDS - 1)).max() == 4_095


def test_a_key_keeps_the_order_of_its_fields() -> None:
    fields = [(x, d, s, v) for x in (0, 1, 15) for d in (0, 1) for s in (0, 1, 99) for v in (0, 7)]
    keys = road_key(*np.array(fields).T)
    assert (np.diff(keys) > 0).all()
    assert road_key(15, 1, 127, VIDS - 1) == 2**32 - 1
    assert road_key(1, 0, 0, 0) == 1 << 28
    assert road_key(0, 1, 0, 0) == 1 << 27
    assert road_key(0, 0, 1, 0) == 1 << 20


@settings(deadline=None)
@given(bits=st.integers(1, 62), share=st.floats(0, 0.5), seed=st.integers(0, 3))
def test_random_keys_are_different_and_in_range(bits: int, share: float, seed: int) -> None:
    count = int(share * min(1 << bits, 200))
    keys = random_keys(count, seed=seed, bits=bits)
    assert len(set(keys.tolist())) == keys.size == count
    assert all(0 <= key < 1 << bits for key in keys.tolist())
    assert keys.tolist() == random_keys(count, seed=seed, bits=bits).tolist()


def test_random_keys_are_uniform() -> None:
    parts = np.bincount(random_keys(64_000) >> 29, minlength=8)
    assert np.abs(parts / 8_000 - 1).max() < 0.05


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear_road_table(expressways=17), "1 to 16 expressways"),
        (lambda: linear_road_table(expressways=0), "1 to 16 expressways"),
        (lambda: linear_road_table(rate=0), "rate above 0"),
        (lambda: linear_road_table(growth=-1), "growth"),
        (lambda: linear_road_table(accidents=121), "per expressway and hour"),
        (lambda: linear_road_table(seed=-1), "seed"),
        (lambda: linear_road_table(-1), "seconds must not be negative"),
        (lambda: linear_road_batches(seconds=-1), "seconds must not be negative"),
        (lambda: linear_road_batches(0), "at least one second"),
        (lambda: linear_road_table(1, columns=["speeed"]), "Did you mean 'speed'"),
        (lambda: linear_road_keys(-1), "count"),
        (lambda: random_keys(3, bits=2), "at most half"),
        (lambda: random_keys(3, bits=63), "62 bits"),
        (lambda: road_key(16, 0, 0, 0), "xway has 4 bits"),
        (lambda: road_key(0, 2, 0, 0), "dir has 1 bits"),
        (lambda: road_key(0, 0, 0, [0, VIDS]), "vid has 20 bits"),
        (lambda: road_key(0, 0, -1, 0), "seg has 7 bits"),
    ],
)
def test_bad_arguments(call: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        call()


def test_too_many_vehicles_on_the_road(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thetastream.datasets.traffic.VIDS", 1_000)
    with pytest.raises(DataError, match="smaller rate"):
        linear_road_table(600, rate=500)


def test_an_hour_of_entries_is_known_beforehand() -> None:
    traffic = TrafficSimulation(rate=60, growth=1.0)
    assert traffic.entered(0) == 0
    assert traffic.entered(3_600) == 60 * 60 * 3 // 2


def test_the_real_file_has_the_same_columns(folder: Path, table: pa.Table) -> None:
    assert load_lrb(folder, sample=True).schema == table.schema


def test_the_real_file_has_the_same_shape(folder: Path) -> None:
    real, ours = load_lrb(folder, positions=True), linear_road_table(positions=True)
    assert ours.num_rows == pytest.approx(real.num_rows, rel=0.05)

    def column(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return real[name].to_numpy(), ours[name].to_numpy()

    theirs, own = (np.bincount(np.bincount(vids)) for vids in column("vid"))  # by reports
    assert np.abs(np.cumsum(theirs) / theirs.sum() - np.cumsum(own) / own.sum()).max() < 0.05
    theirs, own = (np.bincount(values, minlength=100) / values.size for values in column("seg"))
    assert np.abs(theirs - own).max() < 0.003
    theirs, own = (np.bincount(values // 60) for values in column("time"))
    assert np.abs(own / theirs - 1).max() < 0.06
    theirs, own = (np.mean(values) for values in column("speed"))
    assert own == pytest.approx(theirs, rel=0.05)


def test_real_keys(folder: Path) -> None:
    keys = lrb_keys(folder)
    assert keys.size == np.unique(keys).size == 214_793
    assert keys[0] == road_key(0, 0, 13, 0)  # vehicle 0 enters in segment 13, eastwards
