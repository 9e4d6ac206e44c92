"""Sets of row ids per term, and their intersection: bit arrays, and hash tables for comparison.

A box is one interval per term. Each term has an ordered structure of its own, which returns the ids
of the rows inside its interval; the rows of the box are those of all terms (SPO-Join, Sections 2.4
and 3.2). Boxes are processed in slices whose sets fit into the cache.

    ids of live rows     64 66 67 69 70       word 1 of ``present``      0 1 1 0 1 1 0 1   (71 … 64)
    term 0, rows inside  66 69                set, then AND              0 0 1 0 0 1 0 0
    term 1, rows outside 69                   set, then AND NOT          0 0 0 0 0 1 0 0 → row 66

**Bits.** The position of a row is its id minus the id of the first bit (*base*, a multiple of 64).
If most rows lie inside an interval, its complement is set instead and subtracted, so at most about
half of the rows are ever set one by one. Setting a bit takes 0.5 ns in an array that fits into the
first cache; vector code combines the words. Structures may still hold expired rows: their bits are
not in ``present``, or go to a word after the others that is never read.

**Prefixes.** For many boxes at a time, the bits of about 64 prefixes of every term's key order are
built first. A box starts with the nearest ones and only corrects the rows between: about n / 64
words and n / 128 bits per edge instead of n / 4 bits.

**Hash tables** (the baseline). Open addressing, linear probing, multiplicative hashing, at most
half full. An entry is a row's position, with the number of the table's filling in its upper half,
so a table is never cleared: entries of earlier fillings count as empty. The smaller list is
inserted, the other looked up.

Positions are unsigned, which spares numba the test for negative ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetastream._jit.arrays import LEAST, MOST, Array, Words, i64, u64
from thetastream._jit.compiling import M, N, U, V, inlined, kernel, vector
from thetastream._jit.intrinsics import lowest_bit

Places = NDArray[np.uint32]
# How to combine a filled set.
AND, AND_NOT, SKIP = 0, 1, 2
# Counters: bits set, words read for results, ids put into hash tables.
FILLED, SCANNED, HASHED = 0, 1, 2
SETS, ORDER = vector(2, 64, "uint"), vector(1, 32, "uint")
_ONE, _SIX, _MASK = u64(1), u64(6), u64(63)
_ALL = u64(2**64 - 1)
_GOLDEN = u64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_LOW_HALF = u64(2**32 - 1)


# --- Bit arrays ----------------------------------------------------------------------------------


@inlined
def put_bit(bits: Words, row: np.uint64, top: np.uint64, base: np.uint64, number: int) -> None:
    """Set the bit of an id; ids out of range go to the last word."""
    at = u64(number) - base
    bits[row, min(at >> _SIX, top)] |= _ONE << (at & _MASK)


@inlined
def put_live(bits: Words, row: np.uint64, base: np.uint64, number: int) -> None:
    """Set the bit of an id that is in range: 0.55 ns instead of 0.71."""
    at = u64(number) - base
    bits[row, at >> _SIX] |= _ONE << (at & _MASK)


@kernel((V, N, SETS))
def add_ids(ids: Array, base: int, bits: Words) -> None:
    """Set the bits of some ids in the first set."""
    first, top, row = u64(base), u64(bits.shape[1] - 1), u64(0)
    for i in range(u64(ids.size)):
        put_bit(bits, row, top, first, ids[i])


@kernel((V, V, V, N, SETS))
def set_pairs(positions: Array, ids: Array, owners: Array, base: int, bits: Words) -> None:
    """Set the bit of ``ids[j]`` in set ``owners[positions[j]]``."""
    first, top = u64(base), u64(bits.shape[1] - 1)
    for i in range(u64(ids.size)):
        put_bit(bits, u64(owners[u64(positions[i])]), top, first, ids[i])


@kernel((M, M, N, V))
def open_boxes(lows: Array, highs: Array, first: int, opened: Array) -> int:
    """Open the boxes from ``first`` on without an empty interval; returns how many."""
    left = 0
    for i in range(opened.size):
        good = True
        for c in range(lows.shape[0]):
            good = good and lows[c, first + i] <= highs[c, first + i]
        opened[i] = good
        left += good
    return left


@inlined
def meet(bits: Words, own: np.uint64, sets: Words, other: np.uint64, inverted: bool) -> bool:
    """AND a set or its complement into another, and empty it; returns whether any bit is left."""
    mask = _ALL if inverted else u64(0)
    some = u64(0)
    for w in range(u64(bits.shape[1])):
        word = bits[own, w] & (sets[other, w] ^ mask)
        bits[own, w] = word
        sets[other, w] = 0
        some |= word
    return bool(some != 0)


@kernel((SETS, SETS, V, V))
def meet_sets(bits: Words, sets: Words, how: Array, opened: Array) -> int:
    """Combine the sets of open boxes as ``how`` says, close empty ones; returns how many stay."""
    left = 0
    for i in range(opened.size):
        if opened[i] != 0 and how[i] != SKIP:
            own = u64(i)
            opened[i] = meet(bits, own, sets, own, how[i] == AND_NOT)
        left += opened[i]
    return left


@kernel((SETS, V, N, N, V, V, N, V, V, V))
def extract(
    bits: Words, opened: Array, first: int, base: int, cursor: Array, spots: Array, filled: int,
    positions: Array, rows: Array, tally: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the bits of open boxes, in ascending order; returns the new fill.

    If the arrays are full, ``cursor`` (box of the slice, word) says where to resume. Nonzero words
    are first listed in ``spots``, without a branch: then the loop over few bits is hardly ever
    mispredicted, and takes 4 ns per row instead of 8.
    """
    words = u64(bits.shape[1] - 1)
    k, room = u64(filled), u64(positions.size)
    i, w = u64(cursor[0]), u64(cursor[1])
    while i < u64(opened.size):
        if opened[i] != 0:
            own, count = u64(first) + i, u64(0)
            tally[SCANNED] += i64(words - w)
            while w < words:
                spots[count] = w
                count += u64(bits[i, w] != 0)
                w += _ONE
            for j in range(count):
                w = u64(spots[j])
                word, number = bits[i, w], u64(base) + (w << _SIX)
                while word != 0 and k < room:
                    positions[k] = own
                    rows[k] = number + lowest_bit(word)
                    word &= word - _ONE
                    k += _ONE
                if word != 0:
                    bits[i, w] = word
                    tally[SCANNED] -= i64(words - w)
                    cursor[0] = i64(i)
                    cursor[1] = i64(w)
                    return i64(k)
        i += _ONE
        w = u64(0)
    cursor[0] = i64(i)
    cursor[1] = 0
    return i64(k)


