"""Who is measured, doing what; and what holds the rows of a subwindow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from thetabench import figure
from thetabench.arrays import Array
from thetabench.contestant import MissingPackage, Unavailable, optional
from thetabench.structures import made

BTREES = "btrees"
REPEATED = "repeated"
"""The distribution of keys that repeat, so that an equality finds S of them."""
_BITS = 32
_LAST = (1 << _BITS) - 1


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


@dataclass(frozen=True, kw_only=True)
class Contestant(figure.Contestant):
    """A structure and its work; ``structure`` is the name of a tactic for ``Work.JOIN``."""

    work: Work
    rows: int
    """N_Sub, the rows of a full subwindow; or the window, where there are several."""
    batch: int
    """N_Bat, rows per insertion or boxes per probe."""
    matches: float = 0.0
    """S: rows of the full window that a box holds, on average."""
    output: str = "pairs"
    """The form of the answer: pairs or ranges; of a ``StreamJoin`` rows or count."""
    tail: int = 0
    """How many of the last rows are filled in one by one, so that they may stay in a buffer."""
    distribution: str = "uniform"

    @property
    def scans(self) -> bool:
        """Whether every probe looks at every row: then only a few boxes are asked at a time."""
        return dict(self.parameters).get("inside") == "nested-loop"


Cell = figure.Cell[Contestant]


Maker = Callable[[Contestant], Any]
"""Makes an index, or something that looks like one."""


def make(who: Contestant) -> Any:
    """Make an empty structure, or say why it cannot be had."""
    if who.structure != BTREES:
        return made(who.structure, who.rows, who.parameters)
    try:
        return BTreesSet()
    except MissingPackage as error:
        raise Unavailable(str(error)) from None


class BTreesSet:
    """An ordered set of ``BTrees``, the fastest B-tree on PyPI (written in C).

    A row is one integer, ``key << 32 | id``. Keys must fit into 31 bits. Turning arrays into lists
    and back is part of its time: there is no other way in.
    """

    def __init__(self) -> None:
        self._set: Any = optional("BTrees.LLBTree").LLTreeSet()

    @property
    def nbytes(self) -> int:
        """Not known; 16 bytes a row are a lower limit."""
        return 16 * len(self._set)

    def insert(self, keys: Array, ids: Array) -> None:
        """Add the rows of a batch, in key order."""
        self._set.update(((keys << _BITS) | ids).tolist())

    def probe(self, lows: Array, highs: Array) -> Iterator[tuple[Array, Array]]:
        """One range scan per box."""
        codes: list[int] = []
        ends: list[int] = []
        scan, extend, end = self._set.keys, codes.extend, ends.append
        starts = (np.maximum(lows, 0) << _BITS).tolist()
        stops = ((np.minimum(highs, _LAST >> 1) << _BITS) | _LAST).tolist()
        for low, high in zip(starts, stops, strict=True):
            extend(scan(low, high))
            end(len(codes))
        if codes:
            sizes = np.diff(np.array(ends), prepend=0)
            yield np.repeat(np.arange(sizes.size), sizes), np.array(codes, np.int64) & _LAST

    def dump(self) -> tuple[Array, Array]:
        """All rows, in order of id."""
        codes = np.fromiter(self._set, np.int64, len(self._set))
        ids = codes & _LAST
        order = np.argsort(ids)
        return (codes >> _BITS)[order][None], ids[order]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._set)
