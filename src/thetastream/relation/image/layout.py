"""The layout of rows in blocks: packs rows in key order into images of leaves, and unpacks them.

    header │ directory │ keys │ validity, data │ validity, data │ … │ serialised record batch │ 0 …
     32 B     u32 each   int64   one pair per simple column            nested columns together

Invariants: a leaf has as many rows as fit into its share of a block, or one; a row larger than a
block has a leaf of several blocks to itself; keys are at the same place in every leaf; unused bytes
are 0. A layout depends on schema, key and block size alone, so machines can exchange relations.
Rows lie in the leaves themselves (SSIJ, Section III). The key of a row is stored as the int64 it is
compared by; a column that can be derived from it exactly is not stored again.

Cost: packing copies each column once; a gather reads the directory of a leaf and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import LEAST, MOST, Array, Bytes, Mask
from thetastream._jit.compiling import prepare
from thetastream.data import kernels as data_kernels
from thetastream.data.batch import to_keys
from thetastream.errors import DataError, SchemaError, suggest
from thetastream.relation.image.coding import Coding
from thetastream.relation.image.directory import Directory
from thetastream.relation.image.gathering import Gather, writable
from thetastream.relation.image.kernels import blocks as kernels
from thetastream.relation.image.key import KeyColumns
from thetastream.relation.image.packing import Packed, Packing
from thetastream.schema import Domain, KeyKind, common_domain

_GRAIN = 64


class LeafLayout:
    """The format of the leaves of one relation.

    >>> layout = LeafLayout(pa.schema({"id": pa.int64(), "name": pa.string()}), "id", 8192)
    >>> batch = pa.record_batch({"id": [1, 2], "name": ["a", None]})
    >>> keys, his, valid = layout.keys_of(batch)
    >>> packed = layout.pack(batch, keys, his, 0.8, 0)
    >>> len(packed), packed.images.size
    (1, 8192)
    >>> layout.unpack(packed.images, 0)[0].equals(batch)
    True
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: str | Sequence[Any] | KeyColumns,
        block_bytes: int,
        codings: tuple[Coding | None, Coding | None] = (None, None),
    ) -> None:
        """``codings`` are those of keys and of keys of ``hi``; None: the int64 keys of values."""
        prepare(data_kernels, kernels)
        self.codings = codings
        self.schema = schema
        self.columns = KeyColumns.of(key)
        self.key = self.columns.ordered
        """The key column, or ``lo`` and ``hi``."""
        self.block_bytes = block_bytes
        self._check()
        domains = [self._domain(name) for name in self.key]
        self.domain = domains[0]
        self.high_domain: Domain | None = domains[1] if len(domains) > 1 else None
        self._directory = Directory(schema, self.columns, [c is not None for c in codings])
        self.keys_at = self._directory.keys_at

    def _check(self) -> None:
        names = self.schema.names
        assert len(set(names)) == len(names), "a relation needs distinct column names"
        assert self.block_bytes >= 2 * _GRAIN and self.block_bytes % _GRAIN == 0
        for name in self.columns.names:
            if name not in names:
                raise SchemaError(
                    f"there is no column {name!r} for the key; the schema has {', '.join(names)}."
                    f"{suggest(name, names)}"
                )

    def _domain(self, name: str) -> Domain:
        kind = self.schema.field(name).type
        return common_domain(kind, kind, f"key column {name!r}")

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The columns that decide the order of rows."""
        return self.columns.sorted_by

    @property
    def is_exact(self) -> bool:
        """Whether equal int64 keys mean equal values of ``sorted_by``."""
        return self.codings[0] is None and self.domain.kind is not KeyKind.BYTES

    @property
    def coding_bytes(self) -> int:
        """Bytes of the codings in memory."""
        return sum(coding.nbytes for coding in self.codings if coding is not None)

    def with_schema(self, schema: pa.Schema) -> LeafLayout:
        """The same layout for other types of the columns."""
        return LeafLayout(schema, self.columns, self.block_bytes, self.codings)

    def order_keys(self, batch: pa.RecordBatch) -> tuple[Array, Mask | None]:
        """Keys of rows, of which only the columns ``sorted_by`` are needed."""
        if self.codings[0] is not None:
            return self.codings[0].keys(batch, opens=bool(self.columns.open_ends))
        keys, valid = _keys(batch, self.key[0], self.domain)
        return self._opened(self.key[0], keys, valid, LEAST)

    def _opened(
        self, name: str, keys: Array, valid: Mask | None, end: int
    ) -> tuple[Array, Mask | None]:
        """Keys of one end of intervals: where it is open, that is NULL, the first or last key."""
        if not self.columns.open_ends:
            return keys, valid
        taken = keys == end if valid is None else (keys == end) & valid
        if taken.any():
            raise DataError(
                f"column {name!r}: {int(np.count_nonzero(taken)):,} rows have the "
                f"{'least' if end == LEAST else 'greatest'} value of the type, which stands for an "
                "open end; use NULL instead"
            )
        if valid is not None:
            keys[~valid] = end
        return keys, None

    def keys_of(self, batch: pa.RecordBatch) -> tuple[Array, Array | None, Mask | None]:
        """Keys, keys of ``hi`` if any, and which rows have no NULL key (None: all)."""
        keys, valid = self.order_keys(batch)
        if self.high_domain is None:
            return keys, None, valid
        if self.codings[1] is not None:
            opens = bool(self.columns.open_ends)
            his, valid_his = self.codings[1].keys(batch, opens=opens, upper=True)
        else:
            his, valid_his = _keys(batch, self.key[1], self.high_domain)
            his, valid_his = self._opened(self.key[1], his, valid_his, MOST)
        if valid is None or valid_his is None:
            return keys, his, valid_his if valid is None else valid
        return keys, his, valid & valid_his

    def pack(
        self, batch: pa.RecordBatch, keys: Array, his: Array | None, fill: float, first_block: int
    ) -> Packed:
        """Pack rows in key order into images of leaves, for the blocks from ``first_block`` on.

        A leaf gets as many rows as fit into ``fill`` of a block, and at least one.
        """
        self._check_rows(batch, keys, his, fill)
        return Packing(self._directory, self.block_bytes, batch, keys, his).images(
            fill, first_block
        )

    def _check_rows(
        self, batch: pa.RecordBatch, keys: Array, his: Array | None, fill: float
    ) -> None:
        assert batch.schema.names == self.schema.names
        assert batch.schema.types == self.schema.types
        assert 0 < fill <= 1
        assert len(keys) == batch.num_rows
        assert (his is None) == (self.high_domain is None)
        assert his is None or len(his) == len(keys)
        inside = self.columns.equal if self.columns.open_ends else self.columns.names
        assert not any(batch.column(name).null_count for name in inside), "NULL keys stay out"

    def _facts(self, buffer: Bytes, bases: Array, place: int) -> Array:
        """One number of each image's header."""
        halves = buffer[: buffer.size & ~7].view(np.uint32)
        facts: Array = halves[(bases >> 2) + place].astype(np.int64)
        return facts

    def rows_of(self, buffer: Bytes, bases: Array) -> Array:
        """Number of rows of the images that begin at bytes ``bases``."""
        return self._facts(buffer, bases, kernels.ROWS)

    def spans_of(self, buffer: Bytes, bases: Array) -> Array:
        """Number of blocks of the images that begin at bytes ``bases``."""
        return self._facts(buffer, bases, kernels.SPAN)

    def unpack(self, images: Bytes, base: int) -> tuple[pa.RecordBatch, Array, Array | None]:
        """All rows of the image that begins at byte ``base``, with their keys."""
        return self.unpack_all(images, np.array([base], np.int64))

    def unpack_all(
        self, images: Bytes, bases: Array, names: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatch, Array, Array | None]:
        """All rows of several images, in order, with their keys; or only some columns."""
        images = writable(images)
        rows = self.rows_of(images, bases)
        ends = np.cumsum(rows)
        each = np.repeat(bases, rows)
        slots = np.arange(len(each)) - np.repeat(ends - rows, rows)
        wanted = self.schema.names if names is None else list(names)
        arrays = self.take(images, each, slots, wanted)
        schema = self.schema if names is None else pa.schema(map(self.schema.field, wanted))
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        keys = self.take_keys(images, each, slots)
        return batch, keys, self.take_keys(images, each, slots, 1) if len(self.key) > 1 else None

    def take_keys(self, buffer: Bytes, bases: Array, slots: Array, which: int = 0) -> Array:
        """Keys of row ``slots[i]`` of the image at byte ``bases[i]``; ``which=1``: those of hi."""
        return Gather(self._directory, buffer, bases, slots).numbers(which, 8).view(np.int64)

    def take(
        self, buffer: Bytes, bases: Array, slots: Array, names: Sequence[str]
    ) -> list[pa.Array]:
        """Columns of row ``slots[i]`` of the image that begins at byte ``bases[i]``, for all i."""
        gather = Gather(self._directory, buffer, bases, slots)
        return [gather.column(self._directory.columns[name]) for name in names]

    def verify(self, buffer: Bytes, bases: Array, blocks: Array) -> int:
        """The position in ``bases`` of the first image with a wrong checksum or number, or -1."""
        buffer = writable(buffer)
        return int(
            kernels.find_wrong(
                buffer.view(np.uint64), buffer.view(np.uint32), bases, blocks, self.block_bytes
            )
        )

    def renumber(self, images: Bytes, bases: Array, blocks: Array) -> None:
        """Change the block numbers and checksums of images in place."""
        images.view(np.int64)[(bases >> 3) + kernels.BLOCK] = blocks
        sizes = self.spans_of(images, bases) * self.block_bytes
        kernels.seal(images.view(np.uint64), np.ascontiguousarray(bases), sizes)


def _keys(batch: pa.RecordBatch, name: str, domain: Domain) -> tuple[Array, Mask | None]:
    """Keys of a column; a slice of strings is copied first, since hashing copies all bytes."""
    column = batch.column(name)
    if domain.kind is KeyKind.BYTES and column.nbytes < column.get_total_buffer_size():
        column = pa.concat_arrays([column])
    return to_keys(column, domain, f"key {name!r}")
