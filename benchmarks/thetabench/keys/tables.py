"""The rows of the trials: one table, sorted in the same order by several keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

REGIONS = 1_000
GAP = 10
"""Days from the start of an interval to that of the next one."""


def tariffs(rows: int, seed: int = 1) -> pa.Table:
    """Rows in random order, whose order by ``place``, by region and day, and by ``lo`` is one.

    An interval ends where the next one of its region begins. ``low`` and ``high`` are the same
    intervals on one axis for all regions.
    """
    rng = np.random.default_rng(seed)
    region = np.sort(rng.integers(0, REGIONS, rows))
    begins = np.r_[True, region[1:] != region[:-1]]
    first = np.maximum.accumulate(np.where(begins, np.arange(rows), 0))
    day = (np.arange(rows) - first) * GAP
    low = region * (GAP * np.int64(rows)) + day
    order = rng.permutation(rows)
    names = pa.array([f"region {number:06}" for number in range(REGIONS)])
    columns = {
        "place": np.arange(rows)[order],
        "region": names.take(pa.array(region[order])),
        "day": day[order],
        "until": day[order] + GAP - 1,
        "low": low[order],
        "high": low[order] + GAP - 1,
        "price": np.zeros(rows),
    }
    return pa.table(columns)


def named(rows: int, seed: int = 2) -> pa.Table:
    """Rows with two keys: a number of 64 bits, and a string of 20 bytes; both are random."""
    rng = np.random.default_rng(seed)
    digits = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
    texts = digits[rng.integers(0, len(digits), (rows, 20))].tobytes()
    name = pa.Array.from_buffers(pa.binary(20), rows, [None, pa.py_buffer(texts)])
    number = rng.permutation(rows) * (2**63 // max(rows, 1) - 1)
    return pa.table(
        {
            "number": number,
            "name": name.cast(pa.binary()).cast(pa.string()),
            "place": np.arange(rows),
        }
    )
