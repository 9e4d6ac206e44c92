"""Q1 and Q2 over the last minutes, asked of a window index and of query engines (Section 3.1).

Q1: the velocity of a vehicle in a segment in the last minute, its newest report. Q2: the average
velocity in a segment in the last five minutes. The engines filter the window's Arrow table, each
with one thread; several questions at a time are asked one after the other there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetabench.contestant import MissingPackage, Unavailable, optional
from thetabench.digest import VerificationError
from thetabench.ordered.minutes import EXPRESSWAYS, MINUTE, WINDOW, Minutes
from thetabench.ordered.plan import BATCH, Cell, Contestant, Measured
from thetabench.ordered.race import Columns, Say, Trial, raced
from thetabench.ordered.stock import Stock
from thetastream.datasets.linear_road import road_key
from thetastream.datasets.traffic import SEGMENTS, VIDS
from thetastream.errors import RegistryError

__all__ = ["ASKED", "OURS", "Asking", "Window", "answered"]

Array = NDArray[np.int64]
Numbers = NDArray[np.float64]
Question = tuple[int, ...]

OURS = "WindowIndex"
_RANGES = {
    "xway": (0, EXPRESSWAYS - 1),
    "dir": (0, 1),
    "seg": (0, SEGMENTS - 1),
    "vid": (0, VIDS - 1),
}
_KEY = tuple(_RANGES)
_DRAWS = 32  # different groups of questions, after which they come again


class Window:
    """The reports of the last minutes, and the right answers about them."""

    def __init__(self, minutes: Minutes) -> None:
        self.minutes = minutes
        rows = minutes.rows(0, WINDOW)
        self.table = minutes.table.slice(rows.start, rows.stop).combine_chunks()
        self.last = int(minutes.edges[WINDOW - 1])
        """The first report of the last minute."""
        self._keys, self._speeds = minutes.keys[rows], minutes.columns["speed"][rows]
        self._order = np.argsort(self._keys, kind="stable")
        self._sorted = self._keys[self._order]
        self._sums = np.concatenate([[0], np.cumsum(self._speeds[self._order])])

    def vehicles(self, rng: np.random.Generator, count: int) -> list[Question]:
        """⟨xway, dir, seg, vid⟩ of reports of the last minute."""
        rows = rng.integers(self.last, self._keys.size, count)
        columns = [self.minutes.columns[name][rows].tolist() for name in _KEY]
        return list(zip(*columns, strict=True))

    def segments(self, rng: np.random.Generator, count: int) -> list[Question]:
        """⟨xway, dir, seg⟩ at random."""
        columns = [rng.integers(0, n, count).tolist() for n in (EXPRESSWAYS, 2, SEGMENTS)]
        return list(zip(*columns, strict=True))

    def speeds(self, vehicles: list[Question]) -> Numbers:
        """Q1: of the newest report, which is the last one of its key in the stable order."""
        x, d, s, vid = np.array(vehicles).T
        keys = road_key(x, d, s, vid)
        place = np.searchsorted(self._sorted, keys, side="right") - 1
        return self._speeds[self._order[place]].astype(np.float64)

    def averages(self, segments: list[Question]) -> tuple[Numbers, int]:
        """Q2, NaN without a report; and how many reports there are."""
        x, d, s = np.array(segments).T
        lows, highs = (road_key(x, d, s, vid) for vid in (0, VIDS - 1))
        start = np.searchsorted(self._sorted, lows)
        stop = np.searchsorted(self._sorted, highs, side="right")
        counts = stop - start
        with np.errstate(invalid="ignore"):
            return (self._sums[stop] - self._sums[start]) / counts, int(counts.sum())


# --- Who answers ---------------------------------------------------------------------------------


class Answering(Protocol):
    """Who answers questions about a window; NaN for nothing."""

    def q1(self, vehicles: list[Question]) -> Numbers: ...
    def q2(self, segments: list[Question]) -> Numbers: ...


class Ours:
    """A ``WindowIndex`` that took the reports minute by minute."""

    def __init__(self, window: Window) -> None:
        import thetastream as ts

        minutes = ts.TimeWindow(WINDOW * MINUTE, time="time", slide=MINUTE)
        self._index = ts.WindowIndex(_RANGES, minutes)
        for batch in window.minutes.batches[:WINDOW]:
            for start in range(0, batch.num_rows, BATCH):
                self._index.insert(batch.slice(start, BATCH))

    def q1(self, vehicles: list[Question]) -> Numbers:
        found = self._index.lookup(vehicles, last=MINUTE, columns=["speed"])
        return _numbers(found["speed"])

    def q2(self, segments: list[Question]) -> Numbers:
        found = self._index.aggregate(segments, segments, {"avg": ("speed", "mean")})
        return _numbers(found["avg"])


def _numbers(column: pa.Array) -> Numbers:
    """NULLs as NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


