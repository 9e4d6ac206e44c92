"""Gathers values from leaves: any rows of any images in a buffer, column by column.

Cost per value: one access to the leaf's directory and one to the value; strings are located first
and then copied. The serialised batches of nested columns are read once per leaf and gather.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import Array, Bytes
from thetastream.errors import DataError
from thetastream.relation.image.codec import Form
from thetastream.relation.image.directory import ColumnPlace, Directory
from thetastream.relation.image.kernels import blocks as kernels

_BIAS = np.int64(-(2**63))


class Gather:
    """A gather of rows ``slots`` of the images at bytes ``bases``."""

    def __init__(self, directory: Directory, buffer: Bytes, bases: Array, slots: Array) -> None:
        self.directory = directory
        self.buffer = writable(buffer)
        self.halves = self.buffer.view(np.uint32)
        self.bases = np.ascontiguousarray(bases, np.int64)
        self.slots = np.ascontiguousarray(slots, np.int64)
        self._leaves: tuple[list[pa.RecordBatch], pa.Array] | None = None

    def column(self, column: ColumnPlace) -> pa.Array:
        """A column, of its declared type."""
        codec, rows = column.codec, len(self.slots)
        if codec.form is Form.NOTHING:
            stored = pa.nulls(rows)
        elif column.derived >= 0:
            stored = self._derived(column)
        elif codec.form is Form.NESTED:
            stored = self._nested(column)
        else:
            make = self._strings if codec.form is Form.BYTES else self._values
            stored = make(column, self._validity(column.entry))
        return codec.restore(stored)

    def numbers(self, entry: int, width: int) -> NDArray[np.unsignedinteger]:
        """Values of 1, 2, 4 or 8 bytes."""
        kind = np.dtype(f"u{width}")
        taken = np.empty(len(self.slots), kind)
        kernels.gather_numbers(
            self.buffer.view(kind), self.halves, self.bases, self.slots, entry,
            width.bit_length() - 1, taken,
        )  # fmt: skip
        return taken

    def _wide(self, entry: int, width: int) -> Bytes:
        """Values of any number of bytes, copied as words if it is a multiple of 8."""
        power = 3 if width % 8 == 0 else 0
        kind = np.dtype(f"u{1 << power}")
        taken = np.empty((width >> power) * len(self.slots), kind)
        kernels.gather_wide(
            self.buffer.view(kind), self.halves, self.bases, self.slots, entry, power,
            width >> power, taken,
        )  # fmt: skip
        return taken.view(np.uint8)

    def _derived(self, column: ColumnPlace) -> pa.Array:
        keys, kind = self.numbers(column.derived, 8).view(np.int64), column.codec.stored
        if pat.is_uint64(kind):
            keys ^= _BIAS
        raw = keys.astype(f"i{kind.bit_width // 8}", copy=False)
        return pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(raw)])

    def _validity(self, entry: int) -> pa.Buffer | None:
        bitmap = np.zeros((len(self.slots) + 7) // 8, np.uint8)
        absent = kernels.gather_bits(
            self.buffer, self.halves, self.bases, self.slots, entry, bitmap
        )
        return pa.py_buffer(bitmap) if absent else None

    def _values(self, column: ColumnPlace, validity: pa.Buffer | None) -> pa.Array:
        width, kind, rows = column.codec.width, column.codec.stored, len(self.slots)
        if width in (1, 2, 4, 8):
            taken = self.numbers(column.entry + 1, width).view(np.uint8)
        else:
            taken = self._wide(column.entry + 1, width)
        if column.codec.form is Form.BOOLEAN:
            taken = np.packbits(taken, bitorder="little")
        return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(taken)])

    def _strings(self, column: ColumnPlace, validity: pa.Buffer | None) -> pa.Array:
        entry, rows = column.entry + 1, len(self.slots)
        offsets = np.empty(rows + 1, f"i{column.codec.width}")
        places = (self.buffer.view(np.int32), self.halves, self.bases, self.slots, entry)
        sources = np.empty(rows, np.int64)
        total = kernels.find_strings(*places, sources, offsets)
        if total > np.iinfo(offsets.dtype).max:
            raise DataError(
                f"column {column.name!r}: {total} bytes of strings in one batch are more than "
                f"{column.codec.declared} can have; ask for fewer rows at a time"
            )
        data = np.empty(total + 8, np.uint8)
        kernels.copy_strings(
            self.buffer, self.buffer.ctypes.data, sources, offsets, data.ctypes.data
        )
        parts = [validity, pa.py_buffer(offsets), pa.py_buffer(data[:total])]
        return pa.Array.from_buffers(column.codec.stored, rows, parts)

    def _nested(self, column: ColumnPlace) -> pa.Array:
        """Gather from the serialised batches of the leaves, which are read once."""
        if self._leaves is None:
            self._leaves = self._read_leaves()
        batches, rows = self._leaves
        arrays = [batch.column(column.name) for batch in batches]
        if not arrays:
            return pa.nulls(0, column.codec.stored)
        return pa.concat_arrays(arrays).take(rows)

    def _read_leaves(self) -> tuple[list[pa.RecordBatch], pa.Array]:
        bases, which = np.unique(self.bases, return_inverse=True)
        entry = self.directory.buffers - 1
        first = self.halves[(bases >> 2) + kernels.DIRECTORY + entry] + bases
        last = self.halves[(bases >> 2) + kernels.USED] + bases
        batches = [
            pa.ipc.read_record_batch(pa.py_buffer(self.buffer[a:b]), self.directory.nested_schema)
            for a, b in zip(first.tolist(), last.tolist(), strict=True)
        ]
        ends = np.cumsum([0, *(batch.num_rows for batch in batches)])
        return batches, pa.array(ends[which] + self.slots)


def writable(buffer: Bytes) -> Bytes:
    """The whole words of a buffer as a writable array; a copy if it is read-only."""
    whole = buffer.size & ~7
    if not buffer.flags.writeable or buffer.ctypes.data % 8:
        return buffer[:whole].copy()
    return buffer[:whole]
