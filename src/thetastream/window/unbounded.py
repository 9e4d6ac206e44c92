"""No window: every row of one stream meets every row of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thetastream.window.base import Window


@dataclass(frozen=True)
class Unbounded(Window):
    """Rows never leave; the join stores both streams entirely.

    Unmatched rows of outer and anti joins are final at the end of the streams: ``flush`` returns
    them.

    >>> str(Unbounded())
    'no window: rows never leave'
    """

    lifetime: ClassVar[str] = "unbounded:forever"

    def __str__(self) -> str:
        return "no window: rows never leave"
