"""Building: every key, every payload, any amount of memory; and what is refused."""

from __future__ import annotations

import datetime as dt
import math
import os
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thetastream as ts
from thetastream.errors import DataError, OptionError, RelationError, SchemaError
from thetastream.relation.files.build import Progress
from thetastream.relation.files.sorting import KeyedRows, Sorter, stable_order

from ...scale import scaled
from .build_cases import SMALL, built

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15)

ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [0, 1, 2, 127]) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16())),
    *((kind, [0, 1, 2, 2**31 - 1]) for kind in (pa.int32(), pa.uint32())),
    (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    (pa.bool_(), [False, True]),
    (pa.float16(), [np.float16(v) for v in (-1.5, 0.0, 2.0)]),
    (pa.float32(), [-math.inf, -1.5, 0.0, 1.5, math.inf, math.nan]),
    (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, math.nan]),
    (pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
    (pa.decimal256(40, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
    (pa.date32(), [DAY, dt.date(1969, 1, 1), dt.date(2100, 1, 1)]),
    (pa.date64(), [DAY, dt.date(1969, 1, 1)]),
    (pa.time32("s"), [dt.time(0), dt.time(12, 1)]),
    (pa.time64("us"), [dt.time(0), dt.time(12, 1, 0, 5)]),
    (pa.timestamp("s"), [NOON, NOON.replace(year=1952)]),
    (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=dt.UTC)]),
    (pa.duration("ms"), [dt.timedelta(0), dt.timedelta(days=-1), dt.timedelta(seconds=5)]),
    (pa.dictionary(pa.int8(), pa.int64()), [3, 4, 5]),
]
HASHED: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, ["", "a", "b", "a\0", "ä" * 40]) for kind in (pa.string(), pa.large_string())),
    (pa.string_view(), ["", "a", "b" * 30]),
    *((kind, [b"", b"a", b"\0"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), [b"ab", b"ac"]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "z"]),
]


