"""Realistic seeded streams: trades × quotes, two data centres, taxi trips.

All are Arrow tables in arrival order. ``id`` is int64: 0, 1, 2, … in arrival order. Event times
never decrease unless ``disorder`` is given: then a row arrives up to that long after its event
time, so no row is later than ``disorder`` behind the largest event time before it. A window with
``lateness=disorder`` drops nothing. Same arguments, same table. Cost: O(rows log rows), about
0.2–0.5 µs per row.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.errors import DataError

_SECOND = 1_000_000  # event times are counted in microseconds
_NO_DELAY = timedelta(0)
_TRADING = datetime(2024, 3, 4, 14, 30, tzinfo=UTC)
_MIDNIGHT = datetime(2024, 3, 4, tzinfo=UTC)
_SYMBOLS = ("AAA", "BBB", "CCC", "DDD", "EEE", "FFF", "GGG", "HHH")
_MANHATTAN = (-73.98, 40.75)


def trades_quotes(
    trades: int,
    quotes: int | None = None,
    *,
    seed: int = 0,
    symbols: tuple[str, ...] = _SYMBOLS,
    rate: float = 10_000.0,
    disorder: timedelta = _NO_DELAY,
    start: datetime = _TRADING,
) -> tuple[pa.Table, pa.Table]:
    """Trades and quotes of a few symbols over the same time; four quotes per trade by default.

    - trades: ``t`` timestamp[us, UTC], ``symbol`` string, ``price`` float64, ``size``, ``id``;
    - quotes: ``t``, ``symbol``, ``bid`` and ``ask`` float64, ``bid_size`` and ``ask_size``, ``id``.

    Each symbol has a middle price that starts between 20 and 200 and walks at every event of the
    symbol by about 0.01 %. Quotes lie one to three cents around it (``bid < ask``), trades happen
    within five cents of it. Prices are whole cents. Events come at ``rate`` per second in total,
    at random times. Sizes are multiples of 100.

    >>> left, right = trades_quotes(1000)
    >>> left.num_rows, right.num_rows
    (1000, 4000)
    """
    quotes = 4 * trades if quotes is None else quotes
    rows = _size(trades) + _size(quotes)
    if not symbols:
        raise DataError("trades_quotes needs at least one symbol.")
    rng = np.random.default_rng(seed)
    times = _times(rng, rows, rate)
    symbol = rng.integers(0, len(symbols), rows)
    cents = _walks(rng, symbol, len(symbols))
    is_trade = np.zeros(rows, dtype=np.bool_)
    is_trade[rng.permutation(rows)[:trades]] = True
    names = pa.array(symbols, pa.string())

    def stream(chosen: NDArray[np.bool_], extra: dict[str, NDArray[Any]]) -> pa.Table:
        first = {"t": _timestamps(times[chosen], start), "symbol": names.take(symbol[chosen])}
        return _arrived(pa.table({**first, **extra}), times[chosen], rng, disorder)

    middle, n = cents[is_trade], trades
    trade = {
        "price": (middle + rng.integers(-5, 6, n)) / 100,
        "size": rng.geometric(0.3, n) * 100,
    }
    middle, n = cents[~is_trade], quotes
    quote = {
        "bid": (middle - rng.integers(1, 4, n)) / 100,
        "ask": (middle + rng.integers(1, 4, n)) / 100,
        "bid_size": rng.geometric(0.2, n) * 100,
        "ask_size": rng.geometric(0.2, n) * 100,
    }
    return stream(is_trade, trade), stream(~is_trade, quote)


def power_cooling(
    rows: int,
    *,
    seed: int = 0,
    racks: tuple[int, int] = (200, 300),
    rate: float = 1_000.0,
    disorder: timedelta = _NO_DELAY,
    start: datetime = _MIDNIGHT,
) -> tuple[pa.Table, pa.Table]:
    """Rack readings of two data centres R and S: the query Q1 of the SPO-Join paper.

    Each table has ``rows`` rows: ``t`` timestamp[us, UTC], ``rack`` int64, ``power`` and ``cool``
    float64 in watt, ``id``. The power of a rack follows its own level and the time of day; cooling
    takes about 40 % of it, less in the larger centre S. So ``power`` and ``cool`` are strongly
    correlated, and ``l.power < r.power AND l.cool > r.cool`` (R spends more on cooling for less
    work) holds for a small part of all pairs.

    >>> r, s = power_cooling(100)
    >>> s.column_names
    ['t', 'rack', 'power', 'cool', 'id']
    """
    if min(racks) < 1:
        raise DataError(f"each data centre needs at least one rack; got {racks}.")
    rng = np.random.default_rng(seed)
    _size(rows)
    centres = []
    for count, share in zip(racks, (0.40, 0.38), strict=True):
        times = _times(rng, rows, rate)
        level = rng.normal(6_000, 1_500, count).clip(1_500)
        rack = rng.integers(0, count, rows)
        daily = 1 + 0.2 * np.sin(times / (86_400 * _SECOND) * 2 * np.pi)
        power = level[rack] * daily * rng.normal(1, 0.05, rows)
        cool = power * share * rng.normal(1, 0.04, rows)
        table = pa.table(
            {
                "t": _timestamps(times, start),
                "rack": rack,
                "power": power.round(1),
                "cool": cool.round(1),
            }
        )
        centres.append(_arrived(table, times, rng, disorder))
    return centres[0], centres[1]


def trips(
    rows: int,
    *,
    seed: int = 0,
    rate: float = 5.0,
    disorder: timedelta = _NO_DELAY,
    start: datetime = _MIDNIGHT,
) -> pa.Table:
    """Taxi trips in arrival order of their drop-off, ``rate`` per second.

    Columns: ``pickup`` and ``dropoff`` timestamp[us, UTC]; ``pickup_lon``, ``pickup_lat``,
    ``dropoff_lon``, ``dropoff_lat`` float64 degrees, clustered around a city centre; ``distance``
    float64 miles, a detour longer than the straight line; ``fare`` float64 dollars, a base fee
    plus distance and time; ``id``. Distance and fare are strongly correlated, so
    ``l.distance > r.distance AND l.fare < r.fare`` (a longer trip for less money) is rare.

    >>> trips(100).num_rows
    100
    """
    rng = np.random.default_rng(seed)
    dropoff = _times(rng, _size(rows), rate)
    here = _places(rng, rows)
    there = here + rng.normal(0, 0.02, (2, rows))
    miles = np.hypot((there[0] - here[0]) * 52.3, (there[1] - here[1]) * 69.0)
    distance = (miles * rng.uniform(1.1, 1.5, rows) + 0.1).round(2)
    seconds = np.ceil(distance / rng.normal(12, 3, rows).clip(4) * 3600) + 30
    fare = np.round((2.5 + 2.0 * distance + seconds / 120) * 2) / 2
    table = pa.table(
        {
            "pickup": _timestamps(dropoff - seconds.astype(np.int64) * _SECOND, start),
            "dropoff": _timestamps(dropoff, start),
            "pickup_lon": here[0].round(6),
            "pickup_lat": here[1].round(6),
            "dropoff_lon": there[0].round(6),
            "dropoff_lat": there[1].round(6),
            "distance": distance,
            "fare": fare,
        }
    )
    return _arrived(table, dropoff, rng, disorder)


def _size(rows: int) -> int:
    if rows < 0:
        raise DataError(f"rows must not be negative; got {rows}.")
    return rows


def _times(rng: np.random.Generator, rows: int, rate: float) -> NDArray[np.int64]:
    """Nondecreasing microseconds with ``rate`` events per second on average."""
    if not rate > 0:
        raise DataError(f"rate must be above 0 events per second; got {rate}.")
    return np.cumsum(rng.exponential(_SECOND / rate, rows)).astype(np.int64)


def _walks(rng: np.random.Generator, symbol: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Middle price in cents at every event: one random walk per symbol."""
    order = np.argsort(symbol, kind="stable")
    level = np.cumsum(rng.normal(0, 1e-4, len(symbol)))  # of all symbols, one after the other
    first = np.searchsorted(symbol[order], np.arange(count))
    before = np.concatenate([[0.0], level])[first]
    price = np.empty(len(symbol))
    price[order] = level - before[symbol[order]]
    opening = rng.uniform(2_000, 20_000, count)
    return np.maximum(np.rint(opening[symbol] * np.exp(price)), 10).astype(np.int64)