# --- Prefixes of the key order ----------------------------------------------------------------


@kernel((ORDER, N, SETS))
def set_prefixes(order: Places, step: int, prefixes: Words) -> None:
    """Set j gets the first ``j * step`` rows in key order; ``order`` holds their positions."""
    for w in range(u64(prefixes.shape[1])):
        prefixes[u64(0), w] = 0
    for j in range(1, prefixes.shape[0]):
        row, last = u64(j), u64(j - 1)
        for w in range(u64(prefixes.shape[1])):
            prefixes[row, w] = prefixes[last, w]
        for p in range(u64((j - 1) * step), u64(min(j * step, order.size))):
            at = u64(order[p])
            prefixes[row, at >> _SIX] |= _ONE << (at & _MASK)


@inlined
def rank_of(keys: Array, bound: int) -> int:
    """How many of the ascending keys are less than the bound. No branch depends on the keys."""
    start, size = u64(0), u64(keys.size)
    while size > _ONE:
        half = size >> _ONE
        start += half if keys[start + half - _ONE] < bound else u64(0)
        size -= half
    return i64(start) + (keys.size > 0 and keys[start] < bound)


@inlined
def drop(order: Places, start: int, stop: int, bits: Words, row: np.uint64) -> None:
    """Clear the bits of a piece of the key order."""
    for p in range(u64(start), u64(stop)):
        at = u64(order[p])
        bits[row, at >> _SIX] &= ~(_ONE << (at & _MASK))


@inlined
def keep(bits: Words, row: np.uint64, sets: Words, number: int, mask: np.uint64) -> bool:
    """AND a set, or its complement by ``mask``, into another; returns whether any bit is left."""
    some, other = u64(0), u64(number)
    for w in range(u64(bits.shape[1])):
        word = bits[row, w] & (sets[other, w] ^ mask)
        bits[row, w] = word
        some |= word
    return bool(some != 0)


