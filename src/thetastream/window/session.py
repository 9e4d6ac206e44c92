"""Session windows: rows between two pauses.

In the order of event time, the rows of both streams form sessions: a pause of at most ``gap`` from
one row to the next continues a session, a longer one ends it. Rows of one session meet.

    gap 3      left    1     3           9
               right     2        6            15
               time    1 2 3 4 5 6 7 8 9 ...   15
                       └───────────────┘       └┘        1 2 3 6 9 are one session: no gap above 3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thetastream.duration import Interval
from thetastream.side import Side
from thetastream.window.base import EventTime
from thetastream.window.lengths import MIN, Length, pair, read_length, refuse


@dataclass(frozen=True, init=False)
class SessionWindow(EventTime):
    """Rows of one session, which ends with a pause longer than ``gap``.

    ``time`` names the event-time column, or one per side. With ``by`` (a column, or one per side)
    every value has its own sessions. ``lateness`` is how far a row may fall behind before it is
    dropped; a session is joined once no further row can continue it. Rows without an event time, or
    with a NULL in ``by``, meet nothing.

    >>> str(SessionWindow("30 s", time="t", by="user"))
    'sessions of user, user with gaps of at most 30 seconds, on t, t, lateness 0'
    """

    lifetime: ClassVar[str] = "session:BySession"

    gap: Interval | int
    time: tuple[str, str]
    by: tuple[str, str] | None
    lateness: Interval | int

    def __init__(
        self,
        gap: Length,
        time: str | tuple[str, str] | None = None,
        by: str | tuple[str, str] | None = None,
        lateness: Length = 0,
        **unknown: object,
    ) -> None:
        refuse(unknown, "SessionWindow", "it takes gap, time, by and lateness")
        length = read_length(gap, "gap")
        self._set_clock(time, lateness, gap=length)
        object.__setattr__(self, "gap", length)
        object.__setattr__(self, "by", None if by is None else pair(by, "by"))

    @property
    def waits(self) -> bool:
        return True

    @property
    def length(self) -> Interval | int:
        return self.gap

    def columns(self, side: Side) -> dict[str, str]:
        keys = {} if self.by is None else {"session key": self.by[side.position]}
        return {**super().columns(side), **keys}

    def bind(self, unit: int | None, *, back: bool = False) -> BoundSession:
        """Convert to key units of ``unit`` nanoseconds; None for plain integers."""
        return BoundSession(
            self._scaled(self.gap, "gap", unit), self._scaled(self.lateness, "lateness", unit)
        )

    def __str__(self) -> str:
        of = f" of {self.by[0]}, {self.by[1]}" if self.by else ""
        gaps = f"sessions{of} with gaps of at most {self.gap}"
        return f"{gaps}, on {self.time[0]}, {self.time[1]}, lateness {self.lateness}"


@dataclass(frozen=True, slots=True)
class BoundSession:
    """A session window in key units."""

    gap: int
    lateness: int

    def frontier(self, largest: int) -> int:
        """Rows below this are late, once an event time of ``largest`` has been seen."""
        return max(MIN, largest - self.lateness)