def _places(rng: np.random.Generator, rows: int) -> NDArray[np.float64]:
    """Longitudes and latitudes: most in one dense centre, some at two far clusters."""
    offsets = np.array([[0.0, 0.0], [0.11, 0.02], [0.2, -0.11]])
    spread = np.array([0.018, 0.006, 0.006])
    cluster = rng.choice(3, rows, p=[0.9, 0.06, 0.04])
    centre = np.array(_MANHATTAN)[:, None] + offsets[cluster].T
    return np.asarray(centre + rng.normal(0, 1, (2, rows)) * spread[cluster])


def _timestamps(micros: NDArray[np.int64], start: datetime) -> pa.Array:
    if start.tzinfo is None:
        raise DataError(f"start must have a time zone, such as datetime.UTC; got {start!r}.")
    base = (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return pa.array(micros + base, pa.timestamp("us", tz="UTC"))


def _arrived(
    table: pa.Table, times: NDArray[np.int64], rng: np.random.Generator, disorder: timedelta
) -> pa.Table:
    """Put the rows in arrival order and number them."""
    delay = disorder // timedelta(microseconds=1)
    if delay < 0:
        raise DataError(f"disorder must not be negative; got {disorder}.")
    if delay:
        arrival = times + rng.integers(0, delay, len(times), endpoint=True)
        table = table.take(pa.array(np.argsort(arrival, kind="stable")))
    return table.append_column("id", pa.array(np.arange(len(times), dtype=np.int64)))
