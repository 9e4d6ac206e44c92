"""Any frame in, the same kind out: without copies, and with clear errors."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import thetastream as ts
from thetastream.data.frames import FrameKind, batches_of, frame_of
from thetastream.errors import SchemaError, ThetastreamError

ROWS = {"x": [1, 2, 3], "s": ["a", None, "c"]}
TABLE = pa.table(ROWS)


class Stream:
    """A library that only exports Arrow streams."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    """A library that only exports Arrow arrays."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


FRAMES = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(1),
    "dataset": lambda: pyarrow.dataset.dataset(TABLE),
    "stream": Stream,
    "array": Array,
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
    "duckdb": lambda: duckdb.sql("SELECT * FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) t(x, s)"),
    "dict": lambda: dict(ROWS),
    "arrays": lambda: {"x": np.array([1, 2, 3]), "s": pl.Series(ROWS["s"])},
    "series": lambda: {"x": pd.Series([1, 2, 3]), "s": pa.array(ROWS["s"])},
    "rows": lambda: TABLE.to_pylist(),
    "iterator": lambda: iter([pl.DataFrame(ROWS)[:2], pl.DataFrame(ROWS)[2:]]),
    "list": lambda: [TABLE[:1], TABLE[1:]],
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_holds_the_same_rows(name: str) -> None:
    source = batches_of(FRAMES[name](), infer=True)
    assert source.schema.names == ["x", "s"]
    assert source.rows in (3, None)
    assert source.read_all().to_pydict() == ROWS


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_can_be_pushed(name: str) -> None:
    schema = pa.schema(
        [("x", pa.int64()), ("s", batches_of(FRAMES[name](), infer=True).schema.types[1])]
    )
    if name == "duckdb":
        schema = schema.set(0, pa.field("x", pa.int32()))
    join = ts.StreamJoin("l.x = r.x", window=ts.Unbounded(), schemas=(schema, TABLE.schema))
    join.push(left=FRAMES[name]())
    found = join.push(right=TABLE).to_table()
    assert sorted(found["x"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("name", ["pandas", "polars", "dict", "table", "duckdb"])
def test_a_window_index_takes_frames(name: str) -> None:
    index = ts.WindowIndex("x", ts.CountWindow(10))
    index.insert(FRAMES[name]())
    assert index.lookup([2, 3])["s"].to_pylist() == [None, "c"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("table", pa.Table),
        ("reader", pa.Table),
        ("stream", pa.Table),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("lazy polars", pl.LazyFrame),
        ("duckdb", duckdb.DuckDBPyRelation),
        ("dict", dict),
        ("rows", list),
    ],
)
def test_the_kind_of_the_left_one_comes_out(name: str, kind: type) -> None:
    joined = ts.join(FRAMES[name](), TABLE, "l.x < r.x")
    assert isinstance(joined, kind)
    table = batches_of(joined, infer=True).read_all()
    assert sorted(zip(table["x"].to_pylist(), table["x_right"].to_pylist(), strict=True)) == [
        *((1, 2), (1, 3), (2, 3)),
    ]


# --- Copies -------------------------------------------------------------------------------------


def addresses(table: pa.Table) -> list[int]:
    return [chunk.buffers()[1].address for column in table.columns for chunk in column.chunks]


def test_numbers_are_not_copied_on_the_way_in() -> None:
    values = np.arange(10_000)
    frame = pl.DataFrame({"x": values, "y": values * 0.5})
    shared = pa.array(values)
    panda = pd.DataFrame({"x": values})
    before = pa.total_allocated_bytes()
    sources = {
        "polars": (frame, frame.to_arrow()),
        "pandas": (panda, pa.table({"x": pa.array(panda["x"].to_numpy())})),
        "numpy": ({"x": values}, pa.table({"x": shared})),
        "arrow": (pa.table({"x": shared}), pa.table({"x": shared})),
    }
    for name, (source, same) in sources.items():
        assert addresses(batches_of(source).read_all()) == addresses(same), name
    assert pa.total_allocated_bytes() - before < values.nbytes, "bytes that Arrow has allocated"


def test_results_share_the_memory_of_their_batches() -> None:
    table = ts.join(pa.table({"x": np.arange(5000)}), pa.table({"x": np.arange(5000)}), "l.x = r.x")
    frame = frame_of(FrameKind.POLARS, table)
    assert addresses(batches_of(frame).read_all()) == addresses(table)


# --- Rules --------------------------------------------------------------------------------------


def test_the_index_of_pandas_is_left_out_and_nan_is_null() -> None:
    frame = pd.DataFrame({"x": [1.5, float("nan")]}, index=["a", "b"])
    assert batches_of(frame).read_all().to_pydict() == {"x": [1.5, None]}
    assert ts.join(frame, frame, "l.x = r.x").index.tolist() == [0]
    numpy = batches_of({"x": np.array([float("nan")])}).read_all()
    assert numpy["x"].null_count == 0, "in NumPy, NaN is a number"


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_nullable_and_arrow_types_of_pandas_stay(backend: Any) -> None:
    frame = pd.DataFrame({"x": [1, 2], "n": [2**60 + 1, None], "b": [True, None], "s": ["a", None]})
    frame["n"] = pd.array([2**60 + 1, None], dtype="Int64")
    frame = frame.convert_dtypes(dtype_backend=backend)
    joined = ts.join(frame, frame, "l.x = r.n", "left")
    assert joined[["x", "n", "b", "s"]].dtypes.tolist() == frame.dtypes.tolist()
    assert joined["n_right"].dtype == frame["n"].dtype
    assert joined["n"].tolist()[0] == 2**60 + 1
    numbers = frame.assign(x=[1, 2])  # one column of NumPy's type beside them
    assert ts.join(numbers, frame, "l.x = r.x")["b"].dtype == frame["b"].dtype
    assert ts.join(pd.DataFrame({"x": [1]}), frame, "l.x = r.x")["x_right"].dtype == np.int64


@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
@pytest.mark.parametrize(
    ("none", "on", "shown"),
    [
        (pd.DataFrame(columns=["x", "s"]), "l.x = r.x", "string"),
        (pd.DataFrame({"x": [1], "s": ["a"]})[:0], "l.s < r.s", "string"),
        (pl.DataFrame({"x": [], "s": []}), "abs(l.x - r.x) <= 1 AND l.s = r.s", "string"),
        ({"x": [None, None], "s": [None, "b"]}, "l.x = r.x", "string"),
    ],
    ids=["no rows", "filtered", "polars", "all NULL"],
)
def test_columns_without_a_type_match_nothing(none: Any, on: str, shown: str, how: str) -> None:
    rows = len(none["x"])
    for left, right in ((none, TABLE), (TABLE, none), (none, none)):
        found = batches_of(ts.join(left, right, on, how), infer=True).read_all()
        kept = len(left["x"]) if how in ("left", "full", "anti") else 0
        kept += len(right["x"]) if how == "full" else 0
        assert found.num_rows == kept
    assert rows in (0, 2)
    assert ts.join(TABLE, none, on).schema.field("s").type == shown
    join = ts.StreamJoin(on, window=ts.Unbounded())
    with pytest.raises(SchemaError, match="has type null"):
        join.push(left={"x": [None], "s": [None]})


def test_a_lazy_frame_is_read_once_and_its_length_is_known() -> None:
    source = batches_of(pl.LazyFrame({"x": range(10)}))
    assert (source.kind, source.rows) == (FrameKind.LAZY, 10)


def test_categorical_and_enum_keys() -> None:
    kinds = {"c": pl.Categorical, "e": pl.Enum(["u", "v"])}
    frame = pl.DataFrame({"c": ["u", "v"], "e": ["v", "u"]}, schema=kinds)
    joined = ts.join(frame, frame, "l.c = r.e")
    assert sorted(joined.select("c", "e_right").rows()) == [("u", "u"), ("v", "v")]
    assert joined.schema["c"] == pl.Categorical
    assert joined.schema["e"] == pl.Enum(["u", "v"])


def test_time_zones() -> None:
    naive = pd.DataFrame({"t": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    zoned = naive.assign(t=naive["t"].dt.tz_localize("Europe/Berlin"))
    with pytest.raises(SchemaError, match="time zone"):
        ts.join(naive, zoned, "l.t <= r.t")
    utc = zoned.assign(t=zoned["t"].dt.tz_convert("UTC"))
    joined = ts.join(zoned, utc, "l.t = r.t")
    assert len(joined) == 2
    assert str(joined["t"].dt.tz) == "Europe/Berlin"
    assert str(joined["t_right"].dt.tz) == "UTC"


def test_kinds_may_be_mixed() -> None:
    left = pl.DataFrame({"d": [datetime.date(2026, 1, 1)], "x": [1]})
    right = pd.DataFrame({"t": pd.to_datetime(["2026-01-01"]), "x": [1]})
    assert ts.join(left, right, "l.d = r.t AND l.x = r.x").height == 1


def test_both_sides_may_be_relations_of_one_connection() -> None:
    left, right = (duckdb.sql(f"SELECT range * {n} AS x FROM range(5000)") for n in (1, 2))
    assert ts.join(left, right, "l.x = r.x").aggregate("count(*)").fetchall() == [(2500,)]
    join = ts.StreamJoin("l.x = r.x", window=ts.Unbounded())
    assert join.push(left, right).to_table().num_rows == 2500


def test_a_reader_is_read_once() -> None:
    reader = TABLE.to_reader()
    assert ts.join(reader, TABLE, "l.x = r.x").num_rows == 3
    assert ts.join(reader, TABLE, "l.x = r.x").num_rows == 0, "it continues where it stands"


def test_rows_of_different_keys_have_nulls() -> None:
    assert batches_of([{"x": 1}, {"y": 2}], infer=True).read_all().to_pylist() == [
        *({"x": 1, "y": None}, {"x": None, "y": 2}),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (7, "the left side got int, which holds no rows"),
        (None, "got NoneType"),
        ("trades.parquet", "read the file first"),
        ({"x": [1, 2], "y": [1]}, "differ in length: 'x' has 2, 'y' has 1"),
        ({"x": 5}, "column 'x' of the left side must be a list or an array"),
        ({"x": "abc"}, "column 'x' of the left side must be a list or an array"),
        ({"x": [1, "a"]}, "column 'x' of the left side holds values that are not all of one type"),
        ([{"x": 1}, 7], "a list of dicts with a int among them"),
        ([{"x": 1}, {"x": "a"}], "not all of one type"),
        ({"x": {1, 2}}, "must be a list or an array of values; got set"),
        (pd.DataFrame({"x": [1, "a", object()]}), "column 'x' of the left side holds values"),
        (pd.DataFrame({"x": [1], "o": [object()]}), "'o' of .* Arrow has no type for"),
        (pd.DataFrame({"x": [1], "o": [1j]}), "'o' of .* Arrow has no type for"),
        (pd.DataFrame({"x": pd.arrays.SparseArray([1])}), "'x' of .* Arrow has no type for"),
        (
            pl.DataFrame({"x": [1], "o": pl.Series([object()], dtype=pl.Object)}),
            "'o' of .* Arrow has no type for \\(Python objects",
        ),
        (
            pl.LazyFrame({"x": [1], "o": pl.Series([object()], dtype=pl.Object)}),
            "'o' of .* Arrow has no type for \\(Python objects",
        ),
        (pl.DataFrame({"x": [1]}, schema={"x": pl.Int128}), "DataFrame with a column that Arrow"),
        (pd.Series([1, 2]), "got Series, .* name its columns"),
        (np.zeros((2, 2)), "got ndarray, .* name its columns"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "columns of the same name: x"),
        (pl.Series([1, 2]), "which is one column"),
        (iter([]), "an empty iterator"),
        (iter([{"x": 1}]), "an iterator of rows"),
        (iter([pa.table({"x": [1]}), pa.table({"x": ["a"]})]), "differ in their columns"),
        (pd.DataFrame(), "no column 'x'; it has no columns"),
        (pl.DataFrame(), "no column 'x'; it has no columns"),
        ({}, "no column 'x'; it has no columns"),
        ([], "no column 'x'; it has no columns"),
        (pa.table([[1], [2]], names=["x", "x"]), "columns of the same name"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_bad_input_is_explained(source: Any, message: str) -> None:
    with pytest.raises(ThetastreamError, match=message):
        ts.join(source, TABLE, "l.x = r.x")


@pytest.mark.parametrize("second", FRAMES)
@pytest.mark.parametrize("first", ["table", "pandas", "polars", "dict"])
def test_kinds_may_change_from_push_to_push(first: str, second: str) -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.Unbounded())
    join.push(left=FRAMES[first](), right=TABLE)
    if second == "duckdb":
        with pytest.raises(SchemaError, match="from int64 to int32; cast it"):
            join.push(left=FRAMES[second]())
    else:
        found = join.push(left=FRAMES[second]()).to_table().select(["x", "s"]).to_pylist()
        assert sorted(found, key=lambda row: row["x"]) == TABLE.to_pylist()


def test_keys_of_dicts_need_not_be_text() -> None:
    assert batches_of([{1: 2}, {1: 3}], infer=True).read_all().to_pydict() == {"1": [2, 3]}
    assert batches_of({1: [2]}).read_all().to_pydict() == {"1": [2]}


def test_a_list_of_dicts_needs_known_columns_in_a_push() -> None:
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(9))
    with pytest.raises(SchemaError, match="pass schemas="):
        join.push(left=[{"x": 1}])
    join.push(left=TABLE, right=TABLE)
    assert join.push(left=[{"x": 2, "s": "b"}]).to_table().num_rows == 1
    with pytest.raises(SchemaError, match="new columns y"):
        join.push(left=[{"x": 2, "s": "b", "y": 1}])
    with pytest.raises(SchemaError, match="column 's' is missing"):
        join.push(left=[{"x": 2}])
    with pytest.raises(SchemaError, match="column 'x' of the left side"):
        join.push(left=[{"x": "b", "s": "b"}])
    assert join.push(left=[]).to_table().num_rows == 0
