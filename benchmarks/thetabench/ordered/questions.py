"""Q1 and Q2 over the last minutes, asked of a window index and of query engines (Section 3.1).

Q1: the velocity of a vehicle in a segment in the last minute, its newest report. Q2: the average
velocity in a segment in the last five minutes. The engines filter the window's Arrow table, each
with one thread; several questions at a time are asked one after the other there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import thetastream as ts
from thetabench.contestant import optional
from thetabench.figure import Contestant
from thetabench.ordered.contestant import BATCH, Cell, Operations
from thetabench.ordered.load import EXPRESSWAYS, MINUTE, WINDOW, Minutes, Truth
from thetabench.race import Values
from thetastream.datasets.linear_road import road_key
from thetastream.datasets.traffic import SEGMENTS, VIDS

Numbers = NDArray[np.float64]
Question = tuple[int, ...]

OURS = "WindowIndex"
_KEY = ("xway", "dir", "seg", "vid")
_RANGES = dict(zip(_KEY, ((0, n - 1) for n in (EXPRESSWAYS, 2, SEGMENTS, VIDS)), strict=True))
_DRAWS = 32  # different groups of questions, after which they come again


class Window:
    """The reports of the last minutes, and the right answers about them."""

    def __init__(self, minutes: Minutes) -> None:
        self.minutes = minutes
        rows = minutes.window(WINDOW)
        self.table = minutes.table.slice(rows.start, rows.stop).combine_chunks()
        self.last = int(minutes.edges[WINDOW - 1])
        """The first report of the last minute."""
        self.since = int(minutes.columns["time"][self.last])
        order = np.argsort(minutes.keys[rows], kind="stable")
        self._keys = minutes.keys[rows][order]
        self._speeds = minutes.columns["speed"][rows][order]
        self._truth = Truth(self._keys, self._speeds)

    def vehicles(self, rng: np.random.Generator, count: int) -> list[Question]:
        """⟨xway, dir, seg, vid⟩ of reports of the last minute."""
        rows = rng.integers(self.last, self._keys.size, count)
        columns = [self.minutes.columns[name][rows].tolist() for name in _KEY]
        return list(zip(*columns, strict=True))

    def segments(self, rng: np.random.Generator, count: int) -> list[Question]:
        """⟨xway, dir, seg⟩ at random."""
        columns = [rng.integers(0, n, count).tolist() for n in (EXPRESSWAYS, 2, SEGMENTS)]
        return list(zip(*columns, strict=True))

    def speeds(self, asked: list[Question]) -> tuple[Numbers, int]:
        """Q1: of the newest report, which is the last one of its key in the stable order."""
        x, d, s, vid = np.array(asked).T
        place = np.searchsorted(self._keys, road_key(x, d, s, vid), side="right") - 1
        return self._speeds[place].astype(np.float64), len(asked)

    def averages(self, asked: list[Question]) -> tuple[Numbers, int]:
        """Q2, NaN without a report; and how many reports there are."""
        x, d, s = np.array(asked).T
        boxes = road_key(x, d, s, 0), road_key(x, d, s, VIDS - 1)
        counts = self._truth.counts(*boxes)
        with np.errstate(invalid="ignore"):
            return self._truth.sums(*boxes) / counts, int(counts.sum())


# --- Ways to answer ------------------------------------------------------------------------------


class Ours:
    """A ``WindowIndex`` that took the reports minute by minute."""

    def __init__(self, window: Window) -> None:
        minutes = ts.TimeWindow(WINDOW * MINUTE, time="time", slide=MINUTE)
        self._index = ts.WindowIndex(_RANGES, minutes)
        for batch in window.minutes.batches[:WINDOW]:
            for start in range(0, batch.num_rows, BATCH):
                self._index.insert(batch.slice(start, BATCH))

    def q1(self, asked: list[Question]) -> Numbers:
        return self._numbers(self._index.lookup(asked, last=MINUTE, columns=["speed"])["speed"])

    def q2(self, asked: list[Question]) -> Numbers:
        rows = self._index.aggregate(asked, asked, {"avg": ("speed", "mean")})
        return self._numbers(rows["avg"])

    def _numbers(self, column: pa.Array) -> Numbers:
        """NULLs as NaN."""
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


class DuckDB:
    """A filter and an average over the Arrow table; over a table of its own, if ``native``."""

    def __init__(self, window: Window, *, native: bool = False) -> None:
        self._connection = optional("duckdb").connect(":memory:")
        self._connection.execute("SET threads = 1")
        self._connection.register("reports", window.table)
        self._from = "kept" if native else "reports"
        if native:
            self._connection.execute("CREATE TABLE kept AS SELECT * FROM reports")
        self._last = f"time >= {window.since}"

    def q1(self, asked: list[Question]) -> Numbers:
        return self._answers("arg_max(speed, time)", asked, self._last)

    def q2(self, asked: list[Question]) -> Numbers:
        return self._answers("avg(speed)", asked)

    def _answers(self, what: str, asked: list[Question], *where: str) -> Numbers:
        terms = " AND ".join([*where, *(f"{name} = ?" for name in _KEY[: len(asked[0])])])
        question = f"SELECT {what} FROM {self._from} WHERE {terms}"
        return _array([self._connection.execute(question, one).fetchone()[0] for one in asked])


class Polars:
    """A filter and an average over the Arrow table."""

    def __init__(self, window: Window) -> None:
        self._pl = optional("polars")
        self._frame = self._pl.from_arrow(window.table)
        self._last = self._pl.col("time") >= window.since

    def q1(self, asked: list[Question]) -> Numbers:
        return self._answers(self._pl.col("speed").last(), asked, self._last)

    def q2(self, asked: list[Question]) -> Numbers:
        return self._answers(self._pl.col("speed").mean(), asked)

    def _answers(self, what: Any, asked: list[Question], *where: Any) -> Numbers:
        answers = []
        for one in asked:
            terms = [self._pl.col(name) == value for name, value in zip(_KEY, one, strict=False)]
            frame = self._frame.lazy().filter(*terms, *where).select(what).collect()
            answers.append(frame.item() if frame.height else None)
        return _array(answers)


def _array(answers: list[float | None]) -> Numbers:
    """None as NaN."""
    return np.array(answers, np.float64)


Way = Ours | DuckDB | Polars
"""Answers Q1 and Q2 about a window; NaN for nothing."""
WAYS: dict[str, Callable[[Window], Way]] = {
    OURS: Ours,
    "duckdb": DuckDB,
    "duckdb, own table": partial(DuckDB, native=True),
    "polars": Polars,
}
ASKED = tuple(WAYS)


# --- What is timed -------------------------------------------------------------------------------


class Asking(Operations):
    """Questions, some at a time; the first one is not timed."""

    def __init__(self, who: Contestant, cell: Cell, way: Way, window: Window, seed: int) -> None:
        super().__init__(who, cell)
        self._seed = seed
        if cell.figure == "q1":
            self._draw, self._right, self._answer = window.vehicles, window.speeds, way.q1
        else:
            self._draw, self._right, self._answer = window.segments, window.averages, way.q2
        self._ask(1)
        self.restart()

    def step(self) -> bool:
        self._ask(int(self.who.place))
        return True

    def _ask(self, count: int) -> None:
        questions = self._draw(np.random.default_rng((self._seed, self.steps % _DRAWS)), count)
        answer = self.timed(lambda: self._answer(questions))
        right, met = self._right(questions)
        self.compare("question", answer, right)
        self.count(count, met)

    @property
    def own(self) -> Values:
        return self.each("us_question")