class DuckDB:
    """A filter and an average over the Arrow table; over a table of its own, if ``native``."""

    def __init__(self, window: Window, *, native: bool = False) -> None:
        self._connection = optional("duckdb").connect(":memory:")
        self._connection.execute("SET threads = 1")
        self._connection.register("reports", window.table)
        self._from = "reports"
        if native:
            self._connection.execute("CREATE TABLE kept AS SELECT * FROM reports")
            self._from = "kept"
        self._since = int(window.table["time"][window.last].as_py())

    def q1(self, vehicles: list[Question]) -> Numbers:
        where = " AND ".join(f"{name} = ?" for name in _KEY)
        question = (
            f"SELECT arg_max(speed, time) FROM {self._from} WHERE time >= {self._since} AND {where}"
        )
        return self._answers(question, vehicles)

    def q2(self, segments: list[Question]) -> Numbers:
        where = " AND ".join(f"{name} = ?" for name in _KEY[:3])
        return self._answers(f"SELECT avg(speed) FROM {self._from} WHERE {where}", segments)

    def _answers(self, question: str, values: list[Question]) -> Numbers:
        found = [self._connection.execute(question, value).fetchone()[0] for value in values]
        return np.array([np.nan if one is None else one for one in found], np.float64)


class Polars:
    """A filter and an average over the Arrow table."""

    def __init__(self, window: Window) -> None:
        self._pl = optional("polars")
        self._frame = self._pl.from_arrow(window.table)
        self._since = int(window.table["time"][window.last].as_py())

    def q1(self, vehicles: list[Question]) -> Numbers:
        col = self._pl.col
        last = col("time") >= self._since
        return self._answers(vehicles, lambda met: met.filter(last).select(col("speed").last()))

    def q2(self, segments: list[Question]) -> Numbers:
        mean = self._pl.col("speed").mean()
        return self._answers(segments, lambda met: met.select(mean))

    def _answers(self, values: list[Question], asked: Callable[[Any], Any]) -> Numbers:
        found = []
        for value in values:
            terms = [self._pl.col(n) == v for n, v in zip(_KEY, value, strict=False)]
            frame = asked(self._frame.lazy().filter(*terms)).collect()
            found.append(frame.item() if frame.height else None)
        return np.array([np.nan if one is None else one for one in found], np.float64)


_WAYS: dict[str, Callable[[Window], Answering]] = {
    OURS: Ours,
    "duckdb": DuckDB,
    "duckdb, own table": lambda window: DuckDB(window, native=True),
    "polars": Polars,
}
ASKED = tuple(_WAYS)
"""Everyone who is asked."""


# --- What is timed -------------------------------------------------------------------------------


class Asking(Trial):
    """Questions, some at a time; the first one is not timed."""

    def __init__(self, who: Contestant, cell: Cell, stock: Stock, window: Window) -> None:
        super().__init__(who, cell)
        self._window = window
        self._seed = stock.seed
        self._asked = int(who.place)
        self._first = cell.figures[0] == "q1"
        self._way = stock.kept((who.structure, id(window)), lambda: _made(who, window))
        self._ask(1)
        self.restart()
        self.tuples = self.pairs = 0

    def step(self) -> bool:
        """Ask, and check."""
        self._ask(self._asked)
        return True

    def _ask(self, count: int) -> None:
        rng = np.random.default_rng((self._seed, self.steps % _DRAWS))
        if self._first:
            questions = self._window.vehicles(rng, count)
            found = self.timed(lambda: self._way.q1(questions))
            right, met = self._window.speeds(questions), len(questions)
        else:
            questions = self._window.segments(rng, count)
            found = self.timed(lambda: self._way.q2(questions))
            right, met = self._window.averages(questions)
        if not np.allclose(found, right, rtol=1e-12, atol=0, equal_nan=True):
            wrong = int(np.flatnonzero(~np.isclose(found, right, equal_nan=True))[0])
            raise VerificationError(
                f"{self.name} gave a wrong answer: {right[wrong]} for {questions[wrong]}, got "
                f"{found[wrong]}. No result was written for this cell."
            )
        self.tuples += len(questions)
        self.pairs += met
        self.checked += len(questions)

    @property
    def columns(self) -> Columns:
        """Microseconds per question."""
        return {**super().columns, "us_question": 1e6 * self.seconds / max(self.tuples, 1)}


def answered(cell: Cell, stock: Stock, seconds: float, say: Say) -> list[Measured]:
    """Let all answer, in turns."""
    minutes = stock.minutes(cell.size, WINDOW)
    window = stock.kept(("window", cell.size), lambda: Window(minutes))
    return raced(cell, lambda who: Asking(who, cell, stock, window), seconds, say)


def _made(who: Contestant, window: Window) -> Answering:
    try:
        return _WAYS[who.structure](window)
    except (MissingPackage, RegistryError) as error:
        raise Unavailable(str(error)) from None
