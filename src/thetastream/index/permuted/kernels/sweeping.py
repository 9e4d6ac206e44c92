"""Bit arrays of PO-Join: filled for a box, or swept from box to box.

SPO-Join, Section 3.4; Khayyat et al., IEJoin (VLDB Journal 2017). The rows inside one interval of a
box have their bits set, at their positions in the order of another column; the bits inside the
other interval are read. From box to box only the difference is set or cleared. A second bit array
says which words of the first are not 0, so one word covers 64 words, or 4,096 rows.

    swept: first column, places 0 … 3 are inside          bits, by rank in the second column
    ranks  5  2  7  0 │ 3  6  1  4                        1 0 1 0 0 1 0 1
                                  box has ranks 2 … 5:        └─────┘    → rank 2 and rank 5

A further column may be swept beside another that is not the first: both have their bits by place,
and are intersected word by word. Other columns are checked on the candidates.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import M, N, V, inlined, kernel, vector
from thetastream._jit.intrinsics import lowest_bit
from thetastream.index.permuted.kernels import pojoin
from thetastream.index.permuted.kernels.permute import Places
from thetastream.index.permuted.kernels.pojoin import PLACES

SETS = vector(2, 64, "uint")


@inlined
def set_bits(values: Places, start: int, stop: int, bits: Words, words: Words) -> None:
    """Set the bits of rows ``[start, stop)``."""
    one, six, low = u64(1), u64(6), u64(63)
    for i in range(u64(start), u64(stop)):
        at = u64(values[i])
        word = at >> six
        held = bits[word]
        bits[word] = held | one << (at & low)
        if held == 0:
            words[word >> six] |= one << (word & low)


@inlined
def clear_bits(values: Places, start: int, stop: int, bits: Words, words: Words) -> None:
    """Clear the bits of rows ``[start, stop)``."""
    one, six, low = u64(1), u64(6), u64(63)
    for i in range(u64(start), u64(stop)):
        at = u64(values[i])
        word = at >> six
        left = bits[word] & ~(one << (at & low))
        bits[word] = left
        if left == 0:
            words[word >> six] &= ~(one << (word & low))


@inlined
def move(values: Places, held: Array, start: int, stop: int, bits: Words, words: Words) -> int:
    """Move the set bits from interval ``held`` to ``[start, stop)``; returns how many were set."""
    low, high = held[0], held[1]
    if start >= high or stop <= low:
        clear_bits(values, low, high, bits, words)
        low, high = start, start
    set_bits(values, start, max(low, start), bits, words)
    set_bits(values, high, max(high, stop), bits, words)
    clear_bits(values, low, max(low, start), bits, words)
    clear_bits(values, stop, max(stop, high), bits, words)
    held[0], held[1] = start, stop
    return max(0, low - start) + max(0, stop - high)


@inlined
def next_word(words: Words, word: np.uint64, end: np.uint64) -> np.uint64:
    """The first word from ``word`` on, up to ``end``, that is not 0; ``end`` if there is none."""
    one, six, low = u64(1), u64(6), u64(63)
    if word >= end:
        return end
    group, last = word >> six, (end - one) >> six
    some = words[group] >> (word & low) << (word & low)
    while some == 0:
        if group == last:
            return end
        group += one
        some = words[group]
    return min(end, (group << six) + lowest_bit(some))


@kernel((V, PLACES, PLACES, M, M, V, N, N, N, SETS, SETS, V, N, V, V))
def sweep(
    ids: Array, places: Places, ranks: Places, starts: Array, stops: Array, order: Array,
    column: int, further: int, before: int, bits: Words, words: Words, state: Array, filled: int,
    positions: Array, rows: Array,
) -> int:  # fmt: skip
    """Append ``(box, id)`` of the rows inside each box, by bits. Boxes are taken in ``order``.

    ``column`` 0: fill places, read ranks of column 1. Another: fill its ranks, read places. -1
    (*fill*): use the narrowest column, and clear all bits after each box. A ``further`` column (0:
    none) is swept beside one that is not the first, and the bits are intersected word by word;
    other columns are checked row by row.
    """
    one, six, low_bits = u64(1), u64(6), u64(63)
    full = ~u64(0)
    k, room = u64(filled), u64(positions.size)
    swept, beside = state[pojoin.HELD : pojoin.HELD + 2], state[pojoin.HELD_2 : pojoin.HELD_2 + 2]
    turn = state[pojoin.BOX]
    while turn < order.size:
        box = u64(order[u64(turn)])
        if pojoin.empty(starts, stops, box):
            turn += 1
            continue
        by = pojoin.narrowest(starts, stops, box) if column < 0 else u64(column)
        along = by == u64(0)
        values = ranks[0] if along else places[by - one]
        read = one if along else u64(0)
        start, stop = u64(starts[read, box]), u64(stops[read, box])
        if state[pojoin.AT] < 0:
            edges = starts[by, box], stops[by, box]
            state[pojoin.SET] += move(values, swept, edges[0], edges[1], bits[0], words[0])
            if further > 0:
                low, high = starts[further, box], stops[further, box]
                state[pojoin.SET] += move(places[further - 1], beside, low, high, bits[1], words[1])
        else:
            start = u64(state[pojoin.AT])
            state[pojoin.AT] = -1
        end = (stop + low_bits) >> six
        word = next_word(words[0], start >> six, end)
        while word < end:
            state[pojoin.READ] += 1
            found = bits[0, word]
            if further > 0:
                found &= bits[1, word]
            if word == start >> six:
                found &= full << (start & low_bits)
            if word == stop >> six:
                found &= (one << (stop & low_bits)) - one
            while found != 0:
                at = (word << six) + lowest_bit(found)
                place = u64(places[0, at]) if along else at
                if k == room:
                    state[pojoin.BOX], state[pojoin.AT] = turn, i64(at)
                    return i64(k)
                found &= found - one
                row = ids[place]
                good = row >= before and pojoin.inside(ranks, place, starts, stops, box, by)
                positions[k] = box
                rows[k] = row
                k += u64(good)
            word = next_word(words[0], word + one, end)
        if column < 0:
            clear_bits(values, swept[0], swept[1], bits[0], words[0])
            swept[0], swept[1] = 0, 0
        turn += 1
    state[pojoin.BOX] = turn
    return i64(k)


@kernel((M, M, V, N, V))
def travel(starts: Array, stops: Array, order: Array, column: int, moves: Array) -> int:
    """How many bits a sweep of a column sets and clears, in an order and in its reverse."""
    c = u64(column)
    low, high, last = 0, 0, 0
    forth, back = 0, 0
    for turn in range(order.size):
        box = u64(order[u64(turn)])
        if pojoin.empty(starts, stops, box):
            continue
        start, stop = starts[c, box], stops[c, box]
        if start >= high or stop <= low:
            forth += high - low + stop - start
            back += 0 if last == 0 else high - low + stop - start
        else:
            step = abs(start - low) + abs(stop - high)
            forth += step
            back += step
        low, high, last = start, stop, 1
    moves[0] = forth
    moves[1] = back + high - low
    return forth
