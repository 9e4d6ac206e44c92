"""A paper as a value: its figures, the columns of its result file, its goals, its course."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetabench.figure import SECONDS, Figure, Lines, Sizes, chosen
from thetabench.line import Columns, Line
from thetabench.measure import Measure
from thetabench.race import Course, Say, run
from thetabench.score import Goal, Judge, Score, judged


@dataclass(frozen=True)
class Paper:
    """The experiments of one paper, and how their results are kept, shown and judged."""

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
    """Figures that are drawn in a way of their own."""
    derived: Mapping[str, Callable[[Lines], str]] = field(default_factory=dict)
    """Tables of the page that are made of the lines of several figures; "" without those."""

    def cells(self, names: Sequence[str], sizes: Sizes) -> list[Any]:
        """All cells of the figures asked for, or of all; "9" asks for all parts of Figure 9."""
        return [
            cell
            for figure in chosen(self.figures, names, self.absent)
            for cell in figure.cells(sizes)
        ]

    def run(
        self, cells: Sequence[Any], sizes: Sizes, say: Say = lambda step: None
    ) -> Iterator[list[Line]]:
        """Yield the lines of one cell after the other; ``say`` hears of every step."""
        axes = {name: figure.axis for name, figure in self.figures.items()}
        return run(lambda: self.course(sizes), self.columns, axes, cells, sizes, say)

    def scores(self, lines: Lines) -> list[Score]:
        """What must be reached, and what was."""
        return judged(self.goals, lines)

    def busy(self, line: Line) -> bool:
        """Whether the machine had other work while a single thread was timed."""
        return line.busy

    def write(self, path: Path, lines: Iterable[Line]) -> None:
        """Write a result file; an older one of the same name is replaced."""
        self.columns.write(path, lines)

    def read(self, path: Path) -> list[Line]:
        """Read a result file."""
        what = f"a file of the {self.title} benchmark"
        return self.columns.read(path, f"thetastream bench {self.name}", what)

    def together(self, old: Lines, new: Lines) -> list[Line]:
        """Old lines of figures without new ones, and the new lines, in the order of the paper."""
        again = {line.figure for line in new}
        order = list(self.figures)
        return sorted(
            [*(line for line in old if line.figure not in again), *new],
            key=lambda line: order.index(line.figure) if line.figure in order else len(order),
        )
