"""The sparse index: the first key of every leaf, in memory.

::

    leaf        0        1        2        3
    keys      3 5 5    5 5 8    8 9 9    12 14
    firsts    3        5        8        12
    continued 0        1        1        0        begins with the key that ends the leaf before

Two binary searches turn a question for keys in ``[low, high]`` into an interval of leaves. Where
``low`` equals the first key of a leaf, ``continued`` says whether the previous leaf can hold it
too: without it, every look-up of a first key would read one leaf in vain.

Leaves are in key order. In a freshly built relation leaf i follows leaf i - 1 on disk, and
``blocks`` is not stored; after splits it holds the position of each leaf. ``spans`` is stored only
if a leaf with a very large row takes several blocks.

Memory: 8 bytes and 1 bit per leaf, 9.9 MB for 10 GB in blocks of 8 KiB (the paper's B⁺-tree:
13 MB; SSIJ, Section III); 8 bytes more in an interval relation, and 8 for each of ``blocks`` and
``spans``. Fences are immutable: an update creates new ones, so a snapshot needs no copy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream.errors import RelationError
from thetastream.relation.files.folder import AGAIN, digest
from thetastream.relation.image.coding import Coding, parts_of
from thetastream.relation.image.key import KeyColumns

Bits = NDArray[np.uint8]
_MAGIC = b"TSINDEX1"
_CODING = "coding"


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything about a relation except its schema and fences."""

    key: tuple[str, ...]
    block_bytes: int
    fill: float
    rows: int
    null_keys: int
    """Rows that were left out because a key was NULL."""
    empty_intervals: int
    """Rows whose ``lo`` lies above ``hi``: they are stored but contain no point."""
    blocks: int
    """Blocks of the block file; some may be free after splits."""
    unique: tuple[str, ...] = ()
    """Columns whose values no two rows share."""
    equal: int = 0
    """How many columns of the key, the first ones, are compared by equality."""
    open_ends: bool | None = None
    """Whether NULL is an open end of an interval; None: such rows are refused."""
    keep_empty: bool = True
    """Whether intervals may end before they begin; in relations of earlier versions they may."""

    @property
    def columns(self) -> KeyColumns:
        """The columns of the key."""
        return KeyColumns(self.key[: self.equal], self.key[self.equal :], self.open_ends)


