"""When a row dies: count windows and time windows.

A *count window* keeps the last ``size`` rows of a side. With ``c(x)`` the number of rows of the
other side that arrived before ``x``, an earlier row at position ``p`` meets ``x`` when
``p >= c(x) - size``.

A *time window* looks at event time only: a pair joins when
``l.t - size_right <= r.t <= l.t + size_left``. Arrival order does not matter while rows are at most
``lateness`` late.

With a ``slide`` rows leave at slide boundaries only:

    size 6, slide 2, count window          positions   0 1 | 2 3 | 4 5 | 6 7 | 8 …
    x arrives with c(x) = 8                                 └───── meets ────┘
    x arrives with c(x) = 9                                       └──── meets ────┘

Everything here is arithmetic on numbers or NumPy arrays of int64; time is in the key units of the
bound columns (see ``TimeWindow.bind``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thetastream.duration import Interval
from thetastream.errors import WindowError
from thetastream.side import Side

__all__ = ["BoundTime", "CountWindow", "TimeWindow", "Window"]

Length = str | timedelta | Interval | int
T = TypeVar("T")
N = TypeVar("N", int, NDArray[np.int64])

_MIN, _MAX = -(2**63), 2**63 - 1


def _pair(value: T | tuple[T, T], what: str) -> tuple[T, T]:
    """Read ``value`` or ``(left, right)``."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise WindowError(f"{what} must be one value or a pair (left, right); got {value!r}")
        return value[0], value[1]
    return value, value


@dataclass(frozen=True, init=False)
class CountWindow:
    """The last ``size`` rows of the other stream when a row arrives.

    ``size`` is one number or a pair ``(left, right)``: how many rows of that side stay. ``order``
    names a column of arrival ranks comparable across both streams (one name or a pair); without it,
    rows of one push arrive left first, then right. ``slide``: rows leave only at multiples of it.

    >>> CountWindow(3).oldest(10, Side.LEFT)
    7
    >>> CountWindow(6, slide=2).oldest(9, Side.LEFT)
    4
    """

    sizes: tuple[int, int]
    order: tuple[str, str] | None
    slide: int | None

    def __init__(
        self,
        size: int | tuple[int, int],
        order: str | tuple[str, str] | None = None,
        slide: int | None = None,
        **unknown: object,
    ) -> None:
        _refuse(unknown, "CountWindow", "it counts rows; use TimeWindow for event time")
        sizes = _pair(size, "size")
        for value in sizes:
            _whole(value, "the size of a count window")
        if slide is not None:
            _whole(slide, "the slide of a count window")
            _multiple(sizes, slide)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "order", None if order is None else _pair(order, "order"))
        object.__setattr__(self, "slide", slide)

    def size(self, side: Side) -> int:
        """How many rows of the side stay."""
        return self.sizes[side.position]

    def oldest(self, count: N, side: Side) -> N:
        """The lowest position of ``side`` that a row with ``c(x) = count`` meets."""
        if self.slide is None:
            return count - self.size(side)
        return self.slide * ((count - 1) // self.slide - self.size(side) // self.slide + 1)

    def __str__(self) -> str:
        order = f"order by {self.order}" if self.order else ""
        return _text("count", self.sizes, self.slide, order)


@dataclass(frozen=True, init=False)
class TimeWindow:
    """Rows whose event times lie within ``size`` of each other.

    ``size`` and ``slide`` are durations (text such as ``10 minutes``, or timedelta) when the time
    columns are dates or timestamps, and plain whole numbers when they are integers. ``size`` may be
    a pair ``(left, right)``: how long rows of that side stay. ``time`` names the event-time column,
    or one per side. ``lateness`` is how far a row may fall behind before it is dropped.

    >>> TimeWindow("10 minutes", time="t", lateness="5 s").sizes[0]
    Interval(nanoseconds=600000000000)
    """

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
        _refuse(unknown, "TimeWindow", "it takes size, time, lateness and slide")
        if time is None:
            raise WindowError(
                "a time window needs the event-time column: TimeWindow('10 minutes', time='t') or "
                "time=('left_t', 'right_t')"
            )
        pair: tuple[Length, Length] = _pair(size, "size")
        sizes = (_length(pair[0], "size"), _length(pair[1], "size"))
        late = _length(lateness, "lateness", least=0)
        step = None if slide is None else _length(slide, "slide")
        kinds = {type(v) for v in (*sizes, late, step) if v is not None and v != 0}
        if len(kinds) > 1:
            raise WindowError(
                "size, lateness and slide must be durations throughout, or whole numbers "
                f"throughout; got {size!r}, {lateness!r}, {slide!r}"
            )
        if step is not None:
            _multiple(tuple(map(_plain, sizes)), _plain(step))
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "time", _pair(time, "time"))
        object.__setattr__(self, "lateness", late)
        object.__setattr__(self, "slide", step)

    @property
    def in_durations(self) -> bool:
        """Whether the sizes are durations (for timestamps) and not plain numbers."""
        return isinstance(self.sizes[0], Interval)

    def bind(self, unit: int | None, *, back: bool = False) -> BoundTime:
        """The window in key units of ``unit`` nanoseconds; None for plain integers."""

        def scaled(value: Interval | int, what: str) -> int:
            if not isinstance(value, Interval):
                return value
            assert unit is not None
            if value.nanoseconds % unit:
                raise WindowError(
                    f"the {what} {value} is finer than the unit of the time columns "
                    f"({Interval(unit)}); cast the columns to a finer unit or round the {what}"
                )
            return value.nanoseconds // unit

        return BoundTime(
            (scaled(self.sizes[0], "size"), scaled(self.sizes[1], "size")),
            scaled(self.lateness, "lateness"),
            None if self.slide is None else scaled(self.slide, "slide"),
            back,
        )

    def __str__(self) -> str:
        note = f"on {self.time[0]}, {self.time[1]}, lateness {self.lateness}"
        return _text("time", self.sizes, self.slide, note)


