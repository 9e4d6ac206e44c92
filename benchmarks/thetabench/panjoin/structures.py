"""What holds the rows of a subwindow: the indexes of the registry, and an ordered set from PyPI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thetabench.contestant import MissingPackage, Unavailable, optional
from thetabench.panjoin.plan import Contestant
from thetabench.structures import made
from thetastream.index.base import Ranges

__all__ = ["BTREES", "BTreesSet", "Maker", "Structure", "Unavailable", "make"]

Array = NDArray[np.int64]
Pairs = Iterator[tuple[Array, Array]]

BTREES = "btrees"
_BITS = 32
_LAST = (1 << _BITS) - 1


class Structure(Protocol):
    """What is measured: an ``Index``, or something that looks like one."""

    @property
    def nbytes(self) -> int: ...
    def insert(self, keys: Array, ids: Array) -> None: ...
    def probe(self, lows: Array, highs: Array) -> Pairs: ...
    def ranges(self, lows: Array, highs: Array) -> Ranges: ...
    def expire(self, before: int) -> None: ...
    def dump(self) -> tuple[Array, Array]: ...
    def __len__(self) -> int: ...


Maker = Callable[[Contestant], Structure]


def make(who: Contestant) -> Structure:
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

    def probe(self, lows: Array, highs: Array) -> Pairs:
        """One range scan per box."""
        found: list[int] = []
        ends: list[int] = []
        scan, extend, end = self._set.keys, found.extend, ends.append
        starts = (np.maximum(lows, 0) << _BITS).tolist()
        stops = ((np.minimum(highs, _LAST >> 1) << _BITS) | _LAST).tolist()
        for low, high in zip(starts, stops, strict=True):
            extend(scan(low, high))
            end(len(found))
        upto = np.array(ends, np.int64)
        sizes = upto - np.concatenate([[0], upto[:-1]])
        if found:
            ids = np.array(found, np.int64) & _LAST
            yield np.repeat(np.arange(sizes.size), sizes), ids

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """There are none."""
        raise NotImplementedError

    def expire(self, before: int) -> None:
        """Rows do not expire here."""
        raise NotImplementedError

    def dump(self) -> tuple[Array, Array]:
        """All rows, in order of id."""
        codes = np.fromiter(self._set, np.int64, len(self._set))
        ids = codes & _LAST
        order = np.argsort(ids)
        return (codes >> _BITS)[order][None], ids[order]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._set)
