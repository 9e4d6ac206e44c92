"""Right answers, found without any of the structures: by sorting, and kept as digests.

:class:`Truth` counts what intervals hold of rows that stay as they are. With the hashes of all rows
in key order added up once, the checksum of a box (see :mod:`thetabench.digest`) is the difference
of two sums: two binary searches per box, however many rows it holds.

:class:`Census` does so for two columns. The rows lie in the order of the first one, cut into
blocks; each block is a :class:`Truth` of the second. A block inside the first interval takes two
binary searches, the two blocks at the ends are looked at row by row. So the cost does not depend on
how many rows match: w / 2,048 searches per box.

:func:`met` is for windows that move: it lists the pairs, for a :class:`Tally` to add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from thetabench.arrays import Array, Sums
from thetabench.digest import Digest, row_hash, weighed
from thetabench.query import Values
from thetabench.reference import expanded

_BLOCK = 1 << 11
_AT_ONCE = 256  # boxes whose end blocks are looked at together


class Truth:
    """What intervals hold, of rows with these keys and ids; by default ids are 0, 1, 2, …"""

    def __init__(self, keys: Values, ids: Array | None = None) -> None:
        order = np.argsort(keys)
        self._keys = keys[order]
        self._sums = np.zeros(keys.size + 1, np.uint64)
        np.cumsum(row_hash(order if ids is None else ids[order]), out=self._sums[1:])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._keys.nbytes + self._sums.nbytes)

    def boxes(self, lows: Values, highs: Values) -> tuple[Array, Sums]:
        """Number and hash sum of the rows in each inclusive interval."""
        begin = np.searchsorted(self._keys, lows, side="left")
        end = np.maximum(np.searchsorted(self._keys, highs, side="right"), begin)
        return end - begin, self._sums[end] - self._sums[begin]

    def digest(self, lows: Values, highs: Values) -> tuple[Array, Digest]:
        """Matches per box, and the digest of the whole answer."""
        counts, sums = self.boxes(lows, highs)
        return counts, Digest(int(counts.sum()), weighed(np.arange(lows.size), sums))


class Census:
    """What boxes hold, of rows with these two columns and the ids 0, 1, 2, …"""

    def __init__(self, first: Values, second: Values) -> None:
        order = np.argsort(first, kind="stable")
        self._first = first[order]
        self._second = second[order]
        self._hashes = row_hash(order)
        blocks = (slice(start, start + _BLOCK) for start in range(0, len(order), _BLOCK))
        self._blocks = [Truth(self._second[rows], order[rows]) for rows in blocks]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 5 * 8 * len(self._first)

    def boxes(self, lows: Sequence[Values], highs: Sequence[Values]) -> tuple[Array, Sums]:
        """Number and hash sum of the rows in each closed box."""
        begin = np.searchsorted(self._first, lows[0], side="left")
        end = np.maximum(np.searchsorted(self._first, highs[0], side="right"), begin)
        counts, sums = np.zeros(begin.size, np.int64), np.zeros(begin.size, np.uint64)
        whole = -(-begin // _BLOCK)  # blocks whole … last - 1 lie inside
        last = end // _BLOCK
        for number, block in enumerate(self._blocks):
            inside = np.flatnonzero((whole <= number) & (number < last))
            if inside.size:
                held = block.boxes(lows[1][inside], highs[1][inside])
                counts[inside] += held[0]
                sums[inside] += held[1]
        front = np.minimum(whole * _BLOCK, end)
        back = np.maximum(last * _BLOCK, front)
        for start, stop in ((begin, front), (back, end)):
            self._ends(start, stop, lows[1], highs[1], counts, sums)
        return counts, sums

    def _ends(
        self, start: Array, stop: Array, low: Values, high: Values, counts: Array, sums: Sums
    ) -> None:
        """Add the rows ``start … stop - 1`` of each box, less than a block."""
        for first in range(0, start.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            places = start[part, None] + np.arange(int((stop - start)[part].max(initial=0)))
            inside = places < stop[part, None]
            places = np.minimum(places, len(self._first) - 1)
            keys = self._second[places]
            inside &= (keys >= low[part, None]) & (keys <= high[part, None])
            counts[part] += inside.sum(axis=1)
            hashes = np.where(inside, self._hashes[places], np.uint64(0))
            sums[part] += hashes.sum(axis=1, dtype=np.uint64)


def met(
    keys: Array, lows: Array, highs: Array, begins: Array, ends: Array
) -> Iterator[tuple[Array, Array]]:
    """Pairs of boxes and rows, in no order: box ``n`` asks rows ``begins[n] … ends[n] - 1``.

    Cost: a sort of all rows from the first begin to the last end, and the candidates among them.

    >>> keys = np.array([5, 1, 5, 5])
    >>> (pairs,) = met(keys, np.array([4]), np.array([5]), np.array([0]), np.array([3]))
    >>> sorted(pairs[1].tolist())
    [0, 2]
    """
    first, last = int(begins.min()), int(ends.max())
    order = np.argsort(keys[first:last])
    ranked = keys[first:last][order]
    low = np.searchsorted(ranked, lows, side="left")
    high = np.searchsorted(ranked, highs, side="right")
    for boxes, places in expanded(low, high):
        ids = first + order[places]
        kept = (ids >= begins[boxes]) & (ids < ends[boxes])
        yield boxes[kept], ids[kept]


class Tally:
    """The digests of several answers, made by adding pairs.

    >>> tally = Tally(2)
    >>> tally.add(np.array([1, 1]), np.array([3, 4], np.uint64))
    >>> tally.digests
    [Digest(matches=0, checksum=0), Digest(matches=2, checksum=7)]
    """

    def __init__(self, answers: int) -> None:
        self._counts = np.zeros(answers, np.int64)
        self._sums = np.zeros(answers, np.uint64)

    def add(self, answer: Array, numbers: Sums) -> None:
        """Add pairs: the answer that each belongs to, and a well-mixed number for each."""
        self._counts += np.bincount(answer, minlength=self._counts.size)
        np.add.at(self._sums, answer, numbers)

    @property
    def digests(self) -> list[Digest]:
        """One digest per answer."""
        both = zip(self._counts.tolist(), self._sums.tolist(), strict=True)
        return [Digest(count, total) for count, total in both]
