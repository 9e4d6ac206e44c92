"""What differs between two relations, and rows of changes from frames and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import RelationError, SchemaError

from ...scale import scaled

ROWS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None])), max_size=12)


def of(rows: list[Any]) -> pa.Table:
    kinds = {"k": pa.int64(), "v": pa.string(), "l": pa.list_(pa.int64())}
    columns = [[k for k, _ in rows], [v for _, v in rows], [[k] for k, _ in rows]]
    return pa.table(columns, schema=pa.schema(kinds))


def plain(table: pa.Table) -> Counter[Any]:
    return Counter((row["k"], row["v"]) for row in table.to_pylist())


@settings(max_examples=scaled(40))
@given(ROWS, ROWS, st.booleans())
def test_rows_that_differ(
    tmp_path_factory: pytest.TempPathFactory, old: list[Any], new: list[Any], unique: bool
) -> None:
    if unique:
        old, new = list(dict(old).items()), list(dict(new).items())
    path = tmp_path_factory.mktemp("difference")
    more = {"unique": "k"} if unique else {}
    with (
        ts.Relation.build(path / "a.rel", of(old), "k", **more) as before,
        ts.Relation.build(path / "b.rel", of(new), "k", **more) as after,
    ):
        found = before.difference(after)
    gone, fresh = Counter(old) - Counter(new), Counter(new) - Counter(old)
    assert found.unchanged == len(old) - gone.total()
    assert plain(found.removed) + plain(found.replaced) == gone
    assert plain(found.inserted) + plain(found.replacing) == fresh
    pairs = zip(found.replaced["k"].to_pylist(), found.replacing["k"].to_pylist(), strict=True)
    assert all(a == b for a, b in pairs)
    both = {k for k, _ in gone} & {k for k, _ in fresh}
    assert found.replaced.num_rows == (len(both) if unique else 0)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with (
        ts.Relation.build(tmp_path / "a.rel", pa.table({"k": [1]}), "k") as before,
        ts.Relation.build(tmp_path / "b.rel", pa.table({"k": ["1"]}), "k") as after,
        pytest.raises(SchemaError, match="k int64 and k string"),
    ):
        before.difference(after)


# --- Rows of a change ---------------------------------------------------------------------------


def test_frames_and_files_are_rows_of_a_change(tmp_path: Path) -> None:
    kinds = pa.schema({"k": pa.int32(), "v": pa.string()})
    with ts.Relation.build(tmp_path / "r.rel", pa.table([[1], ["a"]], schema=kinds), "k") as made:
        assert made.insert(pd.DataFrame({"k": [2, 3], "v": ["b", "c"]})).inserted == 2
        pq.write_table(pa.table({"k": [3, 4], "v": ["C", "D"]}), tmp_path / "rows.parquet")
        counts = made.update(tmp_path / "rows.parquet", upsert=True)
        assert (counts.inserted, counts.replaced) == (1, 1)
        assert made.delete(pd.DataFrame({"k": [1]})).removed == 1
        assert made.to_table()["v"].to_pylist() == ["b", "C", "D"]
        with pytest.raises(SchemaError, match="'k' of the rows has type int64.*int32: cast it"):
            made.insert(pd.DataFrame({"k": [2**40], "v": ["x"]}))
        with pytest.raises(SchemaError, match="'k' of the rows has type int64.*int32: cast it"):
            made.insert(pa.table({"k": [5], "v": ["x"]}))


@pytest.mark.parametrize("form", ["dict", "rows", "pandas", "polars", "lazy", "duckdb"])
def test_every_frame_is_rows_and_keys_of_a_change(tmp_path: Path, form: str) -> None:
    forms: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
        "dict": lambda rows: rows,
        "rows": lambda rows: pa.table(rows).to_pylist(),
        "pandas": lambda rows: pd.DataFrame(rows, index=[7] * len(rows["k"])),
        "polars": pl.DataFrame,
        "lazy": pl.LazyFrame,
        "duckdb": lambda rows: duckdb.from_arrow(pa.table(rows)),
    }
    make = forms[form]
    with ts.Relation.build(tmp_path / "r.rel", make({"k": [2, 1], "v": ["b", "a"]}), "k") as made:
        assert made.insert(make({"k": [3], "v": ["c"]})).inserted == 1
        assert made.update(make({"k": [1], "v": ["A"]})).replaced == 1
        assert made.delete(make({"k": [2]})).removed == 1
        assert made.to_table().to_pydict() == {"k": [1, 3], "v": ["A", "c"]}


def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]})
    with ts.Relation.build(tmp_path / "r.rel", table, "k") as relation:
        fresh = pa.table({"k": [1, 3], "v": ["x", "y"]})
        counts = relation.update(fresh, upsert=True, replace_key=True, dry_run=True)
        assert (counts.inserted, counts.replaced, counts.removed) == (1, 1, 1)
        assert relation.insert(fresh, dry_run=True).inserted == 2
        assert relation.delete([1], dry_run=True).removed == 2
        with pytest.raises(RelationError, match="1 would be removed"):
            relation.update(fresh, upsert=True, dry_run=True)
        assert (relation.version, relation.journal_bytes) == (1, 0)
        assert relation.to_table().equals(table)


# --- Intervals ----------------------------------------------------------------------------------


@settings(max_examples=scaled(40))
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.one_of(st.none(), st.integers(0, 6)),
            st.one_of(st.none(), st.integers(0, 6)),
        ),
        max_size=10,
    ),
    st.sampled_from([pa.int64(), pa.timestamp("s"), pa.float64()]),
)
def test_intervals_are_counted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], kind: pa.DataType
) -> None:
    def column(values: list[Any]) -> pa.Array:
        return pa.array(values, pa.int64()).cast(kind)

    table = pa.table(
        {
            "g": pa.array([g for g, _, _ in rows], pa.string()),
            "lo": column([lo for _, lo, _ in rows]),
            "hi": column([hi for _, _, hi in rows]),
        }
    )
    path = tmp_path_factory.mktemp("intervals") / "r.rel"
    with ts.Relation.build(
        path, table, ("g", ("lo", "hi")), open_ends=True, keep_empty=True
    ) as relation:
        counts = relation.intervals()
        assert counts.empty == relation.empty_intervals
    ends = [(g, -1 if lo is None else lo, 9 if hi is None else hi) for g, lo, hi in rows]
    whole = sorted(row for row in ends if row[1] <= row[2])
    overlapping = sum(
        any(g == h and lo < end for h, _, end in whole[:at]) for at, (g, lo, _) in enumerate(whole)
    )
    assert counts.rows == len(rows)
    assert counts.open == sum(lo is None or hi is None for _, lo, hi in rows)
    assert (counts.overlapping, counts.empty) == (overlapping, len(rows) - len(whole))