@kernel((V, ORDER, N, SETS, V, V, N, V, SETS, V))
def meet_prefixes(
    keys: Array, order: Places, step: int, prefixes: Words, lows: Array, highs: Array, first: int,
    opened: Array, bits: Words, tally: Array,
) -> int:  # fmt: skip
    """AND one term into the sets of the open boxes from ``first`` on, by prefixes of its order.

    Takes the shortest prefix with all rows up to the upper edge, and the longest with only rows
    before the lower edge; clears the excess row by row. Returns how many boxes stay open.
    """
    left = 0
    for i in range(opened.size):
        low, high = lows[first + i], highs[first + i]
        if opened[i] == 0:
            continue
        start = 0 if low == LEAST else rank_of(keys, low)
        stop = keys.size if high == MOST else rank_of(keys, high + 1)
        if start >= stop:
            opened[i] = 0
            continue
        row = u64(i)
        if stop < keys.size:
            above = (stop + step - 1) // step
            opened[i] = keep(bits, row, prefixes, above, u64(0))
            drop(order, stop, min(above * step, keys.size), bits, row)
            tally[FILLED] += min(above * step, keys.size) - stop
        if start > 0 and opened[i] != 0:
            below = start // step
            opened[i] = keep(bits, row, prefixes, below, _ALL)
            drop(order, below * step, start, bits, row)
            tally[FILLED] += start - below * step
        left += opened[i]
    return left


# --- Lists of ids and hash tables ----------------------------------------------------------------


@inlined
def slot_of(at: np.uint64, shift: np.uint64) -> np.uint64:
    """The slot of a row's position in a table of ``2 ** (64 - shift)`` entries."""
    return (at * _GOLDEN) >> shift


@kernel((V, V, V, V, N, N, U, V, V, V, V))
def meet_lists(
    ids: Array, ends: Array, other_ids: Array, other_ends: Array, base: int, span: int,
    table: Words, epoch: Array, opened: Array, found: Array, tally: Array,
) -> int:  # fmt: skip
    """Intersect two lists of ids per box by a hash table, into ``found``; overwrites ``ends``.

    ``found`` must have room for the shorter lists and one more id. ``epoch[0]`` numbers the
    fillings of ``table``, of which twice the shorter list is used, or the ``span`` of all ids if
    that is not much more: multiples of the golden ratio then hardly ever collide.
    """
    start, other, k, origin = 0, 0, u64(0), u64(base)
    for i in range(ends.size):
        stop, other_stop = ends[i], other_ends[i]
        few, many = stop - start, other_stop - other
        if few > 0 and many > 0:
            swapped = many < few
            put, look = (other_ids, ids) if swapped else (ids, other_ids)
            put_from, put_to = (other, other_stop) if swapped else (start, stop)
            look_from, look_to = (start, stop) if swapped else (other, other_stop)
            shift, size, count = u64(63), u64(2), put_to - put_from
            while size < u64(max(2 * count, min(span, 8 * count))):
                size <<= _ONE
                shift -= _ONE
            mask = size - _ONE
            epoch[0] += 1
            stamp = u64(epoch[0]) << u64(32)
            for p in range(u64(put_from), u64(put_to)):
                at = u64(put[p]) - origin
                place = slot_of(at, shift)
                while table[place] ^ stamp <= _LOW_HALF:
                    place = (place + _ONE) & mask
                table[place] = stamp | at
            tally[HASHED] += count
            for p in range(u64(look_from), u64(look_to)):
                number = look[p]
                entry = stamp | (u64(number) - origin)
                place = slot_of(u64(number) - origin, shift)
                held = table[place]
                # One branch, hardly ever taken: a hit or miss needs no branch.
                while (held != entry) & (held ^ stamp <= _LOW_HALF):
                    place = (place + _ONE) & mask
                    held = table[place]
                found[k] = number
                k += u64(held == entry)
        start, other = stop, other_stop
        opened[i] = i64(k) > (ends[i - 1] if i > 0 else 0)
        ends[i] = i64(k)
    return i64(k)


@kernel((V, V, N, V, N, V, V))
def emit_lists(
    ids: Array, ends: Array, first: int, cursor: Array, filled: int, positions: Array, rows: Array
) -> int:
    """Append ``(box, id)`` of lists from ``cursor`` (box, place) on; returns the new fill."""
    i, p = cursor[0], u64(cursor[1])
    k, room = u64(filled), u64(positions.size)
    while i < ends.size:
        stop = min(u64(ends[i]), p + room - k)
        for q in range(p, stop):
            positions[k] = first + i
            rows[k] = ids[q]
            k += _ONE
        p = stop
        if p < u64(ends[i]):
            break
        i += 1
    cursor[0] = i
    cursor[1] = i64(p)
    return i64(k)
