"""The directory of a leaf: its buffers, in order.

    0          keys
    1          keys of ``hi``, in relations of intervals
    next two   validity and data of a simple column, and so on
    last       nested columns together, as one serialised record batch, if there are any

A key column that can be derived exactly from its int64 keys has no buffers, nor has a column of
type null. Columns of intervals with open ends are stored, since they have NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from thetastream.relation.image.codec import Codec, Form
from thetastream.relation.image.columns import codec_of
from thetastream.relation.image.kernels.blocks import HEADER
from thetastream.relation.image.key import KeyColumns


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """A column of the schema, and its place in a leaf."""

    name: str
    at: int
    """Its place in the schema."""
    codec: Codec
    entry: int
    """The directory entry of its validity; the next one is that of its data."""
    derived: int
    """The number of the key, 0 or 1, that it is derived from; -1: none."""

    @property
    def simple(self) -> bool:
        """Whether it has its own entries in the directory."""
        return self.derived < 0 and self.codec.form not in (Form.NOTHING, Form.NESTED)


class Directory:
    """The buffers of a leaf; depends on schema and key alone."""

    def __init__(self, schema: pa.Schema, key: KeyColumns, coded: Sequence[bool]) -> None:
        """``coded``: which of the keys are codes, from which nothing can be derived."""
        names = key.ordered
        self.keys = len(names)
        entries = self.keys
        self.columns: dict[str, ColumnPlace] = {}
        for at, field in enumerate(schema):
            codec = codec_of(field.type, field.name)
            derived = -1
            if not key.open_ends and field.name in names and follows(codec.stored):
                at_key = names.index(field.name)
                derived = -1 if coded[at_key] else at_key
            column = ColumnPlace(field.name, at, codec, entries, derived)
            self.columns[field.name] = column
            entries += 2 * column.simple
        self.simple = [column for column in self.columns.values() if column.simple]
        self.nested = [c for c in self.columns.values() if c.codec.form is Form.NESTED]
        self.nested_schema = pa.schema([(c.name, c.codec.stored) for c in self.nested])
        self.buffers = entries + bool(self.nested)
        """Number of entries."""
        self.keys_at = (HEADER + 4 * self.buffers + 7) // 8 * 8
        """Where the keys begin in every leaf."""


def follows(kind: pa.DataType) -> bool:
    """Whether values of a key column can be derived exactly from their int64 keys."""
    exact = pat.is_integer(kind) or pat.is_date32(kind) or pat.is_time(kind)
    return bool(exact or pat.is_timestamp(kind) or pat.is_duration(kind))
