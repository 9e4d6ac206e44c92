"""Results: an iterator of batches with a schema, and a stream for other libraries."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import StateError

BAND = "abs(l.x - r.x) <= 1"
NAMES = ["x", "x_right"]


def pushed(right: list[int]) -> object:
    join = ts.StreamJoin(BAND, window=ts.CountWindow(9))
    return join.push({"x": [1, 5]}, {"x": pa.array(right, pa.int64())})


@pytest.mark.parametrize("right", [[2, 6], [20]], ids=["rows", "empty"])
def test_every_way_out_keeps_columns_and_rows(right: list[int]) -> None:
    wanted = [{"x": 1, "x_right": 2}, {"x": 5, "x_right": 6}] if len(right) == 2 else []
    assert pushed(right).schema.names == NAMES
    assert pushed(right).to_table().to_pylist() == wanted
    assert pushed(right).to_pandas().to_dict("records") == wanted
    assert pushed(right).to_polars().to_dicts() == wanted
    assert pa.table(pushed(right)).to_pylist() == wanted
    assert pl.DataFrame(pushed(right)).to_dicts() == wanted
    rows = duckdb.from_arrow(pa.table(pushed(right))).fetchall()
    assert rows == [tuple(row.values()) for row in wanted]
    assert [row for batch in pushed(right) for row in batch.to_pylist()] == wanted
    assert list(pushed(right).to_pandas().columns) == NAMES


def test_what_was_read_is_not_read_again() -> None:
    result = pushed([2, 6])
    assert next(result).num_rows == 2
    assert result.to_table().num_rows == 0
    assert result.schema.names == NAMES


def test_no_library_makes_nonsense_of_it() -> None:
    for misuse in (pd.DataFrame, np.asarray):
        with pytest.raises(TypeError, match=r"use \.to_pandas\(\)"):
            misuse(pushed([2]))


def test_it_shows_its_columns() -> None:
    shown = repr(pushed([2]))
    assert ".to_table()" in shown
    assert "x_right  int64" in shown
    assert "x_right" in pushed([2])._repr_html_()


def test_before_both_sides_are_known() -> None:
    join = ts.StreamJoin(BAND, window=ts.CountWindow(9), how="left")
    result = join.push(left={"x": [1]})
    assert "not known yet" in repr(result)
    for ask in (lambda: result.schema, result.to_table, lambda: join.schema):
        with pytest.raises(StateError, match="not known yet"):
            ask()
    assert list(result) == []
    assert join.flush().to_table().to_pydict() == {"x": [1]}, "the right side never came"


def test_other_outputs_have_their_columns() -> None:
    for output, names in (("pairs", ["left", "right"]), ("count", ["side", "row", "matches"])):
        join = ts.StreamJoin(BAND, window=ts.CountWindow(9), output=output)
        assert join.push({"x": [1]}, {"x": [9]}).schema.names == names
    join = ts.StreamJoin(BAND, window=ts.CountWindow(9), aggregate={"n": "count"})
    assert join.push({"x": [1]}, {"x": [9]}).to_polars().to_dicts() == [{"x": 1, "n": 0}]
