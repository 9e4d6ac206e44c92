"""Who is measured, doing what: contestants, and the cells in which they take turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from thetabench import figure
from thetabench.figure import Parameters, Sizes, power

__all__ = ["TAXI", "Cell", "Contestant", "Rows", "Work", "fitting", "rows"]

TAXI = "taxi"
"""Rows of the real taxi sets, instead of synthetic ones."""
_LEAST = 256
_MOST_RATE = 1 / 8  # of the window: smaller runs keep the queries what they are


class Work(Enum):
    """What is timed."""

    PROBE = "probe"
    """Rows ask a full window that stays as it is: the immutable part."""
    GROW = "grow"
    """Rows ask a part that is half full, and go into it: the mutable part."""
    SLIDE = "slide"
    """Rows ask a full window, rows go in, old ones expire."""
    INSERT = "insert"
    """Rows go into a full window, old ones expire; nobody asks."""
    MEMORY = "memory"
    """Nothing is timed: a full window is weighed."""
    MERGE = "merge"
    """The mutable part becomes immutable, while single rows ask."""
    JOIN = "join"
    """Rows are pushed into a whole join, thetastream's or a peer's."""


@dataclass(frozen=True)
class Rows:
    """Which rows: those of a query whose match rate holds for a window."""

    query: str
    """``Q1``, ``Q1=``, ``Q2``, ``Q3``; for whole joins also ``W2`` and ``W3``."""
    window: int
    rate: float
    """Matches per arriving row, at a full window."""
    extra: int = 0
    """Rows of a side after the first window; 0 for as many as there usually are."""
    share: float = 0.0
    """Part of all pairs that the first term of Q2 passes; 0 for as many as the second."""
    source: str = "synthetic"
    seed: int = 0

    @property
    def after(self) -> int:
        """Rows of a side after the first window."""
        return self.extra or min(1 << 18, max(4 * _LEAST, self.window))


@dataclass(frozen=True)
class Contestant:
    """Who competes. ``label`` names it in tables and plots, ``place`` is its place on the axis."""

    label: str
    structure: str
    """Name of an index; for ``Work.JOIN`` of a peer, as in ``thetastream:tactic=auto``."""
    place: float
    work: Work
    rows: Rows
    window: int
    """Rows stored: those of the window, or those a growing part is full with."""
    batch: int = 1
    """Rows that ask at a time."""
    parameters: Parameters = ()
    slide: int = 0
    """Rows per insertion while the window is filled; 0 for a tenth of the window."""
    tail: int = 0
    """How many of the last rows go in a few at a time, so that they stay in a mutable part."""
    cycle: int = 0
    """Rows after which it has merged once more: as many are timed, if they do not take too long."""
    output: str = "rows"

    @property
    def settings(self) -> str:
        """The parameters as text."""
        return figure.settings(self.parameters)

    @property
    def step(self) -> int:
        """Rows per insertion while the window is filled."""
        return self.slide or max(1, self.window // 10)


@dataclass(frozen=True)
class Cell:
    """Contestants that take turns."""

    figure: str
    contestants: tuple[Contestant, ...]
    weight: float = 1.0
    """Share of the timed seconds."""

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        return f"{self.figure} at {power(self.contestants[0].place)}"


def fitting(batches: Sequence[int], window: int) -> list[int]:
    """Batches that are no larger than the window; none occurs twice.

    >>> fitting((1024, 8192, 32768), 5000)
    [1024, 5000]
    """
    return list(dict.fromkeys(min(batch, window) for batch in batches))


def rows(sizes: Sizes, query: str, window: int, rate: float, **more: Any) -> Rows:
    """Rows of a query; a small window has a smaller match rate.

    >>> rows(Sizes(), "Q3", 320, 100.0).rate
    40.0
    """
    return Rows(query, window, min(rate, window * _MOST_RATE), seed=sizes.seed, **more)
