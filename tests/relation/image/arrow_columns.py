"""Random Arrow columns of every kind, rows of them packed, and what is in them, to compare."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from thetastream.relation.image.layout import LeafLayout, Packed

FIRST = 11  # the block of the first leaf
_ZONES = [None, "UTC", "Europe/Berlin"]
_UNITS = ["s", "ms", "us", "ns"]


def _ints(kind: pa.DataType) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if pat.is_unsigned_integer(kind):
        low, high = 0, 2**kind.bit_width - 1
    return st.one_of(st.integers(max(low, -3), 3), st.sampled_from([low, high]))


NUMBERS = [getattr(pa, f"{u}int{w}")() for u in ("", "u") for w in (8, 16, 32, 64)]
TIMES = [
    *(pa.timestamp(unit, zone) for unit in _UNITS for zone in _ZONES),
    *(pa.duration(unit) for unit in _UNITS),
    *(pa.time32(unit) for unit in ("s", "ms")),
    *(pa.time64(unit) for unit in ("us", "ns")),
    pa.date32(),
    pa.date64(),
]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal32(5, 2),
    pa.decimal64(12, 3),
    pa.decimal128(18, 4),
    pa.decimal256(60, 5),
]
TEXT = [pa.string(), pa.large_string(), pa.string_view()]
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(16)]
KEYS = [*NUMBERS, *TIMES, *FLOATS, *DECIMALS, *TEXT, *BINARY, pa.bool_()]
PLAIN = [*KEYS, pa.binary(0), pa.null(), pa.month_day_nano_interval()]


def plain_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type without parts, ties and extremes among them; no NULL."""
    if pat.is_boolean(kind):
        return st.booleans()
    if pat.is_integer(kind):
        return _ints(kind)
    if pat.is_floating(kind):
        special = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5]
        return st.sampled_from(special).map(np.float16 if kind.bit_width == 16 else float)
    if pat.is_decimal(kind):
        return st.integers(-999, 999).map(lambda n: Decimal(n).scaleb(-2))
    if pat.is_null(kind):
        return st.none()
    if pat.is_interval(kind):
        return st.tuples(*[st.integers(-5, 5)] * 3).map(pa.MonthDayNano)
    if kind in TEXT:
        return st.sampled_from(["", "a", "ä", "eight ch", "nine char", "x" * 40, "y" * 700])
    if pat.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if kind in BINARY:
        return st.one_of(st.binary(max_size=9), st.just(b"\0" * 33))
    if pat.is_date64(kind):
        return st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
    return st.integers(0, 50)  # times: as numbers


