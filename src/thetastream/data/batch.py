"""Arrow values to NumPy keys: behind this module, everything is int64.

NULL never becomes a key; a mask reports it. Conversion is exact, or an error that names the value
that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import MOST, Array, Mask
from thetastream.data.frames import table_of
from thetastream.data.kernels.floats import NAN_KEY
from thetastream.data.kernels.hashing import hash_bytes
from thetastream.data.kernels.prefixes import prefix_keys
from thetastream.data.memory import bytes_of
from thetastream.errors import DataError, SchemaError, suggest
from thetastream.schema import Domain, KeyKind, tick

_BIAS = np.int64(-(2**63))


def to_keys(values: pa.Array, domain: Domain, what: str = "key") -> tuple[Array, Mask | None]:
    """Keys of the values, and where they are not NULL (None if there are no NULLs).

    Keys are a fresh, writable array; those of NULLs are meaningless.
    """
    values = plain(values)
    convert = _CONVERT.get(domain.kind)
    if convert is None:
        convert = _from_temporal if domain.kind.is_temporal else _from_integers
    return convert(values, domain, what), valid_mask(values)


def valid_mask(values: pa.Array) -> Mask | None:
    """Where values are not NULL; None if there are no NULLs."""
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array, dictionaries decoded."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
    if pat.is_dictionary(values.type):
        text = _WITHOUT_VIEWS.get(values.type.value_type)
        if text is not None:  # Arrow cannot take views; those of a dictionary are few
            values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(text))
        values = values.dictionary_decode()
    return values


_WITHOUT_VIEWS = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def _numpy(values: pa.Array, dtype: str) -> NDArray[np.generic]:
    """A fresh array; NULLs become zero."""
    if values.null_count:
        values = values.fill_null(pa.scalar(0, pa.int64()).cast(values.type))
    return np.array(values.to_numpy(zero_copy_only=False), dtype=dtype)


def _from_integers(values: pa.Array, domain: Domain, what: str) -> Array:
    if pat.is_uint64(values.type):
        largest = pc.max(values).as_py()
        if largest is not None and largest > MOST:
            raise DataError(
                f"{what}: {largest} does not fit a signed 64-bit integer, with which it is "
                "compared; cast the other side to uint64"
            )
    if pat.is_boolean(values.type):
        values = values.cast(pa.int8())
    return _numpy(values, "int64").astype(np.int64, copy=False)


def to_floats(values: pa.Array) -> NDArray[np.float64]:
    """Numbers as 64-bit floats; decimals as unscaled / 10^scale, NULLs as zero."""
    if pat.is_decimal(values.type):
        unscaled = _unscaled(values, "value").astype(np.float64)
        return unscaled / np.float64(10.0**values.type.scale)
    return _numpy(values, "float64")  # type: ignore[return-value]


def float_keys(numbers: NDArray[np.float64]) -> Array:
    """Order-preserving keys of doubles: -0.0 as 0.0, NaN as one key above +inf."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        bits = (numbers + 0.0).view(np.int64)
    keys = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    nan = np.isnan(numbers)
    if nan.any():
        keys[nan] = NAN_KEY
    return keys


