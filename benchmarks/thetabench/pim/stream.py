"""The tuples of an experiment, in one order of arrival, and the pairs that are their right answer.

There are two streams, or one that meets itself.

First come the tuples that fill the windows: exactly as many of each side as its window holds. Then
tuples without end, made in blocks as they are asked for. Block ``n`` depends on the seed and on
``n`` only, so all contestants see the same tuples, however many each has time for.

Keys are even. A box that holds a single odd number is therefore empty, yet a search for it goes all
the way down: this is how the cost of searching is told from that of scanning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from thetabench.answers import Tally, met
from thetabench.arrays import Array
from thetabench.digest import Digest, mix
from thetastream.datasets.keys import DISTRIBUTIONS, DOMAIN
from thetastream.datasets.rates import band_width, gaussian_band_width, uniform_band_width

PHASES = (2, 6, 3)
"""Lengths of the phases of a drifting stream, in windows: still, moving, still.

The paper has 4, 10 and 4, the first of which includes the fill. A shorter middle phase moves less
far; the speed, which is what matters, is the same.
"""
_PAPER_WINDOWS = 10  # windows in which the paper's mean moves by r
_SIGMA = 0.125
_BLOCK = 1 << 18
_SAMPLE = 1 << 19
_STRETCH = 1 << 12  # tuples whose right answers are found together, at least


@dataclass(frozen=True)
class Shape:
    """What kind of tuples arrive."""

    window: int
    """Rows of the left side's window."""
    window_right: int = 0
    """Rows of the right side's; 0 for as many as the left side's."""
    match_rate: float = 2.0
    """Pairs per tuple, on average, once the windows are full."""
    share: float = 0.5
    """Part of the tuples that arrive on the left."""
    distribution: str = "uniform"
    drift: float | None = None
    """The paper's r: how far the mean of gaussian keys moves in ten windows; None: it does not."""
    self_join: bool = False
    seed: int = 0

    @property
    def windows(self) -> tuple[int, int]:
        """Sizes of both windows."""
        return self.window, self.window_right or self.window

    @property
    def rows(self) -> int:
        """Rows in the windows when they are full."""
        return self.window if self.self_join else sum(self.windows)

    @property
    def shares(self) -> tuple[float, ...]:
        """Part of the tuples that each side gets."""
        return (1.0,) if self.self_join else (self.share, 1 - self.share)

    @property
    def legs(self) -> tuple[int, ...]:
        """Where phases end, in tuples; empty when there is one phase without end."""
        if self.drift is None:
            return ()
        return tuple(int(end) for end in np.cumsum(PHASES) * self.window)

    @property
    def width(self) -> int:
        """Half the width of the band: a tuple meets the keys at most this far from its own.

        Windows of unequal size: the rate holds on average over both sides.
        """
        window = round(sum(w * s for w, s in zip(self.windows[::-1], self.shares, strict=False)))
        window = self.window if self.self_join else window
        rate = min(self.match_rate, window / 2)
        if self.drift is not None or self.distribution == "gaussian":
            return round(gaussian_band_width(_SIGMA * DOMAIN, window=window, match_rate=rate))
        if self.distribution == "uniform":
            # even keys are all integers of half the domain, doubled
            return 2 * round(uniform_band_width(DOMAIN // 2, window=window, match_rate=rate))
        draw = DISTRIBUTIONS[self.distribution]
        left, right = (draw(_SAMPLE, seed=self.seed + side) for side in range(2))
        return round(band_width(left, right, window=window, match_rate=rate, seed=self.seed))


class Stream:
    """The tuples of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.width = shape.width
        rng = np.random.default_rng([shape.seed, 0])
        sides = np.repeat(np.arange(len(shape.shares), dtype=np.int8), self.windows)
        self._filled = rng.permutation(sides), self._keys(rng, len(sides), 0)
        self._blocks: list[tuple[NDArray[np.int8], Array]] = []

    @property
    def windows(self) -> tuple[int, ...]:
        """Size of each side's window."""
        return self.shape.windows[: len(self.shape.shares)]

    def fill(self) -> tuple[Array, Array]:
        """Sides and keys of the tuples that fill the windows."""
        return self._filled[0].astype(np.int64), self._filled[1]

    def tuples(self, start: int, stop: int) -> tuple[Array, Array]:
        """Sides and keys of the tuples ``start … stop - 1`` after the fill."""
        while len(self._blocks) * _BLOCK < stop:
            self._blocks.append(self._made(len(self._blocks)))
        first = start // _BLOCK
        found = self._blocks[first : -(-stop // _BLOCK)]
        cut = slice(start - first * _BLOCK, stop - first * _BLOCK)
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sides, keys = (np.concatenate(parts)[cut] for parts in zip(*found, strict=True))
        return sides.astype(np.int64), keys

    def boxes(self, keys: Array, *, empty: bool = False) -> tuple[Array, Array]:
        """The inclusive intervals that tuples ask for; or such that hold no key at all."""
        if empty:
            return keys + 1, keys + 1
        return keys - self.width, keys + self.width

    def _made(self, block: int) -> tuple[NDArray[np.int8], Array]:
        rng = np.random.default_rng([self.shape.seed, 1 + block])
        keys = self._keys(rng, _BLOCK, block * _BLOCK)
        sides = (rng.random(_BLOCK) >= self.shape.shares[0]).astype(np.int8)
        return sides, keys

    def _keys(self, rng: np.random.Generator, rows: int, start: int) -> Array:
        shape = self.shape
        if shape.drift is None:
            keys = DISTRIBUTIONS[shape.distribution](rows, seed=rng).astype(np.int64)
        else:
            keys = DISTRIBUTIONS["gaussian"](rows, seed=rng).astype(np.int64)
            still, moving, _ = PHASES
            windows = (start + np.arange(rows)) / shape.window - still
            gone = np.clip(windows, 0, moving) * (shape.drift / _PAPER_WINDOWS)
            keys += (gone * DOMAIN).astype(np.int64)
        return keys & ~np.int64(1)


# --- Right answers -------------------------------------------------------------------------------


def truths(stream: Stream, marks: Collection[int]) -> dict[int, Digest]:
    """The digest of the first ``mark`` tuples' answer, for each mark.

    A pair is the place of a tuple after the fill and the number of the row it meets.
    """
    ends = np.array(sorted(set(marks)), np.int64)
    tally = Tally(len(ends))
    for positions, numbers in pairs(stream, int(ends[-1])):
        tally.add(np.searchsorted(ends, positions, side="right"), mix(positions, numbers))
    return dict(zip(ends.tolist(), accumulate(tally.digests), strict=True))


def pairs(stream: Stream, stop: int) -> Iterator[tuple[Array, Array]]:
    """All pairs of the first tuples, in no order; a nested loop in the tests checks them.

    Cost: a sort of one and a half windows per window's worth of tuples, and 1.5 candidates per
    pair.
    """
    sides, keys = stream.tuples(0, stop)
    filled_sides, filled_keys = stream.fill()
    shape = stream.shape
    stored, before = [], []
    for side, window in enumerate(stream.windows):
        own = sides == side
        stored.append(np.concatenate([filled_keys[filled_sides == side], keys[own]]))
        before.append(window + np.cumsum(own) - own)  # rows of the side before each tuple
    lows, highs = stream.boxes(keys)
    stretch = max(_STRETCH, max(stream.windows))
    for start in range(0, stop, stretch):
        for side in range(len(stream.windows)):
            other = side if shape.self_join else 1 - side
            fresh = start + np.flatnonzero(sides[start : start + stretch] == side)
            if fresh.size:
                fresh = fresh[np.argsort(lows[fresh])]  # so that searches are near to each other
                ends = before[other][fresh]
                begins = np.maximum(ends - stream.windows[other], 0)
                boxes = lows[fresh], highs[fresh]
                for box, numbers in met(stored[other], *boxes, begins, ends):
                    yield fresh[box], numbers
