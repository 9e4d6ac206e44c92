"""Several key columns packed into one 64-bit number, in the order of the columns.

    key={"xway": (0, 15), "dir": (0, 1), "seg": (0, 99), "vid": (0, 1_048_575)}

      4 bits   1    7 bits        20 bits
    ┌────────┬───┬─────────┬───────────────────┐      packed keys compare as tuples do, so all
    │  xway  │dir│   seg   │        vid        │      vehicles of a segment are one interval:
    └────────┴───┴─────────┴───────────────────┘      (x, d, s) asks from vid 0 to the last

Ordered Indexing, Section 4.1.2. A column takes the bits of its range, or of its type if it has no
range. A key of one column may have any type that has an order.

Rows outside a range are refused. Queries outside of it are answered: nothing lies there, and an
interval is clipped to what can be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, MOST, Array, Mask
from thetastream.data.batch import to_keys
from thetastream.errors import DataError, SchemaError, suggest
from thetastream.schema import Domain, KeyKind, common_domain, kind_of, value_type

Key = str | Sequence[str] | Mapping[str, tuple[int, int] | None]
_WORD = 64
_FEW = 16
_WHOLE = (KeyKind.INTEGER, KeyKind.UNSIGNED, KeyKind.BOOLEAN, KeyKind.DATE)


@dataclass(frozen=True, slots=True)
class _Part:
    """A column of the key, and the range of its whole numbers."""

    name: str
    kind: pa.DataType
    domain: Domain
    low: int
    high: int
    bits: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", (self.high - self.low).bit_length())

    def keys(self, values: pa.Array) -> tuple[Array, Mask | None]:
        return to_keys(values, self.domain, self.name)


class KeyPacker:
    """Packs the key columns of a schema into one int64, and queries into intervals of it.

    >>> schema = pa.schema([("seg", pa.int8()), ("vid", pa.int32())])
    >>> packer = KeyPacker({"seg": (0, 99), "vid": (0, 1000)}, schema)
    >>> packer.bits, [edge.tolist() for edge in packer.intervals([(3,)], [(3,)])]
    (17, [[3072], [4095]])
    """

    def __init__(self, key: Key, schema: pa.Schema) -> None:
        ranges = _read(key)
        for name in ranges:
            if name not in schema.names:
                raise SchemaError(
                    f"there is no key column {name!r}; the rows have {', '.join(schema.names)}."
                    f"{suggest(name, schema.names)}"
                )
        self.names = list(ranges)
        self._parts: list[_Part] = []
        if len(ranges) == 1 and ranges[self.names[0]] is None:
            kind = schema.field(self.names[0]).type
            domain = common_domain(kind, kind, f"key {self.names[0]}")
            if not domain.kind.is_ordered:
                raise SchemaError(
                    f"key column {self.names[0]!r} is of type {kind}, which becomes no number in "
                    "its order; use a number, a time, a date or a decimal"
                )
            self._parts.append(_Part(self.names[0], value_type(kind), domain, LEAST, MOST))
        else:
            self._parts = [_part(schema.field(n), ranges[n]) for n in self.names]
        self.bits = sum(part.bits for part in self._parts)
        """Bits of a packed key."""
        self._check_bits()
        plain = (KeyKind.INTEGER, KeyKind.BOOLEAN)
        self._plain = all(part.domain.kind in plain for part in self._parts)

    def _check_bits(self) -> None:
        if self.bits > _WORD:
            widths = ", ".join(f"{p.name} {p.bits}" for p in self._parts)
            over = self.bits - _WORD
            raise SchemaError(
                f"the key ({', '.join(self.names)}) needs {self.bits} bits ({widths}), {over} more "
                f"than the 64 of a packed key; add ranges, as key={{'{self.names[-1]}': (0, "
                "1_048_575), …}, or leave columns out"
            )

    @property
    def single(self) -> bool:
        """Whether the key is one unpacked column."""
        return len(self._parts) == 1 and self.bits == _WORD

    def __str__(self) -> str:
        if self.single:
            return f"{self.names[0]} ({self._parts[0].kind})"
        widths = ", ".join(f"{part.name} {part.bits} bits" for part in self._parts)
        return f"⟨{', '.join(self.names)}⟩ packed into {self.bits} bits ({widths})"

    # --- Rows -----------------------------------------------------------------------------------

    def keys(self, batch: pa.RecordBatch) -> tuple[Array, Mask | None]:
        """Packed keys of rows, and which of them contain no NULL (None if none does).

        Raises DataError for a value outside its range.
        """
        columns = [part.keys(batch.column(part.name)) for part in self._parts]
        masks = [valid for _, valid in columns if valid is not None]
        valid = np.logical_and.reduce(masks) if masks else None
        for part, (values, _) in zip(self._parts, columns, strict=True):
            _check_range(part, values, valid)
        return self._packed([values for values, _ in columns]), valid

    def points(self, keys: Any) -> tuple[Array, Mask]:
        """Packed keys of queries, and which of them can be stored at all."""
        if self._is_short(keys) and all(len(key) == len(self._parts) for key in keys):
            lows, highs = self._edges(keys, keys)
            return lows, lows == highs
        columns = self._columns(keys, len(self._parts))
        good = np.ones(columns[0][0].size, np.bool_)
        clipped = []
        for part, (values, valid) in zip(self._parts, columns, strict=True):
            good &= (values >= part.low) & (values <= part.high)
            if valid is not None:
                good &= valid
            clipped.append(np.clip(values, part.low, part.high))
        return self._packed(clipped), good

    def _packed(self, columns: list[Array]) -> Array:
        if self.single:
            return columns[0]
        code = np.zeros(columns[0].size, np.uint64)
        for part, values in zip(self._parts, columns, strict=True):
            code = _shifted(code, part.bits) | _offset(values, part.low)
        return self._signed(code)

    def _signed(self, code: NDArray[np.uint64]) -> Array:
        """Codes as int64; those of 64 bits are shifted down, which keeps their order."""
        flip = np.uint64(1 << 63) if self.bits == _WORD else np.uint64(0)
        return (code ^ flip).view(np.int64)

    # --- Intervals ------------------------------------------------------------------------------

    def intervals(self, lows: Any, highs: Any) -> tuple[Array, Array]:
        """Inclusive packed bounds of intervals, from values of the first few columns.

        Columns that are left out are free: ``(x, d, s)`` asks for all vehicles. An empty interval
        has low > high.
        """
        if self._is_short(lows) and self._is_short(highs) and len(lows) == len(highs):
            return self._edges(lows, highs)
        low, no_low = self._bounds(lows, upper=False)
        high, no_high = self._bounds(highs, upper=True)
        if low.size != high.size:
            raise DataError(
                f"lows and highs must have the same length; got {low.size} and {high.size}"
            )
        nothing = no_low | no_high
        return np.where(nothing, MOST, low), np.where(nothing, LEAST, high)

    def _bounds(self, values: Any, *, upper: bool) -> tuple[Array, Mask]:
        """One bound of each interval, and where it is NULL or lies beyond all keys."""
        columns = self._columns(values, None)
        size = columns[0][0].size
        nothing = np.zeros(size, np.bool_)
        for _, valid in columns:
            if valid is not None:
                nothing |= ~valid
        if self.single:
            return columns[0][0], nothing
        code = np.zeros(size, np.uint64)
        free = np.zeros(size, np.bool_)  # decided by an earlier column: the rest is all 0 or all 1
        ones = np.full(size, upper)
        step = np.zeros(size, np.int64)  # 1 or -1 where the bound lies just beyond the code
        for at, part in enumerate(self._parts):
            full = np.uint64((1 << part.bits) - 1)
            digits = np.where(ones, full, np.uint64(0))
            if at < len(columns):
                given = columns[at][0]
                below, above = (given < part.low) & ~free, (given > part.high) & ~free
                inside = ~(free | below | above)
                step[above] = 0 if upper else 1
                step[below] = -1 if upper else 0
                ones = np.where(above, True, np.where(below, False, ones))
                free = free | below | above
                digits = _offset(np.clip(given, part.low, part.high), part.low)
                digits = np.where(inside, digits, np.where(ones, full, np.uint64(0)))
            code = _shifted(code, part.bits) | digits
        return self._beside(code, step, nothing)

    def _beside(self, code: NDArray[np.uint64], step: Array, nothing: Mask) -> tuple[Array, Mask]:
        last = np.uint64((1 << self.bits) - 1)
        nothing = nothing | ((step > 0) & (code == last)) | ((step < 0) & (code == 0))
        moved = np.where(nothing, code, code + step.view(np.uint64))
        return self._signed(moved), nothing

    # --- A few queries: faster one by one ---------------------------------------------------------

    def _is_short(self, given: Any) -> bool:
        """Whether these are a few tuples of whole numbers, for a key of whole numbers."""
        return (
            isinstance(given, list)
            and 0 < len(given) <= _FEW
            and not self.single
            and self._plain
            and all(
                isinstance(row, tuple)
                and 0 < len(row) <= len(self._parts)
                and len(row) == len(given[0])
                and all(type(value) is int or type(value) is bool for value in row)
                for row in given
            )
        )

    def _edges(self, lows: list[Any], highs: list[Any]) -> tuple[Array, Array]:
        edges = np.empty((2, len(lows)), np.int64)
        for at, (low, high) in enumerate(zip(lows, highs, strict=True)):
            first, last = self._edge(low, upper=False), self._edge(high, upper=True)
            edges[:, at] = (MOST, LEAST) if first is None or last is None else (first, last)
        return edges[0], edges[1]

    def _edge(self, values: tuple[int, ...], *, upper: bool) -> int | None:
        """``_bounds`` for one bound; None if it lies beyond all keys."""
        code, free, ones, step = 0, False, upper, 0
        for at, part in enumerate(self._parts):
            given = values[at] if at < len(values) and not free else None
            if given is not None and not part.low <= given <= part.high:
                free, ones, given = True, given > part.high, None
                step = (0 if ones else -1) if upper else (1 if ones else 0)
            rest = (1 << part.bits) - 1 if ones else 0
            code = code << part.bits | (rest if given is None else given - part.low)
        code += step
        if not 0 <= code < 1 << self.bits:
            return None
        return code - (1 << 63) if self.bits == _WORD else code

    # --- What users write -----------------------------------------------------------------------

    def _columns(self, given: Any, wanted: int | None) -> list[tuple[Array, Mask | None]]:
        """Values of queries as numbers, one entry per key column that is given."""
        columns = self._listed(given)
        count = len(columns)
        if count > len(self._parts) or not count or (wanted is not None and count != wanted):
            expected = wanted or f"up to {len(self._parts)}"
            raise DataError(
                f"a key is made of {expected} columns ({', '.join(self.names)}); got {count}"
            )
        keys = [part.keys(_array(v, part)) for part, v in zip(self._parts, columns, strict=False)]
        lengths = [values.size for values, _ in keys]
        if len(set(lengths)) > 1:
            raise DataError(f"columns of keys must be of one length; got {lengths}")
        return keys

    def _listed(self, given: Any) -> list[Any]:
        if isinstance(given, pa.RecordBatch | pa.Table):
            given = {name: given.column(name) for name in given.schema.names}
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in self.names]
            if unknown or list(given) != self.names[: len(given)]:
                raise DataError(
                    f"keys are queried by their first columns in order, {', '.join(self.names)}; "
                    f"got {', '.join(map(str, given))}"
                )
            return list(given.values())
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise DataError(
                f"keys must come in a list, an array or a table; got {given!r}. For a single one "
                "write [key]"
            )
        if len(self._parts) == 1:
            return [given]
        rows = given if isinstance(given, list) else list(given)
        wrong = [row for row in rows if not isinstance(row, tuple | list)]
        if wrong:
            raise DataError(
                f"a key of several columns is queried by tuples ({', '.join(self.names)}) or by a "
                f"table; got {wrong[0]!r}"
            )
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise DataError(f"all keys must have as many columns; got {sorted(lengths)}")
        width = lengths.pop() if lengths else len(self._parts)
        return [[row[at] for row in rows] for at in range(width)]


def _read(key: Key) -> dict[str, tuple[int, int] | None]:
    """The columns of a key and their ranges."""
    if isinstance(key, str):
        return {key: None}
    ranges: dict[str, tuple[int, int] | None] = {}
    if isinstance(key, Mapping):
        ranges = dict(key)
    elif isinstance(key, Sequence) and all(isinstance(name, str) for name in key):
        ranges = dict.fromkeys(key)
        if len(ranges) < len(key):
            raise SchemaError(f"a key column may occur once; got {list(key)}")
    if not ranges:
        raise SchemaError(
            "key must be a column, a list of columns, or columns with their ranges as "
            f"{{'seg': (0, 99), 'vid': (0, 1_048_575)}}; got {key!r}"
        )
    for name, span in ranges.items():
        if span is None:
            continue
        whole = isinstance(span, tuple | list) and len(span) == 2
        if not whole or not all(isinstance(edge, int) for edge in span) or span[0] > span[1]:
            raise SchemaError(
                f"the range of key column {name!r} must be (least, greatest) in whole numbers; got "
                f"{span!r}"
            )
    return ranges


def _part(column: pa.Field, span: tuple[int, int] | None) -> _Part:
    """A column of a packed key."""
    kind = value_type(column.type)
    family = kind_of(kind)
    if family not in _WHOLE:
        raise SchemaError(
            f"key column {column.name!r} is of type {kind}; only whole numbers, booleans and dates "
            "can be packed with others. Cast it, or use it alone as the key"
        )
    domain = common_domain(kind, kind, f"key {column.name}")
    low, high = _span(kind, family)
    if span is not None:
        if pat.is_uint64(kind):  # its keys are shifted down by 2^63
            span = span[0] + LEAST, span[1] + LEAST
        low, high = max(low, span[0]), min(high, span[1])
        if low > high:
            raise SchemaError(f"no {kind} lies in the range {span} of key column {column.name!r}")
    return _Part(column.name, kind, domain, low, high)


def _span(kind: pa.DataType, family: KeyKind | None) -> tuple[int, int]:
    """The keys that values of a type can have."""
    if family is KeyKind.BOOLEAN:
        return 0, 1
    width = 32 if pat.is_date(kind) else kind.bit_width
    if pat.is_unsigned_integer(kind) and width < _WORD:
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _array(values: Any, part: _Part) -> pa.Array:
    """Values of a query in the type of their column, or in a wider one."""
    arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    if arrow and values.type.equals(part.kind):
        return values
    whole = pat.is_integer(part.kind)
    try:
        if arrow:
            return values.cast(pa.int64() if whole else part.kind)
        # A query may lie outside the type of the column if int64 holds all its values.
        return pa.array(values, pa.int64() if whole and not pat.is_uint64(part.kind) else part.kind)
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(
            f"key column {part.name!r} is of type {part.kind}; the query cannot be read as such: "
            f"{error}"
        ) from None


def _check_range(part: _Part, values: Array, valid: Mask | None) -> None:
    outside = (values < part.low) | (values > part.high)
    if valid is not None:
        outside &= valid
    if outside.any():
        at = int(np.argmax(outside))
        shift = 2**63 if pat.is_uint64(part.kind) else 0
        raise DataError(
            f"key column {part.name!r} holds {int(values[at]) + shift} at row {at}, outside its "
            f"range ({part.low + shift}, {part.high + shift}); nothing was inserted. Widen the "
            "range, or leave the row out"
        )


def _shifted(code: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return code << np.uint64(bits) if bits < _WORD else np.zeros_like(code)


def _offset(values: Array, low: int) -> NDArray[np.uint64]:
    """How far values lie above the lowest one."""
    return values.view(np.uint64) - np.uint64(low % 2**64)
