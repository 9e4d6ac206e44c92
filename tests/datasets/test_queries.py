"""The queries of the SPO-Join paper: the contract, the seed, the match rate."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from thetastream.datasets import QUERIES, Workload, cut, q2, q3, taxi_q2, taxi_q3
from thetastream.datasets.real import VARIABLE
from thetastream.errors import DataError
from thetastream.truth import oracle
from thetastream.window import CountWindow

COLUMNS = {
    "Q1": ["power", "cool", "id"],
    "Q1=": ["power", "cool", "id"],
    "Q2": ["lon", "lat", "id"],
    "Q3": ["distance", "fare", "id"],
}


def holds(workload: Workload, fresh: int, right: bool = False) -> np.ndarray:
    """Which rows of the window before row ``fresh`` of a side match it, as the SQL text says."""
    own, other = workload.left, workload.left if workload.right is None else workload.right
    if right:
        own, other = other, own
    stored = slice(fresh - workload.window, fresh)
    row = {name: own[name][fresh].as_py() for name in own.column_names}
    rows = {name: other[name].to_numpy()[stored] for name in other.column_names}
    left, right_rows = (rows, row) if right else (row, rows)
    kept = np.ones(workload.window, np.bool_)
    for term in workload.predicate.split(" AND "):
        if band := re.fullmatch(r"abs\(l\.(\w+) - r\.\1\) <= (\d+)", term):
            kept &= np.abs(left[band[1]] - right_rows[band[1]]) <= int(band[2])
        else:
            name, sign = re.fullmatch(r"l\.(\w+) ([<>=]) r\.\1", term).groups()  # type: ignore[union-attr]
            one, two = left[name], right_rows[name]
            kept &= {"<": one < two, ">": one > two, "=": one == two}[sign]
    return kept


def counted(workload: Workload) -> float:
    """Matches per arriving row, over all rows that arrive at a full window."""
    arrivals = range(workload.window, workload.left.num_rows)
    found = [holds(workload, fresh, right).sum() for fresh in arrivals for right in (False, True)]
    return float(np.sum(found)) / (len(found) / 2 if workload.self_join else len(found))


@pytest.mark.parametrize("name", QUERIES)
def test_contract(name: str) -> None:
    workload = QUERIES[name](100, 250, seed=1)
    assert (workload.name, workload.window) == (name, 100)
    assert workload.self_join is (name in ("Q2", "Q3"))
    assert (workload.right is None) is workload.self_join
    for side in filter(None, (workload.left, workload.right)):
        assert side.column_names == COLUMNS[name]
        assert side["id"].to_pylist() == list(range(250))
    assert workload == QUERIES[name](100, 250, seed=1)
    assert workload.left != QUERIES[name](100, 250, seed=2).left
    assert workload.right is None or workload.left != workload.right


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("window", "rate"), [(1000, 10.0), (500, 60.0), (64, 1.0)])
def test_match_rate(name: str, window: int, rate: float) -> None:
    workload = QUERIES[name](window, window + 4000, match_rate=rate, seed=4)
    assert counted(workload) == pytest.approx(rate, rel=0.1 if name == "Q1=" else 0.06)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_the_first_band_of_q2_passes_the_wanted_share(share: float) -> None:
    workload = q2(1000, 5000, match_rate=20.0, share=share, seed=2)
    lon = workload.left["lon"].to_numpy()
    width = int(re.findall(r"<= (\d+)", workload.predicate)[0])
    near = np.abs(lon[:1000, None] - lon[1000:]) <= width
    assert near.mean() == pytest.approx(share, rel=0.05)
    assert counted(workload) == pytest.approx(20.0, rel=0.05)


@pytest.mark.parametrize("name", QUERIES)
def test_a_match_is_an_output_pair_of_the_oracle(name: str) -> None:
    workload = QUERIES[name](40, 160, seed=2, match_rate=4.0)
    left, right = (
        [None] * 160 if side is None else list(cut(side, 1))
        for side in (workload.left, workload.right)
    )
    answer = oracle.join(
        zip(left, right, strict=True), workload.predicate, CountWindow(40),
        self_join=workload.self_join,
    )  # fmt: skip
    arrivals = [max(pair) for pair in answer.pairs]  # type: ignore[type-var]
    found = sum(at >= 40 for at in arrivals)  # type: ignore[operator]
    fresh = [holds(workload, row) for row in range(40, 160)]
    if not workload.self_join:  # left rows come first, so a right row meets its left twin
        assert found >= sum(int(kept.sum()) for kept in fresh) > 0
    else:
        again = [holds(workload, row, True) for row in range(40, 160)]
        assert found == sum(int(kept.sum()) for kept in [*fresh, *again]) > 0


def test_bad_arguments() -> None:
    for make in QUERIES.values():
        with pytest.raises(DataError, match="match_rate|match rate"):
            make(2, 10, match_rate=5.0)
        with pytest.raises(DataError, match="rows"):
            make(100, -1)
    with pytest.raises(DataError, match="below 25"):
        q3(100, 10, match_rate=25.0)
    with pytest.raises(DataError, match="share must be between"):
        q2(100, 10, match_rate=100.0, share=0.1)


def test_real_trips_are_asked_the_same(tmp_path: Path) -> None:
    """Two files of a few made-up trips, in the layout of the real ones."""
    debs, yellow = tmp_path / "taxi_debs2015", tmp_path / "taxi_yellow_2019"
    debs.mkdir()
    yellow.mkdir()
    text = "a,b,2013-01-01 00:00:00,2013-01-01 00:02:00,120,0.44,{},{},-73.9,40.7,CSH,3.5,0,0,0,0,4"
    places = [(-73.956528, 40.716976), (-73.986528, 40.716976), (-73.956529, 40.740000), (0, 0)]
    lines = [text.format(*place) for place in places]
    (debs / "sorted_data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    near = taxi_q2(2, 6, folder=tmp_path)
    assert near.left["lon"].to_pylist()[:4] == [-73956528, -73986528, -73956529, -73956528]
    assert near.predicate == "abs(l.lon - r.lon) <= 29999 AND abs(l.lat - r.lat) <= 29999"
    assert near.match_rate == pytest.approx(4 * 7 / 9), "two places are 0.03 degrees apart"
    head = (
        "vendor_id,pickup_datetime,dropoff_datetime,passenger_count,trip_distance,rate_code_id,"
        "store_and_fwd_flag,pickup_location_id,dropoff_location_id,payment_type,fare_amount,extra,"
        "mta_tax,tip_amount,tolls_amount,improvement_surcharge,total_amount,congestion_surcharge"
    )
    trip = "1,2019-0{m}-01 0{h}:00:00,2019-01-01 01:30:00,1,{d},1,N,7,7,1,{f},0,0,0,0,0,9,"
    for month in (1, 2, 3):
        rows = [
            trip.format(m=month, h=2, d=month, f=9 - month),
            trip.format(m=month, h=1, d=5, f=9),
        ]
        name = f"yellow_tripdata_sample_2019-0{month}.csv"
        (yellow / name).write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    cheaper = taxi_q3(3, 8, folder=tmp_path)
    assert cheaper.left["distance"].to_pylist() == [5, 1, 5, 2, 5, 3, 5, 1]
    assert cheaper.left["fare"].to_pylist() == [9, 8, 9, 7, 9, 6, 9, 8]
    assert cheaper.match_rate == pytest.approx(6 * 3 / 36)


def test_real_trips_say_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for make in (taxi_q2, taxi_q3):
        with pytest.raises(DataError, match=VARIABLE):
            make(10, 20)
