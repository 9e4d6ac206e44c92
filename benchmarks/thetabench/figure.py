"""What a named experiment is made of, and how one is made smaller or larger.

An experiment (*figure*) is a list of *cells*: contestants that take turns over the same input. It
shows measures (columns of the result file) over an axis, beside what the paper claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from thetabench.line import Line

_LEAST = 8  # windows have 2⁸ rows at least
_LEAST_ROWS = 1 << _LEAST
SECONDS = 1.5

Lines = Sequence[Line]
Parameters = tuple[tuple[str, Any], ...]
"""Settings of a structure, as a value that can be a key."""


@dataclass(frozen=True)
class Asked:
    """What was asked for of a grid of windows and batch sizes; empty for all of it."""

    windows: Sequence[int] = ()
    batches: Sequence[int] = ()
    contestants: Sequence[str] = ()
    repeat: int = 1
    """Repetitions, where each contestant has a process of its own."""


@dataclass(frozen=True)
class Sizes:
    """How large a run is: 1 is the real one."""

    scale: float = 1.0
    """Factor of window sizes; below 1, of the timed seconds too."""
    seconds: float = SECONDS
    """Timed seconds per contestant and cell, at least."""
    seed: int = 0
    asked: Asked = Asked()

    @classmethod
    def of(cls, scale: float, seconds: float | None, full: float = SECONDS) -> Sizes:
        """Choose the seconds by the scale, unless they are given; ``full`` are those of scale 1."""
        return cls(scale, full * min(1.0, scale) if seconds is None else seconds)

    def windows(self, *exponents: int) -> list[int]:
        """Windows of 2^exponent rows, scaled to the nearest power of two; none occurs twice.

        >>> Sizes().windows(16, 20), Sizes(0.01).windows(10, 12, 20)
        ([65536, 1048576], [256, 8192])
        """
        return list(dict.fromkeys(self.scaled(e, _LEAST) for e in exponents))

    def window(self, exponent: int) -> int:
        """One window size."""
        return self.windows(exponent)[0]

    def scaled(self, exponent: int, least: int) -> int:
        """2^exponent, scaled to the nearest power of two, which is 2^least or more."""
        return 1 << max(least, round(exponent + math.log2(self.scale)))


@dataclass(frozen=True)
class Contestant:
    """A contestant; papers add what theirs need.

    ``label`` names it in tables and plots, ``place`` is its place on the axis.
    """

    label: str
    structure: str
    """Name of an index, a tactic, a peer or a method."""
    place: float
    parameters: Parameters = ()

    @property
    def settings(self) -> str:
        """The parameters as text.

        >>> Contestant("", "pim-tree", 1, (("merge_ratio", 0.25), ("depth", 2))).settings
        'merge_ratio=0.25, depth=2'
        """
        return ", ".join(f"{name}={value}" for name, value in self.parameters)


K = TypeVar("K", bound=Contestant)


@dataclass(frozen=True)
class Cell(Generic[K]):
    """Contestants that take turns; papers add the workload."""

    figure: str
    contestants: tuple[K, ...]
    weight: float = 1.0
    """Share of the timed seconds: less for points of a series, more for rare events."""

    @property
    def label(self) -> str:
        """A short name for progress lines and messages."""
        places = sorted({who.place for who in self.contestants})
        return f"{self.figure} at {power(places[0])}{' …' if len(places) > 1 else ''}"


C = TypeVar("C")


@dataclass(frozen=True)
class Figure(Generic[C]):
    """A named experiment: what is shown over which axis, from which cells, and what is claimed."""

    name: str
    about: str
    axis: str
    """What ``place`` means: the unit of the horizontal axis, and the first column of the table."""
    cells: Callable[[Sizes], Sequence[C]]
    measures: tuple[str, ...] = ("tuples_per_s",)
    logarithmic: bool = True
    """Whether places are powers of two, and drawn as such."""
    stacked: bool = False
    """Whether the measures add up to something."""
    split: str = ""
    """A column whose values are drawn in a panel each."""
    claim: str = ""
    """What the paper shows; "" for a figure that is not in the paper."""
    holds: bool | Callable[[Lines], bool] | None = None
    """Whether the claim holds here, or how the lines decide that; None where nothing is claimed."""
    because: str | Callable[[Lines], str] = ""
    """The reason why it does not hold, or a remark on how it does; may be made of the lines."""

    def verdict(self, lines: Lines) -> str:
        """The sentence of the page about the lines that were measured.

        >>> Figure("1", "", "", lambda sizes: [], claim="a", holds=False, because="b.").verdict([])
        '*Here:* does not hold here, because b.'
        """
        because = self.because if isinstance(self.because, str) else self.because(lines)
        holds = self.holds(lines) if callable(self.holds) else self.holds
        if holds is None:
            return f"*Here:* {because}" if because else ""
        if holds:
            return f"*Here:* holds here{f': {because}' if because else '.'}"
        return f"*Here:* does not hold here, because {because}"


def sized(sizes: Sizes, *counts: int) -> list[int]:
    """Numbers of rows, scaled; none occurs twice.

    >>> sized(Sizes(0.01), 100_000, 1_000_000), sized(Sizes(1e-6), 100_000, 200_000)
    ([1000, 10000], [256])
    """
    return list(dict.fromkeys(max(_LEAST_ROWS, round(count * sizes.scale)) for count in counts))


def power(number: float) -> str:
    """Write a number, powers of two as such.

    >>> power(1024), power(1 / 16), power(3), power(0.6), power(8)
    ('2^10', '2^-4', '3', '0.6', '8')
    """
    exponent = math.log2(number) if number > 0 else 0.5
    if exponent == int(exponent) and not 0.125 < number < 32:
        return f"2^{int(exponent)}"
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"


def tick(figure: Figure[Any], line: Line) -> str:
    """Where a line stands on the axis of its figure, as text."""
    return line.distribution if figure.axis == "distribution" else power(line.place)
