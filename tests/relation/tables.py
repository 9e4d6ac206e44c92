"""Small tables with many ties, NULLs and rows of different sizes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

__all__ = ["CONDITIONS", "HOWS", "interval_table", "keyed_table", "stream_table"]

HOWS = ["inner", "left", "semi", "anti"]
CONDITIONS = [
    "l.x = r.k",
    "abs(l.x - r.k) <= 2",
    "l.x >= r.k",
    "l.x <> r.k",
    "l.x = r.k OR l.x = r.k + 3",
    "l.x = r.k AND l.n > r.m",
    "l.x = r.k AND r.m % 2 = 0",
    "l.x < r.k AND l.x + 4 > r.k AND length(l.s) < r.m % 3",
]


@cache
def keyed_table() -> pa.Table:
    """220 rows, some 25 leaves of 4 KiB; keys 0 … 39 with NULLs, and one that fills leaves."""
    random = np.random.default_rng(1)
    keys = [int(key) for key in random.integers(0, 40, 190)] + [7] * 30
    return pa.table(
        {
            "k": pa.array([None if i % 29 == 3 else key for i, key in enumerate(keys)], pa.int64()),
            "m": pa.array(range(220), pa.int64()),
            "pad": pa.array(["p" * int(n) for n in random.integers(250, 450, 220)]),
        }
    )


@cache
def interval_table() -> pa.Table:
    """120 intervals of different lengths, some empty, some that never end.

    A NULL end is left to the tests of building: such rows are not in the relation.
    """
    random = np.random.default_rng(2)
    lows = random.integers(0, 40, 120)
    highs = lows + random.integers(-1, 6, 120)
    highs[::17] = 2**62
    return pa.table(
        {
            "lo": pa.array([int(low) for low in lows], pa.int64()),
            "hi": pa.array([int(high) for high in highs], pa.int64()),
            "m": pa.array(range(120), pa.int64()),
            "pad": pa.array(["p" * int(n) for n in random.integers(250, 450, 120)]),
        }
    )


@cache
def stream_table(rows: int, seed: int) -> pa.Table:
    """Stream rows numbered by ``n``; some keys are NULL or not in the relation."""
    random = np.random.default_rng(seed)
    xs = random.integers(-3, 45, rows)
    return pa.table(
        {
            "x": pa.array([None if i % 23 == 5 else int(x) for i, x in enumerate(xs)], pa.int64()),
            "n": pa.array(range(rows), pa.int64()),
            "s": pa.array([None if i % 11 == 2 else "y" * (i % 5) for i in range(rows)]),
        }
    )