class Fences:
    """First keys of the leaves, and where the leaves lie. See the module."""

    __slots__ = ("_bits", "_blocks", "firsts", "greatest", "spans")

    def __init__(
        self,
        firsts: Array,
        continued: Bits,
        greatest: Array | None = None,
        blocks: Array | None = None,
        spans: Array | None = None,
    ) -> None:
        """``continued`` has one byte per leaf, or one bit per leaf as on disk.

        Redundant ``blocks`` and ``spans`` (leaves in a row, of one block each) are dropped.
        """
        leaves = len(firsts)
        self._bits = np.packbits(continued) if len(continued) == leaves else continued
        assert len(self._bits) == -(-leaves // 8)
        if spans is not None and not (spans != 1).any():
            spans = None
        if blocks is not None and np.array_equal(blocks, _in_a_row(leaves, spans)):
            blocks = None
        self.firsts, self.greatest, self._blocks, self.spans = firsts, greatest, blocks, spans
        for array in (firsts, self._bits, greatest, blocks, spans):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def continued(self) -> Bits:
        """1 per leaf that begins with the last key of the previous leaf; O(n), a new array."""
        return np.unpackbits(self._bits, count=len(self))

    @property
    def blocks(self) -> Array:
        """First block of each leaf; O(n), a new array, if no leaf has moved."""
        return _in_a_row(len(self), self.spans) if self._blocks is None else self._blocks

    @property
    def all_spans(self) -> Array:
        """Number of blocks of each leaf; O(n), a new array, if each has one."""
        return np.ones(len(self), np.int64) if self.spans is None else self.spans

    @property
    def moved(self) -> bool:
        """Whether any leaf does not directly follow the previous one on disk."""
        return self._blocks is not None

    @property
    def end(self) -> int:
        """The block after the last one that a leaf takes."""
        return int((self.blocks + self.all_spans).max(initial=0))

    def blocks_of(self, leaves: Array) -> Array:
        """First blocks of some leaves; computes those of all only if needed."""
        return leaves if self._blocks is None and self.spans is None else self.blocks[leaves]

    def ranges(self, lows: Array, highs: Array) -> tuple[Array, Array]:
        """Leaves ``[first, stop)`` that can hold a key in ``[low, high]``; empty if low > high.

        Cost: two binary searches per question, fastest when the questions are sorted.
        """
        firsts = self.firsts
        start = np.searchsorted(firsts, lows, side="left")
        stop = np.searchsorted(firsts, highs, side="right")
        if len(firsts):
            inside = np.minimum(start, len(firsts) - 1)
            begins = (start < len(firsts)) & (firsts[inside] == lows)
            bits = (self._bits[inside >> 3] >> (7 - (inside & 7)).astype(np.uint8)) & 1
            start = np.maximum(start - ~(begins & (bits == 0)), 0)
        stop = np.where(lows > highs, start, stop)
        return start.astype(np.int64, copy=False), np.maximum(stop, start).astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(a.nbytes for _, a in self.arrays())

    def arrays(self) -> list[tuple[str, NDArray[Any]]]:
        """The stored arrays, with their names."""
        arrays: dict[str, NDArray[Any] | None] = {
            "firsts": self.firsts,
            "continued": self._bits,
            "greatest": self.greatest,
            "blocks": self._blocks,
            "spans": self.spans,
        }
        return [(name, array) for name, array in arrays.items() if array is not None]


def _in_a_row(leaves: int, spans: Array | None) -> Array:
    if spans is None:
        return np.arange(leaves, dtype=np.int64)
    return np.cumsum(spans) - spans


# --- The index file -----------------------------------------------------------------------------


def write_index(
    schema: pa.Schema,
    facts: Facts,
    fences: Fences,
    codings: Sequence[Coding | None] = (None, None),
) -> bytes:
    """An index file: magic, length of the head, head (JSON), schema, arrays; 8-byte aligned."""
    described = schema.serialize().to_pybytes()
    stored = fences.arrays()
    for which, coding in enumerate(codings):
        if coding is not None:
            stored += [(f"{_CODING}{which}.{at}", a) for at, a in enumerate(coding.arrays)]
    arrays = [(name, a.astype(a.dtype.newbyteorder("<"))) for name, a in stored]
    head = {
        "facts": asdict(facts),
        "schema": len(described),
        "arrays": [[name, array.dtype.str, len(array)] for name, array in arrays],
    }
    text = json.dumps(head).encode()
    parts = [_MAGIC, len(text).to_bytes(8, "little"), _padded(text), _padded(described)]
    return b"".join([*parts, *(_padded(array.tobytes()) for _, array in arrays)])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def read_index(
    data: bytes, size: int, checksum: str, where: str
) -> tuple[pa.Schema, Facts, Fences]:
    """Read an index file; RelationError if it is not the one that CURRENT names."""
    if len(data) != size:
        raise RelationError(
            f"the index file {where!r} is cut short: expected {size} bytes, found {len(data)}; "
            f"{AGAIN}"
        )
    if digest(data) != checksum or data[:8] != _MAGIC:
        raise RelationError(
            f"the index file {where!r} is damaged: expected checksum {checksum}, found "
            f"{digest(data)}; {AGAIN}"
        )
    length = int.from_bytes(data[8:16], "little")
    head = json.loads(data[16 : 16 + length])
    at = 16 + length + -length % 8
    schema = pa.ipc.read_schema(pa.py_buffer(data[at : at + head["schema"]]))
    at += head["schema"] + -head["schema"] % 8
    arrays = _arrays(data, head, at)
    plain = head["facts"]
    lists = {name: tuple(value) for name, value in plain.items() if isinstance(value, list)}
    return (
        schema,
        Facts(**{**plain, **lists}),
        Fences(**{name: array for name, array in arrays.items() if not name.startswith(_CODING)}),
    )


def _arrays(data: bytes, head: dict[str, Any], at: int) -> dict[str, NDArray[Any]]:
    """The arrays of an index file, the first of which begins at a position."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, count in head["arrays"]:
        arrays[name] = np.frombuffer(data, np.dtype(kind), count, at)
        at += arrays[name].nbytes + -arrays[name].nbytes % 8
    return arrays


def read_codings(
    data: bytes, schema: pa.Schema, facts: Facts
) -> tuple[Coding | None, Coding | None]:
    """The codings of keys in an index file that has been checked; None: there is none."""
    length = int.from_bytes(data[8:16], "little")
    head = json.loads(data[16 : 16 + length])
    at = 16 + length + -length % 8
    arrays = _arrays(data, head, at + head["schema"] + -head["schema"] % 8)
    codings: list[Coding | None] = []
    for which, parts in enumerate(parts_of(schema, facts.columns)):
        stored = [array for name, array in arrays.items() if name.startswith(f"{_CODING}{which}.")]
        if stored and sum(part.width for part in parts) != len(stored[1]):
            parts = parts[-1:]  # of an earlier version: ``hi`` without the columns in front
        codings.append(Coding.restored(parts, stored) if stored else None)
    return codings[0], codings[1]
