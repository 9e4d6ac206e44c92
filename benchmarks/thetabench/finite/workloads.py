"""The workloads: two tables with row numbers, and the condition in several notations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Tables = tuple[pa.Table, pa.Table]


@dataclass(frozen=True)
class Workload:
    """A join of ``l`` (row number ``a``) with ``r`` (row number ``b``).

    ``terms`` are comparisons of a left with a right column, ``equal`` a pair of columns that must
    be equal, ``intervals`` the columns of starts and ends (exclusive) if it is an overlap; a point
    is an interval of one.
    """

    name: str
    about: str
    rows: tuple[int, int]
    make: Callable[[float], Tables]
    sql: str
    terms: tuple[tuple[str, str, str], ...]
    equal: tuple[str, str] | None = None
    band: tuple[str, str, int] | None = None
    intervals: bool = False

    def label(self, scale: float) -> str:
        """What is joined, and how many rows."""
        left, right = (f"{rows * scale / 1e6:g} M" for rows in self.rows)
        return f"{self.about}, {left} × {right}"


def _numbered(number: str, **columns: np.ndarray) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({number: np.arange(rows), **columns})


def _overlap(scale: float) -> Tables:
    """Intervals of which each meets about four."""
    random, rows = np.random.default_rng(1), max(1, int(3_000_000 * scale))
    sides = []
    for number, start, end in (("a", "ls", "le"), ("b", "rs", "re")):
        starts = random.integers(0, rows * 100, rows)
        columns = {start: starts, end: starts + random.integers(1, 400, rows)}
        sides.append(_numbered(number, **columns))
    return sides[0], sides[1]


def _band(scale: float) -> Tables:
    random, rows = np.random.default_rng(2), max(1, int(1_000_000 * scale))
    lx, rx = (random.integers(0, rows * 10, rows) for _ in range(2))
    return _numbered("a", lx=lx), _numbered("b", rx=rx)


def _two(scale: float) -> Tables:
    """Two inequalities that only correlated rows satisfy: about ten matches per row."""
    random, rows = np.random.default_rng(3), max(8, int(300_000 * scale))
    sides = []
    for number, first, second in (("a", "lx", "ly"), ("b", "rx", "ry")):
        x = random.integers(0, 1 << 40, rows)
        noise = random.integers(0, 1 << 40, rows) // max(1, rows // 60)
        sides.append(_numbered(number, **{first: x, second: x + noise}))
    return sides[0], sides[1]


def _point(scale: float) -> Tables:
    random = np.random.default_rng(4)
    points, ranges = max(1, int(10_000_000 * scale)), max(1, int(100_000 * scale))
    starts = random.integers(0, ranges * 1000, ranges)
    left = _numbered("a", lx=random.integers(0, ranges * 1000, points))
    return left, _numbered("b", rs=starts, re=starts + random.integers(1, 1000, ranges))


def _equal_band(scale: float) -> Tables:
    random, rows = np.random.default_rng(5), max(100, int(5_000_000 * scale))
    lk, rk = (random.integers(0, rows // 50, rows) for _ in range(2))
    lx, rx = (random.integers(0, 1000, rows) for _ in range(2))
    return _numbered("a", lk=lk, lx=lx), _numbered("b", rk=rk, rx=rx)


WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            "overlap",
            "overlap of intervals",
            (3_000_000, 3_000_000),
            _overlap,
            "l.ls < r.re AND r.rs < l.le",
            (("ls", "<", "re"), ("le", ">", "rs")),
            intervals=True,
        ),
        Workload(
            "band",
            "band",
            (1_000_000, 1_000_000),
            _band,
            "abs(l.lx - r.rx) <= 10",
            (),
            band=("lx", "rx", 10),
        ),
        Workload(
            "two",
            "two inequalities",
            (300_000, 300_000),
            _two,
            "l.lx < r.rx AND l.ly > r.ry",
            (("lx", "<", "rx"), ("ly", ">", "ry")),
        ),
        Workload(
            "point",
            "point in interval",
            (10_000_000, 100_000),
            _point,
            "l.lx >= r.rs AND l.lx < r.re",
            (("lx", ">=", "rs"), ("lx", "<", "re")),
            intervals=True,
        ),
        Workload(
            "equal",
            "equality with a band",
            (5_000_000, 5_000_000),
            _equal_band,
            "l.lk = r.rk AND abs(l.lx - r.rx) <= 10",
            (),
            equal=("lk", "rk"),
            band=("lx", "rx", 10),
        ),
    )
}