def rank(value: Any) -> tuple[bool, Any]:
    """NaN is above all numbers."""
    return (True, 0) if value != value else (False, value)


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows to be compared: NaN equals itself."""
    return [repr(row) for row in rows]


@pytest.mark.parametrize(("kind", "values"), ORDERED, ids=lambda x: str(x)[:20])
@settings(max_examples=scaled(15))
@given(data=st.data())
def test_rows_in_key_order(kind: pa.DataType, values: list[Any], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.one_of(st.none(), st.sampled_from(values)), max_size=40))
    keys = pa.array(drawn, pa.int64() if pa.types.is_dictionary(kind) else kind)
    if pa.types.is_dictionary(kind):
        keys = keys.dictionary_encode().cast(kind)
    table = pa.table({"n": range(len(drawn)), "k": keys}, pa.schema({"n": pa.int64(), "k": kind}))
    with tempfile.TemporaryDirectory() as folder, built(folder, table, "k") as relation:
        assert relation.schema.equals(table.schema)
        assert relation.null_keys == drawn.count(None)
        rows = [row for row in table.to_pylist() if row["k"] is not None]
        assert relation.rows == len(rows)
        expected = sorted(rows, key=lambda row: rank(row["k"]))
        assert shown(relation.to_table().to_pylist()) == shown(expected)


def _code(key: str | bytes) -> bytes:
    """What short values have in common that lie at one place: zeros at the end do not count."""
    return (key.encode() if isinstance(key, str) else key).rstrip(b"\0")


@pytest.mark.parametrize(("kind", "values"), HASHED, ids=lambda x: str(x)[:20])
@settings(max_examples=scaled(10))
@given(data=st.data())
def test_strings_lie_together(kind: pa.DataType, values: list[Any], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.one_of(st.none(), st.sampled_from(values)), max_size=40))
    if pa.types.is_dictionary(kind):
        keys = pa.array(drawn, kind.value_type).dictionary_encode().cast(kind)
    else:
        keys = pa.array(drawn, kind)
    table = pa.table({"n": range(len(drawn)), "k": keys}, pa.schema({"n": pa.int64(), "k": kind}))
    with tempfile.TemporaryDirectory() as folder, built(folder, table, "k") as relation:
        found = relation.to_table().to_pylist()
    rows = [row for row in table.to_pylist() if row["k"] is not None]
    assert sorted(found, key=lambda row: row["n"]) == rows
    codes = [_code(row["k"]) for row in found]
    groups = [code for at, code in enumerate(codes) if not at or code != codes[at - 1]]
    assert len(groups) == len(set(groups))
    for key in {row["k"] for row in found}:
        numbers = [row["n"] for row in found if row["k"] == key]
        assert numbers == sorted(numbers)


intervals = st.one_of(st.none(), st.integers(0, 6))


@given(st.lists(st.tuples(intervals, intervals), max_size=40), st.booleans())
@settings(max_examples=scaled(30))
def test_intervals(rows: list[tuple[int | None, int | None]], mixed: bool) -> None:
    """Rows whose lo lies above hi are kept, and counted; also with two types."""
    schema = pa.schema({"lo": pa.int64(), "hi": pa.float64() if mixed else pa.int64()})
    table = pa.table([[r[0] for r in rows], [r[1] for r in rows]], schema=schema)
    whole = [r for r in rows if None not in r]
    with (
        tempfile.TemporaryDirectory() as folder,
        built(folder, table, ("lo", "hi"), open_ends=False, keep_empty=True) as relation,
    ):
        assert relation.key == ("lo", "hi")
        assert relation.null_keys == len(rows) - len(whole)
        assert relation.empty_intervals == sum(lo > hi for lo, hi in whole)
        found = [(row["lo"], row["hi"]) for row in relation.to_table().to_pylist()]
        assert found == sorted(whole, key=lambda row: row[0])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sampled_from([300, 1500, 5000]))
@settings(max_examples=scaled(25))
def test_equal_keys_over_many_leaves(keys: list[int], width: int) -> None:
    """Few keys, large rows: leaves continue the key of the leaf before, some over blocks."""
    pad = ["x" * (width + 97 * at % width) for at in range(len(keys))]
    table = pa.table({"k": keys, "n": range(len(keys)), "pad": pad})
    with (
        tempfile.TemporaryDirectory() as folder,
        built(folder, table, "k", block_bytes=4096) as relation,
        relation.snapshot() as snapshot,
    ):
        order = sorted(range(len(keys)), key=lambda at: keys[at])
        assert relation.to_table(["n"])["n"].to_pylist() == order
        for key in range(4):
            asked = np.array([key])
            (first,), (stop,) = snapshot.fences.ranges(asked, asked)
            inside = [keys[at] for at in order]
            assert (stop > first) or key not in inside


def test_oversized_rows_take_several_blocks(tmp_path: Path) -> None:
    pad = [b"x" * (100_000 if at % 7 == 0 else 10) for at in range(50)]
    table = pa.table({"k": range(50), "pad": pad})
    relation = built(tmp_path, table, "k", block_bytes=4096, fill=1)
    with relation.snapshot() as snapshot:
        assert snapshot.fences.spans is not None
        assert snapshot.fences.spans.max() == 25
    assert relation.blocks > relation.leaves
    assert relation.to_table().equals(table)


NESTED = pa.table(
    {
        "k": pa.array([3, 1, 2, None]),
        "list": pa.array([[1], None, [], [2]], pa.list_(pa.int8())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}, None]),
        "map": pa.array([[("x", 1)], [], None, None], pa.map_(pa.string(), pa.int32())),
        "words": pa.array(["u", "v", None, "u"]).dictionary_encode(),
        "view": pa.array(["", "long enough to be outside", None, ""], pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 4], ["p", "q"]),
        "nothing": pa.nulls(4),
        "id": pa.array([bytes([at]) * 16 for at in range(4)], pa.uuid()),
        "flag": [True, None, False, True],
        "span": pa.array([(1, 2, 3), None, (4, 5, 6), None], pa.month_day_nano_interval()),
    }
)


@pytest.mark.parametrize("memory", ["64 KiB", "256 MB"])
def test_payload_of_any_type(tmp_path: Path, memory: str) -> None:
    table = pa.concat_tables([NESTED] * 500)
    relation = built(tmp_path, table, "k", memory=memory)
    assert relation.schema.equals(table.schema)
    assert relation.null_keys == 500
    rows = NESTED.to_pylist()
    expected = [row for row in (rows[1], rows[2], rows[0]) for _ in range(500)]
    assert relation.to_table().to_pylist() == expected


def test_rows_larger_than_memory(tmp_path: Path) -> None:
    pad = [bytes([at]) * 300_000 for at in range(20)]
    table = pa.table({"k": [at * 7 % 20 for at in range(20)], "pad": pad})
    relation = built(tmp_path, table, "k", memory="64 KiB")
    assert relation.to_table().equals(table.sort_by("k").combine_chunks())


def test_a_relation_built_from_itself(tmp_path: Path) -> None:
    """With another key, while it is read."""
    relation = built(tmp_path, SMALL, "k")
    again = ts.Relation.build(relation.path, relation.batches(), "v", replace=True)
    again.check()
    assert again.key == ("v",)
    assert sorted(again.to_table()["v"].to_pylist()) == ["a", "b", "c", "d", "e"]
    assert (again.version, relation.version) == (2, 1)
    assert relation.refresh()
    assert relation.key == ("v",)


# --- External sort ------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=12), max_size=12),
    st.integers(8, 2000),
    st.booleans(),
)
def test_sorted_runs_are_merged_stably(parts: list[list[int]], budget: int, two: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sorter = Sorter(budget, lambda: Path(folder))
        number = 0
        for part in parts:
            keys = np.array(part, np.int64)
            places = np.arange(number, number + len(part))
            batch = pa.record_batch({"n": places, "s": [str(key) for key in part]})
            sorter.add(KeyedRows(batch, keys, places if two else None))
            number += len(part)
        chunks = list(sorter.sorted())
        assert os.listdir(folder) == []
    keys = [key for part in parts for key in part]
    order = sorted(range(len(keys)), key=lambda at: keys[at])
    assert [n for c in chunks for n in c.batch["n"].to_pylist()] == order
    assert [s for c in chunks for s in c.batch["s"].to_pylist()] == [str(keys[n]) for n in order]
    assert [key for c in chunks for key in c.keys.tolist()] == sorted(keys)
    if two:
        assert [n for c in chunks if c.his is not None for n in c.his.tolist()] == order


def test_more_runs_than_are_merged_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sorter = Sorter(1000, lambda: tmp_path)
    keys = rng.integers(0, 50, 4000)
    for at in range(0, len(keys), 20):
        batch = pa.record_batch({"n": np.arange(at, at + 20)})
        sorter.add(KeyedRows(batch, keys[at : at + 20]))
    assert len(os.listdir(tmp_path)) > 130
    found = np.concatenate([chunk.batch["n"].to_numpy() for chunk in sorter.sorted()])
    assert found.tolist() == np.argsort(keys, kind="stable").tolist()
    assert os.listdir(tmp_path) == []


@given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))))
def test_stable_order(values: list[int]) -> None:
    keys = np.array(values, np.int64)
    order = stable_order(keys)
    expected = sorted(range(len(values)), key=lambda at: values[at])
    assert (list(range(len(values))) if order is None else order.tolist()) == expected


def test_a_table_larger_than_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    keys = rng.permutation(100_000)
    words = pa.array([str(key) for key in keys])
    table = pa.table({"k": keys, "w": words, "x": rng.random(len(keys))})
    relation = built(tmp_path, table, "k", memory="1 MB")
    assert relation.to_table().equals(table.sort_by("k").combine_chunks())


@pytest.mark.parametrize("memory", ["64 KiB", "1 MB"])
@pytest.mark.parametrize("key", ["k", ("k", "h")])
def test_rows_that_are_in_order_already(tmp_path: Path, memory: str, key: Any) -> None:
    table = pa.table({"k": np.arange(40_000), "h": np.arange(40_000) + 5, "x": np.ones(40_000)})
    assert built(tmp_path, table, key, memory=memory).to_table().equals(table)


def test_memory_of_a_sort_stays_within_its_budget(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(3)
        for _ in range(200):
            yield pa.record_batch({"k": rng.integers(0, 10**9, 5000), "x": rng.random(5000)})

    assert _most_allocated(tmp_path, rows(), "k", "4 MB") < 4_000_000


@pytest.mark.parametrize("key", ["k", ("g", ("k",))])
def test_memory_of_reading_a_file_does_not_grow_with_it(tmp_path: Path, key: Any) -> None:
    """Rows are decoded as they are sorted, and not by threads ahead of that."""
    rng, rows = np.random.default_rng(4), 1_200_000
    columns = {"k": rng.integers(0, 10**9, rows), "g": np.arange(rows) % 7, "x": rng.random(rows)}
    table, file = pa.table(columns), tmp_path / "rows.parquet"
    pq.write_table(table, file, row_group_size=20_000)
    size = table.nbytes
    del table, columns
    assert _most_allocated(tmp_path, file, key, "2 MB") < size / 2


def _most_allocated(folder: Path, source: Any, key: Any, memory: str) -> int:
    """The most memory that Arrow holds for a build until rows are written."""
    seen: list[int] = []
    before = pa.total_allocated_bytes()

    def watch(progress: Progress) -> None:
        if not progress.written:
            seen.append(pa.total_allocated_bytes() - before)

    built(folder, source, key, memory=memory, progress=watch)
    return max(seen)


def test_progress(tmp_path: Path) -> None:
    table = pa.table({"k": [*range(5000), None]})
    for source, total in ((table, 5001), (iter(table.to_batches()), None)):
        seen: list[Progress] = []
        built(tmp_path, source, "k", progress=seen.append)
        assert seen[-1] == Progress(read=5001, sorted=5000, written=5000, total=total)
        for a, b in pairwise(seen):
            assert (a.read, a.sorted, a.written) <= (b.read, b.sorted, b.written)


def test_leaves_are_filled_as_asked(tmp_path: Path) -> None:
    table = pa.table({"k": range(100_000), "x": np.ones(100_000)})
    full = built(tmp_path, table, "k", fill=1.0)
    half = built(tmp_path, table, "k", fill=0.5)
    assert full.blocks == math.ceil(100_000 / ((8192 - 48) // 16))
    assert 1.95 < half.blocks / full.blocks < 2.05
    assert (full.fill, half.fill) == (1.0, 0.5)


@pytest.mark.parametrize("key", ["k", ("k", "h")])
def test_no_rows(tmp_path: Path, key: Any) -> None:
    table = pa.table({"k": pa.array([None], pa.int64()), "h": pa.array([1])})
    relation = built(tmp_path, table, key, open_ends=None if key == "k" else False)
    assert (relation.rows, relation.leaves, relation.blocks, relation.null_keys) == (0, 0, 0, 1)
    assert relation.to_table().equals(table.slice(0, 0))
    with relation.snapshot() as snapshot:
        first, stop = snapshot.fences.ranges(np.array([1]), np.array([5]))
        assert (first.tolist(), stop.tolist()) == ([0], [0])


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"key": "kk"}, SchemaError, r"no column 'kk'.*has k, v\..*Did you mean 'k'"),
        ({"key": ("k", "hi")}, SchemaError, "no column 'hi'"),
        ({"key": ("k", "v")}, SchemaError, "interval from 'k' to 'v'.*cast"),
        ({"key": ("k", "k")}, OptionError, "got 'k' twice"),
        ({"key": ()}, OptionError, r"pair of names .* got \(\)"),
        ({"key": ("a", "b", "c")}, OptionError, "pair of names"),
        ({"key": 5}, OptionError, "column name.* got 5"),
        ({"block_bytes": 5000}, OptionError, "multiple of 4096 .* got 5000"),
        ({"block_bytes": 0}, OptionError, "multiple of 4096 .* got 0"),
        ({"block_bytes": 2**40}, OptionError, "multiple of 4096"),
        ({"block_bytes": "8k"}, OptionError, "number of bytes; got '8k'"),
        ({"fill": 0}, OptionError, "above 0 and at most 1; got 0"),
        ({"fill": 1.01}, OptionError, "at most 1; got 1.01"),
        ({"fill": math.nan}, OptionError, "got nan"),
        ({"fill": "full"}, OptionError, "got 'full'"),
        ({"memory": "1 kB"}, RelationError, "at least 64 KiB"),
        ({"memory": "much"}, OptionError, "amount of memory"),
        ({"source": 5}, RelationError, "got int"),
    ],
)
def test_arguments(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments = {"path": tmp_path / "r.rel", "source": SMALL, "key": "k"} | changes
    with pytest.raises(error, match=words):
        ts.Relation.build(**arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct({"a": pa.int8()}), pa.null(), pa.uuid()]
)
def test_types_that_cannot_be_keys(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"k": pa.nulls(3, kind)})
    with pytest.raises(SchemaError, match="key column 'k'.* cannot be compared"):
        built(tmp_path, table, "k")
    assert os.listdir(tmp_path) == []


def test_a_decimal_that_does_not_fit(tmp_path: Path) -> None:
    table = pa.table({"k": pa.array([Decimal(10) ** 30], pa.decimal256(40, 0))})
    assert built(tmp_path, table, "k").rows == 1
    table = pa.table({"k": pa.array([Decimal(10) ** 39], pa.decimal256(40, 0))})
    with pytest.raises(DataError, match="'k'.*38 digits"):
        ts.Relation.build(tmp_path / "wide.rel", table, "k")
    assert not (tmp_path / "wide.rel").exists()


def test_blocks_too_small_for_the_columns(tmp_path: Path) -> None:
    table = pa.table({f"c{at}": [1.0] for at in range(1000)})
    with pytest.raises(RelationError, match="4096 is too small.* 1000 columns .* larger blocks"):
        built(tmp_path, table, "c0", block_bytes=4096)
    assert built(tmp_path, table, "c0", block_bytes=65536).to_table().equals(table)


def test_folders_of_others_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RelationError, match="holds other files, such as 'thesis.tex'"):
        ts.Relation.build(tmp_path, SMALL, "k")
    with pytest.raises(RelationError, match="is a file"):
        ts.Relation.build(tmp_path / "thesis.tex", SMALL, "k")
    assert os.listdir(tmp_path) == ["thesis.tex"]
    relation = ts.Relation.build(tmp_path / "a" / "b" / "r.rel", SMALL, "k")
    assert relation.rows == 5
