"""Reading key ranges of a radix trie: the walk, the scan, the mapper, and first/next.

The walk visits the leaves of a range in key order, without recursion: per branch on the path it
keeps the slot, the next byte and the last byte. Only the children at the two edges of the range are
compared with its bounds; in between the walk just goes from leaf to leaf (Ordered Indexing, Section
3.2, Listing 2; there the prefix is carried along, here branches store it).
"""

from __future__ import annotations

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import N, U, V, inlined, kernel
from thetastream._jit.intrinsics import lowest_bit
from thetastream.index.kernels.fold import FOLD_TYPES, Values, fold_rows
from thetastream.index.ordered.kernels.trie import nodes
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie

LEVEL = 4  # words per branch on the path: slot, next byte, last byte, edges
WALK = 4 + 9 * LEVEL
# ``walk``: depth (-1: not begun), and of the leaf: first and last entry (half open), its byte.
DEPTH, FROM, TO, BYTE = 0, 1, 2, 3
LEFT, RIGHT = 1, 2


@inlined
def _next_byte(t: Trie, head: int, node: int, byte: int) -> int:
    """The first byte from this one on with a child, or 256."""
    form = nodes.form_of(head)
    if form == nodes.FULL:
        while byte < 256 and nodes.form_of(t.bits[node + 2 + 2 * byte]) == nodes.EMPTY:
            byte += 1
        return byte
    if form == nodes.BITMAP:
        while byte < 256:
            bits = t.bits[node + 2 + (byte >> 6)] >> u64(byte & 63)
            if bits:
                return byte + i64(lowest_bit(bits))
            byte = (byte | 63) + 1
        return 256
    for i in range(nodes.count_of(head)):
        there = nodes.linear_byte(t.bits[node + 1], i)
        if there >= byte:
            return there
    return 256


@inlined
def _inside(t: Trie, slot: int, head: int, edges: int, low: int, high: int, walk: Array) -> bool:
    """Set FROM and TO to the entries of a leaf in the range; returns whether there are any."""
    form, body, level = nodes.form_of(head), t.words[slot + 1], nodes.level_of(head)
    if form == nodes.ONE:
        own = head >> u64(8)
        walk[FROM] = i64((edges & LEFT) != 0 and own < nodes.below(low, level))
        walk[TO] = i64(not ((edges & RIGHT) != 0 and own > nodes.below(high, level)))
        return walk[FROM] < walk[TO]
    count, log = nodes.count_of(head), nodes.log_of(level)
    walk[FROM], walk[TO] = 0, count
    if form == nodes.BITS:
        if edges & LEFT:
            walk[FROM] = nodes.rank(t.bits, body, nodes.byte_of(low, 1))
        if edges & RIGHT:
            byte = nodes.byte_of(high, 1)
            walk[TO] = nodes.rank(t.bits, body, byte) + nodes.has_byte(t.bits, body, byte)
    else:
        if edges & LEFT:
            walk[FROM] = nodes.bound(t, body, log, 0, count, low)
        if edges & RIGHT:
            last = nodes.bound(t, body, log, walk[FROM], count, high)
            if last < count and not nodes.below(nodes.suffix_at(t, body, log, last) ^ high, level):
                last += 1
            walk[TO] = last
    return walk[FROM] < walk[TO]


@inlined
def _enter(t: Trie, slot: int, head: int, edges: int, low: int, high: int, walk: Array) -> None:
    """Put a branch on the path, unless its prefix is outside the range."""
    own, prefix = nodes.level_of(head), t.bits[t.words[slot + 1]]
    if edges & LEFT:
        edge = nodes.prefix_of(low, own) if own < 8 else u64(0)
        if prefix < edge:
            return
        if prefix > edge:
            edges &= ~LEFT
    if edges & RIGHT:
        edge = nodes.prefix_of(high, own) if own < 8 else u64(0)
        if prefix > edge:
            return
        if prefix < edge:
            edges &= ~RIGHT
    at = 4 + LEVEL * walk[DEPTH]
    walk[at] = slot
    walk[at + 1] = nodes.byte_of(low, own) if edges & LEFT else 0
    walk[at + 2] = nodes.byte_of(high, own) if edges & RIGHT else 255
    walk[at + 3] = edges
    walk[DEPTH] += 1


