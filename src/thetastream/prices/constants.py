"""All constants of the cost model, with defaults, read from and written to one file.

Those of trees are tables by size. Costs are interpolated on the logarithm of the size and
extrapolated beyond the last entry. The equations that use them are in ``plan/cost.py``. Those of
structures that take many rows at a time are in ``batches.py``.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from thetastream._jit.cache import cache_root
from thetastream.errors import DataError
from thetastream.prices import yardstick
from thetastream.prices.batches import Prices

CALIBRATED = "calibrated on this machine"
TREES_ONLY = "calibrated on this machine for trees only; calibrate again for the others"
_FORMAT = 2
_TREES = 1  # the previous format, without prices of batches

Table = tuple[tuple[float, float], ...]
"""Nanoseconds by the logarithm (base 2) of a number of nodes or rows, ascending."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What one node or row costs, in nanoseconds.

    The defaults were measured once, on one machine; ``load`` scales them to this one.

    ``search``, ``insert``, ``delete`` and ``immutable`` are by the number of nodes in a level;
    ``compare``, ``compare_run``, ``merge`` and ``merge_young`` by the number of rows in the window.
    ``scan`` is per row of a nested loop. ``window`` is the cost of a tuple outside its index, for
    numbering and storing it; the paper and ``Cost`` omit it, as it is the same for all structures.
    ``batches`` are the prices of structures that take many rows at a time.
    """

    # fmt: off
    search: Table = (
        (6.6, 20.21), (8.6, 28.72), (10.6, 40.37), (12.6, 100.6), (14.6, 342.6), (16.6, 478.3),
    )
    insert: Table = (
        (4.6, 73.83), (6.6, 78.53), (8.6, 80.88), (10.6, 82.32), (12.6, 118.4), (14.6, 343.3),
        (16.6, 502.3),
    )
    delete: Table = (
        (4.6, 75.78), (6.6, 79.65), (8.6, 84.17), (10.6, 88.37), (12.6, 155.5), (14.6, 426.6),
        (16.6, 574.2),
    )
    immutable: Table = ((10, 15.88), (12, 67.72), (14, 216.1), (16, 296.6))
    compare: Table = ((7, 2.93), (9, 5.73), (17, 5.73), (19, 12.3), (21, 18.51))
    compare_run: Table = ((7, 2.34), (9, 4.09), (19, 4.09), (21, 4.26))
    merge: Table = ((15, 1.92), (17, 2.46), (19, 2.97), (21, 3.88))
    merge_young: Table = ((7, 14.26),)
    scan: float = 0.1803
    window: float = 74.3
    # fmt: on
    batches: Prices = field(default_factory=Prices)
    source: str = "defaults"

    @classmethod
    def load(cls, path: Path | None = None) -> Constants:
        """Read a calibration; without one in the usual place, scale the defaults."""
        file = calibration_file() if path is None else path
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            if path is not None or _PLACE in os.environ:
                raise DataError(f"there is no calibration at {file}; {_AGAIN}") from None
            return _scaled(yardstick.factor())
        return _read(file, changed)

    def scaled(self, factor: float) -> Constants:
        """All constants times a factor."""
        if factor == 1.0:
            return self
        trees: dict[str, Any] = {
            name: _times(getattr(self, name), factor)
            for name in self.as_dict()
            if name != "batches"
        }
        source = f"{self.source}, × {factor:.2f} for this machine"
        return Constants(**trees, batches=self.batches.scaled(factor), source=source)

    def save(self, path: Path | None = None, **facts: Any) -> Path:
        """Write a calibration, with facts about its origin; return the file."""
        file = calibration_file() if path is None else path
        text = json.dumps({"format": _FORMAT, **facts, "constants": self.as_dict()}, indent=2)
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.{os.getpid()}")  # atomic for readers
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(file)
        return file

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {name: value for name, value in asdict(self).items() if name != "source"}


@lru_cache(maxsize=1)
def _scaled(factor: float) -> Constants:
    return Constants().scaled(factor)


def _times(value: float | Table, factor: float) -> float | Table:
    if isinstance(value, tuple):
        return tuple((size, cost * factor) for size, cost in value)
    return value * factor


_AGAIN = "run `thetastream index calibrate`"


def calibration_file() -> Path:
    """The file named by ``THETASTREAM_CALIBRATION``, or one beside the compiled kernels."""
    named = os.environ.get(_PLACE)
    if named:
        return Path(named)
    return _root(*map(os.environ.get, ("THETASTREAM_CACHE", "XDG_CACHE_HOME", "HOME"))) / _NAME


_PLACE, _NAME = "THETASTREAM_CALIBRATION", "calibration.json"


@lru_cache(maxsize=8)
def _root(*_places: str | None) -> Path:
    return cache_root()


@lru_cache(maxsize=8)
def _read(file: Path, changed: int) -> Constants:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        written, values = content["format"], content["constants"]
        if written not in (_FORMAT, _TREES):
            raise ValueError(f"its format is {written!r}, not {_FORMAT}")
        trees = _filled(Constants, values, but=("batches", "source"))
        batches = _filled(Prices, values["batches"]) if written == _FORMAT else {}
        prices = Prices(**batches) if batches else Prices().scaled(yardstick.factor())
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(f"the calibration {file} cannot be used: {what}; {_AGAIN} again") from None
    source = CALIBRATED if batches else TREES_ONLY
    return Constants(**trees, batches=prices, source=source)


def _filled(cls: type, values: Mapping[str, Any], but: Sequence[str] = ()) -> dict[str, Any]:
    """Checked values for the fields of a class, from a file."""
    return {
        known.name: _checked(known.name, values[known.name], known.default)
        for known in fields(cls)
        if known.name not in but
    }


def _checked(name: str, value: Any, like: Any) -> Any:
    """A checked number or table, from a file."""
    if not isinstance(like, tuple):
        value = [[0.0, value]]
    table = tuple((float(size), float(cost)) for size, cost in value)
    sizes = [size for size, _ in table]
    rising = all(a < b for a, b in pairwise(sizes))
    if not table or not rising or not all(0.0 <= cost < math.inf for _, cost in table):
        raise ValueError(f"{name} is {value}, not nanoseconds by ascending size")
    return table if isinstance(like, tuple) else table[0][1]


def at(table: Table, count: float) -> float:
    """The cost for a number of nodes or rows, interpolated or extrapolated.

    >>> at(((10, 40.0), (12, 60.0)), 2**11)
    50.0
    """
    size = math.log2(max(count, 1.0))
    if len(table) == 1 or size <= table[0][0]:
        return table[0][1]
    upper = min(bisect_right(table, size, key=lambda entry: entry[0]), len(table) - 1)
    (left, low), (right, high) = table[upper - 1], table[upper]
    return max(low + (high - low) * (size - left) / (right - left), 0.0)
