"""Order-preserving int64 codes of keys that are several words wide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import device, kernel

Words = NDArray[np.uint64]

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
PLACE_BITS = 46
"""Bits of a code below the number of its interval: two for the zone, the others for the place."""
_ROOM = np.uint64((1 << (PLACE_BITS - 2)) - 1)


@device
def _scaled(offset: np.uint64, reach: np.uint64) -> np.uint64:
    """An offset in ``[0, reach]`` as a place: its upper bits if there are too many."""
    if offset > reach:
        offset = reach
    while reach > _ROOM:
        reach >>= np.uint64(1)
        offset >>= np.uint64(1)
    return offset


@kernel("void(u8[:, ::1], u8[:, ::1], u8[::1], u8[::1], i8[::1], u8, i8[::1])")
def encode(
    words: Words,
    separators: Words,
    least: Words,
    most: Words,
    starts: Array,
    shift: np.uint64,
    codes: Array,
) -> None:
    """The code of each row of words, given ascending separators: word by word, one in each column.

    A code is the interval between two separators, then the place in it. Within an interval, the
    first word in which its separators differ decides; where a row agrees with one of them in that
    word too, the next word does, within what is usual for it (``least`` to ``most``).

    The first words of the separators, divided by ``2 ** shift``, are buckets; ``starts`` says at
    which separator each begins, so that only one bucket is searched.
    """
    width = words.shape[1]
    count = separators.shape[1]
    for row in range(words.shape[0]):
        start, stop = 0, count
        if count > 0:
            bucket = np.int64(0)
            if words[row, 0] > separators[0, 0]:
                above_first = (words[row, 0] - separators[0, 0]) >> shift
                # Compared before it is signed: a far word would become a negative bucket.
                bucket = np.int64(min(above_first, np.uint64(starts.size - 2)))
            start, stop = starts[bucket], starts[bucket + 1]
        while start < stop:
            middle = (start + stop) >> 1
            above = False
            for at in range(width):
                if separators[at, middle] != words[row, at]:
                    above = separators[at, middle] > words[row, at]
                    break
            if above:
                stop = middle
            else:
                start = middle + 1
        at = 0
        low, high = np.uint64(0), _ALL
        while at < width:
            low = separators[at, start - 1] if start > 0 else np.uint64(0)
            high = separators[at, start] if start < count else _ALL
            if low != high:
                break
            at += 1
        place = np.uint64(0)
        if at < width:
            value = words[row, at]
            after = at + 1
            if value == low:
                if after < width:
                    base = separators[after, start - 1] if start > 0 else np.uint64(0)
                    base = max(base, least[after])
                    if words[row, after] > base and most[after] > base:
                        place = _scaled(words[row, after] - base, most[after] - base)
            elif value == high:
                place = np.uint64(2) << np.uint64(PLACE_BITS - 2)
                if after < width:
                    top = separators[after, start] if start < count else _ALL
                    top = min(top, most[after])
                    base = least[after]
                    if words[row, after] > base and top > base:
                        place |= _scaled(words[row, after] - base, top - base)
            else:
                place = np.uint64(1) << np.uint64(PLACE_BITS - 2)
                place |= _scaled(value - low, high - low)
        codes[row] = np.int64((np.uint64(start) << np.uint64(PLACE_BITS)) | place)


@kernel("void(u1[::1], i8[::1], u1[::1], u8[:, ::1])")
def prefixes(
    data: NDArray[np.uint8], offsets: Array, shared: NDArray[np.uint8], words: Words
) -> None:
    """The first bytes of strings after a prefix that most share, as words in their order.

    A string that does not have the prefix becomes all zeros or all ones, below or above the others.
    """
    for row in range(words.shape[0]):
        first, stop = offsets[row], offsets[row + 1]
        side = 0
        for at in range(shared.size):
            byte = np.int64(data[first + at]) if first + at < stop else np.int64(-1)
            if byte != shared[at]:
                side = 1 if byte > shared[at] else -1
                break
        for word in range(words.shape[1]):
            value = np.uint64(0)
            if side > 0:
                value = _ALL
            elif side == 0:
                for at in range(8):
                    place = first + shared.size + 8 * word + at
                    value <<= np.uint64(8)
                    if place < stop:
                        value |= np.uint64(data[place])
            words[row, word] = value
