"""Time windows: rows whose event times are close to each other.

A pair joins when ``l.t - size_right <= r.t <= l.t + size_left``. Arrival order does not matter
while rows are at most ``lateness`` late. With a ``slide`` rows leave at slide boundaries only.

``BoundTime`` is arithmetic on numbers or NumPy arrays of int64, in the key units of the bound
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thetastream.duration import Interval
from thetastream.errors import WindowError
from thetastream.side import Side
from thetastream.window import lengths
from thetastream.window.base import EventTime
from thetastream.window.lengths import MAX, MIN, Array, Length, saturating_add, saturating_multiply


@dataclass(frozen=True, init=False)
class TimeWindow(EventTime):
    """Rows whose event times lie within ``size`` of each other.

    ``size`` and ``slide`` are durations (text such as ``10 minutes``, or timedelta) when the time
    columns are dates or timestamps, and plain whole numbers when they are integers. ``size`` may be
    a pair ``(left, right)``: how long rows of that side stay. One of them may be zero:
    ``("0 s", "1 minute")`` joins a left row with the right rows of the minute before it. ``time``
    names the event-time column, or one per side. ``lateness`` is how far a row may fall behind
    before it is dropped.

    >>> TimeWindow("10 minutes", time="t", lateness="5 s").sizes[0]
    Interval(nanoseconds=600000000000)
    """

    lifetime: ClassVar[str] = "time:ByTime"
    parted: ClassVar[bool] = True
    boxed: ClassVar[bool] = True

    sizes: tuple[Interval | int, Interval | int]
    time: tuple[str, str]
    lateness: Interval | int
    slide: Interval | int | None

    def __init__(
        self,
        size: Length | tuple[Length, Length],
        time: str | tuple[str, str] | None = None,
        lateness: Length = 0,
        slide: Length | None = None,
        **unknown: object,
    ) -> None:
        lengths.refuse(unknown, "TimeWindow", "it takes size, time, lateness and slide")
        given: tuple[Length, Length] = lengths.pair(size, "size")
        one_sided = isinstance(size, tuple | list) and any(map(_is_positive, given))
        least = 0 if one_sided else 1
        sizes = (
            lengths.read_length(given[0], "size", least),
            lengths.read_length(given[1], "size", least),
        )
        step = None if slide is None else lengths.read_length(slide, "slide")
        self._set_clock(time, lateness, size=sizes[0], right=sizes[1], slide=step)
        if step is not None:
            if 0 in map(lengths.plain, sizes):
                raise WindowError(
                    "a slide needs positive sizes on both sides, as rows leave in whole slides; "
                    f"got sizes {sizes[0]} and {sizes[1]}"
                )
            lengths.multiple(tuple(map(lengths.plain, sizes)), lengths.plain(step))
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "slide", step)

    @property
    def length(self) -> Interval | int:
        return self.sizes[0] if lengths.plain(self.sizes[0]) else self.sizes[1]

    @property
    def symmetric(self) -> bool:
        return self.sizes[0] == self.sizes[1]

    def bind(self, unit: int | None, *, back: bool = False) -> BoundTime:
        """Convert to key units of ``unit`` nanoseconds; None for plain integers.

        ``back``: left rows meet only right rows that are not later.
        """
        sizes = [self._scaled(size, "size", unit) for size in self.sizes]
        return BoundTime(
            (sizes[0], sizes[1]),
            self._scaled(self.lateness, "lateness", unit),
            None if self.slide is None else self._scaled(self.slide, "slide", unit),
            back,
        )

    def __str__(self) -> str:
        note = f"on {self.time[0]}, {self.time[1]}, lateness {self.lateness}"
        return lengths.text("time", self.sizes, self.slide, note)


def _is_positive(value: Length) -> bool:
    """Whether a size is above zero; values that are not sizes are reported later."""
    try:
        return lengths.plain(lengths.read_length(value, "size", least=0)) > 0
    except WindowError:
        return False


@dataclass(frozen=True, slots=True)
class BoundTime:
    """A time window in key units.

    ``back``: left rows meet only right rows that are not later.
    """

    sizes: tuple[int, int]
    lateness: int
    slide: int | None
    back: bool = False

    def interval(self, times: Array, fresh: Side) -> tuple[Array, Array]:
        """Inclusive event times of the other side that rows of ``fresh`` at ``times`` meet."""
        low, high = self._around(times, fresh)
        if not self.back:
            return low, high
        return (low, times) if fresh is Side.LEFT else (times, high)

    def _around(self, times: Array, fresh: Side) -> tuple[Array, Array]:
        """The interval without ``back``."""
        stored_size, fresh_size = self.sizes[fresh.other.position], self.sizes[fresh.position]
        if self.slide is None:
            return saturating_add(times, -stored_size), saturating_add(times, fresh_size)
        slot, step = times // self.slide, self.slide
        first = saturating_add(slot, 1 - stored_size // step)
        end = saturating_add(slot, fresh_size // step)
        # The last time of the slots before ``end``; all times if that lies beyond int64.
        last = saturating_multiply(end, step)
        return saturating_multiply(first, step), np.where(end > MAX // step, MAX, last - 1)

    def expired_below(self, frontier: int, side: Side) -> int:
        """Rows of ``side`` with an event time below this meet nothing at or after ``frontier``."""
        if self.back and side is Side.LEFT:
            return frontier
        size = self.sizes[side.position]
        if self.slide is None:
            return max(MIN, frontier - size)
        return max(MIN, self.slide * (frontier // self.slide - size // self.slide + 1))

    def frontier(self, largest: int) -> int:
        """Rows below this are late, once an event time of ``largest`` has been seen."""
        return max(MIN, largest - self.lateness)
