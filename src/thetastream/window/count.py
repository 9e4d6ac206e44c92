"""Count windows: the last rows of a side.

With ``c(x)`` the number of rows of the other side that arrived before ``x``, an earlier row at
position ``p`` meets ``x`` when ``p >= c(x) - size``. With a ``slide`` rows leave at slide
boundaries only:

    size 6, slide 2          positions   0 1 | 2 3 | 4 5 | 6 7 | 8 …
    x arrives with c(x) = 8                   └───── meets ────┘
    x arrives with c(x) = 9                         └──── meets ────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from thetastream.side import Side
from thetastream.window.base import Window
from thetastream.window.lengths import multiple, pair, refuse, text, whole

N = TypeVar("N", int, NDArray[np.int64])


@dataclass(frozen=True, init=False)
class CountWindow(Window):
    """The last ``size`` rows of the other stream when a row arrives.

    ``size`` is one number or a pair ``(left, right)``: how many rows of that side stay. ``order``
    names a column of arrival ranks comparable across both streams (one name or a pair); without it,
    rows of one push arrive left first, then right. ``slide``: rows leave only at multiples of it.

    >>> CountWindow(3).oldest(10, Side.LEFT)
    7
    >>> CountWindow(6, slide=2).oldest(9, Side.LEFT)
    4
    """

    lifetime: ClassVar[str] = "count:by_count"
    parted: ClassVar[bool] = True

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
        refuse(unknown, "CountWindow", "it counts rows; use TimeWindow for event time")
        sizes = pair(size, "size")
        for value in sizes:
            whole(value, "the size of a count window")
        if slide is not None:
            whole(slide, "the slide of a count window")
            multiple(sizes, slide)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "order", None if order is None else pair(order, "order"))
        object.__setattr__(self, "slide", slide)

    def size(self, side: Side) -> int:
        """How many rows of the side stay."""
        return self.sizes[side.position]

    def oldest(self, count: N, side: Side) -> N:
        """The lowest position of ``side`` that a row with ``c(x) = count`` meets."""
        size = self.sizes[0 if side is Side.LEFT else 1]
        if self.slide is None:
            return count - size
        return self.slide * ((count - 1) // self.slide - size // self.slide + 1)

    @property
    def by_arrival(self) -> bool:
        return self.order is None

    @property
    def symmetric(self) -> bool:
        return self.sizes[0] == self.sizes[1]

    @property
    def slide_rows(self) -> int:
        return self.slide or 0

    def expected(self, side: Side) -> int | None:
        return self.size(side)

    def columns(self, side: Side) -> dict[str, str]:
        return {} if self.order is None else {"order": self.order[side.position]}

    def __str__(self) -> str:
        order = f"order by {self.order}" if self.order else ""
        return text("count", self.sizes, self.slide, order)
