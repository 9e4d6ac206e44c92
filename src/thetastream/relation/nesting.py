"""Nested columns with plain types inside: what Arrow can serialise, slice and gather.

Arrow writes dictionaries apart, and views and dense unions whole although a slice was asked for. So
dictionaries, views and runs inside lists, structs, maps and unions are replaced by plain values,
views of lists by lists, and dense unions by sparse ones; and all of it back on the way out. Where
there is nothing to replace an array is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream.relation.columns import Codec, Form, codec_of, same

__all__ = ["nested_codec"]

Convert = Callable[[pa.Array], pa.Array]


def nested_codec(kind: pa.DataType, name: str) -> Codec:
    """The codec of a nested type; what is inside it is converted by the codecs of its children."""
    if pat.is_union(kind):
        return _union(kind, name)
    if pat.is_list_view(kind) or pat.is_large_list_view(kind):
        return _list_view(kind, name)
    inner = [codec_of(kind.field(i).type, name) for i in range(_children(kind))]
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


def _children(kind: pa.DataType) -> int:
    return int(kind.num_fields)


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
    """Convert the children of an array, which gives one of type ``target``."""

    def struct(array: pa.Array) -> pa.Array:
        parts = [convert(array.field(i)) for i, convert in enumerate(converts)]
        mask = array.is_null() if array.null_count else None
        fields = [target.field(i) for i in range(_children(target))]
        if not fields:
            return array
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)

    def lists(array: pa.Array) -> pa.Array:
        # The bitmap and the offsets stay; the child is taken whole, as they count from its begin.
        own = 1 if pat.is_fixed_size_list(target) else 2
        return pa.Array.from_buffers(
            target,
            len(array),
            array.buffers()[:own],
            offset=array.offset,
            children=[converts[0](array.values)],
        )

    return struct if pat.is_struct(target) else lists


# --- Views of lists ------------------------------------------------------------------------------


def _list_view(kind: pa.DataType, name: str) -> Codec:
    """Views of lists are stored as lists: their parts in order, each once per row."""
    large = pat.is_large_list_view(kind)
    inner = codec_of(kind.value_type, name)
    make = pa.large_list if large else pa.list_
    field = kind.value_field.with_type(inner.stored)
    stored, width = make(field), np.dtype(np.int64 if large else np.int32)

    def decode(array: pa.Array) -> pa.Array:
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(width)
        parts = [_bitmap(array), pa.py_buffer(ends)]
        values = inner.decode(array.flatten())
        return pa.Array.from_buffers(stored, len(array), parts, children=[values])

    def restore(array: pa.Array) -> pa.Array:
        offsets = array.offsets.to_numpy()
        sizes = np.diff(offsets)
        parts = [_bitmap(array), *map(pa.py_buffer, (offsets[:-1].copy(), sizes))]
        values = inner.restore(array.values)
        return pa.Array.from_buffers(kind, len(array), parts, children=[values])

    return _codec(kind, stored, decode, restore)


def _bitmap(array: pa.Array) -> pa.Buffer | None:
    """Validity of an array that may begin anywhere, as one that begins at its first bit."""
    if not array.null_count:
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


# --- Unions --------------------------------------------------------------------------------------


def _union(kind: pa.DataType, name: str) -> Codec:
    """Unions are stored sparse: a dense one would be written whole with every slice."""
    inner = [codec_of(kind.field(i).type, name) for i in range(_children(kind))]
    codes = list(kind.type_codes)
    fields = [kind.field(i).with_type(codec.stored) for i, codec in enumerate(inner)]
    stored = pa.sparse_union(fields, codes)
    if stored.equals(kind):
        return _codec(kind, kind, same, same)
    dense = kind.mode == "dense"

    def decode(array: pa.Array) -> pa.Array:
        which, parts = _numbers(array, 1, np.int8), []
        for i, codec in enumerate(inner):
            child = codec.decode(array.field(i))
            if dense:
                others = which != codes[i]
                child = child.take(pa.array(_numbers(array, 2, np.int32), mask=others))
            parts.append(child)
        return _made(stored, [which], parts)

    def restore(array: pa.Array) -> pa.Array:
        which = _numbers(array, 1, np.int8)
        parts, rows = [], np.zeros(len(which), np.int32)
        for i, codec in enumerate(inner):
            child = array.field(i)
            if dense:
                chosen = np.flatnonzero(which == codes[i])
                rows[chosen] = np.arange(len(chosen))
                child = child.take(pa.array(chosen))
            parts.append(codec.restore(child))
        return _made(kind, [which, rows] if dense else [which], parts)

    return _codec(kind, stored, decode, restore)


def _numbers(array: pa.Array, buffer: int, kind: type[np.integer[Any]]) -> NDArray[Any]:
    """Type codes or offsets of the rows of a union; Arrow's own properties forget slices."""
    numbers = np.frombuffer(array.buffers()[buffer] or b"", kind)
    return numbers[array.offset : array.offset + len(array)]


def _made(kind: pa.DataType, parts: list[NDArray[Any]], children: list[pa.Array]) -> pa.Array:
    buffers = [pa.py_buffer(part.copy()) for part in parts]
    return pa.Array.from_buffers(kind, len(parts[0]), [None, *buffers], children=children)
