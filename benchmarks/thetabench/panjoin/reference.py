"""The right answers, in another way than any structure's: a sorted copy and prefix sums.

With the hashes of all rows in key order added up once, the right checksum of a box (see
:mod:`thetabench.digest`) is a difference of two sums: the reference costs two binary
searches per box, however many rows a box holds.
"""

from __future__ import annotations

import numpy as np

from thetabench.arrays import Array, Sums
from thetabench.digest import Digest, VerificationError, check_pairs, pair_digest, row_hash, weighed
from thetabench.panjoin.contestant import Structure
from thetastream.index.base import Ranges

_LEAST, _MOST = -(1 << 62), 1 << 62
_COVER = 1 << 12  # boxes that together cover all keys
_FEW = 4  # as many as that for a structure that scans


class Truth:
    """What boxes hold, of rows with these keys and the ids ``first``, ``first`` + 1, …"""

    def __init__(self, keys: Array, first: int = 0) -> None:
        order = np.argsort(keys)
        self._keys = keys[order]
        order += first
        self._sums = np.zeros(keys.size + 1, np.uint64)
        np.cumsum(row_hash(order), out=self._sums[1:])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._keys.nbytes + self._sums.nbytes

    def boxes(self, lows: Array, highs: Array) -> tuple[Array, Sums]:
        """Number and hash sum of the rows in each inclusive interval."""
        begin = np.searchsorted(self._keys, lows, side="left")
        end = np.maximum(np.searchsorted(self._keys, highs, side="right"), begin)
        return end - begin, self._sums[end] - self._sums[begin]

    def digest(self, lows: Array, highs: Array) -> tuple[Array, Digest]:
        """Matches per box, and the digest of the whole answer."""
        counts, sums = self.boxes(lows, highs)
        return counts, Digest(int(counts.sum()), weighed(np.arange(lows.size), sums))


def check_ranges(
    who: str, batch: int, answer: Ranges, truth: Truth, lows: Array, highs: Array, most: int
) -> int:
    """Raise unless ranges are right; returns the number of their pairs.

    The number of matches is compared for every box, the pairs for as many boxes as hold about
    ``most`` pairs, evenly chosen: all of them, where there are no more.
    """
    counts, right = truth.digest(lows, highs)
    if not np.array_equal(answer.counts(lows.size), counts):
        check_pairs(who, batch, Digest(int(answer.counts(lows.size).sum()), 0), right)
        raise VerificationError(f"{who} gave ranges for the wrong boxes in batch {batch}.")
    step = 1 + right.matches // max(most, 1)
    kept = answer.boxes % step == batch % step
    part = Ranges(
        answer.boxes[kept], answer.runs[kept], answer.starts[kept], answer.stops[kept], answer.ids
    )
    total = sum((pair_digest(*chunk) for chunk in part.pairs()), Digest(0, 0))
    chosen = np.arange(batch % step, lows.size, step)
    _, sums = truth.boxes(lows[chosen], highs[chosen])
    check_pairs(who, batch, total, Digest(int(counts[chosen].sum()), weighed(chosen, sums)))
    return right.matches


def check_stored(who: str, index: Structure, keys: Array, *, scans: bool, exact: int) -> None:
    """Raise unless the index holds the rows with these keys, and ids from 0, and finds each once.

    It is asked with neighbouring boxes that cover all there can be. Every row must be in the box of
    its key. Up to ``exact`` rows are counted and compared one by one, too; some structures need a
    sort for that.
    """
    if keys.size <= exact and len(index) != keys.size:
        raise VerificationError(f"{who} holds {len(index):,} rows; {keys.size:,} were inserted.")
    ends = np.linspace(keys.min(), keys.max() + 1, 1 + (_FEW if scans else _COVER))
    edges = ends.astype(np.int64)
    edges[0], edges[-1] = _LEAST, _MOST
    lows, highs = edges[:-1], edges[1:] - 1
    seen = np.zeros(keys.size, np.int64)
    for positions, ids in index.probe(lows, highs):
        if ids.size and (ids.min() < 0 or ids.max() >= keys.size):
            raise VerificationError(f"{who} gave an id that was never inserted.")
        np.add.at(seen, ids, 1)
        own = keys[ids]
        if np.any((own < lows[positions]) | (own > highs[positions])):
            raise VerificationError(f"{who} found a row in a box that does not hold its key.")
    if not np.all(seen == 1):
        raise VerificationError(
            f"{who} found {np.count_nonzero(seen == 0):,} rows not at all and "
            f"{np.count_nonzero(seen > 1):,} more than once after insertion."
        )
    if keys.size <= exact:
        stored, ids = index.dump()
        if not (np.array_equal(stored[0], keys) and np.array_equal(ids, np.arange(keys.size))):
            raise VerificationError(f"{who} does not hold the rows that were inserted.")