@dataclass(frozen=True, slots=True)
class BoundTime:
    """A time window in key units.

    ``back``: left rows look back only, at right rows that are not later than themselves.
    """

    sizes: tuple[int, int]
    lateness: int
    slide: int | None
    back: bool = False

    def interval(
        self, times: NDArray[np.int64], fresh: Side
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inclusive event times of the other side that rows of ``fresh`` at ``times`` meet."""
        low, high = self._around(times, fresh)
        if not self.back:
            return low, high
        return (low, times) if fresh is Side.LEFT else (times, high)

    def _around(
        self, times: NDArray[np.int64], fresh: Side
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Before and after."""
        stored_size, fresh_size = self.sizes[fresh.other.position], self.sizes[fresh.position]
        if self.slide is None:
            return saturating_add(times, -stored_size), saturating_add(times, fresh_size)
        slot, step = times // self.slide, self.slide
        first = saturating_add(slot, 1 - stored_size // step)
        end = saturating_add(slot, fresh_size // step)
        # The last time of the slots before ``end``; all times when that lies beyond int64.
        last = saturating_multiply(end, step)
        return saturating_multiply(first, step), np.where(end > _MAX // step, _MAX, last - 1)

    def expired_below(self, frontier: int, side: Side) -> int:
        """Rows of ``side`` with an event time below this meet nothing at or after ``frontier``."""
        size = self.sizes[side.position]
        if self.slide is None:
            return max(_MIN, frontier - size)
        return max(_MIN, self.slide * (frontier // self.slide - size // self.slide + 1))

    def frontier(self, largest: int) -> int:
        """Rows below this are late, once an event time of ``largest`` has been seen."""
        return max(_MIN, largest - self.lateness)


Window = CountWindow | TimeWindow


def saturating_add(values: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    """``values + amount`` held inside int64.

    >>> saturating_add(np.array([2**63 - 1, 5]), 10).tolist()
    [9223372036854775807, 15]
    """
    if not _MIN <= amount <= _MAX:
        part = _MAX if amount > 0 else _MIN
        if abs(amount) >= 2**64:
            return np.full_like(values, part)
        return saturating_add(saturating_add(values, part), amount - part)
    step = np.int64(amount)
    if amount >= 0:
        return np.minimum(values, np.int64(_MAX - amount)) + step
    return np.maximum(values, np.int64(_MIN - amount)) + step


def saturating_multiply(values: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """``values * factor`` for a positive factor, held inside int64."""
    top = _MAX // factor
    held = np.clip(values, -top, top) * np.int64(factor)
    return np.where(values > top, _MAX, np.where(values < -top, _MIN, held)).astype(np.int64)


def _length(value: Length, what: str, least: int = 1) -> Interval | int:
    if isinstance(value, bool) or not isinstance(value, str | timedelta | Interval | int):
        raise WindowError(
            f"the {what} of a time window must be a duration such as '10 minutes', a timedelta, or "
            f"a whole number for integer time columns; got {value!r}"
        )
    try:
        length = value if isinstance(value, int) else Interval.of(value)
    except ValueError as error:
        raise WindowError(f"the {what} of a time window: {error}") from None
    if _plain(length) < least:
        raise WindowError(
            f"the {what} of a time window must be {'positive' if least else 'zero or more'}; "
            f"got {value!r}"
        )
    return length


def _plain(value: Interval | int) -> int:
    return value.nanoseconds if isinstance(value, Interval) else value


def _whole(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise WindowError(f"{what} must be a whole number of rows; got {value!r}")
    if value < 1:
        raise WindowError(f"{what} must be at least 1; got {value}")


def _multiple(sizes: tuple[int, ...], slide: int) -> None:
    if any(size % slide for size in sizes):
        raise WindowError(f"the size must be a multiple of the slide; got sizes {sizes}, {slide}")


def _refuse(unknown: dict[str, object], kind: str, why: str) -> None:
    if unknown:
        raise WindowError(f"{kind} has no {', '.join(map(repr, unknown))}: {why}")


def _text(kind: str, sizes: tuple[object, object], slide: object, note: str) -> str:
    size = str(sizes[0]) if sizes[0] == sizes[1] else f"{sizes[0]} left, {sizes[1]} right"
    parts = [f"{kind} window of {size}", f"slide {slide}" if slide else "exact", note]
    return ", ".join(part for part in parts if part)
