"""Packs rows into leaves: finds where leaves end, and copies columns into their images.

A leaf is filled up to its share of a block. The size of rows is known exactly, including bitmaps of
columns with a NULL among them, and every buffer rounded up to 8 bytes. Arrow measures nested
columns: bisection near the last answer finds how many rows fit. Equal rows have equal images,
except for nested columns: bytes under NULLs and after the rows are 0.

Cost: every column is copied once; computing the sizes takes a few operations per row and column.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes
from thetastream.errors import DataError
from thetastream.relation.image.codec import Codec, Form
from thetastream.relation.image.directory import ColumnPlace, Directory
from thetastream.relation.image.kernels import blocks as kernels

_PAGE = 4096
_LONGEST = 2**31 - 1
_LARGEST = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Packed:
    """Images of consecutive leaves, and the facts that the index needs."""

    images: Bytes
    """The images, one after another; page-aligned."""
    firsts: Array
    """The first key of every leaf."""
    lasts: Array
    """The last key of every leaf."""
    greatest: Array | None
    """The greatest key of ``hi`` of every leaf, in relations of intervals."""
    spans: Array
    """Blocks of every leaf."""
    rows: Array
    """Rows of every leaf."""
    bases: Array
    """Where images begin, in bytes."""

    def __len__(self) -> int:
        return len(self.spans)


class Packing:
    """Rows to pack, with their columns as arrays of plain values."""

    def __init__(
        self,
        directory: Directory,
        block_bytes: int,
        batch: pa.RecordBatch,
        keys: Array,
        his: Array | None,
    ) -> None:
        self.directory = directory
        self.block_bytes = block_bytes
        self.rows = batch.num_rows
        self.keys = [np.ascontiguousarray(k, np.int64) for k in (keys, his) if k is not None]
        self.arrays: dict[int, pa.Array] = {}
        """Stored arrays of simple columns, by entry."""
        offsets: list[Array] = []
        nulls: list[Bytes] = []
        self.kinds = np.full(directory.buffers, kernels.FIXED, np.int64)
        self.details = np.full(directory.buffers, 8, np.int64)
        for column in directory.simple:
            array = column.codec.decode(batch.column(column.at))
            self._add(column, array, offsets, nulls)
        self.offsets = np.array(offsets, np.int64).reshape(len(offsets), self.rows + 1)
        self.nulls = np.array(nulls, np.uint8).reshape(len(nulls), self.rows)
        self.nested = pa.RecordBatch.from_arrays(
            [column.codec.decode(batch.column(column.at)) for column in directory.nested],
            schema=directory.nested_schema,
        )
        if directory.nested:
            self.kinds[-1] = kernels.OTHER
        fixed = self.details[self.kinds == kernels.FIXED]
        self.widths, self.counts = np.unique(fixed, return_counts=True)
        self.seen = np.zeros(len(nulls), np.uint8)

    def _add(
        self, column: ColumnPlace, array: pa.Array, offsets: list[Array], nulls: list[Bytes]
    ) -> None:
        """Record the size per row of a simple column."""
        entry, codec = column.entry, column.codec
        flags = null_flags(array)
        self.kinds[entry] = kernels.BITS
        self.details[entry] = -1 if flags is None else len(nulls)
        if flags is not None:
            nulls.append(flags)
        self.details[entry + 1] = codec.width
        if codec.form is Form.BYTES:
            ends = string_offsets(array, column)
            if flags is not None and (np.diff(ends) * flags).any():  # bytes under NULLs
                array = array.take(pa.array(np.arange(self.rows)))
                ends = string_offsets(array, column)
            self.kinds[entry + 1] = kernels.BYTES
            self.details[entry + 1] = len(offsets)
            offsets.append(ends)
        self.arrays[entry] = array

    def images(self, fill: float, first_block: int) -> Packed:
        """Pack all rows."""
        size = self.block_bytes
        starts, parts = self._cut(int(fill * size))
        places, used = self._placed(starts, parts)
        spans = -(-used // size)
        bases = (np.cumsum(spans) - spans) * size
        images = zeros(int(spans.sum()) * size)
        heads = {kernels.ROWS: np.diff(starts), kernels.USED: used, kernels.SPAN: spans}
        for place, numbers in heads.items():
            images.view(np.uint32)[(bases >> 2) + place] = numbers
        images.view(np.int64)[(bases >> 3) + kernels.BLOCK] = first_block + bases // size
        entries = kernels.DIRECTORY + np.arange(places.shape[1])
        images.view(np.uint32)[(bases >> 2)[:, None] + entries] = places
        self._fill(images, places + bases[:, None], places > 0, starts, parts)
        kernels.seal(images.view(np.uint64), bases, spans * size)
        firsts, lasts = (self.keys[0][rows] for rows in (starts[:-1], starts[1:] - 1))
        return Packed(images, firsts, lasts, self._greatest(starts), spans, np.diff(starts), bases)

    def _greatest(self, starts: Array) -> Array | None:
        if len(self.keys) == 1 or not self.rows:
            return self.keys[1] if len(self.keys) > 1 else None
        return np.maximum.reduceat(self.keys[1], starts[:-1])

    def _placed(self, starts: Array, parts: list[pa.Buffer]) -> tuple[Array, Array]:
        """Where buffers begin in their leaves, and the bytes used of each leaf."""
        leaves = len(starts) - 1
        others = np.array([part.size for part in parts], np.int64)
        places = np.empty((leaves, self.directory.buffers), np.int64)
        used = np.empty(leaves, np.int64)
        head = self.directory.keys_at
        facts = (self.kinds, self.details, head, self.offsets, self.nulls, others)
        kernels.place_buffers(starts, *facts, places, used)
        if leaves and int(used.max()) > _LARGEST:
            raise DataError(
                f"a row takes {int(used.max())} bytes: a row of a relation may have {_LARGEST}; "
                "store its large values elsewhere and keep references to them"
            )
        return places, used

    def _cut(self, limit: int) -> tuple[Array, list[pa.Buffer]]:
        """The first rows of all leaves, and the serialised batch of each."""
        if self.directory.nested:
            return self._cut_nested(limit)
        starts = np.empty(self.rows + 1, np.int64)
        leaves = kernels.cut_leaves(0, self.rows, *self._sizes(limit), starts)
        return starts[: leaves + 1].copy(), []

    def _sizes(self, limit: int) -> tuple[int, Array, Array, Array, Bytes, int, Bytes]:
        head = self.directory.keys_at
        return head, self.widths, self.counts, self.offsets, self.nulls, limit, self.seen

    def _cut_nested(self, limit: int) -> tuple[Array, list[pa.Buffer]]:
        """The same with nested columns, whose size only Arrow knows: by bisection."""
        starts, parts, rows = [0], [], 1
        while starts[-1] < self.rows:
            rows = self._most(starts[-1], rows, limit)
            parts.append(self.nested.slice(starts[-1], rows).serialize())
            starts.append(starts[-1] + rows)
        return np.array(starts, np.int64), parts

    def _most(self, first: int, guess: int, limit: int) -> int:
        """How many rows fit into a leaf, at least one; ``guess`` should be near."""

        def fits(rows: int) -> bool:
            size = pa.ipc.get_record_batch_size(self.nested.slice(first, rows))
            room = self._sizes(limit - (size + 7) // 8 * 8)
            kernels.cut_leaves(first, first + rows, *room, ends)
            return bool(ends[1] == first + rows)

        ends = np.empty(2, np.int64)  # of one leaf
        most = self.rows - first
        good, bad, step = 1, most + 1, max(guess // 8, 1)
        near = min(guess, most)
        while good < near < bad and near <= most:
            if fits(near):
                good, near = near, near + step
            else:
                bad, near = near, near - step
            step *= 2
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if fits(middle) else (good, middle)
        return good

    def _fill(
        self,
        images: Bytes,
        targets: Array,
        present: NDArray[np.bool_],
        starts: Array,
        parts: list[pa.Buffer],
    ) -> None:
        """Copy all buffers to their targets, column by column."""
        for which, keys in enumerate(self.keys):
            kernels.copy_bytes(keys.view(np.uint8), starts * 8, targets[:, which].copy(), images)
        for column in self.directory.simple:
            entry, width = column.entry, column.codec.width
            array, data = self.arrays[entry], targets[:, entry + 1].copy()
            if column.codec.form is Form.BYTES:
                self._fill_strings(array, entry, starts, data, images)
            else:
                values = raw_values(array, column.codec)
                kernels.copy_bytes(values, starts * width, data, images)
            if (line := self.details[entry]) >= 0:
                bits = np.where(present[:, entry], targets[:, entry], -1)
                kernels.copy_bits(self.nulls[line], starts, bits, images)
                if column.codec.form is not Form.BYTES:
                    kernels.blank(self.nulls[line], starts, bits, data, width, images)
        for target, part in zip(targets[:, -1].tolist(), parts, strict=bool(parts)):
            images[target : target + part.size] = np.frombuffer(part, np.uint8)

    def _fill_strings(
        self, array: pa.Array, entry: int, starts: Array, targets: Array, images: Bytes
    ) -> None:
        offsets = self.offsets[self.details[entry + 1]]
        kernels.copy_offsets(offsets, starts, targets, images.view(np.int32))
        behind = targets + (4 * np.diff(starts) + 11) // 8 * 8
        data = alias(array.buffers()[2], int(offsets[-1]))
        kernels.copy_bytes(data, offsets[starts], behind, images)


def alias(buffer: pa.Buffer | None, size: int) -> Bytes:
    """The first bytes of Arrow's memory, not copied; the caller keeps the buffer and only reads.

    Compiled loops take writable arrays, and NumPy's views of Arrow's memory are read-only.
    """
    if buffer is None or not size:
        return np.zeros(size, np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(buffer.address)
    return np.frombuffer(memory, np.uint8)


def raw_values(array: pa.Array, codec: Codec) -> Bytes:
    """The bytes of values of fixed width; booleans as one byte each."""
    data, first, rows = array.buffers()[1], array.offset, len(array)
    if codec.form is Form.BOOLEAN:
        return _bits(data, first, rows)
    width = codec.width
    return alias(data, width * (first + rows))[width * first :]


def _bits(buffer: pa.Buffer | None, first: int, rows: int) -> Bytes:
    packed = alias(buffer, (first + rows + 7) // 8)[first // 8 :]
    return np.unpackbits(packed, bitorder="little")[first % 8 : first % 8 + rows]


def null_flags(array: pa.Array) -> Bytes | None:
    """1 for every NULL, or None if there is none."""
    if not array.null_count:
        return None
    return _bits(array.buffers()[0], array.offset, len(array)) ^ np.uint8(1)


def string_offsets(array: pa.Array, column: ColumnPlace) -> Array:
    """Offsets of strings in the data buffer; DataError if one is too long."""
    width, first, rows = column.codec.width, array.offset, len(array)
    data = alias(array.buffers()[1], width * (first + rows + 1))
    offsets = data.view(f"i{width}")[first:].astype(np.int64)
    longest = int(np.diff(offsets).max(initial=0)) if width == 8 else 0
    if longest > _LONGEST:
        raise DataError(
            f"column {column.name!r}: a value of {longest} bytes is too long: a value in a "
            f"relation may have {_LONGEST}; store it elsewhere and keep a reference to it"
        )
    return offsets


def zeros(size: int) -> Bytes:
    """Page-aligned zero bytes."""
    memory = np.zeros(size + _PAGE, np.uint8)
    first = -memory.ctypes.data % _PAGE
    return memory[first : first + size]
