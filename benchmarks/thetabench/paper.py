"""A paper as a value: its figures, the columns of its result file, its goals, its course."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetabench.figure import SECONDS, Figure, Lines, Sizes
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.race import Course, Say, race
from thetabench.score import Goal, Judge, Score, judged
from thetastream.errors import RegistryError, suggest

_PART = re.compile(r"(?<=\d)[a-f]$")


@dataclass(frozen=True)
class Paper:
    """The experiments of one paper, and how their results are kept, shown and judged.

    A *grid* is an experiment of our own: its figures are workloads, each at several windows and
    batch sizes. Its cells can be measured one by one, and one table shows them all.
    """

    name: str
    """Names the command, the result file and the marks in the page."""
    title: str
    figures: Mapping[str, Figure[Any]]
    """By name, in the order of the paper."""
    measures: Mapping[str, Measure]
    """Every column that some figure shows."""
    columns: Columns
    """The columns of the result file that are not shared."""
    course: Callable[[Sizes], Course[Any, Any]]
    """Starts a run: makes what its cells have in common."""
    goals: Sequence[Goal | Judge] = ()
    """What must be reached, in the order of the requirements."""
    seconds: float = SECONDS
    """Timed seconds per contestant and cell, at scale 1."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Figures of the paper that are not measured, and why."""
    where: Callable[[Lines], str] = lambda lines: ""
    """What a figure's results have in common, to be added to its title."""
    panels: Mapping[str, Callable[[Any, Lines], None]] = field(default_factory=dict)
    """Figures that are drawn in a way of their own; those that are no figures show all lines."""
    formats: Sequence[str] = ("png",)
    """Of the plots."""
    derived: Mapping[str, Callable[[Lines], str]] = field(default_factory=dict)
    """Tables of the page that are made of the lines of several figures; "" without those."""
    pages: Sequence[str] = ()
    """Pages with its tables; if there are none, ``docs/NAME-benchmarks.md``."""
    note: Callable[[Lines], str] = lambda lines: ""
    """What stands below the scores, before the machine."""
    grid: bool = False
    told: Callable[[Lines], str] | None = None
    """How a cell is shown in one line while others run; without it every contestant has a line."""
    quick: Paper | None = None
    """The same, but small."""

    @property
    def called(self) -> str:
        """What its figures are called in its file and on the command line."""
        return self.columns.called("figure")

    def cells(self, names: Sequence[str], sizes: Sizes) -> list[Any]:
        """All cells of the figures asked for, or of all; "9" asks for all parts of Figure 9."""
        picked = {part for name in names for part in self._parts(name)}
        return [
            cell
            for name, figure in self.figures.items()
            if name in picked or not names
            for cell in figure.cells(sizes)
        ]

    def _parts(self, name: str) -> list[str]:
        """The figures that a name stands for: one, or all parts of one."""
        own = [one for one in self.figures if one == name or _PART.sub("", one) == name]
        if not own:
            why = f" ({self.absent[name]})" if name in self.absent else ""
            raise RegistryError(
                f"{self.called} must be one of {', '.join(self.figures)}; got {name!r}{why}."
                f"{suggest(name, self.figures)}"
            )
        return own

    def run(
        self, cells: Sequence[Any], sizes: Sizes, say: Say = lambda step: None
    ) -> Iterator[list[Line]]:
        """Yield the lines of one cell after the other; ``say`` is called with every step."""
        say("compiling")
        course = self.course(sizes)
        try:
            for cell in cells:
                say(cell.label)
                yield [
                    self.columns.line(**{**values, "axis": self.figures[values["figure"]].axis})
                    for values in race(course, cell, sizes, say)
                ]
                gc.collect()
        finally:
            course.close()

    def scores(self, lines: Lines) -> list[Score]:
        """What must be reached, and what was."""
        return judged(self.goals, lines)

    def write(self, path: Path, lines: Iterable[Line]) -> None:
        """Write a result file; an older one of the same name is replaced."""
        self.columns.write(path, lines)

    def read(self, path: Path) -> list[Line]:
        """Read a result file."""
        what = f"a file of the {self.title} benchmark"
        return self.columns.read(path, f"thetastream bench {self.name}", what)

    def together(self, old: Lines, new: Lines) -> list[Line]:
        """Old lines of figures (cells of a grid) without new ones, and the new, in order."""
        again = {self._part(line) for line in new}
        kept = [line for line in old if self._part(line) not in again]
        return sorted([*kept, *new], key=self._part)

    def _part(self, line: Line) -> tuple[float, ...]:
        """What is measured as a whole, in the order of the paper."""
        order = list(self.figures)
        number = order.index(line.figure) if line.figure in order else len(order)
        return (number, line.window, line.place) if self.grid else (number,)
