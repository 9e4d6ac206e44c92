"""How one column goes into leaves and comes out: its stored type, its form there, both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

Convert = Callable[[pa.Array], pa.Array]


class Form(Enum):
    """How the values of a stored type lie in a leaf."""

    NOTHING = "all NULL"
    FIXED = "fixed width"
    BOOLEAN = "booleans as bytes"
    BYTES = "strings or binary"
    NESTED = "a serialised record batch"


@dataclass(frozen=True, slots=True)
class Codec:
    """How a column goes into leaves and comes out: ``decode`` gives ``stored``, ``restore`` back.

    ``width``: bytes per value of a fixed form; per offset of strings as they come out.
    """

    declared: pa.DataType
    stored: pa.DataType
    form: Form
    width: int
    decode: Convert
    restore: Convert


def same(array: pa.Array) -> pa.Array:
    """The array itself: what is stored is what was declared."""
    return array