def plain_array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of such values, NULLs among them."""
    if pat.is_temporal(kind) and not pat.is_date64(kind) and not pat.is_interval(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    return pa.array(values, kind)


@st.composite
def arrays(draw: st.DrawFn, rows: int, depth: int = 2) -> pa.Array:
    """An array of any type; nested ones down to a depth."""
    make = draw(st.sampled_from(["plain"] * 4 + list(_MAKERS)))
    if make == "plain" or not depth:
        return draw(plain_arrays(st.sampled_from(PLAIN), rows))
    made = draw(_MAKERS[make](rows, depth - 1))
    made.validate(full=True)
    return made


@st.composite
def plain_arrays(
    draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType], rows: int, nulls: bool = True
) -> pa.Array:
    """An array of one of some types without parts."""
    kind = draw(kinds)
    values = plain_values(kind)
    if nulls and draw(st.booleans()):
        values = st.one_of(st.none(), values)
    return plain_array(kind, draw(st.lists(values, min_size=rows, max_size=rows)))


def _mask(draw: st.DrawFn, rows: int) -> pa.Array | None:
    if not draw(st.booleans()):
        return None
    return pa.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), pa.bool_())


@st.composite
def _lists(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    sizes = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    values = draw(arrays(sum(sizes), depth))
    ends = np.cumsum([0, *sizes])
    mask = _mask(draw, rows)
    if draw(st.booleans()):
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values, mask=mask)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, mask=mask)


@st.composite
def _list_views(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    values = draw(arrays(6, depth))
    places = st.lists(st.integers(0, 3), min_size=rows, max_size=rows)
    kind, width = pa.ListViewArray, pa.int32()
    if draw(st.booleans()):
        kind, width = pa.LargeListViewArray, pa.int64()
    first, sizes = (pa.array(draw(places), width) for _ in range(2))
    return kind.from_arrays(first, sizes, values, mask=_mask(draw, rows))


@st.composite
def _fixed_lists(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    size = draw(st.integers(1, 2))
    values = draw(arrays(rows * size, depth))
    return pa.FixedSizeListArray.from_arrays(values, size, mask=_mask(draw, rows))


@st.composite
def _structs(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    parts = [draw(arrays(rows, depth)) for _ in range(draw(st.integers(1, 2)))]
    return pa.StructArray.from_arrays(parts, ["x", "y"][: len(parts)], mask=_mask(draw, rows))


@st.composite
def _maps(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    sizes = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    keys = draw(plain_arrays(st.sampled_from([pa.string(), pa.int8()]), sum(sizes), nulls=False))
    ends = pa.array(np.cumsum([0, *sizes]), pa.int32())
    return pa.MapArray.from_arrays(ends, keys, draw(arrays(sum(sizes), depth)))


@st.composite
def _unions(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    codes = st.lists(st.sampled_from([3, 5]), min_size=rows, max_size=rows)
    kinds = pa.array(draw(codes), pa.int8())
    names = (["p", "q"], [3, 5])
    if draw(st.booleans()):
        return pa.UnionArray.from_sparse(kinds, [draw(arrays(rows, depth)) for _ in "pq"], *names)
    which = kinds.to_numpy()
    places = np.where(which == 3, np.cumsum(which == 3), np.cumsum(which == 5)) - 1
    sizes = [int((which == code).sum()) for code in (3, 5)]
    children = [draw(arrays(size + 1, depth)) for size in sizes]
    return pa.UnionArray.from_dense(kinds, pa.array(places, pa.int32()), children, *names)


@st.composite
def _dictionaries(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    words = draw(arrays(3, depth))
    indices = st.one_of(st.none(), st.integers(0, 2))
    index_type = draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]))
    chosen = draw(st.lists(indices, min_size=rows, max_size=rows))
    return pa.DictionaryArray.from_arrays(pa.array(chosen, index_type), words)


@st.composite
def _runs(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    ends = draw(st.sets(st.integers(1, rows))) | {rows} if rows else set()
    kind = draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()]))
    values = draw(arrays(len(ends), depth))
    return pa.RunEndEncodedArray.from_arrays(pa.array(sorted(ends), kind), values)


@st.composite
def _extensions(draw: st.DrawFn, rows: int, depth: int) -> pa.Array:
    kind = draw(st.sampled_from([pa.uuid(), pa.json_(), pa.bool8()]))
    storage = draw(plain_arrays(st.just(kind.storage_type), rows))
    return pa.ExtensionArray.from_storage(kind, storage)


_MAKERS = {
    "lists": _lists,
    "list views": _list_views,
    "fixed lists": _fixed_lists,
    "structs": _structs,
    "maps": _maps,
    "unions": _unions,
    "dictionaries": _dictionaries,
    "runs": _runs,
    "extensions": _extensions,
}


# --- Looking inside ------------------------------------------------------------------------------


def content(array: pa.Array) -> list[Any]:
    """What is in an array: equal lists mean equal values to the last bit, in equal order."""
    return [_content(array, row) for row in range(len(array))]


def _content(array: pa.Array, row: int) -> Any:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _content(array.storage, row)
    if pat.is_union(kind):
        at = array.offset + row
        code = int(np.frombuffer(array.buffers()[1], np.int8)[at])
        child = array.field(kind.type_codes.index(code))
        if kind.mode == "dense":
            row = int(np.frombuffer(array.buffers()[2], np.int32)[at])
        value = _content(child, row)
        return None if value is None else (code, value)  # a NULL of any kind is NULL
    if pat.is_run_end_encoded(kind):
        run = int(np.searchsorted(array.run_ends.to_numpy(), array.offset + row, side="right"))
        return _content(array.values, run)
    if pat.is_dictionary(kind):
        index = array.indices[row].as_py()
        return None if index is None else _content(array.dictionary, index)
    if not array[row].is_valid:
        return None
    if pat.is_struct(kind):
        return [_content(array.field(i), row) for i in range(kind.num_fields)]
    if pat.is_nested(kind):
        return content(array[row].values)
    return _bits(array.slice(row, 1), kind)


def _bits(one: pa.Array, kind: pa.DataType) -> Any:
    """The bits of a value: NaN is equal to itself then, and -0.0 is not 0.0."""
    if pat.is_floating(kind):
        return one.view(f"uint{kind.bit_width}")[0].as_py()
    if pat.is_temporal(kind) and not pat.is_interval(kind):
        return one.view(pa.int32() if kind.bit_width == 32 else pa.int64())[0].as_py()
    return one[0].as_py()


# --- Rows ---------------------------------------------------------------------------------------


@st.composite
def batches(draw: st.DrawFn, keys: int = 1, least: int = 0) -> pa.RecordBatch:
    """Rows with key columns ``k0 …`` and any others, cut out of a larger batch; order is any.

    Leaves are cut where sizes say so, whatever the keys: packing needs no order.
    """
    rows = draw(st.integers(least, 12))
    before, behind = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    whole = before + rows + behind
    kinds = st.sampled_from([kind for kind in KEYS if kind != pa.date64()])
    columns = {f"k{i}": draw(plain_arrays(kinds, whole, nulls=False)) for i in range(keys)}
    for name in [f"c{i}" for i in range(draw(st.integers(0, 4)))]:
        columns[name] = draw(arrays(whole))
    order = draw(st.permutations(list(columns)))
    batch = pa.record_batch({name: columns[name] for name in order})
    return batch.slice(before, rows)


def packed_with(
    batch: pa.RecordBatch, key: Any, block_bytes: int, fill: float
) -> tuple[LeafLayout, Packed]:
    layout = LeafLayout(batch.schema, key, block_bytes)
    keys, his, valid = layout.keys_of(batch)
    assert valid is None
    return layout, layout.pack(batch, keys, his, fill, FIRST)


def assert_same(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    assert found.schema.equals(expected.schema)
    found.validate(full=True)
    for name in expected.schema.names:
        assert content(found.column(name)) == content(expected.column(name)), name
