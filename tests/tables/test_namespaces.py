"""``frame.theta.join`` for Polars frames, lazy ones too, and for pandas frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import thetastream.pandas
import thetastream.polars

LEFT = {"x": [1, 5, 9], "s": ["a", "b", "c"]}
RIGHT = {"y": [2, 6]}
ON = "l.x < r.y"


def test_the_namespaces_are_modules_with_an_address() -> None:
    assert thetastream.polars.Theta.__name__ == "Theta"
    assert thetastream.pandas.ThetaAccessor.__name__ == "ThetaAccessor"


def test_polars() -> None:
    joined = pl.DataFrame(LEFT).theta.join(pl.DataFrame(RIGHT), ON, "left")
    assert sorted(joined.rows(), key=repr) == [
        *((1, "a", 2), (1, "a", 6), (5, "b", 6), (9, "c", None)),
    ]


def test_a_lazy_frame_stays_lazy() -> None:
    left, right = pl.LazyFrame(LEFT), pl.LazyFrame(RIGHT)
    joined = left.theta.join(right, ON, threads=2)
    assert isinstance(joined, pl.LazyFrame)
    assert joined.collect_schema() == {"x": pl.Int64, "s": pl.String, "y": pl.Int64}
    assert sorted(joined.collect().rows()) == [(1, "a", 2), (1, "a", 6), (5, "b", 6)]
    assert sorted(joined.select("s").collect().rows()) == [("a",), ("a",), ("b",)]
    assert joined.filter(pl.col("y") == 2).select("s").collect().rows() == [("a",)]
    assert joined.head(2).collect().height == 2
    assert joined.select("y").filter(pl.col("y") > 99).collect().schema == {"y": pl.Int64}


def other_sides() -> dict[str, Callable[[], Any]]:
    rows = {**RIGHT, "t": ["u", None]}
    return {
        "polars": lambda: pl.DataFrame(rows),
        "lazy": lambda: pl.LazyFrame(rows),
        "pandas": lambda: pd.DataFrame(rows),
        "arrow": lambda: pa.table(rows),
        "reader": lambda: pa.table(rows).to_reader(),
        "dict": lambda: rows,
        "rows": lambda: pa.table(rows).to_pylist(),
        "duckdb": lambda: duckdb.from_arrow(pa.table(rows)),
    }


@pytest.mark.parametrize("kind", other_sides())
def test_a_lazy_frame_joins_any_frame_as_often_as_it_is_collected(kind: str) -> None:
    joined = pl.LazyFrame(LEFT).theta.join(other_sides()[kind](), ON)
    assert joined.collect_schema() == {"x": pl.Int64, "s": pl.String, "y": pl.Int64, "t": pl.String}
    for _ in range(2):
        assert sorted(joined.select("x", "y", "t").collect().rows()) == [
            *((1, 2, "u"), (1, 6, None), (5, 6, None)),
        ]


def test_slices_and_filters_of_a_lazy_join() -> None:
    left = pl.LazyFrame({"x": range(2000)})
    joined = left.theta.join({"y": range(2000)}, "l.x = r.y")
    assert joined.head(100).filter(pl.col("y") >= 0).collect().height == 100
    assert joined.filter(pl.col("y") >= 1000).head(10).collect().height == 10
    assert joined.filter(pl.col("y") >= 1995).collect().height == 5
    assert joined.slice(1990, 100).collect().height == 10


def test_columns_of_a_lazy_join() -> None:
    joined = pl.LazyFrame(LEFT).theta.join(pl.DataFrame(RIGHT), ON, columns=["y", "s"])
    assert joined.collect_schema().names() == ["y", "s"]
    assert sorted(joined.collect().rows()) == [(2, "a"), (6, "a"), (6, "b")]


def test_pandas() -> None:
    joined = pd.DataFrame(LEFT).theta.join(pd.DataFrame(RIGHT), ON)
    assert isinstance(joined, pd.DataFrame)
    assert sorted(joined.itertuples(index=False, name=None)) == [
        *((1, "a", 2), (1, "a", 6), (5, "b", 6)),
    ]
