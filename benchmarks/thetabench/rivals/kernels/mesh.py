"""MeshJoin's meeting of held stream rows and leaves that pass by (Polyzotis et al., ICDE 2007).

Stream rows are held in batches. The boxes of a batch stand in the order of the first leaf they ask
for, with the leaves ``[first, stop)`` of each and a running maximum of ``stop``, so that the boxes
that meet some leaves are found by two binary searches per batch, and boxes in between that ended
before are passed over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetabench.arrays import Array
from thetastream._jit.compiling import kernel

Table = NDArray[np.int32]


@kernel(
    "i8(i4[:,::1], i4[:,::1], i4[:,::1], i4[:,::1], i8[::1], i8, i8, i8, i8[::1], i8[::1], "
    "i8[::1], i8[::1])"
)
def meet(
    first: Table,
    stop: Table,
    reach: Table,
    box: Table,
    counts: Array,
    begin: int,
    end: int,
    ranged: int,
    least: Array,
    greatest: Array,
    cursor: Array,
    questions: Array,
) -> int:
    """Questions ``leaf << 32 | box`` of all held boxes to the leaves ``[begin, end)``.

    ``counts[i]`` boxes of batch ``i`` ask for anything. Where rows are intervals (``ranged``), a
    leaf is asked only if its greatest upper end reaches ``least`` of the box. ``cursor`` is (batch,
    place in it, leaf), at first (0, -1, -1); a full array ends the call, the next goes on. Gives
    how many. O(log n) per batch and O(1) per box passed over or question.
    """
    count = 0
    while cursor[0] < counts.size:
        batch = cursor[0]
        at = cursor[1]
        if at < 0:
            at = np.int64(0)
            rest = counts[batch]
            while rest > 0:  # the first box that reaches ``begin``, or has one before it that does
                half = rest >> 1
                if np.int64(reach[batch, at + half]) <= begin:
                    at += half + 1
                    rest -= half + 1
                else:
                    rest = half
        while at < counts[batch] and np.int64(first[batch, at]) < end:
            leaf = cursor[2]
            if leaf < 0:
                leaf = np.int64(first[batch, at])
                if leaf < begin:
                    leaf = np.int64(begin)
            last = np.int64(stop[batch, at])
            if last > end:
                last = np.int64(end)
            asking = np.int64(box[batch, at])
            while leaf < last:
                if ranged and greatest[leaf] < least[asking]:
                    leaf += 1
                    continue
                if count == questions.size:
                    cursor[1], cursor[2] = at, leaf
                    return count
                questions[count] = (leaf << 32) | asking
                count += 1
                leaf += 1
            cursor[2] = -1
            at += 1
        cursor[0], cursor[1], cursor[2] = batch + 1, -1, -1
    return count
