"""Payload: rings and rows against plain lists, snapshots, bytes given back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetastream.data.rows import (
    BatchView,
    Ring,
    Rows,
    check_gatherable,
    gatherable,
    gathered,
    is_fixed,
)
from thetastream.errors import SchemaError
from thetastream.side import Side

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 60)),
        st.tuples(st.just("expire"), st.integers(0, 80)),
    ),
    max_size=12,
)

# --- Rings --------------------------------------------------------------------------------------


@given(STEPS, st.integers(0, 5), st.sampled_from([1, 40]))
def test_a_ring_is_a_list(steps: list[tuple[str, int]], first: int, scale: int) -> None:
    ring, model, start = Ring(np.int64, first), [], first
    snapshots: list[tuple[NDArray[Any], list[int]]] = []
    number = first
    for action, amount in steps:
        amount *= scale
        if action == "append":
            ring.append(np.arange(number, number + amount))
            model += range(number, number + amount)
            number += amount
        else:
            before = min(start + amount, number + 3)
            ring.expire(before)
            gone = min(max(before - start, 0), len(model))
            model, start = model[gone:], start + gone
        assert (ring.first, ring.size, ring.values.tolist()) == (start, len(model), model)
        assert ring.nbytes >= 8 * ring.size
        snapshots.append((ring.values, list(model)))
    for values, expected in snapshots:
        assert values.tolist() == expected, "a slice taken earlier stays valid"


def test_a_ring_gives_memory_back() -> None:
    ring = Ring(np.int64)
    ring.append(np.arange(100_000))
    full = ring.nbytes
    assert full <= 1.5 * 800_000
    ring.expire(99_990)
    assert ring.nbytes < full / 20
    assert ring.values.tolist() == list(range(99_990, 100_000))
    ring.expire(10)
    assert ring.first == 99_990, "expiry never goes back"


def test_a_sliding_ring_stays_small() -> None:
    ring, most = Ring(np.int64), 0
    for at in range(0, 200_000, 1000):
        ring.append(np.arange(at, at + 1000))
        ring.expire(at + 1000 - 20_000)
        most = max(most, ring.nbytes)
    assert ring.values.tolist() == list(range(180_000, 200_000))
    assert most <= 8 * 20_000 * 2


def test_writes_by_the_owner_are_seen() -> None:
    ring = Ring(np.bool_)
    ring.append(np.zeros(4, np.bool_))
    ring.values[2] = True
    ring.append(np.zeros(5000, np.bool_))
    assert np.flatnonzero(ring.values).tolist() == [2]


# --- Columns of every type ----------------------------------------------------------------------

DAY = dt.date(2024, 1, 1)
MAKERS: dict[str, tuple[pa.DataType, Any]] = {
    **{str(t): (t, lambda i: i % 100) for t in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64())},
    "float16": (pa.float16(), lambda i: float(i % 100)),
    "float64": (pa.float64(), lambda i: i / 8),
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "string": (pa.string(), lambda i: "x" * (i % 5) + str(i)),
    "large string": (pa.large_string(), lambda i: str(i)),
    "string view": (pa.string_view(), lambda i: f"a long string, not inlined {i}"),
    "binary": (pa.binary(), lambda i: bytes([i % 256])),
    "binary view": (pa.binary_view(), lambda i: b"a long value, not inlined %d" % i),
    "fixed binary": (pa.binary(3), lambda i: b"%03d" % (i % 1000)),
    "decimal 64": (pa.decimal64(9, 2), lambda i: Decimal(i) / 4),
    "decimal 128": (pa.decimal128(20, 2), lambda i: Decimal(i) / 4),
    "decimal 256": (pa.decimal256(50, 2), lambda i: Decimal(i) / 4),
    "date32": (pa.date32(), lambda i: DAY + dt.timedelta(i)),
    "date64": (pa.date64(), lambda i: DAY + dt.timedelta(i)),
    "time": (pa.time32("s"), lambda i: dt.time(i % 24)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda i: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(i),
    ),
    "duration": (pa.duration("ms"), lambda i: dt.timedelta(i)),
    "interval": (pa.month_day_nano_interval(), lambda i: pa.MonthDayNano([i, 2, 3])),
    "list": (pa.list_(pa.int64()), lambda i: [i] * (i % 4)),
    "large list": (pa.large_list(pa.string()), lambda i: [str(i), None]),
    "fixed list": (pa.list_(pa.int8(), 2), lambda i: [i % 100, 1]),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda i: {"a": i, "b": None}),
    "map": (pa.map_(pa.string(), pa.int64()), lambda i: [("k", i)]),
    "nested": (pa.list_(pa.struct([("a", pa.list_(pa.string()))])), lambda i: [{"a": [str(i)]}]),
}
ENCODED = pa.dictionary(pa.int32(), pa.string())


def column(name: str, start: int, count: int, *, nulls: bool) -> pa.Array:
    """Values ``start …``; every fourth is NULL when wanted."""
    if name == "dictionary":
        # Each batch has a dictionary of its own, in an order of its own.
        words = [f"w{(start + i) % 7}" for i in range(count)]
        return (
            pa.array(words[::-1]).dictionary_encode()[::-1].cast(ENCODED)
            if count
            else pa.array([], ENCODED)
        )
    kind, make = MAKERS[name]
    values = [None if nulls and (start + i) % 4 == 1 else make(start + i) for i in range(count)]
    return pa.array(values, kind)


def kind_of(name: str) -> pa.DataType:
    return ENCODED if name == "dictionary" else MAKERS[name][0]


@pytest.mark.parametrize("kept", [{}, {"chunked": True}, {"ordered": ["c"]}], ids=str)
@pytest.mark.parametrize("name", ["string", "large string", "binary"])
@given(steps=STEPS, data=st.data())
def test_strings_are_kept_in_three_ways(
    name: str, kept: dict[str, Any], steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    check_rows(name, steps, data, **kept)


@pytest.mark.parametrize("name", [*MAKERS, "dictionary"])
@given(steps=STEPS, data=st.data())
def test_rows_are_a_list(name: str, steps: list[tuple[str, int]], data: st.DataObject) -> None:
    check_rows(name, steps, data)


def check_rows(name: str, steps: list[tuple[str, int]], data: st.DataObject, **kept: Any) -> None:
    """Rows against a list, with all snapshots that were taken."""
    schema = pa.schema([("c", kind_of(name))])
    rows, model = Rows(schema, ["c"], first=7, **kept), []
    views = []
    for at, (action, amount) in enumerate(steps):
        if action == "append":
            array = column(name, len(model), amount, nulls=at % 2 == 1)
            padded = pa.concat_arrays([array[:1], array])[1:] if name != "dictionary" else array
            rows.append(pa.record_batch([padded], schema=schema))
            model += array.to_pylist()
        else:
            rows.expire(min(7 + len(model), rows.first + amount))
        assert rows.next == 7 + len(model)
        assert len(rows) == rows.next - rows.first
        views.append((rows.view(), rows.first, rows.next))
    for view, first, end in views:  # old views too: later appends and expiries do not touch them
        ids = data.draw(st.lists(st.integers(first, end - 1), max_size=9)) if end > first else []
        taken = view.take("c", np.array(ids, np.int64))
        assert taken.type == kind_of(name)
        taken.validate(full=True)
        assert taken.to_pylist() == [model[i - 7] for i in ids]


@pytest.mark.parametrize("name", [*MAKERS, "dictionary"])
def test_a_batch_is_read_like_rows(name: str) -> None:
    array = column(name, 0, 20, nulls=True)
    for part in (array, array[3:15], array[:0]):
        view = BatchView(pa.record_batch([part], names=["c"]))
        ids = np.array([0, 5, 5, 2] if len(part) else [], np.int64)
        for _ in range(2):  # the second time the column is wrapped already
            taken = view.take("c", ids)
            assert taken.type == array.type
            assert taken.to_pylist() == [part[int(i)].as_py() for i in ids]


def rows_of(*names: str) -> Rows:
    return Rows(pa.schema([(name, kind_of(name)) for name in names]), names)


def batch_of(start: int, count: int, *names: str) -> pa.RecordBatch:
    return pa.record_batch([column(n, start, count, nulls=True) for n in names], names=list(names))


@pytest.mark.parametrize("name", ["int32", "bool", "string", "list", "dictionary", "string view"])
def test_memory_is_given_back(name: str) -> None:
    rows = rows_of(name)
    for start in range(0, 40_000, 1000):
        rows.append(batch_of(start, 1000, name))
    full = rows.nbytes
    rows.expire(39_900)
    assert rows.nbytes < full / 4
    rows.expire(40_000)
    assert len(rows) == 0
    assert rows.nbytes < full / 8
    assert rows.view().take(name, np.empty(0, np.int64)).to_pylist() == []
    rows.append(batch_of(0, 3, name))
    assert (
        rows.view().take(name, np.array([40_001])).to_pylist()
        == batch_of(0, 3, name)[name].to_pylist()[1:2]
    )


def test_a_sliding_window_stays_small() -> None:
    # Chunks of lists are dropped whole, so some expired rows are held, but not many.
    rows, one = rows_of("list"), batch_of(0, 500, "list").nbytes
    for start in range(0, 100_000, 500):
        rows.append(batch_of(0, 500, "list"))
        rows.expire(start + 500 - 10_000)
        assert rows.nbytes <= 2 * 20 * one


def test_a_sliding_window_of_strings_stays_small() -> None:
    rows = rows_of("string")
    for start in range(0, 100_000, 500):
        rows.append(batch_of(0, 500, "string"))
        rows.expire(start + 500 - 10_000)
    # A start of eight bytes, a byte for NULL, and fewer than eight bytes of text.
    assert rows.nbytes <= 2 * 10_000 * (8 + 1 + 8)


def test_chunks_are_few() -> None:
    rows = rows_of("list")
    for start in range(3000):
        rows.append(batch_of(start, 1, "list"))
    assert len(rows._columns["list"]._chunks) < 30


def test_only_wanted_columns_are_held() -> None:
    schema = batch_of(0, 1, "int32", "string").schema
    rows = Rows(schema, ["int32"])
    rows.append(batch_of(0, 5, "int32", "string"))
    assert rows.view().take("int32", np.array([4])).to_pylist() == [4]
    with pytest.raises(KeyError):
        rows.view().take("string", np.array([0]))
    nothing = Rows(schema, [])
    nothing.append(batch_of(0, 5, "int32", "string"))
    assert (len(nothing), nothing.nbytes) == (5, 0)


def test_expiry_never_goes_back_nor_beyond_the_end() -> None:
    rows = rows_of("int32")
    rows.append(batch_of(0, 5, "int32"))
    rows.expire(3)
    rows.expire(1)
    assert (rows.first, len(rows)) == (3, 2)
    rows.expire(99)
    assert (rows.first, rows.next, len(rows)) == (5, 5, 0)


def test_which_types_live_in_flat_arrays() -> None:
    fixed = {name for name, (kind, _) in MAKERS.items() if is_fixed(kind)}
    assert fixed == {
        *("int8", "uint16", "int32", "uint64", "float16", "float64"),
        *("date32", "date64", "time", "timestamp", "duration"),
    }


def test_views_become_types_that_arrow_gathers() -> None:
    assert gatherable(pa.array(["x"], pa.string_view())).type == pa.large_string()
    assert gatherable(pa.array([b"x"], pa.binary_view())).type == pa.large_binary()
    assert gatherable(pa.array([1])).type == pa.int64()


def test_types_that_cannot_be_gathered_are_refused() -> None:
    check_gatherable(pa.schema([(name, kind) for name, (kind, _) in MAKERS.items()]), "left")
    views = pa.list_(pa.string_view())
    with pytest.raises(
        SchemaError, match=r"'v' of the left side has type list<.*cast it to a type"
    ):
        check_gatherable(pa.schema([("v", views)]), "left")
    ends = pa.run_end_encoded(pa.int32(), pa.int64())
    with pytest.raises(SchemaError, match="'e' of the right side .* run-end encoded$"):
        check_gatherable(pa.schema([("e", ends)]), "right")


@pytest.mark.parametrize(("length", "shared"), [(1_000, False), (120_000, True), (600_000, False)])
def test_columns_of_a_large_batch_share_an_array(length: int, shared: bool) -> None:
    """From four megabytes on, unless each column has as many."""
    kinds = [pa.int64(), pa.int32(), pa.float64(), pa.timestamp("ns"), pa.string(), pa.int64()]
    rows = 5_000
    arrays = [pa.array(np.arange(rows) * (at + 1)).cast(kind) for at, kind in enumerate(kinds)]
    arrays[2] = pa.array([None if n % 7 == 0 else float(n) for n in range(rows)])
    batch = pa.RecordBatch.from_arrays(arrays, names=list("abcdef"))
    ids = np.random.default_rng(1).integers(0, rows, length)
    origin = [(Side.LEFT, name) for name in batch.schema.names]
    found = gathered(batch.schema, origin, {Side.LEFT: (BatchView(batch), ids)}, length)
    found.validate(full=True)
    assert found.equals(batch.take(pa.array(ids)))
    places = [found.column(at).buffers()[1].address for at in (0, 1, 2, 3, 5)]
    sizes = [length * width for width in (8, 4, 8, 8, 8)]
    gaps = [after - before for before, after in pairwise(places)]
    beside = all(0 <= gap - size < 64 for gap, size in zip(gaps, sizes[:-1], strict=True))
    assert beside or not shared
