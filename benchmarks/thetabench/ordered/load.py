"""Keys in the order of their arrival, none twice (Ordered Indexing, Sections 4.1.1 and 4.1.2).

The id of a key is its place in this order, so what an index must answer is known without one:
`Truth` has the first keys sorted, with running sums of their ids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetabench.ordered.plan import Keys
from thetastream.datasets.linear_road import linear_road_keys, random_keys, road_key
from thetastream.datasets.traffic import SEGMENTS, VIDS

__all__ = ["EXPRESSWAYS", "Array", "Load", "Truth"]

Array = NDArray[np.int64]

EXPRESSWAYS = 4
_DOMAIN = 1 << 32
_PART = 10  # a range of random keys is a tenth of the domain
_QUESTIONS = 100  # segments that Q2 asks for at a time
_PIECES = 997  # boxes that together hold all keys


class Load:
    """``count`` keys; ``keys[id]`` is the key of a row."""

    def __init__(self, kind: Keys, count: int, seed: int) -> None:
        self.kind = kind
        if kind is Keys.ROAD:
            self.keys = linear_road_keys(count, seed=seed, expressways=EXPRESSWAYS)
        else:
            self.keys = random_keys(count, seed=seed)
        self._order = np.argsort(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.keys.nbytes + self._order.nbytes

    def batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of rows ``start … stop - 1``."""
        return self.keys[start:stop], np.arange(start, stop)

    def truth(self, size: int) -> Truth:
        """What an index of the first ``size`` keys must answer. O(all keys)."""
        ids = self._order[self._order < size]
        return Truth(self.keys[ids], ids)

    def ranges(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Boxes as in Section 4.1: Q2 for random segments, or a random tenth of the domain."""
        if self.kind is Keys.ROAD:
            x, d, s = (rng.integers(0, n, _QUESTIONS) for n in (EXPRESSWAYS, 2, SEGMENTS))
            return road_key(x, d, s, 0), road_key(x, d, s, VIDS - 1)
        width = _DOMAIN // _PART
        low = rng.integers(0, _DOMAIN - width, 1)
        return low, low + (width - 1)


class Truth:
    """Sorted keys with running sums of their ids. No index is involved."""

    def __init__(self, keys: Array, ids: Array) -> None:
        self._keys = keys
        self._sums = np.concatenate([[0], np.cumsum(ids)])

    def counts(self, lows: Array, highs: Array) -> Array:
        """How many keys each box holds."""
        start, stop = self._between(lows, highs)
        return np.asarray(stop - start)

    def sums(self, lows: Array, highs: Array) -> Array:
        """The sum of the ids of the keys that each box holds."""
        start, stop = self._between(lows, highs)
        return np.asarray(self._sums[stop] - self._sums[start])

    def pieces(self) -> tuple[Array, Array]:
        """Boxes that hold every key once, about as many keys each."""
        if not self._keys.size:
            return np.zeros(1, np.int64), np.full(1, _DOMAIN)
        edges = np.unique(self._keys[:: -(-self._keys.size // _PIECES)])
        edges[0] = 0
        return edges, np.append(edges[1:] - 1, _DOMAIN)

    def _between(self, lows: Array, highs: Array) -> tuple[Array, Array]:
        start = np.searchsorted(self._keys, lows)
        return start, np.maximum(np.searchsorted(self._keys, highs, side="right"), start)
