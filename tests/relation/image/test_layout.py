"""Rows in blocks: what goes in comes out, leaves are filled greedily, a flipped bit is found."""

from __future__ import annotations

import hashlib
import mmap
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import DataError, OptionError, SchemaError
from thetastream.relation.image.kernels.blocks import USED
from thetastream.relation.image.layout import LeafLayout, Packed

from .arrow_columns import FIRST, KEYS, assert_same, batches, content, packed_with, plain_arrays

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


FILLS = st.sampled_from([0.1, 0.5, 0.8, 1.0])
SIZES = st.sampled_from([128, 256, 1024])


def blocks_of(layout: LeafLayout, packed: Packed) -> np.ndarray[Any, Any]:
    return FIRST + packed.bases // layout.block_bytes


# --- What goes in comes out ----------------------------------------------------------------------


@given(batches(), SIZES, FILLS)
def test_rows_come_out_as_they_went_in(batch: pa.RecordBatch, size: int, fill: float) -> None:
    layout, packed = packed_with(batch, "k0", size, fill)
    found, keys, his = layout.unpack_all(packed.images, packed.bases)
    assert_same(found, batch)
    assert keys.tolist() == layout.keys_of(batch)[0].tolist()
    assert his is None
    first = 0
    for base, rows in zip(packed.bases.tolist(), packed.rows.tolist(), strict=True):
        one, some, _ = layout.unpack(packed.images, base)
        assert_same(one, batch.slice(first, rows))
        assert some.tolist() == keys[first : first + rows].tolist()
        first += rows
    assert first == batch.num_rows


@given(batches(least=1), SIZES, FILLS, st.data())
def test_any_rows_are_gathered(
    batch: pa.RecordBatch, size: int, fill: float, data: st.DataObject
) -> None:
    layout, packed = packed_with(batch, "k0", size, fill)
    picks = np.array(data.draw(st.lists(st.integers(0, batch.num_rows - 1))), np.int64)
    wanted = data.draw(st.lists(st.sampled_from(batch.schema.names)))
    firsts = np.cumsum(packed.rows) - packed.rows
    leaves = np.searchsorted(firsts, picks, side="right") - 1
    gap = 8 * data.draw(st.integers(0, 3))
    buffer = np.concatenate([np.full(gap, 0xAA, np.uint8), packed.images])
    bases, slots = packed.bases[leaves] + gap, picks - firsts[leaves]
    found = layout.take(buffer, bases, slots, wanted)
    for name, array in zip(wanted, found, strict=True):
        array.validate(full=True)
        assert array.type.equals(batch.schema.field(name).type)
        values = content(batch.column(name))
        assert content(array) == [values[pick] for pick in picks.tolist()], name
    keys, expected = layout.take_keys(buffer, bases, slots), layout.keys_of(batch)[0]
    assert keys.tolist() == expected[picks].tolist()


@given(batches(), SIZES, FILLS)
def test_an_array_of_arrow_is_gathered_as_arrow_does(
    batch: pa.RecordBatch, size: int, fill: float
) -> None:
    plain = [f.name for f in batch.schema if not pa.types.is_nested(f.type)]
    layout, packed = packed_with(batch, "k0", size, fill)
    every = np.repeat(packed.bases, packed.rows)
    slots = np.concatenate([np.arange(0), *(np.arange(n) for n in packed.rows)]).astype(np.int64)
    back = np.arange(batch.num_rows)[::-1]
    for name in plain:
        column = batch.column(name)
        try:
            expected = column.take(pa.array(back))
        except pa.ArrowNotImplementedError:
            continue
        (found,) = layout.take(packed.images, every[back], slots[back], [name])
        assert content(found) == content(expected)


# --- Leaves --------------------------------------------------------------------------------------


