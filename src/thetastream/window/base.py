"""The interface of all windows, so that no code needs to test for their kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from thetastream.duration import Interval
from thetastream.errors import WindowError
from thetastream.side import Side
from thetastream.window.lengths import Length, pair, plain, read_length


class Window(ABC):
    """Which rows of the other stream a row meets.

    ``lifetime`` names the class that implements the window while a join runs. The defaults suit a
    window without columns and without a size.
    """

    lifetime: ClassVar[str]
    parted: ClassVar[bool] = False  # whether a join over it can run in several partitions
    timed: ClassVar[bool] = False  # whether rows have an event time, so that they can be late
    boxed: ClassVar[bool] = False  # whether event time is one more term of the condition
    order: tuple[str, str] | None = None  # the columns of arrival ranks, if those decide arrival

    @property
    def by_arrival(self) -> bool:
        """Whether rows leave as others of their side arrive, in push order."""
        return False

    @property
    def waits(self) -> bool:
        """Whether rows wait for their turn."""
        return self.order is not None

    @property
    def symmetric(self) -> bool:
        """Whether rows of both sides stay for the same length."""
        return True

    @property
    def slide_rows(self) -> int:
        """Rows that leave together; 0 if they leave one by one, or by time."""
        return 0

    def expected(self, side: Side) -> int | None:
        """How many rows of a side the window holds, if known in advance."""
        return None

    def columns(self, side: Side) -> dict[str, str]:
        """The columns of a side that the window reads, by their purpose."""
        return {}


def check_window(value: object) -> None:
    """WindowError for what is not a window."""
    if not isinstance(value, Window):
        raise WindowError(
            "window must be a CountWindow, a TimeWindow, a SessionWindow or Unbounded(); got "
            f"{value!r}"
        )


class EventTime(Window):
    """A window over event time: rows may arrive out of order, and too late.

    ``time`` names the column of each side, ``lateness`` how far a row may fall behind.
    """

    timed: ClassVar[bool] = True
    time: tuple[str, str]
    lateness: Interval | int

    @property
    @abstractmethod
    def length(self) -> Interval | int:
        """A size of the window, for messages."""

    @abstractmethod
    def bind(self, unit: int | None, *, back: bool = False) -> Any:
        """Convert to key units of ``unit`` nanoseconds; None for plain integers."""

    @property
    def in_durations(self) -> bool:
        """Whether sizes are durations (for timestamps) and not plain numbers."""
        return isinstance(self.length, Interval)

    def columns(self, side: Side) -> dict[str, str]:
        return {"time": self.time[side.position]}

    def _set_clock(
        self, time: str | tuple[str, str] | None, lateness: Length, **lengths: Interval | int | None
    ) -> None:
        """Set time columns and lateness; all lengths must be of one kind."""
        if time is None:
            name = type(self).__name__
            raise WindowError(
                f"a {name} needs the event-time column: {name}('10 minutes', time='t') or "
                "time=('left_t', 'right_t')"
            )
        late = read_length(lateness, "lateness", least=0)
        kinds = {type(v) for v in (*lengths.values(), late) if v is not None and plain(v) != 0}
        if len(kinds) > 1:
            given = ", ".join(f"{word} {value}" for word, value in lengths.items())
            raise WindowError(
                "the lengths of a window must be durations throughout, or whole numbers "
                f"throughout; got {given}, lateness {late}"
            )
        object.__setattr__(self, "time", pair(time, "time"))
        object.__setattr__(self, "lateness", late)

    @staticmethod
    def _scaled(value: Interval | int, what: str, unit: int | None) -> int:
        """A length in key units of ``unit`` nanoseconds."""
        if plain(value) == 0:
            return 0
        if not isinstance(value, Interval):
            return value
        assert unit is not None
        if value.nanoseconds % unit:
            raise WindowError(
                f"the {what} {value} is finer than the unit of the time columns "
                f"({Interval(unit)}); cast the columns to a finer unit or round the {what}"
            )
        return value.nanoseconds // unit
