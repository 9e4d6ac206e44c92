"""Kinds of key columns: an Arrow type, a tiny domain of values, and widths for bands over it.

Domains are tiny so that ties are normal, and they hold the values that go wrong: NULL, NaN, ±0.0,
±inf, the ends of the integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from thetastream._jit.arrays import LEAST, MOST

_INF, _NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Kind:
    """What a key column holds.

    ``widths`` are band widths and shifts as SQL text. ``family`` says which kinds may be compared.
    ``arithmetic`` says whether expressions may be computed from the values without overflow.
    """

    name: str
    type: Any
    values: tuple[Any, ...]
    widths: tuple[str, ...] = ()
    family: str = "number"
    arithmetic: bool = False

    def __repr__(self) -> str:
        return self.name


_SPECIAL = (None, -_INF, -1.5, -0.0, 0.0, 0.1, 0.5, 1.0, 1.5, 1e308, 5e-324, _INF, _NAN)
_SECONDS = ("INTERVAL '0' SECOND", "INTERVAL '1' SECOND", "INTERVAL '2' SECOND")

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("int", pa.int64(), (None, *range(-3, 4)), ("0", "1", "2", "1.5"), arithmetic=True),
        Kind(
            "extreme",
            pa.int64(),
            (None, LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST),
            ("0", "1", "0.5", str(MOST), str(2 * MOST), str(4 * MOST)),
        ),
        Kind("small", pa.int8(), (None, -128, -1, 0, 1, 2, 127), ("0", "1", "2"), arithmetic=True),
        Kind(
            "unsigned",
            pa.uint64(),
            (None, 0, 1, 2**63, 2**64 - 1),
            ("0", "1", str(MOST)),
            "unsigned",
        ),
        Kind("bool", pa.bool_(), (None, False, True), ("0", "1"), "bool"),
        Kind(
            "decimal",
            pa.decimal128(18, 2),
            (None, *map(Decimal, ("-1.50", "-0.01", "0.00", "0.10", "1.00", "1.50"))),
            ("0", "1", "0.01", "0.105"),
        ),
        Kind("float", pa.float64(), _SPECIAL, ("0", "0.1", "0.5", "1"), arithmetic=True),
        Kind(
            "float32",
            pa.float32(),
            (None, -_INF, -1.5, -0.0, 0.0, 0.5, 1.0, 1.5, _INF, _NAN),
            ("0", "0.5", "1"),
            arithmetic=True,
        ),
        Kind(
            "finite",
            pa.float64(),
            (None, -1.5, -1.0, -0.0, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5),
            ("0", "0.1", "0.2", "1"),
            arithmetic=True,
        ),
        Kind("date", pa.date32(), (None, -1, 0, 1, 2, 20_000), ("0", "1", "2"), "date"),
        Kind("timestamp", pa.timestamp("us"), (None, -1, 0, 1, 10**6, 2 * 10**6), _SECONDS, "time"),
        Kind("coarse", pa.timestamp("s"), (None, -1, 0, 1, 2, 3), _SECONDS, "time"),
        Kind("clock", pa.time64("ns"), (None, 0, 1, 10**9, 2 * 10**9), _SECONDS, "clock"),
        Kind("duration", pa.duration("ms"), (None, -1, 0, 1000, 2000), _SECONDS, "duration"),
        Kind("string", pa.string(), (None, "", "a", "A", "ab", "é"), family="string"),
        Kind("binary", pa.binary(), (None, b"", b"a", b"\x00", b"\xff"), family="binary"),
    )
}

# Left kind and right kind of a column. Equal kinds for all, and the mixtures that convert.
PAIRINGS: tuple[tuple[Kind, Kind], ...] = (
    *((kind, kind) for kind in KINDS.values()),
    (KINDS["int"], KINDS["float"]),
    (KINDS["float"], KINDS["int"]),
    (KINDS["extreme"], KINDS["float"]),
    (KINDS["decimal"], KINDS["finite"]),
    (KINDS["float32"], KINDS["float"]),
    (KINDS["int"], KINDS["decimal"]),
    (KINDS["small"], KINDS["int"]),
    (KINDS["coarse"], KINDS["timestamp"]),
)
