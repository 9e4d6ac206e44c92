"""Who is measured, doing what: contestants, and the cells that give lines of figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from thetabench import figure
from thetabench.figure import Parameters, power

__all__ = ["BATCH", "Cell", "Contestant", "Keys", "Measured", "Work", "merged"]

BATCH = 1 << 13
"""Rows per insertion: half a second of a million reports per minute."""


class Work(Enum):
    """What is timed."""

    GROW = "grow"
    """An index grows step by step: insertion, look-ups, memory, range search."""
    DELETE = "delete"
    """An index is emptied: row by row, or by dropping it."""
    WINDOW = "window"
    """Rows enter a window of minutes and leave it minute by minute."""
    QUESTION = "question"
    """Q1 and Q2 are asked of a full window."""
    AGGREGATE = "aggregate"
    """Rows of one stream ask for aggregates over their matches."""


class Keys(Enum):
    """Where keys come from."""

    ROAD = "linear road"
    """⟨X, D, S, VID⟩ of position reports, packed into 32 bits; first appearances only."""
    RANDOM = "random"
    """Uniform in [0, 2^32); first appearances only."""


@dataclass(frozen=True)
class Contestant:
    """Who competes. ``label`` names it in tables and plots, ``place`` is its place on the axis."""

    label: str
    structure: str
    """Name of an index, as in ``ptwi/radix-trie``; or of a way or a peer."""
    place: float
    parameters: Parameters = ()

    @property
    def settings(self) -> str:
        """The parameters as text."""
        return figure.settings(self.parameters)


@dataclass(frozen=True)
class Cell:
    """Contestants that take turns, and the figures that show what they did."""

    figures: tuple[str, ...]
    work: Work
    keys: Keys
    size: int
    """Keys held; of windows, rows per minute; of aggregates, rows of the window."""
    contestants: tuple[Contestant, ...]
    step: int = 0
    """Rows inserted under the clock before ``size`` is reached."""
    rate: float = 0.0
    """Matches per row."""

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        return f"{'/'.join(self.figures)} at {power(self.contestants[0].place)}"


@dataclass(frozen=True)
class Measured:
    """What one contestant did, as columns of one figure's line; or why it did nothing."""

    figure: str
    who: Contestant
    columns: dict[str, Any]
    reason: str = ""


def merged(cells: list[Cell]) -> list[Cell]:
    """Steps of growth that several figures show become one; the order stays that of the first.

    >>> who = (Contestant("b-tree", "b-tree", 8),)
    >>> both = [Cell((name,), Work.GROW, Keys.ROAD, 8, who) for name in ("4", "6")]
    >>> [cell.figures for cell in merged(both)]
    [('4', '6')]
    """
    found: dict[Cell, Cell] = {}
    for cell in cells:
        key = replace(cell, figures=()) if cell.work is Work.GROW else cell
        figures = dict.fromkeys((*(found[key].figures if key in found else ()), *cell.figures))
        found[key] = replace(cell, figures=tuple(figures))
    return list(found.values())