@inlined
def advance(t: Trie, low: int, high: int, walk: Array) -> int:
    """The slot of the next leaf with keys in the range, or -1 at the end."""
    if walk[DEPTH] < 0:
        walk[DEPTH], walk[BYTE] = 0, -1
        head = t.bits[0]
        if nodes.form_of(head) >= nodes.LINEAR:
            _enter(t, 0, head, LEFT | RIGHT, low, high, walk)
        elif nodes.form_of(head) != nodes.EMPTY and _inside(
            t, 0, head, LEFT | RIGHT, low, high, walk
        ):
            return 0
    while walk[DEPTH]:
        at = 4 + LEVEL * (walk[DEPTH] - 1)
        above = t.bits[walk[at]]
        node, own = t.words[walk[at] + 1], nodes.level_of(above)
        byte = _next_byte(t, above, node, walk[at + 1])
        if byte > walk[at + 2]:
            walk[DEPTH] -= 1
            continue
        walk[at + 1] = byte + 1
        edges = walk[at + 3]
        if edges & LEFT and byte != nodes.byte_of(low, own):
            edges &= ~LEFT
        if edges & RIGHT and byte != nodes.byte_of(high, own):
            edges &= ~RIGHT
        slot = nodes.child_slot(t, above, node, byte)
        head = t.bits[slot]
        if nodes.form_of(head) >= nodes.LINEAR:
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
    own = nodes.level_of(t.bits[slot])
    return t.bits[t.words[slot + 1]] | (u64(walk[BYTE]) << u64(8 * (own - 1)))


@inlined
def _first_value(t: Trie, slot: int, head: int) -> int:
    """Where the values of a leaf start."""
    form = nodes.form_of(head)
    if form == nodes.ONE:
        return slot + 1
    if form == nodes.BITS:
        return t.words[slot + 1] + 4
    return nodes.run_values(
        t.words[slot + 1], nodes.room_of(head), nodes.log_of(nodes.level_of(head))
    )


@inlined
def _key_at(t: Trie, slot: int, head: int, prefix: int, place: int) -> int:
    """The key of an entry of a leaf."""
    form = nodes.form_of(head)
    if form == nodes.ONE:
        return prefix | (head >> u64(8))
    if form == nodes.BITS:
        return prefix | nodes.nth_byte(t.bits, t.words[slot + 1], place)
    return prefix | nodes.suffix_at(t, t.words[slot + 1], nodes.log_of(nodes.level_of(head)), place)


@kernel((TRIE, U, U, N, V, U, V, V, U, V))
def read_boxes(
    t: Trie, lows: Words, highs: Words, before: int, cursor: Array, cursor_key: Words, walk: Array,
    positions: Array, keys: Words, ids: Array,
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
                    begin = nodes.list_start(value)
                    end = begin + nodes.list_count(value)
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


@kernel(*((TRIE, U, U, N, V, *fold) for fold in FOLD_TYPES))
def fold_boxes(
    t: Trie, lows: Words, highs: Words, before: int, walk: Array,
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
            if nodes.form_of(head) == nodes.ONE or head & u64(8):
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
                start = nodes.list_start(t.words[place])
                stop = start + nodes.list_count(t.words[place])
                place += 1
            slot = advance(t, low, high, walk)


@kernel(*((TRIE, U, U, N, V, *fold) for fold in FOLD_TYPES))
def fold_by_next(
    t: Trie, lows: Words, highs: Words, before: int, walk: Array,
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
                start = nodes.list_start(value)
                stop = start + nodes.list_count(value)
            fold_rows(
                t.words, start, stop, before, box, values, first, valid,
                counts, totals, carries, least, greatest,
            )  # fmt: skip
            key = _key_at(t, slot, head, _prefix(t, walk), place)
            if key == high:
                break
            low = key + u64(1)
