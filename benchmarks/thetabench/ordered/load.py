"""Keys in the order of arrival, minutes of reports, and what an index of them must answer.

The id of a row is its place in this order, so the right answers are known without an index: a
`Truth` has keys sorted, with running sums of their ids (Ordered Indexing, Sections 3.1 and 4.1).
"""

from __future__ import annotations

from enum import Enum
from itertools import dropwhile, islice

import numpy as np
import pyarrow as pa

from thetabench.arrays import Array
from thetastream.datasets import linear_road as road
from thetastream.datasets.linear_road import road_key
from thetastream.datasets.traffic import SEGMENTS, VIDS

COLUMNS = ("time", "xway", "dir", "seg", "vid", "speed")
MINUTE = 60
"""Seconds."""
WINDOW = 5
"""Minutes of the window."""
EXPRESSWAYS = 16
"""Of the minutes; keys that occur once come from fewer, so that they become dense."""
_FEW = 4
_WARM = 10  # minutes after which there is about as much traffic as is wanted
_DOMAIN = 1 << 32
_PART = 10  # a range of random keys is a tenth of the domain
_QUESTIONS = 100  # segments that Q2 asks for at a time
_PIECES = 997  # boxes that together hold all keys


class Keys(Enum):
    """Where keys come from."""

    ROAD = "linear road"  # ⟨X, D, S, VID⟩ of reports, packed into 32 bits; first appearances
    RANDOM = "random"  # uniform in [0, 2^32); first appearances


class Truth:
    """Sorted keys with running sums of their ids, or of other values. No index is involved."""

    def __init__(self, keys: Array, ids: Array) -> None:
        self._keys = keys
        self._sums = np.concatenate([[0], np.cumsum(ids)])

    def counts(self, lows: Array, highs: Array) -> Array:
        """How many keys each box holds."""
        start, stop = self.between(lows, highs)
        return np.asarray(stop - start)

    def sums(self, lows: Array, highs: Array) -> Array:
        """The sum of the ids of the keys that each box holds."""
        start, stop = self.between(lows, highs)
        return np.asarray(self._sums[stop] - self._sums[start])

    def pieces(self) -> tuple[Array, Array]:
        """Boxes that hold every key once, about as many keys each."""
        if not self._keys.size:
            return np.zeros(1, np.int64), np.full(1, _DOMAIN)
        edges = np.unique(self._keys[:: -(-self._keys.size // _PIECES)])
        edges[0] = 0
        return edges, np.append(edges[1:] - 1, _DOMAIN)

    def between(self, lows: Array, highs: Array) -> tuple[Array, Array]:
        """Where the keys of each box begin and end."""
        start = np.searchsorted(self._keys, lows)
        return start, np.maximum(np.searchsorted(self._keys, highs, side="right"), start)


class Load:
    """``count`` keys, none twice; ``keys[id]`` is the key of a row."""

    def __init__(self, kind: Keys, count: int, seed: int) -> None:
        self.kind = kind
        if kind is Keys.ROAD:
            self.keys = road.linear_road_keys(count, seed=seed, expressways=_FEW)
        else:
            self.keys = road.random_keys(count, seed=seed)
        self._order = np.argsort(self.keys)
        self._truth: tuple[int, Truth] | None = None

    def batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of rows ``start … stop - 1``."""
        return self.keys[start:stop], np.arange(start, stop)

    def truth(self, size: int) -> Truth:
        """What an index of the first ``size`` keys must answer; the last one is kept."""
        if self._truth is None or self._truth[0] != size:
            ids = self._order[self._order < size]
            self._truth = size, Truth(self.keys[ids], ids)
        return self._truth[1]

    def ranges(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Boxes as in Section 4.1: Q2 for random segments, or a random tenth of the domain."""
        if self.kind is Keys.ROAD:
            x, d, s = (rng.integers(0, n, _QUESTIONS) for n in (_FEW, 2, SEGMENTS))
            return road_key(x, d, s, 0), road_key(x, d, s, VIDS - 1)
        width = _DOMAIN // _PART
        low = rng.integers(0, _DOMAIN - width, 1)
        return low, low + (width - 1)


class Minutes:
    """``count`` minutes with at least ``per_minute`` reports each, or nearly so.

    Traffic runs until a minute has as many reports as are wanted; the minutes from then on are
    kept. Reports are numbered from 0 on; ``edges[m]`` is the first one of minute ``m``.
    """

    def __init__(self, per_minute: int, count: int, seed: int) -> None:
        rate = max(1.0, per_minute / (2 * _WARM * EXPRESSWAYS))
        traffic = road.linear_road_batches(
            MINUTE, expressways=EXPRESSWAYS, rate=rate, growth=0.0, seed=seed, positions=True,
            columns=COLUMNS,
        )  # fmt: skip
        enough = dropwhile(lambda batch: batch.num_rows < per_minute, traffic)
        self.batches = list(islice(enough, count))
        self.edges = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        self.table = pa.Table.from_batches(self.batches)
        self.columns: dict[str, Array] = {n: self.table[n].to_numpy() for n in COLUMNS}
        self.keys = road_key(*(self.columns[name] for name in ("xway", "dir", "seg", "vid")))
        self._truths: dict[int, Truth] = {}

    def window(self, stop: int) -> slice:
        """Where the reports of the window before a minute are."""
        return slice(int(self.edges[stop - WINDOW]), int(self.edges[stop]))

    def truth(self, stop: int) -> Truth:
        """What the window before a minute must answer."""
        if stop not in self._truths:
            rows = self.window(stop)
            order = np.argsort(self.keys[rows], kind="stable")
            self._truths[stop] = Truth(self.keys[rows][order], order + rows.start)
        return self._truths[stop]
