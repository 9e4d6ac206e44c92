"""Columns of every Arrow type: stored as plain values, and what they were on the way out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetastream.errors import DataError
from thetastream.relation.image.codec import Form
from thetastream.relation.image.columns import codec_of
from thetastream.relation.image.layout import LeafLayout

from .arrow_columns import FIRST, assert_same, batches, content, packed_with

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

WORDS = ["a", None, "word", "a longer word", "a"]
KINDS = [
    pa.null(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint16(), pa.string_view()),
    pa.dictionary(pa.int32(), pa.list_(pa.string())),
    pa.dictionary(pa.int8(), pa.null()),
    pa.run_end_encoded(pa.int16(), pa.string_view()),
    pa.run_end_encoded(pa.int32(), pa.list_(pa.string_view())),
    pa.list_(pa.dictionary(pa.int8(), pa.string())),
    pa.list_(pa.null()),
    pa.large_list(pa.string_view()),
    pa.list_view(pa.string_view()),
    pa.large_list_view(pa.string()),
    pa.struct({"a": pa.list_view(pa.string()), "b": pa.dictionary(pa.int8(), pa.string())}),
    pa.struct([]),
    pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string())),
    pa.list_(pa.run_end_encoded(pa.int16(), pa.string()), 1),
    pa.list_(pa.struct({"u": pa.uuid()})),
]


def of_kind(kind: pa.DataType) -> pa.Array:
    """Five rows of a type: words, or lists of words, or what it is made of."""
    types = pa.types
    if types.is_dictionary(kind):
        words = of_kind(kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.array([4, 2, None, 0, 1], kind.index_type), words)
    if types.is_run_end_encoded(kind):
        ends = pa.array([1, 2, 3, 4, 5], kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, of_kind(kind.value_type), type=kind)
    if types.is_struct(kind):
        parts = [of_kind(field.type) for field in kind]
        return (
            pa.StructArray.from_arrays(parts, fields=list(kind))
            if parts
            else pa.array([{}, None, {}, {}, None], kind)
        )
    if types.is_map(kind):
        keys, items = pa.array(list("abcde")), of_kind(kind.item_type)
        return pa.MapArray.from_arrays(pa.array([0, 1, 1, 4, 4, 5], pa.int32()), keys, items)
    if types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(of_kind(kind.value_type), type=kind)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        make = pa.LargeListViewArray if types.is_large_list_view(kind) else pa.ListViewArray
        width = pa.int64() if types.is_large_list_view(kind) else pa.int32()
        places = (pa.array(line, width) for line in ([4, 0, 1, 0, 2], [1, 3, 2, 0, 3]))
        return make.from_arrays(*places, of_kind(kind.value_type))
    if types.is_nested(kind):
        make = pa.LargeListArray if types.is_large_list(kind) else pa.ListArray
        width = pa.int64() if types.is_large_list(kind) else pa.int32()
        return make.from_arrays(pa.array([0, 2, None, 2, 4, 5], width), of_kind(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        storage = pa.array([b"u" * 16, None, b"v" * 16, b"u" * 16, b"w" * 16], kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, storage)
    return pa.nulls(5) if types.is_null(kind) else pa.array(WORDS, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size", [128, 8192])
def test_types_of_every_kind(kind: pa.DataType, size: int) -> None:
    whole = of_kind(kind)
    whole.validate(full=True)
    for first, rows in ((0, 5), (2, 3), (1, 1), (3, 0)):
        batch = pa.record_batch(
            {"id": pa.array(range(rows), pa.int64()), "x": whole[first:][:rows]}
        )
        layout, packed = packed_with(batch, "id", size, 1.0)
        found, _, _ = layout.unpack_all(packed.images, packed.bases)
        assert_same(found, batch)


@given(batches(), st.sampled_from([128, 1024]), st.sampled_from([0.5, 1.0]))
def test_stored_types_give_the_same_leaves(batch: pa.RecordBatch, size: int, fill: float) -> None:
    layout, packed = packed_with(batch, "k0", size, fill)
    codecs = [codec_of(field.type, field.name) for field in batch.schema]
    for codec in codecs:
        assert codec_of(codec.stored, "x").stored.equals(codec.stored)
    columns = [codec.decode(column) for codec, column in zip(codecs, batch.columns, strict=True)]
    stored = pa.record_batch(columns, names=batch.schema.names)
    again = LeafLayout(stored.schema, "k0", size).pack(
        stored, layout.keys_of(batch)[0], None, fill, FIRST
    )
    assert again.bases.tolist() == packed.bases.tolist()
    assert_same(layout.unpack_all(again.images, again.bases)[0], batch)
    if not any(codec.form is Form.NESTED for codec in codecs):  # Arrow writes what is under NULLs
        assert again.images.tobytes() == packed.images.tobytes()


def test_an_extension_type_that_nobody_knows_is_stored_alike() -> None:
    storage = pa.array([bytes(range(16)), None], pa.binary(16))
    known = pa.record_batch(
        {"id": [1, 2], "u": pa.ExtensionArray.from_storage(pa.uuid(), storage), "l": [[1], [2]]}
    )
    unknown = known.set_column(1, "u", storage)
    (_, one), (_, two) = (packed_with(batch, "id", 512, 1.0) for batch in (known, unknown))
    assert one.images.tobytes() == two.images.tobytes()


def test_a_dictionary_with_too_many_words_says_so() -> None:
    words = pa.array([str(i) for i in range(200)])
    layout = LeafLayout(
        pa.schema({"id": pa.int64(), "d": pa.dictionary(pa.int8(), pa.string())}), "id", 8192
    )
    stored = pa.record_batch({"id": range(200), "d": words})
    plain = LeafLayout(stored.schema, "id", 8192)
    packed = plain.pack(stored, np.arange(200), None, 1.0, 0)
    with pytest.raises(DataError, match="column 'd': 200 different values .* int8"):
        layout.unpack(packed.images, 0)


def test_runs_that_end_too_late_say_so() -> None:
    rows = 40_000
    runs = pa.run_end_encoded(pa.int16(), pa.int64())
    stored = pa.record_batch({"id": np.arange(rows), "r": np.arange(rows)})
    _, packed = packed_with(stored, "id", 8192, 1.0)
    declared = LeafLayout(pa.schema({"id": pa.int64(), "r": runs}), "id", 8192)
    with pytest.raises(DataError, match="column 'r': 40000 rows in one batch .* int16"):
        declared.unpack_all(packed.images, packed.bases)
    found, _, _ = declared.unpack(packed.images, 0)
    assert content(found.column("r")) == list(range(int(packed.rows[0])))
