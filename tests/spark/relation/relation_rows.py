"""Rows of small domains, relations of several blocks built of them, and the truth."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import thetastream as ts
from thetastream.testing.driver import ROW

from ...relation.answers import expected
from ..drive import pairs_of

MODES = ("inner", "left", "semi", "anti")
MEMORY = "4 MB"
START = datetime(2024, 3, 1, tzinfo=UTC)


def table(seed: int, rows: int, first: int = 0) -> pa.Table:
    """Small domains, so that ties are normal; NULL, NaN and both zeros."""
    rng = random.Random(seed)

    def column(values: Any) -> list[Any]:
        return [None if rng.random() < 0.07 else rng.choice(values) for _ in range(rows)]

    nan = float("nan")
    return pa.table(
        {
            "x": pa.array(column(range(12)), pa.int64()),
            "v": pa.array(column([0.0, -0.0, 0.5, 1.25, nan, -3.5]), pa.float64()),
            "s": pa.array(column(["a", "b", "ä", ""]), pa.string()),
            "t": pa.array(
                column([START + timedelta(seconds=n) for n in range(9)]),
                pa.timestamp("us", tz="UTC"),
            ),
            "lo": pa.array(column(range(10)), pa.int64()),
            "hi": pa.array(column(range(3, 13)), pa.int64()),
            ROW: pa.array(range(first, first + rows), pa.int64()),
        }
    )


def truth(left: pa.Table, right: pa.Table, on: str, how: str = "inner") -> Counter[Any]:
    """Row numbers of the answer, by a nested loop."""
    return expected(left, right, on, how, (ROW, ROW))


def given(rows: pa.Table) -> Counter[Any]:
    return Counter(pairs_of(rows))


def built(folder: Path, rows: pa.Table, key: Any = "x") -> Path:
    ends = {"open_ends": False, "keep_empty": True} if isinstance(key, tuple) else {}
    ts.Relation.build(
        folder / "table.rel", rows, key=key, block_bytes=4096, fill=0.2, replace=True, **ends
    ).close()
    return folder / "table.rel"
