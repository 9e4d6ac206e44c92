"""The realistic streams: schemas, seeds, event time and what their columns promise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from thetastream.datasets import power_cooling, trades_quotes, trips
from thetastream.errors import DataError

TIME = pa.timestamp("us", tz="UTC")
STREAMS: dict[str, tuple[str, Callable[..., tuple[pa.Table, ...]]]] = {
    "trades-quotes": ("t", trades_quotes),
    "power-cooling": ("t", power_cooling),
    "trips": ("dropoff", lambda rows, **options: (trips(rows, **options),)),
}


def micros(table: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(table[name].cast(pa.int64()).to_numpy())


def lateness(times: NDArray[np.int64]) -> int:
    """How far the latest row lies behind the largest event time before it."""
    return int((np.maximum.accumulate(times) - times).max())


@pytest.mark.parametrize("name", STREAMS)
def test_seeded_ordered_and_numbered(name: str) -> None:
    time, make = STREAMS[name]
    tables = make(2000, seed=1)
    assert all(a.equals(b) for a, b in zip(tables, make(2000, seed=1), strict=True))
    assert not any(a.equals(b) for a, b in zip(tables, make(2000, seed=2), strict=True))
    for table in tables:
        assert table.schema.field(time).type == TIME
        assert lateness(micros(table, time)) == 0
        assert table["id"].to_pylist() == list(range(table.num_rows))
        assert all(column.null_count == 0 for column in table.columns)


@pytest.mark.parametrize("name", STREAMS)
def test_disorder_is_bounded(name: str) -> None:
    time, make = STREAMS[name]
    for table in make(2000, seed=1, rate=100.0, disorder=timedelta(seconds=2)):
        late = lateness(micros(table, time))
        assert 0 < late <= 2_000_000
        assert table["id"].to_pylist() == list(range(table.num_rows))


def test_disorder_only_reorders() -> None:
    calm, mixed = trips(500), trips(500, disorder=timedelta(minutes=1))
    by_dropoff = [("dropoff", "ascending"), ("pickup", "ascending")]
    assert calm.drop_columns("id").sort_by(by_dropoff) == mixed.drop_columns("id").sort_by(
        by_dropoff
    )


@pytest.mark.parametrize("name", STREAMS)
def test_no_rows_and_bad_arguments(name: str) -> None:
    _, make = STREAMS[name]
    assert all(table.num_rows == 0 for table in make(0))
    with pytest.raises(DataError, match="rows"):
        make(-1)
    with pytest.raises(DataError, match="rate"):
        make(1, rate=0.0)
    with pytest.raises(DataError, match="disorder"):
        make(1, disorder=timedelta(seconds=-1))
    with pytest.raises(DataError, match="time zone"):
        make(1, start=datetime(2024, 1, 1))


def test_trades_and_quotes() -> None:
    start = datetime(2025, 6, 2, 9, tzinfo=UTC)
    trades, quotes = trades_quotes(3000, 5000, symbols=("X", "Y"), rate=1000.0, start=start)
    assert trades.schema == pa.schema(
        {
            "t": TIME,
            "symbol": pa.string(),
            "price": pa.float64(),
            "size": pa.int64(),
            "id": pa.int64(),
        }
    )
    assert quotes.column_names == ["t", "symbol", "bid", "ask", "bid_size", "ask_size", "id"]
    assert (trades.num_rows, quotes.num_rows) == (3000, 5000)
    assert trades_quotes(10)[1].num_rows == 40
    assert set(trades["symbol"].to_pylist()) == {"X", "Y"}
    bid, ask = quotes["bid"].to_numpy(), quotes["ask"].to_numpy()
    assert (bid < ask).all()
    assert (np.rint(ask * 100) / 100 == ask).all()
    assert (trades["size"].to_numpy() % 100 == 0).all()
    first, last = ((trades["t"][at].as_py() - start).total_seconds() for at in (0, -1))
    assert 0 <= first < 0.1
    assert last == pytest.approx(8, abs=0.5)  # 8,000 events at 1,000 per second
    with pytest.raises(DataError, match="symbol"):
        trades_quotes(1, symbols=())


def test_trades_follow_the_quotes_of_their_symbol() -> None:
    trades, quotes = trades_quotes(2000, symbols=("X", "Y", "Z"))
    for symbol in ("X", "Y", "Z"):
        rows = quotes.filter(np.array(quotes["symbol"].to_pylist()) == symbol)
        mine = trades.filter(np.array(trades["symbol"].to_pylist()) == symbol)
        last = np.searchsorted(micros(rows, "t"), micros(mine, "t"), side="right") - 1
        known = last >= 0
        gap = mine["price"].to_numpy()[known] - rows["bid"].to_numpy()[last[known]]
        assert np.abs(gap).max() < 0.5  # five cents, three cents and a few steps of the walk
        assert np.ptp(rows["bid"].to_numpy()) > 0.1  # it walks


def test_power_and_cooling_are_correlated() -> None:
    centres = power_cooling(4000, racks=(20, 30))
    for table, racks in zip(centres, (20, 30), strict=True):
        assert table.num_rows == 4000
        assert set(table["rack"].to_pylist()) == set(range(racks))
        assert np.corrcoef(table["power"].to_numpy(), table["cool"].to_numpy())[0, 1] > 0.9
    (power, cool), (more, less) = (
        (table["power"].to_numpy()[:1000], table["cool"].to_numpy()[:1000]) for table in centres
    )
    passed = (power[:, None] < more) & (cool[:, None] > less)
    assert 0.001 < passed.mean() < 0.2
    with pytest.raises(DataError, match="rack"):
        power_cooling(1, racks=(0, 5))


def test_trips_resemble_the_taxi_data() -> None:
    table = trips(3000)
    assert (micros(table, "pickup") < micros(table, "dropoff")).all()
    distance, fare = table["distance"].to_numpy(), table["fare"].to_numpy()
    lon, lat = table["pickup_lon"].to_numpy(), table["pickup_lat"].to_numpy()
    assert np.corrcoef(distance, fare)[0, 1] > 0.85
    assert (distance > 0).all()
    assert (fare >= 2.5).all()
    cheaper = (distance[:, None] > distance) & (fare[:, None] < fare)
    assert 0.01 < cheaper.mean() < 0.1  # 4 % in the real trips
    near = (np.abs(lon[:, None] - lon) < 0.03) & (np.abs(lat[:, None] - lat) < 0.03)
    assert 0.3 < near.mean() < 0.7  # about half in the real trips