def keys_to_floats(keys: Array) -> NDArray[np.float64]:
    """Invert ``float_keys``."""
    bits = keys ^ ((keys >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return np.where(keys == NAN_KEY, np.nan, bits.view(np.float64))


def _from_decimals(values: pa.Array, domain: Domain, what: str) -> Array:
    decimals = pat.is_decimal(values.type)
    whole = _unscaled(values, what) if decimals else _from_integers(values, domain, what)
    digits = domain.scale - (values.type.scale if decimals else 0)
    return _scaled(whole, 10**digits, what, values)


def _unscaled(values: pa.Array, what: str) -> Array:
    """The unscaled integers of decimals, of at most 18 digits."""
    if values.type.byte_width != 16:
        try:
            values = values.cast(pa.decimal128(38, values.type.scale))
        except pa.ArrowInvalid:
            raise DataError(f"{what}: decimal keys may have 18 digits: cast to double") from None
    words = np.frombuffer(values.buffers()[1], np.int64)
    pairs = words.reshape(-1, 2)[values.offset : values.offset + len(values)].copy()
    if values.null_count:
        pairs[values.is_null().to_numpy(zero_copy_only=False)] = 0
    low, high = np.ascontiguousarray(pairs[:, 0]), pairs[:, 1]
    wide = (high != (low >> 63)) | (low >= 10**18) | (low <= -(10**18))
    if wide.any():
        value = values[int(np.argmax(wide))].as_py()
        raise DataError(
            f"{what}: decimal keys may have 18 digits; {value} has more: cast to double"
        )
    return low


def _from_temporal(values: pa.Array, domain: Domain, what: str) -> Array:
    kind = values.type
    if pat.is_date64(kind):
        values = values.cast(pa.date32())
        kind = values.type
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    raw = _numpy(values.view(width), "int64")
    return _scaled(raw, tick(kind) // domain.tick, what, values)  # type: ignore[arg-type]


def _scaled(keys: Array, factor: int, what: str, values: pa.Array) -> Array:
    if factor == 1:
        return keys
    limit = MOST // factor
    wide = (keys > limit) | (keys < -limit)
    if wide.any():
        value = _shown(values, int(np.argmax(wide)))
        raise DataError(
            f"{what}: {value} leaves the range of the common unit of both sides; cast the other "
            "side to a coarser unit or scale"
        )
    return keys * np.int64(factor)


def in_python(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as Python objects; times that Python cannot represent (nanoseconds) as text."""
    try:
        return list(values.to_pylist())
    except (OverflowError, ValueError):
        try:
            return list(values.cast(pa.string()).to_pylist())
        except pa.ArrowNotImplementedError:
            return list(values.cast(pa.int64()).to_pylist())


def _shown(values: pa.Array, at: int) -> str:
    """A value as text, or as a number if Python's datetime cannot represent it."""
    try:
        return str(values[at])
    except (OverflowError, ValueError):
        return f"{values[at].value} ({values.type})"


def _from_bytes(values: pa.Array, domain: Domain, what: str) -> Array:
    hashes = np.empty(len(values), np.int64)
    hash_bytes(*bytes_of(values), hashes)
    return hashes


def _from_prefixes(values: pa.Array, domain: Domain, what: str) -> Array:
    keys = np.empty(len(values), np.int64)
    prefix_keys(*bytes_of(values), keys)
    return keys


_CONVERT: dict[KeyKind, Callable[[pa.Array, Domain, str], Array]] = {
    KeyKind.FLOAT: lambda values, domain, what: float_keys(to_floats(values)),
    KeyKind.DECIMAL: _from_decimals,
    KeyKind.BYTES: _from_bytes,
    KeyKind.PREFIX: _from_prefixes,
    KeyKind.UNSIGNED: lambda values, domain, what: _numpy(values, "uint64").view(np.int64) ^ _BIAS,
}


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches, at least one; a single one is not copied."""
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def conform(data: Any, schema: pa.Schema | None, side: str) -> pa.RecordBatch:
    """One record batch of the agreed schema; a SchemaError names what differs."""
    if not isinstance(data, pa.RecordBatch):
        data = one_batch(table_of(data, schema, f"the {side} side"))
    if schema is None:
        check_first(data.schema, side)
        return data
    return data if data.schema.equals(schema) else _matched(data, schema, side)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as a single record batch; one chunk is not copied."""
    arrays = [_one_chunk(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pat.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def check_first(schema: pa.Schema, side: str) -> None:
    """Raise SchemaError for columns with the same name."""
    if len(set(schema.names)) < len(schema.names):
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        raise SchemaError(f"the {side} side has columns of the same name: {', '.join(twice)}")


_ENCODINGS = (
    {pa.string(), pa.large_string(), pa.string_view()},
    {pa.binary(), pa.large_binary(), pa.binary_view()},
)
"""Types of the same values, which each library writes in its own way."""


def _matched(data: pa.RecordBatch, schema: pa.Schema, side: str) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        at = data.schema.get_field_index(field.name)
        if at < 0:
            raise SchemaError(
                f"column {field.name!r} is missing on the {side} side; earlier pushes had it."
                f"{suggest(field.name, data.schema.names)}"
            )
        array = data.column(at)
        if pat.is_null(array.type):
            array = pa.nulls(len(array), field.type)
        elif any({array.type, field.type} <= family for family in _ENCODINGS):
            array = array.cast(field.type)
        if pat.is_null(field.type) and not pat.is_null(array.type):
            raise SchemaError(
                f"column {field.name!r} of the {side} side had type null so far, and now has "
                f"{array.type}; cast it in the first push, or pass schemas="
            )
        if not array.type.equals(field.type):
            raise SchemaError(
                f"column {field.name!r} of the {side} side changed its type from {field.type} to "
                f"{array.type}; cast it before the push"
            )
        arrays.append(array)
    extra = [name for name in data.schema.names if name not in schema.names]
    if extra:
        raise SchemaError(
            f"the {side} side has new columns {', '.join(extra)}; earlier pushes did not have them"
        )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
