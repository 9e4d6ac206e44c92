"""What is timed over which keys, and what every trial counts and compares."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetabench import figure
from thetabench.arrays import Array
from thetabench.digest import VerificationError
from thetabench.figure import Contestant
from thetabench.ordered.load import Keys, Truth
from thetabench.race import Trial, Values
from thetastream.index import Index

BATCH = 1 << 13
"""Rows per insertion: half a second of a million reports per minute."""
STRUCTURES = ("b-tree", "csb+tree", "burst-trie", "radix-trie", "judy", "b+tree", "sorted-runs")


class Work(Enum):
    """What is timed."""

    GROW = "grow"  # an index: insertion, look-ups, memory, range search
    DELETE = "delete"  # an index is emptied, row by row or by dropping it
    WINDOW = "window"  # rows enter a window of minutes and leave it minute by minute
    QUESTION = "question"  # Q1 and Q2 are asked of a full window
    AGGREGATE = "aggregate"  # rows of one stream ask for aggregates over their matches


@dataclass(frozen=True, kw_only=True)
class Cell(figure.Cell[Contestant]):
    """Contestants that take turns at one kind of work."""

    work: Work
    keys: Keys
    size: int
    """Keys held; of windows, rows per minute; of aggregates, rows of the window."""
    scene: str = ""
    """Cells of a scene share keys, indexes that grow, minutes of reports."""
    most: int = 0
    """The largest size of the scene."""
    measure: str = ""
    """Of an index that grows: the column that is measured …"""
    rest: bool = False
    """… and whether other columns of the same lines are still to come."""
    step: int = 0
    """Rows inserted under the clock before ``size`` is reached."""
    rate: float = 0.0
    """Matches per row."""


class Operations(Trial[Contestant]):
    """Timed operations, the ``tuples``, which meet rows, the ``pairs``."""

    def __init__(self, who: Contestant, cell: Cell) -> None:
        super().__init__(who, cell.label)
        self.cell = cell

    @property
    def own(self) -> Values:
        """What this kind of work measures."""
        return {}

    @property
    def columns(self) -> Values:
        return {**super().columns, "matches": self.pairs, "checked": self.checked, **self.own}

    def each(self, column: str) -> Values:
        """The time per operation, in the unit that the name of the column begins with."""
        per_second = {"ns": 1e9, "us": 1e6}[column[:2]]
        return {column: per_second * self.seconds / max(self.tuples, 1)}

    def count(self, operations: int, met: int = 0) -> None:
        """Count operations that were timed and checked."""
        self.tuples += operations
        self.checked += operations
        self.pairs += met

    def look_for_all(self, index: Index, truth: Truth) -> None:
        """Raise unless an index holds what it must, by the sums of boxes that hold all keys."""
        boxes = truth.pieces()
        self.compare("sum", sums(index, *boxes), truth.sums(*boxes))

    def compare(
        self, what: str, answer: NDArray[Any], right: NDArray[Any], where: str = ""
    ) -> None:
        """Raise unless an answer is right: integers exactly, other numbers but for rounding."""
        if len(answer) != len(right):
            self.refuse(f"gave a wrong answer{where}: {len(answer)} values, not {len(right)}")
        if right.dtype.kind == "f":
            same = np.isclose(answer, right, rtol=1e-12, atol=0, equal_nan=True)
        else:
            same = np.asarray(answer == right)
        if not same.all():
            wrong = int(np.flatnonzero(~same)[0])
            self.refuse(
                f"gave a wrong answer{where}: {what} {wrong} is {right[wrong]:,}, "
                f"got {answer[wrong]:,}"
            )

    def refuse(self, why: str) -> None:
        """End the run."""
        raise VerificationError(f"{self.name} {why}. No result was written for this cell.")


def weight(nbytes: int, rows: int) -> Values:
    """Columns about the bytes of an index."""
    return {"index_bytes": nbytes, "bytes_per_pair": nbytes / rows}


def sums(index: Index, lows: Array, highs: Array) -> Array:
    """Sums of ids by the mapper; 0 where a box is empty."""
    return np.asarray(np.ma.filled(index.map(lows, highs, "sum"), 0))
