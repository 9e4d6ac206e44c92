"""Loaders of the real data: advice when it is absent, every row when it is there."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from thetastream import datasets
from thetastream.datasets.real import VARIABLE
from thetastream.errors import DataError, ThetastreamError

Loader = Callable[..., pa.Table]
LOADERS: dict[str, Loader] = {
    "ais": datasets.load_ais,
    "lrb": datasets.load_lrb,
    "quotes": lambda folder=None, **options: datasets.load_quotes("ibm", folder, **options),
    "taxi-debs2015": datasets.load_taxi_debs2015,
    "taxi-yellow-2019": datasets.load_taxi_yellow_2019,
    "taxi-zones": datasets.load_taxi_zones,
    "trades": lambda folder=None, **options: datasets.load_trades("ibm", folder, **options),
}
INSTANT = pa.timestamp("us", tz="UTC")
LOCAL = pa.timestamp("us")


@pytest.mark.parametrize("name", LOADERS)
def test_no_folder_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(DataError, match=r"Set THETASTREAM_DATA .* or pass folder=") as caught:
        LOADERS[name]()
    assert isinstance(caught.value, ThetastreamError)


@pytest.mark.parametrize("name", LOADERS)
def test_the_folder_is_absent(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"gone' \(from THETASTREAM_DATA\) is absent\. Set"):
        LOADERS[name]()
    with pytest.raises(DataError, match=r"lost' \(from folder\) is absent"):
        LOADERS[name](tmp_path / "lost")


@pytest.mark.parametrize("name", LOADERS)
def test_a_file_is_absent(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no file|no symbol"):
        LOADERS[name](tmp_path)


def test_the_argument_goes_before_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert datasets.data_folder(tmp_path) == tmp_path
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert datasets.data_folder() == tmp_path
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(DataError, match="No data folder is known"):
        datasets.data_folder()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Make a data folder of a few handwritten rows."""

    def put(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("ticks.csv", text)
        else:
            path.write_bytes(text.encode())

    put("ticks/abc/20131007_trade.zip", "34200000,1815200,283,P,20002020,0\n34200001,5,1,Q,1,1")
    put(
        "ticks/abc/20131007_quote.zip",
        "14400054,0,0,1836300,100,Q,1,0\n14400241,1800100,300,0,0,P,1,0",
    )
    put(
        "lrb/lineargenerator_x1_first1200s.dat.gz",
        "0,7,1,10,0,0,0,13,68640,-1,-1,-1,-1,-1,-1\n" * 2,
    )
    put("lrb/datafile20seconds.dat", "2,7,1,10,0,0,0,13,68640,4,-1,-1,-1,-1,-1\n")
    put("taxi_yellow_2019/taxi-zone-lookup.csv", "LocationID,Borough,Zone\r1,EWR,Newark Airport\r")
    put(
        "ais/SolentAIS_20160112_130211.csv",
        "Time,MMSI,Latitude_degrees,Longitude_degrees,COG_degrees,SOG_knots\n"
        "2016-01-12 13:02:11.218,235070762,50.77,-1.09,157.8,5.9\n"
        "2016-01-12 13:02:12,235070762,50.77,54.8,157.8,5.9\n",
    )
    return tmp_path


def test_values_of_ticks(made: Path) -> None:
    trades = datasets.load_trades("ABC", made)
    assert [str(value) for value in trades["t"].cast(LOCAL).to_pylist()] == [
        "2013-10-07 13:30:00",  # half past nine in New York
        "2013-10-07 13:30:00.001000",
    ]
    assert trades.drop_columns("t").to_pylist() == [
        {
            "price": 181.52,
            "size": 283,
            "exchange": "P",
            "condition": "20002020",
            "suspicious": False,
            "id": 0,
        },
        {
            "price": 0.0005,
            "size": 1,
            "exchange": "Q",
            "condition": "1",
            "suspicious": True,
            "id": 1,
        },
    ]
    quotes = datasets.load_quotes("abc", made)
    assert quotes["bid"].to_pylist() == [None, 180.01]
    assert quotes["bid_size"].to_pylist() == [None, 300]
    assert quotes["ask"].to_pylist() == [183.63, None]
    assert quotes["ask_size"].to_pylist() == [100, None]
    bids = datasets.load_quotes("abc", made, side="bid")
    assert bids["bid"].to_pylist() == [180.01]
    assert bids["id"].to_pylist() == [0]


def test_wrong_choices(made: Path) -> None:
    with pytest.raises(DataError, match=r"trades of abc; asked for 'abd'.* Did you mean 'abc'\?"):
        datasets.load_trades("abd", made)
    with pytest.raises(DataError, match="side must be"):
        datasets.load_quotes("abc", made, side="both")  # type: ignore[arg-type]
    for months in ([], [4], [0, 1]):
        with pytest.raises(DataError, match="months must be chosen"):
            datasets.load_taxi_yellow_2019(made, months=months)


def test_values_of_the_others(made: Path) -> None:
    assert datasets.load_lrb(made)["pos"].to_pylist() == [68640] * 2
    assert datasets.load_lrb(made, sample=True)["qid"].to_pylist() == [4]
    assert datasets.load_lrb(made, sample=True, positions=True).num_rows == 0
    assert datasets.load_taxi_zones(made).to_pylist() == [
        {"location_id": 1, "borough": "EWR", "zone": "Newark Airport"}
    ]
    assert datasets.load_ais(made)["lon"].to_pylist() == [-1.09, 54.8]
    assert datasets.load_ais(made, in_area=True)["lon"].to_pylist() == [-1.09]


ROWS: dict[str, tuple[int, Loader]] = {
    "ais": (18_623, datasets.load_ais),
    "lrb": (506_774, datasets.load_lrb),
    "lrb-positions": (503_743, lambda folder: datasets.load_lrb(folder, positions=True)),
    "lrb-sample": (280, lambda folder: datasets.load_lrb(folder, sample=True)),
    "taxi-debs2015": (10_004, datasets.load_taxi_debs2015),
    "taxi-yellow-2019": (30_000, datasets.load_taxi_yellow_2019),
    "taxi-yellow-2019-02": (
        10_000,
        lambda folder: datasets.load_taxi_yellow_2019(folder, months=[2]),
    ),
    "taxi-zones": (265, datasets.load_taxi_zones),
}
# Counted as lines that hold a record. The last line of these files has no line end, so a count of
# line ends is one lower.
TICKS = {
    ("aig", "quote"): 1_079_935,
    ("aig", "trade"): 25_351,
    ("bac", "quote"): 476_855,
    ("bac", "trade"): 88_172,
    ("ibm", "quote"): 109_067,
    ("ibm", "trade"): 24_293,
    ("spy", "trade"): 250_601,
}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_kept(name: str, folder: Path) -> None:
    rows, load = ROWS[name]
    table = load(folder)
    assert table.num_rows == rows
    if name != "taxi-zones":
        assert table["id"].to_pylist() == list(range(rows))


@pytest.mark.parametrize(("symbol", "kind"), TICKS)
def test_every_tick_is_kept_in_order(symbol: str, kind: str, folder: Path) -> None:
    load: Loader = datasets.load_trades if kind == "trade" else datasets.load_quotes
    table = load(symbol, folder)
    assert table.num_rows == TICKS[symbol, kind]
    assert table.schema.field("t").type == INSTANT
    assert (np.diff(table["t"].cast(pa.int64()).to_numpy()) >= 0).all()
    if kind == "quote":  # one side per row
        assert pc.all(pc.xor(pc.is_valid(table["bid"]), pc.is_valid(table["ask"]))).as_py()
        bids, asks = (load(symbol, folder, side=side).num_rows for side in ("bid", "ask"))
        assert bids + asks == table.num_rows
    else:
        assert 5 < pc.min(table["price"]).as_py() < pc.max(table["price"]).as_py() < 200


def test_debs2015(folder: Path) -> None:
    table = datasets.load_taxi_debs2015(folder)
    assert table.schema.field("dropoff_datetime").type == LOCAL
    assert (np.diff(table["dropoff_datetime"].cast(pa.int64()).to_numpy()) >= 0).all()
    assert pc.sum(pc.equal(table["pickup_longitude"], 0)).as_py() == 156
    located = datasets.load_taxi_debs2015(folder, located=True)
    assert 9_800 < located.num_rows <= 10_004 - 167  # 167 drop-offs have longitude 0
    assert pc.max(located["pickup_longitude"]).as_py() < 0
    assert pc.min(located["dropoff_latitude"]).as_py() > 0


def test_yellow_2019(folder: Path) -> None:
    table = datasets.load_taxi_yellow_2019(folder, sort=True, in_months=True)
    assert table.num_rows == 29_999
    assert (np.diff(table["pickup_datetime"].cast(pa.int64()).to_numpy()) >= 0).all()
    zones = set(datasets.load_taxi_zones(folder)["location_id"].to_pylist())
    assert set(table["pickup_location_id"].to_pylist()) <= zones
    assert table["congestion_surcharge"].null_count > 0


def test_lrb(folder: Path) -> None:
    table = datasets.load_lrb(folder)
    assert (np.diff(table["time"].to_numpy()) >= 0).all()
    assert pc.min_max(table["time"]).as_py() == {"min": 0, "max": 1199}
    reports = datasets.load_lrb(folder, positions=True)
    assert pc.count_distinct(reports["vid"]).as_py() == 29_636
    assert pc.count_distinct(reports["seg"]).as_py() == 100


def test_ais(folder: Path) -> None:
    table = datasets.load_ais(folder)
    assert table.schema.field("t").type == INSTANT
    assert pc.count_distinct(table["mmsi"]).as_py() == 91
    assert datasets.load_ais(folder, in_area=True).num_rows == 18_622
