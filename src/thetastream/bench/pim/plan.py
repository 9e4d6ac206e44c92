"""What a named experiment is made of, and how one is made smaller or larger.

An experiment (*figure*) is a list of *cells*; a cell is one stream of tuples and the contestants
that join it. What a figure shows is a measure (a column of the result file) over an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thetastream.bench.pim.contestant import Contestant
from thetastream.bench.pim.stream import Shape

__all__ = ["Cell", "Figure", "Sizes", "power"]

_LEAST = 8  # windows have 2⁸ rows at least
SECONDS = 1.5


@dataclass(frozen=True)
class Sizes:
    """How large a run is: 1 is the real one."""

    scale: float = 1.0
    """Factor of window sizes; below 1, of the timed seconds too."""
    seconds: float = SECONDS
    """Timed seconds per contestant and cell, at least."""
    seed: int = 0

    @classmethod
    def of(cls, scale: float, seconds: float | None) -> Sizes:
        """Choose the seconds by the scale, unless they are given."""
        return cls(scale, SECONDS * min(1.0, scale) if seconds is None else seconds)

    def windows(self, *exponents: int) -> list[int]:
        """Windows of 2^exponent rows, scaled to the nearest power of two; none occurs twice.

        >>> Sizes().windows(16, 20), Sizes(0.01).windows(10, 12, 20)
        ([65536, 1048576], [256, 8192])
        """
        shift = math.log2(self.scale)
        return list(dict.fromkeys(1 << max(_LEAST, round(e + shift)) for e in exponents))

    def window(self, exponent: int) -> int:
        """One window size."""
        return self.windows(exponent)[0]


@dataclass(frozen=True)
class Cell:
    """Contestants that take turns over the same tuples."""

    figure: str
    shape: Shape
    contestants: tuple[Contestant, ...]
    weight: float = 1.0
    """Share of the timed seconds: less for points of a series, more for rare events."""

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        kind = "self-join" if self.shape.self_join else "join"
        windows = " and ".join(power(window) for window in dict.fromkeys(self.shape.windows))
        return f"{self.figure}: {kind}, window {windows}"


@dataclass(frozen=True)
class Figure:
    """A named experiment: what is shown over which axis, and the cells that give it."""

    name: str
    about: str
    axis: str
    """What ``place`` means: the unit of the horizontal axis, and the first column of the table."""
    cells: Callable[[Sizes], Sequence[Cell]]
    measures: tuple[str, ...] = ("tuples_per_s",)
    logarithmic: bool = True
    """Whether places are powers of two, and drawn as such."""
    stacked: bool = False
    """Whether the measures add up to something."""


def power(number: float) -> str:
    """Write a number, powers of two as such.

    >>> power(1024), power(1 / 16), power(3), power(0.6), power(8)
    ('2^10', '2^-4', '3', '0.6', '8')
    """
    exponent = math.log2(number) if number > 0 else 0.5
    if exponent == int(exponent) and not 0.125 < number < 32:
        return f"2^{int(exponent)}"
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"