@given(batches(keys=2), SIZES, FILLS)
def test_leaves(batch: pa.RecordBatch, size: int, fill: float) -> None:
    layout, packed = packed_with(batch, ("k0", "k1"), size, fill)
    keys, his, _ = layout.keys_of(batch)
    assert his is not None
    assert packed.greatest is not None
    ends = np.cumsum(packed.rows)
    assert (packed.rows.sum(), packed.images.size) == (len(keys), packed.spans.sum() * size)
    assert not len(packed) or packed.images.ctypes.data % 4096 == 0
    used = packed.images.view(np.uint32)[(packed.bases >> 2) + USED].astype(np.int64)
    assert layout.rows_of(packed.images, packed.bases).tolist() == packed.rows.tolist()
    assert layout.spans_of(packed.images, packed.bases).tolist() == packed.spans.tolist()
    for leaf, (base, rows, end) in enumerate(zip(packed.bases, packed.rows, ends, strict=True)):
        leaf_keys, leaf_his = keys[end - rows : end], his[end - rows : end]
        assert (packed.firsts[leaf], packed.lasts[leaf]) == (leaf_keys[0], leaf_keys[-1])
        assert packed.greatest[leaf] == leaf_his.max()
        image = packed.images[base : base + packed.spans[leaf] * size]
        at = layout.keys_at
        assert image[at : at + 8 * rows].view(np.int64).tolist() == leaf_keys.tolist()
        assert packed.spans[leaf] == -(-used[leaf] // size)
        assert rows == 1 or used[leaf] <= int(fill * size)
        assert not image[used[leaf] :].any()
        directory = image[32:at].view(np.uint32)
        assert not (directory % 8).any()
        if end < len(keys):  # one row more, and it would not have been one leaf
            more = slice(end - rows, end + 1)
            longer = layout.pack(
                batch.slice(end - rows, rows + 1), keys[more], his[more], fill, FIRST
            )
            assert len(longer) > 1


def test_what_lies_under_nulls_is_not_written() -> None:
    ids = pa.array([1, 2])
    bitmap = pa.py_buffer(bytes([1]))
    secret = pa.py_buffer(np.array([5, 1234567], np.int64))
    numbers = pa.Array.from_buffers(pa.int64(), 2, [bitmap, secret])
    ends = pa.py_buffer(np.array([0, 1, 7], np.int32))
    text = pa.Array.from_buffers(pa.string(), 2, [bitmap, ends, pa.py_buffer(b"asecret")])
    dirty = pa.record_batch({"id": ids, "n": numbers, "t": text})
    clean = pa.record_batch({"id": ids, "n": pa.array([5, None]), "t": pa.array(["a", None])})
    _, one = packed_with(dirty, "id", 256, 1.0)
    _, two = packed_with(clean, "id", 256, 1.0)
    assert one.images.tobytes() == two.images.tobytes()


def test_a_row_larger_than_a_block_lies_alone() -> None:
    values = ["a", "b", "x" * 1000, "c", "d"]
    batch = pa.record_batch({"id": range(5), "text": values})
    layout, packed = packed_with(batch, "id", 256, 1.0)
    assert packed.rows.tolist() == [2, 1, 2]
    assert packed.spans.tolist() == [1, 5, 1]
    assert layout.verify(packed.images, packed.bases, np.array([11, 12, 17])) == -1
    assert_same(layout.unpack_all(packed.images, packed.bases)[0], batch)


def test_no_rows_make_no_leaves() -> None:
    empty = pa.record_batch({"lo": pa.array([], pa.int64()), "hi": pa.array([], pa.int64())})
    layout, packed = packed_with(empty, ("lo", "hi"), 128, 0.5)
    assert (len(packed), packed.images.size) == (0, 0)
    assert packed.greatest is not None
    assert not len(packed.greatest)
    batch, keys, his = layout.unpack_all(packed.images, packed.bases)
    assert_same(batch, empty)
    assert his is not None
    assert len(keys) == len(his) == 0


def test_a_relation_of_keys_only() -> None:
    batch = pa.record_batch({"id": pa.array([-(2**63), 0, 2**63 - 1])})
    layout, packed = packed_with(batch, "id", 128, 1.0)
    assert (layout.keys_at, packed.rows.tolist()) == (40, [3])
    assert_same(layout.unpack(packed.images, 0)[0], batch)


def test_the_format_stays() -> None:
    """The bytes of a leaf, pinned: a change needs a new format number."""
    batch = pa.record_batch(
        {
            "id": pa.array([1, 5, 5, 9], pa.uint64()),
            "at": pa.array([7, None, 0, 3], pa.timestamp("us", "UTC")),
            "text": pa.array(["", None, "ä", "long enough"], pa.string_view()),
            "flag": pa.array([True, None, False, True]),
            "price": pa.array([-0.0, float("nan"), 1.5, None], pa.float32()),
        }
    )
    _, packed = packed_with(batch, "id", 512, 1.0)
    assert hashlib.sha256(packed.images).hexdigest() == PINNED


PINNED = "ee20f19d6f1fc7d19e381f2d690778a910a9454d5a8054889f73ea9e250a7355"


# --- Keys ----------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from(KEYS))
def test_key_columns_of_every_type(data: st.DataObject, kind: pa.DataType) -> None:
    array = data.draw(plain_arrays(st.just(kind), 6, nulls=False))
    for column in (array, array.dictionary_encode() if kind in DICTIONARIES else array):
        batch = pa.record_batch({"k": column})
        layout, packed = packed_with(batch, "k", 1024, 1.0)
        assert_same(layout.unpack(packed.images, 0)[0], batch)


DICTIONARIES = [pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.timestamp("us", "UTC")]


def test_keys_that_are_null_are_told() -> None:
    batch = pa.record_batch({"lo": [1, None, 3, None], "hi": [1, 2, None, None]})
    for key, expected in (("lo", [1, 0, 1, 0]), (("lo", "hi"), [1, 0, 0, 0]), ("hi", [1, 1, 0, 0])):
        keys, his, valid = LeafLayout(batch.schema, key, 128).keys_of(batch)
        assert valid is not None
        assert valid.tolist() == expected
        assert (his is None) == isinstance(key, str)
        assert keys[0] == 1


# --- Checksums -----------------------------------------------------------------------------------


@given(batches(least=1), SIZES, FILLS, st.data())
def test_any_flipped_bit_is_found(
    batch: pa.RecordBatch, size: int, fill: float, data: st.DataObject
) -> None:
    layout, packed = packed_with(batch, "k0", size, fill)
    blocks = blocks_of(layout, packed)
    assert layout.verify(packed.images, packed.bases, blocks) == -1
    bit = data.draw(st.integers(0, 8 * packed.images.size - 1))
    packed.images[bit // 8] ^= np.uint8(1 << bit % 8)
    wrong = int(np.searchsorted(packed.bases, bit // 8, side="right")) - 1
    assert layout.verify(packed.images, packed.bases, blocks) == wrong
    packed.images[bit // 8] ^= np.uint8(1 << bit % 8)
    assert layout.verify(packed.images, packed.bases, blocks) == -1
    blocks[-1] += 1
    assert layout.verify(packed.images, packed.bases, blocks) == len(blocks) - 1


def test_images_get_other_numbers() -> None:
    batch = pa.record_batch({"id": range(100)})
    layout, packed = packed_with(batch, "id", 256, 1.0)
    blocks = np.arange(len(packed))[::-1] * 7
    layout.renumber(packed.images, packed.bases, blocks)
    assert layout.verify(packed.images, packed.bases, blocks) == -1
    assert layout.verify(packed.images, packed.bases[::-1].copy(), blocks) == 0


def test_images_that_end_too_early_are_wrong() -> None:
    batch = pa.record_batch({"id": [1], "text": ["x" * 1000]})
    layout, packed = packed_with(batch, "id", 256, 1.0)
    block = np.array([FIRST])
    for size in (0, 16, 256, packed.images.size - 8):
        assert layout.verify(packed.images[:size].copy(), packed.bases, block) == 0
    assert layout.verify(packed.images, packed.bases, block) == -1


def test_images_in_memory_that_cannot_be_written() -> None:
    batch = pa.record_batch({"id": range(5), "text": list("abcde"), "l": [[1]] * 5})
    layout, packed = packed_with(batch, "id", 4096, 1.0)
    frozen = np.frombuffer(packed.images.tobytes(), np.uint8)
    assert layout.verify(frozen, packed.bases, np.array([FIRST])) == -1
    assert_same(layout.unpack(frozen, 0)[0], batch)


# --- Limits and mistakes -------------------------------------------------------------------------


def long_values(sizes: list[int]) -> pa.RecordBatch:
    """One row of long values, in memory that is never touched."""
    columns = {"id": pa.array([1])}
    memory = pa.py_buffer(mmap.mmap(-1, 2**31))
    for at, size in enumerate(sizes):
        ends = pa.py_buffer(np.array([0, size], np.int64))
        columns[f"c{at}"] = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, memory])
    return pa.record_batch(columns)


def test_values_and_rows_that_are_too_long() -> None:
    with pytest.raises(DataError, match="column 'c0': a value of 2147483648 bytes is too long"):
        packed_with(long_values([2**31]), "id", 8192, 1.0)
    with pytest.raises(DataError, match="a row takes 6442451040 bytes: .* may have 4294967295"):
        packed_with(long_values([2**31 - 1] * 3), "id", 8192, 1.0)


def test_a_gather_of_too_many_bytes_says_so() -> None:
    batch = pa.record_batch({"id": [1], "text": ["x" * 2**26]})
    layout, packed = packed_with(batch, "id", 8192, 1.0)
    places = np.zeros(33, np.int64)
    with pytest.raises(DataError, match="column 'text': 2214592512 bytes .* than string can have"):
        layout.take(packed.images, places, places, ["text"])
    assert layout.take(packed.images, places[:2], places[:2], ["text"])[0].nbytes > 2**27


def test_columns_that_may_be_null_are_packed_where_none_is() -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    batch = pa.record_batch({"id": [1, 2], "v": [3, None]})
    layout = LeafLayout(strict, "id", 256)
    packed = layout.pack(batch, np.array([1, 2]), None, 1.0, 0)
    assert_same(layout.unpack(packed.images, 0)[0], batch.cast(strict))


def test_bad_layouts_are_refused() -> None:
    schema = pa.schema({"id": pa.int64(), "price": pa.float64(), "l": pa.list_(pa.int8())})
    with pytest.raises(SchemaError, match="no column 'prise' .* Did you mean 'price'"):
        LeafLayout(schema, "prise", 128)
    with pytest.raises(SchemaError, match="key column 'l': values of type list"):
        LeafLayout(schema, "l", 128)
    nothing = schema.append(pa.field("u", pa.dense_union([])))
    with pytest.raises(SchemaError, match="column 'u' has type dense_union.* leave it out, or"):
        LeafLayout(nothing, "id", 128)


@pytest.mark.parametrize(
    ("names", "key", "size"),
    [
        *(("ab", ("a", "a"), 128), ("abc", ("a", "b", "c"), 128), ("aa", "a", 128)),
        *(("a", "a", 100), ("a", "a", 64)),
    ],
)
def test_layouts_that_no_build_makes(names: str, key: str | tuple[str, ...], size: int) -> None:
    with pytest.raises((AssertionError, OptionError)):
        LeafLayout(pa.schema([(name, pa.int8()) for name in names]), key, size)


def test_rows_of_another_type_are_our_own_mistake() -> None:
    layout = LeafLayout(pa.schema({"price": pa.int64()}), "price", 128)
    other = pa.record_batch({"price": pa.array([1], pa.int32())})
    with pytest.raises(AssertionError):
        layout.pack(other, np.array([1]), None, 1.0, 0)
