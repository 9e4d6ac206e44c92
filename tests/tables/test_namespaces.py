"""``frame.theta.join`` for Polars frames, lazy ones too, and for pandas frames."""

from __future__ import annotations

import pandas as pd
import polars as pl
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
