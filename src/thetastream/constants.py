"""What a node or a row costs: tables by size, with defaults, read from and written to a file.

The equations that use them are in ``cost.py``, measuring is in ``calibration.py``. Between two
sizes costs are interpolated on the logarithm of the size; beyond the last they go on as they did.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from thetastream.errors import DataError
from thetastream.kernels import cache_root

__all__ = ["CALIBRATED", "Constants", "Table", "at", "calibration_file"]

CALIBRATED = "calibrated on this machine"
_FORMAT = 1

Table = tuple[tuple[float, float], ...]
"""Nanoseconds by the logarithm (base 2) of a number of nodes or rows, ascending."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What one node or row costs, in nanoseconds. The defaults were measured once, on one machine.

    ``search``, ``insert``, ``delete`` and ``immutable`` are by the number of nodes in a level;
    ``compare``, ``compare_run``, ``merge`` and ``merge_young`` by the number of rows in the window.
    ``scan`` is per row that a nested loop passes. ``window`` is what a tuple costs besides its
    index, being numbered and remembered: the paper leaves it out, as it is the same for all
    structures, and so does ``Cost``.
    """

    # fmt: off
    search: Table = (
        (3.6, 26.1), (5.6, 26.3), (7.6, 26.3), (9.6, 36.8), (11.6, 59.7),
        (13.6, 175.0), (15.6, 408.9), (17.6, 625.9),
    )
    insert: Table = (
        (3.6, 69.9), (5.6, 70.9), (7.6, 70.9), (9.6, 81.2), (11.6, 92.0),
        (13.6, 198.7), (15.6, 440.4), (17.6, 693.7),
    )
    delete: Table = (
        (3.6, 76.1), (5.6, 76.1), (7.6, 77.7), (9.6, 86.4), (11.6, 105.6),
        (13.6, 247.4), (15.6, 497.9), (17.6, 736.9),
    )
    immutable: Table = (
        (3, 17.2), (5, 17.2), (7, 17.2), (9, 17.2), (11, 26.7),
        (13, 88.8), (15, 294.4), (17, 554.2),
    )
    compare: Table = (
        (8, 3.14), (10, 4.85), (12, 4.85), (14, 4.85), (16, 4.85),
        (18, 6.43), (20, 17.4), (22, 22.1),
    )
    compare_run: Table = (
        (8, 2.72), (10, 3.66), (12, 3.66), (14, 3.66), (16, 3.66),
        (18, 3.66), (20, 3.66), (22, 3.66),
    )
    merge: Table = (
        (8, 2.04), (10, 2.04), (12, 2.04), (14, 2.04), (16, 2.31),
        (18, 2.50), (20, 4.07), (22, 4.89),
    )
    merge_young: Table = (
        (8, 11.8), (10, 13.1), (12, 13.1), (14, 13.1), (16, 13.1),
        (18, 13.2), (20, 13.6), (22, 14.2),
    )
    scan: float = 0.19
    window: float = 68.6
    # fmt: on
    source: str = "defaults"

    @classmethod
    def load(cls, path: Path | None = None) -> Constants:
        """The constants of a calibration, from the cache folder; without one, the defaults."""
        file = calibration_file() if path is None else path
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            if path is not None:
                raise DataError(f"there is no calibration at {path}; {_AGAIN}") from None
            return cls()
        return _read(file, changed)

    def save(self, path: Path | None = None, **facts: Any) -> Path:
        """Write a calibration, with facts on where it comes from; gives the file."""
        file = calibration_file() if path is None else path
        text = json.dumps({"format": _FORMAT, **facts, "constants": self.as_dict()}, indent=2)
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.{os.getpid()}")  # readers see all of it or nothing
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(file)
        return file

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {name: value for name, value in asdict(self).items() if name != "source"}


_AGAIN = "run `thetastream index calibrate`"


def calibration_file() -> Path:
    """Where the constants of this machine are kept: beside the compiled kernels."""
    return _root(*map(os.environ.get, ("THETASTREAM_CACHE", "XDG_CACHE_HOME", "HOME"))) / _NAME


_NAME = "calibration.json"


@lru_cache(maxsize=8)
def _root(*_places: str | None) -> Path:
    return cache_root()


@lru_cache(maxsize=8)
def _read(file: Path, changed: int) -> Constants:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        if held["format"] != _FORMAT:
            raise ValueError(f"its format is {held['format']!r}, not {_FORMAT}")
        values = {
            field.name: _checked(field.name, held["constants"][field.name], field.default)
            for field in fields(Constants)
            if field.name != "source"
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(f"the calibration {file} cannot be used: {what}; {_AGAIN} again") from None
    return Constants(**values, source=CALIBRATED)


def _checked(name: str, value: Any, like: Any) -> Any:
    """A number, or a table of them, as read from a file."""
    if not isinstance(like, tuple):
        value = [[0.0, value]]
    table = tuple((float(size), float(cost)) for size, cost in value)
    sizes = [size for size, _ in table]
    rising = all(a < b for a, b in pairwise(sizes))
    if not table or not rising or not all(0.0 <= cost < math.inf for _, cost in table):
        raise ValueError(f"{name} is {value}, not nanoseconds by ascending size")
    return table if isinstance(like, tuple) else table[0][1]


def at(table: Table, count: float) -> float:
    """The entry for a number of nodes or rows: interpolated, and carried on beyond the last.

    >>> at(((10, 40.0), (12, 60.0)), 2**11)
    50.0
    """
    size = math.log2(max(count, 1.0))
    if len(table) == 1 or size <= table[0][0]:
        return table[0][1]
    upper = min(bisect_right(table, size, key=lambda entry: entry[0]), len(table) - 1)
    (left, low), (right, high) = table[upper - 1], table[upper]
    return max(low + (high - low) * (size - left) / (right - left), 0.0)
