"""Codecs: the stored type and form of a column, and the conversions to and from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

Convert = Callable[[pa.Array], pa.Array]


class Form(Enum):
    """The layout of a stored type's values in a leaf."""

    NOTHING = "all NULL"
    FIXED = "fixed width"
    BOOLEAN = "booleans as bytes"
    BYTES = "strings or binary"
    NESTED = "a serialised record batch"


@dataclass(frozen=True, slots=True)
class Codec:
    """Conversions of a column: ``decode`` to the stored type, ``restore`` to the declared one.

    ``width`` is bytes per value of a fixed form, or per offset of restored strings.
    """

    declared: pa.DataType
    stored: pa.DataType
    form: Form
    width: int
    decode: Convert
    restore: Convert


def same(array: pa.Array) -> pa.Array:
    """The array itself: stored and declared type are the same."""
    return array
