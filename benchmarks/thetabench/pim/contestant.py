"""One way to join the tuples of a cell: a structure, its settings, a number of threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thetabench import figure
from thetabench.arrays import Array
from thetabench.contestant import MissingPackage, Unavailable
from thetabench.figure import power
from thetabench.pim.ordered import KINDS, OrderedSetJoin
from thetabench.pim.stream import Shape, Stream
from thetastream.errors import RegistryError
from thetastream.tuplewise.ibwj import IndexJoin, joinable

_RATIO = 1 / 16  # the merge ratio of the merge trees, unless a parameter says otherwise


@dataclass(frozen=True, kw_only=True)
class Contestant(figure.Contestant):
    """A structure, its settings, a number of threads."""

    threads: int = 0
    """0: one thread, without concurrency control."""
    task_size: int = 8
    merge: str = "non-blocking"
    steps: bool = False
    """Whether the steps of each tuple are timed."""
    record: bool = False
    """Whether the times of tasks are kept."""

    def limit(self, window: int) -> int:
        """Rows of a side between two merges, or between two subindexes of a chain; 0 for never."""
        settings = dict(self.parameters)
        if self.structure in ("im-tree", "pim-tree"):
            return max(1, round(float(settings.get("merge_ratio", _RATIO)) * window))
        if self.structure == "chained":
            return -(-window // (int(settings.get("length", 2)) - 1))
        return 0

    def cycle(self, shape: Shape) -> int:
        """Tuples after which every side has merged once more: a fair time has whole cycles.

        >>> [Contestant("", name, 1).cycle(Shape(1024)) for name in ("im-tree", "b+tree")]
        [128, 1]
        """
        sides = zip(shape.windows, shape.shares, strict=False)
        return max(1, *(round(self.limit(window) / share) for window, share in sides))

    def merges(self, stream: Stream, start: int, stop: int) -> int:
        """How often it merges between two tuples: before every ``limit``-th row of a side."""
        merges = 0
        for side, window in enumerate(stream.windows):
            if limit := self.limit(window):
                begin = window + int(np.count_nonzero(stream.tuples(0, start)[0] == side))
                end = begin + int(np.count_nonzero(stream.tuples(start, stop)[0] == side))
                merges += (end - 1) // limit - (begin - 1) // limit
        return merges


@dataclass(frozen=True, kw_only=True)
class Cell(figure.Cell[Contestant]):
    """Contestants that take turns over the same tuples."""

    shape: Shape

    @property
    def label(self) -> str:
        """A short name for progress lines and messages."""
        kind = "self-join" if self.shape.self_join else "join"
        windows = " and ".join(power(window) for window in dict.fromkeys(self.shape.windows))
        return f"{self.figure}: {kind}, window {windows}"


class Indexed(IndexJoin):
    """An ``IndexJoin``; empty boxes fill it, so that no search is paid for."""

    def __init__(self, who: Contestant, shape: Shape) -> None:
        super().__init__(
            who.structure,
            shape.windows,
            self_join=shape.self_join,
            threads=who.threads,
            task_size=who.task_size,
            merge=who.merge,
            parameters=dict(who.parameters),
            record=who.record,
            steps=who.steps,
        )

    def fill(self, sides: Array, keys: Array) -> None:
        """Fill the windows, without asking for matches."""
        for _ in self.run(sides, keys, np.ones_like(keys), np.zeros_like(keys)):
            raise AssertionError("an empty box met a row")


Joiner = Indexed | OrderedSetJoin
"""What is measured. It works only while the next pairs of a run are asked for."""


def make(who: Contestant, shape: Shape) -> Joiner:
    """Make an empty join, or say why it cannot be had."""
    if who.structure not in (*KINDS, *joinable()):
        raise Unavailable(f"there is no structure {who.structure}")
    try:
        if who.structure in KINDS:
            return OrderedSetJoin(who.structure, shape.windows)
        return Indexed(who, shape)
    except (MissingPackage, RegistryError) as error:
        raise Unavailable(str(error)) from None
