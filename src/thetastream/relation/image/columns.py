"""The codec of every Arrow type: plain values in a leaf, the declared type when read.

Every Arrow type has a *stored* type: dictionaries and runs are expanded, views of strings become
strings, an extension type becomes its storage; inside nested types too. The stored type depends on
the declared type alone (if an extension type is not registered, a column has its storage type,
which is stored in the same way), so that every machine can read every relation. A stored type is
its own stored type.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream.errors import DataError, SchemaError
from thetastream.relation.image.codec import Codec, Convert, Form, same
from thetastream.relation.image.nesting import nested_codec

_FAILURES = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError)


def codec_of(kind: pa.DataType, name: str) -> Codec:
    """The codec of a type; SchemaError names the column if it cannot be stored."""
    if isinstance(kind, pa.BaseExtensionType):
        inner = codec_of(kind.storage_type, name)
        return _other(
            kind,
            inner,
            lambda array: inner.decode(array.storage),
            lambda array: kind.wrap_array(inner.restore(array)),
        )
    if pat.is_dictionary(kind):
        return _dictionary(kind, codec_of(kind.value_type, name), name)
    if pat.is_run_end_encoded(kind):
        return _runs(kind, codec_of(kind.value_type, name), name)
    if pat.is_string_view(kind) or pat.is_binary_view(kind):
        plain = pa.large_string() if pat.is_string_view(kind) else pa.large_binary()
        inner = codec_of(plain, name)
        return _other(kind, inner, lambda array: array.cast(plain), lambda array: array.cast(kind))
    if pat.is_nested(kind):
        return _nested(kind, name)
    form, width = _shape(kind)
    if form is None:
        raise _refused(kind, name, "an unknown type")
    return Codec(kind, kind, form, width, same, same)


def _refused(kind: pa.DataType, name: str, why: object) -> SchemaError:
    return SchemaError(
        f"column {name!r} has type {kind}, which cannot be stored in a relation ({why}); leave it "
        "out, or cast it to a number, a time, a string, or a list or struct of such"
    )


def _shape(kind: pa.DataType) -> tuple[Form | None, int]:
    """The form of a plain type in a leaf, and its width."""
    if pat.is_null(kind):
        return Form.NOTHING, 0
    if pat.is_boolean(kind):
        return Form.BOOLEAN, 1
    if pat.is_string(kind) or pat.is_binary(kind):
        return Form.BYTES, 4
    if pat.is_large_string(kind) or pat.is_large_binary(kind):
        return Form.BYTES, 8
    fixed = pat.is_primitive(kind) or pat.is_interval(kind) or pat.is_decimal(kind)
    if fixed or pat.is_fixed_size_binary(kind):
        return Form.FIXED, kind.bit_width // 8
    return None, 0


def _other(kind: pa.DataType, inner: Codec, decode: Convert, restore: Convert) -> Codec:
    """The codec of a type that is stored like another one."""
    return Codec(kind, inner.stored, inner.form, inner.width, decode, restore)


def _dictionary(kind: pa.DataType, inner: Codec, name: str) -> Codec:
    """Words are expanded. A restored dictionary has the words in order of occurrence."""

    def decode(array: pa.Array) -> pa.Array:
        return inner.decode(array.dictionary).take(array.indices)

    def restore(values: pa.Array) -> pa.Array:
        indices, words = _encoded(values)
        try:
            indices = indices.cast(kind.index_type)
        except pa.ArrowInvalid:
            raise DataError(
                f"column {name!r}: {len(words)} different values in one batch are more than a "
                f"dictionary with indices of type {kind.index_type} can have; cast the column to "
                f"{kind.value_type}, or ask for fewer rows at a time"
            ) from None
        words = inner.restore(words)
        return pa.DictionaryArray.from_arrays(indices, words, ordered=kind.ordered)

    return _other(kind, inner, decode, restore)


def _encoded(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Indices and words; if Arrow cannot compare values, each is a word."""
    bits = _as_bits(values)
    try:
        encoded = bits.dictionary_encode()
    except pa.ArrowNotImplementedError:
        present = values.is_valid()
        indices = pc.if_else(present, pa.array(np.arange(len(values))), pa.scalar(None, pa.int64()))
        return indices, values
    return encoded.indices, _from_bits(encoded.dictionary, values.type)


def _as_bits(values: pa.Array) -> pa.Array:
    """Floats as integers, which preserves -0.0 and NaNs."""
    if pat.is_floating(values.type):
        return values.view(f"uint{values.type.bit_width}")
    return values


def _from_bits(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.view(kind) if pat.is_floating(kind) else values


def _runs(kind: pa.DataType, inner: Codec, name: str) -> Codec:
    """Runs are expanded, and detected again."""

    def decode(array: pa.Array) -> pa.Array:
        run, runs = array.find_physical_offset(), array.find_physical_length()
        ends = array.run_ends.to_numpy()[run : run + runs].astype(np.int64) - array.offset
        rows = np.repeat(np.arange(runs), np.diff(np.minimum(ends, len(array)), prepend=0))
        return inner.decode(array.values.slice(run, runs)).take(pa.array(rows))

    def restore(values: pa.Array) -> pa.Array:
        try:
            ends, heads = _run_ends(values)
            return pa.RunEndEncodedArray.from_arrays(
                ends.cast(kind.run_end_type), inner.restore(heads), type=kind
            )
        except pa.ArrowInvalid:
            raise DataError(
                f"column {name!r}: {len(values)} rows in one batch are more than runs that end at "
                f"numbers of type {kind.run_end_type} can have; ask for fewer rows at a time"
            ) from None

    return _other(kind, inner, decode, restore)


def _run_ends(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Ends of runs and their values; if Arrow cannot compare values, each is a run."""
    try:
        runs = pc.run_end_encode(_as_bits(values), run_end_type=pa.int64())
    except pa.ArrowNotImplementedError:
        return pa.array(np.arange(1, len(values) + 1)), values
    return runs.run_ends, _from_bits(runs.values, values.type)


def _nested(kind: pa.DataType, name: str) -> Codec:
    """A type that Arrow can serialise and gather from."""
    if pat.is_union(kind) and not kind.num_fields:
        raise _refused(kind, name, "a union without fields")
    codec = nested_codec(kind, lambda inner: codec_of(inner, name))
    try:
        stored = codec.decode(pa.nulls(0, kind))
        pa.record_batch([stored], ["x"]).serialize()
        pa.concat_arrays([stored, stored]).take(pa.array([], pa.int64()))
        codec.restore(stored)
    except _FAILURES as error:
        raise _refused(kind, name, error) from None
    return codec
