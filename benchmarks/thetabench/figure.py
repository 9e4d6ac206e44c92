"""What a named experiment is made of, and how one is made smaller or larger.

An experiment (*figure*) is a list of *cells*: contestants that take turns. What it shows is a
measure (a column of the result file) over an axis. The figures of one paper, how their lines are
shown and what must be reached make a `Paper`, one per benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from thetabench.measure import Measure
from thetabench.result import read_lines, write_lines
from thetabench.score import Score
from thetastream.errors import RegistryError, suggest

__all__ = [
    "Figure",
    "Line",
    "Paper",
    "Parameters",
    "Sizes",
    "chosen",
    "power",
    "settings",
    "sized",
    "tick",
]

_LEAST = 8  # windows have 2⁸ rows at least
_LEAST_ROWS = 1 << _LEAST
_PARTS = "abcdef"
SECONDS = 1.5

C = TypeVar("C")

Parameters = tuple[tuple[str, Any], ...]
"""Settings of a structure, as a value that can be a key."""


@dataclass(frozen=True)
class Sizes:
    """How large a run is: 1 is the real one."""

    scale: float = 1.0
    """Factor of window sizes; below 1, of the timed seconds too."""
    seconds: float = SECONDS
    """Timed seconds per contestant and cell, at least."""
    seed: int = 0

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
class Figure(Generic[C]):
    """A named experiment: what is shown over which axis, and the cells that give it."""

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


class Line(Protocol):
    """What every line of a result file has: where it stands, and where it comes from."""

    @property
    def figure(self) -> str: ...
    @property
    def contestant(self) -> str: ...
    @property
    def axis(self) -> str: ...
    @property
    def place(self) -> float: ...
    @property
    def distribution(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def ran(self) -> bool: ...
    @property
    def verified(self) -> bool: ...
    @property
    def versions(self) -> str: ...
    @property
    def cpu(self) -> str: ...
    @property
    def cores(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def system(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def date(self) -> str: ...


R = TypeVar("R", bound=Line)


@dataclass(frozen=True)
class Paper(Generic[R]):
    """The experiments of one paper, and how their results are kept, shown and judged."""

    name: str
    """Names the command, the result file and the marks in the page."""
    title: str
    figures: Mapping[str, Figure[Any]]
    """By name, in the order of the paper."""
    measures: Mapping[str, Measure]
    """Every column that some figure shows."""
    kind: type[R]
    """One line of the result file."""
    scores: Callable[[Sequence[R]], list[Score]]
    """What must be reached, and what was."""
    where: Callable[[Sequence[R]], str] = lambda results: ""
    """What a figure's results have in common, to be added to its title."""
    panels: Mapping[str, Callable[[Any, Sequence[R]], None]] = field(default_factory=dict)
    """Figures that are drawn in a way of their own."""
    derived: Mapping[str, Callable[[Sequence[R]], str]] = field(default_factory=dict)
    """Tables of the page that are made of the lines of several figures; "" without those."""

    def write(self, path: Path, results: Iterable[R]) -> None:
        """Write a result file; an older one of the same name is replaced."""
        write_lines(path, self.kind, results)

    def read(self, path: Path) -> list[R]:
        """Read a result file."""
        what = f"of the {self.title} benchmark"
        return read_lines(path, self.kind, f"thetastream bench {self.name}", what)

    def together(self, old: Sequence[R], new: Sequence[R]) -> list[R]:
        """Old lines of figures without new ones, and the new lines, in the order of the paper."""
        again = {result.figure for result in new}
        kept = [result for result in old if result.figure not in again]
        order = list(self.figures)
        return sorted(
            [*kept, *new],
            key=lambda result: order.index(result.figure) if result.figure in order else len(order),
        )


def chosen(
    figures: Mapping[str, Figure[C]], names: Sequence[str], absent: Mapping[str, str]
) -> list[Figure[C]]:
    """The experiments asked for, or all; a number alone asks for all parts of that figure.

    ``absent`` are figures of the paper that are not measured, and why.
    """
    found: set[str] = set()
    for name in names or figures:
        own = [f for f in figures if f == name or (f[-1] in _PARTS and f[:-1] == name)]
        if not own:
            why = f" ({absent[name]})" if name in absent else ""
            raise RegistryError(
                f"figure must be one of {', '.join(figures)}; got {name!r}{why}."
                f"{suggest(name, figures)}"
            )
        found.update(own)
    return [figure for figure in figures.values() if figure.name in found]


def sized(sizes: Sizes, *counts: int) -> list[int]:
    """Numbers of rows, scaled; none occurs twice.

    >>> sized(Sizes(0.01), 100_000, 1_000_000), sized(Sizes(1e-6), 100_000, 200_000)
    ([1000, 10000], [256])
    """
    return list(dict.fromkeys(max(_LEAST_ROWS, round(count * sizes.scale)) for count in counts))


def settings(parameters: Parameters) -> str:
    """Parameters as text.

    >>> settings((("buffer", 64), ("workers", 2)))
    'buffer=64, workers=2'
    """
    return ", ".join(f"{name}={value}" for name, value in parameters)


def power(number: float) -> str:
    """Write a number, powers of two as such.

    >>> power(1024), power(1 / 16), power(3), power(0.6), power(8)
    ('2^10', '2^-4', '3', '0.6', '8')
    """
    exponent = math.log2(number) if number > 0 else 0.5
    if exponent == int(exponent) and not 0.125 < number < 32:
        return f"2^{int(exponent)}"
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"


def tick(figure: Figure[Any], result: Line) -> str:
    """Where a line stands on the axis of its figure, as text."""
    return result.distribution if figure.axis == "distribution" else power(result.place)
