"""The right answer, found in another way than any contestant's: offline, by sorting.

For each stretch of tuples the rows that can take part are known, about one and a half windows of
each side. They are sorted once; every tuple asks for the slice that its box covers, and its window
is tested on these candidates. A nested loop in the tests checks this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from thetabench.arrays import Array
from thetabench.digest import Digest, digest_by_group
from thetabench.pim.stream import Stream
from thetabench.reference import expanded

_STRETCH = 1 << 12


def truths(stream: Stream, marks: Collection[int]) -> dict[int, Digest]:
    """The digest of the first ``mark`` tuples' answer, for each mark.

    A pair is the place of a tuple after the fill and the number of the row it meets. Cost: a sort
    of one and a half windows per window's worth of tuples, and 1.5 candidates per pair.
    """
    ends = np.array(sorted(set(marks)), np.int64)
    counts, sums = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.uint64)
    for positions, numbers in pairs(stream, int(ends[-1])):
        group = np.searchsorted(ends, positions, side="right")
        more = digest_by_group(positions, numbers, group, len(ends))
        counts += more[0]
        sums += more[1]
    counts, sums = np.cumsum(counts), np.cumsum(sums, dtype=np.uint64)
    return {
        int(end): Digest(int(count), int(total))
        for end, count, total in zip(ends, counts, sums, strict=True)
    }


def pairs(stream: Stream, stop: int) -> Iterator[tuple[Array, Array]]:
    """All pairs of the first tuples, in no order."""
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
                yield from _met(stored[other], fresh, lows[fresh], highs[fresh], begins, ends)


def _met(
    stored: Array, fresh: Array, lows: Array, highs: Array, begins: Array, ends: Array
) -> Iterator[tuple[Array, Array]]:
    first, last = int(begins.min()), int(ends.max())
    order = np.argsort(stored[first:last])
    ranked = stored[first:last][order]
    low = np.searchsorted(ranked, lows, side="left")
    high = np.searchsorted(ranked, highs, side="right")
    for rows, places in expanded(low, high):
        numbers = first + order[places]
        kept = (numbers >= begins[rows]) & (numbers < ends[rows])
        yield fresh[rows[kept]], numbers[kept]
