"""Which rows of one stream a question sees: by event time, or by arrival number.

A row has a *moment*: its event time in a time window, its arrival number in a count window. A
question at ``at`` about the ``last`` units sees the rows with moments in an interval (``between``).
The rules are those of join windows, with the question as the later row:

    time               at - last <= t <= at
    time with slide s  floor(t / s) > floor(at / s) - last / s,  t <= at
    count              at is how many rows have arrived:  at - last <= number < at
    count with slide   rows leave at multiples of it only
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array, Mask
from thetastream.boxes.binding import check_time_type
from thetastream.data.batch import to_keys
from thetastream.duration import Interval
from thetastream.errors import DataError, SchemaError, WindowError, suggest
from thetastream.schema import Domain, KeyKind, common_domain, tick, value_type
from thetastream.side import Side
from thetastream.window import CountWindow, TimeWindow

Length = str | timedelta | Interval | int


class WindowClock(ABC):
    """The moments of rows, and what a window means in them."""

    size: int
    slide: int | None
    lateness = 0
    timed = False
    """Whether moments are event times."""

    @abstractmethod
    def moments(self, batch: pa.RecordBatch, first: int) -> tuple[Array, Mask | None]:
        """Moments of rows numbered from ``first`` on, and which rows have one (None: all)."""

    @abstractmethod
    def read(self, at: Any) -> int:
        """The moment of a question."""

    @abstractmethod
    def span(self, last: Length) -> int:
        """A length in units of moments."""

    @abstractmethod
    def between(self, at: int, span: int) -> tuple[int, int]:
        """The first and the last moment that a question sees."""

    def checked(self, last: Length | None) -> int:
        """How far a question looks back; by default the whole window."""
        if last is None:
            return self.size
        span = self.span(last)
        if not 0 < span <= self.size:
            raise DataError(
                f"last must be above 0 and at most the window of {self.text(self.size)}; got {last}"
            )
        if self.slide is not None and span % self.slide:
            raise DataError(
                f"rows leave this window every {self.text(self.slide)}, so last must be a "
                f"multiple of that; got {last}"
            )
        return span

    def stride(self, subwindows: int | None) -> int:
        """The length of a subwindow; WindowError if the window cannot be cut that way."""
        if subwindows is None:
            return self.slide if self.slide is not None else max(1, -(-self.size // 5))
        if subwindows < 1 or self.size % subwindows:
            some = [str(n) for n in range(1, 61) if self.size % n == 0]
            raise WindowError(
                f"a window of {self.text(self.size)} cannot be cut into {subwindows} equal "
                f"subwindows; it can be cut into {', '.join(some)}"
            )
        return self.size // subwindows

    def horizon(self, now: int) -> int:
        """No question from ``now - lateness`` on sees rows before this moment."""
        return self.between(now - self.lateness, self.size)[0]

    @abstractmethod
    def text(self, units: int) -> str:
        """A length as users write it."""


class _TimeClock(WindowClock):
    """Event time."""

    timed = True

    def __init__(self, window: TimeWindow, schema: pa.Schema) -> None:
        if window.sizes[0] != window.sizes[1] or window.time[0] != window.time[1]:
            raise WindowError(
                "the window of one stream has one size and one time column; got sizes "
                f"{window.sizes[0]} and {window.sizes[1]}, columns {window.time}"
            )
        self.column = window.time[0]
        if self.column not in schema.names:
            raise SchemaError(
                f"there is no time column {self.column!r}; the rows have "
                f"{', '.join(schema.names)}.{suggest(self.column, schema.names)}"
            )
        self._type = value_type(schema.field(self.column).type)
        check_time_type(window, self._type, self.column)
        self._domain = common_domain(self._type, self._type, f"event time {self.column}")
        if self._domain.kind is KeyKind.DATE:
            self._domain = Domain(KeyKind.DATE, tick=tick(pa.date32()))
        self._unit = self._domain.tick if self._domain.kind.is_temporal else None
        bound = window.bind(self._unit)
        self.size, self.slide, self.lateness = bound.sizes[0], bound.slide, bound.lateness

    def moments(self, batch: pa.RecordBatch, first: int) -> tuple[Array, Mask | None]:
        return to_keys(batch.column(self.column), self._domain, self.column)

    def read(self, at: Any) -> int:
        try:
            moments, _ = to_keys(pa.array([at], self._type), self._domain, "at")
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise DataError(
                f"at must be a moment of the time column, which is {self._type}; got {at!r}: "
                f"{error}"
            ) from None
        return int(moments[0])

    def span(self, last: Length) -> int:
        if self._unit is None:
            if isinstance(last, bool) or not isinstance(last, int):
                raise DataError(
                    f"time column {self.column!r} holds whole numbers, so last must be one too; "
                    f"got {last!r}"
                )
            return last
        if isinstance(last, int):
            raise DataError(
                f"time column {self.column!r} holds {self._type}, so last must be a duration such "
                f"as '5 minutes'; got {last!r}"
            )
        try:
            length = Interval.of(last).nanoseconds
        except ValueError as error:
            raise DataError(f"last: {error}") from None
        if length % self._unit:
            raise DataError(
                f"last={last!r} is finer than the unit of the time column ({Interval(self._unit)})"
            )
        return length // self._unit

    def between(self, at: int, span: int) -> tuple[int, int]:
        if self.slide is None:
            return at - span, at
        return self.slide * (at // self.slide - span // self.slide + 1), at

    def text(self, units: int) -> str:
        return str(units) if self._unit is None else str(Interval(units * self._unit))


class _CountClock(WindowClock):
    """Arrival numbers."""

    def __init__(self, window: CountWindow) -> None:
        if window.sizes[0] != window.sizes[1] or window.order is not None:
            raise WindowError(
                f"the window of one stream is CountWindow(size, slide=…); got {window}"
            )
        self._window = window
        self.size, self.slide = window.sizes[0], window.slide

    def moments(self, batch: pa.RecordBatch, first: int) -> tuple[Array, Mask | None]:
        return np.arange(first, first + batch.num_rows), None

    def read(self, at: Any) -> int:
        if isinstance(at, bool) or not isinstance(at, int | np.integer) or at < 0:
            raise DataError(
                f"in a count window, at is how many rows have come: a whole number; got {at!r}"
            )
        return int(at)

    def span(self, last: Length) -> int:
        if isinstance(last, bool) or not isinstance(last, int | np.integer):
            raise DataError(f"in a count window, last is a number of rows; got {last!r}")
        return int(last)

    def between(self, at: int, span: int) -> tuple[int, int]:
        if span == self.size:
            return self._window.oldest(at, Side.LEFT), at - 1
        if self.slide is None:
            return at - span, at - 1
        return CountWindow(span, slide=self.slide).oldest(at, Side.LEFT), at - 1

    def text(self, units: int) -> str:
        return f"{units} rows"


def clock_of(window: TimeWindow | CountWindow, schema: pa.Schema) -> WindowClock:
    """The clock of a window over rows of a schema."""
    return _TimeClock(window, schema) if isinstance(window, TimeWindow) else _CountClock(window)


def check_clocked(window: object) -> None:
    """WindowError for a window without a clock."""
    if not isinstance(window, TimeWindow | CountWindow):
        raise WindowError(
            f"window must be a TimeWindow or a CountWindow; got {window!r}. For the last five "
            "minutes write TimeWindow('5 minutes', time='t')"
        )
