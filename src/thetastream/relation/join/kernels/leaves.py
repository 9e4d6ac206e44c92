"""Questions of stream rows to blocks of a table on disk.

A *box* is an inclusive interval of keys that a stream row asks for (and, if the relation's rows are
intervals, one of upper ends). A *question* is a box and a leaf, encoded as one word,
``leaf << 32 | box``: sorting the words groups the questions by leaf, which is the inverted index of
the SSIJ paper (Section IV-A) in eight bytes per entry.

Images of leaves lie in a buffer of words: the cache, or a read buffer. The second word of an image
holds its number of rows in the lower half; its keys are at a fixed place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import kernel

Slots = NDArray[Any]
ZONE = 64
_HALF = np.int64(0xFFFFFFFF)


@kernel("void(i8[::1], i8[::1])")
def zones_of(greatest: Array, zones: Array) -> None:
    """The greatest of every 64 leaves."""
    for zone in range(zones.size):
        most = greatest[zone * ZONE]
        for leaf in range(zone * ZONE, min(greatest.size, (zone + 1) * ZONE)):
            most = max(most, greatest[leaf])
        zones[zone] = most


@kernel("i8(i8[::1], i8[::1], i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def ask(
    boxes: Array,
    first: Array,
    stop: Array,
    ranged: int,
    least: Array,
    greatest: Array,
    zones: Array,
    cursor: Array,
    questions: Array,
) -> int:
    """Write the questions of boxes to the leaves ``[first, stop)`` of each; return their number.

    If rows are intervals (``ranged``), only leaves whose greatest upper end reaches ``least`` of
    the box are asked; zones of 64 leaves that do not reach it are skipped. ``cursor`` is (position
    in ``boxes``, leaf), at first (0, -1); a full array ends the call, and the next call continues.
    """
    count = 0
    while cursor[0] < boxes.size:
        at = cursor[0]
        box = boxes[at]
        leaf = first[at] if cursor[1] < 0 else cursor[1]
        while leaf < stop[at]:
            if ranged:
                if zones[leaf >> 6] < least[box]:
                    leaf = ((leaf >> 6) + 1) << 6
                    continue
                if greatest[leaf] < least[box]:
                    leaf += 1
                    continue
            if count == questions.size:
                cursor[1] = leaf
                return count
            questions[count] = (leaf << 32) | box
            count += 1
            leaf += 1
        cursor[0], cursor[1] = at + 1, -1
    return count


@kernel(*(f"i8(i8[::1], {slots}[::1], i8[::1], i8[::1], i8[::1])" for slots in ("i2", "i4")))
def split_by_cache(
    questions: Array, slots: Slots, uses: Array, places: Array, missing: Array
) -> int:
    """Split questions into hits, with their slots in ``places``, and ``missing``.

    Every hit is a use of its slot (SSIJ, Algorithm 1, line 5). Returns the number of hits, which
    are compacted to the front of ``questions``.
    """
    hits = 0
    missed = 0
    for i in range(questions.size):
        question = questions[i]
        slot = slots[question >> 32]
        if slot >= 0:
            uses[slot] += 1
            questions[hits] = question
            places[hits] = slot
            hits += 1
        else:
            missing[missed] = question
            missed += 1
    return hits


@kernel("i8(i8[::1], i8, i8[::1], i8[::1])")
def next_leaves(questions: Array, start: int, leaves: Array, starts: Array) -> int:
    """Distinct leaves of sorted questions from ``start`` on, and where those of each begin.

    Returns their number, at most the size of ``leaves``. ``starts`` has one more entry: the end.
    """
    count = 0
    last = np.int64(-1)
    at = start
    while at < questions.size:
        leaf = questions[at] >> 32
        if leaf != last:
            if count == leaves.size:
                break
            leaves[count] = leaf
            starts[count] = at
            count += 1
            last = leaf
        at += 1
    starts[count] = at
    return count


@kernel("i8(i8[::1], i8[::1])")
def tally_uses(questions: Array, tally: Array) -> int:
    """Add to ``tally[n]`` the number of leaves with n sorted questions; return all leaves.

    The last entry includes all leaves with more questions. So the utility of a block is known
    before it is read (SSIJ, Section IV-C).
    """
    leaves = 0
    at = 0
    while at < questions.size:
        leaf = questions[at] >> 32
        start = at
        while at < questions.size and questions[at] >> 32 == leaf:
            at += 1
        tally[min(at - start, tally.size - 1)] += 1
        leaves += 1
    return leaves


@kernel(
    "i8(i8[::1], i8, i8, i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8, i8[::1], "
    "i8[::1], i8[::1], i8[::1])"
)
def join_images(
    words: Array,
    keys_at: int,
    ranged: int,
    questions: Array,
    bases: Array,
    lows: Array,
    highs: Array,
    least: Array,
    most: Array,
    once: int,
    cursor: Array,
    boxes: Array,
    places: Array,
    rows: Array,
) -> int:
    """Write pairs of boxes and rows: box, word at which the image begins, row in the image.

    ``bases[i]`` is the word at which the image of question ``i`` begins, ``keys_at`` the distance
    from there to its keys. With ``ranged``, rows are intervals: their upper ends follow the keys
    and must lie in ``[least, most]`` of the box. ``once``: one row per question suffices.
    ``cursor`` is (question, row), at first (0, -1); full arrays end the call, and the next call
    continues. Returns the number of pairs. O(log rows) per question and O(1) per pair.
    """
    pairs = 0
    limit = boxes.size
    while cursor[0] < questions.size:
        at = cursor[0]
        base = bases[at]
        box = questions[at] & _HALF
        size = words[base + 1] & _HALF
        keys = base + keys_at
        low, high = lows[box], highs[box]
        row = cursor[1]
        if row < 0:
            start, rest = np.int64(0), size
            while rest > 0:
                half = rest >> 1
                if words[keys + start + half] < low:
                    start += half + 1
                    rest -= half + 1
                else:
                    rest = half
            row = start
        while row < size and words[keys + row] <= high:
            if ranged:
                upper = words[keys + size + row]
                if upper < least[box] or upper > most[box]:
                    row += 1
                    continue
            if pairs == limit:
                cursor[1] = row
                return pairs
            boxes[pairs] = box
            places[pairs] = base
            rows[pairs] = row
            pairs += 1
            row += 1
            if once:
                break
        cursor[0] = at + 1
        cursor[1] = -1
    return pairs
