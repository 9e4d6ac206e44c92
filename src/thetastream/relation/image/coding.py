"""Keys that do not fit into 64 bits, as int64 codes in their order.

Strings, wide decimals and keys of several columns become rows of unsigned *words*; words compare
as the keys do, or say less (a string's words end after 32 bytes). A build draws a sample of rows,
whose words are the *separators*; a code is the interval between two of them, and the place in it::

    separators     (EU, 5)      (EU, 90)     (US, 7)
    interval    0            1            2           3
    key         (CH, 3) → 0…    (EU, 50) → 1…    (EU, 99) → 2…    (US, 8) → 3…

Invariant: a key above another one has no lower code. Different keys may share a code, so whatever
is found by codes is compared by value afterwards. Separators never change while a relation is
updated: leaves, fences and the journal know codes only, and treat them as any other key.

Cost: a binary search per row, among those of at most 65,536 separators whose first words share
their upper bits; 8 bytes per separator and word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Mask
from thetastream._jit.compiling import prepare
from thetastream.data.batch import plain, to_keys, valid_mask
from thetastream.errors import DataError
from thetastream.relation.image import kernels
from thetastream.relation.image.kernels.coding import encode, prefixes
from thetastream.relation.image.key import KeyColumns
from thetastream.schema import Domain, KeyKind, common_domain, value_type

Words = NDArray[np.uint64]

SEPARATORS = 1 << 16
_BUCKET_BITS = 12
_STRING_WORDS = 4
_EXACT_DIGITS = 18
_BIAS = np.uint64(1 << 63)
_FULL = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of a key, as words."""

    name: str
    domain: Domain
    width: int
    """Words per value."""
    hashed: bool = False
    """Whether a string is only compared by equality: its words are a hash."""

    @staticmethod
    def of(schema: pa.Schema, name: str, equal: bool) -> KeyPart:
        """The words of a column; ``equal``: only equality is asked of it."""
        kind = value_type(schema.field(name).type)
        domain = common_domain(kind, kind, f"key column {name!r}")
        if domain.kind is KeyKind.BYTES:
            fixed = pat.is_fixed_size_binary(kind) and kind.byte_width <= 8 * _STRING_WORDS
            width = -(-kind.byte_width // 8) if fixed else _STRING_WORDS
            return KeyPart(name, domain, 1 if equal else max(width, 1), equal)
        return KeyPart(name, domain, 2 if is_wide(kind) else 1)

    @property
    def is_text(self) -> bool:
        """Whether values are strings or binary, in order."""
        return self.domain.kind is KeyKind.BYTES and not self.hashed

    def words(self, values: pa.Array, shared: bytes = b"") -> tuple[Words, Mask | None]:
        """The words of values, and which are not NULL (None: all).

        ``shared`` is a prefix of most strings, which is skipped.
        """
        values = plain(values)
        if self.is_text:
            words = np.empty((len(values), self.width), np.uint64)
            binary = values.cast(pa.large_binary())
            offsets = np.frombuffer(binary.buffers()[1], np.int64)
            offsets = offsets[binary.offset : binary.offset + len(binary) + 1].copy()
            data = np.frombuffer(binary.buffers()[2] or b"\0", np.uint8).copy()
            prefixes(data, offsets, np.frombuffer(shared, np.uint8).copy(), words)
            return words, valid_mask(values)
        if self.width == 2:
            return _decimal_words(values, self.name), valid_mask(values)
        keys, valid = to_keys(values, self.domain, f"key {self.name!r}")
        return from_keys(keys)[:, None], valid


def is_wide(kind: pa.DataType) -> bool:
    """Whether values of a type may have more than the 18 digits that fit into 64 bits."""
    return bool(pat.is_decimal(kind) and kind.precision > _EXACT_DIGITS)


def from_keys(keys: Array) -> Words:
    """Ordered int64 keys as words."""
    return keys.view(np.uint64) ^ _BIAS


def _decimal_words(values: pa.Array, name: str) -> Words:
    if values.type.byte_width != 16:
        try:
            values = values.cast(pa.decimal128(38, values.type.scale))
        except pa.ArrowInvalid:
            raise DataError(
                f"key {name!r}: decimal keys may have 38 digits: cast to double"
            ) from None
    pairs = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)
    pairs = pairs[values.offset : values.offset + len(values)]
    words = np.empty((len(values), 2), np.uint64)
    words[:, 0], words[:, 1] = pairs[:, 1] ^ _BIAS, pairs[:, 0]
    return words


