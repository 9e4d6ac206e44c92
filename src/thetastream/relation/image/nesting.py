"""Nested columns with plain types inside, which Arrow can serialise, slice and gather.

Arrow serialises dictionaries separately, and views and dense unions as a whole even for a slice. So
dictionaries, views and runs inside lists, structs, maps and unions are replaced by plain values,
views of lists by lists, and dense unions by sparse ones; reading reverses this. An array without
such types is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream.relation.image.codec import Codec, Convert, Form, same

CodecOf = Callable[[pa.DataType], Codec]


def nested_codec(kind: pa.DataType, codec_of: CodecOf) -> Codec:
    """The codec of a nested type; ``codec_of`` returns those of the types inside it."""
    if pat.is_union(kind):
        return _union(kind, codec_of)
    if pat.is_list_view(kind) or pat.is_large_list_view(kind):
        return _list_view(kind, codec_of)
    inner = [codec_of(kind.field(i).type) for i in range(kind.num_fields)]
    if all(codec.declared.equals(codec.stored) for codec in inner):
        return _codec(kind, kind, same, same)
    fields = [kind.field(i).with_type(codec.stored) for i, codec in enumerate(inner)]
    stored = _rebuilt(kind, fields)
    return _codec(
        kind,
        stored,
        _over_children(stored, [codec.decode for codec in inner]),
        _over_children(kind, [codec.restore for codec in inner]),
    )


def _codec(kind: pa.DataType, stored: pa.DataType, decode: Convert, restore: Convert) -> Codec:
    return Codec(kind, stored, Form.NESTED, 0, decode, restore)


def _rebuilt(kind: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """The same kind of nesting over other fields."""
    if pat.is_struct(kind):
        return pa.struct(fields)
    (field,) = fields
    if pat.is_map(kind):
        key, item = field.type.field(0), field.type.field(1)
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if pat.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pat.is_large_list(kind) else pa.list_(field)


def _over_children(target: pa.DataType, converts: list[Convert]) -> Convert:
    """Convert the children of an array, within its slice; returns an array of type ``target``."""

    def struct(array: pa.Array) -> pa.Array:
        parts = [convert(array.field(i)) for i, convert in enumerate(converts)]
        mask = array.is_null() if array.null_count else None
        fields = [target.field(i) for i in range(target.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)

    def fixed(array: pa.Array) -> pa.Array:
        size = target.list_size
        values = array.values.slice(size * array.offset, size * len(array))
        return _array(target, len(array), [_bitmap(array)], [converts[0](values)])

    def lists(array: pa.Array) -> pa.Array:
        ends = _ends(array)
        values = array.values.slice(ends[0], ends[-1] - ends[0])
        parts = [_bitmap(array), pa.py_buffer(ends - ends[0])]
        return _array(target, len(array), parts, [converts[0](values)])

    if pat.is_struct(target):
        return struct
    return fixed if pat.is_fixed_size_list(target) else lists


def _ends(array: pa.Array) -> NDArray[Any]:
    """Offsets of lists in the child; an empty array may have no buffer for them."""
    if len(array):
        ends: NDArray[Any] = array.offsets.to_numpy()
        return ends
    return np.zeros(1, np.int64 if pat.is_large_list(array.type) else np.int32)


def _bitmap(array: pa.Array) -> pa.Buffer | None:
    """The validity of an array as a bitmap that begins at bit 0."""
    if not array.null_count:
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _array(
    kind: pa.DataType, rows: int, parts: list[pa.Buffer | None], children: list[pa.Array]
) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, parts, children=children)


def _list_view(kind: pa.DataType, codec_of: CodecOf) -> Codec:
    """Views of lists are stored as lists, with a copy of its values per row."""
    large = pat.is_large_list_view(kind)
    inner = codec_of(kind.value_type)
    make = pa.large_list if large else pa.list_
    field = kind.value_field.with_type(inner.stored)
    stored, width = make(field), np.dtype(np.int64 if large else np.int32)

    def decode(array: pa.Array) -> pa.Array:
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(width)
        values = inner.decode(array.flatten())
        return _array(stored, len(array), [_bitmap(array), pa.py_buffer(ends)], [values])

    def restore(array: pa.Array) -> pa.Array:
        ends = _ends(array)
        parts = [_bitmap(array), pa.py_buffer(ends[:-1].copy()), pa.py_buffer(np.diff(ends))]
        return _array(kind, len(array), parts, [inner.restore(array.values)])

    return _codec(kind, stored, decode, restore)


def _union(kind: pa.DataType, codec_of: CodecOf) -> Codec:
    """Unions are stored sparse: every slice of a dense one would be serialised as a whole."""
    inner = [codec_of(kind.field(i).type) for i in range(kind.num_fields)]
    codes = list(kind.type_codes)
    fields = [kind.field(i).with_type(codec.stored) for i, codec in enumerate(inner)]
    stored = pa.sparse_union(fields, codes)
    if stored.equals(kind):
        return _codec(kind, kind, same, same)
    dense = kind.mode == "dense"

    def decode(array: pa.Array) -> pa.Array:
        which = _numbers(array, 1, np.int8)
        children = [array.field(i) for i in range(len(inner))]
        if dense:
            rows = _numbers(array, 2, np.int32)
            parts = [
                _spread(child, codec.decode, rows, which == code)
                for child, codec, code in zip(children, inner, codes, strict=True)
            ]
        else:
            parts = [codec.decode(c) for codec, c in zip(inner, children, strict=True)]
        return _array(stored, len(array), [None, pa.py_buffer(which.copy())], parts)

    def restore(array: pa.Array) -> pa.Array:
        which, parts = _numbers(array, 1, np.int8), []
        rows = np.zeros(len(which), np.int32)
        for i, codec in enumerate(inner):
            child = array.field(i)
            if dense:
                chosen = np.flatnonzero(which == codes[i])
                rows[chosen] = np.arange(len(chosen))
                child = child.take(pa.array(chosen))
            parts.append(codec.restore(child))
        buffers = [None, *map(pa.py_buffer, (which.copy(), rows)[: 1 + dense])]
        return _array(kind, len(array), buffers, parts)

    return _codec(kind, stored, decode, restore)


def _spread(
    child: pa.Array, decode: Convert, rows: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> pa.Array:
    """The child of a dense union as a sparse child: NULL where another child is chosen."""
    used = rows[chosen]
    first, end = (int(used.min()), int(used.max()) + 1) if len(used) else (0, 0)
    values = decode(child.slice(first, end - first))
    return values.take(pa.array(rows - first, mask=~chosen))


def _numbers(array: pa.Array, buffer: int, kind: type[np.integer[Any]]) -> NDArray[Any]:
    """Type codes or offsets of a union's rows; Arrow's properties ignore slices."""
    if not len(array):
        return np.empty(0, kind)
    first = array.offset * np.dtype(kind).itemsize
    return np.frombuffer(array.buffers()[buffer], kind, len(array), first)
