"""Reading key ranges of a radix trie: the walk, the scan, the mapper, and first/next.

The walk visits the leaves of a range in key order, without recursion: per branch on the path it
keeps the slot, the next byte and the last byte. Only the children at the two edges of the range are
compared with its bounds; in between the walk just goes from leaf to leaf (Ordered Indexing, Section
3.2, Listing 2; there the prefix is carried along, here branches store it).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import NUMBER, inlined, kernel, vector
from thetastream._jit.intrinsics import lowest_bit
from thetastream.index.kernels.fold import fold_rows
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie, i64, u64
from thetastream.index.ordered.kernels.trie.nodes import (
    BITMAP,
    BITS,
    EMPTY,
    FULL,
    LINEAR,
    ONE,
    Bits,
    below,
    bound,
    byte_of,
    child_slot,
    count_of,
    form_of,
    level_of,
    list_count,
    list_start,
    log_of,
    prefix_of,
    rank,
    room_of,
    run_values,
    suffix_at,
)

Values = NDArray[Any]
LEVEL = 4  # words per branch on the path: slot, next byte, last byte, edges
WALK = 4 + 9 * LEVEL
# ``walk``: depth (-1: not begun), and of the leaf: first and last entry (half open), its byte.
DEPTH, FROM, TO, BYTE = 0, 1, 2, 3
LEFT, RIGHT = 1, 2
_ONE = u64(1)
V, U = vector(1), vector(1, 64, "uint")


@inlined
def _next_byte(t: Trie, head: int, node: int, byte: int) -> int:
    """The first byte from this one on with a child, or 256."""
    form = form_of(head)
    if form == FULL:
        while byte < 256 and form_of(t.bits[node + 2 + 2 * byte]) == EMPTY:
            byte += 1
        return byte
    if form == BITMAP:
        word = byte >> 6
        if word > 3:
            return 256
        bits = t.bits[node + 2 + word] >> u64(byte & 63)
        if bits:
            return byte + i64(lowest_bit(bits))
        word += 1
        while word < 4:
            bits = t.bits[node + 2 + word]
            if bits:
                return 64 * word + i64(lowest_bit(bits))
            word += 1
        return 256
    for i in range(count_of(head)):
        there = i64((t.bits[node + 1] >> u64(8 * i)) & u64(255))
        if there >= byte:
            return there
    return 256


@inlined
def _inside(t: Trie, slot: int, head: int, edges: int, low: int, high: int, walk: Array) -> bool:
    """Set FROM and TO to the entries of a leaf in the range; returns whether there are any."""
    form, body, level = form_of(head), t.words[slot + 1], level_of(head)
    if form == ONE:
        own = head >> u64(8)
        walk[FROM] = i64((edges & LEFT) != 0 and own < below(low, level))
        walk[TO] = i64(not ((edges & RIGHT) != 0 and own > below(high, level)))
        return walk[FROM] < walk[TO]
    count, log = count_of(head), log_of(level)
    walk[FROM], walk[TO] = 0, count
    if form == BITS:
        if edges & LEFT:
            walk[FROM] = rank(t.bits, body, byte_of(low, 1))
        if edges & RIGHT:
            byte = byte_of(high, 1)
            walk[TO] = rank(t.bits, body, byte)
            walk[TO] += i64((t.bits[body + (byte >> 6)] >> u64(byte & 63)) & _ONE)
    else:
        if edges & LEFT:
            walk[FROM] = bound(t, body, log, 0, count, low)
        if edges & RIGHT:
            last = bound(t, body, log, walk[FROM], count, high)
            if last < count and below(suffix_at(t, body, log, last) ^ high, level) == u64(0):
                last += 1
            walk[TO] = last
    return walk[FROM] < walk[TO]


@inlined
def _enter(t: Trie, slot: int, head: int, edges: int, low: int, high: int, walk: Array) -> None:
    """Put a branch on the path, unless its prefix is outside the range."""
    own, prefix = level_of(head), t.bits[t.words[slot + 1]]
    if edges & LEFT:
        edge = prefix_of(low, own) if own < 8 else u64(0)
        if prefix < edge:
            return
        if prefix > edge:
            edges &= ~LEFT
    if edges & RIGHT:
        edge = prefix_of(high, own) if own < 8 else u64(0)
        if prefix > edge:
            return
        if prefix < edge:
            edges &= ~RIGHT
    at = 4 + LEVEL * walk[DEPTH]
    walk[at] = slot
    walk[at + 1] = byte_of(low, own) if edges & LEFT else 0
    walk[at + 2] = byte_of(high, own) if edges & RIGHT else 255
    walk[at + 3] = edges
    walk[DEPTH] += 1


@inlined
def advance(t: Trie, low: int, high: int, walk: Array) -> int:
    """The slot of the next leaf with keys in the range, or -1 at the end."""
    if walk[DEPTH] < 0:
        walk[DEPTH], walk[BYTE] = 0, -1
        head = t.bits[0]
        if form_of(head) >= LINEAR:
            _enter(t, 0, head, LEFT | RIGHT, low, high, walk)
        elif form_of(head) != EMPTY and _inside(t, 0, head, LEFT | RIGHT, low, high, walk):
            return 0
    while walk[DEPTH]:
        at = 4 + LEVEL * (walk[DEPTH] - 1)
        above = t.bits[walk[at]]
        node, own = t.words[walk[at] + 1], level_of(above)
        byte = _next_byte(t, above, node, walk[at + 1])
        if byte > walk[at + 2]:
            walk[DEPTH] -= 1
            continue
        walk[at + 1] = byte + 1
        edges = walk[at + 3]
        if edges & LEFT and byte != byte_of(low, own):
            edges &= ~LEFT
        if edges & RIGHT and byte != byte_of(high, own):
            edges &= ~RIGHT
        slot = child_slot(t, above, node, byte)
        head = t.bits[slot]
        if form_of(head) >= LINEAR:
            _enter(t, slot, head, edges, low, high, walk)
        elif _inside(t, slot, head, edges, low, high, walk):
            walk[BYTE] = byte
            return slot
    return -1


@inlined
def _prefix(t: Trie, walk: Array) -> int:
    """The bytes that all keys of the leaf share, from the branch above it."""
    if walk[BYTE] < 0:
        return u64(0)
    slot = walk[4 + LEVEL * (walk[DEPTH] - 1)]
    own = level_of(t.bits[slot])
    return t.bits[t.words[slot + 1]] | (u64(walk[BYTE]) << u64(8 * (own - 1)))


@inlined
def _first_value(t: Trie, slot: int, head: int) -> int:
    """Where the values of a leaf start."""
    form = form_of(head)
    if form == ONE:
        return slot + 1
    if form == BITS:
        return t.words[slot + 1] + 4
    return run_values(t.words[slot + 1], room_of(head), log_of(level_of(head)))


@inlined
def _bit_at(t: Trie, at: int, place: int) -> int:
    """The byte of an entry of a bitmap leaf."""
    word, bits = at, t.bits[at]
    skip = place
    while True:
        while bits and skip:
            bits &= bits - _ONE
            skip -= 1
        if bits:
            return u64(64 * (word - at)) | lowest_bit(bits)
        word += 1
        bits = t.bits[word]


@inlined
def _key_at(t: Trie, slot: int, head: int, prefix: int, place: int) -> int:
    """The key of an entry of a leaf."""
    form = form_of(head)
    if form == ONE:
        return prefix | (head >> u64(8))
    if form == BITS:
        return prefix | _bit_at(t, t.words[slot + 1], place)
    return prefix | suffix_at(t, t.words[slot + 1], log_of(level_of(head)), place)


@kernel((TRIE, U, U, NUMBER, V, U, V, V, U, V))
def read_boxes(
    t: Trie, lows: Bits, highs: Bits, before: int, cursor: Array, cursor_key: Bits, walk: Array,
    positions: Array, keys: Bits, ids: Array,
) -> int:  # fmt: skip
    """The scan: box, key and id of rows, in order, from the cursor on, until the arrays are full.

    ``cursor_key`` is ``cursor`` viewed as unsigned; see ``OrderedIndex._read``.
    """
    filled, room = 0, positions.size
    while cursor[0] < lows.size:
        box, low, skip = cursor[0], lows[cursor[0]], 0
        if cursor[2] >= 0:
            low, skip = cursor_key[1], cursor[2]
        high = highs[box]
        walk[DEPTH] = -1
        slot = i64(-1)
        if low <= high:
            slot = advance(t, low, high, walk)
        while slot >= 0:
            head, prefix = t.bits[slot], _prefix(t, walk)
            at = _first_value(t, slot, head)
            for place in range(walk[FROM], walk[TO]):
                value = t.words[at + place]
                begin, end = at + place, at + place + 1
                if value < 0:
                    begin = list_start(value)
                    end = begin + list_count(value)
                if filled + end - begin > room or keys.size:
                    key = _key_at(t, slot, head, prefix, place)
                    for i in range(begin + skip, end):
                        if filled == room:
                            cursor_key[1] = key
                            cursor[2] = i - begin
                            return filled
                        positions[filled] = box
                        ids[filled] = t.words[i]
                        if keys.size:
                            keys[filled] = key
                        filled += t.words[i] >= before
                else:
                    for i in range(begin + skip, end):
                        positions[filled] = box
                        ids[filled] = t.words[i]
                        filled += t.words[i] >= before
                skip = 0
            slot = advance(t, low, high, walk)
        cursor[0] += 1
        cursor[1] = 0
        cursor[2] = -1
    return filled


_FOLDS = tuple(
    (TRIE, U, U, NUMBER, V, unit, NUMBER, vector(1, 8, "uint"), V, unit, unit, unit, unit)
    for unit in (vector(1), vector(1, 64, "float"))
)


@kernel(*_FOLDS)
def fold_boxes(
    t: Trie, lows: Bits, highs: Bits, before: int, walk: Array,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """The mapper: add the rows of each box that are not below ``before`` (at least 0).

    The values of a leaf are adjacent. Lists among them are negative, so they are skipped as if
    expired, and then added one by one.
    """
    for box in range(lows.size):
        low, high = lows[box], highs[box]
        walk[DEPTH] = -1
        slot = i64(-1)
        if low <= high:
            slot = advance(t, low, high, walk)
        while slot >= 0:
            head = t.bits[slot]
            at = _first_value(t, slot, head)
            start, stop = at + walk[FROM], at + walk[TO]
            place, end = stop, stop
            if form_of(head) == ONE or head & u64(8):
                place = start
            while True:
                fold_rows(
                    t.words, start, stop, before, box, values, first, valid,
                    counts, totals, carries, least, greatest,
                )  # fmt: skip
                while place < end and t.words[place] >= 0:
                    place += 1
                if place == end:
                    break
                start = list_start(t.words[place])
                stop = start + list_count(t.words[place])
                place += 1
            slot = advance(t, low, high, walk)


@kernel(*_FOLDS)
def fold_by_next(
    t: Trie, lows: Bits, highs: Bits, before: int, walk: Array,
    values: Values, first: int, valid: Values,
    counts: Array, totals: Values, carries: Values, least: Values, greatest: Values,
) -> None:  # fmt: skip
    """The mapper by first/next: searches every key from the root, like libJudy."""
    for box in range(lows.size):
        low, high = lows[box], highs[box]
        while low <= high:
            walk[DEPTH] = -1
            slot = advance(t, low, high, walk)
            if slot < 0:
                break
            head, place = t.bits[slot], walk[FROM]
            start = _first_value(t, slot, head) + place
            stop, value = start + 1, t.words[start]
            if value < 0:
                start = list_start(value)
                stop = start + list_count(value)
            fold_rows(
                t.words, start, stop, before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            key = _key_at(t, slot, head, _prefix(t, walk), place)
            if key == high:
                break
            low = key + u64(1)
