"""The contests: two or more ways to the same pairs.

Keys are laid out so that a relative band and a plain one, or strings and whole numbers, have
exactly the same pairs: about two per row in the windows, about one per left row between the places.
Seconds are those of the processor, so that other work on the machine matters less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import thetastream as ts
from thetabench.digest import Digest
from thetabench.finite.worker import digest

Run = Callable[[], tuple[float, Digest]]
Rows = tuple[pa.Table, pa.Table]

WINDOW, BATCH = 1 << 17, 1 << 13
_TIMED = 1 << 19  # rows of each side
_LEAST, _SHARE = 200_000, "0.000005"  # shares of 200,001 to 399,999 lie between 1 and 2


@dataclass(frozen=True)
class Contest:
    """Ways to the same pairs; the first one is compared with the others."""

    name: str
    about: str
    make: Callable[[float], dict[str, Run]]


# --- Streams --------------------------------------------------------------------------------------


def _stream(on: str, rows: Rows, window: int, batch: int) -> tuple[float, Digest]:
    """Seconds for the rows after the first window of both sides, in batches, and their pairs."""
    join = ts.StreamJoin(on, window=ts.CountWindow(window), columns=["id", "id_right"])
    for _ in join.push(*(side.slice(0, window) for side in rows)):
        pass
    seconds, found = 0.0, []
    for at in range(window, rows[0].num_rows, batch):
        parts = [side.slice(at, batch) for side in rows]
        started = process_time()
        pieces = list(join.push(*parts))
        seconds += process_time() - started
        found += pieces
    return seconds, _digest(pa.Table.from_batches(found))


def _digest(pairs: pa.Table) -> Digest:
    left, right = (pairs.column(name).to_numpy() for name in ("id", "id_right"))
    return Digest(len(left), digest(left, right))


def _sizes(scale: float) -> tuple[int, int, int]:
    """The window, a batch, and the rows of a side."""
    window, batch = max(64, int(WINDOW * scale)), max(8, int(BATCH * scale))
    return window, batch, window + max(batch, int(_TIMED * scale))


def _numbered(**columns: Any) -> pa.Table:
    return pa.table({"id": np.arange(len(next(iter(columns.values())))), **columns})


def _relative(kind: type, scale: float) -> dict[str, Run]:
    """Whole values of which only neighbours are within the share."""
    random, (window, batch, count) = np.random.default_rng(6), _sizes(scale)
    most = _LEAST + max(2, int(_LEAST * scale))
    rows = _both([{"x": random.integers(_LEAST + 1, most, count).astype(kind)} for _ in range(2)])
    return {
        "relative": partial(_stream, f"abs(l.x - r.x) <= {_SHARE} * l.x", rows, window, batch),
        "plain": partial(_stream, "abs(l.x - r.x) <= 1", rows, window, batch),
    }


def _between(scale: float) -> dict[str, Run]:
    """Points of one side between two ends of the other: numbers, and the same as 20 digits."""
    random, (window, batch, count) = np.random.default_rng(7), _sizes(scale)
    reach = 2**62 // window
    points = random.integers(reach, 2**62, count)
    middles = random.integers(reach, 2**62, count)
    numbers = {"x": points}, {"low": middles - reach, "high": middles + reach}
    texts = [{name: _digits(values) for name, values in side.items()} for side in numbers]
    on = "l.x BETWEEN r.low AND r.high"
    return {
        "strings": partial(_stream, on, _both(texts), window, batch),
        "int64": partial(_stream, on, _both(numbers), window, batch),
    }


def _both(sides: Sequence[dict[str, Any]]) -> Rows:
    return _numbered(**sides[0]), _numbered(**sides[1])


def _equal(scale: float) -> dict[str, Run]:
    """Keys of which a window holds two: numbers, and the same as 20 digits."""
    random, (window, batch, count) = np.random.default_rng(8), _sizes(scale)
    keys = random.integers(0, 2**62, window // 2)
    plain = [{"x": random.choice(keys, count)} for _ in range(2)]
    texts = [{"x": _digits(side["x"])} for side in plain]
    return {
        "strings": partial(_stream, "l.x = r.x", _both(texts), window, batch),
        "int64": partial(_stream, "l.x = r.x", _both(plain), window, batch),
    }


def _digits(values: Any) -> pa.Array:
    """Whole numbers of at most 19 digits as strings of 20 bytes, in the same order."""
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), 20, "0")


# --- Places ---------------------------------------------------------------------------------------

KILOMETRES, DEGREES_NORTH, DEGREES_EAST = 5.0, 0.045, 0.08
"""Five kilometres are at most so many degrees, from 36 to 55 degrees north."""
_DISTANCE = (
    "2 * 6371 * asin(sqrt(power(sin(radians(l.lat - r.lat) / 2), 2) + cos(radians(l.lat)) "
    "* cos(radians(r.lat)) * power(sin(radians(l.lon - r.lon) / 2), 2)))"
)
_NEAR = (
    f"abs(l.lat - r.lat) <= {DEGREES_NORTH} AND abs(l.lon - r.lon) <= {DEGREES_EAST} "
    f"AND {_DISTANCE} <= {KILOMETRES}"
)


def _places(count: int, random: np.random.Generator, scale: float) -> pa.Table:
    return _numbered(
        lat=random.uniform(36, 36 + 19 * scale**0.5, count),
        lon=random.uniform(-10, -10 + 40 * scale**0.5, count),
    )


def _haversine(share: float, queries: dict[str, str], scale: float) -> dict[str, Run]:
    random, size = np.random.default_rng(9), share * scale
    left = _places(int(1_000_000 * size), random, size)
    right = _places(int(100_000 * size), random, size)
    duckdb = {who: partial(_duckdb, left, right, query) for who, query in queries.items()}
    return {"thetastream": partial(_ours, left, right), **duckdb}


def _ours(left: pa.Table, right: pa.Table) -> tuple[float, Digest]:
    started = process_time()
    pairs = ts.join(left, right, _NEAR)
    return process_time() - started, _digest(pairs)


_PAIR = "l.*, r.id AS id_right, r.lat AS lat_right, r.lon AS lon_right"
_BETWEEN = (
    f"SELECT {_PAIR} FROM l JOIN r "
    f"ON l.lat BETWEEN r.lat - {DEGREES_NORTH} AND r.lat + {DEGREES_NORTH} "
    f"AND l.lon BETWEEN r.lon - {DEGREES_EAST} AND r.lon + {DEGREES_EAST} "
    f"AND {_DISTANCE} <= {KILOMETRES}"
)
"""DuckDB sorts for this one; written with abs() it compares all pairs."""
_CELLS = (
    "WITH cells AS (SELECT r.*, "
    f"CAST(floor(lat / {DEGREES_NORTH}) AS INT) + y.range AS cy, "
    f"CAST(floor(lon / {DEGREES_EAST}) AS INT) + x.range AS cx "
    "FROM r, range(-1, 2) AS y, range(-1, 2) AS x) "
    f"SELECT {_PAIR} FROM l JOIN cells AS r "
    f"ON CAST(floor(l.lat / {DEGREES_NORTH}) AS INT) = r.cy "
    f"AND CAST(floor(l.lon / {DEGREES_EAST}) AS INT) = r.cx "
    f"AND abs(l.lat - r.lat) <= {DEGREES_NORTH} AND abs(l.lon - r.lon) <= {DEGREES_EAST} "
    f"WHERE {_DISTANCE} <= {KILOMETRES}"
)


def _duckdb(left: pa.Table, right: pa.Table, query: str) -> tuple[float, Digest]:
    """SQL over DuckDB's own tables on one thread; the answer is an Arrow table."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as engine:
        for name, table in (("l", left), ("r", right)):
            engine.register("given", table)
            engine.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            engine.unregister("given")
        started = process_time()
        pairs = engine.sql(query).to_arrow_table()
        return process_time() - started, _digest(pairs)


CONTESTS = {
    one.name: one
    for one in (
        Contest(
            "relative-float",
            "relative band of floats, beside a plain band",
            partial(_relative, float),
        ),
        Contest(
            "relative-int",
            "relative band of integers, beside a plain band",
            partial(_relative, int),
        ),
        Contest(
            "haversine",
            "places within 5 km, 1 M × 0.1 M, beside DuckDB",
            partial(_haversine, 1.0, {"duckdb, cells": _CELLS}),
        ),
        Contest(
            "haversine-tenth",
            "places within 5 km, 0.1 M × 0.01 M, beside DuckDB",
            partial(_haversine, 0.1, {"duckdb, BETWEEN": _BETWEEN, "duckdb, cells": _CELLS}),
        ),
        Contest("strings-between", "strings of 20 bytes in order, beside int64", _between),
        Contest("strings-equal", "equal strings of 20 bytes, beside int64", _equal),
    )
}
