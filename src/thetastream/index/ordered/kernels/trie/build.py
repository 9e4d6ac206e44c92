"""Building and rebuilding the blocks of a radix trie: lists of rows, leaves, branches.

Each function leaves the slot valid. The caller ensures room for blocks (``roomy``), except for
``extend_list``, which can be retried after it has failed.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import NUMBER, inlined, kernel, vector
from thetastream._jit.intrinsics import count_bits, lowest_bit
from thetastream.index.ordered.kernels.trie.arena import (
    FULL_FROM,
    LINEAR_MOST,
    NEED,
    ROWS,
    TRIE,
    Trie,
    i64,
    release,
    take,
    u64,
    units_of,
)  # fmt: skip
from thetastream.index.ordered.kernels.trie.nodes import (
    BITMAP,
    BITS,
    EMPTY,
    FULL,
    LINEAR,
    MOST_ROWS,
    NONE,
    ONE,
    RUN,
    Bits,
    byte_of,
    count_of,
    form_of,
    head_of,
    level_of,
    list_count,
    list_log,
    list_of,
    list_start,
    log_of,
    one_head,
    prefix_of,
    room_of,
    run_values,
    run_words,
    suffix_at,
)

V, U = vector(1), vector(1, 64, "uint")
BITS_FROM, BITS_BACK = 25, 16  # entries from which a level 1 leaf is a bitmap, below which not
LINEAR_BACK, FULL_BACK = 2, 24  # children below the threshold at which a branch shrinks
_ONE = u64(1)


# --- Lists of rows -------------------------------------------------------------------------------


@kernel((TRIE, NUMBER, V, NUMBER, NUMBER))
def extend_list(t: Trie, value: int, ids: Array, start: int, stop: int) -> int:
    """Add the rows ``ids[start:stop]`` to a value; returns the new one.

    The value NONE starts a list. The result NONE means no room, and no change; NEED is -1 if the
    key would have too many rows.
    """
    have, log = 1, 0
    if value == NONE:
        have = 0
    elif value < 0:
        have, log = list_count(value), list_log(value)
    total = have + stop - start
    if total > MOST_ROWS:
        t.facts[NEED] = -1
        return NONE
    old, at = list_start(value), list_start(value)
    if value >= 0 or value == NONE or total > 1 << log:
        room = 1
        while total > 1 << room:
            room += 1
        at = take(t, 1 << (room - 1))
        if at < 0:
            return NONE
        if value >= 0:
            t.words[at] = value
        elif have:
            for i in range(have):
                t.words[at + i] = t.words[old + i]
            release(t, old, 1 << (log - 1))
        log = room
    for i in range(start, stop):
        t.words[at + have + i - start] = ids[i]
    t.facts[ROWS] += stop - start
    return list_of(at >> 1, total, log)


# --- Leaves --------------------------------------------------------------------------------------


@inlined
def run_room(units: int, log: int) -> int:
    """The capacity of a run of ``units``, in entries."""
    room = 16 * units // (8 + (1 << log))
    while run_words(room, log) > 2 * units:
        room -= 1
    return min(room, 0xFFFF)


@inlined
def leaf_form(level: int, count: int) -> int:
    """The form of a new leaf."""
    if count == 1 and level < 8:
        return ONE
    return BITS if level == 1 and count >= BITS_FROM else RUN


@inlined
def leaf_units(form: int, level: int, count: int) -> int:
    """The size of the block of a new leaf; 0 without a block."""
    if form == ONE:
        return 0
    return units_of(4 + count if form == BITS else run_words(count, log_of(level)))


@inlined
def write_suffix(t: Trie, at: int, log: int, place: int, key: int) -> None:
    """Write the suffix of a key to a place of a run."""
    base = (at << (3 - log)) + place
    if log == 1:
        t.pairs[base] = np.uint16(key & u64(0xFFFF))
    elif log == 0:
        t.octets[base] = np.uint8(key & u64(0xFF))
    elif log == 2:
        t.quads[base] = np.uint32(key & u64(0xFFFFFFFF))
    else:
        t.bits[base] = key


@kernel((TRIE, NUMBER, NUMBER, U, V, NUMBER, NUMBER))
def make_leaf(
    t: Trie, slot: int, level: int, keys: Bits, values: Array, start: int, stop: int
) -> None:
    """Build a leaf of ascending keys and their values in a slot, which is overwritten."""
    count = stop - start
    form = leaf_form(level, count)
    if form == ONE:
        t.bits[slot] = one_head(level, keys[start])
        t.words[slot + 1] = values[start]
        return
    units = leaf_units(form, level, count)
    at, lists = take(t, units), 0
    for i in range(start, stop):
        lists |= values[i] < 0
    if form == BITS:
        for i in range(4):
            t.words[at + i] = 0
        for i in range(start, stop):
            byte = byte_of(keys[i], 1)
            t.bits[at + (byte >> 6)] |= _ONE << u64(byte & 63)
            t.words[at + 4 + i - start] = values[i]
        room = min(256, 2 * units - 4)
    else:
        log = log_of(level)
        room = run_room(units, log)
        to = run_values(at, room, log) - start
        for i in range(start, stop):
            write_suffix(t, at, log, i - start, keys[i])
            t.words[to + i] = values[i]
    t.bits[slot] = head_of(form, lists, level, count, room)
    t.words[slot + 1] = at


@inlined
def copy_entries(t: Trie, head: int, body: int, prefix: int, keys: Bits, values: Array) -> int:
    """Write the keys, which start with ``prefix``, and values of a leaf; returns how many."""
    form = form_of(head)
    if form == ONE:
        keys[0] = prefix | (head >> u64(8))
        values[0] = body
        return 1
    count, log = count_of(head), log_of(level_of(head))
    if form == BITS:
        i = 0
        for word in range(4):
            bits = t.bits[body + word]
            while bits:
                keys[i] = prefix | u64(64 * word) | lowest_bit(bits)
                values[i] = t.words[body + 4 + i]
                bits &= bits - _ONE
                i += 1
        return count
    at = run_values(body, room_of(head), log)
    for i in range(count):
        keys[i] = prefix | suffix_at(t, body, log, i)
        values[i] = t.words[at + i]
    return count


@inlined
def drop_block(t: Trie, head: int, body: int) -> None:
    """Release the block of a slot that is about to be overwritten."""
    form = form_of(head)
    if form == RUN:
        release(t, body, units_of(run_words(room_of(head), log_of(level_of(head)))))
    elif form == BITS:
        release(t, body, units_of(4 + room_of(head)))
    elif form >= LINEAR:
        release(t, body, branch_units(form, room_of(head)))


# --- Branches ------------------------------------------------------------------------------------


@inlined
def branch_units(form: int, room: int) -> int:
    """The size of a branch with room for ``room`` children."""
    return units_of(2 * room + (6 if form == BITMAP else 2))


@inlined
def set_of(t: Trie, head: int, node: int, out: Bits) -> int:
    """Write the bytes of the children of a branch as 256 bits; returns their number."""
    form = form_of(head)
    for word in range(4):
        out[word] = u64(0)
        if form == BITMAP:
            out[word] = t.bits[node + 2 + word]
    if form == LINEAR:
        for i in range(count_of(head)):
            byte = i64((t.bits[node + 1] >> u64(8 * i)) & u64(255))
            out[byte >> 6] |= _ONE << u64(byte & 63)
    if form == FULL:
        for byte in range(256):
            if form_of(t.bits[node + 2 + 2 * byte]) != EMPTY:
                out[byte >> 6] |= _ONE << u64(byte & 63)
    return count_of(head)


@inlined
def write_bytes(t: Trie, form: int, node: int, of: Bits) -> None:
    """Write the words of a branch that list its children."""
    if form == LINEAR:
        bytes_, i = u64(0), 0
        for word in range(4):
            bits = of[word]
            while bits:
                bytes_ |= (u64(64 * word) | lowest_bit(bits)) << u64(8 * i)
                bits &= bits - _ONE
                i += 1
        t.bits[node + 1] = bytes_
    elif form == BITMAP:
        ranks, below_ = u64(0), 0
        for word in range(4):
            ranks |= u64(below_) << u64(8 * word)
            below_ += count_bits(of[word])
            t.bits[node + 2 + word] = of[word]
        t.bits[node + 1] = ranks
    else:
        t.bits[node + 1] = u64(0)


@inlined
def _new_form(t: Trie, count: int) -> int:
    if count <= t.facts[LINEAR_MOST]:
        return LINEAR
    return FULL if count >= t.facts[FULL_FROM] else BITMAP


@inlined
def branch_room(form: int, count: int) -> int:
    """The capacity of a new branch: somewhat more than its children."""
    if form == FULL:
        return 256
    if form == LINEAR:
        return min(8, count + (count > 2))
    return min(256, units_of(2 * (count + (count >> 3)) + 6) - 3)


@kernel((TRIE, NUMBER, NUMBER, NUMBER, U, U))
def make_branch(t: Trie, slot: int, level: int, count: int, prefix: Bits, of: Bits) -> None:
    """Build a branch with ``count`` EMPTY children in a slot, which is overwritten.

    ``of`` holds their bytes, ``prefix[0]`` any key of its place.
    """
    form = _new_form(t, count)
    room = branch_room(form, count)
    node = take(t, branch_units(form, room))
    start = node + (6 if form == BITMAP else 2)
    for i in range(start, start + 2 * room):
        t.words[i] = 0
    t.bits[node] = prefix_of(prefix[0], level)
    write_bytes(t, form, node, of)
    t.bits[slot] = head_of(form, 0, level, count, room)
    t.words[slot + 1] = node


@kernel((TRIE, NUMBER, U, U))
def add_bytes(t: Trie, slot: int, more: Bits, of: Bits) -> None:
    """Add EMPTY children to a branch for the bytes in ``more`` that it lacks; ``of`` is scratch.

    Slots move from the last to the first, so they may stay in their block.
    """
    head, node = t.bits[slot], t.words[slot + 1]
    form, room = form_of(head), room_of(head)
    have = set_of(t, head, node, of)
    count = 0
    for word in range(4):
        more[word] |= of[word]
        count += count_bits(more[word])
    if count == have:
        return
    new_form, new_room, at = form, room, node
    if count > (t.facts[LINEAR_MOST] if form == LINEAR else room) or count > room:
        new_form = _new_form(t, count)
        new_form = max(form, new_form)
        new_room = branch_room(new_form, count)
        at = take(t, branch_units(new_form, new_room))
    elif form == BITMAP and count >= t.facts[FULL_FROM]:
        new_form, new_room = FULL, 256
        at = take(t, branch_units(FULL, 256))
    t.bits[at] = t.bits[node]
    old = node + (6 if form == BITMAP else 2) + 2 * have
    to = at + (6 if new_form == BITMAP else 2) + 2 * count
    if form != FULL:
        for byte in range(255, -1, -1):
            word, bit = byte >> 6, _ONE << u64(byte & 63)
            if new_form == FULL:
                to = at + 2 + 2 * byte + 2
                t.words[to - 2] = 0
                t.words[to - 1] = 0
            if more[word] & bit:
                to -= 2
                if of[word] & bit:
                    old -= 2
                    t.words[to] = t.words[old]
                    t.words[to + 1] = t.words[old + 1]
                else:
                    t.words[to] = 0
                    t.words[to + 1] = 0
    write_bytes(t, new_form, at, more)
    if at != node:
        release(t, node, branch_units(form, room))
    t.bits[slot] = head_of(new_form, 0, level_of(head), count, new_room)
    t.words[slot + 1] = at


@kernel((TRIE, NUMBER, NUMBER, NUMBER, U, V, U))
def split_leaf(
    t: Trie, slot: int, level: int, count: int, keys: Bits, values: Array, of: Bits
) -> None:
    """Build a branch of a level from ``count`` entries, with leaves as children."""
    for word in range(4):
        of[word] = u64(0)
    for i in range(count):
        byte = byte_of(keys[i], level)
        of[byte >> 6] |= _ONE << u64(byte & 63)
    children = 0
    for word in range(4):
        children += count_bits(of[word])
    make_branch(t, slot, level, children, keys, of)
    node, form = t.words[slot + 1], form_of(t.bits[slot])
    i, place = 0, node + (6 if form == BITMAP else 2)
    while i < count:
        byte, start = byte_of(keys[i], level), i
        while i < count and byte_of(keys[i], level) == byte:
            i += 1
        if form == FULL:
            place = node + 2 + 2 * byte
        make_leaf(t, place, level - 1, keys, values, start, i)
        place += 2
