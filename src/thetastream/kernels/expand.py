"""Writing match pairs: the one place where located intervals become ``(position, id)`` pairs.

Output is bounded: each call fills the arrays it is given and moves ``cursor`` (box, offset), so
that the next call goes on where this one stopped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream.kernels._jit import device, kernel

__all__ = ["expand", "expand_boxes", "keep_within", "scan"]

Array = NDArray[np.int64]
_BLOCK = 64


@kernel("i8(i8[::1], i8[::1], i8[::1], i8, i8[::1], i8, i8[::1], i8[::1])")
def expand(
    starts: Array,
    stops: Array,
    ids: Array,
    before: int,
    cursor: Array,
    filled: int,
    positions: Array,
    rows: Array,
) -> int:
    """Append pairs of live rows behind the ``filled`` ones; gives the new fill."""
    room = positions.size
    k = filled
    box, at = cursor[0], cursor[1]
    while box < starts.size:
        start = starts[box] + at
        stop = min(stops[box], start + room - k)
        for j in range(start, stop):
            positions[k] = box
            rows[k] = ids[j]
            k += ids[j] >= before
        at = stop - starts[box]
        if stop == stops[box]:
            box += 1
            at = 0
        elif k == room:
            break
    cursor[0] = box
    cursor[1] = at
    return k


@device
def any_inside(column: Array, start: int, stop: int, low: int, high: int) -> bool:
    """Whether any of ``column[start:stop]`` lies in ``[low, high]``, which must not be empty.

    One unsigned comparison per value and unsigned positions: the compiler makes vector code of it,
    0.13 ns per value where the plain loop takes 0.50.
    """
    base = np.uint64(low)
    span = np.uint64(high) - base
    hits = np.int64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        hits |= np.int64(np.uint64(column[i]) - base <= span)
    return bool(hits != 0)


@device
def inside(keys: Array, j: int, lows: Array, highs: Array, box: int) -> bool:
    """Whether stored row ``j`` lies inside the box in all columns but the first."""
    for c in range(1, keys.shape[0]):
        if keys[c, j] < lows[c, box] or keys[c, j] > highs[c, box]:
            return False
    return True


@kernel("i8(i8[::1], i8[::1], i8[:,::1], i8[::1], i8, i8[:,::1], i8[:,::1], i8[::1], i8,"
        " i8[::1], i8[::1])")  # fmt: skip
def expand_boxes(
    starts: Array,
    stops: Array,
    keys: Array,
    ids: Array,
    before: int,
    lows: Array,
    highs: Array,
    cursor: Array,
    filled: int,
    positions: Array,
    rows: Array,
) -> int:
    """``expand`` with the other key columns checked.

    Long intervals are tested in blocks of 64 on the second column first; only blocks with a hit
    are looked at row by row.
    """
    room = positions.size
    k = filled
    box, at = cursor[0], cursor[1]
    while box < starts.size:
        j, stop = starts[box] + at, stops[box]
        second, low, high = keys[1], lows[1, box], highs[1, box]
        while j < stop and k < room:
            end = min(stop, j + _BLOCK)
            whole = end - j == _BLOCK
            if whole and (low > high or not any_inside(second, j, end, low, high)):
                j = end
                continue
            while j < end and k < room:
                if inside(keys, j, lows, highs, box) and ids[j] >= before:
                    positions[k] = box
                    rows[k] = ids[j]
                    k += 1
                j += 1
        if j < stop:
            at = j - starts[box]
            break
        box += 1
        at = 0
    cursor[0] = box
    cursor[1] = at
    return k


@kernel("i8(i8[:,::1], i8[::1], i8[:,::1], i8[:,::1], i8[::1], i8, i8[::1], i8[::1])")
def scan(
    keys: Array,
    ids: Array,
    lows: Array,
    highs: Array,
    cursor: Array,
    filled: int,
    positions: Array,
    rows: Array,
) -> int:
    """Test every stored row against every box: the nested loop."""
    room = positions.size
    k = filled
    box, j = cursor[0], cursor[1]
    while box < lows.shape[1]:
        first, low, high = keys[0], lows[0, box], highs[0, box]
        while j < ids.size and k < room:
            end = j + _BLOCK
            if end <= ids.size and (low > high or not any_inside(first, j, end, low, high)):
                j = end
                continue
            if low <= keys[0, j] <= high and inside(keys, j, lows, highs, box):
                positions[k] = box
                rows[k] = ids[j]
                k += 1
            j += 1
        if j < ids.size:
            break
        box += 1
        j = 0
    cursor[0] = box
    cursor[1] = j
    return k


@kernel("i8(i8[::1], i8[::1], i8[::1], i8[::1])")
def keep_within(positions: Array, rows: Array, first: Array, last: Array) -> int:
    """Keep, in place, the pairs whose row id lies in ``[first, last)`` of its box."""
    k = 0
    for i in range(positions.size):
        box, row = positions[i], rows[i]
        positions[k] = box
        rows[k] = row
        k += first[box] <= row < last[box]
    return k