@dataclass(frozen=True, slots=True)
class Coding:
    """The code of the columns of a key; see the module."""

    parts: tuple[KeyPart, ...]
    separators: Words
    """A row per word, so that a search mostly reads first words."""
    least: Words
    most: Words
    shared: bytes
    _starts: Array = field(init=False, repr=False, compare=False)
    _shift: np.uint64 = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = self.separators[0] - self.separators[0, :1]
        shift = max(0, int(first[-1]).bit_length() - _BUCKET_BITS) if len(first) else 0
        buckets = first >> np.uint64(shift)
        edges = np.arange((1 << _BUCKET_BITS) + 1, dtype=np.uint64)
        object.__setattr__(self, "_starts", np.searchsorted(buckets, edges).astype(np.int64))
        object.__setattr__(self, "_shift", np.uint64(shift))

    @staticmethod
    def learned(parts: Sequence[KeyPart], samples: Sequence[pa.RecordBatch]) -> Coding:
        """The coding for rows of which these are a sample without NULLs."""
        prepare(kernels)
        parts = tuple(parts)
        shared = _shared_prefix(parts[-1], samples)
        sampled = [_words(parts, batch, shared)[0] for batch in samples if batch.num_rows]
        width = sum(part.width for part in parts)
        words = np.concatenate(sampled) if sampled else np.empty((0, width), np.uint64)
        ordered = words[np.lexsort(words.T[::-1])]
        fresh = np.ones(len(ordered), np.bool_)
        fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        distinct = ordered[fresh]
        step = max(1, -(-len(distinct) // SEPARATORS))
        separators = np.ascontiguousarray(distinct[::step].T)
        if len(words):
            least, most = words.min(axis=0), words.max(axis=0)
        else:
            least, most = np.zeros(width, np.uint64), np.full(width, _FULL)
        return Coding(parts, separators, least, most, shared)

    @staticmethod
    def restored(parts: Sequence[KeyPart], arrays: Sequence[NDArray[Any]]) -> Coding:
        """The coding of ``arrays``."""
        prepare(kernels)
        separators, least, most = (np.array(array, np.uint64) for array in arrays[:3])
        width = sum(part.width for part in parts)
        shared = arrays[3].astype(np.uint8).tobytes()
        columns = np.ascontiguousarray(separators.reshape(-1, width).T)
        return Coding(tuple(parts), columns, least, most, shared)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """What an index file stores."""
        shared = np.frombuffer(self.shared, np.uint8)
        return [self.separators.T.ravel(), self.least, self.most, shared]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = (self.separators, self.least, self.most, self._starts)
        return sum(array.nbytes for array in arrays) + len(self.shared)

    @property
    def width(self) -> int:
        """Words of a key."""
        return len(self.least)

    def keys(
        self, batch: pa.RecordBatch, *, opens: bool = False, upper: bool = False
    ) -> tuple[Array, Mask | None]:
        """Codes of rows, and which have no NULL in the columns of the key (None: all).

        ``opens``: a NULL in the last column lies below all values, ``upper`` above them, and is a
        key.
        """
        words, valid = _words(self.parts, batch, self.shared)
        if opens:
            last = self.parts[-1]
            absent = batch.column(last.name).is_null().to_numpy(zero_copy_only=False)
            words[absent, -last.width :] = _FULL if upper else 0
            fronts = [batch.column(part.name) for part in self.parts[:-1]]
            masks = [valid_mask(plain(column)) for column in fronts if column.null_count]
            valid = None
            for mask in masks:
                assert mask is not None
                valid = mask if valid is None else valid & mask
        return self.codes(words), valid

    def codes(self, words: Words) -> Array:
        """Codes of rows of words."""
        codes = np.empty(len(words), np.int64)
        ordered = np.ascontiguousarray(words)
        bounds = self.separators, self.least, self.most
        encode(ordered, *bounds, self._starts, self._shift, codes)
        return codes


def _words(
    parts: Sequence[KeyPart], batch: pa.RecordBatch, shared: bytes
) -> tuple[Words, Mask | None]:
    """The words of rows, and which have no NULL."""
    columns, valid = [], None
    for part in parts:
        words, present = part.words(batch.column(part.name), shared if part is parts[-1] else b"")
        columns.append(words)
        if present is not None:
            valid = present if valid is None else valid & present
    return columns[0] if len(columns) == 1 else np.hstack(columns), valid


def _shared_prefix(part: KeyPart, samples: Sequence[pa.RecordBatch]) -> bytes:
    """The longest prefix of all sampled strings, in whole words."""
    if not part.is_text or part.width < _STRING_WORDS:
        return b""
    columns = [plain(b.column(part.name)).cast(pa.large_binary()) for b in samples if b.num_rows]
    ends = [pc.min_max(column).as_py() for column in columns]
    if not ends:
        return b""
    low: bytes = min(end["min"] for end in ends)
    high: bytes = max(end["max"] for end in ends)
    differ = (at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(differ, min(len(low), len(high)))]


def parts_of(schema: pa.Schema, key: KeyColumns) -> tuple[tuple[KeyPart, ...], tuple[KeyPart, ...]]:
    """The parts of the codes of the key, and of those of ``hi``; none where int64 keys suffice.

    Behind equality columns, ``hi`` is coded with them too: the greatest code of a leaf then belongs
    to the last value of those columns, so that a leaf is not read for long intervals of others.
    """
    both: list[tuple[KeyPart, ...]] = []
    highs = (*key.equal, *key.ordered[1:]) if key.is_interval else ()
    for names in (key.sorted_by, highs):
        parts = tuple(KeyPart.of(schema, name, name in key.equal) for name in names)
        plain_key = len(parts) == 1 and parts[0].width == 1 and not parts[0].is_text
        both.append(() if plain_key else parts)
    return both[0], both[1]


class Sample:
    """A random sample of rows, seen batch by batch; seeded, so that a build can be repeated."""

    def __init__(self, most: int = 2 * SEPARATORS) -> None:
        self._random = np.random.default_rng(0)
        self._most, self._rate = most, 1.0
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at some rows."""
        self._keep(batch, self._rate)
        while self._rows > self._most:
            batches, self._batches, self._rows = self._batches, [], 0
            self._rate /= 2
            for kept in batches:
                self._keep(kept, 0.5)

    def _keep(self, batch: pa.RecordBatch, share: float) -> None:
        if share < 1:
            places = np.flatnonzero(self._random.random(batch.num_rows) < share)
            batch = batch.take(pa.array(places))
        if batch.num_rows:
            self._batches.append(batch)
            self._rows += batch.num_rows

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The rows of the sample."""
        return self._batches
