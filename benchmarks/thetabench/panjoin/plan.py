"""Who is measured, doing what: contestants, and the cells in which they take turns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from thetabench import figure
from thetabench.figure import Parameters, power

__all__ = ["Cell", "Contestant", "Work"]


class Work(Enum):
    """What is timed."""

    INSERT = "insert"
    """Batches go into a subwindow that is between half and three quarters full."""
    EQUI = "equi"
    """Batches of single keys ask a full subwindow, or a full window of several."""
    BAND = "band"
    """Batches of bands do."""
    SLIDE = "slide"
    """Batches of bands ask a window, other rows are inserted, old ones expire."""
    PHASES = "phases"
    """The same, while batches, boxes and keys change."""
    JOIN = "join"
    """A ``StreamJoin`` of two sides."""
    SPLITTERS = "splitters"
    """Nothing is timed: how evenly the splitters cut each subwindow."""


@dataclass(frozen=True)
class Contestant:
    """Who competes. ``label`` names it in tables and plots, ``place`` is its place on the axis."""

    label: str
    structure: str
    """Name of an index; of a tactic for ``Work.JOIN``."""
    place: float
    work: Work
    rows: int
    """N_Sub, the rows of a full subwindow; or the window, where there are several."""
    batch: int
    """N_Bat, rows per insertion or boxes per probe."""
    matches: float = 0.0
    """S: rows of the full window that a box holds, on average."""
    parameters: Parameters = ()
    output: str = "pairs"
    """How the answer is given: pairs or ranges; of a ``StreamJoin`` also rows or count."""
    tail: int = 0
    """How many of the last rows are filled in one by one, so that they may stay in a buffer."""
    distribution: str = "uniform"

    @property
    def settings(self) -> str:
        """The parameters as text.

        >>> Contestant("", "bi-sort", 1, Work.BAND, 8, 2, parameters=(("buffer", 64),)).settings
        'buffer=64'
        """
        return figure.settings(self.parameters)

    @property
    def scans(self) -> bool:
        """Whether every probe looks at every row: then only a few boxes are asked at a time."""
        return dict(self.parameters).get("inside") == "nested-loop"


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
        places = sorted({who.place for who in self.contestants})
        shown = power(places[0]) if len(places) == 1 else f"{power(places[0])} …"
        return f"{self.figure} at {shown}"
