"""What every structure inside a subwindow can do: store rows, and make views of its state.

A subwindow holds the rows of one interval of arrival (PanJoin, Section III-A). It stores at most
``size`` rows until it is *closed*, and is dropped as a whole. So a *view*, its state at one moment,
is cheap: later rows have larger ids and are skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from thetastream._jit.arrays import Array

SUBWINDOWS = 4
"""Full subwindows that make up a window: a probe visits each, and rows expire with a whole one."""

_SAMPLES = 16  # sampled keys per splitter


class SubwindowView(ABC):
    """A subwindow as it was when the view was made: rows with an id in ``[before, after)``."""

    __slots__ = ("__weakref__", "after", "before")

    def __init__(self, before: int, after: int) -> None:
        self.before = before
        self.after = max(before, after)

    @abstractmethod
    def read(self, lows: Array, highs: Array, limit: int) -> Iterator[tuple[Array, Array]]:
        """``(positions, ids)`` of the rows inside each box, at most ``limit`` at a time."""


class Subwindow(ABC):
    """A structure for the rows of one subwindow."""

    kind: ClassVar[str] = ""
    """The registered index that consists of it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = 0
        self.why = ""

    @abstractmethod
    def insert(self, keys: Array, ids: Array) -> None:
        """Store rows, sorted by key, with ids above all before."""

    @abstractmethod
    def views(self, before: int, after: int) -> Sequence[SubwindowView]:
        """The subwindow as it is now: a view per array, in the order in which they are read."""

    def close(self) -> None:  # noqa: B027 (most structures have nothing to do)
        """Called after the last insert."""

    def splitters(self, parts: int) -> Array:
        """``parts - 1`` keys that would divide the rows into parts of about equal size."""
        return sampled_splitters(self.dump()[0], parts)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held, unused room included."""

    @abstractmethod
    def dump(self) -> tuple[Array, Array]:
        """Keys and ids of all rows, in any order."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant."""

    @property
    def work(self) -> dict[str, float]:
        """Counters of work done, such as merges."""
        return {}


def sampled_splitters(keys: Array, parts: int) -> Array:
    """Splitters from a sample of unsorted keys."""
    if not keys.size:
        return np.zeros(parts - 1, np.int64)
    step = max(1, keys.size // (_SAMPLES * parts))
    sample = np.sort(keys[::step])
    return sample[np.arange(1, parts) * sample.size // parts]
